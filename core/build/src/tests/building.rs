use super::{builder, float, text};
use crate::{GraphBuilder, Operand, Result, Var};
use onnxd_diagnostics::Layer;
use onnxd_ir::{DataType, Dim, Graph, Opsets, Tensor, ValueType, schema};

/// LayerNormalization over the last axis, said in each opset.
fn layer_norm(b: &GraphBuilder, x: Var, scale: &[f32], bias: &[f32]) -> Result<Var> {
    let scale = b.parameter("scale", Tensor::vector(scale.to_vec()));
    let bias = b.parameter("bias", Tensor::vector(bias.to_vec()));
    if b.opset() >= 17 {
        return b.layer_normalization(x, scale).b(bias).axis(-1).epsilon(1e-3).one();
    }
    let mean = b.reduce_mean(x).axes([-1]).one()?;
    let d = b.sub(x, mean)?;
    let variance = b.reduce_mean(b.mul(d, d)?).axes([-1]).one()?;
    let normal = b.div(d, b.sqrt(b.add(variance, 1e-3)?)?)?;
    b.add(b.mul(normal, scale)?, bias)
}

#[test]
fn a_formula_is_said_in_each_opset() {
    for opset in 7..=schema::max_opset() {
        let b = builder(opset);
        let x = b.input("x", float([2, 3]));
        let y = b.in_layer(Layer::new("norm", "LayerNorm"), |b| {
            layer_norm(b, x, &[1.0, 2.0, 3.0], &[0.0; 3])
        });
        b.output(y.unwrap(), "y").unwrap();
        let text = text(b);
        assert_eq!(text.contains("LayerNormalization"), opset >= 17, "{text}");
        assert_eq!(text.contains("Sqrt"), opset < 17, "{text}");
    }
}

#[test]
fn an_attribute_becomes_an_input_with_the_version() {
    let text_at = |opset| {
        let b = builder(opset);
        let x = b.input("x", float([1, 3]));
        let y = b.squeeze(x).axes([0]).one().unwrap();
        let y = b.clip(y).min(0.0).max(6.0).one().unwrap();
        let [values, indices] = b.top_k(y, [2]).axis(0).outputs().unwrap();
        b.output(values, "values").unwrap();
        b.output(indices, "indices").unwrap();
        text(b)
    };
    let old = text_at(9);
    assert!(old.contains("Squeeze<axes = [0]>(x)"), "{old}");
    assert!(old.contains("Clip<max = 6.0, min = 0.0>"), "{old}");
    assert!(old.contains("k = 2"), "{old}");
    let new = text_at(13);
    assert!(new.contains("Squeeze(x, axes)"), "{new}");
    assert!(new.contains("TopK<axis = 0>(clip, k)"), "{new}");
}

#[test]
fn numbers_take_the_type_of_what_they_meet() {
    let b = builder(18);
    for dtype in [DataType::Float16, DataType::Double, DataType::Int32] {
        let x = b.input("x", ValueType::tensor(dtype, [2]));
        let y = b.mul(x, 2).unwrap();
        assert_eq!(b.dtype_of(y), Some(dtype));
    }
    let int = b.input("i", ValueType::tensor(DataType::Int32, [2]));
    assert_eq!(b.dtype_of(b.mul(int, 0.5).unwrap()), Some(DataType::Float));
    let half = b.input("h", ValueType::tensor(DataType::Float16, [2]));
    assert_eq!(b.dtype_of(b.add(int, half).unwrap()), Some(DataType::Double));
    let x = b.input("x", float([2]));
    assert_eq!(
        b.dtype_of(b.max([Operand::from(x), 0.into(), int.into()]).unwrap()),
        Some(DataType::Double)
    );
}

#[test]
fn shape_arithmetic_that_is_known_becomes_a_constant() {
    let b = builder(18);
    let x = b.input("x", float([2, 3, 4]));
    let shape = b.shape(x).one().unwrap();
    let rows = b.gather(shape, 1).axis(0).one().unwrap();
    let shape =
        b.concat([b.unsqueeze(rows, [0]).unwrap().into(), Operand::from([-1])]).axis(0).one();
    let y = b.reshape(x, shape.unwrap()).one().unwrap();
    assert_eq!(b.dims_of(y), Some(vec![3, 8]));
    b.output(y, "y").unwrap();
    let graph = text(b);
    assert!(graph.contains("Reshape") && !graph.contains("Gather"), "{graph}");
}

#[test]
fn a_number_with_two_new_axes_is_a_matrix() {
    let b = builder(18);
    let one = b.constant(Tensor::scalar(7f32));
    assert_eq!(b.dims_of(b.unsqueeze(one, [0]).unwrap()), Some(vec![1]));
    assert_eq!(b.dims_of(b.unsqueeze(one, [0, 1]).unwrap()), Some(vec![1, 1]));
}

