//! N2D2's binary state (`.syn`): a run of tensors, dimensions with the fastest axis first.
//!
//! Each tensor is a count of dimensions, the sizes, a count of elements (all u64) and the
//! elements as f32, little-endian throughout. The layout options of text files do not apply.

use super::{At, Kernels, Layout, Normalization, Parameters};
use crate::diag::{Code, Diagnostic};

/// Most dimensions of a tensor.
const DIMS_MAX: u64 = 8;

struct Tensor {
    /// Slowest axis first, as in ONNX.
    dims: Vec<u64>,
    values: Vec<f32>,
}

pub(super) fn conv(
    at: &At,
    bytes: &[u8],
    kernels: Kernels,
    layout: &Layout,
) -> Result<Parameters, Diagnostic> {
    let mut tensors = Tensors { at, rest: bytes };
    let dims = kernels.dims();
    let mut weights = tensors.next(&dims)?.values;
    zero_unconnected(kernels, &mut weights);
    let bias = tensors.bias(kernels.map.outputs(), layout)?;
    Ok(Parameters { weights, dims, bias })
}

/// The state keeps whatever an unconnected kernel was initialized with.
fn zero_unconnected(kernels: Kernels, weights: &mut [f32]) {
    let Kernels { map, .. } = kernels;
    if kernels.groups != 1 || map.connections() == map.outputs() * map.channels() {
        return;
    }
    let area = kernels.area();
    for output in 0..map.outputs() {
        for channel in (0..map.channels()).filter(|channel| !map.connected(output, *channel)) {
            weights[kernels.position(output, channel) * area..][..area].fill(0.0);
        }
    }
}

pub(super) fn fc(
    at: &At,
    bytes: &[u8],
    [outputs, inputs]: [usize; 2],
    layout: &Layout,
) -> Result<Parameters, Diagnostic> {
    let mut tensors = Tensors { at, rest: bytes };
    let weights = tensors.next(&[outputs, inputs])?.values;
    let bias = tensors.bias(outputs, layout)?;
    Ok(Parameters { weights, dims: vec![outputs, inputs], bias })
}

pub(super) fn batch_norm(
    at: &At,
    bytes: &[u8],
    channels: usize,
) -> Result<Normalization, Diagnostic> {
    let mut tensors = Tensors { at, rest: bytes };
    let mut next = || Ok(tensors.next(&[channels])?.values);
    let (scale, bias, mean, variance) = (next()?, next()?, next()?, next()?);
    tensors.end()?;
    Ok(Normalization { scale, bias, mean, variance })
}

struct Tensors<'a> {
    at: &'a At<'a>,
    rest: &'a [u8],
}

impl Tensors<'_> {
    /// The next tensor, whose dimensions other than 1 must be those of `expected`.
    fn next(&mut self, expected: &[usize]) -> Result<Tensor, Diagnostic> {
        let tensor = self.tensor()?;
        let real = tensor.dims.iter().copied().filter(|d| *d != 1);
        let wanted = expected.iter().map(|d| *d as u64).filter(|d| *d != 1);
        if real.eq(wanted) {
            return Ok(tensor);
        }
        let message = format!("a tensor {expected:?} is expected, found {:?}", tensor.dims);
        Err(self.at.problem(Code::WeightsSize, message))
    }

    /// The biases, which end the file. A layer without them may have saved some nonetheless.
    fn bias(&mut self, outputs: usize, layout: &Layout) -> Result<Option<Vec<f32>>, Diagnostic> {
        if layout.bias {
            let bias = self.next(&[outputs])?.values;
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

    fn tensor(&mut self) -> Result<Tensor, Diagnostic> {
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
        if product != Some(count) {
            let message = format!("a tensor {dims:?} with {count} elements");
            return Err(self.at.problem(Code::WeightsSyntax, message));
        }
        let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(4));
        let elements = self.take(length)?;
        let values: Vec<f32> = elements
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        if let Some(bad) = values.iter().find(|v| !v.is_finite()) {
            let message = format!("an element is {bad}, not a finite number");
            return Err(self.at.problem(Code::WeightsSyntax, message));
        }
        Ok(Tensor { dims, values })
    }

    fn u64(&mut self) -> Result<u64, Diagnostic> {
        let mut number = [0; 8];
        number.copy_from_slice(self.take(Some(8))?);
        Ok(u64::from_le_bytes(number))
    }

    fn take(&mut self, length: Option<usize>) -> Result<&[u8], Diagnostic> {
        let split = length.and_then(|length| self.rest.split_at_checked(length));
        let Some((taken, rest)) = split else {
            return Err(self.at.problem(Code::SourceTruncated, "the file ends within a tensor"));
        };
        self.rest = rest;
        Ok(taken)
    }
}
