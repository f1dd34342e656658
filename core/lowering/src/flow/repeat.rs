//! Loops: the body is built again until what goes into a turn has the form of what comes out.

use super::{Paths, Values, find};
use crate::Lowered;
use onnxd_build::{Operand, Var};
use onnxd_ir::{DataType, Dim, Graph, ValueId, ValueType};

/// Attempts to find what a loop carries. Each makes at least one value more general.
const ATTEMPTS_MAX: usize = 32;

/// The finding for a loop that has no body.
pub const NO_COMMON_FORM: &str = "The values that a loop carries have no common form.";

/// Runs one turn, of its number and what goes into it. What it gives of keys that are not carried is carried from then
/// on.
pub type RunTurn<'t, P> = dyn Fn(Var, &[Carried<P>]) -> Lowered<Turn<P>> + 't;

/// A loop whose turns are known only when the model runs.
pub struct Repeat<'l, P: Paths> {
    /// What its body is called.
    pub name: &'l str,
    /// What goes into the first turn, with the forms that the first attempt tries.
    pub begins: Vec<Carried<P>>,
    /// What runs in each turn.
    pub turn: &'l RunTurn<'l, P>,
    /// What a value was before the turn that is not carried so far.
    pub before: &'l dyn Fn(&P::Key) -> Option<P::Item>,
}

/// What one turn gives.
pub struct Turn<P: Paths> {
    /// Whether there is another one; none if only their number says so.
    pub condition: Option<P::Item>,
    /// What goes into the next one.
    pub values: Values<P>,
    /// Tensors that are stacked along a new first axis.
    pub stacked: Vec<Var>,
}

/// A value that goes from turn to turn, or is the same in all of them.
pub struct Carried<P: Paths> {
    /// Its key.
    pub key: P::Key,
    /// What all turns have in common.
    pub form: P::Form,
    /// What goes into the first turn.
    pub begin: P::Item,
    /// What a turn gets; when the loop is added, what comes out of the last one.
    pub item: P::Item,
    /// What the turn gives.
    pub next: P::Item,
    /// What a turn gives of it to be stacked; when the loop is added, what it stacked. Then it does not go from turn to
    /// turn, and nothing in the body may read it.
    pub stacked: Option<Var>,
    /// The inputs of the body that stand for it.
    inputs: Vec<ValueId>,
}

impl<P: Paths> Carried<P> {
    /// A value of which the first attempt tries this form.
    pub fn new(key: P::Key, begin: P::Item, form: P::Form) -> Carried<P> {
        let (item, next) = (begin.clone(), begin.clone());
        Carried { key, form, begin, item, next, stacked: None, inputs: vec![] }
    }
}

/// A body that is built.
pub struct Body<P: Paths> {
    /// The graph of a turn.
    pub graph: Graph,
    /// What it carries.
    pub carried: Vec<Carried<P>>,
}

