//! The bits of integers.

use super::operands::Two;
use super::{Lower, RowContext, dtype_of};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::arithmetic::floor_quotient;
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Int64, Uint8, Uint16, Uint32, Uint64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "BitwiseAnd" => |b, a: Two| combined(b, a, GraphBuilder::bitwise_and);
        "BitwiseOr" => |b, a: Two| combined(b, a, GraphBuilder::bitwise_or);
        "BitwiseXor" => |b, a: Two| combined(b, a, GraphBuilder::bitwise_xor);
        "Invert" => |b, x: Var| inverted(b, x);
        "LeftShift" => |b, a: Two| shifted(b, a, true);
        "RightShift" => |b, a: Two| shifted(b, a, false);
        "PopulationCount" => |b, x: Var| population(b, x);
        "Bitcast" => |b, input: Var, type_: ElementType| bits_as(b, input, type_.0);
    }
}

pub(crate) fn combined(
    b: &Lower,
    a: Two,
    f: fn(&GraphBuilder, Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    if b.opset() < 18 {
        let message = "The bits of two integers are combined from opset 18 on.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    f(b, a.x, a.y)
}

fn is_signed(dtype: DataType) -> bool {
    !matches!(dtype, Uint8 | Uint16 | Uint32 | Uint64)
}

pub(crate) fn inverted(b: &Lower, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)? {
        _ if b.opset() >= 18 => b.bitwise_not(x),
        d if is_signed(d) => b.sub(-1, x),
        Uint64 => b.cast(b.sub(-1, b.cast(x, Int64)?)?, Uint64),
        d => b.cast(b.sub((1i64 << d.bits()) - 1, b.cast(x, Int64)?)?, d),
    }
}

/// A shift by fewer bits than there are: numbers below or beyond mean the least or the most.
pub(crate) fn shifted(b: &Lower, a: Two, left: bool) -> Lowered<Var> {
    let dtype = dtype_of(b, a.x)?;
    let most = dtype.bits() as i64 - 1;
    if !is_signed(dtype) {
        // Runtimes shift few types; bits that leave the type must be gone.
        let wide = if dtype == Uint16 { Uint32 } else { dtype };
        let count = b.min([Operand::Var(b.cast(a.y, wide)?), most.into()])?;
        let y = b.bit_shift(b.cast(a.x, wide)?, count);
        return b.cast(y.direction(if left { "LEFT" } else { "RIGHT" }).one()?, dtype);
    }
    let count = b.clip(b.cast(a.y, Int64)?).min(0).max(most).one()?;
    let power = |count: Var| {
        let powers: Vec<i64> = (0..=most.min(62)).map(|i| 1 << i).collect();
        b.gather(b.constant(Tensor::vector(powers)), count).one()
    };
    // In two steps, as the largest power of two is no number of the type.
    let half = b.div(count, 2)?;
    let [first, second] = [power(half)?, power(b.sub(count, half)?)?];
    let x = b.cast(a.x, Int64)?;
    let step = |x: Var, by: Var| if left { b.mul(x, by) } else { floor_quotient(b, x, by) };
    b.cast(step(step(x, first)?, second)?, dtype)
}

/// How many bits are set: the sign, and what is odd after shifts.
fn population(b: &Lower, x: Var) -> Lowered<Var> {
    let bits = dtype_of(b, x)?.bits() as i64;
    let x = b.unsqueeze(b.cast(x, Int64)?, [-1])?;
    let powers: Vec<i64> = (0..bits.min(63)).map(|i| 1 << i).collect();
    let parts = floor_quotient(b, x, b.constant(Tensor::vector(powers)))?;
    let odd = b.mod_(parts, 2).one()?;
    // The highest bit of a wide number is its sign.
    let all = match bits {
        64 => b.concat([odd, b.cast(b.less(x, 0)?, Int64)?]).axis(-1).one()?,
        _ => odd,
    };
    b.cast(b.reduce_sum(all).axes([-1]).keepdims(0).one()?, Uint8)
}

/// Bits as elements of another type of as many bits.
pub(crate) fn bits_as(b: &Lower, x: Var, to: DataType) -> Lowered<Var> {
    let from = dtype_of(b, x)?;
    let same = from.bits() == to.bits() && from != Bool && to != Bool;
    match same {
        _ if from == to => Ok(x),
        // A conversion between integers keeps their bits.
        true if from.is_integer() && to.is_integer() => b.cast(x, to),
        true if b.opset() >= 26 => b.bit_cast(x).to(to).one(),
        _ => {
            let (from, to) = (from.word(), to.word());
            let message = format!("ONNX cannot say the bits of {from} as {to} here.");
            Err(b.diagnostic(Code::LayerUnsupported, message))
        }
    }
}
