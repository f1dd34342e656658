//! The JSON of exported programs, of all schema versions.

use super::argument::NamedValue;
use super::*;
use crate::archive::over_limit;
use crate::diag::{Code, refuse};
use onnxd_plugin_sdk::json;
use serde::de::{Deserializer, Error};
use serde_json::Value;

/// Bytes of a program's text. Weights are not in it.
const TEXT_MAX: usize = 128 << 20;
/// Objects, lists, and what they hold. A node of a program has about a hundred.
const VALUES_MAX: usize = 1 << 23;

/// Bytes of a tensor: addresses of processors have 48 bits, and some 57.
const BYTES_MAX: i64 = 1 << 57;

/// Reads a program. Objects and lists within each other are limited by `serde_json`.
pub(crate) fn read(text: &[u8]) -> Result<Program, Diagnostic> {
    refuse!(text.len() > TEXT_MAX =>
        over_limit(format!("the program has {} bytes of JSON, more than {TEXT_MAX}", text.len())));
    let (text, values) = json::quoted(text);
    refuse!(values > VALUES_MAX =>
        over_limit(format!("the program has more than {VALUES_MAX} values in its JSON")));
    let file: ProgramFile = serde_json::from_slice(&text).map_err(|e| unreadable(&e))?;
    let module = file.graph_module;
    let input_specs: Vec<_> = module.signature.input_specs;
    let output_specs: Vec<_> = module.signature.output_specs;
    check_count("inputs", module.graph.inputs.len(), input_specs.len())?;
    check_count("outputs", module.graph.outputs.len(), output_specs.len())?;
    let range = |(symbol, range): (Rc<str>, Range)| {
        (
            symbol,
            range.min_val.as_ref().and_then(Value::as_i64),
            range.max_val.as_ref().and_then(Value::as_i64),
        )
    };
    let mut ranges: Vec<_> = file.range_constraints.into_iter().map(range).collect();
    ranges.sort();
    Ok(Program {
        graph: module.graph,
        inputs: input_specs.into_iter().map(input).collect::<Result<_, _>>()?,
        outputs: output_specs.iter().map(output).collect::<Result<_, _>>()?,
        keys: keys::of_calls(&module.calls),
        ranges,
    })
}

/// For the fuzz target: reads whatever it gets, with all sizes.
pub(crate) fn read_any(text: &[u8]) {
    let Ok(program) = read(text) else { return };
    let sizes =
        program.graph.tensors.values().flat_map(|meta| meta.sizes.iter().chain(&meta.strides));
    for size in sizes.chain(program.graph.ints.values()) {
        if let SymbolicSize::Symbolic(text) = size
            && let Ok(expr) = sizes::Expr::parse(text)
        {
            let _ = (expr.evaluate(&|_| Some(3)), expr.render(&|_| None));
        }
    }
}

fn damaged(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, format!("the exported program: {}", what.into()))
}

fn unreadable(error: &serde_json::Error) -> Diagnostic {
    let code = match error.classify() {
        serde_json::error::Category::Eof => Code::SourceTruncated,
        _ if error.to_string().starts_with("recursion limit") => Code::SourceLimit,
        _ => Code::SourceSyntax,
    };
    Diagnostic::new(code, format!("the exported program: {error}"))
}

fn check_count(what: &str, graph: usize, signature: usize) -> Result<(), Diagnostic> {
    if graph == signature {
        return Ok(());
    }
    Err(damaged(format!("the graph has {graph} {what}, its signature {signature}")))
}

#[derive(Deserialize)]
struct ProgramFile {
    graph_module: GraphModule,
    #[serde(default)]
    range_constraints: HashMap<Rc<str>, Range>,
}

/// Numbers beyond those of an `i64`, and the words for no limit, are no limit.
#[derive(Deserialize)]
struct Range {
    min_val: Option<Value>,
    max_val: Option<Value>,
}

#[derive(Deserialize)]
struct GraphModule {
    graph: Graph,
    signature: Signature,
    #[serde(default, rename = "module_call_graph")]
    calls: Vec<keys::ModuleCall>,
}

#[derive(Deserialize)]
struct Signature {
    input_specs: Vec<InputSpec>,
    output_specs: Vec<OutputSpec>,
}

/// One key, or all keys, where one is not null.
#[derive(Deserialize)]
struct InputSpec {
    parameter: Option<Held>,
    buffer: Option<Held>,
    tensor_constant: Option<Held>,
    custom_obj: Option<Held>,
    token: Option<Held>,
    user_input: Option<Plain>,
    constant_input: Option<Fixed>,
}

/// A value with the name that the module has for it.
#[derive(Deserialize)]
struct Held {
    arg: NamedValue,
    #[serde(
        alias = "parameter_name",
        alias = "buffer_name",
        alias = "tensor_constant_name",
        alias = "custom_obj_name",
        alias = "user_input_name"
    )]
    name: Option<Rc<str>>,
    persistent: Option<bool>,
}

#[derive(Deserialize)]
struct Plain {
    arg: Argument,
}

#[derive(Deserialize)]
struct Fixed {
    name: Rc<str>,
    value: Argument,
}

#[derive(Deserialize)]
struct OutputSpec {
    user_output: Option<Plain>,
    loss_output: Option<Held>,
    buffer_mutation: Option<Held>,
    parameter_mutation: Option<Held>,
    user_input_mutation: Option<Held>,
    gradient_to_parameter: Option<Held>,
    gradient_to_user_input: Option<Held>,
    token: Option<Held>,
}

