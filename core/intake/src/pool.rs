//! The settled files around a network, listed once per folder and look.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::file::{DropFile, Fingerprint, fingerprint};
use crate::group::{InboxSets, Set};
use crate::names::is_role_file;
use crate::tree::{FileEntry, Folder};

/// Everything in a folder and below, and its fingerprint.
pub(crate) fn whole(folder: &Folder) -> (Arc<[DropFile]>, Fingerprint) {
    let files = sorted(list(folder, folder));
    let all = fingerprint(&files);
    (files.into(), all)
}

/// Files of `folder` and below, named relative to `base`.
pub(crate) fn list(base: &Folder, folder: &Folder) -> Vec<DropFile> {
    let mut files = Vec::new();
    folder.each_file(&mut |f, file| files.push(named(base, f, file)));
    files
}

/// One file, named relative to `base`.
pub(crate) fn named(base: &Folder, folder: &Folder, file: &FileEntry) -> DropFile {
    let path = folder.path.join(&file.name);
    let name = path.strip_prefix(&base.path).map(Path::to_owned).unwrap_or(path);
    DropFile { name, stamp: file.stamp }
}

pub(crate) fn sorted(mut files: Vec<DropFile>) -> Vec<DropFile> {
    files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    files
}

/// What lies around the networks of one folder.
#[derive(Debug)]
pub(crate) struct Around {
    /// Settled files that carry no network's name, and sub-folders that are settled as a whole and
    /// hold no network. The files of other networks are not among them: other drops come and go
    /// without making front-ends look again.
    pub(crate) shared: Vec<DropFile>,
    pub(crate) shared_print: Fingerprint,
    /// All settled files, networks included, sorted by name.
    all: OnceCell<(Arc<[DropFile]>, Fingerprint)>,
}

impl Around {
    /// All settled files of the folder, networks included, with their fingerprint.
    pub(crate) fn all(
        &self,
        folder: &Folder,
        settled: impl Fn(&FileEntry) -> bool,
    ) -> &(Arc<[DropFile]>, Fingerprint) {
        self.all.get_or_init(|| {
            let direct =
                folder.files.iter().filter(|f| settled(f)).map(|f| named(folder, folder, f));
            let below = self.shared.iter().filter(|f| f.name.components().nth(1).is_some());
            let files = sorted(direct.chain(below.cloned()).collect());
            let print = fingerprint(&files);
            (files.into(), print)
        })
    }
}

/// What lies around networks, by folder, made when first asked for.
#[derive(Default)]
pub(crate) struct Pools {
    around: HashMap<(*const Folder, bool), Rc<Around>>,
    busy_roles: HashMap<*const Folder, Option<PathBuf>>,
}

impl Pools {
    /// What lies around the networks of a set's folder. `settled` says what counts of files, and
    /// `complete` what counts of sub-folders; where a marker says that they are `sure`, all does.
    pub(crate) fn around(
        &mut self,
        set: &Set<'_>,
        shared: &[&FileEntry],
        groups: &InboxSets<'_>,
        settled: impl Fn(&FileEntry) -> bool,
        complete: impl Fn(&Folder) -> bool,
    ) -> Rc<Around> {
        let folder = set.place;
        let sure = set.marker.is_some();
        let make = || {
            let direct = shared.iter().filter(|f| settled(f)).map(|f| named(folder, folder, f));
            let mut shared: Vec<DropFile> = direct.collect();
            for below in &folder.folders {
                let readable = below.first_unread().is_none() && below.first_link().is_none();
                if readable && complete(below) && !holds_network(below, groups) {
                    shared.extend(list(folder, below));
                }
            }
            let shared = sorted(shared);
            let shared_print = fingerprint(&shared);
            Rc::new(Around { shared, shared_print, all: OnceCell::new() })
        };
        Rc::clone(self.around.entry((std::ptr::from_ref(folder), sure)).or_insert_with(make))
    }

    /// A file that belongs to every network of a folder by its name, and is not settled.
    pub(crate) fn busy_role(
        &mut self,
        folder: &Folder,
        settled: impl Fn(&FileEntry) -> bool,
    ) -> Option<PathBuf> {
        let find = || {
            let mut roles = folder.files.iter().filter(|f| is_role_file(&f.name));
            roles.find(|f| !settled(f)).map(|f| folder.path.join(&f.name))
        };
        self.busy_roles.entry(std::ptr::from_ref(folder)).or_insert_with(find).clone()
    }
}

fn holds_network(folder: &Folder, groups: &InboxSets<'_>) -> bool {
    let mut any = false;
    folder.each_file(&mut |_, file| any = any || groups.is_network(file));
    any
}
