use super::*;
use serde_json::{Value, json};
use std::io::{Cursor, Write};
use zip::write::{SimpleFileOptions, ZipWriter};

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let stored =
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        zip.start_file(*name, stored).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn open(members: &[(&str, &[u8])], graph: &str) -> Result<ProgramWeights, Diagnostic> {
    ProgramWeights::open(&Archive::open(archive(members).into()).unwrap(), graph)
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

/// What `torch.save({"c": tensor of 2 floats})` writes.
fn saved_pair(floats: [f32; 2]) -> Vec<u8> {
    let mut pickle =
        b"\x80\x02}X\x01\0\0\0cctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage".to_vec();
    pickle.extend(
        b"ctorch\nFloatStorage\nX\x01\0\0\0\x30X\x03\0\0\0cpuK\x02tQK\0K\x02\x85K\x01\x85\x89",
    );
    pickle.extend(b"ccollections\nOrderedDict\n)RtRs.");
    archive(&[("archive/data.pkl", &pickle), ("archive/data/0", &bytes(&floats))])
}

fn entry(path: &str, sizes: &[i64], strides: &[i64], offset: i64) -> Value {
    let ints = |ints: &[i64]| ints.iter().map(|int| json!({"as_int": int})).collect::<Vec<_>>();
    json!({"path_name": path, "is_param": true, "use_pickle": false, "tensor_meta": {
        "dtype": 7, "sizes": ints(sizes), "strides": ints(strides), "storage_offset": {"as_int": offset}}})
}

fn listed_as(config: &Value) -> Result<ProgramWeights, Diagnostic> {
    let list = json!({ "config": config }).to_string();
    let floats = bytes(&[0., 1., 2., 3., 4., 5.]);
    let list_name = "m/data/weights/model_weights_config.json";
    let members: [(&str, &[u8]); 3] = [
        (list_name, list.as_bytes()),
        ("m/data/weights/weight_0", &floats),
        ("m/models/model.json", b"{}"),
    ];
    open(&members, "models/model.json")
}

fn floats(weights: &ProgramWeights, kind: &InputKind) -> Vec<f32> {
    let stored = weights.tensor(kind).unwrap().unwrap();
    let bytes = stored.tensor.bytes();
    bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn parameter(name: &str) -> InputKind {
    InputKind::Parameter(name.into())
}

#[test]
fn views_of_one_member() {
    let weights = listed_as(&json!({
        "a": entry("weight_0", &[2, 3], &[3, 1], 0),
        "tied": entry("weight_0", &[2, 3], &[3, 1], 0),
        "turned": entry("weight_0", &[3, 2], &[1, 3], 0),
        "late": entry("weight_0", &[2], &[2], 1),
        "empty": entry("nowhere", &[0, 3], &[3, 1], 0),
    }));
    let weights = weights.unwrap();
    assert_eq!(floats(&weights, &parameter("a")), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(floats(&weights, &parameter("turned")), [0., 3., 1., 4., 2., 5.]);
    assert_eq!(floats(&weights, &parameter("late")), [1., 3.]);
    assert!(floats(&weights, &parameter("empty")).is_empty());
    let place = |name: &str| weights.tensor(&parameter(name)).unwrap().unwrap().place.clone();
    assert_eq!(place("a"), place("tied"));
    assert_eq!(place("a").member, place("turned").member);
}

#[test]
fn pickled_members_of_older_versions() {
    let (state, constants) = (saved_pair([1., 2.]), saved_pair([3., 4.]));
    let layouts: [(&str, [&str; 2]); 3] = [
        (
            "serialized_exported_program.json",
            ["serialized_state_dict.json", "serialized_constants.json"],
        ),
        (
            "serialized_exported_program.json",
            ["serialized_state_dict.pt", "serialized_constants.pt"],
        ),
        ("models/net.json", ["data/weights/net.pt", "data/constants/net.pt"]),
    ];
    for (graph, [first, second]) in layouts {
        let members: [(&str, &[u8]); 3] = [(first, &state), (second, &constants), (graph, b"{}")];
        let weights = open(&members, graph).unwrap();
        assert_eq!(floats(&weights, &parameter("c")), [1., 2.]);
        assert_eq!(floats(&weights, &InputKind::Constant("c".into())), [3., 4.]);
        let buffer = |persistent| InputKind::Buffer { name: "c".into(), persistent };
        assert_eq!(floats(&weights, &buffer(true)), [1., 2.]);
        assert_eq!(floats(&weights, &buffer(false)), [3., 4.]);
        let places = [parameter("c"), InputKind::Constant("c".into())]
            .map(|kind| weights.tensor(&kind).unwrap().unwrap().place.clone());
        assert_ne!(places[0], places[1]);
    }
}

#[test]
fn inputs_without_weights() {
    let weights = listed_as(&json!({})).unwrap();
    assert!(weights.get(&InputKind::User).unwrap().is_none());
    assert!(weights.get(&InputKind::Fixed("n".into())).unwrap().is_none());
    assert_eq!(weights.get(&parameter("w")).unwrap_err().code, "N0209");
}

#[test]
fn hostile_lists_are_refused() {
    let mut complex = entry("weight_0", &[1], &[1], 0);
    complex["tensor_meta"]["dtype"] = json!(9);
    let mut symbolic = entry("weight_0", &[1], &[1], 0);
    symbolic["tensor_meta"]["sizes"][0] = json!({"as_expr": {"expr_str": "s0"}});
    let mut pickle = entry("weight_0", &[1], &[1], 0);
    pickle["use_pickle"] = json!(true);
    let cases = [
        entry("weight_0", &[7], &[1], 0),
        entry("weight_0", &[2], &[1], 5),
        entry("weight_0", &[2], &[i64::MAX], 0),
        entry("weight_0", &[i64::MAX, i64::MAX], &[0, 0], 0),
        entry("weight_0", &[1 << 40], &[0], 0),
        entry("weight_0", &[-1], &[1], 0),
        entry("weight_0", &[1], &[-1], 0),
        entry("weight_0", &[2, 3], &[1], 0),
        entry("../../weight_0", &[1], &[1], 0),
        entry("weight_1", &[1], &[1], 0),
        complex,
        symbolic,
        pickle,
        json!({"path_name": "weight_0"}),
        json!(null),
    ];
    for case in cases {
        let refused = listed_as(&json!({ "w": case.clone() }));
        assert!(refused.is_err(), "{case}");
    }
}

#[test]
fn names_come_in_the_order_of_modules() {
    let mut names: Vec<Rc<str>> =
        ["gain", "a.bn.weight", "a.scale", "b.weight", "off", "a.bn.mean", "b.mean"]
            .map(Rc::from)
            .into();
    super::by_module(&mut names, 0);
    let wanted = ["gain", "off", "a.scale", "a.bn.weight", "a.bn.mean", "b.weight", "b.mean"];
    assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), wanted);
}
