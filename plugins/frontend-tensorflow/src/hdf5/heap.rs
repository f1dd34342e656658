//! Heaps: names of a group in one piece, words in collections, and the fractal heap of groups and objects with much
//! in them.

use super::source::{Fields, Hdf5Source, Result, damaged, unknown};
use super::tree::RecordTree;
use onnxd_plugin_sdk::diagnostics::refuse;
use std::collections::HashMap;

/// A link or an attribute has a name of at most this length.
const NAME_MAX: usize = 1 << 16;

/// A heap of names, each of which ends with a zero.
pub(super) struct NameHeap<'a> {
    source: &'a Hdf5Source,
    bytes: &'a [u8],
}

impl<'a> NameHeap<'a> {
    pub(super) fn open(source: &'a Hdf5Source, address: u64) -> Result<NameHeap<'a>> {
        let mut fields = source.signed(address, b"HEAP")?;
        fields.version("a heap", &[0])?;
        fields.skip(3)?;
        let size = fields.size()?;
        fields.skip(source.size_width)?;
        let bytes = source.at(fields.some_address()?, size)?;
        Ok(NameHeap { source, bytes })
    }

    pub(super) fn get(&self, at: u64) -> Result<&'a [u8]> {
        let rest = usize::try_from(at).ok().and_then(|at| self.bytes.get(at..));
        let end = rest.and_then(|rest| rest.iter().take(NAME_MAX).position(|byte| *byte == 0));
        let name = rest.zip(end).map(|(rest, end)| &rest[..end]);
        let name = name.ok_or_else(|| damaged("a name does not end"))?;
        self.source.spend(name.len())?;
        Ok(name)
    }
}

/// Collections of words that differ in length. The last one is remembered, because words of a list lie together.
#[derive(Default)]
pub(super) struct Collections<'a> {
    at: Option<u64>,
    objects: HashMap<u16, &'a [u8]>,
}

impl<'a> Collections<'a> {
    /// What the fields refer to: a length, an address and a number.
    pub(super) fn get(&mut self, fields: &mut Fields<'a>) -> Result<&'a [u8]> {
        let length = fields.u32()? as usize;
        let (address, index) = (fields.address()?, fields.u32()?);
        let address = address.filter(|address| *address != 0);
        let (Some(address), false) = (address, length == 0) else { return Ok(&[]) };
        if self.at != Some(address) {
            self.open(fields.source, address)?;
        }
        let object = u16::try_from(index).ok().and_then(|index| self.objects.get(&index));
        let object = object.and_then(|object| object.get(..length));
        object.ok_or_else(|| damaged(format!("the collection at {address} has no {index}")))
    }

    fn open(&mut self, source: &'a Hdf5Source, address: u64) -> Result<()> {
        let mut fields = source.signed(address, b"GCOL")?;
        fields.version("a collection", &[1])?;
        fields.skip(3)?;
        let size = fields.size()?;
        let mut fields = source.fields(source.at(address, size)?);
        fields.skip(8 + source.size_width)?;
        fields.align(8);
        self.at = Some(address);
        self.objects.clear();
        while fields.left() >= 16 {
            source.count(1)?;
            let index = fields.u16()?;
            fields.skip(6)?;
            let size = fields.size()?;
            fields.align(8);
            // The rest is free.
            if index == 0 {
                break;
            }
            self.objects.insert(index, fields.take_of(size)?);
            fields.align(8);
        }
        Ok(())
    }
}

/// A heap of blocks whose sizes double.
pub(super) struct Fractal<'a> {
    source: &'a Hdf5Source,
    id_width: usize,
    huge: Option<u64>,
    /// Blocks in a row, the size of the first, and the size of the largest.
    width: u64,
    first: u64,
    largest: u64,
    /// Bytes of a place in the heap, and of a length.
    place_width: usize,
    length_width: usize,
    root: Option<u64>,
    /// Rows of the root; none if it is a block itself.
    rows: u64,
}

