//! Constants, and what is constant when the shapes are known.

use crate::context::{Done, LowerContext, Refusal, refuse};
use crate::row::{AdapterRow, down, up};
use onnxd_build::{Operand, Var};
use onnxd_ir::{Attr, DataType, SparseTensor, Tensor, element_count};

pub(crate) const ROWS: &[AdapterRow] = &[
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
fn cast_6(s: &mut LowerContext<'_>) -> Done {
    let to = s.word("to", "")?.to_lowercase();
    let dtype = DataType::parse(&to).ok_or_else(|| format!("there is no type `{to}`"))?;
    s.set_int("to", dtype.number().into());
    Ok(())
}

/// Before opset 9 only an initializer can be of another type than a floating-point one.
fn constant_9_down(s: &mut LowerContext<'_>) -> Done {
    match s.attr("value") {
        Ok(Some(Attr::Tensor(tensor))) if !tensor.dtype().is_float() => {
            s.becomes(s.b.constant(tensor))
        }
        _ => Ok(()),
    }
}

fn constant_12_down(s: &mut LowerContext<'_>) -> Done {
    let Some((name, attr)) = s.attrs().into_iter().next() else { return Ok(()) };
    if name.starts_with("value_") {
        let tensor = Operand::from(attr).to_tensor(None).ok_or("it has no value")?;
        s.drop(&name);
        s.set("value", Attr::Tensor(tensor));
    }
    Ok(())
}

fn constant_11_down(s: &mut LowerContext<'_>) -> Done {
    if let Ok(Some(Attr::Sparse(sparse))) = s.attr("sparse_value") {
        let dense = dense(&sparse).ok_or("its sparse value is too large or wrong")?;
        s.drop("sparse_value");
        s.set("value", Attr::Tensor(dense));
    }
    Ok(())
}

/// The tensor with all its zeros.
fn dense(sparse: &SparseTensor) -> Option<Tensor> {
    let count = element_count(&sparse.dims)?;
    let size = sparse.values.dtype().bits() / 8;
    if count > ELEMENTS_MAX || size == 0 {
        return None;
    }
    let mut bytes = vec![0; count * size];
    let values = sparse.values.bytes();
    let indices = sparse.indices.to_i64s()?;
    let rank = if sparse.indices.rank() == 2 { sparse.dims.len() } else { 1 };
    for (element, place) in indices.chunks(rank.max(1)).enumerate() {
        let flat = match rank {
            1 => usize::try_from(place[0]).ok()?,
            _ => place.iter().zip(&sparse.dims).try_fold(0usize, |flat, (i, d)| {
                flat.checked_mul(*d)?.checked_add(usize::try_from(*i).ok()?)
            })?,
        };
        let from = values.get(element * size..(element + 1) * size)?;
        bytes.get_mut(flat.checked_mul(size)?..(flat + 1) * size)?.copy_from_slice(from);
    }
    Tensor::new(sparse.values.dtype(), sparse.dims.clone(), bytes.into()).ok()
}

fn sizes(dims: &[i64]) -> Result<Vec<usize>, Refusal> {
    let dims: Option<Vec<usize>> = dims.iter().map(|d| usize::try_from(*d).ok()).collect();
    let dims = dims.ok_or("its shape has a negative size")?;
    let few = element_count(&dims).is_some_and(|n| n <= ELEMENTS_MAX);
    if few { Ok(dims) } else { refuse(format!("it has more than {ELEMENTS_MAX} elements")) }
}

fn number(x: i64, dtype: DataType) -> Result<Tensor, Refusal> {
    let tensor = Operand::Int(x).to_tensor(Some(dtype));
    tensor.ok_or_else(|| format!("{dtype} has no {x}").into())
}

/// The constant of the sizes `dims` whose elements are all `x`.
pub(crate) fn filled(x: i64, dtype: DataType, dims: &[i64]) -> Result<Tensor, Refusal> {
    repeated(&number(x, dtype)?, dims)
}

/// The constant of the sizes `dims` whose elements are all `one`.
fn repeated(one: &Tensor, dims: &[i64]) -> Result<Tensor, Refusal> {
    let dims = sizes(dims)?;
    let bytes = one.bytes().repeat(dims.iter().product());
    Tensor::new(one.dtype(), dims, bytes.into()).map_err(|e| Refusal(e.to_string()))
}

fn constant_of_shape(s: &mut LowerContext<'_>) -> Done {
    let shape = s.fixed_ints(0)?.ok_or("it has no shape")?;
    let one = match s.attr("value")? {
        Some(Attr::Tensor(tensor)) => tensor,
        Some(_) => return refuse("its value is not known"),
        None => Tensor::scalar(0f32),
    };
    s.becomes(s.b.constant(repeated(&one, &shape)?))
}

fn eye_like(s: &mut LowerContext<'_>) -> Done {
    let x = s.var(0)?;
    let dims = sizes(&s.dims(x)?)?;
    let [rows, columns] = dims[..] else { return refuse("its input is not of rank 2") };
    let dtype = match s.int("dtype")? {
        Some(number) => i32::try_from(number).ok().and_then(DataType::from_number),
        None => Some(s.dtype(x)?),
    };
    let dtype = dtype.ok_or("its `dtype` is unknown")?;
    let one = number(1, dtype)?;
    let one = one.bytes();
    let k = s.int("k")?.unwrap_or(0);
    let mut bytes = vec![0; rows * columns * one.len()];
    for (i, element) in bytes.chunks_mut(one.len()).enumerate() {
        let (row, column) = (i / columns.max(1), i % columns.max(1));
        if (row as i64).saturating_add(k) == column as i64 {
            element.copy_from_slice(&one);
        }
    }
    let tensor = Tensor::new(dtype, dims, bytes.into()).map_err(|e| e.to_string())?;
    s.becomes(s.b.constant(tensor))
}

/// Chooses between the input and zero by a mask: a constant one where the sizes and the diagonal are known.
fn trilu(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let upper = s.flag("upper", true)?;
    if let Ok(dims) = s.dims(x)
        && let Ok(k) = s.fixed_ints(1)
    {
        let [.., rows, columns] = dims[..] else { return refuse("its input has no matrices") };
        if let Ok(dims) = sizes(&[rows, columns]) {
            let k = k.and_then(|k| k.first().copied()).unwrap_or(0);
            let keep = |(i, j): (i64, i64)| {
                let distance = (j - i).saturating_sub(k);
                u8::from(if upper { distance >= 0 } else { distance <= 0 })
            };
            let places = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
            let mask = Tensor::from_vec_as(DataType::Bool, dims, places.map(keep).collect());
            return s.becomes(b.where_(mask, x, 0)?);
        }
    }
    let mask = computed_mask(s, x, upper)?;
    s.becomes(b.where_(mask, x, 0)?)
}

/// The mask for matrices of any size: column `j` of row `i` counts if `j >= i + k`, or `j <= i + k`.
fn computed_mask(s: &LowerContext<'_>, x: Var, upper: bool) -> Result<Var, Refusal> {
    let b = s.b;
    let shape = b.shape(x).one()?;
    let count = |axis: i64| b.range(0, b.gather(shape, axis).one()?, 1).one();
    let mut diagonal = b.unsqueeze(count(-2)?, [1])?;
    if let Some(k) = s.optional(1) {
        diagonal = b.add(diagonal, k)?;
    }
    let columns = count(-1)?;
    Ok(if upper {
        b.greater_or_equal(columns, diagonal)?
    } else {
        b.less_or_equal(columns, diagonal)?
    })
}

fn cast_like(s: &mut LowerContext<'_>) -> Done {
    let [x, like] = s.vars()?;
    s.becomes(s.b.cast(x, s.dtype(like)?)?)
}
