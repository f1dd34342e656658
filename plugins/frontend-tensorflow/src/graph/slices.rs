//! Variables that a checkpoint holds in parts (partitioned variables of TensorFlow 1).

use crate::wire::proto::TensorSliceProto;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse};
use onnxd_plugin_sdk::ir::{Tensor, element_count};

/// Where a part begins on each axis, and its size there.
pub(crate) type Extents = Vec<(usize, usize)>;

/// Parts of one variable.
pub(crate) const PARTS_MAX: usize = 10_000;

pub(crate) fn whole(dims: &[usize]) -> Extents {
    dims.iter().map(|size| (0, *size)).collect()
}

/// A part as `RestoreV2` names it: the sizes of all, then `start,length` or `-` for each axis (`4 6 0,2:-`).
pub(crate) fn parse(text: &str, dims: &[usize]) -> Option<Extents> {
    if text.is_empty() {
        return Some(whole(dims));
    }
    let mut words: Vec<&str> = text.split(' ').collect();
    let parts = words.pop()?;
    let sizes: Option<Vec<usize>> = words.iter().map(|word| word.parse().ok()).collect();
    let parts: Vec<&str> = if dims.is_empty() { vec![] } else { parts.split(':').collect() };
    if sizes.as_deref() != Some(dims) || parts.len() != dims.len() {
        return None;
    }
    let extent = |(part, size): (&str, &usize)| {
        let (start, length) = match part {
            "-" => (0, *size),
            _ => {
                let (start, length) = part.split_once(',')?;
                (start.parse().ok()?, length.parse().ok()?)
            }
        };
        within(start, length, *size)
    };
    parts.into_iter().zip(dims).map(extent).collect()
}

fn within(start: usize, length: usize, size: usize) -> Option<(usize, usize)> {
    start.checked_add(length).filter(|end| *end <= size).map(|_| (start, length))
}

/// A part as the index names it; an extent without length is the whole axis.
pub(crate) fn of_proto(part: &TensorSliceProto, dims: &[usize]) -> Option<Extents> {
    if part.extent.len() != dims.len() {
        return None;
    }
    let extents = part.extent.iter().zip(dims).map(|(extent, size)| match extent.length {
        None => Some((0, *size)),
        Some(length) => {
            within(usize::try_from(extent.start).ok()?, usize::try_from(length).ok()?, *size)
        }
    });
    extents.collect()
}

/// The key of a part in the index, in TensorFlow's ordered code.
pub(crate) fn key(name: &str, part: &TensorSliceProto) -> Vec<u8> {
    let mut key = vec![0];
    for byte in name.bytes() {
        match byte {
            0 => key.extend([0, 0xff]),
            0xff => key.extend([0xff, 0]),
            byte => key.push(byte),
        }
    }
    key.extend([0, 1]);
    let axes = (part.extent.len() as u64).to_be_bytes();
    let zeros = axes.iter().take_while(|byte| **byte == 0).count();
    key.push((axes.len() - zeros) as u8);
    key.extend(&axes[zeros..]);
    for extent in &part.extent {
        let (start, length) = extent.length.map_or((0, -1), |length| (extent.start, length));
        signed(&mut key, start);
        signed(&mut key, length);
    }
    key
}

/// A number whose first bits say how many bytes it has.
fn signed(key: &mut Vec<u8>, number: i64) {
    let magnitude = if number < 0 { !number } else { number };
    let bits = 64 - magnitude.leading_zeros() as usize;
    let length = bits / 7 + 1;
    let sign = if number < 0 { 0xff } else { 0 };
    let mut bytes = [sign; 10];
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    let begin = bytes.len() - length;
    // As many ones as there are bytes.
    let ones = u16::MAX << (16 - length);
    bytes[begin] ^= ones.to_be_bytes()[0];
    if let Some(second) = bytes.get_mut(begin + 1) {
        *second ^= ones.to_be_bytes()[1];
    }
    key.extend(&bytes[begin..]);
}

/// The part `wanted` of a tensor, of parts that hold it.
///
/// # Errors
/// `N0201` if they do not hold all of it.
pub(crate) fn joined(wanted: &Extents, parts: &[(Extents, Tensor)]) -> Result<Tensor> {
    let lacking = || {
        let message = "The checkpoint does not have all parts of a variable.";
        Diagnostic::new(Code::SourceSyntax, message)
    };
    if let Some((_, tensor)) = parts.iter().find(|(at, _)| at == wanted) {
        return Ok(tensor.clone());
    }
    let is_twice = |i: usize| parts[..i].iter().any(|(at, _)| overlap(at, &parts[i].0));
    refuse!((1..parts.len()).any(is_twice) =>
        Diagnostic::new(Code::SourceSyntax, "Parts of a variable in the checkpoint overlap."));
    let dtype = parts.first().ok_or_else(lacking)?.1.dtype();
    let dims: Vec<usize> = wanted.iter().map(|(_, length)| *length).collect();
    let element = dtype.bits() / 8;
    let held: usize = parts.iter().map(|(_, tensor)| tensor.byte_len()).sum();
    let size = element_count(&dims).and_then(|count| dtype.byte_len(count));
    let size = size.filter(|size| *size <= held).ok_or_else(lacking)?;
    let (mut bytes, mut copied) = (vec![0; size], 0);
    for (at, tensor) in parts {
        refuse!(tensor.dtype() != dtype => lacking());
        copied += copy(&mut bytes, wanted, &tensor.bytes(), at, element);
    }
    refuse!(copied != size => lacking());
    Tensor::new(dtype, dims, bytes.into()).map_err(|_| lacking())
}

fn overlap(one: &Extents, other: &Extents) -> bool {
    one.iter().zip(other).all(|((a, n), (b, m))| *a.max(b) < (a + n).min(b + m))
}

/// Copies what two parts of a tensor have in common, row by row; gives its size.
fn copy(to: &mut [u8], to_at: &Extents, from: &[u8], from_at: &Extents, element: usize) -> usize {
    let common: Option<Extents> = to_at
        .iter()
        .zip(from_at)
        .map(|((a, n), (b, m))| {
            let (start, end) = (*a.max(b), (a + n).min(b + m));
            (end > start).then(|| (start, end - start))
        })
        .collect();
    let Some(common) = common else { return 0 };
    let (row, outer) = match common.split_last() {
        Some(((_, length), outer)) => (length * element, outer),
        None => (element, &common[..]),
    };
    let rows: usize = outer.iter().map(|(_, length)| length).product();
    for row_number in 0..rows {
        // Coordinates of the row's first element.
        let mut rest = row_number;
        let mut place: Vec<usize> = common.iter().map(|(start, _)| *start).collect();
        for (axis, (start, length)) in outer.iter().enumerate().rev() {
            place[axis] = start + rest % length;
            rest /= length;
        }
        let offset = |at: &Extents| {
            let step =
                |sum, (x, (start, length)): (&usize, &(usize, usize))| sum * length + (x - start);
            place.iter().zip(at).fold(0, step) * element
        };
        let (a, b) = (offset(to_at), offset(from_at));
        to[a..a + row].copy_from_slice(&from[b..b + row]);
    }
    rows * row
}

#[cfg(test)]
mod tests;
