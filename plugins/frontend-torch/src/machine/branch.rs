//! Conditions that are known only when the model runs.

use super::paths::{Slot, Variables};
use super::{GraphNumber, Item, Machine, Result};
use onnxd_plugin_sdk::lower::flow::{Branches, Taken};

/// One arm of a condition.
pub(crate) type Arm<'a> = dyn Fn() -> Result<Variables> + 'a;

impl Machine<'_> {
    /// Runs one of two arms, as `condition` says when the model runs. Gives the variables that both set, or one
    /// of them where `before` knows its value otherwise.
    pub(crate) fn branch(
        &self,
        condition: GraphNumber,
        arms: [&Arm<'_>; 2],
        before: &dyn Fn(&str) -> Option<Item>,
    ) -> Result<Variables> {
        let run = |at: usize| {
            let variables = self.within_graphs(1, arms[at])?;
            self.given(variables, &|item| self.refined(item, condition, at == 0))
        };
        let known = |slot: &Slot| match slot {
            Slot::Variable(name) => before(name),
            Slot::Place(place) => Some(self.old(place)),
        };
        let branches = Branches {
            condition: condition.var,
            names: ["then", "else"],
            arms: [&|| run(0), &|| run(1)],
            before: &known,
        };
        let (values, arm_items) = match branches.run(self)? {
            Taken::Only(at) => return arms[at](),
            Taken::Either { values, arms } => (values, arms),
        };
        let mut variables: Variables = vec![];
        for (slot, item) in values {
            match slot {
                Slot::Variable(name) => variables.push((name, item)),
                Slot::Place(place) => self.set(&place, item),
            }
        }
        for (name, item) in &variables {
            let slot = Slot::Variable(name.clone());
            for arm in &arm_items {
                let own =
                    arm.iter().find(|(known, _)| *known == slot).map(|(_, item)| item.clone());
                own.or_else(|| before(name))
                    .iter()
                    .for_each(|arm_items| self.may_share(item, arm_items));
            }
        }
        Ok(variables)
    }

    /// What an optional value is in an arm, if the condition asks whether it is None.
    fn refined(&self, item: &Item, condition: GraphNumber, holds: bool) -> Item {
        let Item::Maybe(present, inner) = item else { return item.clone() };
        let absent = self.absent.borrow().get(&condition.var) == Some(&present.var);
        match (present.var == condition.var, absent) {
            (false, false) => item.clone(),
            (same, _) if same == holds => (**inner).clone(),
            _ => Item::None,
        }
    }
}
