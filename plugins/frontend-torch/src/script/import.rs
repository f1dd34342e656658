//! From an archive to a model.

use super::kept::{StateSearch, StatefulRun};
use super::library::CodeLibrary;
use super::places;
use super::run::Interpreter;
use super::states::{States, Types, WrittenStates};
use crate::archive::objects::ScriptArchive;
use crate::aten::{RowContext, table};
use crate::diag::{Code, Diagnostic, Diagnostics, refuse, shown};
use crate::machine::{GraphNumber, Item, Machine, NumberKind, Result};
use crate::options::TorchOptions;
use crate::outputs;
use crate::params;
use crate::syntax::ast::Parameter;
use crate::syntax::types::Type;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Opsets, ValueId, ValueType};
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::{Imported, Submission};
use serde_json::Value;

/// Work that runs may make which are given up, because an input turned out to hold indices.
const REPEATED_MAX: u64 = 5_000_000;
/// What a run counts as work beside its statements.
const RUN_WORK: u64 = 10_000;
/// Inputs that a note names.
const NAMED_MAX: usize = 20;

/// Reads a TorchScript archive.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    submission: &Submission,
    archive: &ScriptArchive,
    options: &mut TorchOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let method = submission.params().section::<params::Source>().method();
    let (mut repeated, mut kept) = (0, StateSearch::new(submission));
    loop {
        match made(archive, &method, options, kept.types()) {
            RunOutcome::Index(at, worked) => {
                repeated += RUN_WORK + worked;
                refuse!(repeated > REPEATED_MAX => undeclared().into());
                options.use_as(at, DataType::Int64);
            }
            RunOutcome::Graph(run) => match kept.next(*run) {
                Ok(None) => {}
                Ok(Some(run)) => {
                    options.constants().tell(submission.params());
                    return Ok(imported(archive, options, run));
                }
                Err(found) => return Err(in_source(archive, found)),
            },
            RunOutcome::Nothing(found) => return Err(in_source(archive, kept.explained(found))),
        }
    }
}

/// Findings with the lines of the user's source.
fn in_source(archive: &ScriptArchive, mut found: Diagnostics) -> Diagnostics {
    places::translated(archive, &mut found.0);
    found
}

fn imported(archive: &ScriptArchive, options: &TorchOptions, run: StatefulRun) -> Imported {
    let StatefulRun { mut graph, mut notes, found } = run;
    // States come behind the user's inputs.
    let states = found.states.iter().filter_map(|(_, state)| graph.value_named(&state.input));
    let states: Vec<ValueId> = states.collect();
    graph.unmark_inputs(&states);
    states.iter().for_each(|id| graph.mark_input(*id));
    places::translated(archive, &mut notes);
    if options.documented {
        places::documented(archive, &mut graph);
        outputs::documented(&mut graph);
    }
    notes.extend(archive.doubt());
    let model = outputs::model(graph, options.opset);
    let states = found.states.into_iter().map(|(_, state)| state).collect();
    Imported { model, notes, states, ..Imported::default() }
}

fn undeclared() -> Diagnostic {
    let message = "Too many inputs hold indices, which only a run of the program tells.";
    let help = "Say which inputs are of integers with `export.input_dtypes`, or by an `inputs.npz` beside it.";
    Diagnostic::new(Code::SourceLimit, message).help(help)
}

/// The graph of an archive, if there is one.
pub(crate) fn graph(archive: &ScriptArchive, options: &TorchOptions) -> Option<Graph> {
    match made(archive, "forward", options, Types::new()) {
        RunOutcome::Graph(run) => Some(run.graph),
        _ => None,
    }
}

/// What a run of the program gives.
enum RunOutcome {
    Graph(Box<StatefulRun>),
    /// The input of this number holds indices, and must be of integers. So much work was made until it was known.
    Index(usize, u64),
    Nothing(Diagnostics),
}

