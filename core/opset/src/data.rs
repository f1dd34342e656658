//! Constants, and what is constant when the shapes are known.

use crate::row::{Row, down, up};
use crate::site::{Done, Site, written_out};
use bytes::Bytes;
use onnxd_ir::{Attr, DataType, SparseTensor, Tensor, ValueId};

pub(crate) const ROWS: &[Row] = &[
    up(&["Cast"], 6, cast_6),
    down(&["Constant"], 9, constant_9_down),
    down(&["Constant"], 11, constant_11_down),
    down(&["Constant"], 12, constant_12_down),
    down(&["ConstantOfShape"], 9, constant_of_shape),
    down(&["EyeLike"], 9, eye_like),
    down(&["Trilu"], 14, trilu),
    down(&["CastLike"], 15, cast_like),
];

/// Elements of a constant that stands for a computation.
const ELEMENTS_MAX: usize = 1 << 20;

/// Up to opset 5 the type is a word.
fn cast_6(s: &mut Site<'_>) -> Done {
    let to = s.word("to", "")?.to_lowercase();
    let dtype = DataType::parse(&to).ok_or_else(|| format!("there is no type `{to}`"))?;
    s.set("to", Attr::Int(i64::from(dtype.number())));
    Ok(())
}

/// Before opset 9 only an initializer can be of another type than a floating-point one.
fn constant_9_down(s: &mut Site<'_>) -> Done {
    match s.node().attr("value") {
        Some(Attr::Tensor(tensor)) if !tensor.dtype().is_float() => {
            let tensor = tensor.clone();
            let constant = s.tensor("constant", tensor);
            s.become_node("Identity", &[constant], &[]);
        }
        _ => {}
    }
    Ok(())
}

fn constant_12_down(s: &mut Site<'_>) -> Done {
    let Some((name, attr)) = s.node().attrs.first().cloned() else { return Ok(()) };
    if name.starts_with("value_") {
        let tensor = written_out(&attr).ok_or("it has no value")?;
        s.become_node("Constant", &[], &[("value", Attr::Tensor(tensor))]);
    }
    Ok(())
}

fn constant_11_down(s: &mut Site<'_>) -> Done {
    if let Some(Attr::Sparse(sparse)) = s.node().attr("sparse_value") {
        let dense = dense(sparse).ok_or("its sparse value is too large or wrong")?;
        s.become_node("Constant", &[], &[("value", Attr::Tensor(dense))]);
    }
    Ok(())
}

/// The tensor with all its zeros.
fn dense(sparse: &SparseTensor) -> Option<Tensor> {
    let count = sparse.dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
    let size = sparse.values.dtype().bits() / 8;
    if count > ELEMENTS_MAX || size == 0 {
        return None;
    }
    let mut bytes = vec![0; count * size];
    let indices = sparse.indices.to_i64s()?;
    let rank = if sparse.indices.rank() == 2 { sparse.dims.len() } else { 1 };
    for (element, place) in indices.chunks(rank.max(1)).enumerate() {
        let flat = match rank {
            1 => usize::try_from(place[0]).ok()?,
            _ => place.iter().zip(&sparse.dims).try_fold(0usize, |flat, (i, d)| {
                flat.checked_mul(*d)?.checked_add(usize::try_from(*i).ok()?)
            })?,
        };
        let from = sparse.values.bytes().get(element * size..(element + 1) * size)?;
        bytes.get_mut(flat.checked_mul(size)?..(flat + 1) * size)?.copy_from_slice(from);
    }
    Tensor::new(sparse.values.dtype(), sparse.dims.clone(), bytes.into()).ok()
}

/// The node becomes a constant.
fn become_constant(s: &mut Site<'_>, tensor: Tensor) {
    let constant = s.tensor("constant", tensor);
    s.become_node("Identity", &[constant], &[]);
}

fn sizes(dims: &[i64]) -> Result<(Vec<usize>, usize), String> {
    let dims: Option<Vec<usize>> = dims.iter().map(|d| usize::try_from(*d).ok()).collect();
    let dims = dims.ok_or("its shape has a negative size")?;
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let count = count.filter(|n| *n <= ELEMENTS_MAX);
    Ok((dims, count.ok_or_else(|| format!("it has more than {ELEMENTS_MAX} elements"))?))
}

fn constant_of_shape(s: &mut Site<'_>) -> Done {
    let shape = s.fixed_ints(0)?.ok_or("it has no shape")?;
    let (dims, count) = sizes(&shape)?;
    let one = match s.node().attr("value") {
        Some(Attr::Tensor(tensor)) => tensor.clone(),
        Some(_) => return Err("its value is not known".into()),
        None => Tensor::scalar(0f32),
    };
    let bytes = one.bytes().repeat(count);
    let tensor = Tensor::new(one.dtype(), dims, bytes.into()).map_err(|e| e.to_string())?;
    become_constant(s, tensor);
    Ok(())
}

fn eye_like(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let (dims, count) = sizes(&s.dims(x)?)?;
    let [_, columns] = dims[..] else { return Err("its input is not of rank 2".into()) };
    let dtype = match s.int("dtype")? {
        Some(number) => i32::try_from(number).ok().and_then(DataType::from_number),
        None => Some(s.dtype(x)?),
    };
    let dtype = dtype.ok_or("its `dtype` is unknown")?;
    let one = match dtype {
        DataType::Bool => Bytes::from_static(&[1]),
        other => crate::site::number(1.0, other).ok_or("its type has no 1")?.bytes().clone(),
    };
    let k = s.int("k")?.unwrap_or(0);
    let mut bytes = vec![0; count * one.len()];
    for (i, element) in bytes.chunks_mut(one.len()).enumerate() {
        let (row, column) = (i / columns.max(1), i % columns.max(1));
        if (row as i64).saturating_add(k) == column as i64 {
            element.copy_from_slice(&one);
        }
    }
    let tensor = Tensor::new(dtype, dims, bytes.into()).map_err(|e| e.to_string())?;
    become_constant(s, tensor);
    Ok(())
}

/// Chooses between the input and zero by a mask.
fn trilu(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let dims = s.dims(x)?;
    let [.., rows, columns] = dims[..] else { return Err("its input has no matrices".into()) };
    let (dims, _) = sizes(&[rows, columns])?;
    let k = s.fixed_ints(1)?.and_then(|k| k.first().copied()).unwrap_or(0);
    let upper = s.int("upper")?.unwrap_or(1) != 0;
    let keep = |(i, j): (i64, i64)| {
        let distance = (j - i).saturating_sub(k);
        u8::from(if upper { distance >= 0 } else { distance <= 0 })
    };
    let places = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
    let mask = Tensor::from_vec_as(DataType::Bool, dims, places.map(keep).collect());
    let mask = s.tensor("mask", mask);
    let zero = zero(s, x)?;
    s.become_node("Where", &[mask, x, zero], &[]);
    Ok(())
}

fn zero(s: &mut Site<'_>, like: ValueId) -> Result<ValueId, String> {
    let dtype = s.dtype(like)?;
    let zero = match dtype {
        DataType::Bool => Some(Tensor::from_vec_as(DataType::Bool, vec![], vec![0u8])),
        other => crate::site::number(0.0, other),
    };
    let zero = zero.ok_or_else(|| format!("{dtype} has no zero"))?;
    Ok(s.tensor("zero", zero))
}

fn cast_like(s: &mut Site<'_>) -> Done {
    let (x, like) = (s.input(0)?, s.input(1)?);
    let to = Attr::Int(i64::from(s.dtype(like)?.number()));
    s.become_node("Cast", &[x], &[("to", to)]);
    Ok(())
}
