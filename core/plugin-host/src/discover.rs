//! Which libraries are candidates, in which order, and which plugin wins when ids meet.
//!
//! Nothing is opened here. A file that someone else could have written is not a candidate, because
//! a plugin runs with the rights of a worker.

use crate::header::refused;
use onnxd_diagnostics::{Diagnostic, refuse};
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd::PluginInfo;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most libraries that are looked at in one folder.
pub const LIBRARIES_MAX: usize = 1000;

/// A place to look for plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Where the program itself lies: only `libonnxd_*.so` are candidates there.
    Program(PathBuf),
    /// A folder for plugins: all `*.so` are.
    Plugins(PathBuf),
}

impl Folder {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Folder::Program(path) | Folder::Plugins(path) => path,
        }
    }

    fn takes(&self, name: &str) -> bool {
        match self {
            Folder::Program(_) => name.starts_with("libonnxd_") && name.ends_with(".so"),
            Folder::Plugins(_) => name.len() > 3 && !name.starts_with('.') && name.ends_with(".so"),
        }
    }
}

/// What was found on the search path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// Candidates with symbolic links resolved: folders in the given order, names in theirs.
    pub libraries: Vec<PathBuf>,
    /// Files that were left out, and why.
    pub refused: Vec<Diagnostic>,
    /// Libraries that are no plugins, and whose names do not say so: plugins may need them.
    pub bystanders: Vec<PathBuf>,
}

/// A plugin that is not used because another one with the same id comes first.
#[derive(Clone, Debug, PartialEq)]
pub struct Shadowed {
    /// The one that is not used.
    pub plugin: PluginInfo,
    /// Where the one in use lies.
    pub by: String,
}

/// Looks for libraries; a folder that does not exist holds none.
#[must_use]
pub fn discover(folders: &[Folder]) -> Discovery {
    let mut discovery = Discovery::default();
    for folder in folders {
        let names = match names(folder) {
            Ok(names) => names,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => {
                discovery.refused.push(refused(
                    folder.path(),
                    e,
                    "Check the folder's permissions.",
                ));
                continue;
            }
        };
        if names.len() > LIBRARIES_MAX {
            let why = format!("{} libraries, limit {LIBRARIES_MAX}", names.len());
            discovery.refused.push(refused(folder.path(), why, "Use fewer plugins per folder."));
        }
        for name in names.iter().take(LIBRARIES_MAX) {
            let path = folder.path().join(name);
            match trusted(&path) {
                Ok(path) if discovery.libraries.contains(&path) => {}
                Ok(path) if matches!(folder, Folder::Plugins(_)) && is_bystander(&path) => {
                    discovery.bystanders.push(path);
                }
                Ok(path) => discovery.libraries.push(path),
                Err(refusal) => discovery.refused.push(refusal),
            }
        }
    }
    discovery
}

/// Keeps the first plugin of every id.
#[must_use]
pub fn first_of_each_id(plugins: Vec<PluginInfo>) -> (Vec<PluginInfo>, Vec<Shadowed>) {
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    let (mut used, mut shadowed) = (Vec::new(), Vec::new());
    for plugin in plugins {
        match paths.get(&plugin.id) {
            Some(by) => shadowed.push(Shadowed { plugin, by: by.clone() }),
            None => {
                paths.insert(plugin.id.clone(), plugin.path.clone());
                used.push(plugin);
            }
        }
    }
    (used, shadowed)
}

