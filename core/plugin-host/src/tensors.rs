//! The tensors and mapped files of one worker, by id.
//!
//! The table outlives single plugin calls, so that a front-end's weights reach the passes and the
//! writer of the model without a copy: every entry is a `Bytes` over a map or a buffer.

use crate::Refusal;
use crate::element::tensor_bytes;
use crate::recipe::Derived;
use crate::scratch::{ScratchFile, ScratchPages};
use bytes::Bytes;
use memmap2::{Mmap, MmapMut, UncheckedAdvice};
use onnxd_diagnostics::refuse;
use onnxd_plugin_abi as abi;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// What a table holds at most, more than a file may define; beyond it there is no memory.
const ENTRIES_MAX: usize = 1 << 23;
/// Alignment promised for new tensors, in bytes.
const ALIGNMENT: usize = 64;
/// New tensors from this size on get pages of their own, which sealing makes read-only.
const OWN_PAGES_BYTES: u64 = 64 * 1024;

/// A finished tensor.
#[derive(Clone, Debug)]
pub struct Array {
    /// `TensorProto.DataType`.
    pub dtype: i32,
    /// Shape.
    pub dims: Arc<[i64]>,
    /// Elements: little-endian, row-major, below 8 bits packed.
    pub bytes: Bytes,
}

/// Memory a plugin is still writing. The host makes no reference to its contents before sealing.
pub(crate) enum TensorRoom {
    Pages(MmapMut),
    /// The same in a file.
    Scratch(MmapMut, Arc<File>),
    /// A buffer and where its aligned part begins.
    Heap(Vec<u8>, usize),
}

pub(crate) enum TensorEntry {
    Mapped(Bytes),
    Open { dtype: i32, dims: Arc<[i64]>, len: usize, room: TensorRoom },
    Sealed(Array),
    Derived(Arc<Derived>),
}

#[derive(Default)]
struct Entries {
    by_id: HashMap<u64, TensorEntry>,
    last: u64,
}

/// Tensors and mapped files by id. Ids are never used again.
#[derive(Default)]
pub struct TensorTable {
    entries: RwLock<Entries>,
    /// By path: the id, and how often it was mapped and not given back.
    files: Mutex<HashMap<PathBuf, (u64, usize)>>,
    /// The maps of files, by id, as long as they are in use.
    maps: Mutex<Vec<(u64, Weak<Mmap>)>>,
    /// Entries that tensors lie in.
    aliased: Mutex<HashSet<u64>>,
    /// Derived tensors that a plugin wanted to see, as long as one runs.
    pub(crate) computed: Mutex<HashMap<u64, Bytes>>,
    running: AtomicUsize,
    /// Where large tensors lie that memory need not hold.
    scratch: Option<ScratchFile>,
}

