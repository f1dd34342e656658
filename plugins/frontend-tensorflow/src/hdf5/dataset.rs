//! Datasets: the type and sizes of a tensor, and its elements.

use super::chunk::StoredChunk;
use super::chunks::Chunks;
use super::dataspace::Space;
use super::datatype::Datatype;
use super::filters::Filters;
use super::header::{Object, kind};
use super::source::{Fields, Hdf5Source, Result, damaged, unknown};
use bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::refuse;
use std::borrow::Cow;

enum DataLayout<'a> {
    Compact(&'a [u8]),
    /// With the size, if it is said.
    Contiguous(Option<u64>, Option<u64>),
    Chunked(Chunks),
}

impl<'a> DataLayout<'a> {
    fn read(mut fields: Fields<'a>, element: u64) -> Result<DataLayout<'a>> {
        let version = fields.version("a layout", &[1, 2, 3, 4, 5])?;
        if version < 3 {
            return DataLayout::read_old(fields, element);
        }
        Ok(match fields.u8()? {
            0 => {
                let size = fields.u16()?;
                DataLayout::Compact(fields.take(usize::from(size))?)
            }
            1 => DataLayout::Contiguous(fields.address()?, Some(fields.size()?)),
            2 if version == 3 => DataLayout::Chunked(Chunks::read_old(&mut fields, element)?),
            2 => DataLayout::Chunked(Chunks::read_new(&mut fields, element)?),
            class => return Err(unknown(format!("a layout of class {class}"))),
        })
    }

    /// Before version 3, which came with HDF5 1.6.
    fn read_old(mut fields: Fields<'a>, element: u64) -> Result<DataLayout<'a>> {
        let (rank, class) = (fields.u8()?, fields.u8()?);
        fields.skip(5)?;
        let address = if class == 0 { None } else { fields.address()? };
        if class == 2 {
            return Ok(DataLayout::Chunked(Chunks::of_old(&mut fields, rank, address, element)?));
        }
        fields.skip(4 * usize::from(rank))?;
        match class {
            0 => {
                let size = fields.u32()?;
                Ok(DataLayout::Compact(fields.take_of(u64::from(size))?))
            }
            1 => Ok(DataLayout::Contiguous(address, None)),
            class => Err(unknown(format!("a layout of class {class}"))),
        }
    }
}

/// A tensor of the file.
pub(crate) struct Dataset<'a> {
    source: &'a Hdf5Source,
    object: Object<'a>,
    pub(crate) datatype: Datatype,
    space: Space,
}

/// Where the elements are.
pub(crate) enum Content {
    /// One behind the other in the file.
    View(Bytes),
    /// They should be in the file, and reach beyond it.
    Outside,
    /// They have to be unpacked, to so many bytes in all.
    Packed(u64),
}

impl<'a> Dataset<'a> {
    pub(super) fn open(source: &'a Hdf5Source, object: Object<'a>) -> Result<Dataset<'a>> {
        let datatype = Datatype::read(object.get(kind::DATATYPE)?)?;
        let space = Space::read(object.get(kind::SPACE)?)?;
        Ok(Dataset { source, object, datatype, space })
    }

    /// The sizes; none if the dataset has no value.
    pub(crate) fn shape(&self) -> Option<&[u64]> {
        (!self.space.has_none).then_some(&self.space.dims)
    }

    fn size(&self) -> Result<u64> {
        let size = self.space.count()?.checked_mul(u64::from(self.datatype.size));
        size.ok_or_else(|| damaged("sizes overflow"))
    }

