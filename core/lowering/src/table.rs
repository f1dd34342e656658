//! Which function lowers which operator.

use super::arguments::Fault;
use super::{Arguments, Lower, Lowered, Reader, Value, WrongArgument};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use std::collections::HashMap;

/// Lowers one operator: adds nodes, gives its results; `None` if it reads a hole.
type Row<C> =
    Box<dyn Fn(&Lower<'_, C>, &mut Reader<'_>) -> Lowered<Option<Vec<Value>>> + Send + Sync>;

/// The operators of a source; `C` is what its functions need besides the graph.
pub struct Table<C = ()> {
    rows: HashMap<&'static str, Row<C>>,
    refused: HashMap<&'static str, &'static str>,
    unknown: Option<&'static str>,
}

impl<C> Default for Table<C> {
    fn default() -> Table<C> {
        Table { rows: HashMap::new(), refused: HashMap::new(), unknown: None }
    }
}

impl<C: 'static> Table<C> {
    /// No operators.
    pub fn new() -> Table<C> {
        Table::default()
    }

    /// Adds an operator. Arguments that `lower` does not take are a finding of the driver.
    ///
    /// # Panics
    /// If the operator has a row already: a family of two functions would hide a mistake.
    #[must_use]
    pub fn row<A, R>(mut self, op: &'static str, lower: fn(&Lower<'_, C>, A) -> Lowered<R>) -> Self
    where
        A: Arguments + 'static,
        R: Results + 'static,
    {
        // One for each type of arguments and results, of which there are hundreds: it holds nothing else.
        let run: Row<C> = Box::new(move |b, reader| match A::take(reader) {
            Ok(arguments) if may_run(b, reader) => given(lower(b, arguments)),
            Ok(_) => Ok(None),
            Err(WrongArgument) => wrong(b, reader),
        });
        self.add(op, run);
        self
    }

    fn add(&mut self, op: &'static str, run: Row<C>) {
        assert!(self.rows.insert(op, run).is_none(), "{op} has two rows");
    }

    /// Adds an operator that has no counterpart in ONNX, with the reason as the end of a sentence.
    #[must_use]
    pub fn refused(mut self, op: &'static str, reason: &'static str) -> Self {
        self.refused.insert(op, reason);
        self
    }

    /// What users should do about an operator that has neither a row nor a reason.
    #[must_use]
    pub fn unknown_help(mut self, help: &'static str) -> Self {
        self.unknown = Some(help);
        self
    }

    /// Adds the rows of another table; its own win.
    #[must_use]
    pub fn with(mut self, others: Table<C>) -> Self {
        for (op, row) in others.rows {
            self.rows.entry(op).or_insert(row);
        }
        for (op, reason) in others.refused {
            self.refused.entry(op).or_insert(reason);
        }
        self.unknown = self.unknown.or(others.unknown);
        self
    }

    /// Names of all operators that can be lowered, sorted.
    pub fn operators(&self) -> Vec<&'static str> {
        let mut all: Vec<&str> = self.rows.keys().copied().collect();
        all.sort_unstable();
        all
    }

    pub(super) fn find(&self, op: &str) -> Option<&Row<C>> {
        self.rows.get(op)
    }

    /// A finding about an operator without a row, at `places`.
    pub(super) fn missing(&self, op: &str, places: &str) -> Diagnostic {
        let name = shown(op);
        if let Some(reason) = self.refused.get(op) {
            let message = format!("`{name}` cannot be converted{places}: {reason}.");
            return Diagnostic::new(Code::LayerUnsupported, message);
        }
        let message = format!("`{name}` is not known to this front-end{places}.");
        let found = Diagnostic::new(Code::LayerUnsupported, message);
        match self.unknown {
            Some(help) => found.help(help),
            None => found,
        }
    }
}

/// What a function gave, as a list.
fn given<R: Results>(results: Lowered<R>) -> Lowered<Option<Vec<Value>>> {
    results.map(|results| Some(results.results()))
}

/// Notes arguments that were not taken. Whether the function can run on those that were: none is a hole.
fn may_run<C>(b: &Lower<'_, C>, reader: &Reader<'_>) -> bool {
    let unread = reader.unread();
    if !unread.is_empty() {
        let message = format!("{} has no effect.", unread.join(", "));
        b.note(b.diagnostic(Code::LayerParameterIgnored, message));
    }
    !reader.holed()
}

/// What becomes of an operator one of whose arguments could not be taken.
fn wrong<C>(b: &Lower<'_, C>, reader: &mut Reader<'_>) -> Lowered<Option<Vec<Value>>> {
    match reader.fault() {
        // What a hole is the cause of was reported where the hole is.
        Some(Fault::Hole) => Ok(None),
        Some(Fault::Computed(what)) => {
            let help = "Export the network with a constant there.";
            Err(b.diagnostic(Code::LayerUnsupported, format!("{what}.")).help(help))
        }
        Some(Fault::Wrong(what)) => Err(b.diagnostic(Code::LayerParameter, format!("{what}."))),
        None => {
            Err(b.diagnostic(Code::PluginContract, "An argument was refused without a reason."))
        }
    }
}

/// What functions of a table give.
pub trait Results {
    /// As a list of results.
    fn results(self) -> Vec<Value>;
}

impl<T: Into<Value>> Results for T {
    fn results(self) -> Vec<Value> {
        vec![self.into()]
    }
}

impl<const N: usize> Results for [onnxd_build::Var; N] {
    fn results(self) -> Vec<Value> {
        self.into_iter().map(Value::from).collect()
    }
}

impl Results for () {
    fn results(self) -> Vec<Value> {
        vec![]
    }
}
