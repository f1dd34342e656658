//! Results of inspections on disk, so that the daemon starts without opening every library again.
//!
//! One JSON file per library path. An entry counts only if path, size, times, place on the disk and
//! the host's own version are the same; whatever cannot be read is as if it were not there. No program can
//! set the time of change, so that the library is read again only if it was young when it was
//! inspected: a clock that is too coarse may not tell two states of a young file apart. That happens
//! once: an entry that still holds is stored again.

use crate::inspect::{components, digest, hexadecimal};
use onnxd_config::Descriptor;
use onnxd_diagnostics::refuse;
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd::PluginInfo;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of the layout of an entry.
const SCHEMA: u32 = 3;
/// Age from which on the times of a file tell its states apart, in nanoseconds.
const SETTLED_NS: i128 = 2_000_000_000;
/// Largest entry, in bytes.
const ENTRY_BYTES_MAX: u64 = 4 << 20;

/// A folder of inspection results.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

#[derive(Clone, Serialize, Deserialize)]
struct CacheEntry {
    schema: u32,
    /// Version of onnxd and of its plugin interface.
    host: String,
    stamp: Stamp,
    /// When the entry was made.
    stored_ns: i128,
    plugin: PluginInfo,
}

/// What tells two states of a file apart without reading it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    mtime_ns: i128,
    ctime_ns: i128,
    device: u64,
    inode: u64,
}

impl Stamp {
    /// Whether the file was old enough at that time for a later change to show.
    fn settled_at(&self, time_ns: i128) -> bool {
        time_ns - self.ctime_ns > SETTLED_NS
    }
}

impl Cache {
    /// A cache in `folder`, which is created when something is stored.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: folder.into() }
    }

    /// The result of an earlier inspection of the same file, and its descriptor, which was read for that.
    #[must_use]
    pub fn get(&self, library: &Path) -> Option<(PluginInfo, Descriptor)> {
        let entry = self.read(library)?;
        let now_ns = now_ns();
        let stamp = stamp(library).ok()?;
        let same = entry.schema == SCHEMA
            && entry.host == host()
            && stamp == entry.stamp
            && entry.plugin.path == library.to_str()?;
        if !same {
            return None;
        }
        // The components are derived again: the descriptor is the authority.
        let descriptor = Descriptor::parse(&entry.plugin.descriptor).ok()?;
        if !stamp.settled_at(entry.stored_ns) {
            if entry.plugin.sha256 != digest(library).ok()? {
                return None;
            }
            if stamp.settled_at(now_ns) {
                // Else it is read again next time.
                let _ = self.store(library, &CacheEntry { stored_ns: now_ns, ..entry.clone() });
            }
        }
        let plugin = PluginInfo { components: components(&descriptor), ..entry.plugin };
        Some((plugin, descriptor))
    }

    /// Stores the result of an inspection: complete or not at all.
    ///
    /// # Errors
    /// The system's. Callers may go on without a cache.
    pub fn put(&self, plugin: &PluginInfo) -> std::io::Result<()> {
        let library = Path::new(&plugin.path);
        let (stamp, stored_ns) = (stamp(library)?, now_ns());
        refuse!(digest(library)? != plugin.sha256 => std::io::Error::other("the library was replaced meanwhile"));
        let plugin = plugin.clone();
        self.store(library, &CacheEntry { schema: SCHEMA, host: host(), stamp, stored_ns, plugin })
    }

    fn store(&self, library: &Path, entry: &CacheEntry) -> std::io::Result<()> {
        let json = serde_json::to_vec_pretty(entry)?;
        fs::create_dir_all(&self.folder)?;
        let target = self.file(library);
        // One name per process: two writers must not share an unfinished file.
        let unfinished = target.with_extension(format!("{}.part", std::process::id()));
        let written = write_synced(&unfinished, &json);
        written.and_then(|()| fs::rename(&unfinished, &target)).inspect_err(|_| {
            // The write failed and is reported; a file that is left over is not read by anyone.
            let _ = fs::remove_file(&unfinished);
        })
    }

    fn read(&self, library: &Path) -> Option<CacheEntry> {
        let file = fs::File::open(self.file(library)).ok()?;
        let mut json = Vec::new();
        file.take(ENTRY_BYTES_MAX).read_to_end(&mut json).ok()?;
        serde_json::from_slice(&json).ok()
    }

    fn file(&self, library: &Path) -> PathBuf {
        let key = Sha256::digest(library.as_os_str().as_encoded_bytes());
        self.folder.join(hexadecimal(&key[..16]) + ".json")
    }
}

fn host() -> String {
    format!("{} abi {}.{}", env!("CARGO_PKG_VERSION"), abi::ABI_MAJOR, abi::ABI_MINOR)
}

