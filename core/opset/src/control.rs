//! Operators with sub-graphs.

use crate::row::{Row, both};
use crate::site::{Done, Site};
use onnxd_ir::{Attr, Dim, Node, Tensor, ValueId};

pub(crate) const ROWS: &[Row] = &[both(&["Scan"], 9, scan_9_up, scan_9_down)];

/// Elements of a batch that are scanned one by one.
const BATCH_MAX: i64 = 64;

/// Up to opset 8 the first axis of everything is a batch. Its elements are scanned by nodes of
/// their own.
fn scan_9_up(s: &mut Site<'_>) -> Done {
    if s.has(0) {
        return Err("its sequences may have different lengths".into());
    }
    let inputs: Vec<ValueId> =
        (1..s.node().inputs.len()).map(|i| s.input(i)).collect::<Result<_, _>>()?;
    let sizes = inputs.iter().filter_map(|v| s.shape(*v).ok()?.first().and_then(Dim::known));
    let batch = sizes.max().ok_or("the size of its batch is not known")?;
    if !(1..=BATCH_MAX).contains(&batch) {
        return Err(format!("its batch has {batch} elements; 1 to {BATCH_MAX} can be unrolled"));
    }
    if let Some(directions) = s.ints("directions")? {
        s.drop("directions");
        s.set("scan_input_directions", Attr::Ints(directions));
    }
    let outputs = s.node().outputs.clone();
    let mut parts: Vec<Vec<ValueId>> = vec![Vec::new(); outputs.len()];
    s.keep_outputs(0);
    for element in 0..batch {
        let at = s.tensor("element", Tensor::scalar(element));
        let of = inputs.iter().map(|v| Some(s.add("Gather", "element", &[*v, at], &[]))).collect();
        let own: Vec<ValueId> = outputs.iter().map(|_| s.value("element")).collect();
        for (list, v) in parts.iter_mut().zip(&own) {
            list.push(s.squeeze("Unsqueeze", "element", *v, &[0]));
        }
        let outputs = own.into_iter().map(Some).collect();
        let node = Node { inputs: of, outputs, ..s.node().clone() };
        if element + 1 < batch {
            s.graph.add_node(Node { name: String::new(), ..node });
        } else {
            s.set_inputs(node.inputs);
            s.graph.set_node_outputs(s.id, node.outputs);
        }
    }
    for (out, parts) in outputs.into_iter().zip(parts) {
        if let Some(out) = out {
            s.add_to(out, "Concat", &parts, &[("axis", Attr::Int(0))]);
        }
    }
    Ok(())
}

/// A batch of one.
fn scan_9_down(s: &mut Site<'_>) -> Done {
    let zeros = ["scan_input_axes", "scan_output_axes", "scan_output_directions"];
    for name in zeros {
        if s.ints(name)?.is_some_and(|list| list.iter().any(|x| *x != 0)) {
            return Err(format!("there is no `{name}`"));
        }
        s.drop(name);
    }
    if let Some(directions) = s.ints("scan_input_directions")? {
        s.drop("scan_input_directions");
        s.set("directions", Attr::Ints(directions));
    }
    let mut inputs = vec![None];
    for i in 0..s.node().inputs.len() {
        let v = s.input(i)?;
        inputs.push(Some(s.squeeze("Unsqueeze", "batch", v, &[0])));
    }
    s.set_inputs(inputs);
    for i in 0..s.node().outputs.len() {
        if s.node().output(i).is_some() {
            let (inner, out) = s.detach(i, "batch")?;
            s.add_to(out, "Squeeze", &[inner], &[("axes", Attr::Ints(vec![0]))]);
        }
    }
    Ok(())
}
