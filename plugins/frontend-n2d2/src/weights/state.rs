//! N2D2's binary state (`.syn`): a run of tensors, dimensions with the fastest axis first.
//!
//! Each tensor is a count of dimensions, the sizes, a count of elements (all u64) and the
//! elements as f32, little-endian throughout: as ONNX has them, so that a tensor of the model may lie
//! in the mapped file. The layout options of text files do not apply.

use onnxd_plugin_sdk::Room;
use onnxd_plugin_sdk::bytes::{Buf, Bytes};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

use super::{At, Kernels, Normalization, Parameters, WeightLayout};
use crate::diag::{Code, Diagnostic, refuse};

/// Most dimensions of a tensor.
const DIMS_MAX: u64 = 8;

struct StateTensor {
    /// Slowest axis first, as in ONNX.
    dims: Vec<u64>,
    values: Bytes,
}

pub(super) fn conv(
    at: &At,
    bytes: &Bytes,
    kernels: Kernels,
    layout: &WeightLayout,
    room: impl FnOnce() -> Result<Room, Diagnostic>,
) -> Result<Parameters, Diagnostic> {
    let mut tensors = Tensors { at, rest: bytes.clone() };
    let mut weights = tensors.next(&kernels.dims())?;
    if has_gaps(kernels) {
        let mut room = room()?;
        weights.copy_into(room.bytes_mut());
        zero_unconnected(kernels, room.elements_mut());
        weights = room.seal()?;
    }
    let bias = tensors.bias(kernels.map.outputs(), layout)?;
    Ok(Parameters { weights, bias })
}

fn has_gaps(kernels: Kernels) -> bool {
    let Kernels { map, .. } = kernels;
    kernels.groups == 1 && map.connections() != map.outputs() * map.channels()
}

/// The state keeps whatever an unconnected kernel was initialized with.
fn zero_unconnected(kernels: Kernels, weights: &mut [f32]) {
    let Kernels { map, .. } = kernels;
    let area = kernels.area();
    for output in 0..map.outputs() {
        for channel in (0..map.channels()).filter(|channel| !map.connected(output, *channel)) {
            weights[kernels.position(output, channel) * area..][..area].fill(0.0);
        }
    }
}

pub(super) fn fc(
    at: &At,
    bytes: &Bytes,
    [outputs, inputs]: [usize; 2],
    layout: &WeightLayout,
) -> Result<Parameters, Diagnostic> {
    let mut tensors = Tensors { at, rest: bytes.clone() };
    let weights = tensors.next(&[outputs, inputs])?;
    let bias = tensors.bias(outputs, layout)?;
    Ok(Parameters { weights, bias })
}

pub(super) fn batch_norm(
    at: &At,
    bytes: &Bytes,
    channels: usize,
) -> Result<Normalization, Diagnostic> {
    let mut tensors = Tensors { at, rest: bytes.clone() };
    let mut next = || Ok(numbers(&tensors.next(&[channels])?));
    let (scale, bias, mean, variance) = (next()?, next()?, next()?, next()?);
    tensors.end()?;
    Ok(Normalization { scale, bias, mean, variance })
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.as_slice().unwrap_or_default().into_owned()
}

struct Tensors<'a> {
    at: &'a At<'a>,
    rest: Bytes,
}

impl Tensors<'_> {
    /// The next tensor, whose dimensions other than 1 must be those of `expected`.
    fn next(&mut self, expected: &[usize]) -> Result<Tensor, Diagnostic> {
        let found = self.tensor()?;
        let real = found.dims.iter().copied().filter(|d| *d != 1);
        let wanted = expected.iter().map(|d| *d as u64).filter(|d| *d != 1);
        if real.eq(wanted) {
            let tensor = Tensor::new(DataType::Float, expected.to_vec(), found.values);
            return Ok(tensor.expect("sizes other than 1 are the same"));
        }
        let message = format!("a tensor {expected:?} is expected, found {:?}", found.dims);
        Err(self.at.problem(Code::WeightsSize, message))
    }

    /// The biases, which end the file. A layer without them may have saved some nonetheless.
    fn bias(
        &mut self,
        outputs: usize,
        layout: &WeightLayout,
    ) -> Result<Option<Vec<f32>>, Diagnostic> {
        if layout.bias {
            let bias = numbers(&self.next(&[outputs])?);
            self.end()?;
            return Ok(Some(bias));
        }
        if !self.rest.is_empty() {
            self.tensor()?;
        }
        self.end()?;
        Ok(None)
    }

    fn end(&self) -> Result<(), Diagnostic> {
        match self.rest.len() {
            0 => Ok(()),
            extra => {
                let message = format!("{extra} bytes follow the last tensor");
                Err(self.at.problem(Code::WeightsSize, message))
            }
        }
    }

    fn tensor(&mut self) -> Result<StateTensor, Diagnostic> {
        let rank = self.u64()?;
        if rank > DIMS_MAX {
            let message = format!("a tensor of {rank} dimensions, at most {DIMS_MAX} are known");
            let problem = self.at.problem(Code::WeightsSyntax, message);
            return Err(problem.help("The file is not a state of N2D2, or is damaged."));
        }
        let mut dims = (0..rank).map(|_| self.u64()).collect::<Result<Vec<_>, _>>()?;
        dims.reverse();
        let count = self.u64()?;
        let product = dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        refuse!(product != Some(count) =>
            self.at.problem(Code::WeightsSyntax, format!("a tensor {dims:?} with {count} elements")));
        let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(4));
        let values = self.take(length)?;
        let mut numbers =
            values.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        refuse!(let Some(bad) = numbers.find(|v| !v.is_finite()) =>
            self.at.problem(Code::WeightsSyntax, format!("an element is {bad}, not a finite number")));
        Ok(StateTensor { dims, values })
    }

    fn u64(&mut self) -> Result<u64, Diagnostic> {
        Ok(self.take(Some(8))?.get_u64_le())
    }

    fn take(&mut self, length: Option<usize>) -> Result<Bytes, Diagnostic> {
        match length.filter(|length| *length <= self.rest.len()) {
            Some(length) => Ok(self.rest.split_to(length)),
            None => Err(self.at.problem(Code::SourceTruncated, "the file ends within a tensor")),
        }
    }
}
