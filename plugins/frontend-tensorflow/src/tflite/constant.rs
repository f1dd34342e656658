//! What constants of a file hold. Bytes stay where they are; only sparse and packed ones are unfolded.

use super::model::{SparseAxis, Sparsity, Tensor as Declared};
use bytes::Bytes;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor, element_count};
use std::cell::Cell;

/// Bytes that sparse and packed constants may take once they are unfolded, all together.
pub(super) const UNFOLDED_BYTES_MAX: usize = 1 << 30;

/// Levels of a sparse constant: axes, and axes inside of blocks.
const LEVELS_MAX: usize = 64;

/// The tensor that a constant is. `room` counts the bytes that others may still take.
///
/// # Errors
/// `N0201` if its data do not fit its type and sizes, `N0203` for a type that ONNX does not have, `N0213` if it is too
/// large.
pub(crate) fn tensor(declared: &Declared, data: &Bytes, room: &Cell<usize>) -> Result<Tensor> {
    let about = |code, what: &str| {
        Diagnostic::new(code, format!("The constant `{}` {what}.", shown(&declared.name)))
    };
    let damaged = |what: &str| about(Code::SourceSyntax, what);
    let sizes = declared.dims.iter().map(|n| usize::try_from(*n));
    let dims = sizes.collect::<std::result::Result<Vec<usize>, _>>();
    let dims = dims.map_err(|_| damaged("has an axis of negative size"))?;
    let dtype = declared.dtype();
    let dtype = dtype
        .ok_or_else(|| about(Code::LayerUnsupported, "is of a type that ONNX does not have"))?;
    let count = element_count(&dims).ok_or_else(|| damaged("has a size that overflows"))?;
    let unfolded = |bytes: Option<usize>| {
        let left = bytes.and_then(|bytes| room.get().checked_sub(bytes));
        room.set(left.ok_or_else(|| about(Code::SourceLimit, "is too large to be unfolded"))?);
        Ok(())
    };
    let fitting = |tensor: std::result::Result<Tensor, _>| {
        tensor.map_err(|_| damaged("has data that do not fit its type and sizes"))
    };
    if let Some(sparsity) = &declared.sparsity {
        unfolded(dtype.byte_len(count))?;
        let wrong = || damaged("is not stored as sparse constants are");
        let dense = dense(sparsity, &dims, dtype, data).ok_or_else(wrong)?;
        return fitting(Tensor::new(dtype, dims, dense.into()));
    }
    match dtype {
        DataType::Int4 | DataType::Uint4 | DataType::Int2 | DataType::Uint2 => {
            unfolded(Some(count))?;
            let (bytes, to) = unpacked(data, count, dtype);
            fitting(Tensor::new(to, dims, bytes.into()))
        }
        DataType::String => {
            let strings = strings(data).ok_or_else(|| damaged("has damaged texts"))?;
            fitting(Tensor::strings(dims, strings))
        }
        _ => fitting(Tensor::new(dtype, dims, data.clone())),
    }
}

/// Numbers of 2 or 4 bits as bytes; the first one is in the lowest bits.
fn unpacked(data: &Bytes, count: usize, dtype: DataType) -> (Vec<u8>, DataType) {
    let bits = dtype.bits();
    let signed = matches!(dtype, DataType::Int4 | DataType::Int2);
    let number = |at: usize| {
        let byte = data.get(at * bits / 8).copied();
        let high = byte.map(|byte| byte >> (at * bits % 8) << (8 - bits));
        high.map(|x| if signed { (x as i8 >> (8 - bits)) as u8 } else { x >> (8 - bits) })
    };
    let to = if signed { DataType::Int8 } else { DataType::Uint8 };
    ((0..count).map_while(number).collect(), to)
}