fn names(folder: &Folder) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.path())? {
        // A name that is not UTF-8 cannot be shown; it is not a candidate.
        if let Ok(name) = entry?.file_name().into_string()
            && folder.takes(&name)
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether a file is a whole library without a word of the plugin's symbol. It cannot be a plugin
/// then, not even a broken one; what has the word, or is no library or a part of one, is left to the
/// inspection.
fn is_bystander(path: &Path) -> bool {
    fn scan(path: &Path) -> std::io::Result<bool> {
        let mut file = File::open(path)?;
        let mut header = [0; ELF_HEADER_BYTES];
        file.read_exact(&mut header)?;
        if !header.starts_with(ELF) || sections_end(&header) > file.metadata()?.len() {
            return Ok(false);
        }
        let symbol = memchr::memmem::Finder::new(abi::PLUGIN_SYMBOL);
        let (mut window, mut kept) = (vec![0; SCANNED_BYTES], 0);
        loop {
            let read = file.read(&mut window[kept..])?;
            let known = &window[..kept + read];
            if symbol.find(known).is_some() {
                return Ok(false);
            }
            if read == 0 {
                return Ok(true);
            }
            // The word may begin at the end of this piece.
            let end = known.len();
            kept = abi::PLUGIN_SYMBOL.len().min(end);
            window.copy_within(end - kept..end, 0);
        }
    }
    // Whoever cannot read it now is told when it is opened.
    scan(path).unwrap_or(false)
}

/// Where the table of sections ends, which linkers write last: a copy that broke off is shorter.
fn sections_end(header: &[u8; ELF_HEADER_BYTES]) -> u64 {
    let number = |at: usize, bytes: usize| {
        header[at..at + bytes].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b))
    };
    // `e_shoff`, `e_shentsize` and `e_shnum` of a file of 64 bits, little-endian.
    number(40, 8).saturating_add(number(58, 2) * number(60, 2))
}

/// How files of libraries begin, and how long their header is.
const ELF: &[u8] = b"\x7fELF";
const ELF_HEADER_BYTES: usize = 64;
/// Bytes of a file that are looked at at once.
const SCANNED_BYTES: usize = 1 << 20;

/// The file behind a candidate's path, if its owner alone can have written it.
fn trusted(path: &Path) -> Result<PathBuf, Diagnostic> {
    let unreadable = |e| refused(path, e, "Check that the file exists and may be read.");
    let real = path.canonicalize().map_err(unreadable)?;
    let file = real.metadata().map_err(unreadable)?;
    refuse!(!file.is_file() => refused(path, "not a regular file", "Remove it from the plugin folder."));
    let me = rustix::process::geteuid().as_raw();
    let my_group = rustix::process::getegid().as_raw();
    refuse!(let Some(why) = distrust(&file, me, my_group) => refused(path, why, OWN));
    let folder = real.parent().unwrap_or(Path::new("/"));
    let folder_data = folder.metadata().map_err(unreadable)?;
    refuse!(let Some(why) = distrust(&folder_data, me, my_group) =>
        refused(path, format!("its folder `{}` is {why}", folder.display()), OWN));
    Ok(real)
}

const OWN: &str =
    "Make root or the service user the owner of file and folder, and let no other user write them.";

/// Sticky folders are like private ones: others cannot replace the owner's files there.
const STICKY: u32 = 0o1000;