fn stamp(library: &Path) -> std::io::Result<Stamp> {
    let data = library.metadata()?;
    let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
    Ok(Stamp {
        size: data.size(),
        mtime_ns: ns(data.mtime(), data.mtime_nsec()),
        ctime_ns: ns(data.ctime(), data.ctime_nsec()),
        device: data.dev(),
        inode: data.ino(),
    })
}

fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().try_into().unwrap_or_default()
}

fn write_synced(path: &Path, data: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(data)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(folder: &Path, contents: &[u8]) -> PluginInfo {
        let path = folder.join("a.so");
        fs::write(&path, contents).unwrap();
        let descriptor = "summary = 's'\n[[components]]\nkind = 'pass'\nid = 'p'";
        PluginInfo {
            path: path.to_str().unwrap().into(),
            sha256: digest(&path).unwrap(),
            id: "org.example.a".into(),
            version: "1.0.0".into(),
            abi_major: 1,
            abi_minor: 0,
            descriptor: descriptor.into(),
            components: components(&Descriptor::parse(descriptor).unwrap()),
        }
    }

    #[test]
    fn what_was_put_is_found_until_the_library_changes() {
        let folder = tempfile::tempdir().unwrap();
        let info = library(folder.path(), b"one");
        let path = Path::new(&info.path).to_owned();
        let cache = Cache::new(folder.path().join("cache"));
        assert!(cache.get(&path).is_none());
        cache.put(&info).unwrap();
        assert_eq!(cache.get(&path).unwrap().0, info);

        // Same size and time, other contents: the time of change tells, or the digest.
        let time = path.metadata().unwrap().modified().unwrap();
        fs::write(&path, b"two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert!(cache.get(&path).is_none());
        assert!(cache.put(&info).is_err());
    }

    #[test]
    fn only_a_library_that_was_young_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let info = library(folder.path(), b"one");
        let path = Path::new(&info.path).to_owned();
        let cache = Cache::new(folder.path().join("cache"));
        for (age, found) in [(0, false), (SETTLED_NS, false), (SETTLED_NS + 1, true)] {
            let stamp = stamp(&path).unwrap();
            let stored_ns = stamp.ctime_ns + age;
            // What is never compared may be wrong.
            let plugin = PluginInfo { sha256: "00".into(), ..info.clone() };
            let entry = CacheEntry { schema: SCHEMA, host: host(), stamp, stored_ns, plugin };
            fs::create_dir_all(&cache.folder).unwrap();
            fs::write(cache.file(&path), serde_json::to_vec(&entry).unwrap()).unwrap();
            assert_eq!(cache.get(&path).is_some(), found, "{age}");
        }
        fs::write(&path, b"two").unwrap();
        assert!(cache.get(&path).is_none(), "its time of change is another one");
    }

    #[test]
    fn what_was_compared_when_it_was_old_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let plugin = library(folder.path(), b"one");
        let path = Path::new(&plugin.path).to_owned();
        let cache = Cache::new(folder.path().join("cache"));
        let stored = || cache.read(&path).unwrap().stored_ns;
        let young = stamp(&path).unwrap();
        let stored_ns = young.ctime_ns;
        let entry = CacheEntry { schema: SCHEMA, host: host(), stamp: young, stored_ns, plugin };
        cache.store(&path, &entry).unwrap();
        assert!(cache.get(&path).is_some());
        assert_eq!(stored(), stored_ns, "it is still young");
        std::thread::sleep(std::time::Duration::from_nanos(SETTLED_NS as u64 + 1));
        assert!(cache.get(&path).is_some());
        assert!(stored() - stored_ns > SETTLED_NS);
    }

    #[test]
    fn a_damaged_entry_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let info = library(folder.path(), b"one");
        let path = Path::new(&info.path).to_owned();
        let cache = Cache::new(folder.path().join("cache"));
        cache.put(&info).unwrap();
        let file = cache.file(&path);
        let json = fs::read_to_string(&file).unwrap();
        for damaged in [
            json[..json.len() / 2].to_owned(),
            String::new(),
            json.replace("\"schema\": 3", "\"schema\": 2"),
            json.replace(" abi ", " abi 9"),
            json.replace("kind = 'pass'", "kind = 'unknown'"),
        ] {
            assert_ne!(damaged, json);
            fs::write(&file, damaged).unwrap();
            assert!(cache.get(&path).is_none());
        }
        cache.put(&info).unwrap();
        assert!(cache.get(&path).is_some());
        assert_eq!(fs::read_dir(folder.path().join("cache")).unwrap().count(), 1);
    }
}