impl TensorTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Arc<TensorTable> {
        Arc::default()
    }

    /// An empty table whose new tensors lie in a file without a name on the disk of `folder`, but for some.
    #[must_use]
    pub fn on_disk(folder: PathBuf) -> Arc<TensorTable> {
        Arc::new(TensorTable { scratch: Some(ScratchFile::new(folder)), ..TensorTable::default() })
    }

    /// Adds a finished tensor, sharing `bytes`.
    ///
    /// # Errors
    /// If the length is not what dtype and dims come to, or the table is full.
    pub fn insert(&self, dtype: i32, dims: &[i64], bytes: Bytes) -> Result<u64, Refusal> {
        let expected = tensor_bytes(dtype, dims)?;
        if bytes.len() as u64 != expected {
            let found = bytes.len();
            return Err(Refusal::invalid(format!("tensor of {found} bytes, expected {expected}")));
        }
        self.add(TensorEntry::Sealed(Array { dtype, dims: dims.into(), bytes }))
    }

    /// Adds bytes that tensors may alias.
    ///
    /// # Errors
    /// If the table is full.
    pub fn insert_mapped(&self, bytes: Bytes) -> Result<u64, Refusal> {
        self.add(TensorEntry::Mapped(bytes))
    }

    /// Maps a file read-only, once per path until it is given back.
    ///
    /// # Errors
    /// Status `IO` if it is not a regular file or cannot be mapped.
    pub fn map_file(&self, path: &Path) -> Result<u64, Refusal> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((id, times)) = files.get_mut(path) {
            *times += 1;
            return Ok(*id);
        }
        let map =
            map(path).map_err(|e| Refusal::new(abi::IO, format!("`{}`: {e}", path.display())))?;
        let map = map.map(Arc::new);
        let bytes = map.clone().map_or_else(Bytes::new, |map| Bytes::from_owner(MappedFile(map)));
        let id = self.insert_mapped(bytes)?;
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        maps.retain(|(_, known)| known.strong_count() > 0);
        maps.extend(map.map(|map| (id, Arc::downgrade(&map))));
        drop(maps);
        files.insert(path.to_owned(), (id, 1));
        Ok(id)
    }

    /// Lets go of the memory that was taken up by reading mapped files; they are read again on use.
    pub fn release_pages(&self) {
        self.release(|_| true);
    }

    /// The same for files that no tensor lies in, such as calibration data, which are read from the
    /// beginning to the end.
    pub(crate) fn release_inputs(&self) {
        let aliased = self.aliased.lock().unwrap_or_else(PoisonError::into_inner);
        self.release(|id| !aliased.contains(&id));
    }

    fn release(&self, which: impl Fn(u64) -> bool) {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let maps = maps.iter().filter(|(id, _)| which(*id));
        for map in maps.filter_map(|(_, map)| map.upgrade()) {
            // SAFETY: `maps` holds maps of files only, read-only and never written through, so that
            // what is read after this comes from the file again, the same bytes. Where the system
            // refuses, the pages stay.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }

    /// Gives a mapped file back. It is forgotten when that was done as often as it was mapped.
    pub(crate) fn unmap_file(&self, id: u64) -> Result<(), Refusal> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let found = files.iter().find(|(_, (known, _))| *known == id);
        let path = found.map(|(path, _)| path.clone()).ok_or_else(|| unknown(id))?;
        if let Some((_, times)) = files.get_mut(&path)
            && *times > 1
        {
            *times -= 1;
            return Ok(());
        }
        files.remove(&path);
        self.entries.write().unwrap_or_else(PoisonError::into_inner).by_id.remove(&id);
        Ok(())
    }

    /// A finished tensor that lies in memory.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Array> {
        match self.read().by_id.get(&id) {
            Some(TensorEntry::Sealed(array)) => Some(array.clone()),
            _ => None,
        }
    }

    /// The bytes of a finished tensor or of a mapping.
    #[must_use]
    pub fn bytes(&self, id: u64) -> Option<Bytes> {
        match self.read().by_id.get(&id)? {
            TensorEntry::Sealed(array) => Some(array.bytes.clone()),
            TensorEntry::Mapped(bytes) => Some(bytes.clone()),
            TensorEntry::Open { .. } | TensorEntry::Derived(_) => None,
        }
    }

    /// A derived tensor.
    pub(crate) fn derived(&self, id: u64) -> Option<Arc<Derived>> {
        match self.read().by_id.get(&id)? {
            TensorEntry::Derived(derived) => Some(derived.clone()),
            _ => None,
        }
    }

    /// Number of entries, finished or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().by_id.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a plugin call that may hold views until the guard is dropped.
    pub(crate) fn lend(self: &Arc<Self>) -> Lent {
        self.running.fetch_add(1, Ordering::SeqCst);
        Lent(Arc::clone(self))
    }

    /// Room for a new tensor: id and first byte. Zeroed and aligned to 64 bytes.
    pub(crate) fn create(&self, dtype: i32, dims: &[i64]) -> Result<(u64, *mut u8), Refusal> {
        let bytes = tensor_bytes(dtype, dims)?;
        let len = usize::try_from(bytes).map_err(|_| Refusal::out_of_memory(bytes))?;
        let (room, first) = self.room(bytes, len)?;
        let id = self.add(TensorEntry::Open { dtype, dims: dims.into(), len, room })?;
        Ok((id, first))
    }

    /// Ends writing to a tensor made by [`TensorTable::create`].
    pub(crate) fn seal(&self, id: u64) -> Result<(), Refusal> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        match entries.by_id.get(&id) {
            Some(TensorEntry::Open { .. }) => {}
            Some(TensorEntry::Sealed(_) | TensorEntry::Derived(_)) => {
                return Err(Refusal::invalid(format!("tensor {id} is already sealed")));
            }
            Some(TensorEntry::Mapped(_)) => {
                return Err(Refusal::invalid(format!("{id} is a mapped input, not a tensor")));
            }
            None => return Err(unknown(id)),
        }
        let Some(TensorEntry::Open { dtype, dims, len, room }) = entries.by_id.remove(&id) else {
            return Err(unknown(id));
        };
        let bytes = match room {
            TensorRoom::Pages(pages) => Bytes::from_owner(read_only(pages, id)?),
            TensorRoom::Scratch(pages, file) => {
                let pages = read_only(pages, id)?;
                // SAFETY: the pages are those of a file that is shared, which keeps what was written to them.
                let _ = unsafe { pages.unchecked_advise(UncheckedAdvice::DontNeed) };
                Bytes::from_owner(ScratchPages { pages, _open: file })
            }
            // `from_owner` keeps the buffer where it is; the plugin knows its address.
            TensorRoom::Heap(buffer, begin) => Bytes::from_owner(buffer).slice(begin..begin + len),
        };
        entries.by_id.insert(id, TensorEntry::Sealed(Array { dtype, dims, bytes }));
        Ok(())
    }

    /// A tensor over a part of another entry's bytes.
    pub(crate) fn alias(
        &self,
        source: u64,
        offset: u64,
        dtype: i32,
        dims: &[i64],
    ) -> Result<u64, Refusal> {
        let len = tensor_bytes(dtype, dims)?;
        refuse!(self.derived(source).is_some() =>
            Refusal::invalid(format!("tensor {source} is derived, and has no bytes to share")));
        let bytes = self.bytes(source).ok_or_else(|| unknown(source))?;
        let end = offset.checked_add(len).filter(|end| *end <= bytes.len() as u64);
        let Some(end) = end else {
            let size = bytes.len();
            return Err(Refusal::invalid(format!(
                "{len} bytes at offset {offset} are beyond the {size} bytes of {source}"
            )));
        };
        self.aliased.lock().unwrap_or_else(PoisonError::into_inner).insert(source);
        // Both are at most `bytes.len()`, a usize.
        let part = bytes.slice(offset as usize..end as usize);
        self.add(TensorEntry::Sealed(Array { dtype, dims: dims.into(), bytes: part }))
    }

    fn room(&self, bytes: u64, len: usize) -> Result<(TensorRoom, *mut u8), Refusal> {
        if bytes < OWN_PAGES_BYTES {
            return on_heap(bytes, len);
        }
        let made = match &self.scratch {
            Some(scratch) => scratch.pages(len),
            None => MmapMut::map_anon(len).map(|pages| (pages, None)),
        };
        let (mut pages, file) = made.map_err(|e| {
            Refusal::new(abi::OUT_OF_MEMORY, format!("no room for a tensor of {bytes} bytes: {e}"))
        })?;
        let first = pages.as_mut_ptr();
        let room = match file {
            Some(file) => TensorRoom::Scratch(pages, file),
            None => TensorRoom::Pages(pages),
        };
        Ok((room, first))
    }

    pub(crate) fn add(&self, entry: TensorEntry) -> Result<u64, Refusal> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        refuse!(entries.by_id.len() >= ENTRIES_MAX =>
            Refusal::new(abi::OUT_OF_MEMORY, format!("the job holds {ENTRIES_MAX} tensors already")));
        entries.last += 1;
        let id = entries.last;
        entries.by_id.insert(id, entry);
        Ok(id)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A plugin call in progress.
