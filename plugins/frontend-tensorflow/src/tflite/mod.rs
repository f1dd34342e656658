//! TFLite models.

pub(crate) mod arguments;
pub(crate) mod constant;
mod control;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod flat;
pub(crate) mod flex;
pub mod fuzzing;
mod kept;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod operators;
pub(crate) mod options;
pub(crate) mod quantized;
pub(crate) mod rows;
pub(crate) mod run;
mod select;
mod states;
mod tables;
mod variables;

use crate::ops::{self, Source};
use onnxd_plugin_sdk::lower::Table;

/// All operators of TFLite models.
pub(crate) fn table() -> Table<Source> {
    rows::rows(Table::new()).with(ops::table())
}
