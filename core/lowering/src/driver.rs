//! Applies a table to the operators of a network, one after the other.

use super::{ArgumentReader, Missing, Table, Value, foreign};
use onnxd_build::GraphBuilder;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Layer};
use onnxd_ir::text::plain_identifier;
use onnxd_ir::{Function, Graph, Opsets, ValueType};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Deref;

/// What functions of a table see: the graph builder, and what the source gives them.
pub struct Lower<'s, C = ()> {
    pub(super) builder: GraphBuilder,
    /// What the functions of this source need besides the graph.
    pub source: &'s C,
    pub(super) notes: RefCell<Vec<Diagnostic>>,
}

impl<C> Lower<'_, C> {
    /// Tells users something; it does not keep the network from being converted.
    pub fn note(&self, note: Diagnostic) {
        self.notes.borrow_mut().push(note);
    }
}

impl<C> Deref for Lower<'_, C> {
    type Target = GraphBuilder;
    fn deref(&self) -> &GraphBuilder {
        &self.builder
    }
}

/// What becomes of operators that are not in the table. By default they are errors, all at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallback {
    lowered: BTreeSet<String>,
    rest: Rest,
}

/// What becomes of operators that no pass lowers either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Rest {
    #[default]
    Refused,
    Domain(String),
    OwnDomain,
    Wrapped {
        namespace: String,
        domain: String,
        op: String,
    },
}

/// The node that an operator of the source becomes.
struct KeptOperator<'o> {
    domain: &'o str,
    op: Cow<'o, str>,
    /// What the node says beside the operator's own arguments.
    more: Vec<(String, Value)>,
}

impl Fallback {
    /// Passes of plugins lower these operators after the import; others are errors. A submission names them.
    pub fn of<'a>(lowered: impl Iterator<Item = &'a str>) -> Fallback {
        Fallback { lowered: lowered.map(str::to_owned).collect(), rest: Rest::Refused }
    }

    /// Other operators become operators of this domain, with the source's name: their tensors are inputs, their other
    /// arguments attributes.
    #[must_use]
    pub fn or_domain(self, domain: impl Into<String>) -> Fallback {
        Fallback { rest: Rest::Domain(domain.into()), ..self }
    }

    /// As [`Fallback::or_domain`], for `my::op.overload` as the operator `op` of the domain `my`.
    #[must_use]
    pub fn or_own_domain(self) -> Fallback {
        Fallback { rest: Rest::OwnDomain, ..self }
    }

    /// Other operators of a namespace become the operator `op` of `domain`. Its attributes `operator` and
    /// `overload_name` say which one: `aten::sum.dim_IntList` is `sum` and `dim_IntList`.
    #[must_use]
    pub fn or_wrapped(self, namespace: &str, domain: &str, op: &str) -> Fallback {
        let [namespace, domain, op] = [namespace, domain, op].map(str::to_owned);
        Fallback { rest: Rest::Wrapped { namespace, domain, op }, ..self }
    }

    /// The node that `op` becomes.
    fn kept<'o>(&'o self, op: &'o str) -> Option<KeptOperator<'o>> {
        let parts = op.split_once("::");
        if let Some((domain, op)) = parts.filter(|_| self.lowered.contains(op)) {
            return Some(KeptOperator { domain, op: op.into(), more: vec![] });
        }
        // ONNX's names of operators are identifiers.
        let plain = |op: &str| Cow::Owned(plain_identifier(op));
        match &self.rest {
            Rest::Refused => None,
            Rest::Domain(domain) => Some(KeptOperator { domain, op: plain(op), more: vec![] }),
            Rest::OwnDomain => parts.map(|(domain, op)| {
                let (op, _) = op.split_once('.').unwrap_or((op, ""));
                KeptOperator { domain, op: plain(op), more: vec![] }
            }),
            Rest::Wrapped { namespace, domain, op: wrapper } => {
                let (_, name) = parts.filter(|(space, _)| space == namespace)?;
                let (name, overload) = name.split_once('.').unwrap_or((name, ""));
                let more = [("operator", name), ("overload_name", overload)];
                let more = more.map(|(key, text)| (key.to_owned(), text.into())).to_vec();
                Some(KeptOperator { domain, op: wrapper.into(), more })
            }
        }
    }
}

/// An operator of the source as it is read.
#[derive(Clone, Debug, Default)]
pub struct Lowering {
    /// Its name in the source's own spelling (`aten::conv2d`).
    pub op: String,
    /// The layer it belongs to: module path, kind, file and line.
    pub layer: Layer,
    /// Its arguments by position.
    pub arguments: Vec<Value>,
    /// Those with names.
    pub named: Vec<(String, Value)>,
    /// What functions may ask for by name and mostly do not, such as the type in which a layer computes. A fact that
    /// is not read is no finding.
    pub facts: Vec<(String, Value)>,
    /// Names of its results, which the values get; an empty one leaves the name to the builder.
    pub results: Vec<String>,
    /// Types that the source declares for its results, as far as it does. If the operator cannot be
    /// lowered, values of these types stand for its results, so that what reads them is looked at as
    /// if it could. An operator of a foreign domain gives values of these types.
    pub types: Vec<Option<ValueType>>,
}

/// A graph, the local functions that it applies, and what users should know.
pub type Finished = (Graph, Vec<Function>, Vec<Diagnostic>);

/// Builds the graph of a network from its operators.
pub struct Driver<'s, C = ()> {
    table: &'s Table<C>,
    lower: Lower<'s, C>,
    fallback: Fallback,
    missing: RefCell<Missing>,
    found: RefCell<Diagnostics>,
}

