//! Tensors that are held as places and values, and the like of them with rows of any length.

use super::create::{filled, scalar};
use super::scan::running_sum;
use super::scatter::scattered;
use super::segment::{SegmentReduction, sorted_by};
use super::{Lower, RowContext, dtype_of, linear, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Bool, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "SparseToDense" => to_dense;
        "SparseTensorDenseMatMul" => |b, a: Product| {
            let x = dense(b, [a.a_indices, a.a_values, a.a_shape])?;
            linear::product(b, [x, a.b], [a.adjoint_a, a.adjoint_b])
        };
        "SparseTensorDenseAdd" => |b, a: Sum| {
            scattered(b, [a.b, a.a_indices, a.a_values], Some("add"))
        };
        "SparseReshape" => sparse_reshape;
        "SparseFillEmptyRows" => fill_empty_rows;
        "SparseSegmentSum" => |b, a: Segments| segments(b, &a, None, SegmentReduction::Sum);
        "SparseSegmentMean" => |b, a: Segments| segments(b, &a, None, SegmentReduction::Mean);
        "SparseSegmentSqrtN" => |b, a: Segments| segments(b, &a, None, SegmentReduction::SqrtN);
        "SparseSegmentSumWithNumSegments" => |b, a: Counted| {
            segments(b, &a.plain(), Some(a.num_segments), SegmentReduction::Sum)
        };
        "SparseSegmentMeanWithNumSegments" => |b, a: Counted| {
            segments(b, &a.plain(), Some(a.num_segments), SegmentReduction::Mean)
        };
        "SparseSegmentSqrtNWithNumSegments" => |b, a: Counted| {
            segments(b, &a.plain(), Some(a.num_segments), SegmentReduction::SqrtN)
        };
        "SparseMatMul" => |b, a: Hinted| linear::product(b, [a.a, a.b], [a.transpose_a, a.transpose_b]);
    };
    super::ragged::rows(table)
}

arguments! {
    /// `SparseToDense`
    struct Dense { sparse_indices: Var, output_shape: Var, sparse_values: Var, default_value: Var }
    /// `SparseTensorDenseMatMul`
    struct Product { a_indices: Var, a_values: Var, a_shape: Var, b: Var, adjoint_a: bool, adjoint_b: bool }
    /// `SparseTensorDenseAdd`
    struct Sum { a_indices: Var, a_values: Var, a_shape: Var, b: Var }
    /// `SparseReshape`
    struct Reshaped { input_indices: Var, input_shape: Var, new_shape: Var }
    /// `SparseFillEmptyRows`
    struct Filled { indices: Var, values: Var, dense_shape: Var, default_value: Var }
    /// `SparseSegmentSum`
    struct Segments { data: Var, indices: Var, segment_ids: Var, sparse_gradient: bool }
    /// `SparseSegmentSumWithNumSegments`
    struct Counted { data: Var, indices: Var, segment_ids: Var, num_segments: Var, sparse_gradient: bool }
    /// `SparseMatMul`
    struct Hinted {
        a: Var, b: Var, transpose_a: bool, transpose_b: bool, a_is_sparse: bool, b_is_sparse: bool,
    }
}

impl Counted {
    fn plain(&self) -> Segments {
        let Counted { data, indices, segment_ids, sparse_gradient, .. } = *self;
        Segments { data, indices, segment_ids, sparse_gradient }
    }
}

/// Rows of `data` at indices, gathered into segments.
fn segments(b: &Lower, a: &Segments, count: Option<Var>, kind: SegmentReduction) -> Lowered<Var> {
    let rows = b.gather(a.data, a.indices).axis(0).one()?;
    sorted_by(b, rows, a.segment_ids, count, kind)
}

/// A tensor of its places, its values and its shape; values at one place add up.
fn dense(b: &GraphBuilder, [indices, values, shape]: [Var; 3]) -> Lowered<Var> {
    let zeros = filled(b, b.cast(shape, Int64)?, 0, dtype_of(b, values)?)?;
    scattered(b, [zeros, indices, values], Some("add"))
}

/// Places are a matrix, a vector (of a vector's places), or one number.
fn to_dense(b: &Lower, a: Dense) -> Lowered<Var> {
    let shape = b.cast(a.output_shape, Int64)?;
    let canvas = b.expand(a.default_value, shape)?;
    let places = match rank(b, a.sparse_indices)? {
        0 => b.reshape(a.sparse_indices, [1, 1]).one()?,
        1 => b.unsqueeze(a.sparse_indices, [1])?,
        _ => a.sparse_indices,
    };
    let values = match rank(b, a.sparse_values)? {
        0 => b.expand(a.sparse_values, b.shape(places).start(0).end(1).one()?)?,
        _ => a.sparse_values,
    };
    scattered(b, [canvas, places, values], None)
}

