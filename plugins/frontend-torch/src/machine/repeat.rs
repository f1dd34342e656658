//! Loops whose number of turns is known only when the model runs, or that stay loops.

use super::branch::{Slot, Slots, Variables};
use super::form::Form;
use super::journal::Place;
use super::{Item, LOOP_WEIGHT, Machine, Number, NumberKind, Result};
use crate::diag::Code;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, ValueType};
use std::rc::Rc;

/// Attempts to find what a loop carries. Each makes at least one value more general.
const ATTEMPTS_MAX: usize = 32;

/// How often a loop runs.
pub(crate) struct Turns {
    /// At most so often: an int.
    pub(crate) most: Option<Item>,
    /// As long as this holds; checked before each turn.
    pub(crate) condition: Option<Item>,
}

/// What one turn of a loop gives.
pub(crate) struct Turn {
    /// Whether there is another one.
    pub(crate) condition: Option<Item>,
    pub(crate) carried: Variables,
    /// Tensors that are stacked along a new first axis.
    pub(crate) scanned: Vec<Item>,
}

/// The body of a loop: gets the number of the turn and the carried variables.
pub(crate) type Body<'a> = dyn Fn(Item, Variables) -> Result<Turn> + 'a;

/// What an attempt found.
enum Attempt {
    /// The body, how many values are stacked.
    Done(Box<Graph>, usize, Vec<Item>),
    /// Values have to be more general.
    Wider(Slots),
}