pub(crate) struct Lent(Arc<TensorTable>);

impl Drop for Lent {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.computed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }
}

pub(crate) fn unknown(id: u64) -> Refusal {
    Refusal::invalid(format!("no sealed tensor or mapped input has the id {id}"))
}

fn read_only(pages: MmapMut, id: u64) -> Result<Mmap, Refusal> {
    pages
        .make_read_only()
        .map_err(|e| Refusal::new(abi::OUT_OF_MEMORY, format!("sealing tensor {id}: {e}")))
}

fn on_heap(bytes: u64, len: usize) -> Result<(TensorRoom, *mut u8), Refusal> {
    let mut buffer = Vec::new();
    let size = len + ALIGNMENT - 1;
    buffer.try_reserve_exact(size).map_err(|_| Refusal::out_of_memory(bytes))?;
    buffer.resize(size, 0);
    let begin = buffer.as_ptr().align_offset(ALIGNMENT);
    let first = buffer.as_mut_ptr().wrapping_add(begin);
    Ok((TensorRoom::Heap(buffer, begin), first))
}

/// A mapped file that several parts of are held.
struct MappedFile(Arc<Mmap>);

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// `None` for an empty file.
fn map(path: &Path) -> std::io::Result<Option<Mmap>> {
    let file = onnxd_files::regular(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    // SAFETY: a conversion maps copies that nothing writes. Files of a drop that front-ends are asked about may change:
    // then bytes change under code that has checked them, or reading ends the process by SIGBUS, which is reported as a
    // crash. That is one confined worker; its parent maps none of these files.
    Ok(Some(unsafe { Mmap::map(&file)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_tensor_is_aligned_zeroed_and_unreadable_until_sealed() {
        let table = TensorTable::new();
        for elements in [0i64, 3, 100_000] {
            let (id, first) = table.create(1, &[elements]).unwrap();
            assert_eq!(first as usize % ALIGNMENT, 0);
            assert!(table.get(id).is_none());
            table.seal(id).unwrap();
            let array = table.get(id).unwrap();
            assert_eq!(array.bytes.len() as i64, elements * 4);
            assert!(array.bytes.iter().all(|b| *b == 0));
            if elements > 0 {
                assert_eq!(array.bytes.as_ptr() as usize, first as usize, "sealing must not move");
            }
            assert_eq!(table.seal(id).unwrap_err().status, abi::INVALID);
        }
    }

    #[test]
    fn aliases_stay_within_their_source() {
        let table = TensorTable::new();
        let source = table.insert_mapped(Bytes::from_static(b"0123456789abcdef")).unwrap();
        let id = table.alias(source, 4, 1, &[2]).unwrap();
        assert_eq!(&table.bytes(id).unwrap()[..], b"456789ab");
        let nested = table.alias(id, 4, 2, &[4]).unwrap();
        assert_eq!(&table.bytes(nested).unwrap()[..], b"89ab");
        assert_eq!(table.alias(source, 9, 1, &[2]).unwrap_err().status, abi::INVALID);
        assert_eq!(table.alias(source, u64::MAX, 2, &[2]).unwrap_err().status, abi::INVALID);
        assert_eq!(table.alias(77, 0, 2, &[1]).unwrap_err().status, abi::INVALID);
    }

    #[test]
    fn files_are_mapped_once_and_only_if_regular() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.bin");
        std::fs::write(&path, b"weights").unwrap();
        let table = TensorTable::new();
        let id = table.map_file(&path).unwrap();
        assert_eq!(table.map_file(&path).unwrap(), id);
        assert_eq!(&table.bytes(id).unwrap()[..], b"weights");
        table.release_pages();
        table.release_inputs();
        assert_eq!(&table.bytes(id).unwrap()[..], b"weights", "it is read again");
        assert_eq!(table.map_file(folder.path()).unwrap_err().status, abi::IO);
        assert_eq!(table.map_file(Path::new("/nonexistent")).unwrap_err().status, abi::IO);
    }

    /// Kilobytes of a mapped file that are in this process's memory.
    fn resident(path: &Path) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let name = path.to_str().unwrap();
        let of = |line: &str| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.parse().ok();
        let mut lines = maps.lines().skip_while(|line| !line.ends_with(name));
        lines.find_map(of).expect("the file is mapped")
    }

    #[test]
    fn what_was_read_of_an_input_is_let_go_unless_tensors_lie_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calib.npz");
        std::fs::write(&path, vec![1u8; 1 << 20]).unwrap();
        let table = TensorTable::new();
        let id = table.map_file(&path).unwrap();
        let read = || table.bytes(id).unwrap().iter().map(|b| u64::from(*b)).sum::<u64>();
        assert_eq!((read(), resident(&path)), (1 << 20, 1024));
        table.release_inputs();
        assert_eq!(resident(&path), 0);
        let _tensor = table.alias(id, 0, 2, &[16]).unwrap();
        assert_eq!(read(), 1 << 20);
        table.release_inputs();
        assert_eq!(resident(&path), 1024);
        table.release_pages();
        assert_eq!(resident(&path), 0);
    }

    #[test]
    fn a_file_that_is_given_back_is_forgotten_but_not_its_tensors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.bin");
        std::fs::write(&path, b"weights").unwrap();
        let table = TensorTable::new();
        let id = table.map_file(&path).unwrap();
        assert_eq!(table.map_file(&path).unwrap(), id);
        let part = table.alias(id, 1, 2, &[3]).unwrap();
        table.unmap_file(id).unwrap();
        assert!(table.bytes(id).is_some(), "it was mapped twice");
        table.unmap_file(id).unwrap();
        assert!(table.bytes(id).is_none());
        assert_eq!(&table.bytes(part).unwrap()[..], b"eig");
        assert_eq!(table.unmap_file(id).unwrap_err().status, abi::INVALID);
        assert_eq!(table.unmap_file(part).unwrap_err().status, abi::INVALID);
        assert_ne!(table.map_file(&path).unwrap(), id, "ids are never used again");
    }
}
