//! Bad input gets one clear diagnostic with a stable code and exit status 2 or 3: never a panic, never status 4.

use onnxd_integration_tests::{command, outcome, small_model, write_small_model};
use onnxd_ir::ops::Relu;
use onnxd_ir::{DataType, Graph, Model, Node, Tensor, ValueType, text};
use onnxd_proto::onnx::{GraphProto, ModelProto, TensorProto};
use prost::Message;
use std::fs;
use std::path::Path;

/// Converts a submission of the given files, the first being the network.
fn convert(files: &[(&str, &[u8])]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let drop = folder.path().join("drop");
    for (name, bytes) in files {
        let path = drop.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let out = folder.path().join("out");
    let mut run = command(folder.path());
    run.arg("convert").arg(&drop).arg("--out").arg(&out);
    let result = outcome(&run.output().unwrap());
    assert!(!out.join("model.onnx").exists(), "a failed conversion leaves no model");
    if result.0 != 0 {
        assert!(out.join("report.json").exists(), "a failed conversion leaves its report");
        let receipt = fs::read_to_string(out.join("receipt.txt")).unwrap();
        assert!(receipt.lines().count() <= 10, "{receipt}");
    }
    result
}

fn assert_refused(what: &str, files: &[(&str, &[u8])], codes: &[&str], words: &str) {
    let (status, stderr) = convert(files);
    assert!(matches!(status, 2 | 3), "{what}: status {status}: {stderr}");
    assert!(!stderr.contains("panic"), "{what}: {stderr}");
    assert!(codes.iter().any(|code| stderr.contains(code)), "{what}: {stderr}");
    assert!(stderr.contains(words), "{what} should mention {words:?}: {stderr}");
}

fn model_bytes() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    write_small_model(&path, "");
    fs::read(path).unwrap()
}

fn encoded(model: &Model) -> Vec<u8> {
    onnxd_onnx::encode_to_bytes(model, &mut onnxd_onnx::Inline).unwrap().to_vec()
}

#[test]
fn truncated_models() {
    let whole = model_bytes();
    for keep in [1, 2, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let what = format!("{keep} of {} bytes", whole.len());
        assert_refused(&what, &[("m.onnx", &whole[..keep])], &["N05", "N0202"], "");
    }
    assert_refused("an empty file", &[("m.onnx", b"")], &["N05", "N0202"], "");
}

#[test]
fn random_bytes() {
    let mut state = 1u64;
    for round in 0..5 {
        let bytes: Vec<u8> = (0..1000 + round * 777)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                (state >> 56) as u8
            })
            .collect();
        assert_refused("random bytes", &[("m.onnx", &bytes)], &["N05"], "");
    }
}

#[test]
fn a_cycle_is_named() {
    let mut g = Graph::new("g");
    let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [4])));
    let [a, b] = ["a", "b"].map(|n| g.add_value(n, None));
    g.add_node(Node { name: "first".into(), ..Node::new("Add", [x, b], [a]) });
    g.add_node(Node { name: "second".into(), ..Node::new("Relu", [a], [b]) });
    g[b].ty = Some(ValueType::tensor(DataType::Float, [4]));
    g.mark_output(b);
    let model = Model::new(g, 8, 17);
    // The encoder refuses to order a cycle, so the file is made by hand.
    let node = |op: &str, inputs: &[&str], output: &str| onnxd_proto::onnx::NodeProto {
        op_type: Some(op.into()),
        name: Some(op.to_lowercase()),
        input: inputs.iter().map(|s| (*s).to_owned()).collect(),
        output: vec![output.into()],
        ..Default::default()
    };
    let mut proto = ModelProto::decode(encoded(&small_model()).as_slice()).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    graph.node = vec![node("Add", &["x", "y"], "sum"), node("Relu", &["sum"], "y")];
    assert_refused("a cycle", &[("m.onnx", &proto.encode_to_vec())], &["N05"], "");
    drop(model);
}

#[test]
fn absurd_shapes() {
    let mut proto = ModelProto::decode(encoded(&small_model()).as_slice()).unwrap();
    for dims in [vec![i64::MAX, i64::MAX], vec![-3], vec![1 << 62], vec![1; 10_000]] {
        let graph: &mut GraphProto = proto.graph.as_mut().unwrap();
        graph.initializer[0] = TensorProto { dims, ..graph.initializer[0].clone() };
        let bytes = proto.encode_to_vec();
        assert_refused("an absurd initializer", &[("m.onnx", &bytes)], &["N05", "N0213"], "w");
    }
}

#[test]
fn an_invalid_model_names_node_and_rule() {
    let graph = text::parse_graph(
        "g (float[1,3,4,4] x) => (float[1,3,4,4] y)
         { y = Frobnicate(x) }",
    );
    let bytes = encoded(&Model::new(graph.unwrap(), 8, 17));
    assert_refused("an unknown operator", &[("m.onnx", &bytes)], &["N0502"], "Frobnicate");
}

