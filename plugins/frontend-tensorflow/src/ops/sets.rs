//! Sets that are the rows of matrices.

use super::sparse::packed;
use super::{Lower, RowContext, rank};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::{Int32, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "DenseToDenseSetOperation" => operation(set1, set2, set_operation);
    }
}

/// The elements of both sets of each row, of one, or of either; in order, as a sparse tensor.
fn operation(b: &Lower, set1: Var, set2: Var, set_operation: String) -> Lowered<[Var; 3]> {
    if rank(b, set1)? != 2 || rank(b, set2)? != 2 {
        let message = "Sets are rows of matrices; tensors with more axes are not converted.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let dtype = super::dtype_of(b, set1)?;
    let [x, y] = [b.cast(set1, Int64)?, b.cast(set2, Int64)?];
    let (own, other, wanted) = match set_operation.as_str() {
        "intersection" => (x, y, Some(true)),
        "a-b" => (x, y, Some(false)),
        "b-a" => (y, x, Some(false)),
        "union" => (b.concat([x, y]).axis(1).one()?, y, None),
        word => {
            let message = format!("The operation on sets `{}` is not known.", shown(word));
            return Err(b.diagnostic(Code::LayerParameter, message));
        }
    };
    let [sorted, _] = b.top_k(own, b.shape(own).start(1).one()?).largest(0).outputs()?;
    // The first of those that are equal.
    let places = b.range(0, b.squeeze(b.shape(own).start(1).one()?).axes([0]).one()?, 1).one()?;
    let earlier = b.less(places, b.unsqueeze(places, [1])?)?;
    let same = b.equal(b.unsqueeze(sorted, [2])?, b.unsqueeze(sorted, [1])?)?;
    let any = |x: Var| {
        let count = b.reduce_sum(b.cast(x, Int32)?).axes([2]).keepdims(0).one()?;
        b.greater(count, 0)
    };
    let first = b.not(any(b.and(same, earlier)?)?)?;
    let kept = match wanted {
        None => first,
        Some(wanted) => {
            let is_member = any(b.equal(b.unsqueeze(sorted, [2])?, b.unsqueeze(other, [1])?)?)?;
            b.and(first, if wanted { is_member } else { b.not(is_member)? })?
        }
    };
    let ([indices, shape], at) = packed(b, kept)?;
    let values = b.cast(b.gather_nd(sorted, at).one()?, dtype)?;
    Ok([indices, values, shape])
}
