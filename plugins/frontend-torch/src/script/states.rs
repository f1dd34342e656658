//! What a method of a module writes that a later call sees: buffers that are written in place, attributes that are
//! set, lists and dicts that change. A run of the method finds them. Another run takes them as inputs of the graph.

use super::run::Interpreter;
use crate::archive::pickle::Pickled;
use crate::diag::Layer;
use crate::machine::{Elements, Item, Machine, Number, NumberKind, Place, Result};
use crate::outputs::INPUT;
use onnxd_plugin_sdk::State;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, ValueType};
use onnxd_plugin_sdk::states::Written;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// States that are inputs of the graph, with their types.
pub(super) type Types = BTreeMap<String, ValueType>;

/// What the loader and the run know of states.
#[derive(Default)]
pub(super) struct States {
    /// Those that are inputs of this run.
    pub(super) types: Types,
    /// The inputs that became of them.
    inputs: RefCell<Vec<(String, Var)>>,
    /// Names of what was loaded, by its address, and what it is.
    names: RefCell<HashMap<usize, (Rc<str>, &'static str)>>,
}

/// What a run wrote.
#[derive(Default)]
pub(super) struct Found {
    pub(super) written: Vec<Written>,
    /// Findings for what no input and output can be.
    pub(super) impossible: Vec<(Written, &'static str)>,
    /// The types that the states have at the end.
    pub(super) types: Types,
    /// Those of `written` that are inputs of this run, and the names that they have in the graph.
    pub(super) states: Vec<State>,
    /// How many outputs were added for what was written.
    pub(super) outputs: usize,
}

/// A part of what was written: a tensor or number.
struct Leaf {
    name: String,
    old: Item,
    new: Item,
}

impl States {
    pub(super) fn of(types: Types) -> States {
        States { types, ..States::default() }
    }

    /// Remembers what a value is that was loaded.
    pub(super) fn name(&self, item: &Item, name: &str, what: &'static str) {
        if let Some(place) = Place::of(item) {
            self.names.borrow_mut().entry(place.address()).or_insert((name.into(), what));
        }
    }

    /// The input that a tensor became, if it is a state of this run.
    pub(super) fn input(
        &self,
        machine: &Machine<'_>,
        name: &str,
        value: &Tensor,
    ) -> Result<Option<Var>> {
        let Some(ty) = self.types.get(name) else { return Ok(None) };
        let b = machine.builder();
        let var = b.input(name, ty.clone());
        let id = b.id(var)?;
        b.graph_mut().set_initializer(id, Some(value.clone()));
        self.inputs.borrow_mut().push((name.to_owned(), var));
        Ok(Some(var))
    }

    /// As [`States::input`], for a number.
    pub(super) fn number(
        &self,
        machine: &Machine<'_>,
        name: &str,
        from: &Pickled,
    ) -> Result<Option<Item>> {
        let (kind, value) = match from {
            Pickled::Bool(x) => {
                let bytes = vec![u8::from(*x)];
                let kind = NumberKind::Bool;
                (kind, Tensor::from_vec_as(kind.dtype(), vec![], bytes))
            }
            Pickled::Int(x) => (NumberKind::Int, Tensor::scalar(*x)),
            Pickled::Float(x) => (NumberKind::Float, Tensor::scalar(*x as f32)),
            _ => return Ok(None),
        };
        let var = self.input(machine, name, &value)?;
        Ok(var.map(|var| Item::Number(Number { var, kind })))
    }
}

impl Interpreter<'_, '_> {
    /// What was written since the run was watched, as further outputs of the graph. `inputs` are those of the method.
    pub(super) fn written(&self, inputs: &[(String, Item)]) -> Result<Found> {
        for (name, item) in inputs {
            self.states.name(item, name, INPUT);
        }
        let mut found = Found::default();
        let mut told: BTreeSet<String> = BTreeSet::new();
        let mut places = self.machine.changed();
        // Where an attribute was set, what its tensor was before counts no more.
        places.sort_by_key(|place| !matches!(place, Place::Attribute(..)));
        for place in places {
            let (name, what) = self.name_of(&place);
            let layer = self.machine.layer_of_write(&place);
            let (old, new) = (self.machine.old(&place), self.machine.get(&place));
            let mut leaves = vec![];
            let mut wrong = vec![];
            self.leaves(&name, &old, &new, &mut leaves, &mut wrong);
            let of = |name: String| Written { what, name, layer: Layer::clone(&layer) };
            found.impossible.extend(wrong.into_iter().map(|(name, why)| (of(name), why)));
            for leaf in leaves {
                if told.insert(leaf.name.clone()) {
                    self.output(of(leaf.name.clone()), &leaf, &mut found)?;
                }
            }
        }
        Ok(found)
    }

    /// What a place that changed is called, and what it is.
    fn name_of(&self, place: &Place) -> (String, &'static str) {
        if let Place::Attribute(object, name) = place {
            let path = super::objects::join(&object.path, name);
            let class = self.library.find_class(&object.class).ok().flatten();
            let is = |of: &[Rc<str>]| of.iter().any(|known| known == name);
            return match class {
                Some(class) if is(&class.buffers) => (path, "buffer"),
                Some(class) if is(&class.parameters) => (path, "parameter"),
                _ => (path, "attribute"),
            };
        }
        let names = self.states.names.borrow();
        let known = names.get(&place.address());
        known.map_or((String::from("state"), "value"), |(name, what)| (name.to_string(), what))
    }

