//! Operators with sub-graphs, which closures build. A value of an enclosing graph may be used in
//! them like any other; it is captured.

use crate::builder::GraphFrame;
use crate::{Call, GraphBuilder, Operand, Result, Var};
use onnxd_diagnostics::Code;
use onnxd_ir::{Attr, DataType, Dim, Graph, ValueType};

/// What one repetition of a `Loop` ends with.
pub struct Turn {
    /// Whether there is another repetition: a bool scalar.
    pub condition: Var,
    /// The carried values, as many as go in.
    pub carried: Vec<Var>,
    /// Values that are stacked along a new first axis over all repetitions.
    pub scanned: Vec<Var>,
}

/// A sub-graph that is begun, and not built at present: what both branches of an `If` give is known only when both are
/// built.
pub struct Suspended(pub(crate) GraphFrame);

/// Operators of this module.
struct Control;

impl GraphBuilder {
    /// `If`: what one of two closures gives; they must give as many values. A condition that is known
    /// adds its branch to the graph without a node.
    ///
    /// # Errors
    /// Those of the closures and of [`Call::one`]; `N0502` if the branches give different numbers of
    /// values.
    pub fn if_(
        &self,
        condition: impl Into<Operand>,
        then: impl FnOnce(&GraphBuilder) -> Result<Vec<Var>>,
        otherwise: impl FnOnce(&GraphBuilder) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        let condition = condition.into();
        let known = match &condition {
            Operand::Int(x) => Some(*x != 0),
            Operand::Var(v) => self.known_bool(*v),
            _ => None,
        };
        match known.filter(|_| self.folds()) {
            Some(true) => return then(self),
            Some(false) => return otherwise(self),
            None => {}
        }
        let (then, _) = self.subgraph("then", |b| then(b))?;
        let (otherwise, _) = self.subgraph("else", |b| otherwise(b))?;
        self.if_graphs(condition, then, otherwise)
    }

    /// `If` of branches that were built by [`GraphBuilder::begin`] and [`GraphBuilder::close`].
    ///
    /// # Errors
    /// Those of [`Call::one`]; `N0502` if the branches give different numbers of values.
    pub fn if_graphs(
        &self,
        condition: impl Into<Operand>,
        then: Graph,
        otherwise: Graph,
    ) -> Result<Vec<Var>> {
        let (n, m) = (then.outputs().len(), otherwise.outputs().len());
        if n != m {
            let message = format!("The branches of If give {n} and {m} values.");
            return Err(self.diagnostic(Code::OnnxInvalid, message));
        }
        Call::<Control>::new(self, ("", "If"), vec![("cond", condition.into())], vec![])
            .set("then_branch", Attr::Graph(Box::new(then)))
            .set("else_branch", Attr::Graph(Box::new(otherwise)))
            .list(n)
    }

    /// `Loop` with a body that was built by [`GraphBuilder::begin`] and [`GraphBuilder::close`]: its inputs are the
    /// number of the repetition, the condition and the carried values; its outputs the next condition, the carried
    /// values and those that are stacked. Gives all but the condition.
    ///
    /// # Errors
    /// Those of [`Call::one`].
    pub fn loop_graph(
        &self,
        trips: impl Into<Operand>,
        condition: impl Into<Operand>,
        carried: &[Var],
        body: Graph,
    ) -> Result<Vec<Var>> {
        let n = body.outputs().len().saturating_sub(1);
        let inputs = vec![("M", trips.into()), ("cond", condition.into())];
        let carried = carried.iter().map(Operand::from).collect();
        Call::<Control>::new(self, ("", "Loop"), inputs, carried)
            .set("body", Attr::Graph(Box::new(body)))
            .list(n)
    }

    /// Whether a size may be another one each time that the graph runs that nodes are added to.
    pub fn may_vary(&self, size: &Dim) -> bool {
        let numbered = self.state.borrow().frames.last().map_or(0, |frame| frame.numbered);
        *size == Dim::Unknown || size.is_numbered(numbered)
    }

    /// Begins a sub-graph. Nodes are added to it until [`GraphBuilder::close`], [`GraphBuilder::suspend`] or
    /// [`GraphBuilder::discard`].
    pub fn begin(&self, name: &str) {
        self.push(Graph::new(self.fresh(name)));
    }

    /// Leaves the innermost sub-graph for a while.
    ///
    /// # Panics
    /// If none was begun.
    pub fn suspend(&self) -> Suspended {
        let mut state = self.state.borrow_mut();
        assert!(state.frames.len() > 1, "no sub-graph was begun");
        Suspended(state.frames.pop().expect("a graph is open"))
    }

    /// Goes on with a sub-graph, in the graph in which it was suspended.
    pub fn resume(&self, suspended: Suspended) {
        self.state.borrow_mut().frames.push(suspended.0);
    }

    /// Ends the innermost sub-graph, which gives `outputs`.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::id`]; then it is ended too.
    pub fn close(&self, outputs: &[Var]) -> Result<Graph> {
        let listed = self.mark_outputs(outputs);
        let (graph, _) = self.pop();
        listed.map(|()| graph)
    }

    /// A sub-graph that gives what `f` gives. Nothing of it stays if that is nothing or an error.
    ///
    /// # Errors
    /// Those of `f` and of [`GraphBuilder::close`].
    pub fn sub_graph(
        &self,
        name: &str,
        f: impl FnOnce() -> Result<Option<Vec<Var>>>,
    ) -> Result<Option<Graph>> {
        self.begin(name);
        match f() {
            Ok(Some(outputs)) => self.close(&outputs).map(Some),
            nothing => {
                self.discard();
                nothing.map(|_| None)
            }
        }
    }

    /// Ends the innermost sub-graph; nothing of it stays.
    pub fn discard(&self) {
        self.pop();
    }

