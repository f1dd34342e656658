//! Memory for the tensors of a conversion that lies in a file without a name: the system writes it to disk where
//! memory is short. What is mapped of it counts as address space, whose limit grows with the files that are read.

use memmap2::{Mmap, MmapMut, MmapOptions};
use std::fs::File;
use std::io::{Error, Result};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of tensors that lie in memory before others go to the file.
const IN_MEMORY_BYTES: u64 = 32 << 20;

/// What parts of a file that are mapped begin at: no system has larger pages.
const PLACES_BYTES: u64 = 64 << 10;

/// A file without a name, once something is put into it.
pub(crate) struct ScratchFile {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_memory: u64,
    file: Option<Arc<File>>,
    end: u64,
}

/// A sealed part of the file, which stays open with it: of a file that is mapped and not open, whoever counts what a
/// conversion has written cannot tell the size.
pub(crate) struct ScratchPages {
    pub(crate) pages: Mmap,
    pub(crate) _open: Arc<File>,
}

impl AsRef<[u8]> for ScratchPages {
    fn as_ref(&self) -> &[u8] {
        &self.pages
    }
}

impl ScratchFile {
    /// A file on the disk of `folder`.
    pub(crate) fn new(folder: PathBuf) -> ScratchFile {
        ScratchFile { folder, state: Mutex::default() }
    }

    /// So many zeros, and the file if they lie in it.
    pub(crate) fn pages(&self, len: usize) -> Result<(MmapMut, Option<Arc<File>>)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let all = state.in_memory.saturating_add(len as u64);
        if all <= IN_MEMORY_BYTES {
            state.in_memory = all;
            return Ok((MmapMut::map_anon(len)?, None));
        }
        let State { file, end, .. } = &mut *state;
        let file = match file {
            Some(file) => file,
            None => file.insert(Arc::new(tempfile::tempfile_in(&self.folder)?)),
        };
        let place = *end;
        let next =
            place.checked_add(len as u64).and_then(|to| to.checked_next_multiple_of(PLACES_BYTES));
        let next = next.ok_or_else(|| Error::other("the size overflows"))?;
        // Room that is there from now on: a write to a map for which there is none would end the process.
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&**file, flags, place, next - place) {
            // A file system that cannot promise room.
            Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(next)?,
            done => done?,
        }
        // SAFETY: the file has no name and is opened by nothing else, and this part of it is mapped once.
        match unsafe { MmapOptions::new().offset(place).len(len).map_mut(&**file) } {
            Ok(map) => {
                *end = next;
                Ok((map, Some(file.clone())))
            }
            Err(error) => {
                file.set_len(place)?;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_has_no_room_for_lies_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = ScratchFile::new(folder.path().to_owned());
        let len = IN_MEMORY_BYTES as usize / 2;
        let mut made: Vec<(MmapMut, Option<Arc<File>>)> =
            [len, len, len - 1, 5, 70_000].map(|len| scratch.pages(len).unwrap()).into();
        drop(scratch);
        assert_eq!(
            made.iter().map(|(_, file)| file.is_some()).collect::<Vec<_>>(),
            [false, false, true, true, true]
        );
        for (at, (map, _)) in made.iter_mut().enumerate() {
            assert!(map.iter().all(|byte| *byte == 0));
            map.fill(at as u8 + 1);
        }
        for (at, (map, _)) in made.iter().enumerate() {
            assert!(map.iter().all(|byte| usize::from(*byte) == at + 1));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let scratch = ScratchFile::new("/nonexistent".into());
        assert!(scratch.pages(1 << 10).is_ok());
        assert!(scratch.pages(IN_MEMORY_BYTES as usize).is_err());
    }
}
