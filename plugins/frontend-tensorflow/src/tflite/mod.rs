//! TFLite models.

pub(crate) mod arguments;
pub(crate) mod constant;
mod control;
mod dispatch;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod flat;
pub(crate) mod flex;
pub mod fuzzing;
mod item;
mod kept;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod operators;
pub(crate) mod options;
pub(crate) mod quantized;
mod resources;
pub(crate) mod rows;
mod scope;
mod select;
mod states;
mod tables;
mod types;
mod variables;

use crate::ops::{self, RowContext};
use onnxd_plugin_sdk::lower::Table;

/// All operators of TFLite models.
pub(crate) fn table() -> Table<RowContext> {
    rows::rows(Table::new()).with(ops::table())
}
