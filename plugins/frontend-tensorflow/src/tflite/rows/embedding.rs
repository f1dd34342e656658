//! Rows of tables of numbers.

use crate::ops::create::filled;
use crate::ops::gather::gathered;
use crate::ops::scatter::scattered;
use crate::ops::shape::unsqueezed;
use crate::ops::{Lower, RowContext, dtype_of, rank, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{refuse, shown};
use onnxd_plugin_sdk::ir::DataType::{self, Int64, Uint8};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "EMBEDDING_LOOKUP" => |b, lookup: Var, value: Var| gathered(b, value, lookup, 0, 0);
        "EMBEDDING_LOOKUP_SPARSE" => sparse;
        "HASHTABLE_LOOKUP" => keyed(lookup, key, value);
    }
}

arguments! {
    /// `EMBEDDING_LOOKUP_SPARSE(ids, indices, dense_shape, weights, value)`
    struct Sparse { ids: Var, indices: Var, dense_shape: Var, weights: Var, value: Var, combiner: String }
}

/// Weighted rows are added up where the places agree but for the last of their numbers.
fn sparse(b: &Lower, a: Sparse) -> Lowered<Var> {
    let rows = gathered(b, a.value, a.ids, 0, 0)?;
    let behind: Vec<i64> = (1..rank(b, a.value)? as i64).collect();
    let weighted = b.mul(rows, unsqueezed(b, a.weights, &behind)?)?;
    let outer = b.slice(b.cast(a.dense_shape, Int64)?, [0], [-1]).axes([0]).one()?;
    let places = b.slice(b.cast(a.indices, Int64)?, [0], [-1]).axes([1]).one()?;
    let shape = b.concat([outer, b.shape(a.value).start(1).one()?]).axis(0).one()?;
    let sums = |shape: Var, rows: Var| {
        scattered(b, [filled(b, shape, 0, dtype_of(b, rows)?)?, places, rows], Some("add"))
    };
    let total = sums(shape, weighted)?;
    let norm = match a.combiner.as_str() {
        "SUM" => return Ok(total),
        "MEAN" => sums(outer, a.weights)?,
        "SQRTN" => b.sqrt(sums(outer, b.mul(a.weights, a.weights)?)?)?,
        other => return Err(b.wrong(format!("There is no combiner `{}`.", shown(other)))),
    };
    // Rows that nothing was added to stay zero.
    let norm = b.where_(b.equal(norm, 0.0)?, 1.0, norm)?;
    let n = rank(b, total)? as i64;
    let axes: Vec<i64> = (n - behind.len() as i64..n).collect();
    b.div(total, unsqueezed(b, norm, &axes)?)
}

/// The rows of keys, zeros where there is no such key; and whether there is.
fn keyed(b: &Lower, lookup: Var, key: Var, value: Var) -> Lowered<[Var; 2]> {
    refuse!(dtype_of(b, value)? == DataType::String => b.unsupported("ONNX does not compute with text."));
    let same = b.cast(b.equal(b.unsqueeze(lookup, [1])?, key)?, Uint8)?;
    let at = b.arg_max(same).axis(1).keepdims(0).one()?;
    let found = b.gather_elements(same, b.unsqueeze(at, [1])?).axis(1).one()?;
    let hits = b.squeeze(found).axes([1]).one()?;
    let rows = gathered(b, value, at, 0, 0)?;
    let behind: Vec<i64> = (1..rank(b, value)? as i64).collect();
    let is_there = unsqueezed(b, b.cast(hits, DataType::Bool)?, &behind)?;
    let zero = b.constant(crate::ops::create::scalar(0, dtype_of(b, rows)?));
    Ok([b.where_(is_there, rows, zero)?, hits])
}
