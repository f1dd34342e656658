//! Loops that are decided while the program is converted.

use super::{Item, Machine, Result, Variables};
use crate::diag::Code;
use std::cell::Cell;

/// Turns of a loop that may stand one after the other, where no `Loop` can say what it does.
const UNROLLED_MAX: i64 = 1024;

/// Turns of a loop that stand one after the other rather than that a list loses its length.
const SHORT_MAX: i64 = 16;

/// What is known of the loop that is tried at present.
#[derive(Default)]
pub(crate) struct Trial {
    impure: Cell<bool>,
    /// Whether the loop could be written turn by turn.
    pub(super) unrollable: Cell<bool>,
    /// Whether that would be few turns.
    short: Cell<bool>,
}

impl Machine<'_> {
    /// What `f` gives, if it adds nothing to the graph: then it stays done. Otherwise nothing of it stays.
    pub(crate) fn decided(
        &self,
        f: &mut dyn FnMut() -> Result<Variables>,
    ) -> Result<Option<Variables>> {
        let before = self.trial.impure.replace(false);
        self.builder().begin("trial");
        self.begin_block();
        let (mut decided_variables, mut beyond) = (None, None);
        let pure = self.driver.attempt(|| {
            let variables = match f() {
                Ok(variables) => variables,
                Err(why) => {
                    beyond = Some(why).filter(|why| *why.code == *Code::SourceLimit.as_str());
                    return false;
                }
            };
            let own = variables.iter().any(|(_, item)| self.has_own(item));
            let places = self.changed().iter().any(|place| self.has_own(&self.get(place)));
            decided_variables = Some(variables);
            self.is_pure() && !own && !places
        });
        match pure {
            true => self.keep_block(),
            false => self.undo_block(),
        }
        self.builder().discard();
        self.trial.impure.set(before);
        match beyond {
            // What no machine can compute, no loop in the graph can say.
            Some(why) => Err(why),
            None => Ok(decided_variables.filter(|_| pure)),
        }
    }

    /// Whether what is tried has added nothing to the graph so far.
    pub(crate) fn is_pure(&self) -> bool {
        !self.trial.impure.get() && self.builder().graph().node_count() == 0
    }

    /// Says that what is tried depends on tensors.
    pub(crate) fn not_pure(&self) {
        self.trial.impure.set(true);
    }

    /// What `f` gives, which writes a loop of `turns`; none if the turns shall stand one after the other.
    pub(crate) fn unrollable(
        &self,
        turns: i64,
        f: impl FnOnce() -> Result<()>,
    ) -> Option<Result<()>> {
        if turns > UNROLLED_MAX {
            return Some(f());
        }
        let before = self.trial.unrollable.replace(true);
        let short = self.trial.short.replace(turns <= SHORT_MAX);
        let mut done = None;
        self.driver.attempt(|| {
            let result = f();
            let kept = result.is_ok();
            done = kept.then_some(result);
            kept
        });
        self.trial.unrollable.set(before);
        self.trial.short.set(short);
        done
    }

    /// Fails if a loop would rather be written turn by turn than that a list gets a length of its own in each turn.
    pub(super) fn keeps_lengths(&self, items: &[Item]) -> Result<()> {
        let number = |item: &Item| matches!(item, Item::Number(_)) || item.as_float().is_some();
        match self.trial.unrollable.get() && (self.trial.short.get() || items.iter().any(number)) {
            true => Err(self.problem(Code::LayerUnsupported, "A list grows in a loop.")),
            false => Ok(()),
        }
    }

    /// Whether a value of the innermost graph is in it.
    pub(super) fn has_own(&self, item: &Item) -> bool {
        let own = |var| self.builder().is_own(var);
        match item {
            Item::Number(number) => own(number.var),
            Item::Tensor(view) => self.read(view).is_ok_and(own),
            Item::Maybe(number, _) if own(number.var) => true,
            other => match other.elements_var() {
                Some((var, _)) => own(var),
                None => other.any_part(&mut |part| self.has_own(part)),
            },
        }
    }
}
