//! Element types by torch's numbers, and the type in which operands of different types meet.

use onnxd_plugin_sdk::ir::DataType;

/// Numbers of c10's `ScalarType`, in their order.
const TYPES: [(i64, DataType); 16] = [
    (0, DataType::Uint8),
    (1, DataType::Int8),
    (2, DataType::Int16),
    (3, DataType::Int32),
    (4, DataType::Int64),
    (5, DataType::Float16),
    (6, DataType::Float),
    (7, DataType::Double),
    (9, DataType::Complex64),
    (10, DataType::Complex128),
    (11, DataType::Bool),
    (12, DataType::Int8),
    (13, DataType::Uint8),
    (14, DataType::Int32),
    (15, DataType::Bfloat16),
    (27, DataType::Uint16),
];

/// The element type of a number.
pub(crate) fn of_number(number: i64) -> Option<DataType> {
    TYPES.iter().find(|(n, _)| *n == number).map(|(_, dtype)| *dtype)
}

/// The number of an element type; -1 if torch has none.
pub(crate) fn number(dtype: DataType) -> i64 {
    TYPES.iter().find(|(_, d)| *d == dtype).map_or(-1, |(n, _)| *n)
}