/// Runs the program, with the states of `types` as inputs.
fn made(archive: &ScriptArchive, method: &str, options: &TorchOptions, types: Types) -> RunOutcome {
    let library = CodeLibrary::new(|module: &str| archive.code.get(module).cloned());
    let table = table();
    let source = RowContext::new(options.training);
    let opsets = Opsets::from([(String::new(), options.opset)]);
    let driver =
        Driver::new(&table, &source, Graph::new("torch"), opsets, options.fallback.clone());
    let machine = Machine::new(driver).without_weights(options.without_weights);
    let run =
        Interpreter::new(&machine, &library, archive, options.training, States::with_types(types));
    let ran = run_method(&run, method, options);
    drop(run);
    if let Some(at) = machine.index.get() {
        return RunOutcome::Index(at, machine.worked());
    }
    match Diagnostics::both(machine.finish(), ran) {
        Ok(((graph, notes), found)) => {
            RunOutcome::Graph(Box::new(StatefulRun { graph, notes, found }))
        }
        Err(all) => RunOutcome::Nothing(all),
    }
}

/// Runs a method of the module that was saved, or of one inside.
fn run_method(
    run: &Interpreter<'_, '_>,
    path: &str,
    options: &TorchOptions,
) -> Result<WrittenStates> {
    let (object, method) = run.method_at(path, options)?;
    let mut inputs = GraphInputs { run, options, next: 0, supposed: vec![] };
    let mut items = vec![];
    let parameters = method.parameters.get(1..).unwrap_or_default();
    let is_bound = |p: &Parameter| options.constants().has(&p.name);
    let bound = parameters.iter().rposition(is_bound).map_or(0, |last| last + 1);
    for (i, parameter) in parameters.iter().enumerate() {
        let ty = parameter.ty.clone().unwrap_or(Type::Tensor);
        let is_left_out = inputs.next >= options.count() && !is_bound(parameter);
        items.push(match parameter.default.as_ref().filter(|_| is_left_out) {
            Some(_) if i >= bound => break,
            Some(default) => run.default(default)?,
            None => inputs.input(&parameter.name, &ty)?,
        });
    }
    inputs.tell();
    let named = method.parameters.iter().skip(1).zip(&items);
    let named: Vec<_> = named.map(|(p, item)| (p.name.to_string(), item.clone())).collect();
    run.machine.watch();
    run.machine.begin_block();
    let result = run.called_with_hooks(&object, &method, items)?;
    outputs::listed(run.machine, &result)?;
    run.written(&named)
}

/// The inputs of the graph, as they are made.
struct GraphInputs<'r, 'm, 's> {
    run: &'r Interpreter<'m, 's>,
    options: &'r TorchOptions,
    /// Number of the next one.
    next: usize,
    /// Those whose element type nothing says, with the supposed one.
    supposed: Vec<String>,
}

