//! Arithmetic on sizes and indices that several families share. All of it is checked: sizes come
//! from foreign files.

use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;

pub(crate) use onnxd_ir::element_count as count;

/// The axis that `axis` (negative counts from the end) names in a tensor of `rank` axes.
pub(crate) fn axis(axis: i64, rank: usize) -> Outcome<usize> {
    onnxd_ir::axis_at(axis, rank).ok_or_else(|| {
        Fault::invalid(format!("axis {axis} is outside of a tensor with {rank} axes"))
    })
}

/// All axes named, sorted; a duplicate is an error.
pub(crate) fn axes(list: &[i64], rank: usize) -> Outcome<Vec<usize>> {
    let mut found = list.iter().map(|a| axis(*a, rank)).collect::<Outcome<Vec<_>>>()?;
    found.sort_unstable();
    refuse!(found.windows(2).any(|w| w[0] == w[1]) => "axes {list:?} name an axis twice");
    Ok(found)
}

/// A size that must not be negative.
pub(crate) fn size(n: i64) -> Outcome<usize> {
    usize::try_from(n).map_err(|_| Fault::invalid(format!("{n} is not a size")))
}

/// Sizes that must not be negative.
pub(crate) fn sizes(list: &[i64]) -> Outcome<Vec<usize>> {
    list.iter().map(|n| size(*n)).collect()
}

/// An index into `n` elements, negative from the end.
pub(crate) fn index(i: i64, n: usize) -> Outcome<usize> {
    let at = if i < 0 { i.checked_add(n as i64) } else { Some(i) };
    match at {
        Some(at) if at >= 0 && (at as u64) < n as u64 => Ok(at as usize),
        _ => Err(Fault::invalid(format!("index {i} is outside of {n} elements"))),
    }
}

/// Row-major strides in elements.
pub(crate) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(dims[i]);
    }
    strides
}

/// Product of the sizes before `axis`, the size of `axis`, product of those behind it.
pub(crate) fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
}

/// The common shape under ONNX's multidirectional broadcasting.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Outcome<Vec<usize>> {
    let unlike = || Fault::invalid(format!("shapes {a:?} and {b:?} do not broadcast"));
    onnxd_ir::broadcast(a, b).ok_or_else(unlike)
}

/// Strides that read a tensor of sizes `from` as if it had the broadcast sizes `to`.
pub(crate) fn broadcast_strides(from: &[usize], to: &[usize]) -> Vec<usize> {
    let own = strides(from);
    let missing = to.len() - from.len();
    let behind = from.iter().zip(own).map(|(d, s)| if *d == 1 { 0 } else { s });
    std::iter::repeat_n(0, missing).chain(behind).collect()
}

/// Calls `f` with the coordinates of every element, in row-major order.
pub(crate) fn for_each_index(dims: &[usize], mut f: impl FnMut(&[usize])) {
    walk(dims, &mut f);
}

/// Compiled once: there are hundreds of different `f`.
fn walk(dims: &[usize], f: &mut dyn FnMut(&[usize])) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    loop {
        f(&index);
        let mut axis = dims.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!(axis(-1, 3).unwrap(), 2);
        assert!(axis(3, 3).is_err() && axis(-4, 3).is_err() && axis(i64::MIN, 3).is_err());
        assert_eq!(axes(&[-1, 0], 3).unwrap(), [0, 2]);
        assert!(axes(&[2, -1], 3).is_err());
    }

    #[test]
    fn broadcasting() {
        assert_eq!(broadcast(&[2, 1], &[3]).unwrap(), [2, 3]);
        assert_eq!(broadcast(&[0], &[1]).unwrap(), [0]);
        assert!(broadcast(&[2], &[3]).is_err());
        assert_eq!(broadcast_strides(&[3, 1], &[2, 3, 4]), [0, 1, 0]);
    }

    #[test]
    fn hostile_sizes() {
        assert_eq!(count(&[usize::MAX, 2]), None);
        assert_eq!(count(&[usize::MAX, 0, 2]), None);
        assert!(sizes(&[1, -1]).is_err());
    }

    #[test]
    fn indices_in_order() {
        let mut seen = Vec::new();
        for_each_index(&[2, 2], |i| seen.push(i.to_vec()));
        assert_eq!(seen, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        for_each_index(&[], |i| seen.push(i.to_vec()));
        assert_eq!(seen.len(), 5);
    }
}
