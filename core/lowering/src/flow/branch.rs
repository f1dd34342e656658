//! Conditions: two arms in sub-graphs of their own.

use super::{Paths, Values, find};
use crate::Lowered;
use onnxd_build::Var;
use onnxd_ir::Graph;

/// One arm of a condition: gives what it sets. A key of a place that outlives the arm is among them if it changed it.
pub type Arm<'a, P> = dyn Fn() -> Lowered<Values<P>> + 'a;

/// A condition that is known only when the model runs.
pub struct Branches<'c, P: Paths> {
    /// A truth value.
    pub condition: Var,
    /// What the sub-graphs are called.
    pub names: [&'c str; 2],
    /// What runs where it holds, and where not.
    pub arms: [&'c Arm<'c, P>; 2],
    /// What the arm that is open does not set, but is known.
    pub before: &'c dyn Fn(&P::Key) -> Option<P::Item>,
}

/// What becomes of a condition.
pub enum Taken<P: Paths> {
    /// One of both arms is taken.
    Either {
        /// What is set afterwards.
        values: Values<P>,
        /// What each arm gave.
        arms: [Values<P>; 2],
    },
    /// This arm is taken, as the other one is never; nothing of both was kept.
    Only(usize),
}

/// A value that the arms give: what it is in each of them.
struct Slot<P: Paths> {
    key: P::Key,
    form: P::Form,
    items: [P::Item; 2],
}

impl<P: Paths> Branches<'_, P> {
    /// Runs both arms, and adds the `If`.
    ///
    /// # Errors
    /// Those of the arms, and of forms that have nothing in common.
    pub fn run(&self, paths: &P) -> Lowered<Taken<P>> {
        let b = paths.driver().builder();
        let failed = |why, other| match paths.leaves_out(&why) {
            true => Ok(Taken::Only(other)),
            false => Err(why),
        };
        let (first, forms) = match self.begun(paths, 0) {
            Ok(begun) => begun,
            Err(why) => return failed(why, 1),
        };
        let (block, suspended) = (paths.suspend_block(), b.suspend());
        let otherwise = self.begun(paths, 1).and_then(|(second, _)| {
            let slots = self.slots(paths, &first, forms, &second);
            let outputs = slots.and_then(|slots| Ok((packed(paths, &slots, 1)?, slots)));
            let (graph, slots) = closed(paths, outputs)?;
            Ok((graph, slots, second))
        });
        b.resume(suspended);
        let (otherwise, slots, second) = match otherwise {
            Ok(done) => done,
            Err(why) => {
                b.discard();
                return failed(why, 0);
            }
        };
        paths.resume_block(block);
        let outputs = packed(paths, &slots, 0).map(|outputs| (outputs, slots));
        let (then, slots) = closed(paths, outputs)?;
        // A condition whose arms give nothing changes nothing.
        let outputs = match then.outputs().is_empty() {
            true => vec![],
            false => b.if_graphs(self.condition, then, otherwise)?,
        };
        let mut outputs = outputs.into_iter();
        let value = |slot: Slot<P>| (slot.key, paths.unpacked(&slot.form, &mut outputs));
        let values = slots.into_iter().map(value).collect();
        Ok(Taken::Either { values, arms: [first, second] })
    }

    /// Runs an arm in a sub-graph, which stays open; gives what it sets, and the forms of that.
    fn begun(&self, paths: &P, at: usize) -> Lowered<(Values<P>, Vec<P::Form>)> {
        paths.driver().builder().begin(self.names[at]);
        paths.begin_block();
        let given = (self.arms[at])().and_then(|values| {
            let forms = values.iter().map(|(_, item)| paths.form_of(item));
            let forms = forms.collect::<Lowered<_>>()?;
            Ok((values, forms))
        });
        given.inspect_err(|_| {
            paths.suspend_block();
            paths.driver().builder().discard();
        })
    }

    /// What both arms give, or one of them where the value is known otherwise. The second arm is open.
    fn slots(
        &self,
        paths: &P,
        first: &Values<P>,
        forms: Vec<P::Form>,
        second: &Values<P>,
    ) -> Lowered<Vec<Slot<P>>> {
        let mut slots = vec![];
        for (at, ((key, item), form)) in first.iter().zip(forms).enumerate() {
            let other = find::<P>(second, key, at).cloned().or_else(|| (self.before)(key));
            // What only this arm knows is not used afterwards.
            let Some(other) = other else { continue };
            let form = paths.widened(form, &other)?;
            slots.push(Slot { key: key.clone(), form, items: [item.clone(), other] });
        }
        for (at, (key, item)) in second.iter().enumerate() {
            if find::<P>(first, key, at).is_none()
                && let Some(other) = (self.before)(key)
            {
                let form = paths.widened(paths.fixed(other.clone()), item)?;
                slots.push(Slot { key: key.clone(), form, items: [other, item.clone()] });
            }
        }
        Ok(slots)
    }
}

/// What arm number `at` gives.
fn packed<P: Paths>(paths: &P, slots: &[Slot<P>], at: usize) -> Lowered<Vec<Var>> {
    let packed = slots.iter().map(|slot| paths.packed(&slot.form, &slot.items[at]));
    Ok(packed.collect::<Lowered<Vec<_>>>()?.concat())
}

/// Ends the sub-graph of an arm, which is open.
fn closed<P: Paths, T>(paths: &P, outputs: Lowered<(Vec<Var>, T)>) -> Lowered<(Graph, T)> {
    paths.suspend_block();
    let b = paths.driver().builder();
    let (outputs, with) = outputs.inspect_err(|_| b.discard())?;
    Ok((b.close(&outputs)?, with))
}
