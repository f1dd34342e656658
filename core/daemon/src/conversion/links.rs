//! Symbolic links among files that a person names. Hugging Face's cache is made of them: `snapshots/REV/*` lead to
//! `blobs/*`. Whoever runs a command may follow their own links; those of others could lead to what others want read.

use onnxd_diagnostics::{Code, Diagnostic};
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Links that lead to each other.
const LINKS_MAX: usize = 16;

/// The file that a link leads to.
///
/// # Errors
/// A link of another user, one that leads nowhere or to a folder.
pub(super) fn followed(link: &Path) -> Result<PathBuf, Diagnostic> {
    let mut at = link.to_owned();
    let refused = |what: &str| {
        let text = format!("`{}` is a symbolic link {what}", link.display());
        Err(Diagnostic::new(Code::SymlinkRefused, text)
            .help("Copy what it leads to, with `cp -rL FROM TO`, and name the copy."))
    };
    for _ in 0..LINKS_MAX {
        match at.symlink_metadata() {
            Ok(data) if data.is_file() => return Ok(at),
            Ok(data) if !data.is_symlink() => return refused("to a folder or a special file"),
            Ok(data) if data.uid() != geteuid().as_raw() => return refused("of another user"),
            Ok(_) => {}
            Err(_) => return refused("that leads nowhere"),
        }
        let Ok(to) = fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("")).join(to);
    }
    refused("that leads to links only")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn own_links_to_files_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("snapshots/a")).unwrap();
        fs::create_dir(at("blobs")).unwrap();
        fs::write(at("blobs/x"), "text").unwrap();
        let link = |name: &str, to: &str| {
            symlink(to, at("snapshots/a").join(name)).unwrap();
            followed(&at("snapshots/a").join(name))
        };
        let text = |path: Result<PathBuf, Diagnostic>| fs::read_to_string(path.unwrap()).unwrap();
        assert_eq!(text(link("config.json", "../../blobs/x")), "text");
        assert_eq!(text(link("again", "config.json")), "text");
        for (name, to, why) in [
            ("nowhere", "../../blobs/y", "leads nowhere"),
            ("folder", "../../blobs", "to a folder"),
            ("circle", "circle", "to links only"),
        ] {
            let found = link(name, to).unwrap_err();
            assert!(found.message.contains(why), "{found}");
        }
        // Only root can give links away.
        if lchown(at("snapshots/a/config.json"), Some(65_534), None).is_ok() {
            for name in ["config.json", "again"] {
                let found = followed(&at("snapshots/a").join(name)).unwrap_err();
                assert!(found.message.contains("of another user"), "{found}");
                assert_eq!(found.code, "N0108");
                assert!(found.to_string().contains("cp -rL"), "{found}");
            }
        }
    }
}
