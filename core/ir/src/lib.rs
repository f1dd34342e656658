//! The graph that every part of onnxd works on. It *is* ONNX: operators, attributes, types and semantics are the
//! standard's; what the standard cannot say (layer names, ranges) travels as metadata.
//!
//! Typed inside, protobuf between: a [`Model`] is decoded from and encoded to protobuf by `onnxd-onnx`.

// A diagnostic is built at most once per failing call; boxing it would only hide it.
#![allow(clippy::result_large_err)]

pub(crate) mod attr;
mod blocks;
mod convert;
mod derived;
mod dtype;
mod element;
mod examine;
mod finite;
mod gather;
mod graph;
mod id_map;
pub mod infer;
mod layers;
mod model;
mod names;
mod node;
pub mod ops;
mod part;
mod readers;
mod reals;
pub mod resize;
pub mod runtime;
mod same;
pub mod schema;
mod stored;
mod tensor;
pub mod text;
mod topology;
mod types;
mod value;
pub mod verify;
pub mod window;

pub use attr::Attr;
pub use blocks::{BlockFormat, BlockPart};
pub use convert::{convert, is_convertible};
pub use derived::{DERIVATIONS_MAX, Derivation, row_major};
pub use dtype::DataType;
pub use element::Element;
pub use examine::{by_gravity, examine, settle_shapes};
pub use graph::Graph;
pub use infer::{Facts, infer, infer_facts};
pub use layers::Layers;
pub use model::{Function, Model, Opsets};
pub use node::{Node, NodeId};
pub use ops::{At, Op};
pub use part::GraphPart;
pub use reals::{Reals, axis_at, broadcast, nearest_bf16, nearest_f16};
pub use same::{same_graph, same_node};
pub use stored::settle_stored;
pub use tensor::{SparseTensor, Tensor, TensorError, element_count};
pub use types::{Dim, Shape, ValueType};
pub use value::{Origin, Value, ValueId};
pub use verify::{VerifyLevel, verify, verify_structure};
