//! Arrays that tell where chunks are: those of a fixed size, and those that grow.

use super::chunk::StoredChunk;
use super::source::{Fields, Hdf5Source, Result, damaged};
use onnxd_plugin_sdk::diagnostics::refuse;

/// An array of places of chunks.
pub(super) struct Array<'a> {
    source: &'a Hdf5Source,
    kind: ArrayKind<'a>,
    /// Bytes of an entry.
    width: usize,
    /// Bytes of the size of a chunk that went through filters.
    size_width: Option<usize>,
    /// Bytes of a chunk that did not.
    whole: u64,
    /// Entries on a page; longer blocks are split into pages.
    page: u64,
    /// The entries that were read last.
    run: EntryRun<'a>,
}

/// Entries that lie together; none of them is there if there are no fields.
#[derive(Clone, Copy)]
struct EntryRun<'a> {
    begin: u64,
    count: u64,
    entries: Option<Fields<'a>>,
}

enum ArrayKind<'a> {
    Fixed { count: u64, block: Option<u64> },
    Extensible(Extensible<'a>),
}

struct Extensible<'a> {
    /// Entries in the first block itself.
    first: u64,
    entries: Fields<'a>,
    /// Entries of the smallest block.
    least: u64,
    /// Groups of blocks whose addresses are in the first block.
    direct: u64,
    blocks: Fields<'a>,
    /// Other groups.
    groups: Fields<'a>,
    groups_count: u64,
    /// Bytes of a place in the array.
    place_width: usize,
}

