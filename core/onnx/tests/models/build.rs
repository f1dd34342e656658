//! Models built by hand and a comparison by content: ids may differ, names and data may not.

use bytes::Bytes;
use onnxd_diagnostics::Layer;
use onnxd_ir::{
    Attr, DataType, Dim, Function, Graph, Model, Node, Opsets, Origin, SparseTensor, Tensor,
    ValueId, ValueType,
};
use onnxd_onnx::{Decoded, Inline, NoExternalData, decode, encode_to_bytes};

pub(crate) fn float(shape: &[i64]) -> Option<ValueType> {
    Some(ValueType::tensor(DataType::Float, shape.iter().copied()))
}

pub(crate) fn encoded(model: &Model) -> Bytes {
    encode_to_bytes(model, &mut Inline).unwrap()
}

pub(crate) fn decoded(bytes: impl Into<Bytes>) -> Decoded {
    decode(bytes.into(), &mut NoExternalData).unwrap_or_else(|e| panic!("{e}"))
}

/// `y = Relu(x + w)`.
pub(crate) fn simple() -> Model {
    let mut g = Graph::new("simple");
    let x = g.add_input("x", float(&[2]));
    let w = g.add_initializer("w", Tensor::vector(vec![1.0f32, -2.0]));
    let sum = g.add_value("sum", float(&[2]));
    g.add_node(Node { name: "add".into(), ..Node::new("Add", [x, w], [sum]) });
    let y = g.add_value("y", float(&[2]));
    g.add_node(Node::new("Relu", [sum], [y]));
    g.mark_output(y);
    Model::new(g, 8, 17)
}

/// Every element type, as initializers and as attributes.
pub(crate) fn all_types() -> Model {
    let mut g = Graph::new("types");
    for dtype in DataType::ALL {
        let tensor = if *dtype == DataType::String {
            let strings = [&b"a"[..], b"", b"\xff\x00"].map(Bytes::from_static);
            Tensor::strings(vec![3], strings.to_vec()).unwrap()
        } else {
            let bytes: Vec<u8> = (1..=dtype.byte_len(3).unwrap() as u8).collect();
            Tensor::new(*dtype, vec![3], bytes.into()).unwrap()
        };
        let empty = match dtype {
            DataType::String => Tensor::strings(vec![0, 2], vec![]).unwrap(),
            _ => Tensor::new(*dtype, vec![0, 2], Bytes::new()).unwrap(),
        };
        let w = g.add_initializer(&format!("w_{dtype}"), tensor.clone());
        g[w].doc = format!("all of {dtype}");
        g.mark_output(w);
        let out = g.add_value(&format!("c_{dtype}"), None);
        let lists = Attr::Tensors(vec![tensor.clone(), empty.clone()]);
        let node = Node::new("Constant", [], [out]).with("value", Attr::Tensor(tensor));
        g.add_node(node.with("more", lists));
        g.mark_output(out);
        let e = g.add_initializer(&format!("e_{dtype}"), empty);
        g.mark_output(e);
    }
    Model::new(g, 13, 25)
}

pub(crate) fn sparse_tensor() -> SparseTensor {
    SparseTensor {
        values: Tensor::vector(vec![1.5f32, 2.5]),
        indices: Tensor::from_vec(vec![2, 2], vec![0i64, 1, 2, 0]),
        dims: vec![3, 4],
    }
}

/// Sparse initializers, annotations, every kind of attribute and of type, texts everywhere.
pub(crate) fn rich() -> Model {
    let mut g = Graph::new("rich");
    g.doc = "graph text".into();
    g.metadata = vec![("graph key".into(), "1".into())];
    let x = g.add_input("x", float(&[3, 4]));
    g[x].doc = "the input".into();
    g[x].metadata = vec![("layout".into(), "HW".into())];
    let scale = g.add_initializer("x_scale", Tensor::scalar(0.5f32));
    g[scale].doc = "step".into();
    g.annotations.push((x, vec![("SCALE_TENSOR".into(), "x_scale".into())]));
    let s = g.add_value("s", float(&[3, 4]));
    g.sparse.insert(s, sparse_tensor());
    let types = types();
    let y = g.add_value("y", Some(types[0].clone()));
    let z = g.add_value("z", Some(types[1].clone()));
    let mut node = Node::new("Custom", [x, s], [y, z]);
    node.domain = "org.example".into();
    node.overload = "v2".into();
    node.doc = "node text".into();
    node.metadata = vec![("namespace".into(), "a/b".into())];
    node.layers = Layer { name: "l".into(), kind: "K".into(), place: "f:3".into() }.into();
    node.inputs.insert(1, None);
    node.outputs.insert(0, None);
    node.attrs = attributes(types);
    g.add_node(node);
    g.mark_output(y);
    g.mark_output(z);
    g.mark_output(x);
    g.mark_output(y);
    let mut model = Model::new(g, 10, 21);
    model.opsets.insert("org.example".into(), 3);
    model.producer_name = "hand".into();
    model.producer_version = "1.0".into();
    model.domain = "org.example".into();
    model.model_version = 7;
    model.doc = "model text".into();
    model.set_metadata("key", "value");
    model
}

