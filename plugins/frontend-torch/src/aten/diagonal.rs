//! Diagonals and triangles of matrices, and combinations of elements.
// Names of arguments are those of torch.
#![allow(non_snake_case)]

use super::compare::select;
use super::layout::{grids, moved, permuted};
use super::shape::{INDICES_MAX, Tensors, at_least, expanded, reshaped, unsupported};
use super::sizes::{self as of, axis, known, known_size, minus, plus, rank, size, times};
use super::{
    Lower, RowContext, create,
    dtype::{self, dtype_of},
    join,
};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Double, Float, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::tril" => |b, a: Triangle| triangle(b, a, false);
        "aten::triu" => |b, a: Triangle| triangle(b, a, true);
        "aten::tril_indices" => |b, a: Indices| indices(b, a, |i, j, k| j - i <= k);
        "aten::triu_indices" => |b, a: Indices| indices(b, a, |i, j, k| j - i >= k);
        "aten::diagonal" | "aten::diagonal_copy" => diagonal;
        "aten::linalg_diagonal" => |b, a: Linalg| {
            let Linalg { A: input, offset, dim1, dim2 } = a;
            diagonal(b, Diagonal { input, offset, dim1, dim2 })
        };
        "aten::diag" => diag;
        "aten::diag_embed" => diag_embed;
        "aten::diagflat" => diagflat(input, offset);
        "aten::diagonal_scatter" => diagonal_scatter;
        "aten::fill_diagonal" => fill_diagonal(input, fill_value, wrap);
        "aten::trace" => trace(input);
        "aten::block_diag" => block_diag;
        "aten::cartesian_prod" => cartesian_prod;
        "aten::combinations" => combinations(input, r, with_replacement);
        "aten::eye" => |b, n: Value, m: Option<Value>, dtype: Option<i64>| {
            let dtype = dtype.map_or(Ok(Float), |number| dtype::named(b, number))?;
            eye(b, &n, m.as_ref().unwrap_or(&n), dtype)
        };
        "aten::vander" | "aten::linalg_vander" => vander;
    }
}

arguments! {
    struct Triangle { input: Var, diagonal: Value }
    struct Indices { row: i64, col: i64, offset: i64, dtype: Option<i64> }
    struct Diagonal { input: Var, offset: i64, dim1: i64, dim2: i64 }
    #[allow(non_snake_case)]
    struct Linalg { A: Var, offset: i64, dim1: i64, dim2: i64 }
    struct Diag { input: Var, diagonal: i64 }
    struct Scatter { input: Var, src: Var, offset: i64, dim1: i64, dim2: i64 }
    #[allow(non_snake_case)]
    struct Vander { x: Var, N: Option<i64>, increasing: Option<bool> }
}

/// The main diagonal of a matrix is one number.
fn fill_diagonal(b: &Lower, input: Var, fill_value: Value, wrap: bool) -> Lowered<Var> {
    if rank(b, input)? != 2 {
        return Err(unsupported(b, "The diagonal of more than two axes is filled."));
    }
    let (n, m) = (size(b, input, 0)?, size(b, input, 1)?);
    let wraps = !matches!((known(b, &n), known(b, &m)), (Some(n), Some(m)) if n <= m);
    if wrap && wraps {
        return Err(unsupported(b, "A diagonal that begins anew below the matrix is filled."));
    }
    let value = dtype::operand(b, &fill_value, dtype_of(b, input)?)?;
    let on_diagonal = b.cast(eye(b, &n, &m, Float)?, Bool)?;
    select(b, on_diagonal, value, input)
}

fn triangle(b: &Lower, a: Triangle, upper: bool) -> Lowered<Var> {
    let from = dtype_of(b, a.input)?;
    // Runtimes compute these types only.
    let to = match from {
        Bool | Int64 | Float | Double => from,
        other if other.is_integer() => Int64,
        _ => from,
    };
    let x = b.cast(a.input, to)?;
    if b.opset() < 14 {
        let zero = dtype::operand(b, &Value::Int(0), to)?;
        return b.cast(select(b, kept_cells(b, x, &a.diagonal, upper)?, x, zero)?, from);
    }
    let k = match of::scalar(b, &a.diagonal)? {
        Operand::Int(0) => Operand::Absent,
        k => k,
    };
    let kept = b.trilu(x).k(k).upper(upper).one()?;
    b.cast(kept, from)
}

