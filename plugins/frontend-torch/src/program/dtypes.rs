//! The numbers that exported programs have for dtypes, memory formats and layouts.
//!
//! They differ from those of TorchScript. The rest of the front-end has TorchScript's numbers alone.

use onnxd_plugin_sdk::ir::DataType::{self, *};
use serde::{Deserialize, Deserializer, de::Error};

/// Number in exported programs, number in TorchScript, and the type of ONNX.
const DTYPES: &[(i64, i64, Option<DataType>)] = &[
    (1, 0, Some(Uint8)),
    (2, 1, Some(Int8)),
    (3, 2, Some(Int16)),
    (4, 3, Some(Int32)),
    (5, 4, Some(Int64)),
    (6, 5, Some(Float16)),
    (7, 6, Some(Float)),
    (8, 7, Some(Double)),
    (9, 8, None),
    (10, 9, Some(Complex64)),
    (11, 10, Some(Complex128)),
    (12, 11, Some(Bool)),
    (13, 15, Some(Bfloat16)),
    (28, 27, Some(Uint16)),
    (29, 24, Some(Float8E4M3FN)),
    (30, 23, Some(Float8E5M2)),
    (31, 26, Some(Float8E4M3FNUZ)),
    (32, 25, Some(Float8E5M2FNUZ)),
    (33, 44, Some(Float8E8M0)),
    (34, 28, Some(Uint32)),
    (35, 29, Some(Uint64)),
];

/// By the number in exported programs, from 1: contiguous, channels last (2D and 3D), as it is.
const MEMORY_FORMATS: [i64; 4] = [0, 2, 3, 1];

/// By the number in exported programs, from 1: sparse (COO, CSR, CSC, BSR, BSC), MKLDNN, strided.
const LAYOUTS: [i64; 7] = [1, 2, 4, 5, 6, 3, 0];

/// The type of a tensor.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<DataType>, D::Error> {
    Ok(row::<D::Error>(i64::deserialize(from)?)?.2)
}

/// TorchScript's number of a dtype.
pub(super) fn dtype<E: Error>(number: i64) -> Result<i64, E> {
    Ok(row::<E>(number)?.1)
}

pub(super) fn memory_format<E: Error>(number: i64) -> Result<i64, E> {
    nth(&MEMORY_FORMATS, number).ok_or_else(|| E::custom(format!("unknown memory format {number}")))
}

pub(super) fn layout<E: Error>(number: i64) -> Result<i64, E> {
    nth(&LAYOUTS, number).ok_or_else(|| E::custom(format!("unknown layout {number}")))
}

fn row<E: Error>(number: i64) -> Result<&'static (i64, i64, Option<DataType>), E> {
    let row = DTYPES.iter().find(|(exported, ..)| *exported == number);
    row.ok_or_else(|| E::custom(format!("unknown dtype {number}")))
}

fn nth(numbers: &[i64], number: i64) -> Option<i64> {
    numbers.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}
