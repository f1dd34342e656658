//! Where the chunks of a dataset are. Five kinds of index tell it.

use super::arrays::Array;
use super::chunk::StoredChunk;
use super::dataspace::Space;
use super::source::{Fields, Hdf5Source, Result, damaged, unknown};
use super::tree::{RecordTree, walk_old};
use onnxd_plugin_sdk::diagnostics::refuse;

/// The kind of nodes of chunks in a tree of version 1.
const CHUNK_NODE: u8 = 1;

#[derive(Clone, Copy)]
enum Index {
    OldTree,
    /// One chunk, with its size and the filters that it did not go through, if there are filters.
    Single(Option<(u64, u32)>),
    /// Chunks one behind the other.
    Implicit,
    Fixed,
    Extensible,
    Tree,
}

/// The chunks of a dataset.
pub(super) struct Chunks {
    index: Index,
    address: Option<u64>,
    /// Elements along each axis.
    sizes: Vec<u64>,
    /// Bytes of a chunk.
    pub(super) bytes: u64,
    /// Chunks that reach beyond the dataset went through no filter.
    pub(super) has_plain_edges: bool,
}

/// What is done with a chunk at a position among chunks.
pub(super) type Each<'f> = dyn FnMut(&[u64], StoredChunk) -> Result<()> + 'f;

impl Chunks {
    /// Layouts before version 4 know only one index.
    pub(super) fn read_old(fields: &mut Fields<'_>, element: u64) -> Result<Chunks> {
        let count = fields.u8()?;
        let address = fields.address()?;
        Chunks::of_old(fields, count, address, element)
    }

    /// Before version 3 the fields come in another order.
    pub(super) fn of_old(
        fields: &mut Fields<'_>,
        count: u8,
        address: Option<u64>,
        element: u64,
    ) -> Result<Chunks> {
        Chunks::new(Index::OldTree, address, sizes(fields, usize::from(count), 4)?, element)
    }

    fn new(
        index: Index,
        address: Option<u64>,
        mut sizes: Vec<u64>,
        element: u64,
    ) -> Result<Chunks> {
        // The last axis is that of the bytes of an element.
        refuse!(sizes.pop() != Some(element) || sizes.is_empty() || sizes.contains(&0) =>
            damaged("a tensor has odd chunks"));
        let bytes = sizes.iter().try_fold(element, |n, size| n.checked_mul(*size));
        let bytes = bytes.ok_or_else(|| damaged("a chunk is too large"))?;
        Ok(Chunks { index, address, sizes, bytes, has_plain_edges: false })
    }

    /// Layouts from version 4 on.
    pub(super) fn read_new(fields: &mut Fields<'_>, element: u64) -> Result<Chunks> {
        let flags = fields.u8()?;
        let (count, width) = (usize::from(fields.u8()?), usize::from(fields.u8()?));
        let sizes = sizes(fields, count, width)?;
        let (index, params) = match fields.u8()? {
            1 if flags & 2 != 0 => (Index::Single(Some((fields.size()?, fields.u32()?))), 0),
            1 => (Index::Single(None), 0),
            2 => (Index::Implicit, 0),
            3 => (Index::Fixed, 1),
            4 => (Index::Extensible, 5),
            5 => (Index::Tree, 6),
            kind => return Err(unknown(format!("an index of chunks of kind {kind}"))),
        };
        // The index itself says these, too.
        fields.skip(params)?;
        let mut found = Chunks::new(index, fields.address()?, sizes, element)?;
        found.has_plain_edges = flags & 1 != 0;
        Ok(found)
    }

    pub(super) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Chunks along each axis of so many elements.
    pub(super) fn grid(&self, dims: &[u64]) -> Result<Vec<u64>> {
        refuse!(dims.len() != self.sizes.len() => damaged("a tensor and its chunks differ in rank"));
        Ok(dims.iter().zip(&self.sizes).map(|(n, size)| n.div_ceil(*size)).collect())
    }

