//! Element types and sizes as the file says them.

use onnxd_plugin_sdk::ir::Dim;

/// TensorFlow's numbers of TFLite's element types.
const TYPES: [i32; 21] =
    [1, 19, 3, 4, 9, 7, 10, 5, 8, 6, 2, 18, 23, 20, 21, 22, 17, 29, 14, 31, 30];

/// The number that TensorFlow gives an element type of TFLite; 0 if there is none.
pub(crate) fn type_number(lite: i64) -> i32 {
    let index = usize::try_from(lite).ok();
    index.and_then(|index| TYPES.get(index)).copied().unwrap_or(0)
}

/// A size; negative ones vary.
pub(crate) fn dim(size: i64) -> Dim {
    if size < 0 { Dim::Unknown } else { Dim::Known(size) }
}
