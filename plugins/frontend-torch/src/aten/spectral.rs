//! Singular values and eigenvalues of matrices, and what follows from them. Signs of vectors are free, and those of the
//! model are other ones than LAPACK's.

use super::dtype::dtype_of;
use super::sizes::{axis, rank};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::matrix::transposed;
use onnxd_plugin_sdk::formulas::singular::{self, Eigen, Singular, symmetric_by_half};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::linalg_svd" => |b, a: Svd| new_svd(b, &a, true);
        "aten::_linalg_svd" => |b, a: Svd| new_svd(b, &a, false);
        "aten::linalg_svdvals" => |b, a: Svd| values(b, a.A);
        "aten::svd" => old_svd;
        "aten::linalg_eigh" => |b, a: Eigh| {
            let Eigen { values, vectors } = eigen(b, a.input, a.UPLO.as_deref())?;
            Ok([values, vectors])
        };
        "aten::_linalg_eigh" => |b, a: OldEigh| {
            let Eigen { values, vectors } = eigen(b, a.A, a.UPLO.as_deref())?;
            let vectors = if a.compute_v.unwrap_or(true) { vectors } else { nothing(b, a.A)? };
            Ok([values, vectors])
        };
        "aten::linalg_eigvalsh" => |b, a: Eigh| Ok(eigen(b, a.input, a.UPLO.as_deref())?.values);
        "aten::pinverse" | "aten::linalg_pinv" => |b, a: Pinv| {
            let parts = parts(b, a.input, a.hermitian)?;
            let limit = b.mul(largest(b, parts.s)?, a.rcond)?;
            parts.inverse(b, limit)
        };
        "aten::linalg_pinv.rcond_tensor" => |b, a: PinvBy| {
            let parts = parts(b, a.input, a.hermitian)?;
            let most = largest(b, parts.s)?;
            let share = b.cast(a.rcond, b.dtype_of(most).unwrap_or(DataType::Float))?;
            parts.inverse(b, b.mul(most, each(b, share)?)?)
        };
        "aten::linalg_pinv.atol_rtol_float" | "aten::linalg_pinv.atol_rtol_tensor" => |b, a: Within| {
            let parts = parts(b, a.input, a.hermitian)?;
            let limit = limit(b, parts.s, &a)?;
            parts.inverse(b, limit)
        };
        "aten::linalg_matrix_rank" | "aten::linalg_matrix_rank.tol_tensor" => |b, a: Rank| {
            counted(b, &Within {
                input: a.input, atol: a.tol, rtol: Value::Float(0.0), hermitian: a.hermitian,
            })
        };
        "aten::linalg_matrix_rank.atol_rtol_float" | "aten::linalg_matrix_rank.atol_rtol_tensor" => {
            |b, a: Within| counted(b, &a)
        };
        "aten::nuclear_norm" => |b, a: Nuclear| {
            let dim = a.dim.unwrap_or_else(|| vec![-2, -1]);
            let dim = dim.into_iter().map(|dim| Ok(axis(b, a.input, dim)? as i64));
            let dim: [i64; 2] = dim.collect::<Lowered<Vec<_>>>()?.try_into().map_err(|_| {
                b.diagnostic(Code::LayerParameter, "The norm of a matrix has two axes.")
            })?;
            norm(b, a.input, dim, a.keepdim, Spectral::Nuclear)
        };
    }
}

