//! Values whose elements are all known become constants.

use onnxd_plugin_sdk::ir::{DataType, Dim, Facts, NodeId, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// The outputs of a node that are known, each as a constant.
pub(super) fn known(cx: &mut Rewriter, facts: &Facts, id: NodeId) -> Rewrite {
    let wanted = |v: &ValueId| {
        cx.graph.constant(*v).is_none() && cx.graph.uses(*v) > 0 && !cx.graph.is_output(*v)
    };
    let outputs = cx.graph[id].outputs.iter().flatten().copied().filter(wanted);
    let found: Vec<_> = outputs.filter_map(|v| Some((v, tensor(cx, facts, v)?))).collect();
    if found.is_empty() {
        return Skip::unlike();
    }
    let unread = |v: &ValueId| cx.graph.uses(*v) == 0 || found.iter().any(|(k, _)| k == v);
    if cx.graph[id].outputs.iter().flatten().all(unread) {
        cx.remove(id);
        found.into_iter().for_each(|(v, tensor)| cx.graph.set_initializer(v, Some(tensor)));
    } else {
        for (v, tensor) in found {
            let by = cx.derive(v, "known", tensor);
            cx.graph.replace_uses(v, by);
        }
    }
    Ok(())
}

/// The elements of `v`, if all are known and exact in its type.
fn tensor(cx: &Rewriter, facts: &Facts, v: ValueId) -> Option<Tensor> {
    let (scalar, items) = facts.elements(v)?;
    let items: Vec<i64> = items.iter().map(Dim::known).collect::<Option<_>>()?;
    let dims = if scalar { vec![] } else { vec![items.len()] };
    match cx.dtype(v).ok()? {
        DataType::Int64 => Some(Tensor::from_vec(dims, items)),
        DataType::Int32 => {
            let narrow: Result<Vec<i32>, _> = items.into_iter().map(i32::try_from).collect();
            Some(Tensor::from_vec(dims, narrow.ok()?))
        }
        DataType::Bool => {
            let bits = items.iter().map(|x| u8::from(*x != 0)).collect();
            Some(Tensor::from_vec_as(DataType::Bool, dims, bits))
        }
        // A zero may be negative there.
        _ => None,
    }
}