/// Which cells of a matrix are in its triangle.
fn kept_cells(b: &Lower, x: Var, diagonal: &Value, upper: bool) -> Lowered<Var> {
    let rank = rank(b, x)?;
    let places = |axis: usize| b.range(0, of::scalar(b, &size(b, x, axis)?)?, 1).one();
    let (rows, columns) = (places(rank - 2)?, places(rank - 1)?);
    let last = b.unsqueeze(b.add(rows, of::scalar(b, diagonal)?)?, [1])?;
    if upper { b.not(b.less(columns, last)?) } else { b.not(b.greater(columns, last)?) }
}

fn indices(b: &Lower, a: Indices, kept: fn(i64, i64, i64) -> bool) -> Lowered<Var> {
    if a.row < 0 || a.col < 0 || a.row.saturating_mul(a.col) > INDICES_MAX {
        return Err(unsupported(b, "A matrix of indices is too large."));
    }
    let all = (0..a.row).flat_map(|i| (0..a.col).map(move |j| (i, j)));
    let found: Vec<(i64, i64)> = all.filter(|(i, j)| kept(*i, *j, a.offset)).collect();
    let items = found.iter().map(|(i, _)| *i).chain(found.iter().map(|(_, j)| *j));
    let tensor = Tensor::from_vec([2, found.len()], items.collect::<Vec<_>>());
    b.cast(b.constant(tensor), a.dtype.map_or(Ok(Int64), |n| dtype::named(b, n))?)
}

/// The axes of `x` with two of them last.
fn with_last(b: &Lower, x: Var, dim1: i64, dim2: i64) -> Lowered<Vec<usize>> {
    let (one, two) = (axis(b, x, dim1)?, axis(b, x, dim2)?);
    if one == two || rank(b, x)? < 2 {
        return Err(unsupported(b, "A diagonal needs two axes."));
    }
    let others = (0..rank(b, x)?).filter(|axis| *axis != one && *axis != two);
    Ok(others.chain([one, two]).collect())
}

/// Places of a diagonal in a matrix of `n` rows and `m` columns that is read row by row.
fn places(b: &Lower, n: &Value, m: &Value, offset: i64) -> Lowered<Operand> {
    let (down, right) = (offset.saturating_neg().max(0), offset.max(0));
    if let (Some(n), Some(m)) = (known(b, n), known(b, m))
        && n.checked_mul(m).is_some()
        && (n - down).min(m - right) <= INDICES_MAX
    {
        let count = (n - down).min(m - right).max(0);
        return Ok(Operand::Ints((0..count).map(|i| (i + down) * m + i + right).collect()));
    }
    let rows = of::scalar(b, &minus(b, n, &Value::Int(down))?)?;
    let columns = of::scalar(b, &minus(b, m, &Value::Int(right))?)?;
    let count =
        b.max([rows, columns].map(|n| b.neg(n)).into_iter().collect::<Lowered<Vec<_>>>()?)?;
    let count = b.neg(count)?;
    let step = of::scalar(b, &plus(b, m, &Value::Int(1))?)?;
    let first = plus(b, &times(b, m, &Value::Int(down))?, &Value::Int(right))?;
    let along = b.mul(b.range(0, count, 1).one()?, step)?;
    Ok(match known(b, &first) {
        Some(0) => along.into(),
        _ => b.add(along, of::scalar(b, &first)?)?.into(),
    })
}

fn diagonal(b: &Lower, a: Diagonal) -> Lowered<Var> {
    let x = permuted(b, a.input, &with_last(b, a.input, a.dim1, a.dim2)?)?;
    let rank = rank(b, x)?;
    let (n, m) = (size(b, x, rank - 2)?, size(b, x, rank - 1)?);
    let places = places(b, &n, &m, a.offset)?;
    let mut flat: Vec<_> = (0..rank - 2).map(super::shape::TargetSize::Same).collect();
    flat.push(
        times(b, &n, &m).ok().filter(|n| known(b, n).is_some()).unwrap_or(Value::Int(-1)).into(),
    );
    b.gather(reshaped(b, x, flat)?, places).axis(rank as i64 - 2).one()
}