    fn layout(&self) -> Result<DataLayout<'a>> {
        refuse!(self.object.has(kind::FILES) => unknown("a tensor in another file"));
        DataLayout::read(self.object.get(kind::LAYOUT)?, u64::from(self.datatype.size))
    }

    fn filters(&self) -> Result<Filters> {
        self.object.find(kind::FILTERS)?.map_or(Ok(Filters::default()), Filters::read)
    }

    pub(crate) fn content(&self) -> Result<Content> {
        let size = self.size()?;
        match self.layout()? {
            DataLayout::Contiguous(Some(begin), declared_size) => {
                refuse!(declared_size.is_some_and(|declared| declared < size) =>
                    damaged("a tensor is smaller than its sizes say"));
                let end = begin.checked_add(size).filter(|end| *end <= self.source.size());
                Ok(match end {
                    Some(end) => {
                        Content::View(self.source.bytes.slice(begin as usize..end as usize))
                    }
                    None => Content::Outside,
                })
            }
            DataLayout::Chunked(chunks) => {
                // A chunk is unpacked as a whole.
                let count = chunks.grid(&self.space.dims)?;
                let count =
                    count.iter().try_fold(self.filters()?.passes(), |n, m| n.checked_mul(*m));
                let size = count.and_then(|count| count.checked_mul(chunks.bytes));
                Ok(Content::Packed(size.unwrap_or(u64::MAX)))
            }
            _ => Ok(Content::Packed(size)),
        }
    }

    /// The elements that have to be unpacked. The caller knows of how many bytes.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        let size = usize::try_from(self.size()?).map_err(|_| damaged("sizes overflow"))?;
        match self.layout()? {
            DataLayout::Compact(bytes) => match bytes.get(..size) {
                Some(bytes) => Ok(bytes.to_vec()),
                None => Err(damaged("a tensor is smaller than its sizes say")),
            },
            DataLayout::Contiguous(..) => self.filled(size),
            DataLayout::Chunked(chunks) => self.unpacked(&chunks, size),
        }
    }

    /// A tensor of which nothing was written.
    fn filled(&self, size: usize) -> Result<Vec<u8>> {
        let mut all = vec![0; size];
        let fill = self.fill()?;
        if fill.iter().any(|byte| *byte != 0) {
            all.chunks_exact_mut(fill.len()).for_each(|element| element.copy_from_slice(fill));
        }
        Ok(all)
    }

    /// The element that stands for those that were not written.
    fn fill(&self) -> Result<&'a [u8]> {
        let mut fields = match self.object.find(kind::FILL)? {
            Some(mut fields) => match fields.version("an element to fill with", &[1, 2, 3])? {
                3 if fields.u8()? & 0x20 == 0 => return Ok(&[]),
                3 => fields,
                version => {
                    fields.skip(2)?;
                    if fields.u8()? == 0 && version == 2 {
                        return Ok(&[]);
                    }
                    fields
                }
            },
            None => match self.object.find(kind::OLD_FILL)? {
                Some(fields) => fields,
                None => return Ok(&[]),
            },
        };
        // What is negative says that there is none.
        let size = Some(fields.u32()?).filter(|size| *size <= i32::MAX as u32).unwrap_or(0);
        refuse!(size != 0 && size != self.datatype.size => damaged("an element to fill with has another size"));
        fields.take_of(u64::from(size))
    }

    fn unpacked(&self, chunks: &Chunks, size: usize) -> Result<Vec<u8>> {
        let filters = self.filters()?;
        let dims = &self.space.dims;
        let mut all = self.filled(size)?;
        if size == 0 {
            return Ok(all);
        }
        let bytes = usize::try_from(chunks.bytes).map_err(|_| damaged("a chunk is too large"))?;
        // A tree could name chunks more often than there are any.
        let mut left = chunks.grid(dims)?.iter().fold(1u64, |n, m| n.saturating_mul(*m));
        chunks.walk(self.source, &self.space, &mut |at, stored| {
            let many = || damaged("a tensor has too many chunks");
            left = left.checked_sub(1).ok_or_else(many)?;
            let part = ChunkPart::new(at, chunks.sizes(), dims);
            let Some(part) = part else { return Ok(()) };
            let StoredChunk { address, size, skipped } = stored;
            let raw = self.source.at(address, size)?;
            let chunk = match chunks.has_plain_edges && part.is_cut(chunks.sizes()) {
                true => Cow::Borrowed(raw),
                false => filters.undo(raw, skipped, bytes)?,
            };
            refuse!(chunk.len() != bytes => damaged("a chunk has another size"));
            part.copy(&chunk, &mut all, self.datatype.size as usize);
            Ok(())
        })?;
        Ok(all)
    }
}

/// The part of a chunk that is in the tensor. All products of sizes are below those of buffers that exist.
struct ChunkPart<'a> {
    begin: Vec<usize>,
    counts: Vec<usize>,
    sizes: &'a [u64],
    dims: &'a [u64],
}

impl<'a> ChunkPart<'a> {
    /// Of the chunk at a position among chunks; none if it is outside.
    fn new(at: &[u64], sizes: &'a [u64], dims: &'a [u64]) -> Option<ChunkPart<'a>> {
        let (mut begin, mut counts) = (vec![], vec![]);
        for ((at, size), dim) in at.iter().zip(sizes).zip(dims) {
            let first = at.checked_mul(*size)?;
            let count = dim.checked_sub(first).filter(|left| *left > 0)?.min(*size);
            begin.push(first as usize);
            counts.push(count as usize);
        }
        Some(ChunkPart { begin, counts, sizes, dims })
    }

    fn is_cut(&self, sizes: &[u64]) -> bool {
        self.counts.iter().zip(sizes).any(|(count, size)| *count as u64 != *size)
    }

    /// Copies rows along the last axis.
    fn copy(&self, chunk: &[u8], to: &mut [u8], element: usize) {
        let rank = self.counts.len();
        let row = self.counts[rank - 1] * element;
        let mut at = vec![0; rank];
        loop {
            let (mut from_row, mut to_row) = (0, 0);
            let bounds = self.sizes.iter().zip(self.dims).zip(&self.begin);
            for (n, ((size, dim), begin)) in at.iter().zip(bounds) {
                from_row = from_row * *size as usize + n;
                to_row = to_row * *dim as usize + begin + n;
            }
            let (from_row, to_row) = (from_row * element, to_row * element);
            to[to_row..to_row + row].copy_from_slice(&chunk[from_row..from_row + row]);
            let axis = (0..rank - 1).rev().find(|axis| at[*axis] + 1 < self.counts[*axis]);
            let Some(axis) = axis else { return };
            at[axis] += 1;
            at[axis + 1..].fill(0);
        }
    }
}
