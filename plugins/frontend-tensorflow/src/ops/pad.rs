//! Padding.

use super::create::scalar;
use super::shape::int64s;
use super::{Lower, Source, of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{Int16, Int32, Int64, Uint16};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "Pad" => |b, a: Pad| padded(b, a.input, a.paddings, None);
        "PadV2" => |b, a: Filled| padded(b, a.input, a.paddings, Some(a.constant_values));
        "MirrorPad" => |b, a: Mirror| mirror(b, a.input, a.paddings, &a.mode);
    }
}

arguments! {
    /// `Pad(input, paddings; T: type, Tpaddings: type = int32) -> output`
    struct Pad { input: Var, paddings: Var }
    /// `PadV2(input, paddings, constant_values; T: type, Tpaddings: type = int32) -> output`
    struct Filled { input: Var, paddings: Var, constant_values: Var }
    /// `MirrorPad(input, paddings; T: type, Tpaddings: type = int32, mode: string) -> output`
    struct Mirror { input: Var, paddings: Var, mode: String }
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
    let dtype = of(b, x)?;
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