impl Machine<'_> {
    /// Runs a loop; gives the carried variables and what was stacked.
    pub(crate) fn repeat(
        &self,
        turns: &Turns,
        carried: &Variables,
        body: &Body<'_>,
    ) -> Result<(Variables, Vec<Item>)> {
        let fixed = |(name, item): &(Rc<str>, Item)| {
            Ok((Slot::Variable(name.clone()), Form::Fixed(self.settled(item)?)))
        };
        let mut slots = carried.iter().map(fixed).collect::<Result<Slots>>()?;
        let begins: Vec<Item> = carried.iter().map(|(_, item)| item.clone()).collect();
        let findings = self.driver.findings();
        for _ in 0..ATTEMPTS_MAX {
            let mut found = None;
            let mut failed = None;
            let attempt =
                || self.within_graphs(LOOP_WEIGHT, || self.attempt(turns, &slots, &begins, body));
            self.driver.attempt(|| match attempt() {
                Ok(Attempt::Wider(wider)) => {
                    found = Some(Attempt::Wider(wider));
                    false
                }
                Ok(done) => {
                    found = Some(done);
                    true
                }
                Err(why) => {
                    failed = Some(why);
                    true
                }
            });
            if let Some(why) = failed {
                return Err(why);
            }
            match found {
                Some(Attempt::Wider(wider)) => slots = wider,
                // What a body cannot say, turns that stand one after the other may.
                Some(Attempt::Done(..))
                    if self.trial.unrollable.get() && self.driver.findings() > findings =>
                {
                    let message = "An operator of a loop needs what depends on the turn.";
                    return Err(self.problem(Code::LayerUnsupported, message));
                }
                Some(Attempt::Done(graph, scanned, ends)) => {
                    let (variables, stacked) =
                        self.looped(turns, &slots, &begins, *graph, scanned)?;
                    for ((_, item), both) in variables.iter().zip(begins.iter().zip(&ends)) {
                        self.may_share(item, both.0);
                        self.may_share(item, both.1);
                    }
                    return Ok((variables, stacked));
                }
                None => break,
            }
        }
        Err(self
            .problem(Code::LayerUnsupported, "The values that a loop carries have no common form."))
    }

    /// What a slot holds before the loop.
    fn begin_of(&self, at: usize, slot: &Slot, begins: &[Item]) -> Item {
        match slot {
            Slot::Variable(_) => begins.get(at).cloned().unwrap_or(Item::None),
            Slot::Place(place) => self.get(place),
        }
    }

    fn attempt(
        &self,
        turns: &Turns,
        slots: &Slots,
        begins: &[Item],
        body: &Body<'_>,
    ) -> Result<Attempt> {
        let b = self.builder();
        b.begin("body");
        self.begin_block();
        let scalar = |dtype| ValueType::tensor(dtype, Vec::<Dim>::new());
        let iteration =
            Number { var: b.input("iteration", scalar(DataType::Int64)), kind: NumberKind::Int };
        let go_on = b.input("condition", scalar(DataType::Bool));
        let variables = self.entered(slots);
        let done = body(Item::Number(iteration), variables)
            .and_then(|turn| self.finished(turns, slots, begins, &turn, go_on));
        self.undo_block();
        match done {
            Ok(Ok((outputs, scanned, ends))) => {
                Ok(Attempt::Done(Box::new(b.close(&outputs)?), scanned, ends))
            }
            Ok(Err(wider)) => {
                b.discard();
                Ok(Attempt::Wider(wider))
            }
            Err(why) => {
                b.discard();
                Err(why)
            }
        }
    }

    /// Declares the carried values as inputs of the body; gives the variables, and sets the places.
    fn entered(&self, slots: &Slots) -> Variables {
        let mut variables = vec![];
        for (slot, form) in slots {
            let mut types = vec![];
            self.slots(form, &mut types);
            let inputs: Vec<Var> =
                types.into_iter().map(|ty| self.builder().input("state", ty)).collect();
            let item = self.unpacked(form, &mut inputs.into_iter());
            match slot {
                Slot::Variable(name) => variables.push((name.clone(), item)),
                Slot::Place(place) if !form.is_fixed() => self.set(place, item),
                Slot::Place(_) => {}
            }
        }
        variables
    }

    /// The outputs of the body, or the forms that its values need.
    #[allow(clippy::type_complexity)]
    fn finished(
        &self,
        turns: &Turns,
        slots: &Slots,
        begins: &[Item],
        turn: &Turn,
        go_on: Var,
    ) -> Result<std::result::Result<(Vec<Var>, usize, Vec<Item>), Slots>> {
        let mut wider = vec![];
        let mut items = vec![];
        let mut stable = true;
        for (at, (slot, form)) in slots.iter().enumerate() {
            let item = match slot {
                Slot::Variable(name) => {
                    let found = turn.carried.iter().find(|(n, _)| n == name);
                    found.map_or(self.begin_of(at, slot, begins), |(_, item)| item.clone())
                }
                Slot::Place(place) => self.get(place),
            };
            let item = self.settled(&item)?;
            let form = self.widened(form.clone(), &item)?;
            wider.push((slot.clone(), form));
            items.push(item);
        }
        for place in self.changed() {
            let known = |slot: &Slot| matches!(slot, Slot::Place(p) if p.is(&place));
            if !slots.iter().any(|(slot, _)| known(slot)) {
                let form = self.widened(Form::Fixed(self.old(&place)), &self.get(&place))?;
                stable &= form.is_fixed();
                wider.push((Slot::Place(place), form));
            }
        }
        stable &= slots.iter().zip(&wider).all(|((_, a), (_, b))| self.alike(a, b));
        if !stable {
            return Ok(Err(wider));
        }
        let condition = match (&turns.condition, &turn.condition) {
            (Some(_), Some(condition)) => self.number_var(condition, NumberKind::Bool)?,
            _ => go_on,
        };
        let mut outputs = vec![condition];
        for ((_, form), item) in slots.iter().zip(&items) {
            self.packed(form, item, &mut outputs)?;
        }
        let scanned = turn.scanned.len();
        for item in &turn.scanned {
            outputs.push(self.var_of(item)?);
        }
        Ok(Ok((outputs, scanned, items)))
    }

    /// Whether two forms take the same values of the graph, of the same types.
    fn alike(&self, a: &Form, b: &Form) -> bool {
        let (mut x, mut y) = (vec![], vec![]);
        self.slots(a, &mut x);
        self.slots(b, &mut y);
        x == y && std::mem::discriminant(a) == std::mem::discriminant(b)
    }

    /// Adds the loop, whose body is built.
    fn looped(
        &self,
        turns: &Turns,
        slots: &Slots,
        begins: &[Item],
        body: Graph,
        scanned: usize,
    ) -> Result<(Variables, Vec<Item>)> {
        let mut carried = vec![];
        for (at, (slot, form)) in slots.iter().enumerate() {
            self.packed(form, &self.begin_of(at, slot, begins), &mut carried)?;
        }
        let operand = |item: &Option<Item>, kind| {
            item.as_ref().map(|item| self.number_var(item, kind)).transpose()
        };
        let most = operand(&turns.most, NumberKind::Int)?;
        let condition = operand(&turns.condition, NumberKind::Bool)?;
        let condition = match condition {
            None => self.number_var(&Item::Bool(true), NumberKind::Bool)?,
            Some(condition) => condition,
        };
        // A loop that gives nothing changes nothing.
        let outputs = match carried.len() + scanned {
            0 => vec![],
            _ => self.builder().loop_graph(most, condition, &carried, body)?,
        };
        let stacks = outputs.len() - scanned;
        // Inference forgets the rank of elements, as an empty list has none.
        let mut types = vec![];
        slots.iter().for_each(|(_, form)| self.slots(form, &mut types));
        for (var, ty) in outputs.iter().zip(types) {
            if matches!(ty, ValueType::Sequence(_)) {
                self.builder().declare(*var, ty);
            }
        }
        let stacked = outputs[stacks..].iter().map(|v| self.tensor(*v)).collect();
        let mut outputs = outputs.into_iter().take(stacks);
        let mut variables = vec![];
        let mut places: Vec<(Place, Item)> = vec![];
        for (slot, form) in slots {
            let item = self.unpacked(form, &mut outputs);
            match slot {
                Slot::Variable(name) => variables.push((name.clone(), item)),
                Slot::Place(place) if !form.is_fixed() => places.push((place.clone(), item)),
                Slot::Place(_) => {}
            }
        }
        places.iter().for_each(|(place, item)| self.set(place, item.clone()));
        Ok((variables, stacked))
    }
}
