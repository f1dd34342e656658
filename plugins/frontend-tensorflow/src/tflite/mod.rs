//! TFLite models.

pub(crate) mod flat;
pub(crate) mod model;
pub(crate) mod operators;
pub(crate) mod options;
pub(crate) mod rows;

use crate::ops::{self, Source};
use onnxd_plugin_sdk::lower::Table;

/// All operators of TFLite models.
pub(crate) fn table() -> Table<Source> {
    rows::rows(Table::new()).with(ops::table())
}