fn diag(b: &Lower, a: Diag) -> Lowered<Var> {
    let (input, offset) = (a.input, a.diagonal);
    match rank(b, input)? {
        1 => diag_embed(b, Diagonal { input, offset, dim1: 0, dim2: 1 }),
        _ => diagonal(b, Diagonal { input, offset, dim1: 0, dim2: 1 }),
    }
}

fn diagflat(b: &Lower, input: Var, offset: i64) -> Lowered<Var> {
    let input = reshaped(b, input, vec![(-1).into()])?;
    diag_embed(b, Diagonal { input, offset, dim1: 0, dim2: 1 })
}

fn diag_embed(b: &Lower, a: Diagonal) -> Lowered<Var> {
    let rank = rank(b, a.input)?;
    let (one, two) = (of::wrapped(b, a.dim1, rank + 1)?, of::wrapped(b, a.dim2, rank + 1)?);
    let zero = dtype::operand(b, &Value::Int(0), dtype_of(b, a.input)?)?;
    // Each element stands in a row; rows without one come before or after.
    let (before, after) = (a.offset.saturating_neg().max(0), a.offset.max(0));
    let mut x = a.input;
    if a.offset != 0 {
        let mut pads = vec![0; 2 * rank];
        (pads[rank - 1], pads[2 * rank - 1]) = (before, after);
        x = b.pad(x, pads).constant_value(zero).one()?;
    }
    let n = size(b, x, rank - 1)?;
    let mask = match known(b, &n) {
        Some(n) if n.saturating_mul(n) <= INDICES_MAX => {
            let cells = (0..n).flat_map(|i| (0..n).map(move |j| u8::from(j - i == a.offset)));
            let cells: Vec<u8> = cells.collect();
            let dims = vec![n as usize; 2];
            let mask = Tensor::new(Bool, dims, cells.into());
            b.constant(mask.map_err(|why| unsupported(b, &why.to_string()))?)
        }
        _ => {
            let places = b.range(0, of::scalar(b, &n)?, 1).one()?;
            let rows = b.unsqueeze(places, [1])?;
            b.equal(places, if a.offset == 0 { rows } else { b.add(rows, a.offset)? })?
        }
    };
    let matrix = select(b, mask, b.unsqueeze(x, [rank as i64])?, zero)?;
    let mut perm: Vec<usize> = (0..rank - 1).collect();
    let mut ends = [(one, rank - 1), (two, rank)];
    ends.sort_unstable();
    ends.into_iter().for_each(|(to, from)| perm.insert(to, from));
    permuted(b, matrix, &perm)
}

fn diagonal_scatter(b: &Lower, a: Scatter) -> Lowered<Var> {
    let perm = with_last(b, a.input, a.dim1, a.dim2)?;
    let rank = perm.len();
    // Both axes first, as places are named by the first axes.
    let front: Vec<usize> = perm[rank - 2..].iter().chain(&perm[..rank - 2]).copied().collect();
    let x = permuted(b, a.input, &front)?;
    let (Some(n), Some(m)) = (known_size(b, x, 0), known_size(b, x, 1)) else {
        return Err(unsupported(b, "Only diagonals of a known size are written."));
    };
    let (down, right) = (a.offset.saturating_neg().max(0), a.offset.max(0));
    let count = (n - down).min(m - right).max(0);
    if count > INDICES_MAX {
        return Err(unsupported(b, "A diagonal is too long."));
    }
    let places: Vec<i64> = (0..count).flat_map(|i| [i + down, i + right]).collect();
    let places = b.constant(Tensor::from_vec([count as usize, 2], places));
    let src = b.cast(a.src, dtype_of(b, a.input)?)?;
    let src = moved(b, src, rank - 2, 0)?;
    let written = b.scatter_nd(x, places, src).one()?;
    let mut back = vec![0; rank];
    front.iter().enumerate().for_each(|(i, axis)| back[*axis] = i);
    permuted(b, written, &back)
}

fn trace(b: &Lower, input: Var) -> Lowered<Var> {
    let diagonal = diagonal(b, Diagonal { input, offset: 0, dim1: 0, dim2: 1 })?;
    let dtype = dtype_of(b, input)?;
    let whole = dtype == Bool || dtype.is_integer();
    let diagonal = b.cast(diagonal, if whole { Int64 } else { dtype })?;
    b.reduce_sum(diagonal).axes([0]).keepdims(0).one()
}

