//! Orders of axes: TensorFlow has channels last by default, ONNX has them first.

use super::shape::transposed;
use super::{RowContext, dtype_of, rank, size_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "DataFormatDimMap" => |b, a: Formats| {
            let place = |c: char| a.dst_format.find(c).map(|at| at as i64);
            let places: Option<Vec<i64>> = a.src_format.chars().map(place).collect();
            b.gather(listed(b, a.x, places)?, a.x).axis(0).one()
        };
        "DataFormatVecPermute" => |b, a: Formats| permuted(b, a);
    }
}

arguments! {
    /// `DataFormatDimMap`
    struct Formats { x: Var, src_format: String, dst_format: String }
}

/// Places as a constant of the type of `x`.
fn listed(b: &GraphBuilder, x: Var, places: Option<Vec<i64>>) -> Lowered<Var> {
    let Some(places) = places else {
        return Err(b.diagnostic(Code::LayerParameter, "The orders of axes name different axes."));
    };
    b.cast(b.constant(Tensor::vector(places)), dtype_of(b, x)?)
}

/// Numbers for each axis, or for the spatial ones, in another order of axes.
fn permuted(b: &GraphBuilder, a: Formats) -> Lowered<Var> {
    let Some(size) = size_of(b, a.x, 0) else {
        let message = "How many numbers are in another order must be known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let spatial = size == a.src_format.len() as i64 - 2;
    let axes = |format: &str| -> String {
        format.chars().filter(|c| !(spatial && matches!(c, 'N' | 'C'))).collect()
    };
    let (from, to) = (axes(&a.src_format), axes(&a.dst_format));
    let places = to.chars().map(|c| from.find(c).map(|at| at as i64)).collect::<Option<Vec<_>>>();
    b.gather(a.x, listed(b, a.x, places)?).axis(0).one()
}

/// Where the channels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    First,
    Last,
}

impl Channels {
    /// Reads `NHWC`, `NCDHW`, `channels_last` and the like.
    ///
    /// # Errors
    /// `N0203` for other orders.
    pub(crate) fn from_format(b: &GraphBuilder, format: &str) -> Lowered<Channels> {
        match format {
            "NHWC" | "NDHWC" | "NWC" | "channels_last" | "CHANNELS_LAST" => Ok(Channels::Last),
            "NCHW" | "NCDHW" | "NCW" | "channels_first" | "CHANNELS_FIRST" => Ok(Channels::First),
            other => {
                let message =
                    format!("The order of axes `{}` has no counterpart in ONNX.", shown(other));
                Err(b.diagnostic(Code::LayerUnsupported, message))
            }
        }
    }

    /// The items of a list in this order that belong to spatial axes.
    pub(crate) fn spatial(self, list: &[i64]) -> Vec<i64> {
        match (self, list.len()) {
            (_, 0..3) => list.to_vec(),
            (Channels::First, _) => list[2..].to_vec(),
            (Channels::Last, n) => list[1..n - 1].to_vec(),
        }
    }

    /// `x` with channels first.
    pub(crate) fn first(self, b: &GraphBuilder, x: Var) -> Lowered<Var> {
        match self {
            Channels::First => Ok(x),
            Channels::Last => channels_first(b, x),
        }
    }

    /// What a function of a tensor with channels first makes of `x`.
    pub(crate) fn within(
        self,
        b: &GraphBuilder,
        x: Var,
        f: impl FnOnce(Var) -> Lowered<Var>,
    ) -> Lowered<Var> {
        self.back(b, f(self.first(b, x)?)?)
    }

    /// A result with channels first, as the source has it.
    pub(crate) fn back(self, b: &GraphBuilder, y: Var) -> Lowered<Var> {
        match self {
            Channels::First => Ok(y),
            Channels::Last => channels_last(b, y),
        }
    }
}

/// The order of axes that moves the last one behind the first.
pub(crate) fn channels_first(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let perm: Vec<i64> = [0, n - 1].into_iter().chain(1..n - 1).collect();
    transposed(b, x, &perm)
}

/// The order of axes that moves the second one to the end.
pub(crate) fn channels_last(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let perm: Vec<i64> = [0].into_iter().chain(2..n).chain([1]).collect();
    transposed(b, x, &perm)
}