/// How many elements one step along each axis is, for a shape of `n` axes.
fn strides(b: &GraphBuilder, shape: Var, n: i64) -> Lowered<Var> {
    let ones = b.constant(Tensor::vector(vec![1i64]));
    let mut steps = vec![ones];
    for axis in (1..n).rev() {
        let size = b.slice(shape, [axis], [axis + 1]).axes([0]).one()?;
        steps.push(b.mul(steps[steps.len() - 1], size)?);
    }
    steps.truncate(n.max(0) as usize);
    steps.reverse();
    super::join::concatenated(b, steps, 0)
}

fn length(b: &GraphBuilder, shape: Var) -> Lowered<i64> {
    const AXES_MAX: i64 = 64;
    let known = b.dims_of(shape).and_then(|dims| dims.first().copied());
    known.filter(|n| (1..=AXES_MAX).contains(n)).ok_or_else(|| {
        let message = "The number of axes of a sparse tensor must be known.";
        b.diagnostic(Code::LayerUnsupported, message)
    })
}

/// Places in a tensor of another shape that has the same elements in their order.
fn sparse_reshape(b: &Lower, a: Reshaped) -> Lowered<[Var; 2]> {
    let [from, to] = [b.cast(a.input_shape, Int64)?, b.cast(a.new_shape, Int64)?];
    let (n, m) = (length(b, from)?, length(b, to)?);
    // An open size is what the others leave.
    let all = b.reduce_prod(from).keepdims(1).one()?;
    let others = b.abs(b.reduce_prod(to).keepdims(1).one()?)?;
    let rest = b.div(all, b.max([others, b.constant(Tensor::vector(vec![1i64]))])?)?;
    let to = b.where_(b.less(to, 0)?, rest, to)?;
    let places = b.mul(b.cast(a.input_indices, Int64)?, strides(b, from, n)?)?;
    let flat = b.reduce_sum(places).axes([1]).keepdims(1).one()?;
    let steps = b.div(flat, strides(b, to, m)?)?;
    Ok([b.mod_(steps, to).one()?, to])
}

/// Rows without a value get one in their first column.
fn fill_empty_rows(b: &Lower, a: Filled) -> Lowered<[Var; 4]> {
    let indices = b.cast(a.indices, Int64)?;
    let axes = length(b, a.dense_shape)?;
    let row = b.squeeze(b.slice(indices, [0], [1]).axes([1]).one()?).axes([1]).one()?;
    let count = b.slice(b.cast(a.dense_shape, Int64)?, [0], [1]).axes([0]).one()?;
    let zeros = filled(b, count, 0, Int64)?;
    let ones = b.expand(b.constant(scalar(1, Int64)), b.shape(row).one()?)?;
    let found = scattered(b, [zeros, b.unsqueeze(row, [1])?, ones], Some("add"))?;
    let is_empty = b.equal(found, 0)?;
    let empty = b.squeeze(b.non_zero(is_empty)?).axes([0]).one()?;
    let mut pads = vec![0; 4];
    pads[3] = axes - 1;
    let new = b.pad(b.unsqueeze(empty, [1])?, pads).one()?;
    let all = b.concat([indices, new]).axis(0).one()?;
    let default = b.expand(a.default_value, b.shape(empty).one()?)?;
    let values = b.concat([a.values, default]).axis(0).one()?;
    // In the order of rows; within one, as they were.
    let rows = b.concat([row, empty]).axis(0).one()?;
    let total = b.size(rows)?;
    let places = b.range(0, total, 1).one()?;
    let keys = b.add(b.mul(rows, total)?, places)?;
    let count = b.reshape(total, [1]).one()?;
    let [_, order] = b.top_k(keys, count).largest(0).outputs()?;
    let back = b.scatter_elements(order, order, places).axis(0).one()?;
    let back = b.slice(back, [0], b.shape(row).one()?).axes([0]).one()?;
    let turned = |x: Var| b.gather(x, order).axis(0).one();
    Ok([turned(all)?, turned(values)?, b.cast(is_empty, Bool)?, back])
}

/// The indices and the shape of a sparse matrix: of each row the elements that are true in `kept`, moved to the front.
/// Then where these elements were.
pub(crate) fn packed(b: &GraphBuilder, kept: Var) -> Lowered<([Var; 2], Var)> {
    let at = b.transpose(b.non_zero(kept)?).perm([1, 0]).one()?;
    let counts = b.cast(kept, Int64)?;
    let places = running_sum(b, counts, 1, [true, false])?;
    let places = b.unsqueeze(b.gather_nd(places, at).one()?, [1])?;
    let indices = b.concat([b.slice(at, [0], [1]).axes([1]).one()?, places]).axis(1).one()?;
    let lengths = b.reduce_sum(counts).axes([1]).keepdims(0).one()?;
    let longest = b.reduce_max(lengths).keepdims(1).one()?;
    let shape = b.concat([b.shape(kept).start(0).end(1).one()?, longest]).axis(0).one()?;
    Ok(([indices, shape], at))
}
