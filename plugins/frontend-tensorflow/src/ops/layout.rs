//! Orders of axes: TensorFlow has channels last by default, ONNX has them first.

use super::shape::transposed;
use super::{Source, rank};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    table
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
    pub(crate) fn of(b: &GraphBuilder, format: &str) -> Lowered<Channels> {
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