impl<'a> Fractal<'a> {
    pub(super) fn open(source: &'a Hdf5Source, address: u64) -> Result<Fractal<'a>> {
        let mut fields = source.signed(address, b"FRHP")?;
        fields.version("a fractal heap", &[0])?;
        let id_width = usize::from(fields.u16()?);
        refuse!(fields.u16()? != 0 => unknown("a fractal heap with filters"));
        fields.skip(1)?;
        let object_max = u64::from(fields.u32()?);
        fields.skip(source.size_width)?;
        let huge = fields.address()?;
        fields.skip(source.size_width + source.address_width + 8 * source.size_width)?;
        let width = u64::from(fields.u16()?);
        let (first, largest) = (fields.size()?, fields.size()?);
        let bits = usize::from(fields.u16()?);
        fields.skip(2)?;
        let (root, rows) = (fields.address()?, u64::from(fields.u16()?));
        fields.checksum()?;
        let is_sound = width.is_power_of_two()
            && first.is_power_of_two()
            && largest.is_power_of_two()
            && first <= largest
            && first.checked_mul(width).is_some()
            && bits <= 64;
        refuse!(!is_sound => damaged("a fractal heap has odd sizes"));
        let bytes_of = |most: u64| most.checked_ilog2().map_or(1, |bits| bits as usize / 8 + 1);
        let block_width = (largest.ilog2() as usize).div_ceil(8);
        Ok(Fractal {
            source,
            id_width,
            huge,
            width,
            first,
            largest,
            place_width: bits.div_ceil(8),
            length_width: block_width.min(bytes_of(object_max)),
            root,
            rows,
        })
    }

    /// The object of an id.
    pub(super) fn get(&self, id: &mut Fields<'a>) -> Result<&'a [u8]> {
        let mut id = self.source.fields(id.take(self.id_width)?);
        let first = id.u8()?;
        match first >> 4 {
            0 => {
                let place = id.number(self.place_width)?;
                let length = id.number(self.length_width)?;
                self.managed(place, length)
            }
            1 => self.huge(&mut id),
            2 => {
                // Longer ids have a byte more for the length.
                let high = usize::from(first & 0xf);
                let length = match self.id_width > 17 {
                    true => high << 8 | usize::from(id.u8()?),
                    false => high,
                };
                id.take(length + 1)
            }
            kind => Err(damaged(format!("a heap has an id of kind {kind}"))),
        }
    }

    /// An object in a block. The heads of blocks count as places, too.
    fn managed(&self, place: u64, length: u64) -> Result<&'a [u8]> {
        let outside = || damaged(format!("a heap has no place {place}"));
        let mut block = self.root.ok_or_else(outside)?;
        let (mut rows, mut within, mut size) = (self.rows, place, self.first);
        while rows > 0 {
            // The first two rows have blocks of one size; then it doubles with each row.
            let row_size = self.first * self.width;
            let row = (within / row_size).checked_ilog2().map_or(0, |row| u64::from(row) + 1);
            let shift = row.saturating_sub(1);
            let before = if row == 0 { 0 } else { row_size << shift };
            let doubled = self.first.checked_mul(1 << shift).filter(|_| row < rows);
            size = doubled.ok_or_else(outside)?;
            let column = (within - before) / size;
            block = self.child(block, rows, row * self.width + column)?.ok_or_else(outside)?;
            within -= before + column * size;
            // The rows of a block of blocks are fewer than those around it.
            rows = match size <= self.largest {
                true => 0,
                false => 1 + u64::from((size / row_size).checked_ilog2().ok_or_else(outside)?),
            };
        }
        self.source.signed(block, b"FHDB")?;
        let end = within.checked_add(length).filter(|end| *end <= size);
        let at = end.and_then(|_| block.checked_add(within));
        self.source.at(at.ok_or_else(outside)?, length)
    }

    /// A block in a block of blocks.
    fn child(&self, block: u64, rows: u64, index: u64) -> Result<Option<u64>> {
        let width = self.source.address_width;
        let mut fields = self.source.signed(block, b"FHIB")?;
        fields.version("a block of a heap", &[0])?;
        fields.skip(width + self.place_width)?;
        let children = fields.take_of(rows * self.width * width as u64)?;
        fields.checksum()?;
        let mut children = self.source.fields(children);
        children.take_of(index * width as u64)?;
        children.address()
    }

    /// An object that lies outside of the blocks. A short id is a number that a tree knows.
    fn huge(&self, id: &mut Fields<'a>) -> Result<&'a [u8]> {
        if id.left() >= self.source.address_width + self.source.size_width {
            return self.source.at(id.some_address()?, id.size()?);
        }
        let number = id.number(id.left().min(8))?;
        let absent = || damaged(format!("a heap has no large object {number}"));
        let tree = RecordTree::open(self.source, self.huge.ok_or_else(absent)?)?;
        refuse!(tree.kind != 1 => unknown(format!("large objects in a tree of kind {}", tree.kind)));
        let mut place = None;
        tree.walk(&mut |mut record| {
            let found = (record.some_address()?, record.size()?);
            if record.size()? == number {
                place = Some(found);
            }
            Ok(())
        })?;
        let (address, length) = place.ok_or_else(absent)?;
        self.source.at(address, length)
    }
}
