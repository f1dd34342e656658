//! Moves whole folders so that the target appears complete or not at all.

use std::io;
use std::path::Path;

use super::held::Held;
use super::layout::sync_dir;
use crate::conversion::files::move_folder;

/// Moves a folder to a place that is free, also across file systems, and makes both ends durable.
/// Repeating it after a crash is safe.
pub(crate) fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    let above = Held::make(parent(to))?;
    move_folder(from, &above.at(to.file_name().unwrap_or_default()))?;
    sync_dir(parent(from))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(at: &Path) {
        fs::create_dir_all(at.join("sub")).unwrap();
        fs::write(at.join("a"), "1").unwrap();
        fs::write(at.join("sub/b"), "2").unwrap();
    }

    #[test]
    fn a_move_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("x/y/to"));
        tree(&from);
        move_new(&from, &to).unwrap();
        assert!(!from.exists() && to.join("sub/b").exists());
    }
}
