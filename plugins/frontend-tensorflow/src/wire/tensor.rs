//! Constants as protobuf messages hold them, and shapes.

use super::dtype::dtype_of_number;
use super::proto::{TensorProto, TensorShapeProto};
use bytes::Bytes;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse};
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, element_count};
use prost::Message;

/// Axes of a tensor; no more cross the border of a plugin.
pub(crate) const RANK_MAX: usize = 32;
/// Bytes that the constants of a graph may take beyond those that the file has, where values are repeated.
pub(crate) const REPEATED_BYTES_MAX: usize = 192 << 20;

fn damaged(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what)
}

/// Sizes of a shape; `None` if not even the number of axes is known.
pub(crate) fn dims_of(shape: &TensorShapeProto) -> Option<Vec<Dim>> {
    let dim = |size: i64| if size < 0 { Dim::Unknown } else { Dim::Known(size) };
    (!shape.unknown_rank).then(|| shape.dim.iter().map(|d| dim(d.size)).collect())
}

/// Sizes that must be known.
///
/// # Errors
/// `N0201` for a size that is not.
pub(crate) fn known_dims(shape: Option<&TensorShapeProto>) -> Result<Vec<usize>> {
    let Some(shape) = shape else { return Ok(vec![]) };
    refuse!(shape.unknown_rank => damaged("A constant has a shape of unknown rank."));
    refuse!(shape.dim.len() > RANK_MAX =>
        Diagnostic::new(Code::SourceLimit, format!("A tensor has {} axes, more than {RANK_MAX}.", shape.dim.len())));
    let sizes = shape.dim.iter().map(|dim| {
        usize::try_from(dim.size)
            .map_err(|_| damaged(format!("A constant has an axis of size {}.", dim.size)))
    });
    sizes.collect()
}

/// A constant as a tensor. Its bytes stay where they are.
///
/// # Errors
/// `N0201` if its values do not fit its type and shape, `N0203` for a type that ONNX does not have, `N0213` if it is
/// too large.
pub(crate) fn tensor_of(proto: &TensorProto) -> Result<Tensor> {
    let dims = known_dims(proto.tensor_shape.as_ref())?;
    let Some(dtype) = dtype_of_number(proto.dtype) else {
        let message = format!("A constant has type {}, which ONNX does not have.", proto.dtype);
        return Err(Diagnostic::new(Code::LayerUnsupported, message));
    };
    let count = element_count(&dims).ok_or_else(|| damaged("A constant's size overflows."))?;
    if dtype == DataType::String {
        return strings(proto, dims, count);
    }
    let content = match proto.tensor_content.is_empty() {
        false => proto.tensor_content.clone(),
        true => listed(proto, dtype, count)?,
    };
    Tensor::new(dtype, dims, content).map_err(|e| damaged(format!("A constant is damaged: {e}.")))
}

/// Bytes of a constant beyond those that the message has, as values are repeated.
pub(crate) fn repeated_bytes(proto: &TensorProto) -> usize {
    let dims = known_dims(proto.tensor_shape.as_ref()).unwrap_or_default();
    let bytes = dtype_of_number(proto.dtype).zip(element_count(&dims));
    let bytes = bytes.map(|(dtype, count)| dtype.byte_len(count).unwrap_or(count));
    bytes.unwrap_or(0).saturating_sub(proto.encoded_len())
}

/// The last value of a list stands for all that follow; without any, elements are zero.
fn repeated<T: Clone>(mut list: Vec<T>, count: usize, zero: T) -> Result<Vec<T>> {
    refuse!(list.len() > count => damaged(format!("A constant has {} values for {count}.", list.len())));
    refuse!(count.saturating_mul(size_of::<T>()) > REPEATED_BYTES_MAX =>
        Diagnostic::new(Code::SourceLimit, format!("A constant repeats a value {count} times.")));
    let last = list.last().cloned().unwrap_or(zero);
    list.resize(count, last);
    Ok(list)
}

fn strings(proto: &TensorProto, dims: Vec<usize>, count: usize) -> Result<Tensor> {
    let strings = repeated(proto.string_val.clone(), count, Bytes::new())?;
    Tensor::strings(dims, strings).map_err(|e| damaged(format!("A constant is damaged: {e}.")))
}

/// The bytes of the values that a message lists.
fn listed(proto: &TensorProto, dtype: DataType, count: usize) -> Result<Bytes> {
    macro_rules! bytes {
        ($list:expr, |$x:ident: $ty:ty| $to:expr) => {{
            let items: Vec<$ty> = $list.to_vec();
            let all = repeated(items, count, <$ty>::default())?;
            all.into_iter().flat_map(|$x| $to.to_le_bytes()).collect::<Vec<u8>>().into()
        }};
    }
    Ok(match dtype {
        DataType::Float => bytes!(proto.float_val, |x: f32| x),
        DataType::Double => bytes!(proto.double_val, |x: f64| x),
        DataType::Int32 => bytes!(proto.int_val, |x: i32| x),
        DataType::Int16 => bytes!(proto.int_val, |x: i32| x as i16),
        DataType::Uint16 => bytes!(proto.int_val, |x: i32| x as u16),
        DataType::Int8 | DataType::Uint8 => bytes!(proto.int_val, |x: i32| x as u8),
        DataType::Int64 => bytes!(proto.int64_val, |x: i64| x),
        DataType::Uint32 => bytes!(proto.uint32_val, |x: u32| x),
        DataType::Uint64 => bytes!(proto.uint64_val, |x: u64| x),
        DataType::Bool => bytes!(proto.bool_val, |x: bool| u8::from(x)),
        DataType::Float16 | DataType::Bfloat16 => bytes!(proto.half_val, |x: i32| x as u16),
        DataType::Complex64 => {
            let pairs = proto.scomplex_val.chunks_exact(2).map(|p| [p[0], p[1]]).collect();
            let all: Vec<[f32; 2]> = repeated(pairs, count, [0.0; 2])?;
            all.into_iter().flatten().flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into()
        }
        DataType::Complex128 => {
            let pairs = proto.dcomplex_val.chunks_exact(2).map(|p| [p[0], p[1]]).collect();
            let all: Vec<[f64; 2]> = repeated(pairs, count, [0.0; 2])?;
            all.into_iter().flatten().flat_map(f64::to_le_bytes).collect::<Vec<u8>>().into()
        }
        other => {
            let message = format!("A constant lists values of type {other}.");
            return Err(Diagnostic::new(Code::LayerUnsupported, message));
        }
    })
}
