//! Element types of TensorFlow, by their numbers.

use onnxd_plugin_sdk::build::GraphBuilder;
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Argument, Value};

pub(crate) const RESOURCE: i32 = 20;
pub(crate) const VARIANT: i32 = 21;

/// From this number on, types are references to variables of TensorFlow 1.
const REFERENCE: i32 = 100;

/// Numbers of TensorFlow's types, their words, and ONNX's types. Quantized types are their integers.
const TYPES: [(i32, &str, DataType); 31] = [
    (1, "float", DataType::Float),
    (2, "double", DataType::Double),
    (3, "int32", DataType::Int32),
    (4, "uint8", DataType::Uint8),
    (5, "int16", DataType::Int16),
    (6, "int8", DataType::Int8),
    (7, "string", DataType::String),
    (8, "complex64", DataType::Complex64),
    (9, "int64", DataType::Int64),
    (10, "bool", DataType::Bool),
    (11, "qint8", DataType::Int8),
    (12, "quint8", DataType::Uint8),
    (13, "qint32", DataType::Int32),
    (14, "bfloat16", DataType::Bfloat16),
    (15, "qint16", DataType::Int16),
    (16, "quint16", DataType::Uint16),
    (17, "uint16", DataType::Uint16),
    (18, "complex128", DataType::Complex128),
    (19, "half", DataType::Float16),
    (22, "uint32", DataType::Uint32),
    (23, "uint64", DataType::Uint64),
    (24, "float8_e5m2", DataType::Float8E5M2),
    (25, "float8_e4m3fn", DataType::Float8E4M3FN),
    (26, "float8_e4m3fnuz", DataType::Float8E4M3FNUZ),
    (28, "float8_e5m2fnuz", DataType::Float8E5M2FNUZ),
    (29, "int4", DataType::Int4),
    (30, "uint4", DataType::Uint4),
    (31, "int2", DataType::Int2),
    (32, "uint2", DataType::Uint2),
    (33, "float4_e2m1fn", DataType::Float4E2M1),
    (0, "invalid", DataType::Float),
];

/// The type with this number; `None` for resources, variants and numbers that are none.
pub(crate) fn dtype_of_number(number: i32) -> Option<DataType> {
    let number = if number > REFERENCE { number - REFERENCE } else { number };
    TYPES.iter().find(|(n, ..)| *n == number && n != &0).map(|(.., dtype)| *dtype)
}

/// The number of the type with this word, as `operators.txt` writes it.
pub(crate) fn number_of(word: &str) -> i32 {
    match TYPES.iter().find(|(_, w, _)| *w == word) {
        Some((number, ..)) => *number,
        None if word == "resource" => RESOURCE,
        None if word == "variant" => VARIANT,
        None => 0,
    }
}

/// An attribute that names an element type, as an argument of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementType(pub(crate) DataType);

impl Argument for ElementType {
    const WHAT: &'static str = "an element type";

    fn of(value: &Value, _: Option<&GraphBuilder>) -> Option<ElementType> {
        let Value::Int(number) = value else { return None };
        dtype_of_number(i32::try_from(*number).ok()?).map(ElementType)
    }
}

impl From<DataType> for ElementType {
    fn from(dtype: DataType) -> ElementType {
        ElementType(dtype)
    }
}
