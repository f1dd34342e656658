//! How far two tensors are apart, in the measures reports use.

use crate::fault::Fault;
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Reals, Tensor};

/// Differences of a tensor from its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Largest absolute difference; infinite where only one side is not finite.
    pub max_abs: f64,
    /// Mean absolute difference.
    pub mean_abs: f64,
    /// Cosine of the angle between both, 1 for equal directions.
    pub cosine: f64,
    /// Power of the reference over power of the difference, in dB; infinite for equal tensors.
    pub sqnr_db: f64,
    /// Whether both are equal element by element (NaN equals NaN).
    pub equal: bool,
}

/// Why two tensors cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incomparable(pub String);

impl std::fmt::Display for Incomparable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Incomparable {}

fn both(found: &Tensor, reference: &Tensor) -> Result<(Reals, Reals), Incomparable> {
    refuse!(long(found) != long(reference) =>
        Incomparable(format!("shape {:?}, expected {:?}", found.dims(), reference.dims())));
    if let (Some(a), Some(b)) = (found.as_strings(), reference.as_strings()) {
        return Ok(equality(found.dims(), a, b));
    }
    let reals = |x: &Tensor| {
        let wide = crate::shape::cast(x, DataType::Double).map_err(|f| match f {
            Fault::Here(_, text) => Incomparable(text),
            Fault::Nested(d) => Incomparable(d.into_finding().message),
        })?;
        wide.to_reals().ok_or_else(|| Incomparable(format!("{x:?} holds no numbers")))
    };
    Ok((reals(found)?, reals(reference)?))
}

/// Sizes of the axes that are longer than 1.
fn long(x: &Tensor) -> Vec<usize> {
    x.dims().iter().copied().filter(|n| *n != 1).collect()
}

/// What was passed over when two tensors of unequal shapes were compared.
pub fn passed_over(found: &Tensor, reference: &Tensor) -> Option<String> {
    let (a, b) = (found.dims(), reference.dims());
    let differ = a != b && long(found) == long(reference);
    differ.then(|| format!("shape {a:?} was compared with {b:?}, axes of size 1 aside"))
}

/// Strings as numbers: all of the reference are 1, those that differ from it 0.
fn equality(dims: &[usize], found: &[Bytes], reference: &[Bytes]) -> (Reals, Reals) {
    let same = found.iter().zip(reference).map(|(a, b)| f64::from(u8::from(a == b)));
    let reals = |values: Vec<f64>| Reals { values, dims: dims.to_vec() };
    (reals(same.collect()), reals(vec![1.0; reference.len()]))
}

/// The difference of two elements: zero if both are NaN or the same infinity.
fn gap(a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        0.0
    } else if a.is_finite() && b.is_finite() {
        (a - b).abs()
    } else {
        f64::INFINITY
    }
}

/// Compares `found` with `reference`, which may differ in element type and in axes of size 1. Strings
/// that differ have a difference of 1.
pub fn compare(found: &Tensor, reference: &Tensor) -> Result<Comparison, Incomparable> {
    let (a, b) = both(found, reference)?;
    let pairs = || a.values.iter().copied().zip(b.values.iter().copied());
    let count = a.values.len().max(1) as f64;
    let max_abs = pairs().map(|(a, b)| gap(a, b)).fold(0.0, f64::max);
    let mean_abs = pairs().map(|(a, b)| gap(a, b)).sum::<f64>() / count;
    let (aa, bb, ab) =
        pairs().fold((0.0, 0.0, 0.0), |(aa, bb, ab), (a, b)| (aa + a * a, bb + b * b, ab + a * b));
    let noise: f64 = pairs().map(|(a, b)| gap(a, b)).map(|d| d * d).sum();
    let cosine = match (aa == 0.0, bb == 0.0) {
        (true, true) => 1.0,
        (false, false) => ab / (aa.sqrt() * bb.sqrt()),
        _ => 0.0,
    };
    let sqnr_db = if noise == 0.0 { f64::INFINITY } else { 10.0 * (bb / noise).log10() };
    // Wide integers may differ by less than `f64` can tell.
    let exact = !found.dtype().is_integer() || !reference.dtype().is_integer();
    let equal = max_abs == 0.0 && (exact || found.to_i64s() == reference.to_i64s());
    Ok(Comparison { max_abs, mean_abs, cosine, sqnr_db, equal })
}

