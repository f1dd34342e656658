//! Arithmetic on the elements of floating-point tensors, in `f64`, so that a pass reads like its formula.

use crate::{DataType, Tensor};
use half::{bf16, f16};
use std::ops::{Add, Div, Mul, Sub};

/// The elements of a tensor as `f64`. Binary operators broadcast like ONNX's.
#[derive(Clone, Debug, PartialEq)]
pub struct Reals {
    /// Sizes, outermost axis first.
    pub dims: Vec<usize>,
    /// Elements in row-major order.
    pub values: Vec<f64>,
}

/// `x` rounded to the nearest `f16`, ties to even.
pub fn nearest_f16(x: f64) -> f16 {
    f16::from_f32(to_odd(x))
}

/// `x` rounded to the nearest `bf16`, ties to even.
pub fn nearest_bf16(x: f64) -> bf16 {
    bf16::from_f32(to_odd(x))
}

/// One of the two neighbours of `x` in `f32`: the one whose last bit is set, so that rounding it
/// further cannot mistake something close to a tie for one.
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || x.is_nan() {
        return near;
    }
    let beyond = f64::from(near).abs() > x.abs();
    f32::from_bits((near.to_bits() - u32::from(beyond)) | 1)
}

impl Tensor {
    /// The elements in `f64`, for float types of 16 bits and more and for integers that fit `i64`.
    pub fn to_reals(&self) -> Option<Reals> {
        let dims = self.dims().to_vec();
        let values = match self.dtype() {
            DataType::Float => self.as_slice::<f32>()?.iter().map(|x| f64::from(*x)).collect(),
            DataType::Double => self.as_slice::<f64>()?.into_owned(),
            DataType::Float16 => self.as_slice::<f16>()?.iter().map(|x| x.to_f64()).collect(),
            DataType::Bfloat16 => self.as_slice::<bf16>()?.iter().map(|x| x.to_f64()).collect(),
            _ => self.to_i64s()?.into_iter().map(|x| x as f64).collect(),
        };
        Some(Reals { dims, values })
    }
}

impl Tensor {
    /// Multiplies slice `i` along `axis` by `gain[i]`, in `f64`, and rounds to the type, which is a
    /// float type; `None` for any other.
    ///
    /// # Panics
    /// If there are not as many gains as the axis has elements.
    pub fn scaled_along(&self, axis: usize, gain: &[f64]) -> Option<Tensor> {
        assert_eq!(gain.len(), self.dims()[axis], "one gain per slice");
        self.scaled(axis, gain).ok().map(|scaled| scaled.held())
    }
}

impl Reals {
    /// A scalar.
    pub fn scalar(value: f64) -> Reals {
        Reals { dims: vec![], values: vec![value] }
    }

    /// All elements equal to `value`.
    pub fn full(dims: &[usize], value: f64) -> Reals {
        Reals { dims: dims.to_vec(), values: vec![value; dims.iter().product()] }
    }

    /// Rounds to a float type; `None` for any other type.
    pub fn to_tensor(&self, dtype: DataType) -> Option<Tensor> {
        let (dims, values) = (self.dims.clone(), &self.values);
        Some(match dtype {
            DataType::Float => Tensor::from_vec(dims, values.iter().map(|x| *x as f32).collect()),
            DataType::Double => Tensor::from_vec(dims, values.clone()),
            DataType::Float16 => {
                Tensor::from_vec(dims, values.iter().map(|x| nearest_f16(*x)).collect())
            }
            DataType::Bfloat16 => {
                Tensor::from_vec(dims, values.iter().map(|x| nearest_bf16(*x)).collect())
            }
            _ => return None,
        })
    }

    /// `f` of every element.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Reals {
        Reals { dims: self.dims.clone(), values: self.values.iter().map(|x| f(*x)).collect() }
    }

    /// Square root of every element.
    #[must_use]
    pub fn sqrt(&self) -> Reals {
        self.map(f64::sqrt)
    }

    /// Multiplies slice `i` along `axis` by element `i` of the one-dimensional `gain`.
    ///
    /// # Panics
    /// If `gain` has not as many elements as the axis.
    #[must_use]
    pub fn scale_axis(&self, axis: usize, gain: &Reals) -> Reals {
        let size = self.dims[axis];
        assert_eq!(gain.values.len(), size, "one gain per slice");
        let inner: usize = self.dims[axis + 1..].iter().product();
        let scaled = self.values.iter().enumerate();
        let values = scaled.map(|(i, x)| x * gain.values[i / inner.max(1) % size]).collect();
        Reals { dims: self.dims.clone(), values }
    }

    /// Largest magnitude in each slice along `axis`.
    #[must_use]
    pub fn abs_max_along(&self, axis: usize) -> Reals {
        let size = self.dims[axis];
        let inner: usize = self.dims[axis + 1..].iter().product();
        let mut values = vec![0f64; size];
        for (i, x) in self.values.iter().enumerate() {
            let slot = &mut values[i / inner.max(1) % size];
            *slot = slot.max(x.abs());
        }
        Reals { dims: vec![size], values }
    }

    /// Elementwise `f`, broadcasting both sides; `None` if the shapes do not broadcast.
    pub fn zip(&self, other: &Reals, f: impl Fn(f64, f64) -> f64) -> Option<Reals> {
        if self.dims == other.dims {
            let pairs = self.values.iter().zip(&other.values);
            return Some(Reals {
                dims: self.dims.clone(),
                values: pairs.map(|(a, b)| f(*a, *b)).collect(),
            });
        }
        let dims = broadcast(&self.dims, &other.dims)?;
        let count = dims.iter().product();
        let at = |side: &Reals, flat: usize| side.values[source_index(flat, &dims, &side.dims)];
        Some(Reals { values: (0..count).map(|i| f(at(self, i), at(other, i))).collect(), dims })
    }
}

