//! Trees of both versions. Both hand on what their leaves hold, from the first to the last.

use super::source::{Fields, Hdf5Source, Result, damaged};
use onnxd_plugin_sdk::diagnostics::refuse;

/// Levels of a tree. Each has at least twice as many nodes as the one above.
const LEVELS_MAX: usize = 64;

/// Hands on the keys and children of the leaves of a tree of version 1.
pub(super) fn walk_old(
    source: &Hdf5Source,
    address: u64,
    (node_kind, key_width): (u8, usize),
    each: &mut dyn FnMut(Fields<'_>, u64) -> Result<()>,
) -> Result<()> {
    let level = node_level(source, address)?;
    refuse!(usize::from(level) >= LEVELS_MAX => damaged(format!("a tree has {level} levels")));
    old_node(source, address, (node_kind, key_width, level), each)
}

fn node_level(source: &Hdf5Source, address: u64) -> Result<u8> {
    let mut fields = source.signed(address, b"TREE")?;
    fields.skip(1)?;
    fields.u8()
}

fn old_node(
    source: &Hdf5Source,
    address: u64,
    (node_kind, key_width, level): (u8, usize, u8),
    each: &mut dyn FnMut(Fields<'_>, u64) -> Result<()>,
) -> Result<()> {
    let mut fields = source.signed(address, b"TREE")?;
    refuse!((fields.u8()?, fields.u8()?) != (node_kind, level) =>
        damaged(format!("the node at {address} is of another tree")));
    let count = fields.u16()?;
    fields.skip(2 * source.address_width)?;
    source.count(u64::from(count))?;
    for _ in 0..count {
        let key = source.fields(fields.take(key_width)?);
        let child = fields.some_address()?;
        match level {
            0 => each(key, child)?,
            _ => old_node(source, child, (node_kind, key_width, level - 1), each)?,
        }
    }
    Ok(())
}

/// A tree of version 2.
pub(super) struct RecordTree<'a> {
    source: &'a Hdf5Source,
    pub(super) kind: u8,
    pub(super) record_width: usize,
    /// What is known of the nodes of each level, from the leaves on.
    levels: Vec<TreeLevel>,
    root: Option<u64>,
    records: u64,
}

/// Bytes that counts take in the nodes above: the records of a node, and those of it and all below.
struct TreeLevel {
    count_width: usize,
    total_width: usize,
}

/// Bytes of a number up to this one.
fn width_of(most: u64) -> usize {
    most.checked_ilog2().unwrap_or(0) as usize / 8 + 1
}

impl<'a> RecordTree<'a> {
    pub(super) fn open(source: &'a Hdf5Source, address: u64) -> Result<RecordTree<'a>> {
        let mut fields = source.signed(address, b"BTHD")?;
        fields.version("a tree", &[0])?;
        let kind = fields.u8()?;
        let node_size = u64::from(fields.u32()?);
        let record_width = usize::from(fields.u16()?);
        let depth = usize::from(fields.u16()?);
        fields.skip(2)?;
        let root = fields.address()?;
        let records = u64::from(fields.u16()?);
        fields.skip(source.size_width)?;
        fields.checksum()?;
        refuse!(depth >= LEVELS_MAX => damaged(format!("a tree has {depth} levels")));
        // What follows is as the format counts it: a node has ten bytes beside its records and children.
        let fits = |beside: usize, each: usize| {
            let room = node_size.checked_sub(10 + beside as u64)?;
            room.checked_div(each as u64).filter(|count| *count > 0)
        };
        let small = || damaged("the nodes of a tree are too small");
        let leaf = fits(0, record_width).ok_or_else(small)?;
        let count_width = width_of(leaf);
        let mut levels = vec![TreeLevel { count_width, total_width: 0 }];
        let mut total = leaf;
        for _ in 0..depth {
            let below = levels.last().map_or(0, |level| level.total_width);
            let child = source.address_width + count_width + below;
            let most = fits(child, record_width + child).ok_or_else(small)?;
            total = most.saturating_add(1).saturating_mul(total).saturating_add(most);
            levels.push(TreeLevel { count_width, total_width: width_of(total) });
        }
        Ok(RecordTree { source, kind, record_width, levels, root, records })
    }

    /// Hands on all records.
    pub(super) fn walk(&self, each: &mut dyn FnMut(Fields<'a>) -> Result<()>) -> Result<()> {
        let Some(root) = self.root else { return Ok(()) };
        self.node(root, self.levels.len() - 1, self.records, each)
    }

    fn node(
        &self,
        address: u64,
        level: usize,
        records: u64,
        each: &mut dyn FnMut(Fields<'a>) -> Result<()>,
    ) -> Result<()> {
        let signature = if level == 0 { b"BTLF" } else { b"BTIN" };
        let mut fields = self.source.signed(address, signature)?;
        fields.version("a node", &[0])?;
        refuse!(fields.u8()? != self.kind => damaged(format!("the node at {address} is of another tree")));
        self.source.count(records)?;
        let mut found = fields;
        fields.take_of(records.saturating_mul(self.record_width as u64))?;
        let mut children = fields;
        if let Some(below) = level.checked_sub(1).map(|below| &self.levels[below]) {
            let child = self.source.address_width + below.count_width + below.total_width;
            fields.take_of((records + 1).saturating_mul(child as u64))?;
        }
        fields.checksum()?;
        for i in 0..=records {
            if let Some(below) = level.checked_sub(1) {
                let child = children.some_address()?;
                let count = children.number(self.levels[below].count_width)?;
                children.skip(self.levels[below].total_width)?;
                self.node(child, below, count, each)?;
            }
            if i < records {
                each(self.source.fields(found.take(self.record_width)?))?;
            }
        }
        Ok(())
    }
}
