//! The thread that moves and removes whole folders, so that the event loop never waits for a disk.
//!
//! Every order can be given again after a crash; the store tells which ones are open.

use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender};
use onnxd_config::Settings;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::names::NameRules;
use onnxd_intake::{ClaimError, Unmatched};

use super::crash;
use super::drops::receipts;
use super::event::{Event, OrderResult};
use super::held::Held;
use super::layout::{Folders, is_filled};
use super::order::{DiskOrder, Ordered};
use super::queue::packing;
use super::results::originals;
use crate::conversion::files::remove_folder;
use crate::conversion::submission::names;

/// Starts the thread; it ends when the sender of orders is dropped.
pub(crate) fn spawn(
    orders: Receiver<Ordered>,
    events: Sender<Event>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let keep = move || {
        for (order, settings) in orders {
            let kept = carry_out(order, &settings);
            crash::point("order carried out");
            if events.send(Event::Kept(kept)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("housekeeping".into()).spawn(crash::inherited(keep))
}

fn carry_out(order: DiskOrder, settings: &Settings) -> OrderResult {
    let folders = Folders::of(settings);
    match order {
        DiskOrder::PutAway(job) => {
            let (policy, keep_work) = (settings.output.originals, settings.output.keep_work);
            let done = originals::put_away(&job, &folders, policy, keep_work);
            let done = done.map_err(|e| Diagnostic::new(Code::of_write(&e), e.to_string()));
            OrderResult::PutAway { job: job.id, done }
        }
        DiskOrder::Fetch { job, kept } => {
            let dir = folders.job(&job.id);
            let restored = kept.map_or(Ok(()), |kept| packing::restore(&dir, &kept));
            crash::point("folder restored");
            let done = restored
                .map_err(|e| Diagnostic::new(Code::of_write(&e), e.to_string()))
                .and_then(|()| originals::fetch(&job, &folders));
            OrderResult::Fetched { job: job.id, done }
        }
        DiskOrder::Packed(dirs) => {
            for (dir, report) in dirs {
                if let Err(e) = packing::remove_kept(&dir, report) {
                    tracing::warn!(path = %dir.path().display(), reason = %e, "not removed");
                }
            }
            OrderResult::Removed
        }
        DiskOrder::Unmatched(unmatched) => {
            let done = put_aside(&unmatched, &folders, &names(settings));
            OrderResult::Unmatched { id: unmatched.id, done }
        }
        DiskOrder::Remove(paths) => {
            // Originals that could not be moved are never removed.
            let has_originals =
                |path: &Path| ["originals", "input"].iter().any(|n| is_filled(&path.join(n)));
            for path in paths.iter().filter(|path| !has_originals(path)) {
                if let Err(e) = remove_folder(path) {
                    tracing::warn!(path = %path.display(), reason = %e, "not removed");
                }
            }
            OrderResult::Removed
        }
        DiskOrder::Receipts(change) => {
            receipts::carry_out(&change, &folders);
            OrderResult::Removed
        }
    }
}

/// Moves it to `unmatched/<path below the inbox>`, with a number where that is taken.
fn put_aside(
    unmatched: &Unmatched,
    folders: &Folders,
    names: &NameRules,
) -> Result<PathBuf, ClaimError> {
    let plain = folders.unmatched.join(&unmatched.id);
    let numbered = |n: u32| PathBuf::from(format!("{}.{n}", plain.display()));
    let free = (1..).map(numbered).find(|to| !to.exists()).filter(|_| plain.exists());
    // A claim moves files into a folder: a single file into the one it is to lie in.
    let dest = match (&free, unmatched.set.whole) {
        (Some(numbered), _) => numbered,
        (None, Some(_)) => &plain,
        (None, None) => plain.parent().unwrap_or(&folders.unmatched),
    };
    let above = dest.parent().unwrap_or(Path::new("/"));
    let held = Held::make(above).map_err(|e| {
        ClaimError::Failed(Diagnostic::new(Code::of_write(&e), format!("{}: {e}", above.display())))
    })?;
    let dest = held.at(dest.file_name().unwrap_or_default());
    unmatched.set.plan(&dest).execute(names)?;
    // A single file lies in the numbered folder under its own name.
    let moved = match (&free, unmatched.set.whole) {
        (Some(folder), None) => folder.join(unmatched.id.file_name().unwrap_or_default()),
        (Some(folder), Some(_)) => folder.clone(),
        (None, _) => plain.clone(),
    };
    if let Err(e) = receipts::beside_unmatched(&moved, &unmatched.id, &unmatched.reason) {
        tracing::warn!(drop = %unmatched.id.display(), reason = %e, "no receipt");
    }
    Ok(free.unwrap_or(plain))
}
