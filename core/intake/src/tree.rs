//! The inbox as one scan saw it: folders, files, and since when each of them has been quiet.
//!
//! Plain data without any file system access, so that settling and grouping are pure functions.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Instant;

use onnxd_diagnostics::Code;
use rustix::fs::Stat;

/// Everything about an inode whose change means that it is still being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Device of the file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of content; compared for change only, its value means nothing.
    pub mtime_ns: i128,
    /// Time of the last change of the inode (content, mode, owner, links, name).
    pub ctime_ns: i128,
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Stamp {
    /// Same content of the same inode. The inode's own times are left out: a rename changes them.
    pub fn same_content(&self, other: &Stamp) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino) && self.same_bytes(other)
    }

    /// Same size and time of change, as it holds for a copy that kept the time.
    pub fn same_bytes(&self, other: &Stamp) -> bool {
        (self.size, self.mtime_ns) == (other.size, other.mtime_ns)
    }
}

impl From<&Stat> for Stamp {
    #[allow(clippy::unnecessary_cast)] // field widths differ between architectures
    fn from(stat: &Stat) -> Stamp {
        let ns = |s: i128, ns: i128| s * 1_000_000_000 + ns;
        Stamp {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime_ns: ns(stat.st_mtime as i128, stat.st_mtime_nsec as i128),
            ctime_ns: ns(stat.st_ctime as i128, stat.st_ctime_nsec as i128),
            mode: stat.st_mode as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }
    }
}

/// When an entry was first seen, and when it was last seen to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenTimes {
    /// First scan that saw the name.
    pub first: Instant,
    /// Last scan that saw it different from the scan before.
    pub changed: Instant,
}

impl SeenTimes {
    /// New at `now`.
    pub fn new(now: Instant) -> SeenTimes {
        SeenTimes { first: now, changed: now }
    }
}

/// A regular file.
#[derive(Clone, Debug)]
pub struct FileEntry {
    /// Name as the file system spells it.
    pub name: OsString,
    /// The inode.
    pub stamp: Stamp,
    /// Filled by [`crate::settle::carry_over`].
    pub seen: SeenTimes,
}

/// Why a folder was not read completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// A limit, or an error of the system.
    pub code: Code,
    /// Half a sentence.
    pub why: String,
}

/// A folder and all that is in it. The lists are sorted by name.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Path below the inbox; empty for the inbox itself.
    pub path: PathBuf,
    /// The inode.
    pub stamp: Stamp,
    /// Filled by [`crate::settle::carry_over`].
    pub seen: SeenTimes,
    /// Members of drops.
    pub files: Vec<FileEntry>,
    /// Files under temporary names.
    pub transient: Vec<FileEntry>,
    /// Params for all drops in here and below.
    pub preset: Option<FileEntry>,
    /// Sub-folders.
    pub folders: Vec<Folder>,
    /// Names of symbolic links; they are never followed.
    pub links: Vec<OsString>,
    /// Names of devices, pipes and sockets; they are never opened.
    pub specials: Vec<OsString>,
    /// Why the lists do not hold everything that is there, if so.
    pub unread: Option<Unread>,
}

impl Folder {
    /// An empty folder.
    pub fn new(path: PathBuf, stamp: Stamp, now: Instant) -> Folder {
        Folder {
            path,
            stamp,
            seen: SeenTimes::new(now),
            files: Vec::new(),
            transient: Vec::new(),
            preset: None,
            folders: Vec::new(),
            links: Vec::new(),
            specials: Vec::new(),
            unread: None,
        }
    }

    /// Last component of the path; empty for the inbox itself.
    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// The file of that name directly in this folder.
    pub fn file(&self, name: &OsStr) -> Option<&FileEntry> {
        let i = self.files.binary_search_by(|f| f.name.as_os_str().cmp(name)).ok()?;
        Some(&self.files[i])
    }

    /// The sub-folder of that name.
    pub fn folder(&self, name: &OsStr) -> Option<&Folder> {
        let i = self.folders.binary_search_by(|f| f.name().cmp(name)).ok()?;
        Some(&self.folders[i])
    }

    /// The file at a path relative to this folder.
    pub fn find(&self, relative: &Path) -> Option<&FileEntry> {
        let mut folder = self;
        for component in relative.parent()?.components() {
            folder = folder.folder(component.as_os_str())?;
        }
        folder.file(relative.file_name()?)
    }

    /// The presets that hold for drops in the folder at a path relative to this one, outermost first, each with the
    /// path of its folder.
    pub fn presets(&self, relative: &Path) -> Vec<(&Path, &FileEntry)> {
        let mut folders = vec![self];
        for component in relative.components() {
            let Some(next) = folders[folders.len() - 1].folder(component.as_os_str()) else {
                break;
            };
            folders.push(next);
        }
        let preset = |f: &&'_ Folder| f.preset.is_some();
        let with = folders.into_iter().filter(preset);
        with.filter_map(|f| Some((f.path.as_path(), f.preset.as_ref()?))).collect()
    }

    /// Calls `visit` for this folder and all folders below it.
    pub fn each_folder<'t>(&'t self, visit: &mut dyn FnMut(&'t Folder)) {
        visit(self);
        for folder in &self.folders {
            folder.each_folder(visit);
        }
    }

    /// All files of this folder and below, with their folder.
    pub fn each_file<'t>(&'t self, visit: &mut dyn FnMut(&'t Folder, &'t FileEntry)) {
        self.each_folder(&mut |folder| folder.files.iter().for_each(|f| visit(folder, f)));
    }

    /// The times of everything in here, this folder and temporary files included.
    pub fn each_seen(&self, visit: &mut dyn FnMut(SeenTimes)) {
        self.each_folder(&mut |folder| {
            visit(folder.seen);
            let files = folder.files.iter().chain(&folder.transient).chain(&folder.preset);
            files.for_each(|f| visit(f.seen));
        });
    }

    /// The first problem that makes this folder unfit to be taken as a whole.
    pub fn first_unread(&self) -> Option<(&Folder, &Unread)> {
        let mut found = None;
        self.each_folder(&mut |f| {
            if found.is_none() {
                found = f.unread.as_ref().map(|why| (f, why));
            }
        });
        found
    }

    /// The first symbolic link in this folder or below.
    pub fn first_link(&self) -> Option<PathBuf> {
        let mut found = None;
        self.each_folder(&mut |f| {
            if found.is_none() {
                found = f.links.first().map(|name| f.path.join(name));
            }
        });
        found
    }
}