fn block_diag(b: &Lower, a: Tensors) -> Lowered<Var> {
    let items: Vec<Value> = a.tensors.iter().map(|x| Value::Var(*x)).collect();
    let dtype = dtype::common(b, &items.iter().collect::<Vec<_>>())?;
    let blocks = a.tensors.iter().map(|x| b.cast(at_least(b, *x, 2)?, dtype));
    let blocks = blocks.collect::<Lowered<Vec<_>>>()?;
    let widths = blocks.iter().map(|x| known_size(b, *x, 1)).collect::<Option<Vec<i64>>>();
    let Some(widths) = widths else {
        return Err(unsupported(b, "block_diag needs matrices of known widths."));
    };
    let zero = dtype::operand(b, &Value::Int(0), dtype)?;
    let (mut before, whole) = (0, widths.iter().sum::<i64>());
    let mut rows = vec![];
    for (x, width) in blocks.into_iter().zip(widths) {
        let pads = [0, before, 0, whole - width - before];
        before += width;
        rows.push(if width == whole { x } else { b.pad(x, pads).constant_value(zero).one()? });
    }
    join::joined(b, rows, 0)
}

fn cartesian_prod(b: &Lower, a: Tensors) -> Lowered<Var> {
    if let [only] = a.tensors.as_slice() {
        return Ok(*only);
    }
    let column = |x: Var| reshaped(b, x, vec![(-1).into(), 1.into()]);
    let columns = grids(b, &a)?.into_iter().map(column).collect::<Lowered<Vec<_>>>()?;
    join::joined(b, columns, 1)
}

fn combinations(b: &Lower, input: Var, r: i64, with_replacement: bool) -> Lowered<Var> {
    let Some(n) = known_size(b, input, 0).filter(|_| (0..=8).contains(&r)) else {
        return Err(unsupported(b, "combinations needs a vector of known size."));
    };
    let mut chosen: Vec<Vec<i64>> = vec![vec![]];
    for _ in 0..r {
        let next = |c: Vec<i64>| {
            let first = c.last().map_or(0, |i| i + i64::from(!with_replacement));
            (first..n).map(move |i| c.iter().copied().chain([i]).collect())
        };
        chosen = chosen.into_iter().flat_map(next).take(INDICES_MAX as usize).collect();
    }
    if chosen.len() as i64 >= INDICES_MAX {
        return Err(unsupported(b, "There are too many combinations."));
    }
    let dims = [chosen.len(), r as usize];
    b.gather(input, Tensor::from_vec(dims, chosen.concat())).one()
}

fn vander(b: &Lower, a: Vander) -> Lowered<Var> {
    let x = at_least(b, a.x, 1)?;
    let rank = rank(b, x)?;
    let n = a.N.or_else(|| known_size(b, x, rank - 1));
    let Some(n) = n.filter(|n| (0..=INDICES_MAX).contains(n)) else {
        return Err(unsupported(b, "vander needs a number of columns that is known."));
    };
    let dtype = dtype_of(b, x)?;
    let to = if dtype == Bool || dtype.is_integer() { DataType::Int64 } else { dtype };
    // That of `linalg` has no choice.
    let increasing = a.increasing.unwrap_or(true);
    let powers = (0..n).map(|i| if increasing { i } else { n - 1 - i });
    let x = b.unsqueeze(b.cast(x, to)?, [rank as i64])?;
    b.pow(x, b.cast(of::ints(b, powers.collect()), to)?)
}

/// A matrix with ones on a diagonal.
///
/// # Errors
/// `N0203` if its size cannot be said.
fn eye(b: &Lower, n: &Value, m: &Value, dtype: DataType) -> Lowered<Var> {
    let sizes = [n.clone(), m.clone()];
    let zeros = create::filled(b, &sizes, &Value::Int(0), dtype)?;
    if let Some([n, m]) = of::all_known(b, &sizes).as_deref()
        && n.saturating_mul(*m) <= create::ELEMENTS_MAX
    {
        let cells = (0..*n).flat_map(|i| (0..*m).map(move |j| i64::from(i == j)));
        let matrix = Tensor::from_vec([*n as usize, *m as usize], cells.collect::<Vec<_>>());
        return b.cast(b.constant(matrix), dtype);
    }
    b.eye_like(expanded(b, zeros, &sizes)?).one()
}
