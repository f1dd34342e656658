use super::*;
use crate::archive::fixture::{archive, dict, floats, object, pickle, tensor, text};
use crate::archive::fuzzing;
use crate::archive::kind::{FileKind, file_kind};

fn names(weights: &NamedTensors) -> Vec<&str> {
    weights.iter().map(|(name, _)| name.as_str()).collect()
}

fn saved_archive(value: &[u8]) -> Bytes {
    let elements = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    archive(&[("a/data.pkl", &pickle(value)), ("a/data/0", &elements), ("a/version", b"3\n")])
}

fn row(count: u8) -> Vec<u8> {
    tensor("Float", "0", 6, (0, &[count], &[1]))
}

#[test]
fn state_dicts_keep_names_and_order() {
    let state = dict(&[("fc.weight", row(6)), ("fc.bias", row(2))]);
    let weights = load(&saved_archive(&state), "").unwrap();
    assert_eq!(names(&weights), ["fc.weight", "fc.bias"]);
    assert_eq!(weights[1].1.tensor.as_slice::<f32>().unwrap()[..], [1.0, 2.0]);
    assert_eq!(&*weights[0].1.place.member, "data/0");
    let within = load(&saved_archive(&state), "weights.pt/").unwrap();
    assert_eq!(&*within[0].1.place.member, "weights.pt/data/0");
}

#[test]
fn checkpoints_give_the_state_of_the_module() {
    let state = || dict(&[("w", row(3))]);
    let optimizer = dict(&[("exp_avg", row(3))]);
    let checkpoint =
        dict(&[("epoch", b"K\x03".to_vec()), ("optimizer", optimizer), ("state_dict", state())]);
    assert_eq!(names(&load(&saved_archive(&checkpoint), "").unwrap()), ["w"]);
    let parts = dict(&[("encoder", state()), ("decoder", state())]);
    let weights = load(&saved_archive(&parts), "").unwrap();
    assert_eq!(names(&weights), ["encoder.w", "decoder.w"]);
    assert!(Rc::ptr_eq(&weights[0].1, &weights[1].1), "equal views are one tensor");
}

#[test]
fn pickled_modules_give_the_names_of_their_state_dict() {
    let inner = object("torch.nn", "Linear", &[("_parameters", dict(&[("weight", row(2))]))]);
    let root = object(
        "models",
        "Net",
        &[("_buffers", dict(&[("mean", row(1))])), ("_modules", dict(&[("fc", inner)]))],
    );
    assert_eq!(names(&load(&saved_archive(&root), "").unwrap()), ["mean", "fc.weight"]);
}

/// What `torch.save` wrote before 1.6, with two storages.
fn legacy_file(count: u8) -> Vec<u8> {
    let with_metadata = |tensor: Vec<u8>| {
        // The persistent id has a sixth element: no view of a storage.
        let at = tensor.iter().position(|byte| *byte == b'Q').unwrap();
        [&tensor[..at - 1], b"NtQ", &tensor[at + 1..]].concat()
    };
    let state = dict(&[
        ("b", with_metadata(tensor("Long", "2", 1, (0, &[], &[])))),
        ("a", with_metadata(tensor("Float", "1", 2, (0, &[2], &[1])))),
    ]);
    let system = dict(&[("little_endian", b"\x88".to_vec())]);
    let keys = [&b"]("[..], &text("1"), &text("2"), b"e"].concat();
    [
        LEGACY,
        b".",
        &pickle(b"M\xe9\x03"),
        &pickle(&system),
        &pickle(&state),
        &pickle(&keys),
        &[count, 0, 0, 0, 0, 0, 0, 0],
        &floats(&[0.5, 1.5]),
        &1u64.to_le_bytes(),
        &7i64.to_le_bytes(),
    ]
    .concat()
}

