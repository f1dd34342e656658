//! Files that a plugin adds to the result. Each is written when it comes, so that thousands take no memory.

use crate::Refusal;
use onnxd_diagnostics::{Code, Diagnostic, refuse};
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd::{FileDigest, FileRole};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most files of a call.
const FILES_MAX: usize = 50_000;
/// Bytes of all files of a call.
const FILES_BYTES_MAX: u64 = 16 << 30;
/// Most folders around a file.
const FOLDERS_MAX: usize = 4;
/// Files of onnxd's own, whatever follows the first dot.
const OWN: [&str; 3] = ["model", "report", "receipt"];

/// The files of a call.
#[derive(Default)]
pub(crate) struct Files {
    written: BTreeMap<String, FileDigest>,
    bytes: u64,
    /// Why one could not be written: a reason of the machine, whatever the plugin makes of it.
    unwritten: Option<Diagnostic>,
}

impl Files {
    /// Writes a file below `folder`, in the place of an earlier one of that name.
    pub(crate) fn put(
        &mut self,
        folder: Option<&PathBuf>,
        name: &str,
        data: &[u8],
    ) -> Result<(), Refusal> {
        let folder = folder.ok_or_else(|| {
            Refusal::new(abi::UNSUPPORTED, format!("`{name}`: this call adds no files to a result"))
        })?;
        let earlier = self.written.get(name).map_or(0, |f| f.bytes);
        let bytes = (self.bytes - earlier).saturating_add(data.len() as u64);
        let one_more = !self.written.contains_key(name);
        refuse!(self.written.len() + usize::from(one_more) > FILES_MAX || bytes > FILES_BYTES_MAX =>
            Refusal::invalid(format!("the files exceed {FILES_MAX} or {FILES_BYTES_MAX} bytes")));
        let path = folder.join(name);
        let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        parent.and_then(|()| std::fs::write(&path, data)).map_err(|e| {
            let text = format!("`{name}`: {e}");
            self.unwritten = Some(Diagnostic::new(Code::of_write(&e), text.as_str()));
            Refusal::new(abi::IO, text)
        })?;
        let file = FileDigest {
            path: name.to_owned(),
            bytes: data.len() as u64,
            role: FileRole::Artifact.into(),
            ..FileDigest::default()
        };
        self.written.insert(name.to_owned(), file);
        self.bytes = bytes;
        Ok(())
    }

    /// All files in the order of their names.
    pub(crate) fn take(&mut self) -> Vec<FileDigest> {
        self.bytes = 0;
        std::mem::take(&mut self.written).into_values().collect()
    }

    /// Why a file could not be written, if one could not.
    pub(crate) fn take_unwritten(&mut self) -> Option<Diagnostic> {
        self.unwritten.take()
    }
}

/// Whether a plugin may call a file so: `statistics.json`, `stimuli/env001.pgm`.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let part = |part: &str| {
        (1..=128).contains(&part.len()) && part.chars().all(allowed) && !part.starts_with('.')
    };
    let stem = name.split('.').next().unwrap_or_default();
    name.split('/').count() <= FOLDERS_MAX + 1 && name.split('/').all(part) && !OWN.contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_and_beside_our_own() {
        for good in ["a", "statistics.json", "stimuli/env01.pgm", "stimuli/model.txt", "models"] {
            assert!(is_name(good), "{good}");
        }
        for bad in
            ["", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a b", "model.onnx", "report.json"]
        {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name("a/b/c/d/e/f") && !is_name(&"a".repeat(129)));
    }

    #[test]
    fn files_are_written_and_replaced() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("out");
        let mut files = Files::default();
        assert_eq!(files.put(None, "a", b"1").unwrap_err().status, abi::UNSUPPORTED);
        for (name, data) in [("b/c", "12"), ("a", "1"), ("b/c", "123")] {
            files.put(Some(&folder), name, data.as_bytes()).unwrap();
        }
        assert_eq!(files.put(Some(&folder), "a/b", b"").unwrap_err().status, abi::IO);
        assert_eq!(files.take_unwritten().unwrap().code, "N0304");
        assert_eq!(files.take_unwritten(), None);
        std::os::unix::fs::symlink("/dev/full", folder.join("full")).unwrap();
        assert_eq!(files.put(Some(&folder), "full", b"1").unwrap_err().status, abi::IO);
        assert_eq!(files.take_unwritten().unwrap().code, "N0311");
        assert_eq!(files.bytes, 4);
        let taken = files.take();
        let names: Vec<(&str, u64)> = taken.iter().map(|f| (f.path.as_str(), f.bytes)).collect();
        assert_eq!(names, [("a", 1), ("b/c", 3)]);
        assert_eq!(std::fs::read(folder.join("b/c")).unwrap(), b"123");
        let many = (0..FILES_MAX).map(|i| (format!("{i}"), FileDigest::default()));
        let mut files = Files { written: many.collect(), ..Files::default() };
        assert_eq!(files.put(Some(&folder), "one-more", b"").unwrap_err().status, abi::INVALID);
        files.put(Some(&folder), "7", b"in the place of another").unwrap();
    }
}
