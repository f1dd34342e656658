//! What the references compute with: arrays indexed element by element, and conversions.

use bytes::Bytes;
use half::{bf16, f16};
use onnxd_ir::{DataType, Tensor};

/// An array in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Nd<T = f64> {
    pub dims: Vec<usize>,
    pub v: Vec<T>,
}

impl<T: Copy> Nd<T> {
    /// Every element from its index.
    pub fn fill(dims: &[usize], f: impl FnMut(&[usize]) -> T) -> Nd<T> {
        let mut f = f;
        Nd { dims: dims.to_vec(), v: indices(dims).iter().map(|i| f(i)).collect() }
    }

    /// The element at an index.
    pub fn at(&self, index: &[usize]) -> T {
        self.v[flat(&self.dims, index)]
    }

    /// The element at an index that may lie outside.
    pub fn get(&self, index: &[i64]) -> Option<T> {
        let inside = index.iter().zip(&self.dims).all(|(i, d)| (0..*d as i64).contains(i));
        inside.then(|| self.at(&index.iter().map(|i| *i as usize).collect::<Vec<_>>()))
    }

    /// The element that broadcasting puts at an index of a larger shape.
    pub fn spread(&self, index: &[usize]) -> T {
        let index = &index[index.len() - self.dims.len()..];
        let own: Vec<usize> =
            index.iter().zip(&self.dims).map(|(i, d)| if *d == 1 { 0 } else { *i }).collect();
        self.at(&own)
    }
}

/// Position of an index in row-major order.
pub fn flat(dims: &[usize], index: &[usize]) -> usize {
    assert_eq!(dims.len(), index.len(), "{dims:?} indexed by {index:?}");
    dims.iter().zip(index).fold(0, |n, (d, i)| {
        assert!(i < d, "{dims:?} indexed by {index:?}");
        n * d + i
    })
}

/// All indices of a shape in row-major order.
pub fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for d in dims {
        all = all.iter().flat_map(|i: &Vec<usize>| (0..*d).map(|k| with(i, k))).collect();
    }
    all
}

fn with(index: &[usize], k: usize) -> Vec<usize> {
    index.iter().copied().chain([k]).collect()
}

/// The index with another coordinate at an axis.
pub fn put(index: &[usize], axis: usize, k: usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index[axis] = k;
    index
}

/// The common shape of shapes that broadcast.
pub fn broadcast(shapes: &[&[usize]]) -> Vec<usize> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    (0..rank)
        .map(|i| {
            let sizes = shapes.iter().filter_map(|s| (i + s.len()).checked_sub(rank).map(|k| s[k]));
            sizes.fold(1, |a, b| if a == 1 { b } else { a })
        })
        .collect()
}

/// The elements in `f64`.
pub fn reals(x: &Tensor) -> Nd {
    let found = x.to_reals().expect("a tensor of numbers");
    Nd { dims: found.dims, v: found.values }
}

/// The elements of an integer tensor.
pub fn whole(x: &Tensor) -> Nd<i128> {
    let v = match x.as_slice::<u64>() {
        Some(wide) => wide.iter().map(|v| i128::from(*v)).collect(),
        None => x.to_i64s().expect("a tensor of integers").into_iter().map(i128::from).collect(),
    };
    Nd { dims: x.dims().to_vec(), v }
}

/// Integers wrapped to the bits of a type.
pub fn from_whole(dtype: DataType, x: &Nd<i128>) -> Tensor {
    from_codes(dtype, &x.dims, &x.v.iter().map(|v| *v as u128).collect::<Vec<_>>())
}

/// `int64` from a list.
pub fn int64(dims: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_vec(dims, values.to_vec())
}

/// Numbers rounded to a type.
pub fn from_reals(dtype: DataType, dims: &[usize], v: Vec<f64>) -> Tensor {
    match dtype {
        DataType::Float => Tensor::from_vec(dims, v.iter().map(|x| *x as f32).collect()),
        DataType::Double => Tensor::from_vec(dims, v),
        DataType::Float16 => Tensor::from_vec(dims, v.iter().map(|x| f16::from_f64(*x)).collect()),
        DataType::Bfloat16 => {
            Tensor::from_vec(dims, v.iter().map(|x| bf16::from_f64(*x)).collect())
        }
        _ => {
            let codes: Vec<u128> = v.iter().map(|x| *x as i128 as u128).collect();
            from_codes(dtype, dims, &codes)
        }
    }
}

/// The bits of every element; of strings, the number they spell.
pub fn codes(x: &Tensor) -> Nd<u128> {
    let n: usize = x.dims().iter().product();
    let v = match x.as_strings() {
        Some(words) => {
            words.iter().map(|w| std::str::from_utf8(w).unwrap().parse().unwrap()).collect()
        }
        None => (0..n).map(|i| code(x, i)).collect(),
    };
    Nd { dims: x.dims().to_vec(), v }
}

fn code(x: &Tensor, i: usize) -> u128 {
    let (bits, bytes) = (x.dtype().bits(), x.bytes());
    if bits < 8 {
        let per_byte = 8 / bits;
        return u128::from(bytes[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1);
    }
    let size = bits / 8;
    bytes[i * size..][..size].iter().rev().fold(0, |n, b| n << 8 | u128::from(*b))
}

/// The inverse of [`codes`]; higher bits are cut off.
pub fn from_codes(dtype: DataType, dims: &[usize], codes: &[u128]) -> Tensor {
    let bits = dtype.bits();
    if bits == 0 {
        let words = codes.iter().map(|c| Bytes::from(c.to_string())).collect();
        return Tensor::strings(dims.to_vec(), words).unwrap();
    }
    let mut bytes = vec![0u8; (codes.len() * bits).div_ceil(8)];
    for (i, code) in codes.iter().enumerate() {
        if bits < 8 {
            let low = (*code & ((1 << bits) - 1)) as u8;
            bytes[i * bits / 8] |= low << (i * bits % 8);
        } else {
            let size = bits / 8;
            bytes[i * size..][..size].copy_from_slice(&code.to_le_bytes()[..size]);
        }
    }
    Tensor::new(dtype, dims.to_vec(), Bytes::from(bytes)).unwrap()
}