/// Torch's names of matrices are capitals.
#[allow(non_snake_case)]
mod named {
    use super::{Value, Var, arguments};
    arguments! {
        /// `linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None)`; all drivers give the same.
        pub(super) struct Svd {
            A: Var, full_matrices: Option<bool>, compute_uv: Value = Value::None, driver: Value = Value::None,
        }
        /// `svd(Tensor self, bool some=True, bool compute_uv=True)`
        pub(super) struct OldSvd { input: Var, some: bool, compute_uv: bool }
        /// `linalg_eigh(Tensor self, str UPLO="L")`
        pub(super) struct Eigh { input: Var, UPLO: Option<String> }
        /// `_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True)`
        pub(super) struct OldEigh { A: Var, UPLO: Option<String>, compute_v: Option<bool> }
        /// `linalg_pinv(Tensor self, float rcond, bool hermitian=False)`
        pub(super) struct Pinv { input: Var, rcond: f64, hermitian: Option<bool> }
        /// `linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False)`
        pub(super) struct PinvBy { input: Var, rcond: Var, hermitian: Option<bool> }
        /// `linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False)`
        pub(super) struct Within {
            input: Var, atol: Value = Value::None, rtol: Value = Value::None, hermitian: Option<bool>,
        }
        /// `nuclear_norm(Tensor self, bool keepdim=False)`,
        /// `nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False)`
        pub(super) struct Nuclear { input: Var, dim: Option<Vec<i64>>, keepdim: bool = false }
        /// `linalg_matrix_rank(Tensor self, float tol, bool hermitian=False)`
        pub(super) struct Rank { input: Var, tol: Value, hermitian: Option<bool> }
    }
}
use named::{Eigh, Nuclear, OldEigh, OldSvd, Pinv, PinvBy, Rank, Svd, Within};

/// Tells users that it takes long to find what is asked of matrices that are known to be large.
fn note_cost(b: &Lower, x: Var, what: &str) {
    if let Some(cost) = singular::cost(b, x, what) {
        b.note(cost);
    }
}

/// Singular values alone.
fn values(b: &Lower, x: Var) -> Lowered<Var> {
    note_cost(b, x, "singular values");
    singular::values(b, x)
}

/// Singular vectors, values and vectors, the vectors as columns.
fn vectors(b: &Lower, x: Var, whole: bool) -> Lowered<Singular> {
    note_cost(b, x, "singular values");
    let all = singular::singular(b, x)?;
    if whole { Ok(all) } else { all.thin(b) }
}

fn old_svd(b: &Lower, a: OldSvd) -> Lowered<[Var; 3]> {
    if a.compute_uv {
        let Singular { u, s, v } = vectors(b, a.input, !a.some)?;
        return Ok([u, s, v]);
    }
    // Torch gives zeros in place of all vectors, whatever `some` says.
    let n = rank(b, a.input)? as i64;
    let dtype = dtype_of(b, a.input)?;
    let zeros = |axis: i64| {
        let stack = b.shape(a.input).end(n - 2).one()?;
        let side = b.shape(a.input).start(axis).end(axis + 1).one()?;
        let zero = b.cast(b.constant(Tensor::scalar(0f32)), dtype)?;
        b.expand(zero, b.concat([stack, side, side]).axis(0).one()?)
    };
    Ok([zeros(n - 2)?, values(b, a.input)?, zeros(n - 1)?])
}

fn new_svd(b: &Lower, a: &Svd, whole: bool) -> Lowered<[Var; 3]> {
    if a.compute_uv == Value::Bool(false) {
        return Ok([nothing(b, a.A)?, values(b, a.A)?, nothing(b, a.A)?]);
    }
    let Singular { u, s, v } = vectors(b, a.A, a.full_matrices.unwrap_or(whole))?;
    Ok([u, s, transposed(b, v)?])
}

/// Norms of matrices that are made of singular values.
#[derive(Clone, Copy)]
pub(super) enum Spectral {
    Largest,
    Least,
    /// The sum of all.
    Nuclear,
}

/// A norm over two axes.
pub(super) fn norm(
    b: &Lower,
    x: Var,
    [row, column]: [i64; 2],
    keepdim: bool,
    kind: Spectral,
) -> Lowered<Var> {
    let others = (0..rank(b, x)? as i64).filter(|axis| ![row, column].contains(axis));
    let perm: Vec<i64> = others.chain([row, column]).collect();
    let s = values(b, b.transpose(x).perm(perm).one()?)?;
    let norm = match kind {
        Spectral::Largest => {
            let last = rank(b, s)? as i64 - 1;
            b.squeeze(singular::largest(b, s, &[last])?).axes([last]).one()?
        }
        Spectral::Least => b.reduce_min(s).axes([-1]).keepdims(0).one()?,
        Spectral::Nuclear => b.reduce_sum(s).axes([-1]).keepdims(0).one()?,
    };
    if !keepdim {
        return Ok(norm);
    }
    b.unsqueeze(norm, [row.min(column), row.max(column)])
}

