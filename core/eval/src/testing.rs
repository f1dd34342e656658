//! For kernel tests: one operator applied to tensors.

use crate::eval_node;
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::{Attr, DataType, Graph, Node, Tensor};

/// Bytes that outputs of tests may take.
const BYTES_MAX: usize = 1 << 26;

/// All outputs of operator `op` (`domain.Name` outside of the standard), of which `outputs` are
/// wanted.
pub(crate) fn try_all(
    op: &str,
    opset: i64,
    attrs: &[(&str, Attr)],
    inputs: &[Option<Tensor>],
    outputs: usize,
) -> Result<Vec<Tensor>, Diagnostic> {
    let mut g = Graph::new("g");
    let ins: Vec<_> = inputs.iter().map(|x| x.as_ref().map(|_| g.add_value("x", None))).collect();
    let outs: Vec<_> = (0..outputs).map(|_| g.add_value("y", None)).collect();
    let (domain, op) = op.rsplit_once('.').unwrap_or(("", op));
    let mut node = Node { inputs: ins, domain: domain.to_owned(), ..Node::new(op, [], outs) };
    node.attrs = attrs.iter().map(|(n, a)| ((*n).to_owned(), a.clone())).collect();
    eval_node(&node, opset, inputs, BYTES_MAX)
}

/// The first output.
pub(crate) fn try_run(
    op: &str,
    opset: i64,
    attrs: &[(&str, Attr)],
    inputs: &[&Tensor],
) -> Result<Tensor, Diagnostic> {
    let inputs: Vec<Option<Tensor>> = inputs.iter().map(|x| Some((*x).clone())).collect();
    Ok(try_all(op, opset, attrs, &inputs, 1)?.swap_remove(0))
}

/// The first output of an application that must succeed.
pub(crate) fn run(op: &str, opset: i64, attrs: &[(&str, Attr)], inputs: &[&Tensor]) -> Tensor {
    try_run(op, opset, attrs, inputs).unwrap_or_else(|d| panic!("{d}"))
}

pub(crate) fn ints(list: &[i64]) -> Attr {
    Attr::Ints(list.to_vec())
}

pub(crate) fn word(text: &str) -> Attr {
    Attr::Str(text.to_owned().into())
}

pub(crate) fn bools(list: &[bool]) -> Tensor {
    Tensor::from_vec_as(
        DataType::Bool,
        vec![list.len()],
        list.iter().map(|b| u8::from(*b)).collect(),
    )
}

/// The elements in `f64`.
pub(crate) fn reals(x: &Tensor) -> Vec<f64> {
    x.to_reals().expect("a tensor of numbers").values
}

/// Whether all elements agree to `tolerance`.
pub(crate) fn assert_near(found: &Tensor, expected: &[f64], tolerance: f64) {
    let found = reals(found);
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance || (a.is_nan() && b.is_nan());
    let all = found.len() == expected.len() && found.iter().zip(expected).all(near);
    assert!(all, "found {found:?}, expected {expected:?}");
}