impl GraphInputs<'_, '_, '_> {
    /// The value of a parameter of the method.
    fn input(&mut self, name: &str, ty: &Type) -> Result<Item> {
        let machine = self.run.machine;
        if let Some(value) = self.options.constants().take(name) {
            return self.constant(name, value, ty);
        }
        Ok(match ty {
            Type::Tensor | Type::Any => machine.tensor(self.tensor(name)),
            Type::Int => self.number(name, NumberKind::Int)?,
            Type::Float | Type::Number => self.number(name, NumberKind::Float)?,
            Type::Bool => self.number(name, NumberKind::Bool)?,
            Type::Optional(of) => self.input(name, of)?,
            Type::Tuple(types) => {
                let types = types.iter().enumerate();
                let part = |(i, ty): (usize, &Type)| self.input(&format!("{name}_{i}"), ty);
                Item::tuple(types.map(part).collect::<Result<_>>()?)
            }
            Type::Dict(key, of) if **key == Type::Text => {
                let keys: Vec<String> =
                    self.options.named().iter().map(|&key| key.into()).collect();
                let keys = keys.get(self.next..).unwrap_or_default();
                if keys.is_empty() {
                    let message = format!("The keys of the dict `{}` are not known.", shown(name));
                    let help =
                        "Name them with `export.input_names`, or by an `inputs.npz` beside it.";
                    return Err(machine.problem(Code::LayerUnsupported, message).help(help));
                }
                let part = |key: &String| Ok((Item::text(key), self.input(key, of)?));
                Item::dict(keys.iter().map(part).collect::<Result<_>>()?)
            }
            Type::List(of) => {
                // As many as shapes are given for; one if it is the only way to know.
                let rest = self.options.count().saturating_sub(self.next).max(1);
                let part = |i: usize| self.input(&format!("{name}_{i}"), of);
                Item::list((0..rest).map(part).collect::<Result<_>>()?)
            }
            other => {
                let message =
                    format!("The input `{}` is of type `{other}`, which ONNX lacks.", shown(name));
                let help = "Give its value in `source.constants`, if it is always the same.";
                return Err(machine.problem(Code::LayerUnsupported, message).help(help));
            }
        })
    }

    /// The value that the params give to a parameter.
    fn constant(&self, name: &str, value: &Value, ty: &Type) -> Result<Item> {
        let wrong = || {
            let (name, value) = (shown(name), shown(&value.to_string()));
            let message = format!("`source.constants` has {value} for `{name}` of type `{ty}`.");
            Diagnostic::new(Code::ParamsBadValue, message)
        };
        let plain = || match value {
            Value::Bool(x) => Some(Item::Bool(*x)),
            Value::Number(x) => x.as_i64().map(Item::Int).or_else(|| x.as_f64().map(Item::Float)),
            Value::String(text) => Some(Item::text(text)),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.constant(name, item, &Type::Any));
                items.collect::<Result<_>>().ok().map(Item::list)
            }
            Value::Null | Value::Object(_) => None,
        };
        Ok(match (ty, value) {
            (Type::Any, _) => plain().ok_or_else(wrong)?,
            (Type::Optional(of), _) => self.constant(name, value, of)?,
            (Type::Bool, Value::Bool(_)) | (Type::Text, Value::String(_)) => {
                plain().ok_or_else(wrong)?
            }
            (Type::Int, Value::Number(x)) if x.is_i64() => plain().ok_or_else(wrong)?,
            (Type::Number, Value::Number(_)) => plain().ok_or_else(wrong)?,
            (Type::Float, Value::Number(x)) => Item::Float(x.as_f64().ok_or_else(wrong)?),
            (Type::List(of), Value::Array(items)) => {
                let items = items.iter().map(|item| self.constant(name, item, of));
                Item::list(items.collect::<Result<_>>()?)
            }
            (Type::Tensor, Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                let item = plain().ok_or_else(wrong)?;
                self.run.machine.call("aten::tensor", None, vec![item], vec![])?
            }
            _ => return Err(wrong()),
        })
    }

    fn tensor(&mut self, name: &str) -> Var {
        let machine = self.run.machine;
        let ty = self.options.input(self.next, name, DataType::Float);
        let dtype = ty.dtype().unwrap_or(DataType::Float);
        let var = machine.builder().input(name, ty.clone());
        if !self.options.has_dtype(self.next, name) {
            let open = if ty.shape().is_none() { " of any shape" } else { "" };
            self.supposed.push(format!("`{}` {dtype}{open}", shown(name)));
            if dtype == DataType::Float {
                machine.suppose(var, self.next);
            }
        }
        self.next += 1;
        var
    }

    fn number(&mut self, name: &str, kind: NumberKind) -> Result<Item> {
        let b = self.run.machine.builder();
        let given = self.options.input(self.next, name, kind.dtype()).dtype();
        self.next += 1;
        let dtype = given.unwrap_or(kind.dtype());
        let var = b.input(name, ValueType::tensor(dtype, Vec::<Dim>::new()));
        let var = b.cast(var, kind.dtype())?;
        Ok(Item::Number(GraphNumber { var, kind }))
    }

    /// Says which element types are supposed.
    fn tell(&self) {
        if self.supposed.is_empty() {
            return;
        }
        let named = self.supposed.len().min(NAMED_MAX);
        let mut all = self.supposed[..named].join(", ");
        if self.supposed.len() > named {
            all += &format!(" and {} more", self.supposed.len() - named);
        }
        let message =
            format!("The file does not say of which type its inputs are: supposed are {all}.");
        let help = "Say it with `export.input_shapes` and `export.input_dtypes`, or by an `inputs.npz` beside it.";
        let note = Diagnostic::new(Code::LayerParameterIgnored, message).help(help);
        self.run.machine.builder().note(note);
    }
}

#[cfg(test)]
mod tests;
