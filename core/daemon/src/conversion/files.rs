//! Files of a result: their digests, their way to the disk, and the way to their destination.

pub(crate) use onnxd_files::remove_tree as remove_folder;
use onnxd_files::{Copied, copy_tree, own_folder, own_regular};
use onnxd_plugin_host::hexadecimal;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

/// `name` as a path that cannot leave the folder it is joined to.
pub(crate) fn inner(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let normal = path.components().all(|c| matches!(c, Component::Normal(_)));
    (normal && !name.is_empty()).then(|| path.to_owned())
}

/// Size and SHA-256 of a regular file; a link is not followed.
pub(crate) fn digest(file: &Path) -> io::Result<(u64, String)> {
    let Copied { bytes, sha256 } = onnxd_files::digest(&own_regular(file)?)?;
    Ok((bytes, sha256))
}

/// Writes a file; [`sync`] brings it to the disk.
pub(crate) fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    File::create(path)?.write_all(contents)
}

/// Brings all files below `folder`, their names, and their modes to the disk.
pub(crate) fn sync(folder: &Path, mode: Option<u32>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            sync(&path, mode)?;
        } else if kind.is_file() {
            if let Some(mode) = mode {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            File::open(&path)?.sync_all()?;
        }
    }
    sync_folder(folder)
}

/// Brings the names in a folder to the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Moves the folder `from` to the new name `to`: whole or not at all, also across file systems.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if there is something at `to`; else the system's.
pub(crate) fn move_folder(from: &Path, to: &Path) -> io::Result<()> {
    match rename_new(from, to) {
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {}
        done => return done.and_then(|()| sync_parent(to)),
    }
    let unfinished = unfinished(from, to);
    remove_folder(&unfinished)?;
    copy_tree(&own_folder(from)?, &unfinished)?;
    sync(&unfinished, None)?;
    let renamed = rename_new(&unfinished, to);
    if renamed.is_err() {
        // The failure is reported; what is left over has a hidden name.
        let _ = remove_folder(&unfinished);
    }
    renamed?;
    sync_parent(to)?;
    remove_folder(from)
}

/// Moves a file to a free name on the same file system.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if there is something at `to`; else the system's.
pub(crate) fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    rename_new(from, to)
}

/// Removes a file; it is no error if there is none.
pub(crate) fn remove_file(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// A hidden name beside `to` that is of `from` alone: two folders may be on their way to the same
/// name, and a copy that was interrupted is found again wherever it goes next.
fn unfinished(from: &Path, to: &Path) -> PathBuf {
    let digest = Sha256::digest(from.as_os_str().as_encoded_bytes());
    to.with_file_name(format!(".onnxd-{}.part", hexadecimal(&digest[..8])))
}

/// Renames within a file system, to a name that is free.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`], [`io::ErrorKind::CrossesDevices`]; else the system's.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system without that kind of rename. A folder with contents is never replaced.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            if to.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        done => Ok(done?),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        // A name without folders lies in the current one.
        Some(folder) if folder.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        for good in ["model.onnx", "export_ONNX_int8/model.onnx"] {
            assert_eq!(inner(good).as_deref(), Some(Path::new(good)));
        }
        for bad in ["", "/etc/passwd", "../x", "a/../b", "./a"] {
            assert_eq!(inner(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_folder_moves_to_a_free_name_only() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("a"), b"1").unwrap();
        move_folder(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("a")).unwrap(), b"1");
        fs::create_dir(&from).unwrap();
        let error = move_folder(&from, &to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(from.is_dir());
    }

    #[test]
    fn the_folder_of_a_plain_name_is_the_current_one() {
        sync_parent(Path::new("out")).unwrap();
        assert!(sync_parent(Path::new("no-such-folder/out")).is_err());
    }

    #[test]
    fn copies_are_complete() {
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("from");
        fs::create_dir_all(from.join("b")).unwrap();
        fs::write(from.join("b/c"), b"2").unwrap();
        copy_tree(&own_folder(&from).unwrap(), &root.path().join("to")).unwrap();
        assert_eq!(fs::read(root.path().join("to/b/c")).unwrap(), b"2");
        let (bytes, sha256) = digest(&root.path().join("to/b/c")).unwrap();
        assert_eq!(bytes, 1);
        assert!(sha256.starts_with("d4735e3a265e16ee"));
    }
}
