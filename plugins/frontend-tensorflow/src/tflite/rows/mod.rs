//! Operators that TFLite has otherwise than TensorFlow, by family.

use crate::ops::Source;
use onnxd_plugin_sdk::lower::Table;

/// The operators of TFLite that are none of TensorFlow's.
pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    table
}
