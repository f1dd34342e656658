//! Arrays read piece by piece along their first axis, so that data of any length takes the memory of a piece. They lie
//! in bytes that are mapped or in memory, as they are or deflated.

use crate::npy::{Layout, read_npy};
use crate::{ARRAYS_MAX, npy};
use bytes::Bytes;
use flate2::CrcReader;
use flate2::read::DeflateDecoder;
use onnxd_ir::{DataType, Tensor};
use std::io::{Cursor, Read};
use zip::CompressionMethod;

/// An array of a file, of which only the header is read.
#[derive(Clone, Debug)]
pub struct Stored {
    name: String,
    layout: Layout,
    /// The array with its header, as the file has it.
    bytes: Bytes,
    /// Set for the entry of an archive.
    entry: Option<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    deflated: bool,
    /// Bytes, unpacked.
    size: u64,
    crc32: u32,
}

/// The arrays of a `.npz` archive, or the one of a `.npy` file, which then has the name `stem`.
///
/// # Errors
/// What is wrong with the file.
pub fn stored(bytes: &Bytes, stem: &str) -> Result<Vec<Stored>, String> {
    if bytes.starts_with(npy::MAGIC) {
        return Ok(vec![Stored::new(stem.to_owned(), bytes.clone(), None)?]);
    }
    let mut archive =
        zip::ZipArchive::new(Cursor::new(bytes.clone())).map_err(|e| e.to_string())?;
    if archive.len() > ARRAYS_MAX {
        return Err(format!("more than {ARRAYS_MAX} arrays"));
    }
    (0..archive.len()).map(|i| entry(&mut archive, i, bytes)).collect()
}

fn entry(
    archive: &mut zip::ZipArchive<Cursor<Bytes>>,
    i: usize,
    bytes: &Bytes,
) -> Result<Stored, String> {
    let file = archive.by_index_raw(i).map_err(|e| e.to_string())?;
    let name = file.name().map_err(|e| e.to_string())?.into_owned();
    let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
    let deflated = match file.compression() {
        _ if file.encrypted() => return Err(format!("array `{name}` is encrypted")),
        CompressionMethod::Stored => false,
        CompressionMethod::Deflated => true,
        other => return Err(format!("array `{name}` is packed by {other}")),
    };
    let start = file.data_start().and_then(|n| usize::try_from(n).ok());
    let size = usize::try_from(file.compressed_size()).ok();
    let end = start.zip(size).and_then(|(start, size)| start.checked_add(size));
    let range = start.zip(end).filter(|(_, end)| *end <= bytes.len());
    let (start, end) = range.ok_or_else(|| format!("array `{name}` lies beyond the file's end"))?;
    let entry = Entry { deflated, size: file.size(), crc32: file.crc32() };
    Stored::new(name, bytes.slice(start..end), Some(entry))
}

impl Stored {
    fn new(name: String, bytes: Bytes, entry: Option<Entry>) -> Result<Stored, String> {
        let (mut from, size) = open(&bytes, entry);
        let layout = Layout::read(&mut from, size).map_err(|e| format!("array `{name}`: {e}"))?;
        Ok(Stored { name, layout, bytes, entry })
    }

    /// Name of the array.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of its elements.
    #[must_use]
    pub fn dtype(&self) -> DataType {
        self.layout.dtype()
    }

    /// Its sizes.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.layout.dims
    }

    /// A reader that is at its beginning. An array whose first axis is the fastest has no rows in its file; it is read
    /// whole.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn rows(&self) -> Result<Rows, String> {
        let (mut from, size) = open(&self.bytes, self.entry);
        let dims = &self.layout.dims;
        let left = dims.first().copied().unwrap_or(1);
        let mut layout = self.layout.clone();
        let named = |e: String| format!("array `{}`: {e}", self.name);
        if layout.fortran && dims.len() > 1 {
            let whole = read_npy(&mut from, size).map_err(named)?;
            (layout.fortran, layout.swapped) = (false, false);
            let bytes = whole.bytes().clone();
            let from = CrcReader::new(Packed::Plain(Cursor::new(bytes)));
            return Ok(Rows { name: self.name.clone(), layout, from, left, crc32: None });
        }
        Layout::read(&mut from, size).map_err(named)?;
        let crc32 = self.entry.map(|e| e.crc32);
        Ok(Rows { name: self.name.clone(), layout, from, left, crc32 })
    }
}

/// The bytes of an array as they were before packing, and how many there are.
fn open(bytes: &Bytes, entry: Option<Entry>) -> (CrcReader<Packed>, u64) {
    let (packed, size) = match entry {
        Some(Entry { deflated: true, size, .. }) => {
            (Packed::Deflated(DeflateDecoder::new(Cursor::new(bytes.clone()))), size)
        }
        _ => (Packed::Plain(Cursor::new(bytes.clone())), bytes.len() as u64),
    };
    (CrcReader::new(packed), size)
}

#[derive(Debug)]
enum Packed {
    Plain(Cursor<Bytes>),
    Deflated(DeflateDecoder<Cursor<Bytes>>),
}

impl Read for Packed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Packed::Plain(from) => from.read(into),
            Packed::Deflated(from) => from.read(into),
        }
    }
}

/// Reads an array along its first axis.
#[derive(Debug)]
pub struct Rows {
    name: String,
    layout: Layout,
    from: CrcReader<Packed>,
    left: usize,
    /// Of all bytes, if the archive has one.
    crc32: Option<u32>,
}

impl Rows {
    /// The next `count` rows, fewer at the end; a scalar is one row of itself. `None` after the last.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn take(&mut self, count: usize) -> Result<Option<Tensor>, String> {
        let count = count.min(self.left);
        if count == 0 {
            return Ok(None);
        }
        let mut dims = self.layout.dims.clone();
        if let Some(first) = dims.first_mut() {
            *first = count;
        }
        let tensor = self.read(dims).map_err(|e| format!("array `{}`: {e}", self.name))?;
        self.left -= count;
        Ok(Some(tensor))
    }

    fn read(&mut self, dims: Vec<usize>) -> Result<Tensor, String> {
        let bytes = self.layout.take(&mut self.from, &dims)?;
        let last = dims.first().is_none_or(|count| *count == self.left);
        if let Some(wanted) = self.crc32.filter(|_| last) {
            std::io::copy(&mut self.from, &mut std::io::sink()).map_err(|e| e.to_string())?;
            if self.from.crc().sum() != wanted {
                return Err("its checksum is wrong".into());
            }
        }
        self.layout.tensor(dims, bytes)
    }
}
