//! Rows of tables, and sums of them.

use super::dtype::{dtype_of, operand};
use super::indices::whole;
use super::scatter::scattered_nd;
use super::shape::{reshaped, unsupported};
use super::sizes::{self as of, known_size, rank, size};
use super::{Lower, RowContext, create};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::embedding" => |b, weight: Var, indices: Var, padding_idx: Value| {
            b.gather(weight, whole(b, indices)?).one()
        };
        "aten::embedding_bag" | "aten::_embedding_bag" | "aten::_embedding_bag_forward_only" => embedding_bag;
    }
}

arguments! {
    struct Bags {
        weight: Var, indices: Var, offsets: Var, mode: i64, per_sample_weights: Option<Var>,
        include_last_offset: bool, padding_idx: Option<i64>,
    }
}

const MEAN: i64 = 1;
const MAX: i64 = 2;

/// The sum, mean or maximum of the rows of each bag; then the bag of each index, the sizes of the bags, and their
/// starts.
fn embedding_bag(b: &Lower, a: Bags) -> Lowered<[Var; 4]> {
    let (indices, mut starts) = (whole(b, a.indices)?, whole(b, a.offsets)?);
    if rank(b, indices)? != 1 {
        return Err(unsupported(b, "embedding_bag needs a vector of indices."));
    }
    if a.include_last_offset {
        starts = b.slice(starts, [0], [-1]).axes([0]).one()?;
    }
    let mut table = b.gather(a.weight, indices).one()?;
    if let Some(weights) = a.per_sample_weights {
        table = b.mul(table, b.unsqueeze(weights, [1])?)?;
    }
    let padding = a.padding_idx.filter(|i| *i >= 0);
    if let (Some((bags, each)), None) = (even_bags(b, indices, starts), padding) {
        let width = size(b, a.weight, 1)?;
        let apart = reshaped(b, table, vec![bags.into(), each.into(), width.into()])?;
        let sum = match a.mode {
            MAX => b.reduce_max(apart).axes([1]).keepdims(0).one()?,
            MEAN => b.reduce_mean(apart).axes([1]).keepdims(0).one()?,
            _ => b.reduce_sum(apart).axes([1]).keepdims(0).one()?,
        };
        let of_index = of::ints(b, (0..bags * each).map(|i| i / each).collect());
        return Ok([sum, of_index, of::ints(b, vec![each; bags as usize]), starts]);
    }
    let kept = padding.map(|padding| b.not(b.equal(indices, padding)?)).transpose()?;
    bags_of(b, &a, table, (indices, starts), kept)
}

/// As [`embedding_bag`], for bags of any length. `kept` are the indices that count.
fn bags_of(
    b: &Lower,
    a: &Bags,
    table: Var,
    (indices, starts): (Var, Var),
    kept: Option<Var>,
) -> Lowered<[Var; 4]> {
    let dtype = dtype_of(b, table)?;
    // The bag of an index is the number of starts up to it, less one.
    let places = b.range(0, of::scalar(b, &size(b, indices, 0)?)?, 1).one()?;
    let begun = b.cast(b.not(b.less(b.unsqueeze(places, [1])?, starts)?)?, Int64)?;
    let of_index = b.sub(b.reduce_sum(begun).axes([1]).keepdims(0).one()?, 1i64)?;
    let at = b.unsqueeze(of_index, [1])?;
    let bags = size(b, starts, 0)?;
    let one = match kept {
        Some(kept) => b.cast(kept, Int64)?,
        None => create::filled(b, &[size(b, indices, 0)?], &Value::Int(1), Int64)?,
    };
    let none = create::filled(b, std::slice::from_ref(&bags), &Value::Int(0), Int64)?;
    let counts = scattered_nd(b, none, at, one, "add")?;
    let whole = [bags, size(b, a.weight, 1)?];
    let zero = operand(b, &Value::Int(0), dtype)?;
    let low = operand(b, &Value::Float(f64::NEG_INFINITY), dtype)?;
    let table = match kept {
        Some(kept) => {
            let other = if a.mode == MAX { low } else { zero };
            b.where_(b.unsqueeze(kept, [1])?, table, other)?
        }
        None => table,
    };
    let (start, reduction) = match a.mode {
        MAX => (Value::Float(f64::NEG_INFINITY), "max"),
        _ => (Value::Int(0), "add"),
    };
    let start = create::filled(b, &whole, &start, dtype)?;
    let sum = scattered_nd(b, start, at, table, reduction)?;
    let sum = match a.mode {
        MAX => b.where_(b.unsqueeze(b.equal(counts, 0i64)?, [1])?, zero, sum)?,
        MEAN => {
            let counts = b.max([counts, b.constant(Tensor::scalar(1i64))])?;
            b.div(sum, b.cast(b.unsqueeze(counts, [1])?, dtype)?)?
        }
        _ => sum,
    };
    Ok([sum, of_index, counts, starts])
}

/// Number and length of bags that are of one length.
fn even_bags(b: &Lower, indices: Var, starts: Var) -> Option<(i64, i64)> {
    let count = known_size(b, indices, 0)?;
    let starts = b.constant_of(starts)?.to_i64s()?;
    let bags = starts.len() as i64;
    if count > super::shape::INDICES_MAX {
        return None;
    }
    let each = count.checked_div(bags).filter(|each| *each > 0 && each * bags == count)?;
    starts.iter().enumerate().all(|(i, start)| *start == i as i64 * each).then_some((bags, each))
}
