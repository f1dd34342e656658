//! From the tree of one scan to the sets of files that belong together.
//!
//! A folder with exactly one network is one submission with everything in it. In the inbox itself,
//! and in a folder with several networks or a preset, each network is a submission with the files that carry
//! its name; what carries no network's name is shared and goes along only where it is unambiguous.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use crate::names::{NameRules, is_params, is_role_file, stem};
use crate::tree::{FileEntry, Folder, SeenTimes};

/// A network and what may belong to it.
#[derive(Clone, Debug)]
pub struct Set<'t> {
    /// The folder that file names are relative to.
    pub place: &'t Folder,
    /// The folder above, for a whole folder; else the same as `place`.
    pub parent: &'t Folder,
    /// The network's file, directly in `place`.
    pub network: &'t FileEntry,
    /// How much of `place` belongs to it.
    pub extent: Extent<'t>,
    /// `NAME.ready`, directly in `parent`, if there is one.
    pub marker: Option<&'t FileEntry>,
}

/// How much of its folder belongs to a network.
#[derive(Clone, Debug)]
pub enum Extent<'t> {
    /// All of it, sub-folders included.
    Whole,
    /// Files side by side with others.
    Beside {
        /// The network and the files that carry its name; shared files are not in here.
        own: Vec<&'t FileEntry>,
        /// Files under temporary names that will carry its name, or belong to anyone.
        coming: Vec<&'t FileEntry>,
        /// No other network is in the folder, so shared files are its own too.
        alone: bool,
        /// Stem of the network, or its full name where two networks have the same stem.
        name: OsString,
        /// Files of the folder that carry no network's name.
        shared: Rc<[&'t FileEntry]>,
    },
}

impl Set<'_> {
    /// When the set was seen first, and when it changed.
    pub fn seen(&self) -> SeenTimes {
        match self.extent {
            Extent::Whole => self.place.seen,
            Extent::Beside { .. } => self.network.seen,
        }
    }

    /// Parts that are still under a temporary name, relative to `place`.
    pub(crate) fn coming(&self) -> Vec<PathBuf> {
        let mut names = Vec::new();
        match &self.extent {
            Extent::Beside { coming, .. } => {
                names.extend(coming.iter().map(|f| PathBuf::from(&f.name)));
            }
            Extent::Whole => self.place.each_folder(&mut |folder| {
                let below = folder.path.strip_prefix(&self.place.path).unwrap_or(&folder.path);
                names.extend(folder.transient.iter().map(|f| below.join(&f.name)));
            }),
        }
        names
    }

    /// Path below the inbox that names the set: the whole folder, or the network.
    pub fn id(&self) -> PathBuf {
        match self.extent {
            Extent::Whole => self.place.path.clone(),
            Extent::Beside { .. } => self.place.path.join(&self.network.name),
        }
    }

    /// Name of the submission.
    pub fn name(&self) -> OsString {
        match &self.extent {
            Extent::Whole => self.place.name().to_owned(),
            Extent::Beside { name, .. } => name.clone(),
        }
    }

    /// Path of the network below the inbox.
    pub(crate) fn network_path(&self) -> PathBuf {
        self.place.path.join(&self.network.name)
    }

    /// Path below the inbox under which its results go.
    pub(crate) fn results_folder(&self) -> PathBuf {
        self.parent.path.clone()
    }
}

/// A file or a folder without any network in it, where no network could want it.
#[derive(Clone, Copy, Debug)]
pub enum Leftover<'t> {
    /// A folder with all that is in it.
    Folder(&'t Folder),
    /// One file in a folder.
    File(&'t Folder, &'t FileEntry),
}

impl Leftover<'_> {
    /// When it was seen first, and when anything of it changed.
    pub fn seen(&self) -> SeenTimes {
        match self {
            Leftover::File(_, file) => file.seen,
            Leftover::Folder(folder) => {
                let mut latest = folder.seen;
                folder.each_seen(&mut |seen| latest.changed = latest.changed.max(seen.changed));
                latest
            }
        }
    }

    /// Path below the inbox.
    pub fn id(&self) -> PathBuf {
        match self {
            Leftover::Folder(folder) => folder.path.clone(),
            Leftover::File(folder, file) => folder.path.join(&file.name),
        }
    }
}