#[test]
fn sizes_that_are_not_known_are_followed() {
    let b = builder(18);
    let ty = ValueType::tensor(DataType::Float, [Dim::from("N"), Dim::Known(4)]);
    let x = b.input("x", ty);
    let rows = b.shape(x).start(0).end(1).one().unwrap();
    let shape = b.concat([Operand::from(rows), [2, 2].into()]).axis(0).one().unwrap();
    let y = b.reshape(x, shape).one().unwrap();
    assert_eq!(b.shape_of(y).unwrap()[0], Dim::from("N"));
    assert_eq!(b.shape_of(y).unwrap()[1..], [Dim::Known(2), Dim::Known(2)]);
}

#[test]
fn contradictions_are_errors_where_they_arise() {
    let b = builder(18);
    let (x, w) = (b.input("x", float([2, 3])), b.input("w", float([4, 5])));
    let found = b.in_layer(Layer::new("fc", "Linear"), |b| b.matmul_or_fail(x, w)).unwrap_err();
    assert_eq!(found.code, "N0215");
    assert_eq!(found.layer, Some(Layer::new("fc", "Linear")));
    assert_eq!(b.graph().node_count(), 0);
    let found = b.conv(x, w).set("strides", "two").one().unwrap_err();
    assert!(found.message.contains("strides"), "{found}");
    let found = b.relu(b.input("s", ValueType::tensor(DataType::String, [1]))).unwrap_err();
    assert_eq!(found.code, "N0502");
    let found = builder(9).input("x", float([1]));
    let old = builder(9);
    let x9 = old.input("x", float([1]));
    assert!(old.gelu(x9).one().unwrap_err().message.contains("does not exist at opset 9"));
    assert!(b.relu(Var { frame: 7, ..found }).is_err());
}

impl GraphBuilder {
    fn matmul_or_fail(&self, x: Var, w: Var) -> Result<Var> {
        self.mat_mul(x, w)
    }
}

#[test]
fn what_a_later_opset_can_say_names_it() {
    let needed = |found: Result<Var>| found.err().and_then(|found| found.opset);
    let b = builder(18);
    let x = b.input("x", ValueType::tensor(DataType::Bfloat16, [1, 1, 4, 4]));
    assert_eq!(needed(b.conv(x, x).one()), Some(22));
    let x = b.input("y", float([2]));
    assert_eq!(needed(b.gelu(x).one()), Some(20));
    let text = b.input("z", ValueType::tensor(DataType::String, [2]));
    assert_eq!(needed(b.conv(text, text).one()), None, "no opset has it");
}

#[test]
fn an_operator_of_no_table_takes_attributes_as_they_are() {
    let opsets = Opsets::from([(String::new(), 18), ("my.ops".to_owned(), 1)]);
    let b = GraphBuilder::new(Graph::new("g"), opsets);
    let x = b.input("x", float([2]));
    let call = b.op("my.ops", "Warp", [Operand::from(x)]);
    let y = call.set("n", 2).set("axes", [0, 1]).set("by", 0.5).set("how", "far").one().unwrap();
    let graph = b.graph();
    let node = &graph[graph.producer(y.id).unwrap()];
    let kinds: Vec<i32> = node.attrs.iter().map(|(_, attr)| attr.kind()).collect();
    assert_eq!(kinds, [2, 7, 1, 3], "int, ints, float, string");
}

#[test]
fn constants_are_held_once_and_names_are_free() {
    let b = builder(18);
    b.reserve(["a_mul".to_owned()]);
    let x = b.input("x", float([2]));
    let (y, z) =
        b.in_layer(Layer::new("a", "Scale"), |b| (b.mul(x, 2.0).unwrap(), b.mul(x, 2.0).unwrap()));
    let graph = b.graph();
    assert_eq!(graph.value_ids().filter(|v| graph[*v].initializer().is_some()).count(), 1);
    assert_ne!(graph[y.id].name, graph[z.id].name);
    assert_ne!(graph[y.id].name, "a_mul");
    assert_eq!(graph.nodes().next().unwrap().1.layers, [Layer::new("a", "Scale")]);
}

/// Whatever version is asked for, required inputs find their place.
#[test]
fn required_inputs_have_a_place_in_each_version() {
    for op in schema::operators("") {
        let versions = schema::history("", op);
        let newest = versions.last().unwrap();
        for old in versions.iter().filter(|old| !newest.deprecated && !old.deprecated) {
            for param in newest.inputs.iter().filter(|p| p.kind == schema::ParamKind::Single) {
                let b = builder(old.since);
                let call = crate::Call::<()>::new(&b, ("", op), vec![], vec![]);
                assert!(call.draft.has_place(old, param.name), "{op} {} {}", old.since, param.name);
            }
        }
    }
}

#[test]
fn free_names_leave_values_and_reserved_names_alone() {
    let b = builder(17);
    b.input("x", float([2]));
    b.reserve(["y".to_owned(), "y_1".to_owned()]);
    let names = ["x", "y", "z"].map(|name| b.free_name(name));
    assert_eq!(names, ["x_1", "y_2", "z"]);
}
