//! A file that messages are encoded into. Large byte arrays go straight from their memory map to the
//! file, so writing takes a fixed amount of memory however large the model is.

use crate::packed::LARGE_BYTES;
use crate::sink::{Placement, TensorSink};
use bytes::buf::UninitSlice;
use bytes::{Buf, BufMut, Bytes};
use memmap2::MmapOptions;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::Tensor;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, Write};

/// Keeps derived tensors out of a message: bytes without meaning stand for each until it is written.
///
/// Protobuf wants lengths first, and gets them so for tensors anywhere in the message. All stand-ins lie in one piece
/// of address space without memory behind it, each from a place of its own on.
#[derive(Default)]
pub(crate) struct StandIns {
    space: Bytes,
    tensors: HashMap<usize, Tensor>,
    placed: usize,
}

impl TensorSink for StandIns {
    fn place(&mut self, tensor: &Tensor) -> Result<Placement, Diagnostic> {
        // Messages of small tensors are encoded before they get here.
        if tensor.derivation().is_none() || tensor.byte_len() < LARGE_BYTES {
            return Ok(Placement::Inline);
        }
        let (place, len) = (self.placed, tensor.byte_len());
        self.placed += 1;
        if self.space.len() < place + len {
            // A former piece lives as long as the message that refers to it.
            let space = MmapOptions::new().len(place + len + PLACES).no_reserve_swap().map_anon();
            let space = space.and_then(memmap2::MmapMut::make_read_only).map_err(|error| {
                let text = format!("no address space for a tensor of {len} bytes: {error}");
                Diagnostic::new(Code::OutOfMemory, text)
            })?;
            self.space = Bytes::from_owner(space);
        }
        let bytes = self.space.slice(place..place + len);
        self.tensors.insert(bytes.as_ptr() as usize, tensor.clone());
        Ok(Placement::StandIn(bytes))
    }
}

/// Bytes that are collected before they are written; more are not copied.
const BUFFER_BYTES: usize = 1 << 16;
/// Bytes of a memory map that are brought in and written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// Places for stand-ins beyond the longest one, so that a piece of address space serves many.
const PLACES: usize = 1 << 16;

/// Has Linux map all pages of a part. `write` copies without waiting for pages: at the first one that is
/// not there, Linux clears the rest of the part of the file that it was about to fill, and begins anew.
/// Reading them here would do as well, but kills the process where a mapped file was cut.
fn bring_in(bytes: &[u8]) {
    let before = bytes.as_ptr().addr() % page_bytes();
    let (start, length) = (bytes.as_ptr().wrapping_sub(before), bytes.len() + before);
    // Where it fails, as before Linux 5.14, writing is slower, and it is `write` that tells what is wrong.
    // SAFETY: pages are read from disk, and nothing else happens to them. They are those of `bytes`,
    // which is a multiple of no page: Linux takes the first one whole, and fills up the last one.
    let _ = unsafe { libc::madvise(start.cast_mut().cast(), length, libc::MADV_POPULATE_READ) };
}

/// Bytes of a page of this machine.
fn page_bytes() -> usize {
    // SAFETY: it asks for a number, and has no effect.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(1 << 12).max(1)
}

/// A buffered file that prost can encode into.
pub(crate) struct StreamWriter {
    file: File,
    buffer: Vec<u8>,
    written: u64,
    stand_ins: StandIns,
    /// The first error; encoding cannot stop early, so it is kept until the end.
    error: Option<io::Error>,
}

impl StreamWriter {
    pub(crate) fn new(file: File) -> StreamWriter {
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        let stand_ins = StandIns::default();
        StreamWriter { file, buffer, written: 0, stand_ins, error: None }
    }

    /// As [`StreamWriter::new`], behind the bytes that the file has.
    pub(crate) fn behind(file: File, written: u64) -> StreamWriter {
        StreamWriter { written, ..StreamWriter::new(file) }
    }

    /// Has tensors written where the bytes are put that stand for them.
    pub(crate) fn with(self, stand_ins: StandIns) -> StreamWriter {
        StreamWriter { stand_ins, ..self }
    }

    /// Bytes put so far, and those before.
    pub(crate) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes what is left; the number of bytes.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.flush();
        if self.error.is_none() && !self.stand_ins.tensors.is_empty() {
            self.error = Some(io::Error::other("a tensor was not written"));
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.written),
        }
    }

    /// Puts the elements of a tensor; derived ones are computed a block at a time.
    pub(crate) fn put_tensor(&mut self, tensor: &Tensor) {
        // After an error, what would be written is not worth computing.
        let is_derived = tensor.derivation().is_some();
        let _ = tensor.in_blocks(|block| {
            // What a map shows is not read here.
            match is_derived && block.len() >= BUFFER_BYTES && block.iter().all(|byte| *byte == 0) {
                true => self.put_hole(block.len()),
                false => self.put_slice(block),
            }
            if self.error.is_some() { Err(()) } else { Ok(()) }
        });
    }

    /// Zeros that take no room on the disk.
    fn put_hole(&mut self, len: usize) {
        self.flush();
        self.written += len as u64;
        if self.error.is_none() {
            // The limit of a file's size holds for holes, too.
            let hole = self.file.set_len(self.written);
            self.error = hole.and_then(|()| self.file.seek_relative(len as i64)).err();
        }
    }

    fn flush(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.write(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(WRITE_BYTES) {
            if self.error.is_some() {
                break;
            }
            bring_in(part);
            self.error = self.file.write_all(part).err();
        }
        self.written += bytes.len() as u64;
    }
}

