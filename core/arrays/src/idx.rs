//! IDX, the form of MNIST's files: a magic number that tells type and rank, sizes and elements with their highest byte
//! first.

use crate::npy::ArrayHeader;
use onnxd_ir::DataType;
use std::io::Read;

/// Largest rank that is read.
const RANK_MAX: u8 = 32;

/// What the third byte of a file says.
fn dtype(code: u8) -> Option<DataType> {
    Some(match code {
        0x08 => DataType::Uint8,
        0x09 => DataType::Int8,
        0x0b => DataType::Int16,
        0x0c => DataType::Int32,
        0x0d => DataType::Float,
        0x0e => DataType::Double,
        _ => return None,
    })
}

/// Whether a file begins like one of these.
pub(crate) fn is_idx(bytes: &[u8]) -> bool {
    matches!(bytes, [0, 0, code, rank, ..] if dtype(*code).is_some() && (1..=RANK_MAX).contains(rank))
}

/// Reads a header. The data after it must fit in `size` bytes.
pub(crate) fn read_header(from: &mut dyn Read, size: u64) -> Result<ArrayHeader, String> {
    let mut magic = [0; 4];
    from.read_exact(&mut magic).map_err(|e| e.to_string())?;
    let Some(dtype) = dtype(magic[2]).filter(|_| is_idx(&magic)) else {
        return Err("it does not begin like an IDX file".into());
    };
    let mut dims = Vec::new();
    for _ in 0..magic[3] {
        let mut word = [0; 4];
        from.read_exact(&mut word).map_err(|e| e.to_string())?;
        dims.push(u32::from_be_bytes(word) as usize);
    }
    let header = 4 + 4 * u64::from(magic[3]);
    ArrayHeader::of_numbers(dtype, dims, true, size.saturating_sub(header))
}