impl<'s, C: 'static> Driver<'s, C> {
    /// A driver that adds to `graph`, for the operators of `opsets`.
    pub fn new(
        table: &'s Table<C>,
        source: &'s C,
        graph: Graph,
        opsets: Opsets,
        fallback: Fallback,
    ) -> Driver<'s, C> {
        let builder = GraphBuilder::new(graph, opsets);
        let lower = Lower { builder, source, notes: RefCell::default() };
        let (missing, found) = Default::default();
        Driver { table, lower, fallback, missing, found }
    }

    /// The graph builder, for inputs, outputs and parameters.
    pub fn builder(&self) -> &Lower<'s, C> {
        &self.lower
    }

    /// Adds a finding that keeps the network from being converted.
    pub fn report(&self, found: Diagnostic) {
        self.found.borrow_mut().push(found);
    }

    /// Whether the table has this operator.
    pub fn has_row(&self, op: &str) -> bool {
        self.table.find(op).is_some()
    }

    /// Whether a pass of a plugin lowers an operator.
    pub fn is_lowered(&self, op: &str) -> bool {
        self.fallback.lowered.contains(op)
    }

    /// Whether the table has this operator, or something else takes it.
    pub fn takes(&self, op: &str) -> bool {
        self.table.find(op).is_some() || self.fallback.kept(op).is_some()
    }

    /// How many operators could not be lowered so far, beside those that are not known.
    pub fn findings(&self) -> usize {
        self.found.borrow().0.len()
    }

    /// Runs `f`, whose nodes the caller throws away if it gives `false`; then its findings are forgotten too.
    pub fn attempt(&self, f: impl FnOnce() -> bool) -> bool {
        let missing = Missing::clone(&self.missing.borrow());
        let (found, notes) = (self.found.borrow().0.len(), self.lower.notes.borrow().len());
        let kept = f();
        if !kept {
            self.missing.replace(missing);
            self.found.borrow_mut().0.truncate(found);
            self.lower.notes.borrow_mut().truncate(notes);
        }
        kept
    }

    /// Lowers one operator. What cannot be lowered gives holes and is reported at the end.
    pub fn lower(&self, item: Lowering) -> Vec<Value> {
        let Lowering { op, layer, arguments, named, facts, results, types } = item;
        let holes = || -> Vec<Value> {
            let ty = |i| {
                types
                    .get(i)
                    .and_then(Option::clone)
                    .map(|ty: ValueType| Value::Var(self.lower.builder.placeholder(Some(ty))))
            };
            (0..results.len()).map(|i| ty(i).unwrap_or(Value::Hole)).collect()
        };
        let lowered = match (self.table.find(&op), self.fallback.kept(&op)) {
            (Some(row), _) => {
                let reader = ArgumentReader::new(&self.lower.builder, arguments, named);
                let mut reader = reader.with_facts(facts);
                self.lower.in_layer(layer, |_| row(&self.lower, &mut reader))
            }
            (None, Some(KeptOperator { domain, op, more })) => self.lower.in_layer(layer, |b| {
                b.import_domain(domain);
                let named = named.into_iter().chain(more).collect();
                let foreign_results =
                    foreign::add(b, (domain, &op), (arguments, named), results.len());
                if let Ok(Some(values)) = &foreign_results {
                    declare(b, values, &types);
                }
                foreign_results
            }),
            (None, None) => {
                self.missing.borrow_mut().add(op, layer);
                return holes();
            }
        };
        let lowered = match lowered {
            Ok(Some(lowered)) => lowered,
            Ok(None) => return holes(),
            Err(foreign_results) => {
                let holes = holes();
                self.report(foreign_results);
                return holes;
            }
        };
        for (value, name) in lowered.iter().zip(&results) {
            if let (Value::Var(v), false) = (value, name.is_empty()) {
                self.lower.rename(*v, name);
            }
        }
        lowered
    }

    /// As [`Driver::finish_model`], where no row makes local functions.
    ///
    /// # Errors
    /// Those of [`Driver::finish_model`]; `N0406` if there are functions.
    pub fn finish(self) -> Result<(Graph, Vec<Diagnostic>), Diagnostics> {
        match self.finish_model()? {
            (graph, functions, notes) if functions.is_empty() => Ok((graph, notes)),
            _ => {
                let message = "Rows made local functions, which the front-end leaves out.";
                Err(Diagnostic::new(Code::PluginContract, message).into())
            }
        }
    }

    /// The graph, its local functions and what users should know, once all operators were lowered.
    ///
    /// # Errors
    /// Everything that kept operators from being lowered. One without a row is one finding, with the
    /// number of its places; it names the first, and the help the next ones.
    pub fn finish_model(self) -> Result<Finished, Diagnostics> {
        let say = |op: &str, places: &str| self.table.missing(op, places);
        let mut found = Diagnostics(self.missing.into_inner().findings(say));
        found.0.extend(self.found.into_inner().0);
        let (graph, functions) = self.lower.builder.finish_model();
        found.or_ok((graph, functions, self.lower.notes.into_inner()))
    }
}

/// Gives values the types that the source declares for them.
fn declare(b: &GraphBuilder, values: &[Value], types: &[Option<ValueType>]) {
    for (value, ty) in values.iter().zip(types) {
        if let (Value::Var(v), Some(ty)) = (value, ty) {
            b.declare(*v, ty.clone());
        }
    }
}
