//! Reductions from their parts. ONNX Runtime takes longer for them, so they run on demand only.

pub(crate) mod norms;
pub(crate) mod pool;
