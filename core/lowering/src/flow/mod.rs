//! Conditions and loops that are known only when the model runs, as `If` and `Loop`.
//!
//! What both arms of a condition have in common, or what a loop carries from turn to turn, is found by trial runs. A
//! front-end runs the arm or the body on values of a sub-graph. A *form* says what the values of several paths have in
//! common: which of their parts are the same on all paths, and so are no outputs of the node, and which types the
//! others have. A loop begins with the forms of its first values. Its body is run again with wider forms until what a
//! turn gives has the form of what it gets.

mod branch;
mod repeat;
#[cfg(test)]
mod tests;

pub use branch::{Arm, Branches, Taken};
pub use repeat::{Body, Carried, NO_COMMON_FORM, Repeat, RunTurn, Turn};

use crate::{Driver, Lowered};
use onnxd_build::Var;
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::ValueType;

/// Values of the source, under their keys.
pub type Values<P> = Vec<(<P as Paths>::Key, <P as Paths>::Item)>;

/// What the values of a source are to conditions and loops.
pub trait Paths: Sized {
    /// What functions of the front-end's table need besides the graph.
    type Source: 'static;
    /// What tells values from each other: a name or a number.
    type Key: Clone + PartialEq;
    /// A value while the source runs.
    type Item: Clone;
    /// What values of several paths have in common.
    type Form: Clone;
    /// What a sub-graph changed that outlives it.
    type Block;

    /// What the front-end builds its graph with.
    fn driver(&self) -> &Driver<'_, Self::Source>;

    /// The form of what is the same on all paths.
    fn fixed(&self, item: Self::Item) -> Self::Form;

    /// The form of what one path gives, in the sub-graph that computes it.
    ///
    /// # Errors
    /// What cannot be given by a path.
    fn form_of(&self, item: &Self::Item) -> Lowered<Self::Form>;

    /// The form of what is either of `form` or `item`, which is a value of the graph that is open.
    ///
    /// # Errors
    /// What cannot be one value.
    fn widened(&self, form: Self::Form, item: &Self::Item) -> Lowered<Self::Form>;

    /// The types of the values of the graph that stand for a value of this form.
    fn types(&self, form: &Self::Form) -> Vec<ValueType>;

    /// The values of the graph that is open which stand for `item`, as `form` has them.
    ///
    /// # Errors
    /// Those of the builder, and what no value of the graph can be.
    fn packed(&self, form: &Self::Form, item: &Self::Item) -> Lowered<Vec<Var>>;

    /// The value for which the next values of the graph stand.
    fn unpacked(&self, form: &Self::Form, from: &mut dyn Iterator<Item = Var>) -> Self::Item;

    /// A condition as a truth value of the graph.
    ///
    /// # Errors
    /// Those of the builder, and what is no condition.
    fn truth(&self, condition: &Self::Item) -> Lowered<Var>;

    /// Whether two forms take the same values of the graph.
    fn alike(&self, a: &Self::Form, b: &Self::Form) -> bool {
        std::mem::discriminant(a) == std::mem::discriminant(b) && self.types(a) == self.types(b)
    }

    /// What the inputs of a body are called that stand for a value of this form.
    fn role(&self, _form: &Self::Form) -> &'static str {
        "state"
    }

    /// Whether an arm that ends with this error is never taken; the front-end may say so.
    fn leaves_out(&self, _why: &Diagnostic) -> bool {
        false
    }

    /// The form of a value that goes from turn to turn, of which this turn gave `next`.
    ///
    /// # Errors
    /// As [`Paths::widened`].
    fn carried(&self, carried: &Carried<Self>, next: &Self::Item) -> Lowered<Self::Form> {
        self.widened(carried.form.clone(), next)
    }

    /// Looks at a body whose values have found their forms, and gives the condition of the next turn; `go_on` is that
    /// of this turn. It may say of values that they are stacked.
    ///
    /// # Errors
    /// As [`Paths::truth`].
    fn ended(
        &self,
        _carried: &mut [Carried<Self>],
        condition: Option<&Self::Item>,
        go_on: Var,
    ) -> Lowered<Var> {
        condition.map_or(Ok(go_on), |condition| self.truth(condition))
    }

    /// Notes from now on what a sub-graph changes that outlives it.
    fn begin_block(&self);

    /// Takes back what the innermost sub-graph changed.
    fn suspend_block(&self) -> Self::Block;

    /// Makes the changes again that were taken back.
    fn resume_block(&self, block: Self::Block);
}

/// What is known of a value that is of one type or the other, as far as types are known at all.
pub fn either_type(a: Option<ValueType>, b: Option<ValueType>) -> Option<ValueType> {
    match (a, b) {
        (Some(a), Some(b)) => a.either(&b),
        (a, b) => a.or(b),
    }
}

/// The value with a key, which probably has the number `at`.
fn find<'v, P: Paths>(values: &'v Values<P>, key: &P::Key, at: usize) -> Option<&'v P::Item> {
    let guess = values.get(at).filter(|(known, _)| known == key);
    let found = guess.or_else(|| values.iter().find(|(known, _)| known == key));
    found.map(|(_, item)| item)
}
