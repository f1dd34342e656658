//! Small modules, converted with the params that users set.

mod programs;

use crate::Torch;
use crate::archive::fixture::{archive, floats, object, pickle, tensor};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::{DataType, Graph, Model, ValueId};
use onnxd_plugin_sdk::testing::{self, Dropped};
use serde_json::{Value, json};

mod flow;
mod states;

/// The class `Net` with a weight, a buffer and a module inside.
const HEAD: &str = "class Inner(Module):
  __parameters__ = [\"scale\", ]
  __buffers__ = []
  scale : Tensor
  training : bool
class Net(Module):
  __parameters__ = [\"weight\", ]
  __buffers__ = [\"mean\", ]
  weight : Tensor
  mean : Tensor
  training : bool
  inner : __torch__.Inner
";

const FORWARD: &str = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    inner = self.inner
    y = torch.add(torch.mul(x, inner.scale), self.weight)
    return torch.mul(torch.sub(y, self.mean), 3)
";

/// A module that was saved in training mode.
fn module(code: &str) -> Dropped {
    module_with(code, None)
}

/// The same with a constant of rank 0 of 64 bits.
fn module_with(code: &str, constant: Option<f64>) -> Dropped {
    Dropped::file("net.pt", file(code, constant))
}

fn file(code: &str, constant: Option<f64>) -> Bytes {
    let weight = |at: u8| tensor("Float", "0", 6, (at, &[2], &[1]));
    let inner = object("__torch__", "Inner", &[("training", vec![0x88]), ("scale", weight(4))]);
    let state =
        [("inner", inner), ("training", vec![0x88]), ("weight", weight(0)), ("mean", weight(2))];
    let constants = match constant {
        Some(_) => [tensor("Double", "0", 1, (0, &[], &[])), vec![0x85]].concat(),
        None => b")".to_vec(),
    };
    archive(&[
        ("net/data.pkl", &pickle(&object("__torch__", "Net", &state))),
        ("net/data/0", &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("net/constants.pkl", &pickle(&constants)),
        ("net/constants/0", &constant.unwrap_or(0.0).to_le_bytes()),
        ("net/code/__torch__.py", format!("{HEAD}{code}").as_bytes()),
        ("net/version", b"3\n"),
    ])
}

fn shapes(shapes: Value) -> impl Fn(Dropped) -> Dropped {
    move |dropped| dropped.param("export.input_shapes", shapes.clone())
}

/// The model and the texts of notes.
fn import(dropped: &Dropped) -> Result<(Model, Vec<String>), String> {
    let done = testing::import(&Torch, dropped).map_err(|found| format!("{found:?}"))?;
    let notes = done.log.notes.into_iter().map(|note| note.message).collect();
    Ok((done.model, notes))
}

fn named(graph: &Graph, values: &[ValueId]) -> Vec<String> {
    let ty = |v: &ValueId| graph[*v].ty.as_ref().map(ToString::to_string).unwrap_or_default();
    values.iter().map(|v| format!("{}: {}", graph[*v].name, ty(v))).collect()
}

fn operators(graph: &Graph) -> Vec<String> {
    graph.nodes().map(|(_, node)| format!("{}:{}", node.domain, node.op)).collect()
}

#[test]
fn members_without_their_checksums_are_told() {
    let sound = file(FORWARD, None);
    let notes = |bytes: &[u8]| {
        let dropped = shapes(json!([[2]]))(Dropped::file("net.pt", bytes));
        import(&dropped.param("export.input_dtypes", json!(["float32"]))).unwrap().1
    };
    assert_eq!(notes(&sound), [""; 0]);
    let weights = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let at = sound.windows(weights.len()).position(|bytes| bytes == weights).unwrap();
    let mut changed = sound.to_vec();
    changed[at] ^= 1;
    let found = notes(&changed);
    assert!(found.len() == 1 && found[0].contains("member `data/0` does"), "{found:?}");
}

#[test]
fn weights_become_inputs_in_the_order_of_the_state_dict() {
    let dropped = shapes(json!([[2]]))(module(FORWARD)).param("export.export_params", false);
    let graph = import(&dropped).unwrap().0.graph;
    let wanted = ["x: float[2]", "weight: float[2]", "mean: float[2]", "inner.scale: float[2]"];
    assert_eq!(named(&graph, graph.inputs()), wanted);
    let graph = import(&shapes(json!([[2]]))(module(FORWARD))).unwrap().0.graph;
    assert_eq!(named(&graph, graph.inputs()), wanted[..1]);
    assert!(graph[graph.value_named("inner.scale").unwrap()].initializer().is_some());
}

#[test]
fn types_of_inputs_are_supposed_and_told() {
    let code = "  def forward(self: __torch__.Net, x: Tensor, ids: Tensor) -> Tensor:
    rows = torch.reshape(ids, [-1])
    return torch.add(torch.embedding(x, rows), self.weight)
";
    let (model, notes) = import(&shapes(json!([[4, 2], [3, 1]]))(module(code))).unwrap();
    let graph = &model.graph;
    assert_eq!(named(graph, graph.inputs()), ["x: float[4,2]", "ids: int64[3,1]"]);
    assert!(notes.len() == 1 && notes[0].contains("`x` float, `ids` int64"), "{notes:?}");

    let dropped = shapes(json!([[4, 2], [3, 1]]))(module(code));
    let dropped = dropped.param("export.input_dtypes", json!(["float16", "int32"]));
    let (model, notes) = import(&dropped).unwrap();
    let graph = &model.graph;
    assert_eq!(named(graph, graph.inputs()), ["x: float16[4,2]", "ids: int32[3,1]"]);
    assert!(notes.is_empty(), "{notes:?}");
}

/// An array as NumPy writes it.
fn npy(dtype: &str, shape: &str, bytes: usize) -> Vec<u8> {
    let head = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let size = (head.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &size[..], head.as_bytes(), &vec![0; bytes]].concat()
}

#[test]
fn arrays_beside_the_file_say_what_inputs_are() {
    let arrays = archive(&[("ids.npy", &npy("<i4", "(5, 2)", 40))]);
    let dropped = || module(FORWARD).and("inputs.npz", arrays.clone());
    let graph = import(&dropped()).unwrap().0.graph;
    assert_eq!(named(&graph, graph.inputs()), ["x: int32[5,2]"]);
    let open = dropped().param("export.dynamic_axes", json!({"x": {"0": "batch"}}));
    let graph = import(&open).unwrap().0.graph;
    assert_eq!(named(&graph, graph.inputs()), ["x: int32[batch,2]"]);
    // Samples lie along the first axis, and params win.
    let samples =
        archive(&[("labels.npy", &npy("<i8", "(7,)", 56)), ("x.npy", &npy("<f4", "(7, 2)", 56))]);
    let dropped = || module(FORWARD).and("calib.npz", samples.clone());
    let graph = import(&dropped()).unwrap().0.graph;
    assert_eq!(named(&graph, graph.inputs()), ["x: float[1,2]"]);
    let graph = import(&shapes(json!([[3, 2]]))(dropped())).unwrap().0.graph;
    assert_eq!(named(&graph, graph.inputs()), ["x: float[3,2]"]);
    let damaged = import(&module(FORWARD).and("inputs.npz", "no archive")).unwrap_err();
    assert!(damaged.contains("N0508") && damaged.contains("inputs.npz"), "{damaged}");
}

#[test]
fn modules_evaluate_unless_they_are_preserved() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.dropout(torch.relu(x), 0.25, self.training)
";
    let dropped = || shapes(json!([[2]]))(module(code));
    let graph = import(&dropped()).unwrap().0.graph;
    assert_eq!(operators(&graph), [":Relu"]);
    let graph = import(&dropped().param("source.training", "preserve")).unwrap().0.graph;
    assert_eq!(operators(&graph), [":Relu", ":Dropout"]);
}

#[test]
fn another_method_may_be_converted() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.relu(x)
  def decode(self: __torch__.Net, z: Tensor) -> Tensor:
    return torch.tanh(z)
";
    let method = |name: &str| shapes(json!([[2]]))(module(code)).param("source.method", name);
    let graph = import(&method("decode")).unwrap().0.graph;
    assert_eq!((operators(&graph), graph.inputs().len()), (vec![":Tanh".to_owned()], 1));
    for wrong in ["encode", "inner.forward", "weight.forward", ""] {
        let found = import(&method(wrong)).unwrap_err();
        assert!(found.contains("N0105") && found.contains("source.method"), "{wrong}: {found}");
    }
}

#[test]
fn operators_without_counterpart_stay_on_demand() {
    let code = "  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
    a, b, = ops.my.halves(x, 2)
    return torch.matrix_exp(torch.add(a, ops.my.warp(b, by=[0.5])))
";
    let dropped = || shapes(json!([[2, 2]]))(module(code));
    let found = import(&dropped()).unwrap_err();
    assert!(found.contains("my::halves") && found.contains("my::warp"), "{found}");
    let custom = dropped().param("export.operator_fallback", "custom");
    let (model, _) = import(&custom).unwrap();
    let wanted = ["my:halves", "my:warp", ":Add", "aten:matrix_exp"];
    assert_eq!(operators(&model.graph), wanted);
    let domains: Vec<&str> = model.opsets.keys().map(String::as_str).collect();
    assert_eq!(domains, ["", "aten", "my"]);
    let output = model.graph.outputs()[0];
    assert_eq!(model.graph[output].ty.as_ref().unwrap().dtype(), Some(DataType::Float));
    // Operators of others are no operators of ATen.
    let aten = import(&dropped().param("export.operator_fallback", "aten")).unwrap_err();
    assert!(aten.contains("my::halves"), "{aten}");
}

#[test]
fn runs_that_are_given_up_have_a_limit() {
    let inputs = |n: usize| {
        let parameters: Vec<String> = (0..n).map(|i| format!("x{i}: Tensor")).collect();
        let uses: Vec<String> =
            (0..n).map(|i| format!("    y = torch.embedding(self.weight, x{i})\n")).collect();
        let (parameters, uses) = (parameters.join(", "), uses.concat());
        module(&format!(
            "  def forward(self: __torch__.Net, {parameters}) -> Tensor:\n{uses}    return y\n"
        ))
    };
    let found = import(&inputs(1000)).unwrap_err();
    assert!(found.contains("N0213") && found.contains("Too many inputs hold indices"), "{found}");
    // As many as a model of tables may have.
    assert!(!import(&inputs(40)).is_err_and(|found| found.contains("Too many inputs")));
}

#[test]
fn numbers_that_a_tracer_wrote_as_tensors() {
    let code =
        "  def forward(self: __torch__.Net, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = ops.prim.NumToTensor(torch.size(x, 0))
    columns = ops.prim.NumToTensor(torch.size(x, 1))
    sizes = torch.stack([rows, columns])
    largest = torch.max(x)
    return (sizes, torch.mul(rows, largest), torch.clamp(columns, 5), torch.maximum(rows, sizes))
";
    for size in [json!(2), json!("n")] {
        let graph = import(&shapes(json!([[size, 3]]))(module(code))).unwrap().0.graph;
        let types: Vec<_> = named(&graph, graph.outputs())
            .iter()
            .map(|text| text.split(": ").nth(1).unwrap_or_default().to_owned())
            .collect();
        assert_eq!(types, ["int64[2]", "float", "int64", "int64[2]"]);
    }
}
