//! Space, depth and batch.

use super::layout::Channels;
use super::pad::pairs;
use super::shape::{DimSize, shape_of, size, size_by, transposed};
use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{
    Bool, Double, Float, Int16, Int32, Int64, Uint8, Uint16, Uint32,
};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "SpaceToDepth" => |b, input: Var, block_size: i64, data_format: String| {
            let channels = Channels::from_format(b, &data_format)?;
            moved(b, input, |x| {
                let y = b.space_to_depth(channels.first(b, x)?).blocksize(block_size).one()?;
                channels.back(b, y)
            })
        };
        "DepthToSpace" => |b, input: Var, block_size: i64, data_format: String| {
            let channels = Channels::from_format(b, &data_format)?;
            moved(b, input, |x| {
                let y = b.depth_to_space(channels.first(b, x)?).blocksize(block_size).one()?;
                channels.back(b, y)
            })
        };
        "SpaceToBatchND" => |b, input: Var, block_shape: Vec<i64>, paddings: Var| {
            to_batch(b, input, &block_shape, paddings)
        };
        "SpaceToBatch" => |b, input: Var, paddings: Var, block_size: i64| {
            to_batch(b, input, &[block_size; 2], paddings)
        };
        "BatchToSpaceND" => |b, input: Var, block_shape: Vec<i64>, crops: Var| to_space(b, input, &block_shape, crops);
        "BatchToSpace" => |b, input: Var, crops: Var, block_size: i64| to_space(b, input, &[block_size; 2], crops);
    }
}

/// What `f` makes of `x`, which runtimes move in few types. Each holds all numbers of the type it stands for.
fn moved(b: &GraphBuilder, x: Var, f: impl FnOnce(Var) -> Lowered<Var>) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let computed = match dtype {
        Bool => Uint8,
        Int16 | Uint16 => Float,
        Int32 | Uint32 => Double,
        other => other,
    };
    b.cast(f(b.cast(x, computed)?)?, dtype)
}

fn divided(b: &GraphBuilder, size: DimSize, by: i64) -> Lowered<DimSize> {
    size_by(b, size, by.max(1), |n, by| n / by, GraphBuilder::div)
}

fn times(b: &GraphBuilder, size: DimSize, by: i64) -> Lowered<DimSize> {
    size_by(b, size, by, i64::saturating_mul, GraphBuilder::mul)
}