fn input(spec: InputSpec) -> Result<Input, Diagnostic> {
    let of = |held: &Held, kind: InputKind| Ok(Input { value: held.arg.argument(), kind });
    match spec {
        InputSpec { parameter: Some(held), .. } => of(&held, InputKind::Parameter(name(&held)?)),
        InputSpec { buffer: Some(held), .. } => {
            // Torch 2.2 says it of none.
            let persistent = held.persistent.unwrap_or(true);
            of(&held, InputKind::Buffer { name: name(&held)?, persistent })
        }
        InputSpec { tensor_constant: Some(held), .. } => {
            of(&held, InputKind::Constant(name(&held)?))
        }
        InputSpec { custom_obj: Some(held), .. } => of(&held, InputKind::Object(name(&held)?)),
        InputSpec { token: Some(held), .. } => of(&held, InputKind::Token),
        InputSpec { constant_input: Some(fixed), .. } => {
            Ok(Input { value: fixed.value, kind: InputKind::Fixed(fixed.name) })
        }
        InputSpec { user_input: Some(user), .. } => {
            Ok(Input { value: user.arg, kind: InputKind::User })
        }
        _ => Err(damaged("an input of a kind that is not known")),
    }
}

fn output(spec: &OutputSpec) -> Result<OutputKind, Diagnostic> {
    Ok(match spec {
        OutputSpec { user_output: Some(_), .. } => OutputKind::User,
        OutputSpec { loss_output: Some(_), .. } => OutputKind::Loss,
        OutputSpec { token: Some(_), .. } => OutputKind::Token,
        OutputSpec { buffer_mutation: Some(held), .. } => OutputKind::BufferMutation(name(held)?),
        OutputSpec { parameter_mutation: Some(held), .. } => {
            OutputKind::ParameterMutation(name(held)?)
        }
        OutputSpec { user_input_mutation: Some(held), .. } => {
            OutputKind::InputMutation(name(held)?)
        }
        OutputSpec { gradient_to_parameter: Some(held), .. }
        | OutputSpec { gradient_to_user_input: Some(held), .. } => {
            OutputKind::Gradient(name(held)?)
        }
        _ => return Err(damaged("an output of a kind that is not known")),
    })
}

fn name(held: &Held) -> Result<Rc<str>, Diagnostic> {
    held.name
        .clone()
        .ok_or_else(|| damaged(format!("`{}` has no name in the module", held.arg.name)))
}

/// `torch.ops.aten.add.Tensor`, `torch.ops.higher_order.cond`, `_operator.mul`
pub(super) fn target<'de, D: Deserializer<'de>>(from: D) -> Result<CallTarget, D::Error> {
    let text = String::deserialize(from)?;
    if let Some(name) = text.strip_prefix("torch.ops.higher_order.") {
        return Ok(CallTarget::HigherOrder(name.split('.').next().unwrap_or(name).into()));
    }
    if !text.starts_with("torch.ops.") {
        return Ok(CallTarget::Function(text.into()));
    }
    match operator(&text) {
        Some((name, overload)) => Ok(CallTarget::Operator { name, overload }),
        None => Err(D::Error::custom(format!("`{text}` names no operator"))),
    }
}

/// `aten::add` and `Tensor` of `torch.ops.aten.add.Tensor`.
pub(super) fn operator(text: &str) -> Option<(Rc<str>, Rc<str>)> {
    let mut parts = text.strip_prefix("torch.ops.")?.splitn(3, '.');
    let (namespace, name) = (parts.next()?, parts.next()?);
    let overload = parts.next().filter(|overload| *overload != "default").unwrap_or_default();
    Some((format!("{namespace}::{name}").into(), overload.into()))
}

/// Tensors by name, each with sizes that a tensor can have.
pub(super) fn tensors<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<HashMap<Rc<str>, Meta>, D::Error> {
    let tensors = HashMap::<Rc<str>, Meta>::deserialize(from)?;
    for (name, meta) in &tensors {
        if let Some(why) = impossible(&meta.sizes) {
            let name = onnxd_plugin_sdk::diagnostics::shown(name);
            return Err(D::Error::custom(format!("the tensor `{name}` has {why}")));
        }
    }
    Ok(tensors)
}

/// Why no tensor has these sizes.
fn impossible(sizes: &[SymbolicSize]) -> Option<String> {
    let known = || {
        sizes.iter().filter_map(|size| match size {
            SymbolicSize::Known(size) => Some(*size),
            SymbolicSize::Symbolic(_) => None,
        })
    };
    if let Some(negative) = known().find(|size| *size < 0) {
        return Some(format!("the size {negative}"));
    }
    let bytes = known().try_fold(1, |bytes: i64, size| bytes.checked_mul(size));
    let fits = bytes.is_some_and(|bytes| bytes <= BYTES_MAX);
    (!fits).then(|| "more bytes than any machine has".to_owned())
}

pub(super) fn passed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Passed>, D::Error> {
    match Option::<i64>::deserialize(from)? {
        None | Some(0) => Ok(None),
        Some(1) => Ok(Some(Passed::Positional)),
        Some(2) => Ok(Some(Passed::Named)),
        Some(other) => Err(D::Error::custom(format!("unknown kind of passing {other}"))),
    }
}
