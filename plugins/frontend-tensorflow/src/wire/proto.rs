//! The messages of TensorFlow's protobuf files, with the fields that a conversion reads. Others are skipped.

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};
use std::collections::HashMap;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SavedModel {
    #[prost(int64, tag = "1")]
    pub(crate) saved_model_schema_version: i64,
    #[prost(message, repeated, tag = "2")]
    pub(crate) meta_graphs: Vec<MetaGraphDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetaGraphDef {
    #[prost(message, optional, tag = "1")]
    pub(crate) meta_info_def: Option<MetaInfoDef>,
    #[prost(message, optional, tag = "2")]
    pub(crate) graph_def: Option<GraphDef>,
    #[prost(message, optional, tag = "3")]
    pub(crate) saver_def: Option<SaverDef>,
    #[prost(map = "string, message", tag = "5")]
    pub(crate) signature_def: HashMap<String, SignatureDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetaInfoDef {
    #[prost(string, repeated, tag = "4")]
    pub(crate) tags: Vec<String>,
    #[prost(string, tag = "5")]
    pub(crate) tensorflow_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SaverDef {
    #[prost(string, tag = "1")]
    pub(crate) filename_tensor_name: String,
    #[prost(string, tag = "3")]
    pub(crate) restore_op_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SignatureDef {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) inputs: HashMap<String, TensorInfo>,
    #[prost(map = "string, message", tag = "2")]
    pub(crate) outputs: HashMap<String, TensorInfo>,
    #[prost(string, tag = "3")]
    pub(crate) method_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "2")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) tensor_shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeDef>,
    #[prost(message, optional, tag = "2")]
    pub(crate) library: Option<FunctionDefLibrary>,
    #[prost(message, optional, tag = "4")]
    pub(crate) versions: Option<VersionDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionDef {
    #[prost(int32, tag = "1")]
    pub(crate) producer: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionDefLibrary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) function: Vec<FunctionDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionDef {
    #[prost(message, optional, tag = "1")]
    pub(crate) signature: Option<OpDef>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) node_def: Vec<NodeDef>,
    #[prost(map = "string, string", tag = "4")]
    pub(crate) ret: HashMap<String, String>,
    #[prost(map = "string, message", tag = "5")]
    pub(crate) attr: HashMap<String, AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OpDef {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) input_arg: Vec<ArgDef>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) output_arg: Vec<ArgDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ArgDef {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "3")]
    pub(crate) r#type: i32,
    #[prost(string, tag = "4")]
    pub(crate) type_attr: String,
    #[prost(string, tag = "5")]
    pub(crate) number_attr: String,
    #[prost(string, tag = "6")]
    pub(crate) type_list_attr: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDef {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) op: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) input: Vec<String>,
    #[prost(map = "string, message", tag = "5")]
    pub(crate) attr: HashMap<String, AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttrValue {
    #[prost(oneof = "Attr", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(crate) value: Option<Attr>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Attr {
    #[prost(message, tag = "1")]
    List(ListValue),
    #[prost(bytes = "bytes", tag = "2")]
    S(Bytes),
    #[prost(int64, tag = "3")]
    I(i64),
    #[prost(float, tag = "4")]
    F(f32),
    #[prost(bool, tag = "5")]
    B(bool),
    #[prost(int32, tag = "6")]
    Type(i32),
    #[prost(message, tag = "7")]
    Shape(TensorShapeProto),
    #[prost(message, tag = "8")]
    Tensor(TensorProto),
    #[prost(string, tag = "9")]
    Placeholder(String),
    #[prost(message, tag = "10")]
    Func(NameAttrList),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListValue {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) s: Vec<Bytes>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) i: Vec<i64>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) f: Vec<f32>,
    #[prost(bool, repeated, tag = "5")]
    pub(crate) b: Vec<bool>,
    #[prost(int32, repeated, tag = "6")]
    pub(crate) r#type: Vec<i32>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) shape: Vec<TensorShapeProto>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) tensor: Vec<TensorProto>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) func: Vec<NameAttrList>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NameAttrList {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(map = "string, message", tag = "2")]
    pub(crate) attr: HashMap<String, AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShapeProto {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dim: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub(crate) unknown_rank: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dim {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
}

/// A constant. `tensor_content` has its bytes, else one of the lists its elements, of which the last one repeats.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) tensor_shape: Option<TensorShapeProto>,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) tensor_content: Bytes,
    #[prost(float, repeated, tag = "5")]
    pub(crate) float_val: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub(crate) double_val: Vec<f64>,
    #[prost(int32, repeated, tag = "7")]
    pub(crate) int_val: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub(crate) string_val: Vec<Bytes>,
    #[prost(float, repeated, tag = "9")]
    pub(crate) scomplex_val: Vec<f32>,
    #[prost(int64, repeated, tag = "10")]
    pub(crate) int64_val: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    pub(crate) bool_val: Vec<bool>,
    #[prost(double, repeated, tag = "12")]
    pub(crate) dcomplex_val: Vec<f64>,
    #[prost(int32, repeated, tag = "13")]
    pub(crate) half_val: Vec<i32>,
    #[prost(uint32, repeated, tag = "16")]
    pub(crate) uint32_val: Vec<u32>,
    #[prost(uint64, repeated, tag = "17")]
    pub(crate) uint64_val: Vec<u64>,
    #[prost(bytes = "bytes", tag = "18")]
    pub(crate) float8_val: Bytes,
}

/// Of a checkpoint's index: the entry under the empty key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BundleHeaderProto {
    #[prost(int32, tag = "1")]
    pub(crate) num_shards: i32,
    #[prost(enumeration = "Endianness", tag = "2")]
    pub(crate) endianness: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
pub(crate) enum Endianness {
    Little = 0,
    Big = 1,
}

/// Of a checkpoint's index: where a tensor lies.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BundleEntryProto {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShapeProto>,
    #[prost(int32, tag = "3")]
    pub(crate) shard_id: i32,
    #[prost(int64, tag = "4")]
    pub(crate) offset: i64,
    #[prost(int64, tag = "5")]
    pub(crate) size: i64,
    #[prost(fixed32, tag = "6")]
    pub(crate) crc32c: u32,
    #[prost(message, repeated, tag = "7")]
    pub(crate) slices: Vec<TensorSliceProto>,
}

/// Part of a variable that is stored in parts.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorSliceProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) extent: Vec<Extent>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Extent {
    #[prost(int64, tag = "1")]
    pub(crate) start: i64,
    #[prost(int64, optional, tag = "2")]
    pub(crate) length: Option<i64>,
}
