//! Copies a folder as it is, with its links as links.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, mkdirat, openat, readlinkat, symlinkat};

use crate::copy::copy;
use crate::open::{folder_beneath, own_folder, regular_beneath};

/// A new file, never through a link.
const NEW: OFlags =
    OFlags::CREATE.union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Copies all that is in the open folder `from` to the new folder `to`: contents and permissions of
/// files, and symbolic links themselves. What others put in place of `to` meanwhile gets nothing.
///
/// # Errors
/// The system's; also for devices, pipes and sockets.
pub fn copy_tree(from: &OwnedFd, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    copy_into(from, &own_folder(to)?)
}

fn copy_into(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    // Folders that are still to be copied, by their paths: neither recursion nor a descriptor for
    // each, however deep and wide others have made it.
    let mut rest = vec![PathBuf::new()];
    while let Some(below) = rest.pop() {
        let (folder, target) = (folder_beneath(from, &below)?, folder_beneath(to, &below)?);
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            match kind(&folder, name, entry.file_type())? {
                FileType::Directory => {
                    mkdirat(&target, name, Mode::from_raw_mode(0o777))?;
                    rest.push(below.join(name));
                }
                FileType::Symlink => {
                    let leads_to = readlinkat(&folder, name, Vec::new())?;
                    symlinkat(leads_to, &target, name)?;
                }
                _ => copy_file(&folder, name, &target)?,
            }
        }
    }
    Ok(())
}

fn copy_file(folder: &OwnedFd, name: &OsStr, target: &OwnedFd) -> io::Result<()> {
    let file = regular_beneath(folder, Path::new(name))?;
    // A reflink's digest is read from the copy.
    let flags = NEW | OFlags::RDWR;
    let copied = File::from(openat(target, name, flags, Mode::from_raw_mode(0o666))?);
    copy(&file, &copied)?;
    let mode = file.metadata()?.permissions().mode() & 0o777;
    copied.set_permissions(fs::Permissions::from_mode(mode))
}

fn kind(folder: &OwnedFd, name: &OsStr, told: FileType) -> io::Result<FileType> {
    if told != FileType::Unknown {
        return Ok(told);
    }
    let stat = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_copied_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("from/sub")).unwrap();
        fs::write(at("from/sub/a"), "1").unwrap();
        fs::set_permissions(at("from/sub/a"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("/etc/passwd", at("from/link")).unwrap();
        let from = folder(&at("from").canonicalize().unwrap()).unwrap();
        copy_tree(&from, &at("to")).unwrap();
        assert_eq!(fs::read(at("to/sub/a")).unwrap(), b"1");
        assert_eq!(fs::metadata(at("to/sub/a")).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_link(at("to/link")).unwrap(), Path::new("/etc/passwd"));
    }

    /// Whoever may write into the folder around it can put anything in place of the copy.
    #[test]
    fn a_link_in_place_of_the_copy_gets_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["from/sub", "to", "elsewhere/sub"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("from/sub/a"), "1").unwrap();
        let [from, to] = ["from", "to"].map(|name| own_folder(&at(name)).unwrap());
        fs::rename(at("to"), at("moved")).unwrap();
        symlink(at("elsewhere"), at("to")).unwrap();
        copy_into(&from, &to).unwrap();
        assert_eq!(fs::read(at("moved/sub/a")).unwrap(), b"1");
        assert_eq!(fs::read_dir(at("elsewhere/sub")).unwrap().count(), 0);
        // Nor does one below it.
        fs::rename(at("moved/sub"), at("other")).unwrap();
        symlink(at("elsewhere/sub"), at("moved/sub")).unwrap();
        assert!(copy_into(&from, &to).is_err());
        assert!(copy_tree(&from, &at("to")).is_err(), "there is something already");
        assert_eq!(fs::read_dir(at("elsewhere/sub")).unwrap().count(), 0);
    }
}
