//! The whole store as text, in one form for every kind of store. Tests compare stores by it.

use crate::step::state_word;
use crate::store::{Destination, Store, StoreError};
use onnxd_proto::onnxd::JobState;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Every job, then who is in which state, in the order of their turns, then who answers which identity
/// and has brought which result.
pub fn print(store: &dyn Store) -> Result<String, StoreError> {
    let jobs = store.scan(None)?;
    let mut out = String::new();
    for job in &jobs {
        let _ = writeln!(out, "{job:?}");
    }
    for state in (0..).map_while(|n| JobState::try_from(n).ok()) {
        let listed = store.scan(Some(state))?;
        let ids: Vec<&str> = listed.iter().map(|job| job.id.as_str()).collect();
        let _ = writeln!(out, "{}: {}", state_word(state), ids.join(" "));
    }
    for identity in jobs.iter().map(|job| &job.identity).collect::<BTreeSet<_>>() {
        let answers = store.find_identity(identity)?.map(|job| job.id);
        let _ = writeln!(out, "{identity}: {}", answers.unwrap_or_default());
    }
    let places: BTreeSet<_> = jobs.iter().map(|j| (&j.identity, &j.folder, &j.name)).collect();
    for (identity, folder, name) in places {
        let filled = store.find_result(&Destination { identity, folder, name })?.map(|job| job.id);
        let _ = writeln!(out, "{identity} {folder}/{name}: {}", filled.unwrap_or_default());
    }
    Ok(out)
}
