//! The front-end for PyTorch files: TorchScript archives and exported programs, read without Python.
//!
//! An archive gives a program and its weights ([`archive`], [`script`], [`program`]). The machine runs the program on
//! values of a graph that it builds on the way: what Python computes is computed, what tensors compute becomes nodes
//! ([`machine`]). Each ATen operator has a row in a table of its family ([`aten`]), with the signature that torch
//! declares ([`schema`]).
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod archive;
mod aten;
mod machine;
mod program;
mod schema;
mod script;

mod diag {
    pub(crate) use onnxd_plugin_sdk::diagnostics::*;
}