/// Numbers for the axes behind the first, as pads for all axes of ONNX.
///
/// # Errors
/// `N0204` for negative ones, which TensorFlow refuses, too.
fn around(b: &GraphBuilder, x: Var, numbers: Var, blocks: usize) -> Lowered<Operand> {
    let n = rank(b, x)?;
    let Some(pairs) = pairs(b, numbers) else {
        let turned = b.transpose(b.cast(numbers, Int64)?).perm([1, 0]).one()?;
        let none = |axes: usize| b.constant(Tensor::from_vec(vec![2, axes], vec![0i64; 2 * axes]));
        let mut all = vec![none(1), turned];
        all.extend((n > blocks + 1).then(|| none(n - 1 - blocks)));
        return Ok(b.reshape(b.concat(all).axis(1).one()?, [-1]).one()?.into());
    };
    if pairs.iter().flatten().any(|n| *n < 0) {
        let message = "Numbers of cells around blocks must not be negative.";
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    let side = |at: usize| {
        let mut all = vec![0; n];
        pairs.iter().take(n - 1).enumerate().for_each(|(i, pair)| all[i + 1] = pair[at]);
        all
    };
    Ok([side(0), side(1)].concat().into())
}

/// Cells of a block; there must be a size for each of some axes behind the first.
///
/// # Errors
/// `N0204` for other blocks.
fn cells(b: &GraphBuilder, rank: usize, blocks: &[i64]) -> Lowered<i64> {
    let sound = blocks.len() < rank && blocks.iter().all(|block| *block > 0);
    let product = blocks.iter().try_fold(1i64, |n, block| n.checked_mul(*block));
    product.filter(|_| sound).ok_or_else(|| {
        let message = format!("Blocks of sizes {blocks:?} do not fit a tensor of {rank} axes.");
        b.diagnostic(Code::LayerParameter, message)
    })
}

/// Cells of a block become samples: the place within the block counts before the sample.
fn to_batch(b: &Lower, x: Var, blocks: &[i64], paddings: Var) -> Lowered<Var> {
    let (n, m) = (rank(b, x)?, blocks.len());
    let count = cells(b, n, blocks)?;
    let x = match pairs(b, paddings) {
        Some(pairs) if pairs.iter().flatten().all(|n| *n == 0) => x,
        _ => b.pad(x, around(b, x, paddings, m)?).one()?,
    };
    let sizes = (0..n).map(|axis| size(b, x, axis)).collect::<Lowered<Vec<_>>>()?;
    let (mut split, mut merged) = (vec![sizes[0]], vec![times(b, sizes[0], count)?]);
    for (size, block) in sizes[1..].iter().zip(blocks) {
        let outer = divided(b, *size, *block)?;
        split.extend([outer, DimSize::Known(*block)]);
        merged.push(outer);
    }
    split.extend(&sizes[m + 1..]);
    merged.extend(&sizes[m + 1..]);
    let x = b.reshape(x, shape_of(b, &split)?).one()?;
    b.reshape(transposed(b, x, &batch_first(m, n))?, shape_of(b, &merged)?).one()
}

/// How the axes of a tensor of rank `n` whose `m` axes behind the first are split into blocks and cells are turned, so
/// that cells come before samples.
fn batch_first(m: usize, n: usize) -> Vec<i64> {
    let (m, n) = (m as i64, n as i64);
    let cells = (0..m).map(|i| 2 + 2 * i);
    cells.chain([0]).chain((0..m).map(|i| 1 + 2 * i)).chain(2 * m + 1..m + n).collect()
}

/// Samples become cells of blocks again.
fn to_space(b: &Lower, x: Var, blocks: &[i64], crops: Var) -> Lowered<Var> {
    let (n, m) = (rank(b, x)?, blocks.len());
    let count = cells(b, n, blocks)?;
    let sizes = (0..n).map(|axis| size(b, x, axis)).collect::<Lowered<Vec<_>>>()?;
    let batch = divided(b, sizes[0], count)?;
    let mut split: Vec<DimSize> = blocks.iter().map(|n| DimSize::Known(*n)).collect();
    split.push(batch);
    split.extend(&sizes[1..]);
    let mut merged = vec![batch];
    for (size, block) in sizes[1..].iter().zip(blocks) {
        merged.push(times(b, *size, *block)?);
    }
    merged.extend(&sizes[m + 1..]);
    let m = m as i64;
    let mut perm = vec![m];
    (0..m).for_each(|i| perm.extend([m + 1 + i, i]));
    perm.extend(2 * m + 1..m + n as i64);
    let x = b.reshape(x, shape_of(b, &split)?).one()?;
    let x = b.reshape(transposed(b, x, &perm)?, shape_of(b, &merged)?).one()?;
    match pairs(b, crops) {
        Some(pairs) if pairs.iter().flatten().all(|n| *n == 0) => Ok(x),
        // What pads add, negative ones take away.
        _ => match around(b, x, crops, m as usize)? {
            Operand::Ints(crops) => b.pad(x, crops.iter().map(|n| -n).collect::<Vec<i64>>()).one(),
            Operand::Var(crops) => b.pad(x, b.neg(crops)?).one(),
            other => b.pad(x, other).one(),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::fixture::{graph, import, node, placeholder, shape};
    use crate::wire::proto::{Attr, NodeDef, TensorProto};

    const INT64: i32 = 9;

    fn integers(name: &str, sizes: &[i64], values: &[i64]) -> NodeDef {
        let (dtype, tensor_shape, int64_val) = (INT64, Some(shape(sizes)), values.to_vec());
        let value = TensorProto { dtype, tensor_shape, int64_val, ..TensorProto::default() };
        let node = node(name, "Const", &[]).attr("dtype", Attr::Type(dtype));
        node.attr("value", Attr::Tensor(value))
    }

    #[test]
    fn cells_are_not_cropped_backwards() {
        for (crop, is_sound) in [(1, true), (-1, false), (i64::MIN, false)] {
            let nodes = vec![
                placeholder("x", &[6, 7, 9, 1]),
                integers("blocks", &[2], &[2, 3]),
                integers("crops", &[2, 2], &[crop, 0, 0, 0]),
                node("y", "BatchToSpaceND", &["x", "blocks", "crops"]),
            ];
            assert_eq!(import(&graph(nodes, vec![])).is_ok(), is_sound, "{crop}");
        }
    }
}
