//! What a file is, its members, the objects and tensors in it.

#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod fuzzing;
pub(crate) mod kind;
pub(crate) mod objects;
pub(crate) mod weights;
pub(crate) mod zip;

pub(crate) use onnxd_plugin_sdk::pickle;
pub(crate) use pickle::problem::{damaged, over_limit, truncated, unsupported};
pub(crate) use pickle::storage;
