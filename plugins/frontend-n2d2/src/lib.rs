//! Front-end for N2D2 networks: the INI text, connection maps and weights files.
//!
//! N2D2 spreads a network over an INI file, templates and one or more files per layer; this crate
//! reads all of them without running anything they contain.
#![allow(dead_code, unused_imports)]
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod diag {
    pub(crate) use onnxd_diagnostics::*;
}
mod ini;
mod mapping;
mod weights;
