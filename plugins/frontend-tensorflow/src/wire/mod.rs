//! Bytes of TensorFlow's files: protobuf messages and the tensors inside.

pub(crate) mod dtype;
pub(crate) mod outline;
pub(crate) mod proto;
pub(crate) mod tensor;
pub(crate) mod text;
