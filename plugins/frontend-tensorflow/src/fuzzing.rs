//! The front-end without a host, for the fuzz targets in `fuzz/`: files are byte slices.
//!
//! No promise is made about this module; plugins are used through their header.

pub use crate::graph::fuzzing as graph;
pub use crate::keras::fuzzing as keras;
pub use crate::tflite::fuzzing as tflite;
