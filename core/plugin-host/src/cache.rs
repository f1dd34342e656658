//! Results of inspections on disk, so that the daemon starts without opening every library again.
//!
//! One JSON file per library path. An entry counts only if path, size, modification time, digest
//! and the host's own version are the same; whatever cannot be read is as if it were not there.

use crate::descriptor::Descriptor;
use crate::inspect::digest;
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd::PluginInfo;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Version of the layout of an entry.
const SCHEMA: u32 = 1;
/// Largest entry, in bytes.
const ENTRY_BYTES_MAX: u64 = 4 << 20;

/// A folder of inspection results.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    schema: u32,
    /// Version of onnxd and of its plugin interface.
    host: String,
    size: u64,
    mtime_ns: i128,
    plugin: PluginInfo,
}

/// What tells two states of a file apart without reading it.
#[derive(PartialEq)]
struct Stamp {
    size: u64,
    mtime_ns: i128,
}

impl Cache {
    /// A cache in `folder`, which is created when something is stored.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: folder.into() }
    }

    /// The result of an earlier inspection of the same file.
    #[must_use]
    pub fn get(&self, library: &Path) -> Option<PluginInfo> {
        let entry = self.read(library)?;
        let stamp = stamp(library).ok()?;
        let same = entry.schema == SCHEMA
            && entry.host == host()
            && stamp == Stamp { size: entry.size, mtime_ns: entry.mtime_ns }
            && entry.plugin.path == library.to_str()?
            && entry.plugin.sha256 == digest(library).ok()?;
        // The components are derived again: the descriptor is the authority.
        let descriptor = Descriptor::parse(&entry.plugin.descriptor_json).ok()?;
        same.then(|| PluginInfo { components: descriptor.components(), ..entry.plugin })
    }

    /// Stores the result of an inspection: complete or not at all.
    ///
    /// # Errors
    /// The system's. Callers may go on without a cache.
    pub fn put(&self, plugin: &PluginInfo) -> std::io::Result<()> {
        let library = Path::new(&plugin.path);
        let Stamp { size, mtime_ns } = stamp(library)?;
        if digest(library)? != plugin.sha256 {
            return Err(std::io::Error::other("the library was replaced meanwhile"));
        }
        let plugin = plugin.clone();
        let entry = Entry { schema: SCHEMA, host: host(), size, mtime_ns, plugin };
        let json = serde_json::to_vec_pretty(&entry)?;
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

    fn read(&self, library: &Path) -> Option<Entry> {
        let file = fs::File::open(self.file(library)).ok()?;
        let mut json = Vec::new();
        file.take(ENTRY_BYTES_MAX).read_to_end(&mut json).ok()?;
        serde_json::from_slice(&json).ok()
    }

    fn file(&self, library: &Path) -> PathBuf {
        let key = Sha256::digest(library.as_os_str().as_encoded_bytes());
        let name: String = key.iter().take(16).map(|b| format!("{b:02x}")).collect();
        self.folder.join(name + ".json")
    }
}

fn host() -> String {
    format!("{} abi {}.{}", env!("CARGO_PKG_VERSION"), abi::ABI_MAJOR, abi::ABI_MINOR)
}

fn stamp(library: &Path) -> std::io::Result<Stamp> {
    let data = library.metadata()?;
    let mtime_ns = i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec());
    Ok(Stamp { size: data.size(), mtime_ns })
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
        let descriptor = r#"{"summary":"s","components":[{"kind":"pass","id":"p"}]}"#;
        PluginInfo {
            path: path.to_str().unwrap().into(),
            sha256: digest(&path).unwrap(),
            id: "org.example.a".into(),
            version: "1.0.0".into(),
            abi_major: 1,
            abi_minor: 0,
            descriptor_json: descriptor.into(),
            components: Descriptor::parse(descriptor).unwrap().components(),
        }
    }

    #[test]
    fn what_was_put_is_found_until_the_library_changes() {
        let folder = tempfile::tempdir().unwrap();
        let info = library(folder.path(), b"one");
        let path = Path::new(&info.path).to_owned();
        let cache = Cache::new(folder.path().join("cache"));
        assert_eq!(cache.get(&path), None);
        cache.put(&info).unwrap();
        assert_eq!(cache.get(&path), Some(info.clone()));

        // Same size and time, other contents: the digest tells.
        let time = path.metadata().unwrap().modified().unwrap();
        fs::write(&path, b"two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(cache.get(&path), None);
        assert!(cache.put(&info).is_err());
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
            json.replace("\"schema\": 1", "\"schema\": 2"),
            json.replace(" abi ", " abi 9"),
            json.replace("\\\"pass\\\"", "\\\"unknown\\\""),
        ] {
            assert_ne!(damaged, json);
            fs::write(&file, damaged).unwrap();
            assert_eq!(cache.get(&path), None);
        }
        cache.put(&info).unwrap();
        assert!(cache.get(&path).is_some());
        assert_eq!(fs::read_dir(folder.path().join("cache")).unwrap().count(), 1);
    }
}
