//! Tensors: raw bytes are shared, typed fields become little-endian bytes once, data outside the
//! message comes from the loader.

use super::Decoder;
use crate::external::byte_len;
use crate::findings::ModelPath;
use crate::metadata::from_entries;
use bytes::Bytes;
use onnxd_diagnostics::Code;
use onnxd_ir::{DataType, SparseTensor, Tensor};
use onnxd_proto::onnx::tensor_proto::DataLocation;
use onnxd_proto::onnx::{SparseTensorProto, TensorProto};

/// Most axes of a tensor; what plugins, NumPy and the runtimes take too.
const RANK_MAX: usize = 32;

/// Why a tensor cannot be read; the code and a sentence.
type TensorFault = (Code, String);

fn invalid(text: impl Into<String>) -> TensorFault {
    (Code::OnnxInvalid, text.into())
}

impl Decoder<'_> {
    /// The tensor; `None` after a finding.
    pub(super) fn tensor(&mut self, proto: TensorProto, place: &ModelPath<'_>) -> Option<Tensor> {
        match self.read_tensor(proto, place) {
            Ok(tensor) => tensor,
            Err((code, text)) => {
                self.found.push(code, place, text);
                None
            }
        }
    }

    fn read_tensor(
        &mut self,
        proto: TensorProto,
        place: &ModelPath<'_>,
    ) -> Result<Option<Tensor>, TensorFault> {
        let dtype = element_type(proto.data_type.unwrap_or(0))?;
        let dims = sizes(&proto.dims)?;
        if proto.segment.is_some() {
            let text = "the tensor is stored in segments, which no version of ONNX defines further";
            return Err((Code::FeatureUnsupported, text.to_owned()));
        }
        if proto.data_location == Some(DataLocation::External as i32) {
            return self.external(dtype, &dims, proto, place);
        }
        if dtype == DataType::String {
            one_field(&proto, "string_data")?;
            let tensor = Tensor::strings(dims, proto.string_data);
            return tensor.map(Some).map_err(|e| invalid(e.to_string()));
        }
        let bytes = inline_bytes(dtype, proto)?;
        Tensor::new(dtype, dims, bytes).map(Some).map_err(|e| invalid(e.to_string()))
    }

    fn external(
        &mut self,
        dtype: DataType,
        dims: &[usize],
        proto: TensorProto,
        place: &ModelPath<'_>,
    ) -> Result<Option<Tensor>, TensorFault> {
        if dtype == DataType::String {
            return Err(invalid("strings cannot lie in an external file"));
        }
        // Checks that the size does not overflow before anyone relies on it.
        if byte_len(dtype, dims).is_none() {
            return Err(invalid("the tensor's size overflows"));
        }
        let entries = from_entries(proto.external_data);
        match self.loader.load(dtype, dims, &entries) {
            Ok(tensor) => Ok(Some(tensor)),
            Err(said) => {
                self.found.loading(said, place);
                Ok(None)
            }
        }
    }

    /// The sparse tensor and its name; `None` after a finding.
    pub(super) fn sparse_tensor(
        &mut self,
        proto: SparseTensorProto,
        place: &ModelPath<'_>,
    ) -> Option<SparseTensor> {
        let dims = match sizes(&proto.dims) {
            Ok(dims) => dims,
            Err((code, text)) => {
                self.found.push(code, place, text);
                return None;
            }
        };
        let (Some(values), Some(indices)) = (proto.values, proto.indices) else {
            self.found.push(Code::OnnxInvalid, place, "values or indices are missing");
            return None;
        };
        let values = self.tensor(values, place)?;
        let indices = self.tensor(indices, place)?;
        let sparse = SparseTensor { values, indices, dims };
        match check_sparse(&sparse) {
            Ok(()) => Some(sparse),
            Err(text) => {
                self.found.push(Code::OnnxInvalid, place, text);
                None
            }
        }
    }
}

/// The element type with this number.
pub(super) fn element_type(number: i32) -> Result<DataType, TensorFault> {
    if number == 0 {
        return Err(invalid("the tensor has no element type"));
    }
    DataType::from_number(number)
        .ok_or_else(|| (Code::OnnxVersion, format!("element type {number} is not known")))
}

fn sizes(dims: &[i64]) -> Result<Vec<usize>, TensorFault> {
    if dims.len() > RANK_MAX {
        let text = format!("the tensor has {} dimensions, the limit is {RANK_MAX}", dims.len());
        return Err((Code::SourceLimit, text));
    }
    let size = |d: &i64| {
        usize::try_from(*d).map_err(|_| invalid(format!("dimension {d} of the tensor is negative")))
    };
    dims.iter().map(size).collect()
}

