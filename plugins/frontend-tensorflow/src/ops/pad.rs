//! Padding.

use super::create::scalar;
use super::shape::{DimSize, int64s, reshaped, shape_of, size, size_by};
use super::{Lower, RowContext, dtype_of, rank, size_of};
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Int16, Int32, Int64, Uint16};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Pad" => |b, input: Var, paddings: Var| padded(b, input, paddings, None);
        "PadV2" => |b, input: Var, paddings: Var, constant_values: Var| {
            padded(b, input, paddings, Some(constant_values))
        };
        "MirrorPad" => |b, input: Var, paddings: Var, mode: String| mirror(b, input, paddings, &mode);
    }
}

/// The numbers before and behind each axis, if they are known.
pub(crate) fn pairs(b: &GraphBuilder, paddings: Var) -> Option<Vec<[i64; 2]>> {
    let all = b.constant_of(paddings)?.to_i64s()?;
    Some(all.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
}

/// Pads as ONNX has them: those before all axes, then those behind.
pub(crate) fn onnx_pads(b: &GraphBuilder, paddings: Var) -> Lowered<Operand> {
    if let Some(pairs) = pairs(b, paddings) {
        let both =
            [0, 1].map(|side| pairs.iter().map(move |pair| pair[side]).collect::<Vec<i64>>());
        return Ok(both.concat().into());
    }
    let turned = b.transpose(paddings).perm(vec![1i64, 0]).one()?;
    int64s(b, &b.reshape(turned, [-1]).one()?.into())
}

fn padded(b: &Lower, x: Var, paddings: Var, value: Option<Var>) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    if b.rank_of(x) == Some(0) {
        return Ok(x);
    }
    // Runtimes pad few types.
    let computed = if matches!(dtype, Int16 | Uint16) { Int32 } else { dtype };
    let value = value.map(|value| b.cast(value, computed)).transpose()?;
    let y = b.pad(b.cast(x, computed)?, onnx_pads(b, paddings)?).constant_value(value).one()?;
    b.cast(y, dtype)
}

pub(crate) fn mirror(b: &GraphBuilder, input: Var, paddings: Var, mode: &str) -> Lowered<Var> {
    if mode == "REFLECT" {
        return b.pad(input, onnx_pads(b, paddings)?).mode("reflect").one();
    }
    let known = pairs(b, paddings);
    let mut x = input;
    for axis in 0..rank(b, x)? {
        match known.as_ref().map(|pairs| pairs.get(axis).copied().unwrap_or_default()) {
            Some([0, 0]) => {}
            Some([before, behind]) => x = mirrored(b, x, axis, [before.into(), behind.into()])?,
            None => {
                let pair = b.cast(b.gather(paddings, axis as i64).axis(0).one()?, Int64)?;
                let side = |i: i64| b.gather(pair, i).axis(0).one();
                x = mirrored(b, x, axis, [side(0)?.into(), side(1)?.into()])?;
            }
        }
    }
    Ok(x)
}

/// An axis mirrored at its ends, with the elements there: the places that are gathered run backwards beyond them.
pub(crate) fn mirrored(
    b: &GraphBuilder,
    x: Var,
    axis: usize,
    [before, behind]: [Operand; 2],
) -> Lowered<Var> {
    let at = axis as i64;
    let size = b.squeeze(b.shape(x).start(at).end(at + 1).one()?).axes([0]).one()?;
    let long = |x: Operand| match x {
        Operand::Int(x) => b.constant(scalar(x, Int64)),
        Operand::Var(v) => v,
        _ => b.constant(scalar(0, Int64)),
    };
    let places =
        b.range(b.neg(long(before))?, b.add(size, long(behind))?, scalar(1, Int64)).one()?;
    let places = b.where_(b.less(places, 0)?, b.sub(b.neg(places)?, 1)?, places)?;
    let turned = b.sub(b.sub(b.mul(size, 2)?, 1)?, places)?;
    let places = b.where_(b.less(places, size)?, places, turned)?;
    b.gather(x, places).axis(at).one()
}

/// `x` with `dilations[i] - 1` cells of `value` between the cells of axis `i`.
pub(crate) fn interior_padded(
    b: &GraphBuilder,
    x: Var,
    dilations: &[i64],
    value: Var,
) -> Lowered<Var> {
    let n = rank(b, x)?;
    let mut y = x;
    let dilations = for_each_axis(b, n, dilations.to_vec(), 1)?;
    if let Some(bad) = dilations.iter().find(|dilation| **dilation < 1) {
        let message = format!("Cells cannot be {bad} places apart.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    for (axis, dilation) in dilations.iter().enumerate() {
        let (at, more) = (axis as i64, dilation - 1);
        if more == 0 || size_of(b, y, axis) == Some(1) {
            continue;
        }
        let mut sizes = (0..n).map(|axis| size(b, y, axis)).collect::<Lowered<Vec<DimSize>>>()?;
        sizes[axis] = size_by(b, sizes[axis], *dilation, i64::saturating_mul, GraphBuilder::mul)?;
        let mut pads = vec![0; 2 * n + 2];
        pads[n + 1 + axis + 1] = more;
        let apart = b.pad(b.unsqueeze(y, [at + 1])?, pads).constant_value(value).one()?;
        let beside = reshaped(b, apart, &shape_of(b, &sizes)?)?;
        y = b.slice(beside, [0], [-more]).axes([at]).one()?;
    }
    Ok(y)
}

/// A number for each of `n` axes; an empty list means `default` for all.
///
/// # Errors
/// `N0204` for a list of another length.
pub(crate) fn for_each_axis(
    b: &GraphBuilder,
    n: usize,
    list: Vec<i64>,
    default: i64,
) -> Lowered<Vec<i64>> {
    match list.len() {
        0 => Ok(vec![default; n]),
        found if found == n => Ok(list),
        found => {
            let message = format!("There are {found} numbers for {n} axes.");
            Err(b.diagnostic(Code::LayerParameter, message))
        }
    }
}
