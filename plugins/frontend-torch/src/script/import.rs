//! From an archive to a model.

use super::library::Library;
use super::places;
use super::run::Interpreter;
use super::types::Type;
use crate::archive::objects::ScriptArchive;
use crate::archive::zip::Archive;
use crate::aten::{Source, table};
use crate::diag::{Code, Diagnostic, Diagnostics, shown};
use crate::machine::{Item, Machine, Number, NumberKind, Result};
use crate::options::Options;
use crate::outputs;
use crate::params;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Opsets, ValueType};
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::{Imported, Submission};

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
    archive: Archive,
    mut options: Options,
) -> std::result::Result<Imported, Diagnostics> {
    let archive = ScriptArchive::open(archive)?;
    let method = submission.params().section::<params::Source>().method();
    let mut repeated = 0;
    loop {
        match made(&archive, &method, &options) {
            Made::Index(at, worked) => {
                repeated += RUN_WORK + worked;
                if repeated > REPEATED_MAX {
                    return Err(undeclared().into());
                }
                options.use_as(at, DataType::Int64);
            }
            Made::Graph(mut graph, mut notes) => {
                places::translated(&archive, &mut notes);
                if options.documented {
                    places::documented(&archive, &mut graph);
                    outputs::documented(&mut graph);
                }
                let model = outputs::model(*graph, options.opset);
                return Ok(Imported { model, notes, ..Imported::default() });
            }
            Made::Nothing(mut found) => {
                places::translated(&archive, &mut found.0);
                return Err(found);
            }
        }
    }
}

fn undeclared() -> Diagnostic {
    let message = "Too many inputs hold indices, which only a run of the program tells.";
    let help = "Say which inputs are of integers with `export.input_dtypes`, or by an `inputs.npz` beside it.";
    Diagnostic::new(Code::SourceLimit, message).help(help)
}

/// The graph of an archive, if there is one.
pub(crate) fn graph(archive: &ScriptArchive, options: &Options) -> Option<Graph> {
    match made(archive, "forward", options) {
        Made::Graph(graph, _) => Some(*graph),
        _ => None,
    }
}

/// What a run of the program gives.
enum Made {
    Graph(Box<Graph>, Vec<Diagnostic>),
    /// The input of this number holds indices, and must be of integers. So much work was made until it was known.
    Index(usize, u64),
    Nothing(Diagnostics),
}

fn made(archive: &ScriptArchive, method: &str, options: &Options) -> Made {
    let library = Library::new(|module: &str| archive.code.get(module).cloned());
    let table = table();
    let source = Source::new(options.training);
    let opsets = Opsets::from([(String::new(), options.opset)]);
    let driver =
        Driver::new(&table, &source, Graph::new("torch"), opsets, options.fallback.clone());
    let machine = Machine::new(driver).without_weights(options.without_weights);
    let run = Interpreter::new(&machine, &library, archive, options.training);
    let ran = run_method(&run, method, options);
    drop(run);
    if let Some(at) = machine.index.get() {
        return Made::Index(at, machine.worked());
    }
    match (machine.finish(), ran) {
        (Ok((graph, notes)), Ok(())) => Made::Graph(Box::new(graph), notes),
        // What kept operators from being converted may be why the program could not go on.
        (finished, ran) => {
            let mut all = finished.err().unwrap_or_default();
            all.0.extend(ran.err());
            Made::Nothing(all)
        }
    }
}

/// Runs a method of the module that was saved, or of one inside.
fn run_method(run: &Interpreter<'_, '_>, path: &str, options: &Options) -> Result<()> {
    let (object, method) = run.method_at(path, options)?;
    let mut inputs = Inputs { run, options, next: 0, supposed: vec![] };
    let mut items = vec![];
    for parameter in method.parameters.iter().skip(1) {
        let ty = parameter.ty.clone().unwrap_or(Type::Tensor);
        if parameter.default.is_some() && inputs.next >= options.count() {
            break;
        }
        items.push(inputs.input(&parameter.name, &ty)?);
    }
    inputs.tell();
    let result = run.called_with_hooks(&object, &method, items)?;
    outputs::listed(run.machine, &result, &[])
}

/// The inputs of the graph, as they are made.
struct Inputs<'r, 'm, 's> {
    run: &'r Interpreter<'m, 's>,
    options: &'r Options,
    /// Number of the next one.
    next: usize,
    /// Those whose element type nothing says, with the supposed one.
    supposed: Vec<String>,
}

impl Inputs<'_, '_, '_> {
    /// The value of a parameter of the method.
    fn input(&mut self, name: &str, ty: &Type) -> Result<Item> {
        let machine = self.run.machine;
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
            Type::List(of) => {
                // As many as shapes are given for; one if it is the only way to know.
                let rest = self.options.count().saturating_sub(self.next).max(1);
                let part = |i: usize| self.input(&format!("{name}_{i}"), of);
                Item::list((0..rest).map(part).collect::<Result<_>>()?)
            }
            other => {
                let message =
                    format!("The input `{}` is of type `{other}`, which ONNX lacks.", shown(name));
                return Err(machine.problem(Code::LayerUnsupported, message));
            }
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
        Ok(Item::Number(Number { var, kind }))
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
