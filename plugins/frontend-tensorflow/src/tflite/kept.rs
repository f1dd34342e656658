//! What operators see of quantized tensors, as TFLite's kernels do: the integers that are stored, or the real numbers
//! that those stand for.

use super::model::{LiteOperator, Quantization, SubGraph, Tensor};
use super::operators::{self, Input, Many};
use super::options::ACTIVATION;
use super::quantized::{self, quantization_of};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::Value;

/// Operators whose kernels copy stored elements, however the result is quantized.
const MOVES: [&str; 13] = [
    "RESHAPE", "TRANSPOSE", "SQUEEZE", "SLICE", "STRIDED_SLICE", "GATHER", "GATHER_ND", "SPLIT",
    "SPLIT_V", "TILE", "BROADCAST_TO", "REVERSE_V2", "REVERSE_SEQUENCE",
];

/// Operators that move elements between tensors that are quantized alike. Others are rescaled.
const RESCALES: [&str; 4] = ["CONCATENATION", "PACK", "UNPACK", "EXPAND_DIMS"];

/// Operators that do not see whether their inputs are quantized.
const STORED: [&str; 5] = ["CAST", "BITCAST", "SHAPE", "RANK", "DENSIFY"];

/// Operators that choose between stored elements, also of tensors that are quantized in different ways.
const COPIES: [&str; 5] = ["SELECT", "SELECT_V2", "ONE_HOT", "MATRIX_SET_DIAG", "SPARSE_TO_DENSE"];

/// Operators whose kernels put zeros beside stored elements, whatever real number a zero stands for.
const FILLS: [&str; 2] = ["MATRIX_DIAG", "SCATTER_ND"];

/// Operators whose kernels round halves up, which are common between two pixels.
const ROUNDS_UP: [&str; 1] = ["RESIZE_BILINEAR"];

/// Operators that change between real numbers and integers of all sizes.
const CHANGES: [&str; 2] = ["QUANTIZE", "DEQUANTIZE"];

/// The inputs of LSTM layers that hold their states.
const RESULT_STATE: usize = 18;
const CELL_STATE: usize = 19;

/// What an operator sees of quantized tensors. It is decided once for each operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeenAs {
    /// The integers that are stored, which it moves.
    Integers,
    /// The same, of which it makes new elements.
    Copied,
    /// Real numbers.
    Reals,
    /// The same, of which halves of steps are rounded up.
    RoundedUp,
}

impl SeenAs {
    pub(super) fn of(graph: &SubGraph, called: &LiteOperator) -> SeenAs {
        let name = called.name();
        match keeps_integers(graph, called) {
            true if COPIES.contains(&name) || FILLS.contains(&name) => SeenAs::Copied,
            true => SeenAs::Integers,
            false if ROUNDS_UP.contains(&name) => SeenAs::RoundedUp,
            false => SeenAs::Reals,
        }
    }

    pub(super) fn is_stored(self) -> bool {
        matches!(self, SeenAs::Integers | SeenAs::Copied)
    }

    /// How a result of real numbers is quantized. Integers of 32 and 64 bits are numbers but for those that `QUANTIZE`
    /// makes.
    pub(super) fn written<'t>(
        self,
        called: &LiteOperator,
        tensor: &'t Tensor,
    ) -> Option<&'t Quantization> {
        let is_number = is_wide(tensor) && !CHANGES.contains(&called.name());
        quantization_of(tensor).filter(|_| !self.is_stored() && !is_number)
    }
}

/// Whether an operator computes on what is stored, quantized or not.
fn keeps_integers(graph: &SubGraph, called: &LiteOperator) -> bool {
    let name = called.name();
    if STORED.contains(&name) || FILLS.contains(&name) {
        return true;
    }
    let outs = || called.outputs.iter().map(|index| &graph.tensors[*index]);
    let Some(out) = outs().next() else { return false };
    let inputs = called.inputs.iter().enumerate().filter_map(|(at, index)| Some((at, (*index)?)));
    let quantized: Vec<&Tensor> = inputs
        .map(|(at, index)| (at, &graph.tensors[index]))
        .filter(|(at, tensor)| read(called, *at, tensor).is_some())
        .map(|(_, tensor)| tensor)
        .collect();
    let all = |same: fn(&Tensor, &Tensor) -> bool| {
        outs().chain(quantized.iter().copied()).all(|tensor| same(tensor, out))
    };
    let is_plain =
        |(option, value): &(&str, Value)| *option != ACTIVATION || *value == Value::from("NONE");
    if MOVES.contains(&name) {
        return all(|tensor, out| tensor.number == out.number);
    }
    match all(quantized::alike) {
        true => RESCALES.contains(&name) && called.options.iter().all(is_plain),
        false => COPIES.contains(&name),
    }
}

fn is_wide(tensor: &Tensor) -> bool {
    matches!(tensor.dtype(), Some(DataType::Int32 | DataType::Int64))
}

/// How the input at a place is quantized. Integers of 32 and 64 bits are so as biases; kernels read others as numbers.
pub(super) fn read<'t>(
    called: &LiteOperator,
    at: usize,
    tensor: &'t Tensor,
) -> Option<&'t Quantization> {
    let is_real = || CHANGES.contains(&called.name()) || is_bias(called, at);
    quantization_of(tensor).filter(|_| !is_wide(tensor) || is_real())
}

/// Whether an input is a bias. Layers that list their inputs have no other wide integers.
fn is_bias(called: &LiteOperator, at: usize) -> bool {
    let Some(operator) = operators::find(called.code, &called.custom) else { return false };
    let is_layer = operator.name.ends_with("LSTM") || operator.name.ends_with("RNN");
    match operator.inputs.get(at).or(operator.inputs.last()) {
        Some(Input { many: Many::Rest, .. }) => is_layer,
        Some(input) => input.name == "bias",
        None => false,
    }
}

/// How an LSTM layer on integers stores its result in each step: scale and zero point of what it computes, of its state
/// and of its result, then the largest number of its cell. Its kernel hands the integers on as they are, also where
/// these say different numbers. `None` for other layers.
pub(super) fn between_steps(graph: &SubGraph, called: &LiteOperator) -> Option<Vec<f64>> {
    let [_, _, _, _, hidden] = called.intermediates[..] else { return None };
    if !called.name().ends_with("LSTM") {
        return None;
    }
    let of = |index: Option<usize>, dtype: DataType| {
        let tensor = graph.tensors.get(index?)?;
        quantization_of(tensor).filter(|found| found.is_uniform() && tensor.dtype() == Some(dtype))
    };
    let input = |at: usize| called.inputs.get(at).copied().flatten();
    let result = called.outputs.first().copied();
    let all = [hidden, input(RESULT_STATE), result].map(|index| of(index, DataType::Int8));
    let mut stored = vec![];
    for found in all {
        stored.extend([f64::from(found?.scales[0]), found?.zeros[0] as f64]);
    }
    let cell = of(input(CELL_STATE), DataType::Int16)?;
    stored.push(cell.real(i16::MAX.into()));
    Some(stored)
}

#[cfg(test)]
mod tests;