/// What `check` finds, a conversion finds too, and names the node.
#[test]
fn a_model_that_contradicts_itself() {
    for (body, code, names) in [
        ("g (float[4] x, float[3] z) => (float[4] y) { [sum] y = Add(x, z) }", "N0215", "sum"),
        (
            "g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }",
            "N0215",
            "MatMul",
        ),
        ("g (float[2] x) => (int64[2] y) { [neg] y = Neg(x) }", "N0502", "neg"),
        ("g (float[2] x) => () { y = Neg(x) }", "N0502", "no outputs"),
    ] {
        let bytes = encoded(&Model::new(text::parse_graph(body).unwrap(), 8, 17));
        assert_refused(body, &[("m.onnx", &bytes)], &[code], names);
    }
}

#[test]
fn deeply_nested_subgraphs() {
    let mut inner = Graph::new("leaf");
    let c = inner.add_initializer("c", Tensor::scalar(1.0f32));
    let out = inner.add("out", Relu::new(c));
    inner.mark_output(out);
    for depth in 0..300 {
        let mut outer = Graph::new(format!("level{depth}"));
        let cond =
            outer.add_initializer("cond", Tensor::from_vec_as(DataType::Bool, vec![], vec![1u8]));
        let out = outer.add_value("out", None);
        let node = Node::new("If", [cond], [out])
            .with("then_branch", onnxd_ir::Attr::Graph(Box::new(inner.clone())))
            .with(
                "else_branch",
                onnxd_ir::Attr::Graph(Box::new({
                    let mut other = Graph::new("other");
                    let c = other.add_initializer("c", Tensor::scalar(2.0f32));
                    let o = other.add("o", Relu::new(c));
                    other.mark_output(o);
                    other
                })),
            );
        outer.add_node(node);
        outer.mark_output(out);
        inner = outer;
    }
    let Ok(bytes) = std::panic::catch_unwind(|| encoded(&Model::new(inner, 8, 17))) else { return };
    assert_refused("300 levels", &[("m.onnx", &bytes)], &["N05", "N0213"], "");
}

const ENV: &str = "[sp]\nSizeX=8\nSizeY=8\n";

fn ini(text: &str) -> String {
    format!("{ENV}{text}")
}

fn refused_ini(what: &str, text: &str, extra: &[(&str, &[u8])], codes: &[&str], words: &str) {
    let text = ini(text);
    let mut files: Vec<(&str, &[u8])> = vec![("net.ini", text.as_bytes())];
    files.extend_from_slice(extra);
    assert_refused(what, &files, codes, words);
}

const CONV: &str =
    "[c]\nInput=sp\nType=Conv\nNbOutputs=2\nKernelSize=3\nActivationFunction=Linear\n[c.Target]\n";

#[test]
fn broken_networks_of_n2d2() {
    let weights = |count: usize| "0.5 ".repeat(count).into_bytes();
    let (right, short, biases) = (weights(18), weights(17), weights(2));
    refused_ini(
        "weights of the wrong size",
        CONV,
        &[("weights/c_weights.syntxt", &short), ("weights/c_biases.syntxt", &biases)],
        &["N0208"],
        "18",
    );
    refused_ini(
        "weights that are not numbers",
        CONV,
        &[("weights/c_weights.syntxt", b"1 2 three"), ("weights/c_biases.syntxt", &biases)],
        &["N0210"],
        "three",
    );
    refused_ini(
        "a missing weights file",
        CONV,
        &[("weights/c_weights.syntxt", &right)],
        &["N0103", "N0209"],
        "c_biases",
    );
    refused_ini(
        "a missing input",
        "[c]\nInput=nowhere\nType=Softmax\nNbOutputs=1\n[c.Target]\n",
        &[],
        &["N0205"],
        "nowhere",
    );
    refused_ini(
        "a cycle",
        "[a]\nInput=b\nType=Softmax\nNbOutputs=1\n[b]\nInput=a\nType=Softmax\nNbOutputs=1\n[b.Target]\n",
        &[],
        &["N0206"],
        "",
    );
    refused_ini("no target", "[c]\nInput=sp\nType=Softmax\nNbOutputs=1\n", &[], &["N0212"], "");
    refused_ini("a line without =", "[c]\nInput=sp\nType\n", &[], &["N0201"], "net.ini:");
}

#[test]
fn unknown_cells_are_all_listed() {
    let text = "[a]\nInput=sp\nType=FMP\nNbOutputs=1\nScalingRatio=1.4\n\
                [b]\nInput=a\nType=LSTM\nNbOutputs=1\n\
                [c]\nInput=b\nType=Frob\nNbOutputs=1\n[c.Target]\n";
    let (status, stderr) = convert(&[("net.ini", ini(text).as_bytes())]);
    assert_eq!(status, 3, "{stderr}");
    for cell in ["a", "b", "c"] {
        assert!(stderr.contains(&format!("layer {cell} ")), "{stderr}");
    }
}

