//! The typed data fields: `float_data`, `int32_data` and their kin.

use onnxd_ir::{DataType, Tensor};
use onnxd_onnx::{NoExternalData, from_proto};
use onnxd_proto::onnx::{GraphProto, ModelProto, OperatorSetIdProto, TensorProto};

fn read(proto: TensorProto) -> Tensor {
    let proto = TensorProto { name: Some("w".into()), ..proto };
    let graph = GraphProto { initializer: vec![proto], ..GraphProto::default() };
    let import = OperatorSetIdProto { domain: None, version: Some(17) };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![import],
        graph: Some(graph),
        ..ModelProto::default()
    };
    let graph =
        from_proto(model, &mut NoExternalData).unwrap_or_else(|e| panic!("{e}")).model.graph;
    graph[graph.value_named("w").unwrap()].initializer().unwrap().clone()
}

fn typed(dtype: DataType, dims: &[i64], fill: impl FnOnce(&mut TensorProto)) -> Vec<u8> {
    let mut proto = TensorProto {
        data_type: Some(dtype.number()),
        dims: dims.to_vec(),
        ..TensorProto::default()
    };
    fill(&mut proto);
    let tensor = read(proto);
    assert_eq!(tensor.dtype(), dtype);
    tensor.bytes().to_vec()
}

#[test]
fn floats_and_complex_numbers() {
    let numbers = [1.5f32, -0.0, f32::NAN, f32::INFINITY];
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let fill = |t: &mut TensorProto| t.float_data = numbers.to_vec();
    assert_eq!(typed(DataType::Float, &[4], fill), bytes);
    let fill = |t: &mut TensorProto| t.float_data = numbers.to_vec();
    assert_eq!(typed(DataType::Complex64, &[2], fill), bytes);

    let numbers = [1.5f64, -2.0];
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let fill = |t: &mut TensorProto| t.double_data = numbers.to_vec();
    assert_eq!(typed(DataType::Double, &[2], fill), bytes);
    let fill = |t: &mut TensorProto| t.double_data = numbers.to_vec();
    assert_eq!(typed(DataType::Complex128, &[1], fill), bytes);
}

#[test]
fn wide_integers() {
    let fill = |t: &mut TensorProto| t.int64_data = vec![-2, i64::MAX];
    let bytes = [(-2i64).to_le_bytes(), i64::MAX.to_le_bytes()].concat();
    assert_eq!(typed(DataType::Int64, &[2], fill), bytes);
    let fill = |t: &mut TensorProto| t.uint64_data = vec![u64::MAX];
    assert_eq!(typed(DataType::Uint64, &[1], fill), [0xff; 8]);
    let fill = |t: &mut TensorProto| t.uint64_data = vec![0xffff_fffe, 1];
    assert_eq!(typed(DataType::Uint32, &[2], fill), [0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    let fill = |t: &mut TensorProto| t.int32_data = vec![-2];
    assert_eq!(typed(DataType::Int32, &[1], fill), [0xfe, 0xff, 0xff, 0xff]);
}

#[test]
fn narrow_types_are_bit_patterns_in_int32_data() {
    use DataType::*;
    let two_bytes = [Int16, Uint16, Float16, Bfloat16];
    for dtype in two_bytes {
        let fill = |t: &mut TensorProto| t.int32_data = vec![0x7c01, 2];
        assert_eq!(typed(dtype, &[2], fill), [0x01, 0x7c, 2, 0], "{dtype}");
    }
    let one_byte =
        [Int8, Uint8, Bool, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0];
    for dtype in one_byte {
        let fill = |t: &mut TensorProto| t.int32_data = vec![1, 0, 1];
        assert_eq!(typed(dtype, &[3], fill), [1, 0, 1], "{dtype}");
    }
    let fill = |t: &mut TensorProto| t.int32_data = vec![-1, -128, 127];
    assert_eq!(typed(Int8, &[3], fill), [0xff, 0x80, 0x7f]);
    let fill = |t: &mut TensorProto| t.int32_data = vec![0xfe01];
    assert_eq!(typed(Bfloat16, &[1], fill), [0x01, 0xfe]);
}

#[test]
fn packed_types_hold_several_elements_per_number() {
    use DataType::*;
    for dtype in [Int4, Uint4, Float4E2M1] {
        let fill = |t: &mut TensorProto| t.int32_data = vec![0xa5, 0x03];
        assert_eq!(typed(dtype, &[3], fill), [0xa5, 0x03], "{dtype}");
    }
    for dtype in [Int2, Uint2] {
        let fill = |t: &mut TensorProto| t.int32_data = vec![0xe4, 0x01];
        assert_eq!(typed(dtype, &[5], fill), [0xe4, 0x01], "{dtype}");
    }
}

#[test]
fn an_empty_raw_field_does_not_hide_typed_data() {
    let fill = |t: &mut TensorProto| {
        t.raw_data = Some(bytes::Bytes::new());
        t.int64_data = vec![3];
    };
    assert_eq!(typed(DataType::Int64, &[1], fill), 3i64.to_le_bytes());
    assert!(typed(DataType::Int64, &[0], |_| ()).is_empty());
}