fn types() -> Vec<ValueType> {
    let tensor = ValueType::Tensor {
        dtype: Some(DataType::Float16),
        shape: Some(vec![Dim::Known(0), Dim::Symbol("n".into()), Dim::Unknown]),
    };
    let sparse = ValueType::Sparse { dtype: Some(DataType::Int8), shape: Some(vec![]) };
    let map = ValueType::Map(DataType::String, Box::new(ValueType::unranked(DataType::Int64)));
    vec![
        ValueType::Sequence(Box::new(map)),
        ValueType::Optional(Box::new(sparse)),
        tensor,
        ValueType::Opaque { domain: "d".into(), name: "n".into() },
        ValueType::Tensor { dtype: None, shape: None },
    ]
}

fn attributes(types: Vec<ValueType>) -> Vec<(String, Attr)> {
    let text = Bytes::from_static;
    let sparse = sparse_tensor();
    let attrs = [
        Attr::Int(i64::MIN),
        Attr::Float(f32::MIN_POSITIVE),
        Attr::Str(text(b"\xfe")),
        Attr::Tensor(Tensor::scalar(3u8)),
        Attr::Sparse(Box::new(sparse.clone())),
        Attr::Type(Box::new(types[2].clone())),
        Attr::Ints(vec![-1, 0]),
        Attr::Floats(vec![0.0, f32::INFINITY]),
        Attr::Strs(vec![text(b""), text(b"a")]),
        Attr::Tensors(vec![Tensor::vector(vec![1i16])]),
        Attr::Sparses(vec![sparse]),
        Attr::Types(types),
        Attr::Ints(vec![]),
        Attr::Graphs(vec![]),
        Attr::Int(0),
        Attr::Str(Bytes::new()),
    ];
    attrs.into_iter().enumerate().map(|(i, attr)| (format!("a{i}"), attr)).collect()
}

/// An `If` in an `If`; the inner branch reads values of both graphs around it, and a value of its
/// own that it also lists twice.
pub(crate) fn nested() -> Model {
    let mut g = Graph::new("outer");
    let condition = g.add_input("condition", Some(ValueType::tensor(DataType::Bool, [0i64; 0])));
    let x = g.add_input("x", float(&[2]));
    let w = g.add_initializer("w", Tensor::vector(vec![1.0f32, 2.0]));
    let h = g.add_value("h", float(&[2]));
    g.add_node(Node::new("Relu", [x], [h]));
    let y = g.add_value("y", float(&[2]));
    let node = Node::new("If", [condition], [y])
        .with("then_branch", Attr::Graph(Box::new(middle(condition, h, w))))
        .with("else_branch", Attr::Graph(Box::new(leaf("else_", h, w))));
    g.add_node(node);
    g.mark_output(y);
    Model::new(g, 8, 17)
}

fn middle(condition: ValueId, h: ValueId, w: ValueId) -> Graph {
    let mut g = Graph::new("middle");
    let condition = g.capture(condition, "condition", None);
    let own = g.add_initializer("own", Tensor::vector(vec![5.0f32, 6.0]));
    let h = g.capture(h, "h", None);
    let w = g.capture(w, "w", None);
    let m = g.add_value("m", float(&[2]));
    g.add_node(Node::new("Mul", [h, own], [m]));
    let out = g.add_value("middle_out", float(&[2]));
    let node = Node::new("If", [condition], [out])
        .with("then_branch", Attr::Graph(Box::new(leaf("a_", m, w))))
        .with("else_branch", Attr::Graph(Box::new(leaf("b_", h, own))));
    g.add_node(node);
    g.mark_output(out);
    g
}

fn leaf(prefix: &str, first: ValueId, second: ValueId) -> Graph {
    let mut g = Graph::new(format!("{prefix}leaf"));
    let first = g.capture(first, &format!("{prefix}first"), None);
    let second = g.capture(second, &format!("{prefix}second"), None);
    let sum = g.add_value(&format!("{prefix}sum"), float(&[2]));
    g.add_node(Node::new("Add", [first, second], [sum]));
    g.mark_output(sum);
    g
}

