//! What a method of a module writes that a later call sees: buffers that are written in place, attributes that are
//! set, lists and dicts that change. A run of the method finds them. Another run takes them as inputs of the graph.

use super::loaded::join;
use super::run::Interpreter;
use super::states::{StateType, WrittenStates};
use crate::diag::Layer;
use crate::machine::{Elements, Item, MutableObject, NumberKind, Result};
use crate::outputs::{INPUT, key_word};
use onnxd_plugin_sdk::State;
use onnxd_plugin_sdk::ir::{DataType, Dim, ValueType};
use onnxd_plugin_sdk::states::Written;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// A part of what was written: a tensor or number.
struct Leaf {
    name: String,
    old: Item,
    new: Item,
}

/// A state that has a tensor at the end of a call.
struct Holder {
    name: Rc<str>,
    /// The address of the tensor that it was at first.
    start: usize,
    /// Whether that tensor counts in the next call: something reads it, or it is still the state.
    is_live: bool,
}

impl Interpreter<'_, '_> {
    /// What was written since the run was watched, as further outputs of the graph. `inputs` are those of the method.
    pub(super) fn written(&self, inputs: &[(String, Item)]) -> Result<WrittenStates> {
        for (name, item) in inputs {
            self.states.name(item, name, INPUT);
        }
        let mut written_states = WrittenStates::default();
        let mut told: BTreeSet<String> = BTreeSet::new();
        let mut places = self.machine.changed();
        // Where an attribute was set, what its tensor was before counts no more.
        places.sort_by_key(|place| match place {
            MutableObject::Attribute(..) => 0,
            MutableObject::List(_) | MutableObject::Dict(_) => 1,
            MutableObject::Base(_) => 2,
        });
        let mut set = vec![];
        for place in &places {
            let is_set = !matches!(place, MutableObject::Base(_));
            let (name, what) = self.name_of(place);
            if !is_set && let Some((own, set)) = self.parted(place, &told) {
                let why =
                    format!("is one tensor with `{own}` that is written, and is set to another");
                let layer = Layer::clone(&self.machine.layer_of_write(place));
                written_states.impossible.push((Written { what, name: set, layer }, why));
                continue;
            }
            let layer = self.machine.layer_of_write(place);
            let (old, new) = (self.machine.old(place), self.machine.get(place));
            let mut leaves = vec![];
            let mut wrong = vec![];
            self.leaves(&name, &old, &new, (&mut leaves, &mut wrong))?;
            let of = |name: String| Written { what, name, layer: Layer::clone(&layer) };
            let wrong = wrong.into_iter().map(|(name, why)| (of(name), why.to_owned()));
            written_states.impossible.extend(wrong);
            for leaf in leaves {
                if told.insert(leaf.name.clone()) {
                    self.output(of(leaf.name.clone()), (&leaf, is_set), &mut written_states)?;
                    if is_set {
                        set.push((of(leaf.name.clone()), leaf));
                    }
                }
            }
        }
        written_states.impossible.extend(self.joined(&set, &places)?);
        Ok(written_states)
    }

    /// Of a tensor with several names, one under which it stays and one that was set to another tensor, if there are
    /// both: calls differ in whether both names are one tensor.
    fn parted(&self, place: &MutableObject, set: &BTreeSet<String>) -> Option<(Rc<str>, String)> {
        let names = self.states.names.borrow();
        let names = names.get(&place.address())?;
        let is_set = |name: &Rc<str>| set.contains(&**name);
        let own = names.iter().find(|(name, _)| !is_set(name))?;
        let other = names.iter().find(|(name, _)| is_set(name))?;
        Some((own.0.clone(), other.0.to_string()))
    }

    /// States of one tensor that were two before, where one of them is written in place: the next call would write
    /// both, but inputs of a model are never one tensor. `set` are those that were set to another tensor.
    fn joined(
        &self,
        set: &[(Written, Leaf)],
        places: &[MutableObject],
    ) -> Result<Vec<(Written, String)>> {
        let is_written = |at: &usize| places.iter().any(|place| place.address() == *at);
        let names = self.states.names.borrow();
        let mut holders: HashMap<usize, Vec<Holder>> = HashMap::new();
        let mut impossible = vec![];
        for (written, leaf) in set {
            let [Some(start), Some(end)] = [&leaf.old, &leaf.new].map(MutableObject::from_item)
            else {
                continue;
            };
            let holder = Holder {
                name: written.name.as_str().into(),
                start: start.address(),
                is_live: self.is_read(&start)?,
            };
            let stays = |(name, what): &&(Rc<str>, &'static str)| {
                *what != INPUT && set.iter().all(|(other, _)| other.name != **name)
            };
            let others = holders.entry(end.address()).or_insert_with(|| {
                let stay = names.get(&end.address()).into_iter().flatten().filter(stays);
                let start = end.address();
                stay.map(|(name, _)| Holder { name: name.clone(), start, is_live: true }).collect()
            });
            let differ = |other: &&Holder| {
                let either = (is_written(&holder.start) && other.is_live)
                    || (is_written(&other.start) && holder.is_live);
                other.start != holder.start && either
            };
            if let Some(other) = others.iter().find(differ) {
                let why = format!(
                    "becomes one tensor with `{}`, and one of them is written in place",
                    other.name
                );
                impossible.push((written.clone(), why));
            }
            others.push(holder);
        }
        Ok(impossible)
    }

