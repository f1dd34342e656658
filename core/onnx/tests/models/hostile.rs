//! Damaged and malicious bytes: always an answer, never a panic, never without end.

use crate::build::*;
use bytes::Bytes;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::Model;
use onnxd_onnx::{NoExternalData, decode, external_files};
use onnxd_proto::onnx::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use proptest::prelude::*;
use prost::Message;

/// Decodes; what decodes must also encode, and decode to the same again.
fn survive(bytes: &[u8]) -> Result<(), Diagnostics> {
    let bytes = Bytes::copy_from_slice(bytes);
    let _ = external_files(bytes.clone());
    let model = match decode(bytes, &mut NoExternalData) {
        Ok(decoded) => decoded.model,
        Err(findings) => {
            assert!(!findings.0.is_empty() && findings.0.len() <= 101);
            for finding in &findings.0 {
                assert!(finding.code.starts_with("N0") && !finding.message.is_empty());
                assert!(finding.message.len() < 4000, "{}", finding.message);
            }
            return Err(findings);
        }
    };
    let again = decoded(encoded(&model)).model;
    assert!(encoded(&again) == encoded(&model), "{model:?}");
    Ok(())
}

fn samples() -> Vec<Model> {
    vec![simple(), rich(), nested(), with_function()]
}

#[test]
fn every_truncation_is_answered() {
    for model in samples() {
        let bytes = encoded(&model);
        assert!(survive(&bytes).is_ok());
        let mut refused = 0;
        for length in 0..bytes.len() {
            if let Err(findings) = survive(&bytes[..length]) {
                refused += 1;
                assert!(findings.0.len() < 20);
            }
        }
        assert!(refused > bytes.len() / 2, "{refused} of {}", bytes.len());
    }
}

#[test]
fn every_single_byte_change_is_answered() {
    for model in samples() {
        let bytes = encoded(&model);
        for at in 0..bytes.len() {
            for flip in [0x01, 0x08, 0x80, 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= flip;
                let _ = survive(&damaged);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = survive(&bytes);
    }

    #[test]
    fn mutated_models_are_answered(
        which in 0..4usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 1..6),
    ) {
        let mut bytes = encoded(&samples()[which]).to_vec();
        for (at, kind, byte) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {
                    let end = (at + usize::from(byte)).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
        }
        let _ = survive(&bytes);
    }
}

/// Encodes without prost's help: it would overflow the stack for the deepest case.
fn nested_bytes(levels: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for level in 0..3 * levels + 1 {
        // Attribute.g, Node.attribute, Graph.node, at last Model.graph: from the inside outwards.
        let key = if level == 3 * levels { 0x3a } else { [0x32u8, 0x2a, 0x0a][level % 3] };
        let mut outer = vec![key];
        prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
        outer.append(&mut bytes);
        bytes = outer;
    }
    bytes
}

#[test]
fn three_hundred_nested_sub_graphs_are_a_clear_error() {
    for levels in [33, 34, 300, 3000] {
        let findings = survive(&nested_bytes(levels)).unwrap_err();
        let first = &findings.0[0];
        assert_eq!(first.code, "N0213", "{levels}: {first}");
        assert!(first.message.contains("100 messages are nested"), "{first}");
    }
}

#[test]
fn thirty_nested_sub_graphs_are_read() {
    let findings = survive(&nested_bytes(30)).unwrap_err();
    assert!(findings.0.iter().all(|f| f.code == "N0502"), "{findings}");
}

#[test]
fn findings_are_bounded() {
    let node = NodeProto { input: vec!["nowhere".into()], ..NodeProto::default() };
    let graph = GraphProto { node: vec![node; 500], ..GraphProto::default() };
    let model = ModelProto { ir_version: Some(8), graph: Some(graph), ..ModelProto::default() };
    let findings = survive(&model.encode_to_vec()).unwrap_err();
    assert_eq!(findings.0.len(), 101);
    assert!(findings.0[100].message.contains("more findings"), "{}", findings.0[100]);
}

#[test]
fn capturing_takes_bounded_time() {
    const VALUES: usize = 30_000;
    let name = |i: usize| format!("v{i}");
    let names: Vec<String> = (0..VALUES).map(name).collect();
    let producer = |names: &[String]| NodeProto {
        output: names.to_vec(),
        op_type: Some("Split".into()),
        ..NodeProto::default()
    };
    let reader = |names: &[String]| NodeProto {
        input: names.to_vec(),
        op_type: Some("Sum".into()),
        ..NodeProto::default()
    };
    let readers = names.chunks(10_000).map(reader).collect();
    let body = GraphProto { node: readers, ..GraphProto::default() };
    let attribute = AttributeProto {
        name: Some("body".into()),
        r#type: Some(5),
        g: Some(body),
        ..AttributeProto::default()
    };
    let user = NodeProto {
        op_type: Some("If".into()),
        attribute: vec![attribute],
        ..NodeProto::default()
    };
    let nodes = names.chunks(10_000).map(producer).chain([user]).collect();
    let graph = GraphProto { node: nodes, ..GraphProto::default() };
    let import = onnxd_proto::onnx::OperatorSetIdProto { domain: None, version: Some(17) };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![import],
        graph: Some(graph),
        ..ModelProto::default()
    };
    let start = std::time::Instant::now();
    let decoded = decode(model.encode_to_vec().into(), &mut NoExternalData);
    assert!(decoded.is_ok(), "captures are indexed, so many are no reason to refuse");
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn absurd_ranks_and_wide_nodes_are_refused() {
    let rank = TensorProto {
        dims: vec![1; 33],
        data_type: Some(1),
        raw_data: Some(Bytes::from_static(&[0; 4])),
        name: Some("w".into()),
        ..TensorProto::default()
    };
    let wide = NodeProto {
        input: vec![String::new(); 20_000],
        op_type: Some("Sum".into()),
        ..NodeProto::default()
    };
    let graph = GraphProto { initializer: vec![rank], node: vec![wide], ..GraphProto::default() };
    let mut model = ModelProto::decode(encoded(&simple())).unwrap();
    model.graph = Some(graph);
    let findings = survive(&model.encode_to_vec()).unwrap_err();
    assert_eq!(findings.0.len(), 2, "{findings}");
    assert!(findings.0.iter().all(|f| f.code == "N0213"), "{findings}");
    assert!(findings.0[0].message.contains("33 dimensions, the limit is 32"), "{findings}");
    assert!(findings.0[1].message.contains("20000 inputs"), "{findings}");
}

#[test]
fn text_and_other_formats_are_no_models() {
    let foreign: [&[u8]; 4] =
        [b"", b"[net]\nwidth=3\n", b"\x89PNG\r\n\x1a\n....", b"PK\x03\x04...."];
    for bytes in foreign {
        let findings = survive(bytes).unwrap_err();
        assert_eq!(findings.0.len(), 1);
        assert_eq!(findings.0[0].code, "N0501", "{findings}");
    }
}
