//! Declared types of values.

use super::text;
use onnxd_ir::{DataType, Dim, Shape, ValueType};
use onnxd_proto::onnx::tensor_shape_proto::{Dimension, dimension::Value as Size};
use onnxd_proto::onnx::type_proto::{
    self, Map, Opaque, Optional, Sequence, SparseTensor, Value as Kind,
};
use onnxd_proto::onnx::{TensorShapeProto, TypeProto};

pub(super) fn type_to_proto(ty: &ValueType) -> TypeProto {
    let value = match ty {
        ValueType::Tensor { dtype, shape } => Kind::TensorType(type_proto::Tensor {
            elem_type: number(*dtype),
            shape: shape.as_ref().map(shape_to_proto),
        }),
        ValueType::Sparse { dtype, shape } => Kind::SparseTensorType(SparseTensor {
            elem_type: number(*dtype),
            shape: shape.as_ref().map(shape_to_proto),
        }),
        ValueType::Sequence(of) => {
            Kind::SequenceType(Box::new(Sequence { elem_type: Some(Box::new(type_to_proto(of))) }))
        }
        ValueType::Optional(of) => {
            Kind::OptionalType(Box::new(Optional { elem_type: Some(Box::new(type_to_proto(of))) }))
        }
        ValueType::Map(key, of) => Kind::MapType(Box::new(Map {
            key_type: Some(key.number()),
            value_type: Some(Box::new(type_to_proto(of))),
        })),
        ValueType::Opaque { domain, name } => {
            Kind::OpaqueType(Opaque { domain: text(domain), name: text(name) })
        }
    };
    TypeProto { value: Some(value), denotation: None }
}

fn number(dtype: Option<DataType>) -> Option<i32> {
    dtype.map(DataType::number)
}

fn shape_to_proto(shape: &Shape) -> TensorShapeProto {
    let dim = |dim: &Dim| {
        let value = match dim {
            Dim::Known(size) => Some(Size::DimValue(*size)),
            Dim::Symbol(name) => Some(Size::DimParam(name.to_string())),
            Dim::Unknown => None,
        };
        Dimension { value, denotation: None }
    };
    TensorShapeProto { dim: shape.iter().map(dim).collect() }
}
