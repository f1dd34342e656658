//! Which function lowers which operator.

use super::arguments::ArgumentFault;
use super::{ArgumentReader, Lower, Lowered, Parameter, Value, WrongArgument};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use std::collections::HashMap;

/// Lowers one operator: adds nodes, gives its results; `None` if it reads a hole.
type LoweringFn<C> = Box<
    dyn Fn(&Lower<'_, C>, &mut ArgumentReader<'_>) -> Lowered<Option<Vec<Value>>> + Send + Sync,
>;

/// The operators of a source; `C` is what its functions need besides the graph.
pub struct Table<C = ()> {
    rows: HashMap<&'static str, LoweringFn<C>>,
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

    /// Adds an operator, with the names of the arguments that `lower` takes; [`rows!`](crate::rows) calls this.
    /// Arguments that it does not take are a finding of the driver.
    ///
    /// # Panics
    /// If the operator has a row already: a family of two functions would hide a mistake.
    #[must_use]
    pub fn row<const N: usize>(
        mut self,
        op: &'static str,
        names: [&'static str; N],
        lower: impl LowerWith<C, N> + Send + Sync + 'static,
    ) -> Self {
        let run: LoweringFn<C> = Box::new(move |b, reader| lower.run(b, reader, names));
        assert!(self.rows.insert(op, run).is_none(), "{op} has two rows");
        self
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

    pub(super) fn find(&self, op: &str) -> Option<&LoweringFn<C>> {
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

/// A function that lowers an operator from `N` arguments.
pub trait LowerWith<C, const N: usize> {
    /// Takes arguments of these names, and lowers the operator; `None` if it reads a hole.
    ///
    /// # Errors
    /// What is wrong with an argument, or with the operator.
    fn run(
        &self,
        b: &Lower<'_, C>,
        reader: &mut ArgumentReader<'_>,
        names: [&'static str; N],
    ) -> Lowered<Option<Vec<Value>>>;
}

macro_rules! lower_with {
    ($($count:literal: $($parameter:ident)*;)*) => { $(
        // A parameter stands for its type, then for its name, then for its value.
        #[allow(non_snake_case)]
        impl<C, $($parameter: Parameter,)* R: Results> LowerWith<C, $count>
            for fn(&Lower<'_, C>, $($parameter),*) -> Lowered<R>
        {
            fn run(
                &self,
                b: &Lower<'_, C>,
                reader: &mut ArgumentReader<'_>,
                names: [&'static str; $count],
            ) -> Lowered<Option<Vec<Value>>> {
                let [$($parameter),*] = names;
                $(
                    let $parameter = match $parameter::take(reader, $parameter) {
                        Ok(argument) => argument,
                        Err(WrongArgument) => return wrong(b, reader),
                    };
                )*
                if may_run(b, reader) { given(self(b, $($parameter),*)) } else { Ok(None) }
            }
        }
    )* };
}

lower_with! {
    0: ;
    1: P1;
    2: P1 P2;
    3: P1 P2 P3;
    4: P1 P2 P3 P4;
    5: P1 P2 P3 P4 P5;
    6: P1 P2 P3 P4 P5 P6;
}

/// Adds rows to a table: names of operators, and the function that lowers them.
///
/// ```ignore
/// rows! { table;
///     "scale" | "scale_" => scale(x, by);
///     "twice" => |b, x: Var| b.mul(x, 2.0);
///     "clip" => clip;
/// }
/// ```
///
/// The names in brackets are those of the arguments, in the order of the source; so are the names of a closure's
/// parameters. A closure that reads `b.source` says the type of `b`. A function without brackets takes one struct,
/// which [`arguments!`](crate::arguments!) declares.
#[macro_export]
macro_rules! rows {
    ($table:expr; $($rows:tt)*) => { $crate::rows!(@next ($table) $($rows)*) };
    (@next ($table:expr)) => { $table };
    (@next ($table:expr)
        $($op:literal)|+ => |$b:tt $(: $lower:ty)? $(, $name:ident: $ty:ty)*| $body:expr; $($rest:tt)*
    ) => {
        $crate::rows!(@next (
            $crate::rows!(@row ($table) ($($op)+) ($($name)*) (|$b $(: $lower)? $(, $name: $ty)*| $body))
        ) $($rest)*)
    };
    (@next ($table:expr)
        $($op:literal)|+ => $($part:ident)::+($($name:tt),*); $($rest:tt)*
    ) => {
        $crate::rows!(@next (
            $crate::rows!(@row ($table) ($($op)+) ($($name)*) ($($part)::+))
        ) $($rest)*)
    };
    (@next ($table:expr) $($op:literal)|+ => $lower:expr; $($rest:tt)*) => {
        $crate::rows!(@next ($crate::rows!(@row ($table) ($($op)+) (all) ($lower))) $($rest)*)
    };
    (@row ($table:expr) ($($op:literal)+) $names:tt $f:tt) => {
        $table$(.row($op, $crate::rows!(@names $names), $crate::rows!(@pointer $names $f)))+
    };
    (@names ($($name:tt)*)) => { [$(stringify!($name)),*] };
    (@pointer ($($name:tt)*) $f:tt) => {
        $f as fn(&$crate::Lower<'_, _> $(, $crate::rows!(@any $name))*) -> _
    };
    (@any $name:tt) => { _ };
}

/// What a function gave, as a list.
fn given<R: Results>(results: Lowered<R>) -> Lowered<Option<Vec<Value>>> {
    results.map(|results| Some(results.results()))
}

/// Notes arguments that were not taken. Whether the function can run on those that were: none is a hole.
fn may_run<C>(b: &Lower<'_, C>, reader: &ArgumentReader<'_>) -> bool {
    let unread = reader.unread();
    if !unread.is_empty() {
        let message = format!("{} has no effect.", unread.join(", "));
        b.note(b.diagnostic(Code::LayerParameterIgnored, message));
    }
    !reader.holed()
}

/// What becomes of an operator one of whose arguments could not be taken.
fn wrong<C>(b: &Lower<'_, C>, reader: &mut ArgumentReader<'_>) -> Lowered<Option<Vec<Value>>> {
    match reader.fault() {
        // What a hole is the cause of was reported where the hole is.
        Some(ArgumentFault::Hole) => Ok(None),
        Some(ArgumentFault::Computed(what)) => {
            let help = "Export the network with a constant there.";
            Err(b.diagnostic(Code::LayerUnsupported, format!("{what}.")).help(help))
        }
        Some(ArgumentFault::Wrong(what)) => {
            Err(b.diagnostic(Code::LayerParameter, format!("{what}.")))
        }
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