/// Whether `|found - reference| <= atol + rtol * |reference|` for every element.
pub fn within(
    found: &Tensor,
    reference: &Tensor,
    atol: f64,
    rtol: f64,
) -> Result<bool, Incomparable> {
    let (a, b) = both(found, reference)?;
    let near = |(a, b): (&f64, &f64)| {
        let gap = gap(*a, *b);
        gap == 0.0 || (gap.is_finite() && gap <= atol + rtol * b.abs())
    };
    let texts = found.as_strings().is_some();
    Ok(a.values.iter().zip(&b.values).all(|(a, b)| if texts { a == b } else { near((a, b)) }))
}

/// Share of rows (along the last axis) whose largest element stands at the same place; `None`
/// without rows.
pub fn top1_agreement(found: &Tensor, reference: &Tensor) -> Result<Option<f64>, Incomparable> {
    let (a, b) = both(found, reference)?;
    let width = a.dims.last().copied().unwrap_or(1);
    if a.values.is_empty() {
        return Ok(None);
    }
    let top =
        |row: &[f64]| (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
    let rows = a.values.chunks(width).zip(b.values.chunks(width));
    let same = rows.clone().filter(|(a, b)| top(a) == top(b)).count();
    Ok(Some(same as f64 / rows.count() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures() {
        let reference = Tensor::vector(vec![3f32, 4.0]);
        let found = Tensor::vector(vec![3f32, 3.5]);
        let c = compare(&found, &reference).unwrap();
        assert_eq!((c.max_abs, c.mean_abs, c.equal), (0.5, 0.25, false));
        assert!((c.sqnr_db - 20.0).abs() < 1e-9);
        assert!((c.cosine - 23.0 / (5.0 * 21.25f64.sqrt())).abs() < 1e-12);
        let same = compare(&reference, &reference).unwrap();
        assert_eq!((same.cosine, same.sqnr_db, same.equal), (1.0, f64::INFINITY, true));
        assert!(within(&found, &reference, 0.1, 0.1).unwrap());
        assert!(!within(&found, &reference, 0.0, 0.1).unwrap());
    }

    #[test]
    fn values_that_are_not_finite() {
        let a = Tensor::vector(vec![f32::NAN, f32::INFINITY]);
        assert!(compare(&a, &a).unwrap().equal);
        let b = Tensor::vector(vec![0f32, f32::INFINITY]);
        assert_eq!(compare(&a, &b).unwrap().max_abs, f64::INFINITY);
        assert!(!within(&a, &b, 1e9, 1.0).unwrap());
    }

    #[test]
    fn strings_are_equal_or_not() {
        let texts = |list: &[&'static str]| {
            let list: Vec<Bytes> = list.iter().map(|s| Bytes::from(*s)).collect();
            Tensor::strings(vec![list.len()], list).unwrap()
        };
        let (a, b) = (texts(&["cat", "dog", "", "dog"]), texts(&["cat", "dog", "", "cat"]));
        assert!(compare(&a, &a).unwrap().equal && within(&a, &a, 0.0, 0.0).unwrap());
        let c = compare(&a, &b).unwrap();
        assert_eq!((c.equal, c.max_abs, c.mean_abs), (false, 1.0, 0.25));
        assert!(!within(&a, &b, 9.0, 9.0).unwrap());
        assert!(compare(&a, &Tensor::vector(vec![0f32; 4])).is_err());
    }

    #[test]
    fn shapes_must_agree() {
        let x = |dims: &[usize]| Tensor::from_vec(dims.to_vec(), vec![1f32; 6]);
        assert!(compare(&x(&[2, 3]), &x(&[3, 2])).is_err());
        assert!(compare(&x(&[6]), &Tensor::scalar(1f32)).is_err());
        for dims in [&[2, 3, 1, 1][..], &[1, 2, 1, 3]] {
            assert!(compare(&x(dims), &x(&[2, 3])).unwrap().equal);
            let said = passed_over(&x(dims), &x(&[2, 3])).unwrap();
            assert!(said.contains("[2, 3]"), "{said}");
        }
        assert_eq!(passed_over(&x(&[2, 3]), &x(&[2, 3])), None);
    }

    #[test]
    fn agreement_of_the_first_choice() {
        let a = Tensor::from_vec(vec![2, 2], vec![1f32, 2.0, 5.0, 4.0]);
        let b = Tensor::from_vec(vec![2, 2], vec![1f32, 3.0, 4.0, 5.0]);
        assert_eq!(top1_agreement(&a, &b).unwrap(), Some(0.5));
    }
}
