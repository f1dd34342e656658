//! Little-endian numbers at places of a file.

use crate::{Refused, damaged};

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Refused> {
    let found = at.checked_add(N).and_then(|end| bytes.get(at..end));
    found.and_then(|b| b.try_into().ok()).ok_or_else(|| damaged("it ends too early"))
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Refused> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Refused> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn i32_at(bytes: &[u8], at: usize) -> Result<i32, Refused> {
    array(bytes, at).map(i32::from_le_bytes)
}
