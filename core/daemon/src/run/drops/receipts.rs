//! Receipts for drops that stay: whoever dropped them sees folders only, no socket and no log.
//!
//! `outbox/<path below the inbox>.receipt.txt` says why a drop is not taken, and goes when that is
//! over; a quarantined job has `outbox/<folder>/<name>.<job>.receipt.txt`. They lie in the outbox
//! because in the inbox they would be taken for a part of the drop.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use onnxd_files::{own_folder, own_regular, replace_in};
use onnxd_intake::{InboxItem, InboxState};
use onnxd_proto::onnxd::Job;

use super::Drops;
use crate::conversion::files::remove_file;
use crate::run::held::Held;
use crate::run::layout::Folders;
use crate::run::order::{DiskOrder, ReceiptChange};

/// A drop that is on its way has no receipt.
const AFTER: Duration = Duration::from_secs(10);
/// Most receipts at a time; a thousandth drop that waits says nothing new.
const RECEIPTS_MAX: usize = 1_000;
const ENDING: &str = ".receipt.txt";
/// How every receipt begins, so that nothing else is taken for one.
const HEAD: &str = "onnxd ";

/// Texts by their paths below the outbox.
pub(crate) type Receipts = BTreeMap<PathBuf, String>;

impl Drops {
    /// Whether drops are told why they stay.
    pub(crate) fn has_receipts(&self) -> bool {
        !self.receipts.is_empty()
    }

    /// Brings the receipts up to date, if anything about them has changed.
    pub(crate) fn renew_receipts(
        &mut self,
        items: &[InboxItem],
        quarantined: &[Job],
    ) -> Option<DiskOrder> {
        let mut wanted: Receipts = items.iter().filter_map(of_drop).take(RECEIPTS_MAX).collect();
        wanted.extend(quarantined.iter().take(RECEIPTS_MAX).map(of_job));
        if wanted == self.receipts {
            return None;
        }
        let news = wanted.iter().filter(|(path, text)| self.receipts.get(*path) != Some(*text));
        let write = news.map(|(path, text)| (path.clone(), text.clone())).collect();
        let gone = self.receipts.keys().filter(|path| !wanted.contains_key(*path));
        let change = ReceiptChange {
            write,
            remove: gone.cloned().collect(),
            all: wanted.keys().cloned().collect(),
        };
        self.receipts = wanted;
        Some(DiskOrder::Receipts(change))
    }
}

/// Those of an earlier run, to be removed once they are not wanted any more.
pub(crate) fn left(folders: &Folders) -> Receipts {
    let text = fs::read_to_string(list(folders)).unwrap_or_default();
    let paths: Vec<PathBuf> = serde_json::from_str(&text).unwrap_or_default();
    paths.into_iter().filter(|path| is_below(path)).map(|path| (path, String::new())).collect()
}

fn list(folders: &Folders) -> PathBuf {
    folders.state.join("receipts.json")
}

/// The list is ours, but paths in it are used to remove files.
fn is_below(path: &Path) -> bool {
    let plain = |c| matches!(c, std::path::Component::Normal(_));
    path.components().all(plain) && path.as_os_str().as_encoded_bytes().ends_with(ENDING.as_bytes())
}

fn of_drop(item: &InboxItem) -> Option<(PathBuf, String)> {
    let next = match &item.state {
        InboxState::WaitingFor { .. } => {
            "add what is missing; what lies there stays as it is".to_owned()
        }
        InboxState::Unmatched { .. } => {
            "rename, unpack or convert it to a format that `onnxd plugins list` shows, or remove it"
                .to_owned()
        }
        InboxState::Refused { reason } if !reason.help.is_empty() => reason.help.to_string(),
        InboxState::Refused { .. } => "correct what the reason says".to_owned(),
        InboxState::Blocked { .. } => {
            "if the reason is not yours, ask whoever runs onnxd; it is tried again".to_owned()
        }
        InboxState::Arriving { .. }
        | InboxState::Asked
        | InboxState::Queued
        | InboxState::HandedOver => return None,
    };
    if item.since.elapsed() < AFTER {
        return None;
    }
    let name = item.id.to_str()?;
    let text = format!(
        "{}result: {}, not taken yet\nreason: {}\nnext: {}\ndrop: {}\n",
        head(name),
        item.state.word(),
        line(&item.state.sentence()),
        line(&next),
        line(name)
    );
    Some((PathBuf::from(format!("{name}{ENDING}")), text))
}

