//! Arrays read piece by piece along their first axis, so that data of any length takes the memory of a piece. They lie
//! in bytes that are mapped or in memory, as they are or deflated.

use crate::npy::{ArrayHeader, read_npy};
use crate::{ARRAYS_MAX, idx, npy};
use bytes::Bytes;
use flate2::CrcReader;
use flate2::read::{DeflateDecoder, GzDecoder};
use onnxd_ir::{DataType, Tensor};
use std::io::{Cursor, Read};
use zip::CompressionMethod;

/// An array of a file, of which only the header is read.
#[derive(Clone, Debug)]
pub struct StoredArray {
    name: String,
    layout: ArrayHeader,
    /// The array with its header, as the file has it.
    bytes: Bytes,
    packing: Packing,
    /// Whether the header is that of IDX.
    idx: bool,
}

/// What lies around an array and its header.
#[derive(Clone, Copy, Debug)]
enum Packing {
    None,
    /// An archive.
    Zip(ZipEntry),
    Gzip,
}

impl Packing {
    fn is_deflated(self) -> bool {
        matches!(self, Packing::Gzip | Packing::Zip(ZipEntry { deflated: true, .. }))
    }
}

/// Refuses an array that a few packed bytes blow up: to read it takes time and shows nothing.
fn no_bomb(layout: &ArrayHeader, packed: usize) -> Result<(), String> {
    let most = UNPACKED_BYTES_FREE.max(packed as u64 * UNPACKED_RATIO_MAX);
    match layout.bytes()? {
        bytes if bytes <= most => Ok(()),
        _ => Err(format!(
            "{packed} packed bytes should become an array of {:?}, and more than \
             {UNPACKED_RATIO_MAX} times their number is no data; write it unpacked, as \
             `numpy.savez` does, if it is meant",
            layout.dims
        )),
    }
}

#[derive(Clone, Copy, Debug)]
struct ZipEntry {
    deflated: bool,
    /// Bytes, unpacked.
    size: u64,
    crc32: u32,
}

/// Bytes up to which an array may unpack from any number of bytes.
const UNPACKED_BYTES_FREE: u64 = 64 << 20;
/// How many times its packed size an array beyond that may be. Deflate reaches 1032 with equal bytes; samples and
/// even masks that are mostly zero stay below 100.
const UNPACKED_RATIO_MAX: u64 = 200;

/// First bytes of a file that gzip packed.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Whether a file begins like one that [`stored`] reads.
#[must_use]
pub fn is_stored(bytes: &[u8]) -> bool {
    let starts = [npy::MAGIC, GZIP, b"PK\x03\x04", b"PK\x05\x06"];
    starts.iter().any(|start| bytes.starts_with(start)) || idx::is_idx(bytes)
}

/// The arrays of a `.npz` archive, or the one of a `.npy` or IDX file, which then has the name `stem`. An IDX file may
/// be packed by gzip.
///
/// # Errors
/// What is wrong with the file.
pub fn stored(bytes: &Bytes, stem: &str) -> Result<Vec<StoredArray>, String> {
    if bytes.starts_with(npy::MAGIC) {
        return Ok(vec![StoredArray::new(stem.to_owned(), bytes.clone(), Packing::None, false)?]);
    }
    let packing = if bytes.starts_with(GZIP) { Packing::Gzip } else { Packing::None };
    if idx::is_idx(bytes) || matches!(packing, Packing::Gzip) {
        return Ok(vec![StoredArray::new(stem.to_owned(), bytes.clone(), packing, true)?]);
    }
    let mut archive =
        zip::ZipArchive::new(Cursor::new(bytes.clone())).map_err(|e| e.to_string())?;
    if archive.len() > ARRAYS_MAX {
        return Err(format!("more than {ARRAYS_MAX} arrays"));
    }
    let mut unpacked = Unpacked::for_file_bytes(bytes.len() as u64);
    let mut arrays = Vec::with_capacity(archive.len());
    for i in 0..archive.len() {
        let array = entry(&mut archive, i, bytes)?;
        unpacked.add(array.layout.bytes()?)?;
        arrays.push(array);
    }
    Ok(arrays)
}

/// Bytes up to which all arrays of an archive may unpack from any number of bytes.
const ARCHIVE_BYTES_FREE: u64 = 256 << 20;

/// What the arrays of an archive take, summed up: one part of a file can be told to be many arrays.
pub(crate) struct Unpacked {
    left: u64,
    max: u64,
}

impl Unpacked {
    /// For a file of so many bytes.
    pub(crate) fn for_file_bytes(file_bytes: u64) -> Unpacked {
        let max = file_bytes.saturating_mul(UNPACKED_RATIO_MAX).max(ARCHIVE_BYTES_FREE);
        Unpacked { left: max, max }
    }

