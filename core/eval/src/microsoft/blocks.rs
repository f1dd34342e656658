//! Weights of a few bits with a scale per block.

use super::first;
use crate::call::{KernelCall, integers, one};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::gemm::{ALIGNED, GemmSizes, Matrix, multiply_add};
use crate::num::slice;
use crate::parallel::for_each_chunk;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Tensor};
use std::ops::Range;

/// Rows of bytes as rows of `columns` numbers of `bits` bits, the lowest bits first.
fn unpacked(bytes: &[u8], rows: usize, columns: usize, bits: usize) -> Outcome<Vec<u8>> {
    let per_byte = 8 / bits;
    let width = columns.div_ceil(per_byte);
    refuse!(width.checked_mul(rows) != Some(bytes.len()) =>
        "{} bytes are not {rows} rows of {columns} numbers of {bits} bits", bytes.len());
    let mask = (1u16 << bits).wrapping_sub(1) as u8;
    let row = |row: usize| {
        (0..columns)
            .map(move |k| (row, k))
            .map(|(row, k)| (bytes[row * width + k / per_byte] >> (bits * (k % per_byte))) & mask)
    };
    Ok((0..rows).flat_map(row).collect())
}

/// 2, 4 (the default) or 8.
fn bits_of(call: &KernelCall) -> Outcome<usize> {
    match call.int("bits", 4)? {
        bits @ (2 | 4 | 8) => Ok(bits as usize),
        other => Err(Fault::invalid(format!("{other} bits are not defined"))),
    }
}

fn size_attr(call: &KernelCall, name: &str, default: i64) -> Outcome<usize> {
    let size = dims::size(call.int(name, default)?)?;
    let missing = || Fault::invalid(format!("attribute `{name}` must be positive"));
    (size > 0).then_some(size).ok_or_else(missing)
}

/// The zero point of every block of every row.
fn zero_points(call: &KernelCall, rows: usize, blocks: usize, bits: usize) -> Outcome<Vec<f32>> {
    let Some(zero) = call.opt(3) else {
        return Ok(vec![(1u32 << (bits - 1)) as f32; rows * blocks]);
    };
    if zero.dtype() == DataType::Uint8 {
        let packed = unpacked(&zero.bytes(), rows, blocks, bits)?;
        return Ok(packed.into_iter().map(f32::from).collect());
    }
    let zeros = slice::<f32>(zero)?.into_owned();
    let misfit = || Fault::invalid(format!("zero points {zero:?} do not fit {rows} rows"));
    (zeros.len() == rows * blocks).then_some(zeros).ok_or_else(misfit)
}

/// `A, B [N, blocks, bytes], scales [N, blocks], zero_points?, g_idx?, bias?`: `A * B'`, where the
/// weights are dequantized in `float` whatever `accuracy_level` allows.
pub(super) fn matmul_nbits(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b, scales) = (call.x(0)?, call.x(1)?, call.x(2)?);
    let (k, n) = (size_attr(call, "K", 0)?, size_attr(call, "N", 0)?);
    let (bits, block) = (bits_of(call)?, size_attr(call, "block_size", 0)?);
    refuse!(call.flag("weight_prepacked", false)? =>
        Fault::unsupported("prepacked weights have the layout of one device"));
    let blocks = k.div_ceil(block);
    let padded = blocks.checked_mul(block).filter(|p| *p <= k.saturating_add(block));
    let padded = padded.ok_or_else(|| Fault::memory("the size overflows"))?;
    // This bounds all sizes by what there is.
    let bytes = b.bytes();
    let needed = padded.checked_mul(bits).and_then(|row| row.div_ceil(8).checked_mul(n));
    refuse!(Some(bytes.len()) != needed => "{b:?} does not fit N = {n}, K = {k}");
    let scale = slice::<f32>(scales)?;
    refuse!(scale.len() != n * blocks || b.dtype() != DataType::Uint8 =>
        "{b:?} and {scales:?} do not fit N = {n}, K = {k}");
    let zeros = zero_points(call, n, blocks, bits)?;
    let groups: Vec<usize> = match call.opt(4) {
        None => (0..k).map(|k| k / block).collect(),
        Some(groups) => {
            integers(groups)?.into_iter().map(|g| dims::index(g, blocks)).collect::<Outcome<_>>()?
        }
    };
    refuse!(groups.len() < k => "g_idx has {} elements for K = {k}", groups.len());
    let wide = bytes.len() / n.max(1);
    let weights = |rows: Range<usize>| -> Outcome<Vec<f32>> {
        let bytes = &bytes[rows.start * wide..rows.end * wide];
        let quantized = unpacked(bytes, rows.len(), padded, bits)?;
        let mut weights = vec![0f32; rows.len() * k];
        for_each_chunk(&mut weights, k, &|i, weights| {
            let first = (rows.start + i) * blocks;
            let columns = quantized[i * padded..].iter().zip(&groups);
            for (w, (q, group)) in weights.iter_mut().zip(columns) {
                *w = (f32::from(*q) - zeros[first + group]) * scale[first + group];
            }
        });
        Ok(weights)
    };
    product(call, a, &weights, (k, n))
}

/// Bytes of weights that are made reals at a time.
const ROWS_BYTES: usize = 8 << 20;