#[test]
fn files_before_1_6_have_their_elements_behind_the_pickles() {
    let bytes = Bytes::from(legacy_file(2));
    let weights = load(&bytes, "").unwrap();
    assert_eq!(names(&weights), ["b", "a"]);
    assert_eq!(weights[0].1.tensor.to_i64s(), Some(vec![7]));
    assert_eq!(weights[1].1.tensor.as_slice::<f32>().unwrap()[..], [0.5, 1.5]);
    assert!(bytes.as_ptr_range().contains(&weights[1].1.tensor.bytes().as_ptr()));
    let wrong = load(&legacy_file(3).into(), "").unwrap_err();
    assert!(wrong.message.contains("not the 2 elements"), "{wrong}");
    for end in 0..bytes.len() {
        assert!(load(&bytes.slice(..end), "").is_err());
        let mut damaged = bytes.to_vec();
        damaged[end] ^= 0x81;
        fuzzing::file(&damaged);
    }
}

fn safetensors_file(header: &str, data: &[u8]) -> Bytes {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat().into()
}

#[test]
fn safetensors_are_slices_in_the_order_of_the_file() {
    let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"I64","shape":[],"data_offsets":[8,16]},
        "z":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}"#;
    let data = [floats(&[0.5, 1.5]), 7i64.to_le_bytes().to_vec()].concat();
    let bytes = safetensors_file(header, &data);
    let weights = load(&bytes, "").unwrap();
    assert_eq!(names(&weights), ["z", "a"]);
    assert_eq!(weights[0].1.tensor.dims(), [2, 1]);
    assert_eq!(weights[1].1.tensor.to_i64s(), Some(vec![7]));
    for end in 0..bytes.len() {
        assert!(load(&bytes.slice(..end), "").is_err());
    }
}

#[test]
fn wrong_safetensors_are_refused() {
    let one = |entry: &str| {
        let header =
            format!(r#"{{"a":{entry},"b":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}}}"#);
        load(&safetensors_file(&header, &[0; 8]), "").unwrap_err()
    };
    let cases = [
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[1,5]}"#, "share bytes"),
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[4,8]}"#, "it cannot be derived"),
        (r#"{"dtype":"U8","shape":[2],"data_offsets":[4,8]}"#, "more bytes than elements"),
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[4,9]}"#, "beyond the end"),
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[8,4]}"#, "beyond the end"),
        (r#"{"dtype":"F32","shape":[-1],"data_offsets":[4,8]}"#, "describes no tensor"),
        (r#"{"dtype":"F4","shape":[1],"data_offsets":[4,8]}"#, "type `F4`"),
        (r#"7"#, "describes no tensor"),
    ];
    for (entry, expected) in cases {
        let error = one(entry);
        assert!(error.message.contains(expected), "{entry}: {error}");
    }
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    assert!(load(&safetensors_file(&deep, &[]), "").is_err());
}

#[test]
fn values_that_contain_themselves_end() {
    let cycle = b"cmodels\nNet\n)\x81q\x00}\x8c\x08_modules}\x8c\x00h\x00ssb";
    let error = load(&saved_archive(cycle), "").unwrap_err();
    assert_eq!(error.code, "N0213");
    assert!(saved(&saved_archive(cycle), "").unwrap_err().message.contains("contains itself"));
}

#[test]
fn names_have_a_limit_before_they_are_made() {
    // The name of the outer dict stands before each of the inner ones.
    let length = 1u32 << 20;
    let key = [b"X", &length.to_le_bytes()[..], &b"k".repeat(length as usize)].concat();
    let inner: Vec<u8> = (0..2000u16).flat_map(|i| [b'M', i as u8, (i >> 8) as u8, b']']).collect();
    let state = [b"}", &key[..], b"}(", &inner, b"us"].concat();
    assert_eq!(load(&saved_archive(&state), "").unwrap_err().code, "N0213");
}

#[test]
fn what_was_saved_tells_weights_from_modules() {
    let kind = |value: &[u8]| file_kind(&saved_archive(value)).unwrap();
    assert_eq!(kind(&row(6)), FileKind::StateDict);
    assert_eq!(kind(&dict(&[("w", row(6))])), FileKind::StateDict);
    // A module of `torch.fx` has its parts in the arguments of a function.
    let traced = [b"ctorch.fx.graph_module\nreduce_graph_module\n", &row(2)[..], b"\x85R"].concat();
    assert_eq!(kind(&traced), FileKind::PickledModule);
    assert_eq!(kind(&dict(&[("rate", b"K\x01".to_vec())])), FileKind::Unknown);
}
