//! Writes into folders in which others can make entries, too.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

/// A new file of our own: never through a link, never into a file that is there.
const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Writes a file into an open folder. It is made under a hidden name, synced, and then takes the
/// name, in place of what may have it: a link is replaced, not followed.
///
/// # Errors
/// The system's, [`io::ErrorKind::IsADirectory`] among them.
pub fn replace_in(dir: impl AsFd, name: &OsStr, contents: &[u8]) -> io::Result<()> {
    let mut part = OsString::from(".");
    part.push(name);
    part.push(".part");
    match unlinkat(&dir, &part, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(e.into()),
    }
    let mut file = File::from(openat(&dir, &part, NEW, Mode::from_raw_mode(0o666))?);
    file.write_all(contents)?;
    file.sync_all()?;
    renameat(&dir, &part, &dir, name)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_planted_link_is_replaced_and_its_target_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("open")).unwrap();
        fs::write(at("secret"), "kept").unwrap();
        symlink(at("secret"), at("open/receipt.txt")).unwrap();
        symlink(at("secret"), at("open/.receipt.txt.part")).unwrap();
        let open = folder(&at("open").canonicalize().unwrap()).unwrap();
        replace_in(&open, OsStr::new("receipt.txt"), b"ours").unwrap();
        assert_eq!(fs::read(at("secret")).unwrap(), b"kept");
        assert!(fs::symlink_metadata(at("open/receipt.txt")).unwrap().is_file());
        assert_eq!(fs::read(at("open/receipt.txt")).unwrap(), b"ours");
        replace_in(&open, OsStr::new("receipt.txt"), b"again").unwrap();
        assert_eq!(fs::read_dir(at("open")).unwrap().count(), 1);
    }
}
