//! Sums and the like over segments.

use super::create::{number, scalar};
use super::scatter::scattered;
use super::shape::{DimSize, shape_of, size};
use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::{self, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "SegmentSum" => |b, a: Sorted| sorted(b, a, SegmentReduction::Sum);
        "SegmentProd" => |b, a: Sorted| sorted(b, a, SegmentReduction::Prod);
        "SegmentMax" => |b, a: Sorted| sorted(b, a, SegmentReduction::Max);
        "SegmentMin" => |b, a: Sorted| sorted(b, a, SegmentReduction::Min);
        "SegmentMean" => |b, a: Sorted| sorted(b, a, SegmentReduction::Mean);
        "UnsortedSegmentSum" | "SegmentSumV2" => |b, a: Unsorted| unsorted(b, a, SegmentReduction::Sum);
        "UnsortedSegmentProd" | "SegmentProdV2" => |b, a: Unsorted| unsorted(b, a, SegmentReduction::Prod);
        "UnsortedSegmentMax" | "SegmentMaxV2" => |b, a: Unsorted| unsorted(b, a, SegmentReduction::Max);
        "UnsortedSegmentMin" | "SegmentMinV2" => |b, a: Unsorted| unsorted(b, a, SegmentReduction::Min);
    }
}

arguments! {
    /// `SegmentSum`
    struct Sorted { data: Var, segment_ids: Var }
    /// `UnsortedSegmentSum`
    struct Unsorted { data: Var, segment_ids: Var, num_segments: Var }
}

/// What becomes of the rows of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentReduction {
    Sum,
    Prod,
    Max,
    Min,
    Mean,
    /// The sum over the root of the number of rows.
    SqrtN,
}

impl SegmentReduction {
    fn reduction(self) -> &'static str {
        match self {
            SegmentReduction::Sum | SegmentReduction::Mean | SegmentReduction::SqrtN => "add",
            SegmentReduction::Prod => "mul",
            SegmentReduction::Max => "max",
            SegmentReduction::Min => "min",
        }
    }

    /// What a segment is before any row.
    fn first(self, dtype: DataType) -> Tensor {
        let most = |sign: f64| match dtype {
            DataType::Float16 => number(65504.0 * sign, dtype),
            DataType::Bfloat16 => number(3.389_531_389_251_535_5e38 * sign, dtype),
            DataType::Double => number(f64::MAX * sign, dtype),
            _ => number(f64::from(f32::MAX) * sign, dtype),
        };
        let bits = dtype.bits() as u32;
        let signed = !matches!(
            dtype,
            DataType::Uint8 | DataType::Uint16 | DataType::Uint32 | DataType::Uint64
        );
        let top =
            if signed { i64::MAX >> (64 - bits.clamp(1, 64)) } else { (1i64 << bits.min(62)) - 1 };
        match (self, dtype.is_float()) {
            (SegmentReduction::Sum | SegmentReduction::Mean | SegmentReduction::SqrtN, _) => {
                scalar(0, dtype)
            }
            (SegmentReduction::Prod, _) => scalar(1, dtype),
            (SegmentReduction::Max, true) => most(-1.0),
            (SegmentReduction::Min, true) => most(1.0),
            (SegmentReduction::Max, false) => scalar(if signed { -top - 1 } else { 0 }, dtype),
            (SegmentReduction::Min, false) => scalar(top, dtype),
        }
    }
}

/// Rows of `data` gathered into `count` segments (a vector of one element).
fn gathered(
    b: &GraphBuilder,
    data: Var,
    ids: Var,
    count: Var,
    kind: SegmentReduction,
) -> Lowered<Var> {
    let known = rank(b, ids)?;
    let mut sizes = vec![DimSize::Computed(count)];
    for axis in known..rank(b, data)? {
        sizes.push(size(b, data, axis)?);
    }
    let shape = shape_of(b, &sizes)?;
    let first = b.expand(b.constant(kind.first(dtype_of(b, data)?)), shape)?;
    scattered(b, [first, b.unsqueeze(ids, [-1])?, data], Some(kind.reduction()))
}

fn sorted(b: &Lower, a: Sorted, kind: SegmentReduction) -> Lowered<Var> {
    sorted_by(b, a.data, a.segment_ids, None, kind)
}

/// Segments whose numbers do not fall: there are as many as the last one says, if `count` does not. Those without rows
/// are zero; their product is one.
pub(crate) fn sorted_by(
    b: &GraphBuilder,
    data: Var,
    ids: Var,
    count: Option<Var>,
    kind: SegmentReduction,
) -> Lowered<Var> {
    let ids = b.cast(ids, Int64)?;
    let count = match count {
        Some(count) => b.reshape(b.cast(count, Int64)?, [1]).one()?,
        None => b.add(last(b, ids)?, 1)?,
    };
    let y = gathered(b, data, ids, count, kind)?;
    if matches!(kind, SegmentReduction::Sum | SegmentReduction::Prod) {
        return Ok(y);
    }
    let dtype = dtype_of(b, data)?;
    let ones = b.expand(b.constant(scalar(1, dtype)), b.shape(ids).one()?)?;
    let rows = gathered(b, ones, ids, count, SegmentReduction::Sum)?;
    let behind: Vec<i64> = (1..rank(b, data)? as i64).collect();
    let rows = super::shape::unsqueezed(b, rows, &behind)?;
    let zero = b.constant(scalar(0, dtype));
    let at_least_one = || b.max([rows, b.constant(scalar(1, dtype))]);
    let y = match kind {
        SegmentReduction::Mean => b.div(y, at_least_one()?)?,
        SegmentReduction::SqrtN => b.div(y, b.sqrt(at_least_one()?)?)?,
        _ => y,
    };
    b.where_(b.equal(rows, zero)?, zero, y)
}

/// The last number, as a vector of one element; minus one if there is none.
fn last(b: &GraphBuilder, ids: Var) -> Lowered<Var> {
    let known = b.dims_of(ids).is_some_and(|dims| !dims.contains(&0));
    let none = b.constant(Tensor::vector(vec![-1i64]));
    let ids = if known { ids } else { b.concat([none, ids]).axis(0).one()? };
    b.gather(ids, [-1]).axis(0).one()
}

/// Rows with a negative number belong to no segment: they go into one more, which is cut off.
fn unsorted(b: &Lower, a: Unsorted, kind: SegmentReduction) -> Lowered<Var> {
    let ids = b.cast(a.segment_ids, Int64)?;
    let count = b.reshape(b.cast(a.num_segments, Int64)?, [1]).one()?;
    let constant = b.constant_of(a.segment_ids).and_then(|t| t.to_i64s());
    if constant.is_some_and(|ids| ids.iter().all(|id| *id >= 0)) {
        return gathered(b, a.data, ids, count, kind);
    }
    let ids = b.where_(b.less(ids, 0)?, count, ids)?;
    let y = gathered(b, a.data, ids, b.add(count, 1)?, kind)?;
    b.slice(y, [0], count).axes([0]).one()
}
