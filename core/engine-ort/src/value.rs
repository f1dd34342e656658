//! Tensors of ours as values of ONNX Runtime, and back.

use crate::refused;
use bytes::Bytes;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_eval::parts;
use onnxd_ir::{DataType, Element, Tensor};
use ort::memory::Allocator;
use ort::value::{
    DynMapRef, DynMapValueType, DynSequenceValueType, DynTensor, DynTensorValueType, DynValue,
    PrimitiveTensorElementType, Shape, TensorElementType,
};
use std::fmt::Debug;

const TYPES: [(DataType, TensorElementType); 25] = {
    use TensorElementType as T;
    [
        (DataType::Float, T::Float32),
        (DataType::Uint8, T::Uint8),
        (DataType::Int8, T::Int8),
        (DataType::Uint16, T::Uint16),
        (DataType::Int16, T::Int16),
        (DataType::Int32, T::Int32),
        (DataType::Int64, T::Int64),
        (DataType::Bool, T::Bool),
        (DataType::Float16, T::Float16),
        (DataType::Double, T::Float64),
        (DataType::Uint32, T::Uint32),
        (DataType::Uint64, T::Uint64),
        (DataType::Complex64, T::Complex64),
        (DataType::Complex128, T::Complex128),
        (DataType::Bfloat16, T::Bfloat16),
        (DataType::Float8E4M3FN, T::Float8E4M3FN),
        (DataType::Float8E4M3FNUZ, T::Float8E4M3FNUZ),
        (DataType::Float8E5M2, T::Float8E5M2),
        (DataType::Float8E5M2FNUZ, T::Float8E5M2FNUZ),
        (DataType::Uint4, T::Uint4),
        (DataType::Int4, T::Int4),
        (DataType::Float4E2M1, T::Float4E2M1),
        (DataType::Float8E8M0, T::Float8E8M0),
        (DataType::Uint2, T::Uint2),
        (DataType::Int2, T::Int2),
    ]
};

/// A value of ONNX Runtime that holds a copy of `tensor`.
pub(crate) fn fed(tensor: &Tensor) -> Result<DynValue, Diagnostic> {
    let dims: Vec<i64> = tensor.dims().iter().map(|d| *d as i64).collect();
    if let Some(strings) = tensor.as_strings() {
        let texts = strings.iter().map(|s| String::from_utf8(s.to_vec()));
        let texts = texts
            .collect::<Result<Vec<String>, _>>()
            .map_err(|_| unlike("a string that is not UTF-8"))?;
        let made = ort::value::Tensor::from_string_array((dims, texts.as_slice()));
        return made.map(ort::value::Value::into_dyn).map_err(|e| refused(&e));
    }
    let (_, ty) = TYPES
        .into_iter()
        .find(|(ours, _)| *ours == tensor.dtype())
        .ok_or_else(|| unlike(tensor.dtype().word()))?;
    let made = DynTensor::new(&Allocator::default(), ty, Shape::from(dims));
    let mut made = made.map_err(|e| refused(&e))?;
    let bytes = tensor.bytes();
    if !bytes.is_empty() {
        // SAFETY: the allocator has made room for as many elements of this type as `dims` say, in main
        // memory. `Tensor` holds exactly as many, packed in the same way. The value is new, so that
        // nothing else knows of its memory.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), made.data_ptr_mut().cast(), bytes.len());
        }
    }
    Ok(made.into_dyn())
}

/// A value in memory of ours, as weights beside a message must be; `None` for types that are left
/// in the message.
pub(crate) fn held(tensor: &Tensor) -> Result<Option<DynValue>, Diagnostic> {
    let made = match tensor.dtype() {
        DataType::Float => owned::<f32>(tensor),
        DataType::Double => owned::<f64>(tensor),
        DataType::Float16 => owned::<half::f16>(tensor),
        DataType::Bfloat16 => owned::<half::bf16>(tensor),
        DataType::Int8 => owned::<i8>(tensor),
        DataType::Uint8 => owned::<u8>(tensor),
        DataType::Int16 => owned::<i16>(tensor),
        DataType::Int32 => owned::<i32>(tensor),
        DataType::Int64 => owned::<i64>(tensor),
        _ => None,
    };
    made.transpose().map_err(|e| refused(&e))
}

fn owned<T: PrimitiveTensorElementType + Element + Debug>(
    tensor: &Tensor,
) -> Option<Result<DynValue, ort::Error>> {
    let values = tensor.as_slice::<T>()?.into_owned();
    let made = ort::value::Tensor::from_array((tensor.dims().to_vec(), values));
    Some(made.map(ort::value::Value::into_dyn))
}

