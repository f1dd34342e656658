//! Declared types of values.

use super::Decoder;
use crate::findings::ModelPath;
use onnxd_diagnostics::Code;
use onnxd_ir::{DataType, Dim, Shape, ValueType};
use onnxd_proto::onnx::tensor_shape_proto::dimension::Value as Size;
use onnxd_proto::onnx::type_proto::Value as Kind;
use onnxd_proto::onnx::{TensorShapeProto, TypeProto};

impl Decoder<'_> {
    /// The type; `None` if nothing is declared.
    pub(super) fn value_type(
        &mut self,
        proto: TypeProto,
        place: &ModelPath<'_>,
    ) -> Option<ValueType> {
        if proto.denotation.is_some_and(|d| !d.is_empty()) {
            self.found.note("the denotation of a type is not kept");
        }
        Some(match proto.value? {
            Kind::TensorType(tensor) => ValueType::Tensor {
                dtype: self.declared_element(tensor.elem_type, place),
                shape: tensor.shape.map(|s| self.shape(s)),
            },
            Kind::SparseTensorType(tensor) => ValueType::Sparse {
                dtype: self.declared_element(tensor.elem_type, place),
                shape: tensor.shape.map(|s| self.shape(s)),
            },
            Kind::SequenceType(of) => ValueType::Sequence(self.inner_type(of.elem_type, place)?),
            Kind::OptionalType(of) => ValueType::Optional(self.inner_type(of.elem_type, place)?),
            Kind::MapType(map) => {
                let Some(key) = self.declared_element(map.key_type, place) else {
                    self.found.push(Code::OnnxInvalid, place, "a map type has no key type");
                    return None;
                };
                ValueType::Map(key, self.inner_type(map.value_type, place)?)
            }
            Kind::OpaqueType(opaque) => ValueType::Opaque {
                domain: opaque.domain.unwrap_or_default(),
                name: opaque.name.unwrap_or_default(),
            },
        })
    }

    fn inner_type(
        &mut self,
        proto: Option<Box<TypeProto>>,
        place: &ModelPath<'_>,
    ) -> Option<Box<ValueType>> {
        let inner = proto.and_then(|proto| self.value_type(*proto, place));
        if inner.is_none() {
            let text = "a sequence, optional or map type does not say of what";
            self.found.push(Code::OnnxInvalid, place, text);
        }
        inner.map(Box::new)
    }

    fn declared_element(&mut self, number: Option<i32>, place: &ModelPath<'_>) -> Option<DataType> {
        let number = number.filter(|n| *n != 0)?;
        let dtype = DataType::from_number(number);
        if dtype.is_none() {
            let text = format!("element type {number} is not known");
            self.found.push(Code::OnnxVersion, place, text);
        }
        dtype
    }

    fn shape(&mut self, proto: TensorShapeProto) -> Shape {
        let mut shape = Shape::with_capacity(proto.dim.len());
        for dim in proto.dim {
            if dim.denotation.is_some_and(|d| !d.is_empty()) {
                self.found.note("the denotation of a dimension is not kept");
            }
            shape.push(match dim.value {
                Some(Size::DimValue(size)) if size >= 0 => Dim::Known(size),
                // Some exporters write -1 for "any"; runtimes read it so.
                Some(Size::DimValue(_)) => {
                    self.found.note("a negative size in a declared shape is read as unknown");
                    Dim::Unknown
                }
                Some(Size::DimParam(name)) if !name.is_empty() => Dim::Symbol(name.into()),
                _ => Dim::Unknown,
            });
        }
        shape
    }
}
