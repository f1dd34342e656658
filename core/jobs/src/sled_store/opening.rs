//! Opens journal, index and packs, and makes them agree.

use super::Files;
use crate::at_hand::AtHand;
use crate::finished::{Finished, PackFolders as Packs};
use crate::journal::{self, Image, Journal, JournalEntry, Reading};
use crate::layout::parse_rows;
use crate::record::RecordError;
use crate::repair::IndexFolder;
use onnxd_diagnostics::Diagnostic;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use ulid::Ulid;

impl Files {
    /// Opens all and makes them agree. `afresh` goes on in a new file of the journal: after a
    /// failed sync the memory of the system may show what the disk does not hold.
    pub(super) fn open(dir: &Path, afresh: bool) -> Result<(Files, Vec<String>), Diagnostic> {
        let journal_dir = dir.join("journal");
        let mut truth = journal::read(&journal_dir)?;
        let place = IndexFolder { dir: dir.to_owned() };
        let (index, rows) = place.open_index(&mut truth.notes)?;
        let (known, known_seq) =
            parse_rows(&rows).map_err(|_: RecordError| journal::newer(&place.index()))?;
        if truth.damaged || known_seq > truth.last_seq {
            truth.notes.push(format!(
                "journal completed from the index: the journal ended with change {}, the index \
                 with {known_seq}",
                truth.last_seq
            ));
            truth.merge(&known, known_seq);
        }
        // A damaged journal may not name all packs.
        let listed = truth.packs.as_deref().filter(|_| !truth.damaged);
        let mut finished = Finished::open(Packs::in_state(dir), listed, &mut truth.notes)?;
        settle(&mut truth, &mut finished);
        // The journal first: should the process end here, it already is the whole truth.
        let image = finished.image(truth.live.iter().map(|(id, entry)| (id.as_str(), entry)));
        let journal = Journal::resume(&journal_dir, &truth, &image, afresh);
        let journal = journal.map_err(|e| e.diagnostic)?;
        let is_packed = |id: &str| finished.row(id).is_some();
        let index = place.agree(index, &rows, known_seq, &mut truth, is_packed)?;
        let at_hand = AtHand::from_entries(std::mem::take(&mut truth.live));
        let at_hand = at_hand.map_err(|_| journal::newer(&journal_dir))?;
        let (changed, behind) = (BTreeSet::new(), 0);
        let files = Files { journal, finished, at_hand, index, changed, behind };
        Ok((files, truth.notes))
    }
}

/// Decides for every job that journal and packs both know: the later change counts.
fn settle(truth: &mut Reading, finished: &mut Finished) {
    truth.live.retain(|id, entry| finished.row(id).is_none_or(|row| row.seq < entry.seq));
    for id in truth.live.keys().chain(truth.removed.keys()) {
        let changed = truth.changed_seq(id);
        let is_older = finished.row(id).is_some_and(|row| Some(row.seq) < changed);
        if is_older {
            finished.forget(id);
        }
    }
    truth.last_seq = truth.last_seq.max(finished.last_seq());
}

impl Finished {
    /// What a file of the journal starts with.
    pub(super) fn image<'a>(
        &self,
        at_hand: impl Iterator<Item = (&'a str, &'a JournalEntry)>,
    ) -> Image<'a> {
        let at_hand: BTreeMap<&str, &JournalEntry> = at_hand.collect();
        let gone = self.gone().into_iter().map(|id| Ulid(id).to_string());
        let gone = gone.filter(|id| !at_hand.contains_key(id.as_str())).collect();
        Image::from_jobs(at_hand.into_values(), gone, self.numbers())
    }
}