    /// `Loop`: repeats `body` at most `trips` times, while `condition` holds. `body` gets the number
    /// of the repetition, the condition and the carried values, of which only the element types are
    /// known. Gives the carried values at the end, then the stacked ones.
    ///
    /// # Errors
    /// Those of the closure and of [`Call::one`]; `N0502` if another number of values is carried.
    pub fn loop_(
        &self,
        trips: impl Into<Operand>,
        condition: impl Into<Operand>,
        carried: &[Var],
        body: impl FnOnce(&GraphBuilder, Var, Var, &[Var]) -> Result<Turn>,
    ) -> Result<Vec<Var>> {
        let types: Vec<Option<DataType>> = carried.iter().map(|v| self.dtype_of(*v)).collect();
        let scalar = |dtype| ValueType::tensor(dtype, Vec::<Dim>::new());
        let (body, _) = self.subgraph("body", |b| {
            let i = b.input("iteration", scalar(DataType::Int64));
            let go_on = b.input("condition", scalar(DataType::Bool));
            let states: Vec<Var> = types.iter().map(|dtype| b.state_input(*dtype)).collect();
            let turn = body(b, i, go_on, &states)?;
            if turn.carried.len() != states.len() {
                let (n, m) = (states.len(), turn.carried.len());
                let message = format!("The body of Loop gets {n} values and gives {m}.");
                return Err(b.diagnostic(Code::OnnxInvalid, message));
            }
            Ok([turn.condition].into_iter().chain(turn.carried).chain(turn.scanned).collect())
        })?;
        self.loop_graph(trips, condition, carried, body)
    }

    /// `Scan` along the first axis: `body` gets the states and one slice of each of `scanned`, and
    /// gives the new states, then slices that are stacked. Gives the states at the end, then the
    /// stacked ones.
    ///
    /// # Errors
    /// Those of the closure and of [`Call::one`].
    pub fn scan(
        &self,
        states: &[Var],
        scanned: &[Var],
        body: impl FnOnce(&GraphBuilder, &[Var], &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        let slice = |v: &Var| match self.type_of(*v)? {
            ValueType::Tensor { dtype, shape } => {
                let shape = shape.map(|s| s.into_iter().skip(1).collect());
                Some(ValueType::Tensor { dtype, shape })
            }
            _ => None,
        };
        let dtypes: Vec<_> = states.iter().map(|v| self.dtype_of(*v)).collect();
        let slices: Vec<_> = scanned.iter().map(slice).collect();
        let (body, n) = self.subgraph("body", |b| {
            let states: Vec<Var> = dtypes.iter().map(|dtype| b.state_input(*dtype)).collect();
            let unknown = ValueType::Tensor { dtype: None, shape: None };
            let slices =
                slices.into_iter().map(|ty| b.input("slice", ty.unwrap_or(unknown.clone())));
            let slices: Vec<Var> = slices.collect();
            body(b, &states, &slices)
        })?;
        let inputs = states.iter().chain(scanned).map(Operand::from).collect();
        Call::<Control>::new(self, ("", "Scan"), vec![], inputs)
            .set("num_scan_inputs", scanned.len() as i64)
            .set("body", Attr::Graph(Box::new(body)))
            .list(n)
    }

    /// `SequenceMap`: `body` gets an element of `sequence` and what corresponds to it in each of
    /// `more` (the element of a sequence, the whole of a tensor); gives a sequence for each value
    /// that it gives.
    ///
    /// # Errors
    /// Those of the closure and of [`Call::one`].
    pub fn sequence_map(
        &self,
        sequence: Var,
        more: &[Var],
        body: impl FnOnce(&GraphBuilder, &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        let unknown = ValueType::Tensor { dtype: None, shape: None };
        let element = |v: &Var| match self.type_of(*v) {
            Some(ValueType::Sequence(of)) => *of,
            Some(other) => other,
            None => unknown.clone(),
        };
        let all: Vec<Var> = std::iter::once(sequence).chain(more.iter().copied()).collect();
        let types: Vec<ValueType> = all.iter().map(element).collect();
        let (body, n) = self.subgraph("body", |b| {
            let elements: Vec<Var> = types.into_iter().map(|ty| b.input("element", ty)).collect();
            body(b, &elements)
        })?;
        let more = more.iter().map(Operand::from).collect();
        Call::<Control>::new(
            self,
            ("", "SequenceMap"),
            vec![("input_sequence", sequence.into())],
            more,
        )
        .set("body", Attr::Graph(Box::new(body)))
        .list(n)
    }

    fn known_bool(&self, v: Var) -> Option<bool> {
        let tensor = self.constant_of(v)?;
        Some(tensor.len() == 1 && *tensor.bytes().first()? != 0)
    }

    fn state_input(&self, dtype: Option<DataType>) -> Var {
        self.input("state", ValueType::Tensor { dtype, shape: None })
    }

    /// Builds a sub-graph; gives it and the number of its outputs.
    fn subgraph(
        &self,
        name: &str,
        body: impl FnOnce(&GraphBuilder) -> Result<Vec<Var>>,
    ) -> Result<(Graph, usize)> {
        self.push(Graph::new(self.fresh(name)));
        let listed = body(self).and_then(|outputs| {
            self.mark_outputs(&outputs)?;
            Ok(outputs.len())
        });
        let (graph, _) = self.pop();
        listed.map(|n| (graph, n))
    }

    fn mark_outputs(&self, outputs: &[Var]) -> Result<()> {
        for v in outputs {
            let id = self.own_output(*v)?;
            let mut state = self.state.borrow_mut();
            state.frames.last_mut().expect("a graph is open").graph.mark_output(id);
        }
        Ok(())
    }
}