    /// Whether something reads what a tensor was at first.
    fn is_read(&self, place: &MutableObject) -> Result<bool> {
        let b = self.machine.builder();
        let var = self.machine.var_of(&self.machine.old(place))?;
        Ok(b.id(var).is_ok_and(|id| b.graph().uses(id) > 0))
    }

    /// What a place that changed is called, and what it is.
    fn name_of(&self, place: &MutableObject) -> (String, &'static str) {
        if let MutableObject::Attribute(object, name) = place {
            let path = join(&object.path, name);
            let class = self.library.find_class(&object.class).ok().flatten();
            let is = |of: &[Rc<str>]| of.iter().any(|known| known == name);
            return match class {
                Some(class) if is(&class.buffers) => (path, "buffer"),
                Some(class) if is(&class.parameters) => (path, "parameter"),
                _ => (path, "attribute"),
            };
        }
        let names = self.states.names.borrow();
        let known = names.get(&place.address()).and_then(|names| names.first());
        known.map_or((String::from("state"), "value"), |(name, what)| (name.to_string(), what))
    }

    /// The tensors and numbers that differ.
    fn leaves(
        &self,
        name: &str,
        old: &Item,
        new: &Item,
        (leaves, wrong): (&mut Vec<Leaf>, &mut Vec<(String, &'static str)>),
    ) -> Result<()> {
        if self.is_unchanged(old, new)? {
            return Ok(());
        }
        let mut parts = |old: &[Item], new: &[Item]| {
            let mut both = old.iter().zip(new).enumerate();
            both.try_for_each(|(i, (old, new))| {
                let name = join(name, &i.to_string());
                self.leaves(&name, old, new, (leaves, wrong))
            })
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
                (Elements::Known(a), Elements::Known(b)) if a.len() == b.len() => parts(a, b)?,
                _ => wrong.push((name.to_owned(), "is a list whose length changes")),
            },
            (Item::Tuple(a) | Item::Record(_, a), Item::Tuple(b) | Item::Record(_, b))
                if a.len() == b.len() =>
            {
                parts(a, b)?;
            }
            (Item::Dict(a), Item::Dict(b)) => {
                let (a, b) = (a.borrow(), b.borrow());
                if a.len() != b.len() || !a.iter().zip(&*b).all(|(a, b)| a.0.same(&b.0)) {
                    wrong.push((name.to_owned(), "is a dict whose keys change"));
                    return Ok(());
                }
                for ((key, old), (_, new)) in a.iter().zip(&*b) {
                    let Some(key) = key_word(key) else {
                        wrong.push((name.to_owned(), "is a dict without names"));
                        return Ok(());
                    };
                    let name = join(name, &key);
                    self.leaves(&name, old, new, (leaves, wrong))?;
                }
            }
            (Item::None, _) | (_, Item::None | Item::Maybe(..)) => {
                wrong.push((name.to_owned(), "is None in some calls"));
            }
            _ => wrong.push((name.to_owned(), "is no tensor and no number")),
        }
        Ok(())
    }

    /// Whether both are the same value. Two tensors are if both are one value of the graph.
    fn is_unchanged(&self, old: &Item, new: &Item) -> Result<bool> {
        let read = |item: &Item| self.machine.var_of(item);
        Ok(match (old, new) {
            (Item::Tensor(_), Item::Tensor(_)) => read(old)? == read(new)?,
            _ => old.same(new) || crate::machine::equal(old, new),
        })
    }

    /// Adds the new value of a state to the outputs.
    fn output(
        &self,
        written: Written,
        (leaf, is_set): (&Leaf, bool),
        written_states: &mut WrittenStates,
    ) -> Result<()> {
        let machine = self.machine;
        let b = machine.builder();
        let var = match kind(&leaf.old) {
            Some(kind) => machine.number_var(&leaf.new, kind)?,
            None => machine.var_of(&leaf.new)?,
        };
        let (before, after) = (b.type_of(machine.var_of(&leaf.old)?), b.type_of(var));
        // What comes between calls is as general as both.
        let known_state = self.states.types.get(&leaf.name);
        let is_set = is_set || known_state.is_some_and(|state| state.is_set);
        let now = known_state.map(|state| state.ty.clone()).or(before);
        let ty = match widened(&leaf.name, now, after) {
            Ok(ty) => ty,
            Err(why) if written.what != INPUT => {
                written_states.impossible.push((written, why.to_owned()));
                return Ok(());
            }
            Err(_) => ValueType::Tensor { dtype: None, shape: None },
        };
        let state = State::new(&written.name);
        b.output(var, &state.output)?;
        written_states.outputs += 1;
        let output = b.graph_mut().outputs().last().copied();
        let output = output.map(|id| b.graph_mut()[id].name.clone());
        let inputs = self.states.inputs.borrow();
        let input = inputs.iter().find(|(name, _)| *name == written.name);
        if let (Some((_, input)), Some(output)) = (input, output) {
            let state = State { input: b.name_of(*input), output };
            written_states.states.push((written.name.clone(), state));
        }
        if written.what != INPUT {
            written_states.types.insert(written.name.clone(), StateType { ty, is_set });
        }
        written_states.written.push(written);
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