/// The place of an axis that counts from the end if it is negative; `None` if there is none.
pub fn axis_at(axis: i64, rank: usize) -> Option<usize> {
    let front = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
    usize::try_from(front).ok().filter(|axis| *axis < rank)
}

/// The common shape of two shapes under ONNX's multidirectional broadcasting; `None` without one.
pub fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |dims: &[usize], i: usize| (i + dims.len()).checked_sub(rank).map_or(1, |k| dims[k]);
    (0..rank)
        .map(|i| match (size(a, i), size(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

/// Index into a tensor of sizes `from` for element `flat` of the broadcast shape `to`.
fn source_index(mut flat: usize, to: &[usize], from: &[usize]) -> usize {
    let (mut index, mut stride) = (0, 1);
    for i in (0..to.len()).rev() {
        let coordinate = flat % to[i];
        flat /= to[i];
        if let Some(k) = (i + from.len()).checked_sub(to.len()) {
            if from[k] != 1 {
                index += coordinate * stride;
            }
            stride *= from[k];
        }
    }
    index
}

macro_rules! operators {
    ($($name:ident $method:ident $op:tt),*) => { $(
        /// # Panics
        /// If the shapes do not broadcast.
        impl $name<&Reals> for &Reals {
            type Output = Reals;
            fn $method(self, other: &Reals) -> Reals {
                self.zip(other, |a, b| a $op b).expect("shapes broadcast")
            }
        }
        impl $name<f64> for &Reals {
            type Output = Reals;
            fn $method(self, other: f64) -> Reals { self.map(|a| a $op other) }
        }
    )* };
}

operators!(Add add +, Sub sub -, Mul mul *, Div div /);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_a_tie_is_none() {
        let tie = 1.0 + f64::powi(2.0, -11);
        assert_eq!(nearest_f16(tie).to_bits(), 0x3c00);
        assert_eq!(nearest_f16(tie + f64::powi(2.0, -50)).to_bits(), 0x3c01);
        assert_eq!(nearest_f16(-tie - f64::powi(2.0, -50)).to_bits(), 0xbc01);
        assert_eq!(nearest_bf16(1.0 + f64::powi(2.0, -8) + f64::powi(2.0, -50)).to_bits(), 0x3f81);
        assert_eq!(nearest_bf16(f64::MAX), bf16::INFINITY);
        assert_eq!(nearest_f16(f64::MIN_POSITIVE).to_bits(), 0);
        assert!(nearest_f16(f64::NAN).is_nan());
    }

    #[test]
    fn broadcasting() {
        let column = Reals { dims: vec![2, 1], values: vec![1.0, 2.0] };
        let row = Reals { dims: vec![3], values: vec![10.0, 20.0, 30.0] };
        let sum = &column + &row;
        assert_eq!(sum.dims, [2, 3]);
        assert_eq!(sum.values, [11.0, 21.0, 31.0, 12.0, 22.0, 32.0]);
        assert!(sum.zip(&Reals::full(&[4], 0.0), |a, _| a).is_none());
    }

    #[test]
    fn scaling_along_an_axis() {
        let w = Reals { dims: vec![2, 2], values: vec![1.0, 2.0, 3.0, -4.0] };
        let gain = Reals { dims: vec![2], values: vec![10.0, 100.0] };
        assert_eq!(w.scale_axis(0, &gain).values, [10.0, 20.0, 300.0, -400.0]);
        assert_eq!(w.scale_axis(1, &gain).values, [10.0, 200.0, 30.0, -400.0]);
        assert_eq!(w.abs_max_along(1).values, [3.0, 4.0]);
        for dtype in [DataType::Float, DataType::Float16] {
            let tensor = w.to_tensor(dtype).unwrap();
            for axis in [0, 1] {
                let scaled = tensor.scaled_along(axis, &gain.values).unwrap();
                assert_eq!(scaled.dtype(), dtype);
                assert_eq!(scaled.to_reals().unwrap(), w.scale_axis(axis, &gain));
            }
            assert!(tensor.is_finite());
            assert!(!tensor.scaled_along(0, &[1.0, f64::INFINITY]).unwrap().is_finite());
        }
    }
}
