//! Quantized graphs of the ONNX standard. A float graph gets `QuantizeLinear` and
//! `DequantizeLinear` pairs where values are to be integers (`QDQ`); operators between such pairs
//! become operators on integers (`QLinear`), and back.

mod request;

pub use request::{Overrides, Request, Settings};