impl<'a> Array<'a> {
    fn read(source: &'a Hdf5Source, fields: &mut Fields<'a>, whole: u64) -> Result<Array<'a>> {
        fields.version("an array of chunks", &[0])?;
        let is_filtered = fields.u8()? == 1;
        let width = usize::from(fields.u8()?);
        let beside = source.address_width + if is_filtered { 4 } else { 0 };
        let Some(size_width) = width.checked_sub(beside) else {
            return Err(damaged("the entries of an array of chunks are too small"));
        };
        Ok(Array {
            source,
            kind: ArrayKind::Fixed { count: 0, block: None },
            width,
            size_width: is_filtered.then_some(size_width),
            whole,
            page: 0,
            run: EntryRun { begin: 0, count: 0, entries: None },
        })
    }

    fn set_page(&mut self, bits: u8) -> Result<()> {
        let page = 1u64.checked_shl(u32::from(bits));
        self.page = page.ok_or_else(|| damaged("the pages of an array are too large"))?;
        Ok(())
    }

    pub(super) fn fixed(source: &'a Hdf5Source, address: u64, whole: u64) -> Result<Array<'a>> {
        let mut fields = source.signed(address, b"FAHD")?;
        let mut array = Array::read(source, &mut fields, whole)?;
        array.set_page(fields.u8()?)?;
        array.kind = ArrayKind::Fixed { count: fields.size()?, block: fields.address()? };
        fields.checksum()?;
        Ok(array)
    }

    pub(super) fn extensible(
        source: &'a Hdf5Source,
        address: u64,
        whole: u64,
    ) -> Result<Array<'a>> {
        let mut fields = source.signed(address, b"EAHD")?;
        let mut array = Array::read(source, &mut fields, whole)?;
        let (bits, first) = (fields.u8()?, u64::from(fields.u8()?));
        let (least, pointers) = (u64::from(fields.u8()?), u64::from(fields.u8()?));
        array.set_page(fields.u8()?)?;
        fields.skip(6 * source.size_width)?;
        let block = fields.address()?;
        fields.checksum()?;
        let odd = || damaged("an array of chunks has odd sizes");
        refuse!(!least.is_power_of_two() || !pointers.is_power_of_two() || bits > 64 => odd());
        // Group `k` has 2^(k/2) blocks, and all groups before it have as many entries as it, less one block.
        let groups = (1 + u64::from(bits)).checked_sub(u64::from(least.ilog2())).ok_or_else(odd)?;
        let direct = 2 * u64::from(pointers.ilog2());
        let groups_count = groups.saturating_sub(direct);
        let Some(block) = block else {
            array.kind = ArrayKind::Fixed { count: u64::MAX, block };
            return Ok(array);
        };
        let mut fields = source.signed(block, b"EAIB")?;
        fields.skip(2 + source.address_width)?;
        let mut part = |count: u64, width: usize| -> Result<Fields<'a>> {
            Ok(source.fields(fields.take_of(count * width as u64)?))
        };
        let entries = part(first, array.width)?;
        let blocks = part(2 * (pointers - 1), source.address_width)?;
        let groups = part(groups_count, source.address_width)?;
        fields.checksum()?;
        let place_width = usize::from(bits).div_ceil(8);
        array.kind = ArrayKind::Extensible(Extensible {
            first,
            entries,
            least,
            direct,
            blocks,
            groups,
            groups_count,
            place_width,
        });
        Ok(array)
    }

    /// The chunk of a number.
    pub(super) fn get(&mut self, number: u64) -> Result<Option<StoredChunk>> {
        let within = number.checked_sub(self.run.begin).filter(|within| *within < self.run.count);
        if within.is_none() {
            self.run = match &self.kind {
                ArrayKind::Fixed { count, block } => self.in_fixed(number, *count, *block)?,
                ArrayKind::Extensible(array) => self.in_extensible(number, array)?,
            };
        }
        let Some(mut entries) = self.run.entries else { return Ok(None) };
        entries.take_of((number - self.run.begin) * self.width as u64)?;
        let address = entries.address()?;
        let (size, skipped) = match self.size_width {
            Some(width) => (entries.number(width)?, entries.u32()?),
            None => (self.whole, 0),
        };
        Ok(address.map(|address| StoredChunk { address, size, skipped }))
    }

    fn in_fixed(&self, number: u64, count: u64, block: Option<u64>) -> Result<EntryRun<'a>> {
        refuse!(number >= count => damaged(format!("an array has no chunk {number}")));
        let Some(address) = block else { return Ok(EntryRun { begin: 0, count, entries: None }) };
        let mut block = self.source.signed(address, b"FADB")?;
        block.skip(2 + self.source.address_width)?;
        if count <= self.page {
            return self.entries(block, 0, count);
        }
        let pages = block.take_of(count.div_ceil(self.page).div_ceil(8))?;
        block.checksum()?;
        self.on_page(block, (pages, 0), (0, count), number)
    }

    /// The entries that follow in a block, which ends with its checksum.
    fn entries(&self, mut block: Fields<'a>, begin: u64, count: u64) -> Result<EntryRun<'a>> {
        let entries = self.bytes(&mut block, count)?;
        block.checksum()?;
        Ok(EntryRun { begin, count, entries: Some(self.source.fields(entries)) })
    }

    fn bytes(&self, fields: &mut Fields<'a>, count: u64) -> Result<&'a [u8]> {
        fields.take_of(count.saturating_mul(self.width as u64))
    }

    /// The page that has a number, of a block of entries from `begin` on. `used` has a bit for each page from its bit
    /// `first` on; high bits come first.
    fn on_page(
        &self,
        mut block: Fields<'a>,
        (used, first): (&[u8], u64),
        (begin, count): (u64, u64),
        number: u64,
    ) -> Result<EntryRun<'a>> {
        let page = (number - begin) / self.page;
        let before = page * self.page;
        let count = self.page.min(count - before);
        let bit = first + page;
        let is_used =
            used.get((bit / 8) as usize).is_some_and(|bits| bits << (bit % 8) & 0x80 != 0);
        if !is_used {
            return Ok(EntryRun { begin: begin + before, count, entries: None });
        }
        self.bytes(&mut block, before)?;
        block.take_of(4 * page)?;
        let mut own = block.rest();
        let entries = self.bytes(&mut own, count)?;
        own.checksum()?;
        Ok(EntryRun { begin: begin + before, count, entries: Some(self.source.fields(entries)) })
    }

    fn in_extensible(&self, number: u64, array: &Extensible<'a>) -> Result<EntryRun<'a>> {
        let Some(within) = number.checked_sub(array.first) else {
            return Ok(EntryRun { begin: 0, count: array.first, entries: Some(array.entries) });
        };
        let outside = || damaged(format!("an array has no chunk {number}"));
        let group = (within / array.least).checked_add(1).ok_or_else(outside)?.ilog2();
        let group = u64::from(group);
        let before = array.least * ((1 << group) - 1);
        let count = array.least.checked_shl((group as u32).div_ceil(2)).ok_or_else(outside)?;
        let block = (within - before) / count;
        let begin = array.first + before + block * count;
        let absent = EntryRun { begin, count, entries: None };
        let is_paged = count > self.page;
        let mut used: (&[u8], u64) = (&[], 0);
        let address = match group.checked_sub(array.direct) {
            None => {
                let blocks_before: u64 = (0..group).map(|k| 1 << (k / 2)).sum();
                nth(array.blocks, blocks_before + block)?
            }
            Some(group) if group >= array.groups_count => return Err(outside()),
            Some(other) => {
                let Some(address) = nth(array.groups, other)? else { return Ok(absent) };
                let mut fields = self.source.signed(address, b"EASB")?;
                fields.skip(2 + self.source.address_width + array.place_width)?;
                let blocks = 1u64 << (group / 2);
                let pages = if is_paged { count / self.page } else { 0 };
                let bytes = blocks.checked_mul(pages.div_ceil(8)).ok_or_else(outside)?;
                used = (fields.take_of(bytes)?, block * pages);
                let addresses = fields.take_of(blocks * self.source.address_width as u64)?;
                fields.checksum()?;
                nth(self.source.fields(addresses), block)?
            }
        };
        let Some(address) = address else { return Ok(absent) };
        let mut fields = self.source.signed(address, b"EADB")?;
        fields.skip(2 + self.source.address_width + array.place_width)?;
        if !is_paged {
            return self.entries(fields, begin, count);
        }
        fields.checksum()?;
        self.on_page(fields, used, (begin, count), number)
    }
}

/// The address of this number.
fn nth(mut addresses: Fields<'_>, number: u64) -> Result<Option<u64>> {
    addresses.take_of(number * addresses.source.address_width as u64)?;
    addresses.address()
}
