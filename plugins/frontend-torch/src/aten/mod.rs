//! How ATen operators are said in ONNX, by family. A row is the name of an operator, or of one of its overloads, and
//! the function that lowers it.

pub(crate) mod dtype;

use onnxd_plugin_sdk::lower::Table;

/// What rows need besides the graph.
#[derive(Debug, Default)]
pub(crate) struct Source {}

pub(crate) type Lower<'s> = onnxd_plugin_sdk::lower::Lower<'s, Source>;

/// All operators that can be lowered.
pub(crate) fn table() -> Table<Source> {
    Table::new()
}