    /// Hands on all chunks that are stored.
    pub(super) fn walk(
        &self,
        source: &Hdf5Source,
        space: &Space,
        each: &mut Each<'_>,
    ) -> Result<()> {
        let Some(address) = self.address else { return Ok(()) };
        let grid = self.grid(&space.dims)?;
        let whole = |address: u64| StoredChunk { address, size: self.bytes, skipped: 0 };
        match self.index {
            Index::OldTree => self.old_tree(source, address, each),
            Index::Tree => self.tree(source, address, each),
            Index::Single(filtered) => {
                let (size, skipped) = filtered.unwrap_or((self.bytes, 0));
                each(&vec![0; grid.len()], StoredChunk { address, size, skipped })
            }
            Index::Implicit => self.numbered(source, &grid, &space.most, &mut |at, number| {
                let place = number.checked_mul(self.bytes).and_then(|n| n.checked_add(address));
                each(at, whole(place.ok_or_else(|| damaged("a chunk is too far"))?))
            }),
            Index::Fixed | Index::Extensible => {
                let mut array = match self.index {
                    Index::Fixed => Array::fixed(source, address, self.bytes)?,
                    _ => Array::extensible(source, address, self.bytes)?,
                };
                self.numbered(source, &grid, &space.most, &mut |at, number| {
                    array.get(number)?.map_or(Ok(()), |stored| each(at, stored))
                })
            }
        }
    }

    fn old_tree(&self, source: &Hdf5Source, address: u64, each: &mut Each<'_>) -> Result<()> {
        let key = (CHUNK_NODE, 8 * (self.sizes.len() + 2));
        walk_old(source, address, key, &mut |mut key, address| {
            let (size, skipped) = (u64::from(key.u32()?), key.u32()?);
            let mut at = vec![];
            for size in &self.sizes {
                at.push(key.number(8)? / size);
            }
            each(&at, StoredChunk { address, size, skipped })
        })
    }

    fn tree(&self, source: &Hdf5Source, address: u64, each: &mut Each<'_>) -> Result<()> {
        let tree = RecordTree::open(source, address)?;
        // Records of chunks that went through filters have a size, and which filters were left out.
        let beside = source.address_width + 8 * self.sizes.len();
        let width = match tree.kind {
            10 => 0,
            11 => tree.record_width.saturating_sub(beside + 4),
            kind => return Err(unknown(format!("chunks in a tree of kind {kind}"))),
        };
        tree.walk(&mut |mut record| {
            let Some(address) = record.address()? else { return Ok(()) };
            let mut stored = StoredChunk { address, size: self.bytes, skipped: 0 };
            if tree.kind == 11 {
                (stored.size, stored.skipped) = (record.number(width)?, record.u32()?);
            }
            let mut at = vec![];
            for _ in &self.sizes {
                at.push(record.number(8)?);
            }
            each(&at, stored)
        })
    }

    /// Hands on the positions of all chunks with their numbers. These count the chunks to which the dataset may grow.
    /// An axis without bound counts slowest.
    fn numbered(
        &self,
        source: &Hdf5Source,
        grid: &[u64],
        most: &[Option<u64>],
        each: &mut dyn FnMut(&[u64], u64) -> Result<()>,
    ) -> Result<()> {
        let slowest = most.iter().position(Option::is_none).unwrap_or(0);
        let mut axes: Vec<usize> = (0..grid.len()).filter(|axis| *axis != slowest).collect();
        axes.insert(0, slowest);
        let far = || damaged("a tensor has too many chunks");
        let mut steps = vec![1u64; grid.len()];
        let mut step = 1u64;
        for axis in axes[1..].iter().rev() {
            steps[*axis] = step;
            let count = most[*axis].map(|n| n.div_ceil(self.sizes[*axis]));
            step = count.and_then(|n| step.checked_mul(n)).ok_or_else(far)?;
        }
        steps[slowest] = step;
        let mut at = vec![0; grid.len()];
        if grid.contains(&0) {
            return Ok(());
        }
        loop {
            source.count(1)?;
            let number = at
                .iter()
                .zip(&steps)
                .try_fold(0u64, |sum, (n, step)| sum.checked_add(step.checked_mul(*n)?));
            each(&at, number.ok_or_else(far)?)?;
            let Some(axis) = axes.iter().rev().find(|axis| at[**axis] + 1 < grid[**axis]) else {
                return Ok(());
            };
            // The axes behind it begin again.
            at[*axis] += 1;
            let behind = axes.iter().rev().take_while(|other| *other != axis);
            behind.for_each(|other| at[*other] = 0);
        }
    }
}

fn sizes(fields: &mut Fields<'_>, count: usize, width: usize) -> Result<Vec<u64>> {
    (0..count).map(|_| fields.number(width)).collect()
}