    /// The tensors and numbers that differ.
    fn leaves(
        &self,
        name: &str,
        old: &Item,
        new: &Item,
        leaves: &mut Vec<Leaf>,
        wrong: &mut Vec<(String, &'static str)>,
    ) {
        if self.is_unchanged(old, new) {
            return;
        }
        let mut parts = |old: &[Item], new: &[Item]| {
            for (i, (old, new)) in old.iter().zip(new).enumerate() {
                self.leaves(&super::objects::join(name, &i.to_string()), old, new, leaves, wrong);
            }
        };
        match (old, new) {
            (_, Item::Hole) => {}
            (Item::Tensor(_), Item::Tensor(_)) => {
                leaves.push(Leaf { name: name.to_owned(), old: old.clone(), new: new.clone() });
            }
            (old, new) if kind(old).is_some() && kind(new).is_some() => {
                leaves.push(Leaf { name: name.to_owned(), old: old.clone(), new: new.clone() });
            }
            (Item::List(a), Item::List(b)) => match (&*a.borrow(), &*b.borrow()) {
                (Elements::Known(a), Elements::Known(b)) if a.len() == b.len() => parts(a, b),
                _ => wrong.push((name.to_owned(), "is a list whose length changes")),
            },
            (Item::Tuple(a) | Item::Record(_, a), Item::Tuple(b) | Item::Record(_, b))
                if a.len() == b.len() =>
            {
                parts(a, b);
            }
            (Item::Dict(a), Item::Dict(b)) => {
                let (a, b) = (a.borrow(), b.borrow());
                if a.len() != b.len() || !a.iter().zip(&*b).all(|(a, b)| a.0.same(&b.0)) {
                    wrong.push((name.to_owned(), "is a dict whose keys change"));
                    return;
                }
                for ((key, old), (_, new)) in a.iter().zip(&*b) {
                    let Item::Text(key) = key else {
                        wrong.push((name.to_owned(), "is a dict without names"));
                        return;
                    };
                    self.leaves(&super::objects::join(name, key), old, new, leaves, wrong);
                }
            }
            (Item::None, _) | (_, Item::None | Item::Maybe(..)) => {
                wrong.push((name.to_owned(), "is None in some calls"));
            }
            _ => wrong.push((name.to_owned(), "is no tensor and no number")),
        }
    }

    /// Whether both are the same value. Two tensors are if both are one value of the graph.
    fn is_unchanged(&self, old: &Item, new: &Item) -> bool {
        let read = |item: &Item| self.machine.var_of(item).ok();
        match (old, new) {
            (Item::Tensor(_), Item::Tensor(_)) => read(old) == read(new),
            _ => old.same(new) || crate::machine::equal(old, new),
        }
    }

    /// Adds the new value of a state to the outputs.
    fn output(&self, written: Written, leaf: &Leaf, found: &mut Found) -> Result<()> {
        let machine = self.machine;
        let b = machine.builder();
        let var = match kind(&leaf.old) {
            Some(kind) => machine.number_var(&leaf.new, kind)?,
            None => machine.var_of(&leaf.new)?,
        };
        let (before, after) = (b.type_of(machine.var_of(&leaf.old)?), b.type_of(var));
        // What comes between calls is as general as both.
        let now = self.states.types.get(&leaf.name).cloned().or(before);
        let ty = match widened(&leaf.name, now, after) {
            Ok(ty) => ty,
            Err(why) if written.what != INPUT => {
                found.impossible.push((written, why));
                return Ok(());
            }
            Err(_) => ValueType::Tensor { dtype: None, shape: None },
        };
        let state = State::new(&written.name);
        b.output(var, &state.output)?;
        found.outputs += 1;
        let output = b.graph_mut().outputs().last().copied();
        let output = output.map(|id| b.graph_mut()[id].name.clone());
        let inputs = self.states.inputs.borrow();
        let input = inputs.iter().find(|(name, _)| *name == written.name);
        if let (Some((_, input)), Some(output)) = (input, output) {
            found.states.push(State { input: b.name_of(*input), output });
        }
        if written.what != INPUT {
            found.types.insert(written.name.clone(), ty);
        }
        found.written.push(written);
        Ok(())
    }
}

/// Whether an item is a number, and of which kind.
fn kind(item: &Item) -> Option<NumberKind> {
    match item {
        Item::Bool(_) => Some(NumberKind::Bool),
        Item::Int(_) => Some(NumberKind::Int),
        Item::Float(_) => Some(NumberKind::Float),
        Item::Number(number) => Some(number.kind),
        _ => None,
    }
}

/// The type of a state that is `before` in one call and `after` in the next one.
fn widened(
    name: &str,
    before: Option<ValueType>,
    after: Option<ValueType>,
) -> std::result::Result<ValueType, &'static str> {
    let unknown = "is of a type that is not known";
    let (before, after) = (before.ok_or(unknown)?, after.ok_or(unknown)?);
    let dtype = before.dtype().ok_or(unknown)?;
    if matches!(dtype, DataType::Complex64 | DataType::Complex128) {
        return Err("is of complex numbers");
    }
    if after.dtype().is_some_and(|after| after != dtype) {
        return Err("changes its element type");
    }
    let (Some(old), Some(new)) = (before.shape(), after.shape()) else {
        return Ok(ValueType::Tensor { dtype: Some(dtype), shape: None });
    };
    if old.len() != new.len() {
        return Err("changes its number of axes");
    }
    let size = |(axis, (old, new)): (usize, (&Dim, &Dim))| match (old, new) {
        (Dim::Known(old), Dim::Known(new)) if old == new => Dim::Known(*new),
        (Dim::Symbol(_), _) => old.clone(),
        _ => Dim::Symbol(format!("{name}_dynamic_axes_{}", axis + 1).into()),
    };
    let shape = old.iter().zip(new).enumerate().map(size).collect();
    Ok(ValueType::Tensor { dtype: Some(dtype), shape: Some(shape) })
}
