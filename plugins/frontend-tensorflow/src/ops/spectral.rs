//! Singular values and eigenvalues of matrices. Signs of vectors are free, and those of the model are other ones than
//! TensorFlow's.

use super::create::number;
use super::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::singular::{self, Eigen, Singular, symmetric_by_half};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "SelfAdjointEig" | "BatchSelfAdjointEig" => |b, input: Var| {
            let Eigen { values, vectors } = eigen(b, input)?;
            b.concat([b.unsqueeze(values, [-2])?, vectors]).axis(-2).one()
        };
        "SelfAdjointEigV2" | "BatchSelfAdjointEigV2" => |b, input: Var, compute_v: bool| {
            let Eigen { values, vectors } = eigen(b, input)?;
            Ok([values, if compute_v { vectors } else { nothing(b, input)? }])
        };
        "Svd" | "BatchSvd" => |b, input: Var, compute_uv: bool, full_matrices: bool| {
            if !compute_uv {
                return Ok([values(b, input)?, nothing(b, input)?, nothing(b, input)?]);
            }
            let Singular { u, s, v } = vectors(b, input, full_matrices)?;
            Ok([s, u, v])
        };
    }
}

/// Tells users that it takes long to find what is asked of matrices that are known to be large.
fn note_cost(b: &Lower, x: Var, what: &str) {
    if let Some(cost) = singular::cost(b, x, what) {
        b.note(cost);
    }
}

/// Eigenvalues and vectors of matrices, of which the lower half counts.
fn eigen(b: &Lower, x: Var) -> Lowered<Eigen> {
    note_cost(b, x, "eigenvalues");
    symmetric_by_half(b, x, false)
}

/// Singular values alone.
pub(crate) fn values(b: &Lower, x: Var) -> Lowered<Var> {
    note_cost(b, x, "singular values");
    singular::values(b, x)
}

/// Singular vectors, values and vectors; as many of them as values, or squares.
pub(crate) fn vectors(b: &Lower, x: Var, full: bool) -> Lowered<Singular> {
    note_cost(b, x, "singular values");
    let all = singular::singular(b, x)?;
    if full { Ok(all) } else { all.thin(b) }
}

/// A number in place of vectors that are not asked for, as TensorFlow has it.
fn nothing(b: &Lower, x: Var) -> Lowered<Var> {
    Ok(b.constant(number(0.0, dtype_of(b, x)?)))
}
