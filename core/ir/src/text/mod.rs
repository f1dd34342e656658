//! ONNX text, the standard's notation for people: tests, recipes and expected results are written
//! in it.
//!
//! What the notation cannot say is lost: documentation of graphs, nodes and values, node and value
//! metadata, source layers, quantization annotations, names of sub-graphs that are no identifiers,
//! and the payload of NaNs. What is printed is accepted by `onnx.parser`, apart from abbreviated
//! constants, sparse tensors, and words that its grammar cannot spell (quoted here).
//!
//! Elements of `float16`, `bfloat16` and the 8-bit floats are written as the integer of their bit
//! pattern, elements below 8 bits as packed bytes, complex ones as pairs; `float16[1] x = {1.5}` is
//! accepted as well.

mod ast;
mod header;
mod inline;
mod lexer;
mod literal;
mod lower;
mod names;
mod parse;
mod print;
mod print_literal;
#[cfg(test)]
mod tests;

pub(crate) use names::Id;

pub use inline::{inline, inline_text};
pub use names::{is_plain_identifier, plain_identifier};
pub use parse::{parse_graph, parse_model};
pub use print::{PrintOptions, print_graph, print_graph_with, print_model, print_model_with};

/// Nesting of sub-graphs and of types that is accepted.
pub(crate) const NESTING_MAX: usize = 32;

/// Attribute types, by their number in `AttributeProto.AttributeType`.
pub(crate) const KINDS: [&str; 15] = [
    "undefined", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings",
    "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type_proto", "type_protos",
];