/// Eigenvalues and vectors of matrices, of which one half counts.
fn eigen(b: &Lower, x: Var, half: Option<&str>) -> Lowered<Eigen> {
    let upper = match half.unwrap_or("L") {
        "L" | "l" => false,
        "U" | "u" => true,
        _ => return Err(b.diagnostic(Code::LayerParameter, "`UPLO` is neither `L` nor `U`.")),
    };
    note_cost(b, x, "eigenvalues");
    symmetric_by_half(b, x, upper)
}

fn nothing(b: &Lower, x: Var) -> Lowered<Var> {
    let dtype = b.dtype_of(x).unwrap_or(DataType::Float);
    b.cast(b.constant(Tensor::vector(Vec::<f32>::new())), dtype)
}

/// Singular vectors, values and vectors; of a hermitian matrix its eigenvectors and eigenvalues.
fn parts(b: &Lower, x: Var, hermitian: Option<bool>) -> Lowered<Singular> {
    match hermitian {
        Some(true) => {
            let Eigen { values, vectors } = eigen(b, x, None)?;
            Ok(Singular { u: vectors, s: values, v: vectors })
        }
        _ => vectors(b, x, false),
    }
}

/// The largest magnitude of values.
fn largest(b: &Lower, values: Var) -> Lowered<Var> {
    let last = rank(b, values)? as i64 - 1;
    singular::largest(b, b.abs(values)?, &[last])
}

/// A tensor of one number for each matrix, with an axis for the values of the matrix.
fn each(b: &Lower, x: Var) -> Lowered<Var> {
    match b.rank_of(x) {
        Some(0) => Ok(x),
        _ => b.unsqueeze(x, [-1]),
    }
}

/// Up to where magnitudes count as zero: the larger one of `atol`, and `rtol` times the largest.
fn limit(b: &Lower, values: Var, a: &Within) -> Lowered<Var> {
    let largest = largest(b, values)?;
    let dtype = b.dtype_of(largest).unwrap_or(DataType::Float);
    let single = |value: &Value| match value {
        Value::Var(x) => Ok(Some(each(b, b.cast(*x, dtype)?)?)),
        Value::Float(x) => Ok(Some(b.cast(b.constant(Tensor::scalar(*x)), dtype)?)),
        Value::Int(x) => Ok(Some(b.cast(b.constant(Tensor::scalar(*x)), dtype)?)),
        _ => Ok(None),
    };
    let (atol, rtol) = (single(&a.atol)?, single(&a.rtol)?);
    let zero = b.cast(b.constant(Tensor::scalar(0f32)), dtype)?;
    let epsilon = if dtype == DataType::Double { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let rtol = match (atol, rtol) {
        (_, Some(rtol)) => rtol,
        // As torch has it: by the longer side, unless `atol` says enough.
        (atol, None) => {
            let n = rank(b, a.input)? as i64;
            let longer = b.reduce_max(b.shape(a.input).start(n - 2).one()?).keepdims(0).one()?;
            let own = b.mul(b.cast(longer, dtype)?, epsilon)?;
            match atol {
                Some(atol) => b.where_(b.greater(atol, zero)?, zero, own)?,
                None => own,
            }
        }
    };
    b.max([atol.unwrap_or(zero), b.mul(rtol, largest)?])
}

fn counted(b: &Lower, a: &Within) -> Lowered<Var> {
    let values = match a.hermitian {
        Some(true) => eigen(b, a.input, None)?.values,
        _ => values(b, a.input)?,
    };
    let counts = b.greater(b.abs(values)?, limit(b, values, a)?)?;
    b.reduce_sum(b.cast(counts, DataType::Int64)?).axes([-1]).keepdims(0).one()
}