/// `A * W' + bias` for weights `[n, k]`, which are given some rows at a time.
fn product(
    call: &KernelCall,
    a: &Tensor,
    weights: &dyn Fn(Range<usize>) -> Outcome<Vec<f32>>,
    (k, n): (usize, usize),
) -> Outcome<Vec<Tensor>> {
    let Some((last, outer)) = a.dims().split_last().filter(|(last, _)| **last == k) else {
        return Err(Fault::invalid(format!("{a:?} does not have K = {k} columns")));
    };
    let dims = [outer, &[n]].concat();
    let mut y = vec![0f32; call.room(DataType::Float, &dims)?];
    let m = y.len() / n.max(1);
    let values = slice::<f32>(a)?;
    let rows = (ROWS_BYTES / (4 * k.max(1))).max(1).next_multiple_of(ALIGNED);
    for first in (0..n).step_by(rows) {
        let some = first..n.min(first + rows);
        let (weights, n_some) = (weights(some.clone())?, some.len());
        let mut block = vec![0f32; m * n_some];
        let s = GemmSizes { m, k: *last, n: n_some };
        multiply_add(
            s,
            Matrix::new(&values, k),
            Matrix::transposed(&weights, k),
            &mut block,
            n_some,
        );
        for (y, block) in y.chunks_mut(n).zip(block.chunks(n_some)) {
            y[some.clone()].copy_from_slice(block);
        }
    }
    if let Some(bias) = call.opt(5) {
        refuse!(bias.dims() != [n] => "the bias {bias:?} does not fit N = {n}");
        let bias = slice::<f32>(bias)?;
        y.iter_mut().zip(bias.iter().cycle()).for_each(|(v, b)| *v += b);
    }
    one(Tensor::from_vec(dims, y))
}

/// Integers of a tensor; bytes hold several of them along the last axis, of which `columns` count.
fn spread(
    call: &KernelCall,
    x: &Tensor,
    bits: usize,
    columns: usize,
) -> Outcome<(Vec<usize>, Vec<i64>)> {
    let Some((last, outer)) = x.dims().split_last() else {
        return Err(Fault::invalid("a scalar is not quantized in blocks"));
    };
    if x.dtype() != DataType::Uint8 {
        call.room(DataType::Int64, x.dims())?;
        return Ok((x.dims().to_vec(), integers(x)?));
    }
    let columns = if columns == 0 { last * (8 / bits) } else { columns };
    let dims = [outer, &[columns]].concat();
    call.room(DataType::Int64, &dims)?;
    let rows = if *last == 0 { 0 } else { x.len() / last };
    Ok((dims, unpacked(&x.bytes(), rows, columns, bits)?.into_iter().map(i64::from).collect()))
}

/// `(data - zero) * scale` with one scale per block along `axis`.
fn dequantized(
    call: &KernelCall,
    data: &Tensor,
    scales: &Tensor,
    zeros: Option<&Tensor>,
    axis: usize,
) -> Outcome<Tensor> {
    let (bits, block) = (bits_of(call)?, size_attr(call, "block_size", 128)?);
    let (dims, values) = spread(call, data, bits, 0)?;
    let (_, size, inner) = dims::around(&dims, axis);
    let blocks = size.div_ceil(block);
    let mut wanted = dims.clone();
    wanted[axis] = blocks;
    refuse!(scales.dims() != wanted => "scales {scales:?} do not fit {wanted:?}");
    let scale = slice::<f32>(scales)?;
    let zero = match zeros {
        Some(zeros) => spread(call, zeros, bits, wanted[wanted.len() - 1])?.1,
        None if data.dtype() == DataType::Uint8 => vec![1 << (bits - 1); scale.len()],
        None => vec![0; scale.len()],
    };
    refuse!(zero.len() != scale.len() => "zero points {zeros:?} do not fit {scales:?}");
    let real = |(i, q): (usize, i64)| {
        let (outer, k) = (i / inner / size, i / inner % size);
        let at = (outer * blocks + k / block) * inner + i % inner;
        (q - zero[at]) as f32 * scale[at]
    };
    Ok(Tensor::from_vec(dims, values.into_iter().enumerate().map(real).collect()))
}

/// `data, indices, scales, zero_points?`: rows of a table of weights, dequantized.
pub(super) fn gather_block_quantized(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (data, indices, scales) = (call.x(0)?, call.x(1)?, call.x(2)?);
    let axis = dims::axis(call.int("gather_axis", 0)?, data.rank())?;
    let along = dims::axis(call.int("quantize_axis", 1)?, data.rank())?;
    let packed = data.dtype() == DataType::Uint8 && bits_of(call)? < 8;
    refuse!(axis == along || (packed && along + 1 != data.rank()) =>
        "axis {axis} cannot be gathered from blocks along axis {along} of {data:?}");
    let attrs = [("axis", Attr::Int(axis as i64))];
    let picked = |x: &Tensor| first(call, "Gather", &attrs, &[Some(x), Some(indices)]);
    let zeros = call.opt(3).map(picked).transpose()?;
    let (data, scales) = (picked(data)?, picked(scales)?);
    let along = if along > axis { along + indices.rank() - 1 } else { along };
    one(dequantized(call, &data, &scales, zeros.as_ref(), along)?)
}