/// Everything that lies in the inbox, sorted into sets.
#[derive(Debug, Default)]
pub struct InboxSets<'t> {
    /// One per network.
    pub sets: Vec<Set<'t>>,
    /// What no network could want.
    pub leftovers: Vec<Leftover<'t>>,
    /// Folders in which sets lie side by side, the inbox included: links in them are on their own.
    pub shared: Vec<&'t Folder>,
    /// Addresses of the files that are networks.
    networks: HashSet<*const FileEntry>,
}

impl InboxSets<'_> {
    /// Whether a file of the tree is a network, as far as is known.
    pub fn is_network(&self, file: &FileEntry) -> bool {
        self.networks.contains(&std::ptr::from_ref(file))
    }
}

/// Sorts the tree. `is_network` judges a file by its name (and by what is known about it already).
/// `stays_beside` tells a network that was one of several when it was found to be complete: once it
/// is the last, the folder does not become a submission of its name.
pub fn group<'t>(
    root: &'t Folder,
    names: &NameRules,
    ready_markers: bool,
    is_network: &dyn Fn(&Folder, &FileEntry) -> bool,
    stays_beside: &dyn Fn(&Folder, &FileEntry) -> bool,
) -> InboxSets<'t> {
    let is_network = |folder: &Folder, f: &FileEntry| !is_params(&f.name) && is_network(folder, f);
    let mut walk = Grouping {
        is_network: &is_network,
        stays_beside,
        names,
        ready_markers,
        with_network: HashSet::new(),
        groups: InboxSets::default(),
    };
    walk.note_networks(root);
    walk.side_by_side(root);
    walk.groups
}

struct Grouping<'a, 't> {
    is_network: &'a dyn Fn(&Folder, &FileEntry) -> bool,
    stays_beside: &'a dyn Fn(&Folder, &FileEntry) -> bool,
    names: &'a NameRules,
    ready_markers: bool,
    /// Addresses of the folders that hold a network at any depth.
    with_network: HashSet<*const Folder>,
    groups: InboxSets<'t>,
}