impl<P: Paths> Repeat<'_, P> {
    /// Runs turns until their values have forms; none if they do not find any.
    ///
    /// # Errors
    /// Those of the turns, and of forms that have nothing in common.
    pub fn body(mut self, paths: &P) -> Lowered<Option<Body<P>>> {
        let mut carried = std::mem::take(&mut self.begins);
        for _ in 0..ATTEMPTS_MAX {
            let mut built = Ok(None);
            let is_done = paths.driver().attempt(|| {
                built = self.attempt(paths, &mut carried);
                !matches!(built, Ok(None))
            });
            if is_done {
                return Ok(built?.map(|graph| Body { graph, carried }));
            }
        }
        Ok(None)
    }

    /// The graph of a turn; none if its values need wider forms, which they have then.
    fn attempt(&self, paths: &P, carried: &mut Vec<Carried<P>>) -> Lowered<Option<Graph>> {
        let b = paths.driver().builder();
        b.begin(self.name);
        paths.begin_block();
        let outputs = self.outputs(paths, carried);
        paths.suspend_block();
        let Some(outputs) = outputs.inspect_err(|_| b.discard())? else {
            b.discard();
            return Ok(None);
        };
        let mut graph = b.close(&outputs)?;
        let stacked = carried.iter().filter(|carried| carried.stacked.is_some());
        let unread: Vec<ValueId> = stacked.flat_map(|c| c.inputs.iter().copied()).collect();
        graph.unmark_inputs(&unread);
        graph.drop_unread(unread);
        Ok(Some(graph))
    }

    /// The outputs of the body; none if its values need wider forms, which they have then.
    fn outputs(&self, paths: &P, carried: &mut Vec<Carried<P>>) -> Lowered<Option<Vec<Var>>> {
        let b = paths.driver().builder();
        let scalar = |dtype| ValueType::tensor(dtype, Vec::<Dim>::new());
        let iteration = b.input("iteration", scalar(DataType::Int64));
        let go_on = b.input("condition", scalar(DataType::Bool));
        for carried in &mut *carried {
            let (role, types) = (paths.role(&carried.form), paths.types(&carried.form));
            let inputs: Vec<Var> = types.into_iter().map(|ty| b.input(role, ty)).collect();
            carried.inputs = inputs.iter().map(|v| b.id(*v)).collect::<Lowered<_>>()?;
            carried.item = paths.unpacked(&carried.form, &mut inputs.into_iter());
        }
        let Turn { condition, values, stacked } = (self.turn)(iteration, carried)?;
        if !self.settled(paths, carried, &values)? {
            return Ok(None);
        }
        let mut outputs = vec![paths.ended(carried, condition.as_ref(), go_on)?];
        for carried in carried.iter().filter(|carried| carried.stacked.is_none()) {
            outputs.extend(paths.packed(&carried.form, &carried.next)?);
        }
        outputs.extend(carried.iter().filter_map(|carried| carried.stacked));
        outputs.extend(stacked);
        Ok(Some(outputs))
    }

    /// Takes what a turn gives; whether it has the forms of what the turn got. If not, it gets those that it needs.
    fn settled(
        &self,
        paths: &P,
        carried: &mut Vec<Carried<P>>,
        values: &Values<P>,
    ) -> Lowered<bool> {
        let mut settled = true;
        for (at, carried) in carried.iter_mut().enumerate() {
            let next = find::<P>(values, &carried.key, at).unwrap_or(&carried.begin).clone();
            let form = paths.carried(carried, &next)?;
            settled &= paths.alike(&carried.form, &form);
            (carried.form, carried.next) = (form, next);
        }
        let mut found = vec![];
        for (at, (key, item)) in values.iter().enumerate() {
            let guess = carried.get(at).is_some_and(|carried| carried.key == *key);
            if guess || carried.iter().any(|carried| carried.key == *key) {
                continue;
            }
            let Some(begin) = (self.before)(key) else { continue };
            let fixed = paths.fixed(begin.clone());
            let form = paths.widened(fixed.clone(), item)?;
            settled &= paths.alike(&fixed, &form);
            found.push(Carried::new(key.clone(), begin, form));
        }
        if !settled {
            carried.extend(found);
        }
        Ok(settled)
    }
}

impl<P: Paths> Body<P> {
    /// Adds the loop. `operands` gives the most turns and the condition of the first one; it is asked when the values
    /// before the first turn are there. Gives what turns stacked beside what is carried.
    ///
    /// # Errors
    /// Those of the builder and of `operands`.
    pub fn add(
        &mut self,
        paths: &P,
        operands: &dyn Fn() -> Lowered<[Operand; 2]>,
    ) -> Lowered<Vec<Var>> {
        let b = paths.driver().builder();
        let (mut begins, mut types) = (vec![], vec![]);
        for carried in self.carried.iter().filter(|carried| carried.stacked.is_none()) {
            begins.extend(paths.packed(&carried.form, &carried.begin)?);
            types.extend(paths.types(&carried.form));
        }
        let [trips, condition] = operands()?;
        let graph = std::mem::take(&mut self.graph);
        // A loop that gives nothing changes nothing.
        let outputs = match graph.outputs().len() {
            0 | 1 => vec![],
            _ => b.loop_graph(trips, condition, &begins, graph)?,
        };
        // Inference forgets what elements of sequences are like, as an empty one has none.
        for (v, ty) in outputs.iter().zip(types) {
            let forgotten = matches!(ty, ValueType::Sequence(_))
                || b.rank_of(*v).is_none() && ty.shape().is_some();
            if forgotten {
                b.declare(*v, ty);
            }
        }
        let mut outputs = outputs.into_iter();
        for carried in self.carried.iter_mut().filter(|carried| carried.stacked.is_none()) {
            carried.item = paths.unpacked(&carried.form, &mut outputs);
        }
        let stacked = self.carried.iter_mut().filter(|carried| carried.stacked.is_some());
        stacked.for_each(|carried| carried.stacked = outputs.next());
        Ok(outputs.collect())
    }
}