/// Copies of what a value of ONNX Runtime holds, under the names that [`onnxd_eval::parts`] gives.
pub(crate) fn taken(value: &DynValue, name: &str) -> Result<Vec<(String, Tensor)>, Diagnostic> {
    if let Some(tensor) = tensor(value)? {
        return Ok(vec![(name.to_owned(), tensor)]);
    }
    if let Ok(map) = value.view().downcast::<DynMapValueType>() {
        return maps(name, &[map.view()], false);
    }
    let sequence = value.view().downcast::<DynSequenceValueType>();
    let sequence = sequence.map_err(|_| unlike_ours(name))?;
    if let Ok(list) = sequence.try_extract_sequence::<DynMapValueType>() {
        let views: Vec<_> = list.iter().map(|map| map.view()).collect();
        return maps(name, &views, true);
    }
    let list = sequence.try_extract_sequence::<DynTensorValueType>().map_err(|e| refused(&e))?;
    let elements = list.into_iter().enumerate().map(|(i, x)| {
        let x = tensor(&x.into_dyn())?.ok_or_else(|| unlike_ours(name))?;
        Ok((parts::element(name, i), x))
    });
    elements.collect()
}

fn unlike_ours(name: &str) -> Diagnostic {
    let text = format!("ONNX Runtime gives a value `{name}` of a kind that is not read");
    Diagnostic::new(Code::OperatorUnsupported, text)
}

/// Maps with the same keys: the keys in ascending order, and the values, of a sequence a row for
/// each map.
fn maps(name: &str, maps: &[DynMapRef], rows: bool) -> Result<Vec<(String, Tensor)>, Diagnostic> {
    let named = |keys: Tensor, width: usize, values: Vec<f32>| {
        let dims = if rows { vec![maps.len(), width] } else { vec![width] };
        let values = Tensor::from_vec(dims, values);
        vec![(parts::keys(name), keys), (parts::values(name), values)]
    };
    let numbers = maps.iter().map(|map| map.try_extract_key_values::<i64, f32>());
    if let Ok(numbers) = numbers.collect::<Result<Vec<_>, _>>() {
        let (keys, values) = columns(name, numbers)?;
        return Ok(named(Tensor::vector(keys.clone()), keys.len(), values));
    }
    let texts = maps.iter().map(|map| map.try_extract_key_values::<String, f32>());
    let texts = texts.collect::<Result<Vec<_>, _>>().map_err(|e| refused(&e))?;
    let (keys, values) = columns(name, texts)?;
    let width = keys.len();
    let keys = Tensor::strings(vec![width], keys.into_iter().map(Bytes::from).collect());
    let keys = keys.map_err(|why| Diagnostic::new(Code::Internal, why.to_string()))?;
    Ok(named(keys, width, values))
}

/// The keys that all maps have, and the values of one map after the other.
fn columns<K: Ord>(name: &str, maps: Vec<Vec<(K, f32)>>) -> Result<(Vec<K>, Vec<f32>), Diagnostic> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (i, mut map) in maps.into_iter().enumerate() {
        map.sort_by(|a, b| a.0.cmp(&b.0));
        let (own, row): (Vec<K>, Vec<f32>) = map.into_iter().unzip();
        if i > 0 && own != keys {
            let text = format!("the maps of `{name}` differ in their keys");
            return Err(Diagnostic::new(Code::OperatorUnsupported, text));
        }
        keys = own;
        values.extend(row);
    }
    Ok((keys, values))
}

fn tensor(value: &DynValue) -> Result<Option<Tensor>, Diagnostic> {
    let Ok(value) = value.view().downcast::<DynTensorValueType>() else { return Ok(None) };
    let dims: Vec<usize> =
        value.shape().iter().map(|d| usize::try_from(*d)).collect::<Result<_, _>>().map_err(
            |_| Diagnostic::new(Code::EngineRefused, "ONNX Runtime gave a negative size"),
        )?;
    let wrong = |why: onnxd_ir::TensorError| Diagnostic::new(Code::Internal, why.to_string());
    if *value.data_type() == TensorElementType::String {
        let (_, strings) = value.try_extract_strings().map_err(|e| refused(&e))?;
        let strings = strings.into_iter().map(Bytes::from).collect();
        return Tensor::strings(dims, strings).map(Some).map_err(wrong);
    }
    let (ours, ty) = TYPES
        .into_iter()
        .find(|(_, ty)| ty == value.data_type())
        .ok_or_else(|| unlike(&value.data_type().to_string()))?;
    let elements = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let length = elements.and_then(|n| ty.byte_size(n)).unwrap_or(0);
    let bytes = match length {
        0 => Bytes::new(),
        // SAFETY: sessions of ours run on the processor alone, so that tensors lie in main memory. A
        // tensor holds the elements of its shape without gaps, `length` bytes of this type, and is
        // borrowed while they are copied.
        _ => Bytes::copy_from_slice(unsafe {
            std::slice::from_raw_parts(value.data_ptr().cast::<u8>(), length)
        }),
    };
    Tensor::new(ours, dims, bytes).map(Some).map_err(wrong)
}

fn unlike(what: &str) -> Diagnostic {
    Diagnostic::new(Code::EngineRefused, format!("ONNX Runtime is not given {what}"))
}
