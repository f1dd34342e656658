//! From an archive to a model.

use super::library::Library;
use super::places;
use super::run::Interpreter;
use super::types::Type;
use crate::archive::objects::ScriptArchive;
use crate::archive::zip::Archive;
use crate::aten::{Source, table};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::machine::{Item, Machine, Number, NumberKind, Result};
use crate::options::Options;
use crate::outputs;
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Opsets, ValueType};
use onnxd_plugin_sdk::lower::{Driver, Fallback};
use onnxd_plugin_sdk::{Imported, Submission};

/// Reads a TorchScript archive.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    submission: &Submission,
    archive: Archive,
    options: &Options,
) -> std::result::Result<Imported, Diagnostics> {
    let archive = ScriptArchive::open(archive)?;
    let library = Library::new(|module: &str| archive.code.get(module).cloned());
    let table = table();
    let source = Source::default();
    let opsets = Opsets::from([(String::new(), options.opset)]);
    let fallback = Fallback::of(submission);
    let driver = Driver::new(&table, &source, Graph::new("torch"), opsets, fallback);
    let machine = Machine::new(driver);
    let run = Interpreter::new(&machine, &library, &archive);
    let ran = forward(&run, options);
    drop(run);
    let found = ran.err();
    let finished = machine.finish();
    let (graph, mut notes) = match (finished, found) {
        (Ok(done), None) => done,
        // What kept operators from being converted may be why the program could not go on.
        (finished, found) => {
            let mut all = finished.err().unwrap_or_default();
            all.0.extend(found);
            places::translated(&archive, &mut all.0);
            return Err(all);
        }
    };
    places::translated(&archive, &mut notes);
    Ok(Imported { model: outputs::model(graph, options.opset), notes, ..Imported::default() })
}

/// Runs `forward` of the module that was saved.
fn forward(run: &Interpreter<'_, '_>, options: &Options) -> Result<()> {
    let Item::Object(root) = run.root()? else {
        return Err(Diagnostic::new(Code::SourceSyntax, "The archive holds no module."));
    };
    let Some(method) = run.method(&root.class, "forward")? else {
        let message = "The module has no method `forward`.";
        return Err(Diagnostic::new(Code::LayerUnsupported, message));
    };
    let mut next = 0;
    let mut inputs = vec![];
    for parameter in method.parameters.iter().skip(1) {
        let ty = parameter.ty.clone().unwrap_or(Type::Tensor);
        if parameter.default.is_some() && next >= options.count() {
            break;
        }
        inputs.push(input(run, options, &parameter.name, &ty, &mut next)?);
    }
    let result = run.called_method(&root, &method, inputs)?;
    outputs::listed(run.machine, &result, &[])
}

/// The value of a parameter of `forward`, from inputs of the graph.
fn input(
    run: &Interpreter<'_, '_>,
    options: &Options,
    name: &str,
    ty: &Type,
    next: &mut usize,
) -> Result<Item> {
    let machine = run.machine;
    let b = machine.builder();
    let scalar = |kind: NumberKind, next: &mut usize| {
        let dtype = match options.input(*next, name, kind.dtype()) {
            ty if options.has_dtype(*next) => ty.dtype().unwrap_or(kind.dtype()),
            _ => kind.dtype(),
        };
        *next += 1;
        let var = b.input(name, ValueType::tensor(dtype, Vec::<Dim>::new()));
        let var = b.cast(var, kind.dtype())?;
        Ok(Item::Number(Number { var, kind }))
    };
    Ok(match ty {
        Type::Tensor | Type::Any => {
            let var = b.input(name, options.input(*next, name, DataType::Float));
            *next += 1;
            machine.tensor(var)
        }
        Type::Int => scalar(NumberKind::Int, next)?,
        Type::Float | Type::Number => scalar(NumberKind::Float, next)?,
        Type::Bool => scalar(NumberKind::Bool, next)?,
        Type::Optional(of) => input(run, options, name, of, next)?,
        Type::Tuple(types) => {
            let part =
                |(i, ty): (usize, &Type)| input(run, options, &format!("{name}_{i}"), ty, next);
            Item::tuple(types.iter().enumerate().map(part).collect::<Result<_>>()?)
        }
        Type::List(of) => {
            // As many as shapes are given for; one if it is the only way to know.
            let rest = options.count().saturating_sub(*next).max(1);
            let part = |i: usize| input(run, options, &format!("{name}_{i}"), of, next);
            Item::list((0..rest).map(part).collect::<Result<_>>()?)
        }
        other => {
            let message =
                format!("The input `{name}` is of type {other:?}, which ONNX does not have.");
            return Err(machine.problem(Code::LayerUnsupported, message));
        }
    })
}
