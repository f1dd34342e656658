//! What the model keeps between calls. A front-end gives it as the initializer of an input. From then on it is apart:
//! passes and quantizers see an input like others, and the values for the first call go to a file beside the model. So
//! nobody folds a state, and nobody runs the model without it by mistake.

use super::session::{Session, disk};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity, shown};
use onnxd_ir::{Graph, Model, Tensor, ValueId};
use onnxd_proto::onnxd::{FileDigest, FileRole, State};
use std::collections::{BTreeSet, HashMap};
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
    let ports = Ports::from_graph(graph);
    let wrong = states.iter().filter_map(|state| wrong(graph, &ports, state));
    let wrong = wrong.map(|why| Diagnostic::new(Code::PluginContract, why)).collect();
    Diagnostics(wrong).or_ok(())?;
    let value = |state: &State| {
        let input = ports.inputs.get(state.input.as_str())?;
        Some((state.input.clone(), graph[*input].initializer()?.clone()))
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
    let graph = session.lend_graph();
    let names: BTreeSet<&str> = session.states.iter().map(|state| state.input.as_str()).collect();
    let rest = onnxd_onnx::without_initializers(graph, &names)?;
    session.replace_graph(rest);
    Ok(())
}

fn wrong(graph: &Graph, ports: &Ports<'_>, State { input, output }: &State) -> Option<String> {
    let found = ports.inputs.get(input.as_str());
    if found.is_none_or(|v| graph[*v].initializer().is_none()) {
        return Some(format!("the state `{}` is no input with an initializer", shown(input)));
    }
    let found = ports.outputs.get(output.as_str());
    found.is_none().then(|| format!("the state `{}` is no output", shown(output)))
}

/// The inputs and outputs of a graph by their names.
struct Ports<'g> {
    inputs: HashMap<&'g str, ValueId>,
    outputs: HashMap<&'g str, ValueId>,
}

impl Ports<'_> {
    fn from_graph(graph: &Graph) -> Ports<'_> {
        // The first one of a name counts.
        let named =
            |among: &[ValueId]| among.iter().rev().map(|v| (graph[*v].name.as_str(), *v)).collect();
        Ports { inputs: named(graph.inputs()), outputs: named(graph.outputs()) }
    }
}

/// Renames states as inputs or outputs of the model were.
pub(crate) fn rename(session: &mut Session, renamed: &[(String, String)], is_input: bool) {
    let renamed: HashMap<&str, &String> =
        renamed.iter().rev().map(|(old, new)| (old.as_str(), new)).collect();
    let take = |name: &mut String| {
        if let Some(new) = renamed.get(name.as_str()) {
            name.clone_from(new);
        }
    };
    if is_input {
        session.initial.iter_mut().for_each(|(name, _)| take(name));
    }
    for state in &mut session.states {
        take(if is_input { &mut state.input } else { &mut state.output });
    }
}

/// Names the states in the model that is written.
pub(crate) fn mark(session: &Session, model: &mut Model) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    let graph = &model.graph;
    let ports = Ports::from_graph(graph);
    for (state, (_, value)) in session.states.iter().zip(&session.initial) {
        let input = ports.inputs.get(state.input.as_str()).copied();
        let output = ports.outputs.get(state.output.as_str()).copied();
        let dtype = |v: Option<ValueId>| graph[v?].ty.as_ref()?.dtype();
        if input.is_none() || output.is_none() {
            let text = format!("passes left no input or output for `{}`", shown(&state.input));
            problems.push(Diagnostic::new(Code::PluginContract, text));
        } else if [input, output].iter().any(|v| dtype(*v).is_some_and(|ty| ty != value.dtype())) {
            let text = format!(
                "The state `{}` is {} in the network, and an input or output of the model has another type.",
                shown(&state.input),
                value.dtype()
            );
            let help = "Quantize in a way that leaves inputs and outputs in floating point.";
            problems.push(Diagnostic::new(Code::LayerUnsupported, text).help(help));
        }
    }
    let states = session.states.iter().take(session.initial.len());
    let marks: Vec<(String, String)> =
        states.map(|s| (format!("onnxd.state.{}", s.input), s.output.clone())).collect();
    let keys: BTreeSet<&str> = marks.iter().map(|(key, _)| key.as_str()).collect();
    model.metadata.retain(|(key, _)| !keys.contains(key.as_str()));
    model.metadata.extend(marks);
    problems.or_ok(())
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
    let ports = Ports::from_graph(&model.graph);
    let input = |(name, value): &(String, Tensor)| {
        ports.inputs.get(name.as_str()).map(|input| (*input, value.clone()))
    };
    let found: Vec<(ValueId, Tensor)> = session.initial.iter().filter_map(input).collect();
    for (input, value) in found {
        model.graph.set_initializer(input, Some(value));
    }
}