#[test]
fn templates_that_include_each_other() {
    let net = ini("[x@loop.ini.tpl]\nN=1\n");
    let tpl = b"[y@loop.ini.tpl]\nN=1\n";
    let files: [(&str, &[u8]); 2] = [("net.ini", net.as_bytes()), ("loop.ini.tpl", tpl)];
    assert_refused("an include loop", &files, &["N0201", "N0213", "N0206"], "loop.ini.tpl");
}

#[test]
fn nothing_to_convert() {
    assert_refused("no network", &[("notes.txt", b"hello")], &["N0101"], "");
    let folder = tempfile::tempdir().unwrap();
    let mut run = command(folder.path());
    run.arg("convert")
        .arg(Path::new("/nonexistent/net.onnx"))
        .arg("--out")
        .arg(folder.path().join("o"));
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 2, "{stderr}");
}

/// A gigabyte that takes a megabyte, as samples: refused before it is read, as a fault of the file.
#[test]
fn samples_that_unpack_to_absurd_sizes() {
    const ROWS: u32 = 1 << 26;
    let graph = text::parse_graph(
        "g (float[n,4] x) => (float[n,2] y) <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { y = MatMul (x, w) }",
    );
    let model = encoded(&Model::new(graph.unwrap(), 8, 17));
    let params = b"[quantization]\nformat = \"QDQ\"\n";
    let mut idx = vec![0, 0, 0x0d, 2];
    idx.extend([ROWS, 4].iter().flat_map(|n| n.to_be_bytes()));
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packer, &idx).unwrap();
    for _ in 0..64 {
        std::io::Write::write_all(&mut packer, &[0; 1 << 20]).unwrap();
    }
    let bomb = packer.finish().unwrap();
    let files: [(&str, &[u8]); 3] =
        [("m.onnx", &model), ("params.toml", params), ("calib/x.idx.gz", &bomb)];
    assert_refused("a bomb of samples", &files, &["N0508", "N0219", "N0213"], "unpacked");
}

#[test]
fn more_functions_than_any_network_has() {
    let mut bytes = encoded(&small_model());
    bytes.extend([0xca, 0x01, 0].repeat(3_000_000));
    assert_refused("three million functions", &[("m.onnx", &bytes)], &["N0213"], "functions");
}

#[test]
fn more_nodes_than_any_network_has() {
    // A second part of the graph, which a reader joins to the first.
    let nodes = [0x0a, 0].repeat(300_000);
    let mut bytes = [encoded(&small_model()), vec![0x3a]].concat();
    prost::encoding::encode_varint(nodes.len() as u64, &mut bytes);
    bytes.extend(nodes);
    assert_refused("300,000 nodes", &[("m.onnx", &bytes)], &["N0213"], "250000 nodes");
}

/// What is said about a name repeats it: it must not fill reports and terminals.
#[test]
fn names_of_a_megabyte() {
    let name = "n".repeat(1 << 20);
    for (op, domain) in [(name.as_str(), ""), ("Neg", name.as_str())] {
        let mut proto = ModelProto::decode(encoded(&small_model()).as_slice()).unwrap();
        let node = &mut proto.graph.as_mut().unwrap().node[0];
        (node.op_type, node.domain) = (Some(op.into()), Some(domain.into()));
        let bytes = proto.encode_to_vec();
        let (status, stderr) = convert(&[("m.onnx", &bytes)]);
        assert!(
            status == 2 && stderr.contains("N0213") && stderr.len() < 2000,
            "{status} {stderr}"
        );
    }
}

/// Constants in a branch that double 25 times: the result stays small.
#[test]
fn constants_that_double() {
    let chain: Vec<String> =
        (0..25).map(|i| format!("a{} = Concat <axis = 0> (a{i}, a{i})", i + 1)).collect();
    let graph = format!(
        "g (float[2] x) => (float[2] y) <bool c = {{1}}>
         {{ s = If (c) <then_branch = t () => (float z) <float[2] a0 = {{1, 2}}>
              {{ {} z = ReduceSum <keepdims = 0> (a25) }},
            else_branch = e () => (float w) <float w0 = {{1}}> {{ w = Identity (w0) }}>
            y = Add (x, s) }}",
        chain.join(" ")
    );
    let graph = text::parse_graph(&graph).unwrap_or_else(|d| panic!("{d}"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.onnx"), encoded(&Model::new(graph, 8, 17))).unwrap();
    let mut run = command(folder.path());
    run.arg("convert").arg(folder.path().join("m.onnx")).arg("--out").arg(folder.path().join("o"));
    let (status, stderr) = outcome(&run.output().unwrap());
    assert!(status <= 1, "{stderr}");
    let bytes = std::fs::metadata(folder.path().join("o/model.onnx")).unwrap().len();
    assert!(bytes < 1 << 20, "{bytes} bytes of model");
}