/// A function with attributes, a default, and a reference to them.
pub(crate) fn with_function() -> Model {
    let mut body = Graph::new("Soft");
    let x = body.add_input("x", None);
    let y = body.add_value("y", None);
    let node = Node::new("LeakyRelu", [x], [y]);
    body.add_node(node.with("alpha", Attr::Ref { name: "slope".into(), kind: 1 }));
    body.mark_output(y);
    let function = Function {
        domain: "local".into(),
        name: "Soft".into(),
        attributes: vec!["unused".into()],
        defaults: vec![("slope".into(), Attr::Float(0.25))],
        opsets: Opsets::from([(String::new(), 17)]),
        graph: body,
        doc: "function text".into(),
        ..Function::default()
    };
    let mut g = Graph::new("caller");
    let x = g.add_input("x", float(&[2]));
    let y = g.add_value("y", float(&[2]));
    g.add_node(Node { domain: "local".into(), ..Node::new("Soft", [x], [y]) });
    g.mark_output(y);
    let mut model = Model::new(g, 9, 17);
    model.opsets.insert("local".into(), 1);
    model.functions.push(function);
    model
}

pub(crate) fn assert_same(a: &Model, b: &Model) {
    let head = |m: &Model| {
        let texts = [&m.producer_name, &m.producer_version, &m.domain, &m.doc].map(Clone::clone);
        (m.ir_version, m.opsets.clone(), texts, m.model_version, m.metadata.clone())
    };
    assert_eq!(head(a), head(b));
    assert_eq!(listing(&a.graph, None), listing(&b.graph, None));
    assert_eq!(a.functions.len(), b.functions.len());
    for (f, g) in a.functions.iter().zip(&b.functions) {
        let head = |f: &Function| {
            let names = [&f.domain, &f.name, &f.overload, &f.doc].map(Clone::clone);
            let defaults = format!("{:?}", f.defaults);
            (names, f.attributes.clone(), defaults, f.opsets.clone(), f.metadata.clone())
        };
        assert_eq!(head(f), head(g));
        assert_eq!(listing(&f.graph, None), listing(&g.graph, None));
    }
}

/// Everything a graph says, line by line; captured values under the name they have outside.
pub(crate) fn listing(g: &Graph, outer: Option<&dyn Fn(ValueId) -> String>) -> Vec<String> {
    let name = |id: ValueId| match (g[id].origin(), outer) {
        (Origin::Captured(out), Some(outer)) => outer(out),
        _ => g[id].name.clone(),
    };
    let full =
        |id: ValueId| format!("{} {:?} {:?} {:?}", name(id), g[id].ty, g[id].doc, g[id].metadata);
    let mut lines = vec![format!("{:?} {:?} {:?}", g.name, g.doc, g.metadata)];
    lines.extend(g.inputs().iter().map(|id| format!("in {}", full(*id))));
    lines.extend(g.outputs().iter().map(|id| format!("out {}", full(*id))));
    for id in g.value_ids() {
        if let Some(data) = g[id].initializer() {
            lines.push(format!("data {} {}", full(id), contents(data)));
        }
        if let Some(data) = g.sparse.get(&id) {
            let parts = [&data.values, &data.indices].map(contents);
            lines.push(format!("sparse {} {parts:?} {:?}", full(id), data.dims));
        }
    }
    for (id, pairs) in &g.annotations {
        lines.push(format!("annotation {} {pairs:?}", name(*id)));
    }
    for (_, n) in g.nodes() {
        let names = |ids: &[Option<ValueId>]| ids.iter().map(|v| v.map(name)).collect::<Vec<_>>();
        let texts = [&n.op, &n.domain, &n.overload, &n.name, &n.doc];
        let (ins, outs) = (names(&n.inputs), names(&n.outputs));
        lines.push(format!("{texts:?} {ins:?} {outs:?} {:?} {:?}", n.metadata, n.layers));
        for out in n.outputs.iter().flatten() {
            lines.push(format!("  {}", full(*out)));
        }
        for (key, attr) in &n.attrs {
            lines.push(format!("  {key} {}", attribute(attr, &name)));
        }
    }
    lines
}

fn attribute(attr: &Attr, outer: &dyn Fn(ValueId) -> String) -> String {
    match attr {
        Attr::Tensor(t) => contents(t),
        Attr::Tensors(list) => list.iter().map(contents).collect(),
        Attr::Graph(g) => listing(g, Some(outer)).join("\n"),
        Attr::Graphs(list) => list.iter().map(|g| listing(g, Some(outer)).join("\n")).collect(),
        other => format!("{other:?}"),
    }
}

fn contents(t: &Tensor) -> String {
    format!("{t:?} {:?} {:?}", t.bytes(), t.as_strings())
}