fn distrust(found: &Metadata, me: u32, my_group: u32) -> Option<String> {
    let (uid, gid, mode) = (found.uid(), found.gid(), found.mode());
    if uid != 0 && uid != me {
        return Some(format!("owned by user {uid}, expected root or user {me}"));
    }
    let sticky_folder = found.is_dir() && mode & STICKY != 0;
    let group = mode & 0o020 != 0 && gid != 0 && gid != my_group;
    if (mode & 0o002 != 0 || group) && !sticky_folder {
        let mode = mode & 0o7777;
        return Some(format!("writable by others (mode {mode:o}, expected {:o})", mode & !0o022));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn put(path: &Path, mode: u32) {
        fs::write(path, b"x").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn candidates_in_order_and_once() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (a.path().canonicalize().unwrap(), b.path().canonicalize().unwrap());
        put(&a.join("libonnxd_z.so"), 0o644);
        put(&a.join("libother.so"), 0o644);
        put(&b.join("two.so"), 0o644);
        put(&b.join("one.so"), 0o755);
        put(&b.join("readme.txt"), 0o644);
        symlink(b.join("one.so"), b.join("three.so")).unwrap();
        let found = discover(&[
            Folder::Program(a.clone()),
            Folder::Plugins(b.clone()),
            Folder::Plugins(b.join("missing")),
        ]);
        let expected = [a.join("libonnxd_z.so"), b.join("one.so"), b.join("two.so")];
        assert_eq!(found.libraries, expected);
        assert_eq!(found.refused, []);
    }

    #[test]
    fn a_library_that_no_plugin_is_stands_by() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let library = |name: &str, words: &[u8], padding: usize| {
            let header = [ELF, &[0; ELF_HEADER_BYTES - 4]].concat();
            let bytes = [&header, &vec![0; padding][..], words].concat();
            fs::write(folder.join(name), bytes).unwrap();
        };
        let mut cut = [ELF, &[0; ELF_HEADER_BYTES - 4]].concat();
        cut[40] = 255;
        fs::write(folder.join("cut.so"), cut).unwrap();
        library("libdep.so", b"some_symbol", 3 * SCANNED_BYTES);
        // The word lies across the border of two pieces.
        library("plugin.so", abi::PLUGIN_SYMBOL.as_bytes(), SCANNED_BYTES - 7);
        fs::write(folder.join("text.so"), "no library").unwrap();
        fs::write(folder.join("empty.so"), "").unwrap();
        let found = discover(&[Folder::Plugins(folder.clone())]);
        assert_eq!(found.bystanders, [folder.join("libdep.so")]);
        let left: Vec<_> =
            ["cut.so", "empty.so", "plugin.so", "text.so"].map(|n| folder.join(n)).into();
        assert_eq!(found.libraries, left);
        library("libonnxd_none.so", b"some_symbol", 0);
        let beside = discover(&[Folder::Program(folder.clone())]);
        assert_eq!(beside.libraries, [folder.join("libonnxd_none.so")]);
    }

    #[test]
    fn what_others_could_have_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        put(&folder.path().join("a.so"), 0o666);
        fs::create_dir(folder.path().join("b.so")).unwrap();
        symlink("/nonexistent", folder.path().join("c.so")).unwrap();
        let found = discover(&[Folder::Plugins(folder.path().to_owned())]);
        assert!(found.libraries.is_empty());
        let texts: Vec<&str> = found.refused.iter().map(|d| d.message.as_str()).collect();
        assert!(texts[0].contains("writable by others (mode 666, expected 644)"), "{texts:?}");
        assert!(texts[1].contains("not a regular file"), "{texts:?}");
        assert_eq!(texts.len(), 3);

        put(&folder.path().join("d.so"), 0o644);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let found = discover(&[Folder::Plugins(folder.path().to_owned())]);
        assert!(found.libraries.is_empty());
        assert!(found.refused[3].message.contains("its folder"), "{:?}", found.refused);
    }

    #[test]
    fn another_owner_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.so");
        put(&file, 0o644);
        let data = file.metadata().unwrap();
        assert_eq!(distrust(&data, data.uid(), data.gid()), None);
        if data.uid() != 0 {
            let why = distrust(&data, data.uid() + 1, data.gid()).unwrap();
            assert!(why.contains("owned by user"), "{why}");
        } else {
            std::os::unix::fs::chown(&file, Some(4242), None).unwrap();
            let why = distrust(&file.metadata().unwrap(), 0, 0).unwrap();
            assert_eq!(why, "owned by user 4242, expected root or user 0");
        }
    }

    #[test]
    fn the_first_of_an_id_wins() {
        let info = |id: &str, path: &str| PluginInfo {
            id: id.into(),
            path: path.into(),
            ..Default::default()
        };
        let all = vec![info("a.x", "/1"), info("a.y", "/2"), info("a.x", "/3")];
        let (used, shadowed) = first_of_each_id(all);
        assert_eq!(used.len(), 2);
        assert_eq!((shadowed[0].plugin.path.as_str(), shadowed[0].by.as_str()), ("/3", "/1"));
    }
}
