//! Operators of `ai.onnx.ml`.

use crate::call::Row;

pub(crate) const ROWS: &[Row] = &[];
