//! Quantized graphs of the ONNX standard. A float graph gets `QuantizeLinear` and
//! `DequantizeLinear` pairs where values are to be integers (`QDQ`); operators between such pairs
//! become operators on integers (`QLinear`), and back.

mod report;
mod request;
pub mod weight;

pub use report::{Done, Form, LeftInFloat, QuantizedLayer, QuantizedTensor, name_of};
pub use request::{Overrides, Request, Settings};