fn of_job(job: &Job) -> (PathBuf, String) {
    let why = job.diagnostics.first().map_or("its worker ended again and again", |d| &d.message);
    let text = format!(
        "{}result: quarantined\nreason: {}\nnext: ask whoever runs onnxd; `onnxd jobs release` \
         tries it again\njob: {}\n",
        head(&job.name),
        line(why),
        job.id
    );
    (Path::new(&job.folder).join(format!("{}.{}{ENDING}", job.name, job.id)), text)
}

fn head(name: &str) -> String {
    format!("{HEAD}{}: {}\n", env!("CARGO_PKG_VERSION"), line(name))
}

/// Names and reasons of others cannot add lines.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The receipt that goes with what was moved to `unmatched/`.
pub(crate) fn beside_unmatched(moved: &Path, name: &Path, reason: &str) -> io::Result<()> {
    let name = name.to_string_lossy();
    let text = format!(
        "{}result: unmatched, moved out of the inbox\nreason: {}\nnext: rename, unpack or convert it \
         to a format that `onnxd plugins list` shows, and drop that\n",
        head(&name),
        line(reason)
    );
    let mut path = moved.as_os_str().to_owned();
    path.push(ENDING);
    replace(Path::new(&path), &text)
}

/// Carries a change out; what failed is said once, in the log.
pub(crate) fn carry_out(change: &ReceiptChange, folders: &Folders) {
    // The list first: a receipt that is not in the list would stay for ever.
    let all: Vec<&PathBuf> = change.all.iter().chain(&change.remove).collect();
    let listed = serde_json::to_string(&all).map_err(io::Error::other);
    let list = list(folders);
    let name = list.file_name().unwrap_or_default();
    let state = own_folder(&folders.state);
    let mut done = state.and_then(|state| replace_in(&state, name, listed?.as_bytes()));
    for (path, text) in &change.write {
        done = done.and(replace(&folders.outbox.join(path), text));
    }
    for path in &change.remove {
        done = done.and(remove(&folders.outbox.join(path)));
    }
    if let Err(e) = done {
        tracing::warn!(reason = %e, "receipts of drops that wait could not be written");
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (folder, name) = (Held::make(parent(path))?, path.file_name().unwrap_or_default());
    let there = folder.at(name);
    if there.symlink_metadata().is_ok() && !is_receipt(&there) {
        return Err(io::Error::other(format!("{} is not onnxd's", path.display())));
    }
    replace_in(&folder, name, text.as_bytes())
}

fn remove(path: &Path) -> io::Result<()> {
    let folder = match Held::open(parent(path)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let there = folder.at(path.file_name().unwrap_or_default());
    if is_receipt(&there) { remove_file(&there) } else { Ok(()) }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn is_receipt(path: &Path) -> bool {
    let mut head = [0; HEAD.len()];
    let read = own_regular(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == HEAD.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn change(order: Option<DiskOrder>) -> ReceiptChange {
        match order {
            Some(DiskOrder::Receipts(change)) => change,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn receipts_follow_what_stays() {
        let root = tempfile::tempdir().unwrap();
        let mut drops = Drops::new(&Folders::below(root.path()));
        let now = Instant::now();
        let old = now.checked_sub(2 * AFTER).unwrap_or(now);
        let unmatched = |reason: &str| InboxState::Unmatched { reason: reason.into() };
        let item = |id: &str, state| InboxItem { id: id.into(), since: old, state };
        let fresh = InboxItem { since: now, ..item("new.txt", unmatched("no network")) };
        assert!(drops.renew_receipts(&[fresh, item("a.onnx", InboxState::Queued)], &[]).is_none());
        let job = Job { id: "01J".into(), name: "net".into(), ..Job::default() };
        let items = [item("b.txt", unmatched("no network"))];
        let first = change(drops.renew_receipts(&items, std::slice::from_ref(&job)));
        let names = |paths: &[PathBuf]| paths.iter().map(|p| p.display().to_string()).collect();
        let all: Vec<String> = names(&first.all);
        assert_eq!(all, ["b.txt.receipt.txt", "net.01J.receipt.txt"]);
        assert!(first.write[Path::new("b.txt.receipt.txt")].contains("reason: no network\n"));
        assert!(drops.renew_receipts(&items, std::slice::from_ref(&job)).is_none(), "as before");
        let items = [item("b.txt", unmatched("a line\nof others"))];
        let next = change(drops.renew_receipts(&items, &[]));
        assert!(next.write[Path::new("b.txt.receipt.txt")].contains("reason: a line of others\n"));
        let gone: Vec<String> = names(&next.remove);
        assert_eq!((next.write.len(), gone), (1, vec!["net.01J.receipt.txt".to_owned()]));
        assert!(drops.has_receipts());
        change(drops.renew_receipts(&[], &[]));
        assert!(!drops.has_receipts());
    }
}
