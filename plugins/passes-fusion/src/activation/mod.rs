//! Activations from their parts.

pub(crate) mod clip;
pub(crate) mod gelu;
pub(crate) mod hard;
pub(crate) mod mish;
pub(crate) mod softmax;
pub(crate) mod softplus;
pub(crate) mod swish;
