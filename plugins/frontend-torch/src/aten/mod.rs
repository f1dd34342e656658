//! How ATen operators are said in ONNX, by family.
