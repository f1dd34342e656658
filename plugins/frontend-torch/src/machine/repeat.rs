//! Loops whose number of turns is known only when the model runs, or that stay loops.

use super::form::JoinForm;
use super::paths::{Slot, Variables};
use super::{GraphNumber, Item, LOOP_WEIGHT, Machine, NumberKind, Result};
use crate::diag::Code;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::lower::flow::{self, Carried, NO_COMMON_FORM, Repeat};

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
pub(crate) type LoopBody<'a> = dyn Fn(Item, Variables) -> Result<Turn> + 'a;

impl Machine<'_> {
    /// Runs a loop; gives the carried variables and what was stacked.
    pub(crate) fn repeat(
        &self,
        turns: &Turns,
        carried: &Variables,
        body: &LoopBody<'_>,
    ) -> Result<(Variables, Vec<Item>)> {
        let begins = carried.iter().map(|(name, item)| {
            let form = JoinForm::Fixed(self.settled(item)?);
            Ok(Carried::new(Slot::Variable(name.clone()), item.clone(), form))
        });
        let turn = |iteration: Var, carried: &[Carried<Self>]| {
            self.within_graphs(LOOP_WEIGHT, || {
                let iteration = GraphNumber { var: iteration, kind: NumberKind::Int };
                let turn = body(Item::Number(iteration), self.left(carried))?;
                let scanned = turn.scanned.iter().map(|item| self.var_of(item));
                let stacked = scanned.collect::<Result<_>>()?;
                let values = self.given(turn.carried, &Item::clone)?;
                Ok(flow::Turn { condition: turn.condition, values, stacked })
            })
        };
        let before = |slot: &Slot| match slot {
            Slot::Variable(_) => None,
            Slot::Place(place) => Some(self.old(place)),
        };
        let findings = self.driver.findings();
        let name = "body";
        let begins = begins.collect::<Result<_>>()?;
        let repeated = Repeat { name, begins, turn: &turn, before: &before };
        let Some(mut body) = repeated.body(self)? else {
            return Err(self.problem(Code::LayerUnsupported, NO_COMMON_FORM));
        };
        // What a body cannot say, turns that stand one after the other may.
        if self.trial.unrollable.get() && self.driver.findings() > findings {
            let message = "An operator of a loop needs what depends on the turn.";
            return Err(self.problem(Code::LayerUnsupported, message));
        }
        let stacked = body.add(self, &|| {
            let most = turns.most.as_ref().map(|most| self.number_var(most, NumberKind::Int));
            let most = most.transpose()?.map_or(Operand::Absent, Operand::Var);
            let condition = turns.condition.clone().unwrap_or(Item::Bool(true));
            Ok([most, Operand::Var(self.number_var(&condition, NumberKind::Bool)?)])
        })?;
        let variables = self.left(&body.carried);
        for ((_, item), carried) in variables.iter().zip(&body.carried) {
            self.may_share(item, &carried.begin);
            self.may_share(item, &carried.next);
        }
        Ok((variables, stacked.into_iter().map(|v| self.tensor(v)).collect()))
    }

    /// The carried variables as they are now. Places are set to what is carried of them.
    fn left(&self, carried: &[Carried<Self>]) -> Variables {
        let mut variables = vec![];
        for carried in carried {
            match &carried.key {
                Slot::Variable(name) => variables.push((name.clone(), carried.item.clone())),
                Slot::Place(place) if !carried.form.is_fixed() => {
                    self.set(place, carried.item.clone());
                }
                Slot::Place(_) => {}
            }
        }
        variables
    }
}
