//! Sums and the like over segments.

use super::create::{number, scalar};
use super::scatter::scattered;
use super::shape::{Size, shape_of, size};
use super::{Lower, Source, of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::{self, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "SegmentSum" => |b, a: Sorted| sorted(b, a, Kind::Sum);
        "SegmentProd" => |b, a: Sorted| sorted(b, a, Kind::Prod);
        "SegmentMax" => |b, a: Sorted| sorted(b, a, Kind::Max);
        "SegmentMin" => |b, a: Sorted| sorted(b, a, Kind::Min);
        "SegmentMean" => |b, a: Sorted| sorted(b, a, Kind::Mean);
        "UnsortedSegmentSum" | "SegmentSumV2" => |b, a: Unsorted| unsorted(b, a, Kind::Sum);
        "UnsortedSegmentProd" | "SegmentProdV2" => |b, a: Unsorted| unsorted(b, a, Kind::Prod);
        "UnsortedSegmentMax" | "SegmentMaxV2" => |b, a: Unsorted| unsorted(b, a, Kind::Max);
        "UnsortedSegmentMin" | "SegmentMinV2" => |b, a: Unsorted| unsorted(b, a, Kind::Min);
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
pub(crate) enum Kind {
    Sum,
    Prod,
    Max,
    Min,
    Mean,
    /// The sum over the root of the number of rows.
    SqrtN,
}

impl Kind {
    fn reduction(self) -> &'static str {
        match self {
            Kind::Sum | Kind::Mean | Kind::SqrtN => "add",
            Kind::Prod => "mul",
            Kind::Max => "max",
            Kind::Min => "min",
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
            (Kind::Sum | Kind::Mean | Kind::SqrtN, _) => scalar(0, dtype),
            (Kind::Prod, _) => scalar(1, dtype),
            (Kind::Max, true) => most(-1.0),
            (Kind::Min, true) => most(1.0),
            (Kind::Max, false) => scalar(if signed { -top - 1 } else { 0 }, dtype),
            (Kind::Min, false) => scalar(top, dtype),
        }
    }
}

/// Rows of `data` gathered into `count` segments (a vector of one element).
fn gathered(b: &GraphBuilder, data: Var, ids: Var, count: Var, kind: Kind) -> Lowered<Var> {
    let known = rank(b, ids)?;
    let mut sizes = vec![Size::Computed(count)];
    for axis in known..rank(b, data)? {
        sizes.push(size(b, data, axis)?);
    }
    let shape = shape_of(b, &sizes)?;
    let first = b.expand(b.constant(kind.first(of(b, data)?)), shape)?;
    scattered(b, [first, b.unsqueeze(ids, [-1])?, data], Some(kind.reduction()))
}

fn sorted(b: &Lower, a: Sorted, kind: Kind) -> Lowered<Var> {
    sorted_by(b, a.data, a.segment_ids, None, kind)
}

/// Segments whose numbers do not fall: there are as many as the last one says, if `count` does not. Those without rows
/// are zero; their product is one.
pub(crate) fn sorted_by(
    b: &GraphBuilder,
    data: Var,
    ids: Var,
    count: Option<Var>,
    kind: Kind,
) -> Lowered<Var> {
    let ids = b.cast(ids, Int64)?;
    let count = match count {
        Some(count) => b.reshape(b.cast(count, Int64)?, [1]).one()?,
        None => b.add(last(b, ids)?, 1)?,
    };
    let y = gathered(b, data, ids, count, kind)?;
    if matches!(kind, Kind::Sum | Kind::Prod) {
        return Ok(y);
    }
    let dtype = of(b, data)?;
    let ones = b.expand(b.constant(scalar(1, dtype)), b.shape(ids).one()?)?;
    let rows = gathered(b, ones, ids, count, Kind::Sum)?;
    let behind: Vec<i64> = (1..rank(b, data)? as i64).collect();
    let rows = super::shape::unsqueezed(b, rows, &behind)?;
    let zero = b.constant(scalar(0, dtype));
    let at_least_one = || b.max([rows, b.constant(scalar(1, dtype))]);
    let y = match kind {
        Kind::Mean => b.div(y, at_least_one()?)?,
        Kind::SqrtN => b.div(y, b.sqrt(at_least_one()?)?)?,
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
fn unsorted(b: &Lower, a: Unsorted, kind: Kind) -> Lowered<Var> {
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