// SAFETY: `chunk_mut` lends the spare capacity of `buffer`, which is never empty: a full buffer is written
// and emptied first, and keeps its capacity. `advance_mut` only lengthens `buffer` by what the caller filled,
// which was lent by the last `chunk_mut`, as nothing writes the buffer between the two.
unsafe impl BufMut for StreamWriter {
    fn remaining_mut(&self) -> usize {
        usize::MAX
    }

    unsafe fn advance_mut(&mut self, count: usize) {
        // SAFETY: the caller promises that it filled `count` bytes of what `chunk_mut` lent, which is the
        // spare capacity of `buffer`.
        unsafe { self.buffer.advance_mut(count) }
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        if self.buffer.len() == self.buffer.capacity() {
            self.flush();
        }
        self.buffer.chunk_mut()
    }

    fn put<T: Buf>(&mut self, mut source: T) {
        while source.has_remaining() {
            let chunk = source.chunk();
            let length = chunk.len();
            // Each is written once.
            match self.stand_ins.tensors.remove(&(chunk.as_ptr() as usize)) {
                Some(tensor) => self.put_tensor(&tensor),
                None => self.put_slice(chunk),
            }
            source.advance(length);
        }
    }

    fn put_slice(&mut self, source: &[u8]) {
        if source.len() > self.buffer.capacity() - self.buffer.len() {
            self.flush();
        }
        if source.len() >= BUFFER_BYTES {
            self.write(source);
        } else {
            self.buffer.extend_from_slice(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnx::{ModelProto, TensorProto};
    use prost::Message;

    #[test]
    fn a_streamed_message_equals_an_encoded_one() {
        let sizes = [0, 1, 4095, BUFFER_BYTES - 8, BUFFER_BYTES, BUFFER_BYTES + 1];
        let tensors = sizes.iter().map(|size| TensorProto {
            raw_data: Some(vec![7u8; *size].into()),
            name: Some("w".repeat(300)),
            ..TensorProto::default()
        });
        let graph =
            onnxd_proto::onnx::GraphProto { initializer: tensors.collect(), ..Default::default() };
        let model = ModelProto { graph: Some(graph), ..ModelProto::default() };

        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = StreamWriter::new(file.reopen().unwrap());
        model.encode(&mut writer).unwrap();
        let expected = model.encode_to_vec();
        assert_eq!(writer.position(), expected.len() as u64);
        assert_eq!(writer.finish().unwrap(), expected.len() as u64);
        let mut found = Vec::new();
        io::Read::read_to_end(&mut file, &mut found).unwrap();
        assert!(found == expected);
    }

    /// Zeros that were computed take no room on the disk, wherever they stand, and are there all the same.
    #[test]
    fn zeros_are_holes() {
        let (zeros, ones) = (vec![0u8; 3 << 20], vec![1u8; 5 << 10]);
        for parts in [[&zeros, &ones, &zeros], [&ones, &zeros, &ones], [&zeros, &zeros, &zeros]] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            let mut writer = StreamWriter::new(file.reopen().unwrap());
            for part in parts {
                let tensor = Tensor::vector(part.clone()).cast(onnxd_ir::DataType::Int8).unwrap();
                writer.put_tensor(&tensor);
            }
            let wanted = parts.map(|part| &part[..]).concat();
            assert_eq!(writer.finish().unwrap(), wanted.len() as u64);
            let mut found = Vec::new();
            io::Read::read_to_end(&mut file, &mut found).unwrap();
            assert!(found == wanted);
            let data = file.as_file().metadata().unwrap();
            assert!(std::os::unix::fs::MetadataExt::blocks(&data) * 512 < 1 << 18);
        }
    }

    #[test]
    fn the_spare_capacity_is_never_empty() {
        let mut writer = StreamWriter::new(tempfile::tempfile().unwrap());
        for _ in 0..2 * BUFFER_BYTES {
            assert!(writer.chunk_mut().len() > 0);
            writer.put_u8(1);
        }
        assert_eq!(writer.finish().unwrap(), 2 * BUFFER_BYTES as u64);
    }

    #[test]
    fn a_mapped_file_that_was_cut_is_an_error() {
        let source = tempfile::tempfile().unwrap();
        source.set_len(4 * WRITE_BYTES as u64).unwrap();
        // SAFETY: what is cut below is given to `bring_in` and `write` alone, which have Linux read it.
        let map = unsafe { memmap2::Mmap::map(&source) }.unwrap();
        let write = || {
            let mut writer = StreamWriter::new(tempfile::tempfile().unwrap());
            writer.put_slice(&map[100..]);
            writer.finish()
        };
        assert_eq!(write().unwrap(), map.len() as u64 - 100);
        source.set_len(WRITE_BYTES as u64).unwrap();
        assert_eq!(write().unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn a_full_disk_is_an_error_at_the_end() {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut writer = StreamWriter::new(file);
        writer.put_slice(&[0; 100]);
        assert!(writer.finish().is_err());
    }
}
