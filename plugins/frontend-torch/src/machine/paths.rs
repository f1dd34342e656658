//! What the program's values are to conditions and loops: variables, and places that outlive a block.

use super::form::Form;
use super::journal::{Block, Place};
use super::{Item, Machine, NumberKind, Result, is_raised};
use crate::aten::Source;
use crate::diag::Diagnostic;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::ValueType;
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::lower::flow::{Paths, Values};
use std::rc::Rc;

/// Variables and their values.
pub(crate) type Variables = Vec<(Rc<str>, Item)>;

/// Where a value goes after a condition or loop.
#[derive(Clone)]
pub(crate) enum Slot {
    Variable(Rc<str>),
    Place(Place),
}

impl PartialEq for Slot {
    fn eq(&self, other: &Slot) -> bool {
        match (self, other) {
            (Slot::Variable(name), Slot::Variable(other)) => name == other,
            (Slot::Place(place), Slot::Place(other)) => place.is(other),
            _ => false,
        }
    }
}

impl Machine<'_> {
    /// What the innermost block gives: variables, and the places that it changed, as they are now.
    pub(super) fn given(
        &self,
        variables: Variables,
        refined: &dyn Fn(&Item) -> Item,
    ) -> Result<Values<Self>> {
        let settled = |item: &Item| self.settled(&refined(item));
        let variable = |(name, item): (Rc<str>, Item)| Ok((Slot::Variable(name), settled(&item)?));
        let mut values = variables.into_iter().map(variable).collect::<Result<Values<Self>>>()?;
        for place in self.changed() {
            let item = settled(&self.get(&place))?;
            values.push((Slot::Place(place), item));
        }
        Ok(values)
    }
}

impl Paths for Machine<'_> {
    type Source = Source;
    type Key = Slot;
    type Item = Item;
    type Form = Form;
    type Block = Block;

    fn driver(&self) -> &Driver<'_, Source> {
        &self.driver
    }

    fn fixed(&self, item: Item) -> Form {
        Form::Fixed(item)
    }

    fn form_of(&self, item: &Item) -> Result<Form> {
        self.form(item)
    }

    fn widened(&self, form: Form, item: &Item) -> Result<Form> {
        self.wider(form, item)
    }

    fn types(&self, form: &Form) -> Vec<ValueType> {
        let mut types = vec![];
        self.packed_types(form, &mut types);
        types
    }

    fn packed(&self, form: &Form, item: &Item) -> Result<Vec<Var>> {
        let mut packed = vec![];
        self.pack(form, item, &mut packed)?;
        Ok(packed)
    }

    fn unpacked(&self, form: &Form, from: &mut dyn Iterator<Item = Var>) -> Item {
        self.unpack(form, from)
    }

    fn truth(&self, condition: &Item) -> Result<Var> {
        self.number_var(condition, NumberKind::Bool)
    }

    // A path that ends with an exception is not taken in a model that gives something.
    fn leaves_out(&self, why: &Diagnostic) -> bool {
        if is_raised(why) {
            self.left_out(why);
        }
        is_raised(why)
    }

    fn begin_block(&self) {
        Machine::begin_block(self);
    }

    fn suspend_block(&self) -> Block {
        Machine::suspend_block(self)
    }

    fn resume_block(&self, block: Block) {
        Machine::resume_block(self, block);
    }
}