/// Texts: how many, where each begins and the last one ends, then their bytes.
fn strings(data: &Bytes) -> Option<Vec<Bytes>> {
    let number = |at: usize| {
        let bytes = data.get(4 * at..4 * at + 4)?;
        usize::try_from(i32::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let count = number(0)?;
    if count > data.len() / 4 {
        return None;
    }
    let text = |at: usize| {
        let range = number(at)?..number(at + 1)?;
        data.get(range.clone()).map(|_| data.slice(range))
    };
    (1..=count).map(text).collect()
}

/// How one level of a sparse constant is walked through.
struct SparseLevel<'s> {
    axis: &'s SparseAxis,
    /// Elements of the dense constant from one index of the level to the next.
    stride: usize,
    /// Indices of the level.
    size: usize,
}

/// The bytes of a sparse constant with all its zeros; `None` if it contradicts itself. Axes are walked through in the
/// order that it names; those behind the tensor's own are positions in blocks.
fn dense(sparsity: &Sparsity, dims: &[usize], dtype: DataType, data: &[u8]) -> Option<Vec<u8>> {
    let width = dtype.byte_len(1).filter(|_| dtype.bits() >= 8)?;
    let order: Vec<usize> =
        sparsity.order.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<_>>()?;
    let blocks: Vec<usize> =
        sparsity.blocks.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<_>>()?;
    let levels = dims.len() + blocks.len();
    if element_count(dims)? == 0 {
        return Some(vec![]);
    }
    let mut named = order.clone();
    named.sort_unstable();
    if !named.into_iter().eq(0..levels) || sparsity.axes.len() != levels || levels > LEVELS_MAX {
        return None;
    }
    let mut sizes = dims.to_vec();
    let mut strides: Vec<usize> =
        onnxd_plugin_sdk::ir::row_major(dims).into_iter().map(isize::unsigned_abs).collect();
    for (at, axis) in blocks.iter().enumerate() {
        let level = order.iter().position(|n| *n == dims.len() + at)?;
        let SparseAxis::Dense(block) = &sparsity.axes[level] else { return None };
        let (block, axis) = (*block, *axis);
        if axis >= dims.len() || block == 0 || !sizes[axis].is_multiple_of(block) {
            return None;
        }
        sizes.push(block);
        strides.push(strides[axis]);
        sizes[axis] /= block;
        strides[axis] *= block;
    }
    let walk: Vec<SparseLevel<'_>> = order
        .iter()
        .zip(&sparsity.axes)
        .map(|(axis_at, axis)| SparseLevel {
            axis,
            stride: strides[*axis_at],
            size: sizes[*axis_at],
        })
        .collect();
    let mut filled = vec![0; dtype.byte_len(element_count(dims)?)?];
    let mut values = data.chunks_exact(width);
    fill(&walk, 0, 0, &mut |place| {
        let value = values.next()?;
        filled.get_mut(place * width..(place + 1) * width)?.copy_from_slice(value);
        Some(())
    })?;
    values.next().is_none().then_some(filled)
}

/// Hands on the places of all stored elements, in the order in which they are stored. `position` counts the index
/// tuples of the levels before.
fn fill(
    levels: &[SparseLevel<'_>],
    position: usize,
    place: usize,
    each: &mut impl FnMut(usize) -> Option<()>,
) -> Option<()> {
    let Some((level, inner)) = levels.split_first() else { return each(place) };
    match level.axis {
        SparseAxis::Dense(size) => {
            if *size != level.size {
                return None;
            }
            for index in 0..*size {
                let position = position.checked_mul(*size)?.checked_add(index)?;
                fill(inner, position, place + index * level.stride, each)?;
            }
        }
        SparseAxis::Compressed { segments, indices } => {
            let (from, to) = (*segments.get(position)?, *segments.get(position + 1)?);
            // More indices than the level has would name one twice, and each of them the levels inside.
            if to.checked_sub(from)? > level.size || to > indices.len() {
                return None;
            }
            for at in from..to {
                let index = *indices.get(at).filter(|index| **index < level.size)?;
                fill(inner, at, place + index * level.stride, each)?;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests;
