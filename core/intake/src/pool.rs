//! The settled files around a network, listed once per folder and scan.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::settle::{folder_settled, is_settled};
use crate::submission::{File, Fingerprint, fingerprint};
use crate::tree::{FileEntry, Folder};

/// Files that a network may want.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Sorted by name.
    pub(crate) files: Arc<[File]>,
    /// Without the networks: other drops come and go without making front-ends look again.
    pub(crate) plain: Fingerprint,
    /// With them.
    pub(crate) all: Fingerprint,
}

/// Everything in a folder and below.
pub(crate) fn whole(folder: &Folder) -> Pool {
    let files = sorted(list(folder, folder));
    let all = fingerprint(&files);
    Pool { files: files.into(), plain: all, all }
}

/// Files of `folder` and below, named relative to `base`.
pub(crate) fn list(base: &Folder, folder: &Folder) -> Vec<File> {
    let mut files = Vec::new();
    folder.each_file(&mut |f, file| files.push(named(base, f, file)));
    files
}

/// One file, named relative to `base`.
pub(crate) fn named(base: &Folder, folder: &Folder, file: &FileEntry) -> File {
    let path = folder.path.join(&file.name);
    let name = path.strip_prefix(&base.path).map(Path::to_owned).unwrap_or(path);
    File { name, stamp: file.stamp }
}

fn sorted(mut files: Vec<File>) -> Vec<File> {
    files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    files
}

/// The pools of folders in which sets lie side by side, made when first asked for.
#[derive(Default)]
pub(crate) struct Pools(HashMap<(*const Folder, bool), Pool>);

impl Pools {
    /// Settled files directly in `folder`, and those of sub-folders that are settled as a whole and
    /// hold no network; all of them if a marker says that they are `sure`.
    pub(crate) fn beside(
        &mut self,
        folder: &Folder,
        sure: bool,
        now: Instant,
        settle: Duration,
        is_network: &dyn Fn(&Folder, &FileEntry) -> bool,
    ) -> Pool {
        let make = || {
            let settled = |f: &&FileEntry| sure || is_settled(f.seen, now, settle);
            let (networks, mut plain): (Vec<_>, Vec<_>) = folder
                .files
                .iter()
                .filter(settled)
                .map(|f| (is_network(folder, f), named(folder, folder, f)))
                .partition(|(network, _)| *network);
            for below in &folder.folders {
                let complete = below.first_unread().is_none() && below.first_link().is_none();
                if complete
                    && (sure || folder_settled(below, now, settle))
                    && !holds_network(below, is_network)
                {
                    plain.extend(list(folder, below).into_iter().map(|f| (false, f)));
                }
            }
            let mut files = sorted(plain.into_iter().map(|(_, f)| f).collect());
            let plain = fingerprint(&files);
            files.extend(networks.into_iter().map(|(_, f)| f));
            let files = sorted(files);
            let all = fingerprint(&files);
            Pool { files: files.into(), plain, all }
        };
        self.0.entry((std::ptr::from_ref(folder), sure)).or_insert_with(make).clone()
    }
}

fn holds_network(folder: &Folder, is_network: &dyn Fn(&Folder, &FileEntry) -> bool) -> bool {
    let mut any = false;
    folder.each_file(&mut |f, file| any = any || is_network(f, file));
    any
}