impl<'t> Grouping<'_, 't> {
    /// Each file is judged once; comparing thousands of names with all globs takes time.
    fn note_networks(&mut self, folder: &'t Folder) -> bool {
        let before = self.groups.networks.len();
        let networks = folder.files.iter().filter(|f| (self.is_network)(folder, f));
        self.groups.networks.extend(networks.map(std::ptr::from_ref));
        let mut any = self.groups.networks.len() > before;
        for below in &folder.folders {
            any |= self.note_networks(below);
        }
        if any {
            self.with_network.insert(std::ptr::from_ref(folder));
        }
        any
    }

    /// The inbox itself, a folder with several networks, or one that only leads to others.
    fn side_by_side(&mut self, folder: &'t Folder) {
        self.groups.shared.push(folder);
        let (networks, others): (Vec<_>, Vec<_>) =
            folder.files.iter().partition(|f| self.groups.is_network(f));
        if networks.is_empty() {
            let markers = self.markers_of_folders(folder);
            let loose = others.into_iter().filter(|f| !markers.contains(f.name.as_os_str()));
            self.groups.leftovers.extend(loose.map(|f| Leftover::File(folder, f)));
        } else {
            self.beside(folder, &networks, &others);
        }
        for below in &folder.folders {
            if self.with_network.contains(&std::ptr::from_ref(below)) {
                self.below(folder, below);
            } else if (networks.is_empty() && holds_files(below)) || is_unfit(below) {
                self.groups.leftovers.push(Leftover::Folder(below));
            }
        }
    }

    fn below(&mut self, parent: &'t Folder, folder: &'t Folder) {
        let mut networks = folder.files.iter().filter(|f| self.groups.is_network(f));
        match (networks.next(), networks.next()) {
            // A preset stays, and with it the folder.
            (Some(network), None)
                if folder.preset.is_none() && !(self.stays_beside)(folder, network) =>
            {
                let marker = self.marker(parent, &[folder.name()]);
                let extent = Extent::Whole;
                self.groups.sets.push(Set { place: folder, parent, network, extent, marker });
            }
            _ => self.side_by_side(folder),
        }
    }

    fn beside(&mut self, folder: &'t Folder, networks: &[&'t FileEntry], others: &[&'t FileEntry]) {
        let mut own: Vec<Vec<&'t FileEntry>> = networks.iter().map(|n| vec![*n]).collect();
        let markers: Vec<_> = networks
            .iter()
            .map(|n| self.marker(folder, &[&n.name, OsStr::from_bytes(stem(&n.name))]))
            .collect();
        let mut taken = self.markers_of_folders(folder);
        taken.extend(markers.iter().flatten().map(|m| m.name.as_os_str()));
        let owners = Owners::new(networks);
        let mut shared = Vec::new();
        for other in others.iter().filter(|f| !taken.contains(f.name.as_os_str())) {
            match owners.owner(&other.name) {
                Some(i) => own[i].push(other),
                None => shared.push(*other),
            }
        }
        let shared: Rc<[&'t FileEntry]> = shared.into();
        let mut coming = vec![Vec::new(); networks.len()];
        for file in &folder.transient {
            let name = self.names.final_name(&file.name);
            match owners.get(name.as_bytes()).flatten().or_else(|| owners.owner(name)) {
                Some(i) => coming[i].push(file),
                None if is_role_file(name) => coming.iter_mut().for_each(|c| c.push(file)),
                None => {}
            }
        }
        let alone = networks.len() == 1 && !(self.stays_beside)(folder, networks[0]);
        let parts = own.into_iter().zip(coming);
        for ((network, (own, coming)), marker) in networks.iter().zip(parts).zip(markers) {
            let name = owners.submission_name(&network.name);
            let shared = Rc::clone(&shared);
            let extent = Extent::Beside { own, coming, alone, name, shared };
            let set = Set { place: folder, parent: folder, network, extent, marker };
            self.groups.sets.push(set);
        }
    }

    /// `NAME.ready` for one of the names.
    fn marker(&self, folder: &'t Folder, names: &[&OsStr]) -> Option<&'t FileEntry> {
        if !self.ready_markers {
            return None;
        }
        names.iter().find_map(|name| {
            let mut marker = (*name).to_owned();
            marker.push(".ready");
            folder.file(&marker)
        })
    }

    /// Markers of sub-folders are no companions of anything else, nor left over.
    fn markers_of_folders(&self, folder: &'t Folder) -> HashSet<&'t OsStr> {
        let with_network =
            folder.folders.iter().filter(|f| self.with_network.contains(&std::ptr::from_ref(*f)));
        with_network
            .filter_map(|f| self.marker(folder, &[f.name()]))
            .map(|m| m.name.as_os_str())
            .collect()
    }
}

/// To be shown in any case: it will not go along with anything.
fn is_unfit(folder: &Folder) -> bool {
    folder.first_unread().is_some() || folder.first_link().is_some()
}

fn holds_files(folder: &Folder) -> bool {
    let mut any = false;
    folder.each_folder(&mut |f| any |= !f.files.is_empty());
    any
}

/// Which network a file belongs to by its name.
struct Owners {
    /// Sorted (name or stem, index); a stem of two networks belongs to neither.
    keys: Vec<(Vec<u8>, Option<usize>)>,
}

impl Owners {
    fn new(networks: &[&FileEntry]) -> Owners {
        let mut keys: Vec<(Vec<u8>, Option<usize>)> = networks
            .iter()
            .enumerate()
            .flat_map(|(i, n)| {
                let full = n.name.as_bytes();
                let short = stem(&n.name);
                let short = (short != full).then(|| (short.to_vec(), Some(i)));
                [Some((full.to_vec(), Some(i))), short].into_iter().flatten()
            })
            .collect();
        keys.sort();
        keys.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = None;
            }
            same
        });
        Owners { keys }
    }

    fn get(&self, key: &[u8]) -> Option<Option<usize>> {
        let i = self.keys.binary_search_by(|(k, _)| k.as_slice().cmp(key)).ok()?;
        Some(self.keys[i].1)
    }

    /// The network whose name or stem, followed by a dot, is the longest beginning of `name`.
    fn owner(&self, name: &OsStr) -> Option<usize> {
        let bytes = name.as_bytes();
        let dots = bytes.iter().enumerate().rev().filter(|(_, b)| **b == b'.');
        dots.map(|(i, _)| &bytes[..i]).find_map(|key| self.get(key)).flatten()
    }

    fn submission_name(&self, network: &OsStr) -> OsString {
        match self.get(stem(network)) {
            Some(Some(_)) => OsStr::from_bytes(stem(network)).to_owned(),
            _ => network.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{file, folder};

    fn files(names: &[&str]) -> Vec<FileEntry> {
        let mut all: Vec<_> = names.iter().map(|n| file(n, 1)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// One line per set: `id: own files [alone]`, and per leftover `- id`.
    fn shown(root: &Folder) -> Vec<String> {
        let glob = |_: &Folder, f: &FileEntry| {
            let name = f.name.to_str().unwrap();
            name.ends_with(".onnx") || name.ends_with(".ini")
        };
        let groups = group(root, &NameRules::default(), true, &glob, &|_, _| false);
        let mut lines: Vec<String> = groups
            .sets
            .iter()
            .map(|set| {
                let what = match &set.extent {
                    Extent::Whole => "whole".to_owned(),
                    Extent::Beside { own, alone, name, .. } => {
                        let own: Vec<_> = own.iter().map(|f| f.name.to_str().unwrap()).collect();
                        let alone = if *alone { " alone" } else { "" };
                        format!("{} as {}{alone}", own.join(" "), name.to_str().unwrap())
                    }
                };
                let ready = if set.marker.is_some() { " ready" } else { "" };
                format!("{}: {what}{ready}", set.id().display())
            })
            .collect();
        lines.extend(groups.leftovers.iter().map(|l| format!("- {}", l.id().display())));
        lines
    }

    #[test]
    fn a_folder_with_one_network_is_one_submission() {
        let weights = folder("u/net/weights", &files(&["a.syntxt"]), &[]);
        let net = folder("u/net", &files(&["net.ini", "params.ini", "extra.bin"]), &[weights]);
        let root = folder("", &[], &[folder("u", &[], &[net])]);
        assert_eq!(shown(&root), ["u/net: whole"]);
    }

    #[test]
    fn a_folder_with_a_preset_stays() {
        let weights = folder("u/weights", &files(&["a.syntxt"]), &[]);
        let mut team = folder("u", &files(&["net.ini", "params.ini"]), &[weights]);
        team.preset = files(&["onnxd.params.toml"]).pop();
        let root = folder("", &[], &[team]);
        assert_eq!(shown(&root), ["u/net.ini: net.ini as net alone"]);
    }

    #[test]
    fn networks_side_by_side_keep_their_named_companions() {
        let names =
            ["a.onnx", "a.onnx.data", "a.params.toml", "b.onnx", "params.toml", "weights.bin"];
        let root = folder("", &files(&names), &[]);
        assert_eq!(
            shown(&root),
            ["a.onnx: a.onnx a.onnx.data a.params.toml as a", "b.onnx: b.onnx as b"]
        );
        let sub = folder("s", &files(&names), &[]);
        assert_eq!(shown(&folder("", &[], &[sub])).len(), 2);
    }

    #[test]
    fn one_network_in_the_inbox_takes_itself_only() {
        let sub = folder("other", &files(&["x.onnx"]), &[]);
        let root = folder("", &files(&["a.onnx", "readme.txt"]), &[sub]);
        assert_eq!(shown(&root), ["a.onnx: a.onnx as a alone", "other: whole"]);
    }

    #[test]
    fn the_longest_stem_owns_a_file_and_equal_stems_own_nothing() {
        let names = ["r.onnx", "r.params.toml", "r.v2.onnx", "r.v2.params.toml"];
        assert_eq!(
            shown(&folder("", &files(&names), &[])),
            ["r.onnx: r.onnx r.params.toml as r", "r.v2.onnx: r.v2.onnx r.v2.params.toml as r.v2"]
        );
        let names = ["n.ini", "n.ini.x", "n.onnx", "n.params.toml"];
        assert_eq!(
            shown(&folder("", &files(&names), &[])),
            ["n.ini: n.ini n.ini.x as n.ini", "n.onnx: n.onnx as n.onnx"]
        );
    }

    #[test]
    fn what_no_network_could_want_is_left_over() {
        let docs = folder("u/docs", &files(&["a.txt"]), &[]);
        let empty = folder("u/empty", &[], &[]);
        let net = folder("u/net", &files(&["n.ini"]), &[]);
        let root = folder(
            "",
            &files(&["params.toml"]),
            &[folder("u", &files(&["x.txt"]), &[docs, empty, net])],
        );
        assert_eq!(shown(&root), ["u/net: whole", "- params.toml", "- u/x.txt", "- u/docs"]);
    }

    #[test]
    fn markers_belong_to_their_sets() {
        let net = folder("net", &files(&["n.ini"]), &[]);
        let names = ["a.onnx", "a.ready", "b.onnx", "b.onnx.ready", "net.ready"];
        assert_eq!(
            shown(&folder("", &files(&names), std::slice::from_ref(&net))),
            ["a.onnx: a.onnx as a ready", "b.onnx: b.onnx as b ready", "net: whole ready"]
        );
        assert_eq!(shown(&folder("", &files(&["net.ready"]), &[net])), ["net: whole ready"]);
    }
}