/// Names of the data fields that are in use.
fn used_fields(proto: &TensorProto) -> Vec<&'static str> {
    let fields = [
        ("float_data", !proto.float_data.is_empty()),
        ("int32_data", !proto.int32_data.is_empty()),
        ("string_data", !proto.string_data.is_empty()),
        ("int64_data", !proto.int64_data.is_empty()),
        ("raw_data", proto.raw_data.as_ref().is_some_and(|b| !b.is_empty())),
        ("double_data", !proto.double_data.is_empty()),
        ("uint64_data", !proto.uint64_data.is_empty()),
    ];
    fields.into_iter().filter(|(_, used)| *used).map(|(name, _)| name).collect()
}

/// Checks that no data field other than `wanted` is in use.
fn one_field(proto: &TensorProto, wanted: &str) -> Result<(), TensorFault> {
    match used_fields(proto).into_iter().find(|used| *used != wanted) {
        None => Ok(()),
        Some(other) => Err(invalid(format!("its data must be in {wanted}, not in {other}"))),
    }
}

/// The typed field that elements of type `dtype` may be in.
fn typed_field(dtype: DataType) -> &'static str {
    use DataType::*;
    match dtype {
        Float | Complex64 => "float_data",
        Double | Complex128 => "double_data",
        Int64 => "int64_data",
        Uint32 | Uint64 => "uint64_data",
        String => "string_data",
        _ => "int32_data",
    }
}

fn inline_bytes(dtype: DataType, proto: TensorProto) -> Result<Bytes, TensorFault> {
    let used = used_fields(&proto);
    let field = match used[..] {
        [] => return Ok(Bytes::new()),
        [field] => field,
        _ => return Err(invalid(format!("its data is in several fields: {}", used.join(", ")))),
    };
    if field == "raw_data" {
        return Ok(proto.raw_data.unwrap_or_default());
    }
    one_field(&proto, typed_field(dtype))?;
    // `vector` takes over the numbers' memory; the caller gives the bytes their real type.
    Ok(match field {
        "float_data" => Tensor::vector(proto.float_data).bytes().clone(),
        "double_data" => Tensor::vector(proto.double_data).bytes().clone(),
        "int64_data" => Tensor::vector(proto.int64_data).bytes().clone(),
        "uint64_data" if dtype == DataType::Uint64 => {
            Tensor::vector(proto.uint64_data).bytes().clone()
        }
        "uint64_data" => narrow(dtype, 32, proto.uint64_data.iter().map(|v| i128::from(*v)))?,
        _ if dtype == DataType::Int32 => Tensor::vector(proto.int32_data).bytes().clone(),
        // Elements of less than a byte arrive packed, one byte per number.
        _ => narrow(dtype, dtype.bits().max(8), proto.int32_data.iter().map(|v| i128::from(*v)))?,
    })
}

/// Numbers cut to `bits` bits. Both signs are accepted: the field holds bit patterns.
fn narrow(
    dtype: DataType,
    bits: usize,
    numbers: impl ExactSizeIterator<Item = i128>,
) -> Result<Bytes, TensorFault> {
    let range = -(1i128 << (bits - 1))..1i128 << bits;
    let mut bytes = Vec::with_capacity(numbers.len() * bits / 8);
    for (i, number) in numbers.enumerate() {
        if !range.contains(&number) {
            let text = format!("element {i} is {number}, which does not fit {dtype}");
            return Err(invalid(text));
        }
        bytes.extend_from_slice(&number.to_le_bytes()[..bits / 8]);
    }
    Ok(Bytes::from(bytes))
}

/// Checks the coordinate form: int64, within the sizes, ascending.
fn check_sparse(sparse: &SparseTensor) -> Result<(), String> {
    let SparseTensor { values, indices, dims } = sparse;
    let size = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let size = size.and_then(|n| i64::try_from(n).ok()).ok_or("the tensor's size overflows")?;
    let Some(numbers) = indices.as_slice::<i64>() else {
        return Err(format!("indices must be int64, not {}", indices.dtype()));
    };
    let count = values.len();
    let linear: Vec<Option<i64>> = match *indices.dims() {
        [n] if n == count && values.rank() == 1 => {
            numbers.iter().map(|i| (0..size).contains(i).then_some(*i)).collect()
        }
        [n, rank] if n == count && rank == dims.len() && rank > 0 && values.rank() == 1 => {
            numbers.chunks_exact(rank).map(|at| linear_index(at, dims)).collect()
        }
        _ => {
            let (v, i) = (values.dims(), indices.dims());
            return Err(format!("indices of shape {i:?} do not fit values of shape {v:?}"));
        }
    };
    for (n, at) in linear.iter().enumerate() {
        if at.is_none() {
            return Err(format!("index {n} lies outside {dims:?}"));
        }
        if n > 0 && linear[n - 1] >= *at {
            return Err(format!("index {n} is not greater than the one before"));
        }
    }
    Ok(())
}

fn linear_index(at: &[i64], dims: &[usize]) -> Option<i64> {
    at.iter().zip(dims).try_fold(0i64, |linear, (i, size)| {
        let size = i64::try_from(*size).ok()?;
        (0..size).contains(i).then(|| linear * size + i)
    })
}
