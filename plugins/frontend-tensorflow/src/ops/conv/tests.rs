//! Transposed convolutions whose result has a size that the graph computes.

use crate::graph::fixture::{FLOAT, found, graph, import, node, placeholder, shape};
use crate::wire::proto::{Attr, ListValue, NodeDef, TensorProto};
use onnxd_plugin_sdk::ir::Attr as IrAttr;

const INT32: i32 = 3;

fn list(items: &[i64]) -> Attr {
    Attr::List(ListValue { i: items.to_vec(), ..ListValue::default() })
}

fn ints(name: &str, sizes: &[i64], values: &[i32]) -> NodeDef {
    let (tensor_shape, int_val) = (Some(shape(sizes)), values.to_vec());
    let value = TensorProto { dtype: INT32, tensor_shape, int_val, ..TensorProto::default() };
    node(name, "Const", &[]).attr("dtype", Attr::Type(INT32)).attr("value", Attr::Tensor(value))
}

fn filter(sizes: &[i64]) -> NodeDef {
    let values = vec![1.0; sizes.iter().product::<i64>() as usize];
    let tensor_shape = Some(shape(sizes));
    let value =
        TensorProto { dtype: FLOAT, tensor_shape, float_val: values, ..TensorProto::default() };
    node("w", "Const", &[]).attr("dtype", Attr::Type(FLOAT)).attr("value", Attr::Tensor(value))
}

/// A transposed convolution of `x` with windows of 2 cells and steps of 3, to the sizes `to`.
fn undone(op: &str, padding: &str) -> NodeDef {
    let y = node("y", op, &["to", "w", "x"]).attr("T", Attr::Type(FLOAT));
    let y = y
        .attr("strides", list(&[1, 3, 3, 1]))
        .attr("data_format", Attr::S(b"NHWC".to_vec().into()));
    y.attr("padding", Attr::S(padding.as_bytes().to_vec().into()))
}

fn sizes() -> NodeDef {
    let to = node("to", "Placeholder", &[]).attr("dtype", Attr::Type(INT32));
    to.attr("shape", Attr::Shape(shape(&[4])))
}

#[test]
fn computed_sizes_of_a_result_are_kept_to() {
    for op in ["Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput"] {
        for padding in ["VALID", "SAME"] {
            for sized in [-1, 4] {
                let x = placeholder("x", &[1, sized, sized, 1]);
                let nodes = vec![x, sizes(), filter(&[2, 2, 1, 1]), undone(op, padding)];
                let model = import(&graph(nodes, vec![])).unwrap().model;
                let pads = model.graph.nodes().find(|(_, node)| node.is("Pad"));
                assert!(pads.is_some(), "{op} {padding} {sized}");
            }
        }
    }
}

/// Sizes `3 * size of x`, as Keras computes them.
fn multiples() -> Vec<NodeDef> {
    let size = |at: usize| {
        let (name, from, to) = (format!("s{at}"), format!("c{at}"), format!("c{}", at + 1));
        let slice = node(&name, "StridedSlice", &["shape", &from, &to, "c1"]);
        let slice = slice.attr("shrink_axis_mask", Attr::I(1)).attr("T", Attr::Type(INT32));
        let slice = slice.attr("Index", Attr::Type(INT32));
        [ints(&from, &[1], &[at as i32]), slice, node(&format!("m{at}"), "Mul", &[&name, "three"])]
    };
    let to = node("to", "Pack", &["one", "m1", "m2", "one"]).attr("N", Attr::I(4));
    let shape = node("shape", "Shape", &["x"]).attr("out_type", Attr::Type(INT32));
    let rest =
        [ints("c3", &[1], &[3]), ints("three", &[], &[3]), ints("one", &[], &[1]), shape, to];
    size(1).into_iter().chain(size(2)).chain(rest).collect()
}

#[test]
fn multiples_of_the_size_need_no_computed_pads() {
    let x = placeholder("x", &[1, -1, -1, 1]);
    let nodes = vec![x, filter(&[2, 2, 1, 1]), undone("Conv2DBackpropInput", "VALID")];
    let model = import(&graph([nodes, multiples()].concat(), vec![])).unwrap().model;
    assert!(model.graph.nodes().all(|(_, node)| !node.is("Pad")));
    let (_, undone) = model.graph.nodes().find(|(_, node)| node.is("ConvTranspose")).unwrap();
    let more = undone.attr("output_padding");
    assert!(matches!(more, Some(IrAttr::Ints(more)) if more[..] == [1, 1]), "{more:?}");
}

#[test]
fn dilations_that_kernels_leave_out_are_refused() {
    let undone = undone("DepthwiseConv2dNativeBackpropInput", "SAME");
    let undone = undone.attr("dilations", list(&[1, 2, 2, 1]));
    let nodes = vec![placeholder("x", &[1, 4, 4, 1]), sizes(), filter(&[2, 2, 1, 1]), undone];
    let all = found(import(&graph(nodes, vec![])));
    assert!(all.len() == 1 && all[0].contains("dilations"), "{all:?}");
}
