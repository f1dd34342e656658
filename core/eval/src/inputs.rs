//! Compares the tensors a caller brings with what the graph declares.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, nearest, shown};
use onnxd_ir::{Dim, Graph, Tensor, ValueId, ValueType};
use std::collections::BTreeMap;

/// Everything that is wrong with the inputs of a graph, at once.
///
/// # Errors
/// `N0507`, one for each input.
pub fn check(graph: &Graph, inputs: &BTreeMap<String, Tensor>) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    let mut report = |text: String| problems.push(Diagnostic::new(Code::EvalInputs, text));
    let declared: Vec<&str> = graph.inputs().iter().map(|v| graph[*v].name.as_str()).collect();
    for name in inputs.keys().filter(|n| !declared.contains(&n.as_str())) {
        let hint = match nearest(name, declared.iter().copied()) {
            Some(near) => format!("; did you mean `{}`?", shown(near)),
            None => format!("; its inputs are {}", listed(&declared)),
        };
        report(format!("the model has no input `{}`{hint}", shown(name)));
    }
    for id in graph.inputs() {
        let value = &graph[*id];
        match inputs.get(&value.name) {
            Some(tensor) => {
                if let Some(why) = misfit(graph, *id, tensor) {
                    report(format!("input `{}` {why}", shown(&value.name)));
                }
            }
            None if value.initializer().is_some() => {}
            None => report(format!("input `{}` is missing", shown(&value.name))),
        }
    }
    problems.or_ok(())
}

fn listed(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 8;
    let quoted: Vec<String> =
        names.iter().take(SHOWN_MAX).map(|n| format!("`{}`", shown(n))).collect();
    let more = if names.len() > SHOWN_MAX { ", ..." } else { "" };
    format!("{}{more}", quoted.join(", "))
}

/// How `tensor` contradicts the declared type.
fn misfit(graph: &Graph, id: ValueId, tensor: &Tensor) -> Option<String> {
    let mut ty = graph[id].ty.as_ref()?;
    // An optional that has an element is its element.
    while let ValueType::Optional(element) = ty {
        ty = element;
    }
    let ValueType::Tensor { dtype, shape } = ty else {
        return Some(format!("is declared as {ty}; only tensors can be given"));
    };
    if dtype.is_some_and(|d| d != tensor.dtype()) {
        return Some(format!("must be {ty}, found {tensor:?}"));
    }
    let shape = shape.as_ref()?;
    let fits = |(dim, size): (&Dim, &usize)| dim.known().is_none_or(|n| n == *size as i64);
    if shape.len() != tensor.rank() || !shape.iter().zip(tensor.dims()).all(fits) {
        return Some(format!("must be {ty}, found {tensor:?}"));
    }
    None
}