    /// Takes the bytes of one more array.
    pub(crate) fn add(&mut self, bytes: u64) -> Result<(), String> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            format!(
                "its arrays take more than {} bytes unpacked, the limit of a file of this size",
                self.max
            )
        })?;
        Ok(())
    }
}

fn entry(
    archive: &mut zip::ZipArchive<Cursor<Bytes>>,
    i: usize,
    bytes: &Bytes,
) -> Result<StoredArray, String> {
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
    let entry = ZipEntry { deflated, size: file.size(), crc32: file.crc32() };
    StoredArray::new(name, bytes.slice(start..end), Packing::Zip(entry), false)
}

/// Rows without elements: a few bytes could tell of any number, and reading them takes time.
const EMPTY_ROWS_MAX: usize = 1 << 16;

impl StoredArray {
    fn new(name: String, bytes: Bytes, packing: Packing, idx: bool) -> Result<StoredArray, String> {
        let (mut from, size) = open(&bytes, packing);
        let layout = header(&mut from, size, idx).map_err(|e| format!("array `{name}`: {e}"))?;
        if packing.is_deflated() {
            no_bomb(&layout, bytes.len()).map_err(|e| format!("array `{name}`: {e}"))?;
        }
        Ok(StoredArray { name, layout, bytes, packing, idx })
    }

    /// Whether it lies in an IDX file.
    #[must_use]
    pub fn is_idx(&self) -> bool {
        self.idx
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
    pub fn rows(&self) -> Result<ArrayRows, String> {
        let (mut from, size) = open(&self.bytes, self.packing);
        let dims = &self.layout.dims;
        let left = dims.first().copied().unwrap_or(1);
        let mut layout = self.layout.clone();
        let named = |e: String| format!("array `{}`: {e}", self.name);
        if left > EMPTY_ROWS_MAX && dims[1..].contains(&0) {
            return Err(named(format!("{left} rows without elements")));
        }
        if layout.fortran && dims.len() > 1 {
            let whole = read_npy(&mut from, size).map_err(named)?;
            (layout.fortran, layout.swapped) = (false, false);
            let bytes = whole.bytes().clone();
            let from = CrcReader::new(Packed::Plain(Cursor::new(bytes)));
            return Ok(ArrayRows { name: self.name.clone(), layout, from, left, crc32: None });
        }
        header(&mut from, size, self.idx).map_err(named)?;
        let crc32 = match self.packing {
            Packing::Zip(entry) => Some(entry.crc32),
            _ => None,
        };
        Ok(ArrayRows { name: self.name.clone(), layout, from, left, crc32 })
    }
}

fn header(from: &mut dyn Read, size: u64, idx: bool) -> Result<ArrayHeader, String> {
    if idx { idx::read_header(from, size) } else { ArrayHeader::read(from, size) }
}

/// The bytes of an array as they were before packing, and how many there are at most.
fn open(bytes: &Bytes, packing: Packing) -> (CrcReader<Packed>, u64) {
    let all = Cursor::new(bytes.clone());
    let (packed, size): (Packed, u64) = match packing {
        Packing::Zip(ZipEntry { deflated: true, size, .. }) => {
            (Packed::Deflated(DeflateDecoder::new(all)), size)
        }
        Packing::Gzip => (Packed::Gzip(GzDecoder::new(all)), u64::MAX),
        _ => (Packed::Plain(all), bytes.len() as u64),
    };
    (CrcReader::new(packed), size)
}

#[derive(Debug)]
enum Packed {
    Plain(Cursor<Bytes>),
    Deflated(DeflateDecoder<Cursor<Bytes>>),
    Gzip(GzDecoder<Cursor<Bytes>>),
}

impl Packed {
    /// Reads what must be the end, which is where gzip has its checksum.
    fn finish(&mut self) -> Result<(), String> {
        match self {
            Packed::Gzip(from) => match from.read(&mut [0]) {
                Ok(0) => Ok(()),
                Ok(_) => Err("more bytes than its header tells".into()),
                Err(e) => Err(e.to_string()),
            },
            _ => Ok(()),
        }
    }
}

impl Read for Packed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Packed::Plain(from) => from.read(into),
            Packed::Deflated(from) => from.read(into),
            Packed::Gzip(from) => from.read(into),
        }
    }
}

/// Reads an array along its first axis.
#[derive(Debug)]
pub struct ArrayRows {
    name: String,
    layout: ArrayHeader,
    from: CrcReader<Packed>,
    left: usize,
    /// Of all bytes, if the archive has one.
    crc32: Option<u32>,
}

impl ArrayRows {
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
        if last {
            self.from.get_mut().finish()?;
        }
        self.layout.tensor(dims, bytes)
    }
}
