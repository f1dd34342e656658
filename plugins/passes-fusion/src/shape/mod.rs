//! Operators that rearrange or multiply, from what says the same at length.

pub(crate) mod depth_to_space;
pub(crate) mod einsum;
pub(crate) mod resize;
