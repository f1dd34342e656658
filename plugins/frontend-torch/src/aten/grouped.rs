//! Products of groups of matrices, as mixtures of experts have them. Where a group ends is a number of the graph, so
//! all groups take all rows, and each row keeps the product of its own group.

use super::dtype::{dtype_of, named};
use super::linear::matmul;
use super::sizes::{rank, scalar, size};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::_grouped_mm" => grouped;
    }
}

arguments! {
    /// `_grouped_mm`
    struct Grouped { input: Var, mat2: Var, offs: Option<Var>, bias: Option<Var>, out_dtype: Option<i64> }
}

fn grouped(b: &Lower, a: Grouped) -> Lowered<Var> {
    if a.bias.is_some() {
        let message = "torch itself computes no products of groups with a bias.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let (x, y) = (a.input, a.mat2);
    let product = match (rank(b, x)?, rank(b, y)?, a.offs) {
        (3, 3, _) => matmul(b, x, y)?,
        // Rows are in groups.
        (2, 3, Some(ends)) => {
            let all = matmul(b, b.unsqueeze(x, [0])?, y)?;
            let group = group_of(b, ends, size_of(b, x, 0)?)?;
            own(b, all, at_most(b, group, size_of(b, y, 0)?)?)?
        }
        // Columns are in groups.
        (3, 2, Some(ends)) => {
            let all = matmul(b, x, b.unsqueeze(y, [0])?)?;
            let turned = b.transpose(all).perm([0, 2, 1]).one()?;
            let group = group_of(b, ends, size_of(b, y, 1)?)?;
            let product = own(b, turned, at_most(b, group, size_of(b, x, 0)?)?)?;
            b.transpose(product).perm([1, 0]).one()?
        }
        // What is added up is in groups.
        (2, 2, Some(ends)) => {
            let count = b.squeeze(b.shape(ends).one()?).axes([0]).one()?;
            let group = group_of(b, ends, size_of(b, x, 1)?)?;
            let groups = b.unsqueeze(b.range(0i64, count, 1i64).one()?, [1])?;
            let within = b.cast(b.equal(group, groups)?, dtype_of(b, x)?)?;
            let parts = b.mul(b.unsqueeze(x, [0])?, b.unsqueeze(within, [1])?)?;
            matmul(b, parts, b.unsqueeze(y, [0])?)?
        }
        _ => {
            let message = "Matrices in groups need the ends of their groups.";
            return Err(b.diagnostic(Code::LayerParameter, message));
        }
    };
    match a.out_dtype {
        Some(number) => b.cast(product, named(b, number)?),
        None => Ok(product),
    }
}

fn size_of(b: &Lower, x: Var, axis: usize) -> Lowered<Var> {
    let size = scalar(b, &size(b, x, axis)?)?;
    b.add(size, 0i64)
}

/// The group of each place: those that end before it or at it come before. What lies behind all groups has the number
/// of none.
fn group_of(b: &Lower, ends: Var, places: Var) -> Lowered<Var> {
    let places = b.unsqueeze(b.range(0i64, places, 1i64).one()?, [1])?;
    let before = b.not(b.less(places, b.cast(ends, Int64)?)?)?;
    b.reduce_sum(b.cast(before, Int64)?).axes([1]).keepdims(0).one()
}

/// A group that there is: what lies behind all of them has any, because what it gives is not defined.
fn at_most(b: &Lower, group: Var, groups: Var) -> Lowered<Var> {
    b.min([group, b.sub(groups, 1i64)?])
}

/// Row `i` of the matrix that `group` names for it.
fn own(b: &Lower, all: Var, group: Var) -> Lowered<Var> {
    let count = b.squeeze(b.shape(group).one()?).axes([0]).one()?;
    let rows = b.range(0i64, count, 1i64).one()?;
    let places = b.concat([b.unsqueeze(group, [1])?, b.unsqueeze(rows, [1])?]).axis(1).one()?;
    b.gather_nd(all, places).one()
}
