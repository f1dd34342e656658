//! Conditions that are known only when the model runs.

use super::form::Form;
use super::journal::Place;
use super::{Item, Machine, Number, Result, is_raised};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::Graph;
use std::rc::Rc;

/// Variables and their values.
pub(crate) type Variables = Vec<(Rc<str>, Item)>;

/// One arm of a condition.
pub(crate) type Arm<'a> = dyn Fn() -> Result<Variables> + 'a;

/// What an arm gives: its variables, and the places that it changed with their values.
struct Outcome {
    variables: Variables,
    places: Vec<(Place, Item)>,
}

impl Outcome {
    fn variable(&self, name: &str) -> Option<&Item> {
        self.variables.iter().find(|(n, _)| &**n == name).map(|(_, item)| item)
    }

    fn place(&self, place: &Place) -> Option<&Item> {
        self.places.iter().find(|(p, _)| p.is(place)).map(|(_, item)| item)
    }
}

impl Machine<'_> {
    /// Runs one of two arms, as `condition` says when the model runs. Gives the variables that both set, or one
    /// of them where `before` knows its value otherwise.
    pub(crate) fn branch(
        &self,
        condition: Number,
        arms: [&Arm<'_>; 2],
        before: &dyn Fn(&str) -> Option<Item>,
    ) -> Result<Variables> {
        let first = match self.begun_arm(condition, true, arms[0]) {
            Ok(first) => first,
            // A path that ends with an exception is not taken in a model that gives something.
            Err(why) if is_raised(&why) => {
                self.left_out(&why);
                return arms[1]();
            }
            Err(why) => return Err(why),
        };
        let forms = self.forms_of(&first);
        let forms = match forms {
            Ok(forms) => forms,
            Err(why) => {
                self.undo_block();
                self.builder().discard();
                return Err(why);
            }
        };
        let block = self.suspend_block();
        let suspended = self.builder().suspend();
        let done = self.second_arm(condition, arms[1], &first, forms, before);
        let (second, slots, other) = match done {
            Ok(done) => done,
            Err(why) => {
                self.builder().resume(suspended);
                self.builder().discard();
                if !is_raised(&why) {
                    return Err(why);
                }
                self.left_out(&why);
                return arms[0]();
            }
        };
        self.builder().resume(suspended);
        self.resume_block(block);
        let then = self.closed(&slots, &first, before);
        self.undo_block();
        let then = then?;
        // A condition whose arms give nothing changes nothing.
        let outputs = match then.outputs().is_empty() {
            true => vec![],
            false => self.builder().if_graphs(condition.var, then, second)?,
        };
        let mut outputs = outputs.into_iter();
        let mut variables: Variables = vec![];
        for (slot, form) in &slots {
            let item = self.unpacked(form, &mut outputs);
            match slot {
                Slot::Variable(name) => variables.push((name.clone(), item)),
                Slot::Place(place) => self.set(place, item),
            }
        }
        for (name, item) in &variables {
            let arms = [&first, &other].map(|arm| arm.variable(name).cloned());
            let given = arms.into_iter().map(|given| given.or_else(|| before(name)));
            given.flatten().for_each(|given| self.may_share(item, &given));
        }
        Ok(variables)
    }

    /// Runs the arm for a condition that `holds` or not in a sub-graph of its own, and leaves block and sub-graph open.
    fn begun_arm(&self, condition: Number, holds: bool, arm: &Arm<'_>) -> Result<Outcome> {
        self.builder().begin(if holds { "then" } else { "else" });
        self.begin_block();
        let outcome = self.within_graphs(1, arm).and_then(|variables| {
            let settled = |item: &Item| self.settled(&self.refined(item, condition, holds));
            let variable = |(name, item): (Rc<str>, Item)| Ok((name, settled(&item)?));
            let variables = variables.into_iter().map(variable).collect::<Result<_>>()?;
            let held = |place: Place| {
                let item = settled(&self.get(&place))?;
                Ok((place, item))
            };
            let places = self.changed().into_iter().map(held).collect::<Result<_>>()?;
            Ok(Outcome { variables, places })
        });
        outcome.inspect_err(|_| {
            self.undo_block();
            self.builder().discard();
        })
    }

    /// What an optional value is in an arm, if the condition asks whether it is None.
    fn refined(&self, item: &Item, condition: Number, holds: bool) -> Item {
        let Item::Maybe(present, inner) = item else { return item.clone() };
        let absent = self.absent.borrow().get(&condition.var) == Some(&present.var);
        match (present.var == condition.var, absent) {
            (false, false) => item.clone(),
            (same, _) if same == holds => (**inner).clone(),
            _ => Item::None,
        }
    }

    fn forms_of(&self, outcome: &Outcome) -> Result<Slots> {
        let variables =
            outcome.variables.iter().map(|(name, item)| (Slot::Variable(name.clone()), item));
        let places = outcome.places.iter().map(|(place, item)| (Slot::Place(place.clone()), item));
        let forms = variables.chain(places).map(|(slot, item)| Ok((slot, self.form_of(item)?)));
        forms.collect()
    }

    /// Runs the second arm, finds the forms that both have in common, and ends its graph.
    fn second_arm(
        &self,
        condition: Number,
        arm: &Arm<'_>,
        first: &Outcome,
        forms: Slots,
        before: &dyn Fn(&str) -> Option<Item>,
    ) -> Result<(Graph, Slots, Outcome)> {
        let second = self.begun_arm(condition, false, arm)?;
        let slots = self.common_forms(&second, first, forms, before);
        let closed = slots.and_then(|slots| Ok((self.outputs_of(&slots, &second, before)?, slots)));
        self.undo_block();
        match closed {
            Ok((outputs, slots)) => Ok((self.builder().close(&outputs)?, slots, second)),
            Err(why) => {
                self.builder().discard();
                Err(why)
            }
        }
    }

    fn common_forms(
        &self,
        second: &Outcome,
        first: &Outcome,
        forms: Slots,
        before: &dyn Fn(&str) -> Option<Item>,
    ) -> Result<Slots> {
        let mut slots = vec![];
        for (slot, form) in forms {
            let other = match &slot {
                Slot::Variable(name) => second.variable(name).cloned().or_else(|| before(name)),
                Slot::Place(place) => {
                    Some(second.place(place).cloned().unwrap_or_else(|| self.get(place)))
                }
            };
            // A variable that only this arm knows is not used afterwards.
            if let Some(other) = other {
                slots.push((slot, self.widened(form, &other)?));
            }
        }
        for (name, item) in second.variables.iter().filter(|(n, _)| first.variable(n).is_none()) {
            if let Some(other) = before(name) {
                let form = self.widened(Form::Fixed(other), item)?;
                slots.push((Slot::Variable(name.clone()), form));
            }
        }
        for (place, item) in second.places.iter().filter(|(p, _)| first.place(p).is_none()) {
            let form = self.widened(Form::Fixed(self.old(place)), item)?;
            slots.push((Slot::Place(place.clone()), form));
        }
        Ok(slots)
    }

    /// Ends the graph of the first arm, which is open.
    fn closed(
        &self,
        slots: &Slots,
        outcome: &Outcome,
        before: &dyn Fn(&str) -> Option<Item>,
    ) -> Result<Graph> {
        match self.outputs_of(slots, outcome, before) {
            Ok(outputs) => self.builder().close(&outputs),
            Err(why) => {
                self.builder().discard();
                Err(why)
            }
        }
    }

    fn outputs_of(
        &self,
        slots: &Slots,
        outcome: &Outcome,
        before: &dyn Fn(&str) -> Option<Item>,
    ) -> Result<Vec<Var>> {
        let mut outputs = vec![];
        for (slot, form) in slots {
            let item = match slot {
                Slot::Variable(name) => outcome.variable(name).cloned().or_else(|| before(name)),
                Slot::Place(place) => {
                    Some(outcome.place(place).cloned().unwrap_or_else(|| self.get(place)))
                }
            };
            self.packed(form, &item.unwrap_or_else(|| self.hole()), &mut outputs)?;
        }
        Ok(outputs)
    }
}

/// Where a value goes after the condition.
#[derive(Clone)]
pub(crate) enum Slot {
    Variable(Rc<str>),
    Place(Place),
}

pub(crate) type Slots = Vec<(Slot, Form)>;
