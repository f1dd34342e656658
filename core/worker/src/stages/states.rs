//! What the model keeps between calls. A front-end gives it as the initializer of an input. From then on it is apart:
//! passes and quantizers see an input like others, and the values for the first call go to a file beside the model. So
//! nobody folds a state, and nobody runs the model without it by mistake.

use super::export::disk;
use super::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity, shown};
use onnxd_ir::{Graph, Model, Tensor, ValueId};
use onnxd_proto::onnx::ModelProto;
use onnxd_proto::onnxd::{FileDigest, FileRole, State};
use prost::Message;
use std::collections::BTreeSet;
use std::path::Path;

/// Name of the file with the values for the first call, beside the model.
pub(crate) const STATE: &str = "model.state.npz";

/// States that a note names.
const NAMED_MAX: usize = 8;

/// States that a model may have.
const STATES_MAX: usize = 65_536;

/// Takes the states that a front-end names.
pub(crate) fn take(session: &mut Session, states: &[State]) -> Result<(), Diagnostics> {
    if states.len() > STATES_MAX {
        let text = format!("more than {STATES_MAX} states");
        return Err(Diagnostic::new(Code::PluginContract, text).into());
    }
    let graph = &session.model()?.graph;
    let wrong = states.iter().filter_map(|state| wrong(graph, state));
    let wrong = wrong.map(|why| Diagnostic::new(Code::PluginContract, why)).collect();
    Diagnostics(wrong).or_ok(())?;
    let value = |state: &State| {
        let input = named(graph, graph.inputs(), &state.input)?;
        Some((state.input.clone(), graph[input].initializer()?.clone()))
    };
    session.initial = states.iter().filter_map(value).collect();
    session.states = states.to_vec();
    without_values(session)
}

/// Takes the values for the first call out of the encoded model.
fn without_values(session: &mut Session) -> Result<(), Diagnostics> {
    if session.states.is_empty() {
        return Ok(());
    }
    let damaged = |e: prost::DecodeError| Diagnostic::new(Code::PluginContract, e.to_string());
    let mut model = ModelProto::decode(session.lend_graph()).map_err(damaged)?;
    let names: BTreeSet<&str> = session.states.iter().map(|state| state.input.as_str()).collect();
    if let Some(graph) = &mut model.graph {
        graph.initializer.retain(|tensor| !names.contains(tensor.name()));
    }
    session.replace_graph(model.encode_to_vec().into());
    Ok(())
}

fn wrong(graph: &Graph, State { input, output }: &State) -> Option<String> {
    let found = named(graph, graph.inputs(), input);
    if found.is_none_or(|v| graph[v].initializer().is_none()) {
        return Some(format!("the state `{}` is no input with an initializer", shown(input)));
    }
    let found = named(graph, graph.outputs(), output);
    found.is_none().then(|| format!("the state `{}` is no output", shown(output)))
}

fn named(graph: &Graph, among: &[ValueId], name: &str) -> Option<ValueId> {
    among.iter().copied().find(|v| graph[*v].name == name)
}

/// Renames states as inputs or outputs of the model were.
pub(crate) fn rename(session: &mut Session, renamed: &[(String, String)], is_input: bool) {
    if is_input {
        for (name, _) in &mut session.initial {
            if let Some((_, new)) = renamed.iter().find(|(old, _)| old == name) {
                name.clone_from(new);
            }
        }
    }
    for state in &mut session.states {
        let name = if is_input { &mut state.input } else { &mut state.output };
        if let Some((_, new)) = renamed.iter().find(|(old, _)| old == name) {
            name.clone_from(new);
        }
    }
}

/// Names the states in the model that is written.
pub(crate) fn mark(session: &Session, model: &mut Model) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::default();
    for (state, (_, value)) in session.states.iter().zip(&session.initial) {
        let graph = &model.graph;
        let input = named(graph, graph.inputs(), &state.input);
        let output = named(graph, graph.outputs(), &state.output);
        let dtype = |v: Option<ValueId>| graph[v?].ty.as_ref()?.dtype();
        if input.is_none() || output.is_none() {
            let text = format!("passes left no input or output for `{}`", shown(&state.input));
            found.push(Diagnostic::new(Code::PluginContract, text));
        } else if [input, output].iter().any(|v| dtype(*v).is_some_and(|ty| ty != value.dtype())) {
            let text = format!(
                "The state `{}` is {} in the network, and an input or output of the model has another type.",
                shown(&state.input),
                value.dtype()
            );
            let help = "Quantize in a way that leaves inputs and outputs in floating point.";
            found.push(Diagnostic::new(Code::LayerUnsupported, text).help(help));
        }
        model.set_metadata(&format!("onnxd.state.{}", state.input), state.output.clone());
    }
    found.or_ok(())
}

/// Writes the values for the first call beside the model.
pub(crate) fn write(session: &mut Session, folder: &Path) -> Result<(), Diagnostic> {
    if session.initial.is_empty() {
        return Ok(());
    }
    let path = folder.join(STATE);
    onnxd_arrays::write(&path, &session.initial)?;
    let bytes = path.metadata().map_err(|e| disk(&path, &e))?.len();
    let role = FileRole::State.into();
    session.outputs.push(FileDigest { path: STATE.into(), bytes, role, ..FileDigest::default() });
    let named = |s: &State| format!("`{}` to `{}`", shown(&s.output), shown(&s.input));
    let named: Vec<String> = session.states.iter().take(NAMED_MAX).map(named).collect();
    let more = session.states.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = format!(
        "The network keeps values between calls. Pass on outputs of one call as inputs of the next one: {}{more}. \
         `{STATE}` has the inputs for the first call.",
        named.join(", ")
    );
    session.note(&Diagnostic::new(Code::LayerParameterIgnored, text).help(""), Severity::Note);
    Ok(())
}

/// Puts the values for the first call back, where the reference names none.
pub(crate) fn restore(session: &Session, model: &mut Model) {
    for (name, value) in &session.initial {
        let graph = &mut model.graph;
        if let Some(input) = named(graph, graph.inputs(), name) {
            graph.set_initializer(input, Some(Tensor::clone(value)));
        }
    }
}
