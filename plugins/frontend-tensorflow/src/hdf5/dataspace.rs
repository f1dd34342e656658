//! The sizes of a dataset.

use super::source::{Fields, Result, damaged};

/// How many elements there are.
pub(super) struct Space {
    pub(super) dims: Vec<u64>,
    /// How long axes may grow; some have no bound.
    pub(super) most: Vec<Option<u64>>,
    /// Whether it has no value.
    pub(super) has_none: bool,
}

impl Space {
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Space> {
        let version = fields.version("sizes", &[1, 2])?;
        let rank = usize::from(fields.u8()?);
        let has_most = fields.u8()? & 1 != 0;
        let has_none = fields.u8()? == 2 && version == 2;
        fields.skip(if version == 1 { 4 } else { 0 })?;
        let width = fields.source.size_width;
        let mut axes = || (0..rank).map(|_| fields.number(width)).collect::<Result<Vec<u64>>>();
        let dims = axes()?;
        let most = if has_most { axes()? } else { dims.clone() };
        let unbounded = u64::MAX >> (64 - 8 * width);
        let most = most.into_iter().map(|n| (n != unbounded).then_some(n)).collect();
        Ok(Space { dims, most, has_none })
    }

    /// How many elements there are.
    pub(super) fn count(&self) -> Result<u64> {
        if self.has_none {
            return Ok(0);
        }
        let count = self.dims.iter().try_fold(1u64, |n, dim| n.checked_mul(*dim));
        count.ok_or_else(|| damaged("sizes overflow"))
    }
}
