//! Holds a worker's result against the files it left.
//!
//! The worker announces name and size of each file; plugins share its process, so a result counts
//! only if the files are there and are what was announced. The digests that the report names are
//! taken here, once the worker has ended: nothing but this process can change the files any more.

use super::files::{digest, inner, remove_folder};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_proto::onnxd::{FileDigest, FileRole};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Checks `announced` against the folder `out`, and removes what was not announced. The files with
/// their digests.
///
/// # Errors
/// `N0903` for what differs, `N0304` if the folder cannot be read.
pub(super) fn verify(
    out: &Path,
    announced: Vec<FileDigest>,
) -> Result<Vec<FileDigest>, Diagnostic> {
    let wrong = |why: String| Diagnostic::new(Code::WorkerNoResult, format!("the worker {why}"));
    let is_folder = out.symlink_metadata().is_ok_and(|data| data.is_dir());
    if !is_folder {
        return Err(wrong("left no folder of outputs".to_owned()));
    }
    if !announced.iter().any(|f| f.role() == FileRole::Model) {
        return Err(wrong("announced no model".to_owned()));
    }
    let mut written_files = announced;
    for file in &mut written_files {
        let name = shown(&file.path);
        let path = inner(&file.path).ok_or_else(|| wrong(format!("announced `{name}`")))?;
        let linked = |folder: &Path| out.join(folder).is_symlink();
        let in_link = path.ancestors().skip(1).any(linked);
        let path = out.join(path);
        if in_link || !path.symlink_metadata().is_ok_and(|data| data.is_file()) {
            return Err(wrong(format!("announced `{name}` but left no such file")));
        }
        let (bytes, sha256) = digest(&path).map_err(|e| disk(&path, &e))?;
        if bytes != file.bytes {
            let text = format!("announced `{name}` with {} bytes, but left {bytes}", file.bytes);
            return Err(wrong(text));
        }
        file.sha256 = sha256;
    }
    // With the folders that they lie in.
    let paths = written_files.iter().map(|f| Path::new(&f.path));
    let kept = paths.flat_map(Path::ancestors).map(|path| out.join(path)).collect();
    remove_others(out, &kept).map_err(|e| disk(out, &e))?;
    Ok(written_files)
}

fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, is_folder) = (entry.path(), entry.file_type()?.is_dir());
        match (kept.contains(&path), is_folder) {
            (true, true) => remove_others(&path, kept)?,
            (true, false) => {}
            (false, true) => remove_folder(&path)?,
            (false, false) => fs::remove_file(path)?,
        }
    }
    Ok(())
}

fn disk(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::Disk, format!("`{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(folder: &Path) -> FileDigest {
        let path = folder.join("model.onnx");
        fs::write(&path, b"model").unwrap();
        let (path, role) = ("model.onnx".into(), FileRole::Model.into());
        FileDigest { path, bytes: 5, role, ..FileDigest::default() }
    }

    #[test]
    fn files_may_lie_in_folders_but_not_behind_links() {
        let root = tempfile::tempdir().unwrap();
        let (out, elsewhere) = (root.path().join("out"), root.path().join("elsewhere"));
        for folder in ["out/stimuli", "out/other", "elsewhere"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let model = announced(&out);
        let inside = FileDigest {
            path: "stimuli/env0.pgm".into(),
            role: FileRole::Artifact.into(),
            ..model.clone()
        };
        fs::write(out.join("stimuli/env1.pgm"), b"").unwrap();
        fs::write(out.join(&inside.path), b"model").unwrap();
        let files = [model, inside];
        verify(&out, files.to_vec()).unwrap();
        assert!(out.join("stimuli/env0.pgm").exists());
        assert!(!out.join("stimuli/env1.pgm").exists() && !out.join("other").exists());

        fs::rename(out.join("stimuli/env0.pgm"), elsewhere.join("env0.pgm")).unwrap();
        fs::remove_dir(out.join("stimuli")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, out.join("stimuli")).unwrap();
        let error = verify(&out, files.to_vec()).unwrap_err().into_finding().message;
        assert!(error.contains("left no such file"), "{error}");
    }

    #[test]
    fn the_files_are_what_was_announced() {
        let folder = tempfile::tempdir().unwrap();
        let good = announced(folder.path());
        fs::write(folder.path().join("other"), b"").unwrap();
        let found = verify(folder.path(), vec![good.clone()]).unwrap();
        let (_, sha256) = digest(&folder.path().join("model.onnx")).unwrap();
        assert_eq!(found, [FileDigest { sha256, ..good.clone() }]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let text = |files: &[FileDigest]| {
            verify(folder.path(), files.to_vec()).unwrap_err().into_finding().message
        };
        assert!(text(&[]).contains("announced no model"));
        let longer = FileDigest { bytes: 6, ..good.clone() };
        assert!(text(&[longer]).contains("with 6 bytes"));
        let outside = FileDigest { path: "../model.onnx".into(), ..good.clone() };
        assert!(text(&[outside]).contains("announced `../model.onnx`"));
        fs::write(folder.path().join("model.onnx"), b"mode").unwrap();
        assert!(text(std::slice::from_ref(&good)).contains("but left 4"));
        fs::remove_file(folder.path().join("model.onnx")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("model.onnx")).unwrap();
        assert!(text(&[good]).contains("left no such file"));
    }
}
