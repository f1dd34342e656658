//! Keys and values of the index.
//!
//! ```text
//! jobs/{ulid}                  -> seq u64 | record
//! meta/last_seq, meta/schema   -> u64
//! ```
//!
//! An earlier onnxd also had keys that begin with `by_`; they go.

use crate::journal::{Entries, JournalEntry};
use crate::record::{RecordError, SCHEMA, decode};
use std::collections::BTreeMap;

/// Rows of the index in the order of their keys.
pub(crate) type IndexRows = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const LAST_SEQ: &[u8] = b"meta/last_seq";
pub(crate) const VERSION: &[u8] = b"meta/schema";
pub(crate) const JOBS: &[u8] = b"jobs/";
const ULID_CHARS: usize = 26;

pub(crate) fn job_key(id: &str) -> Vec<u8> {
    format!("jobs/{id}").into_bytes()
}

/// The id at the end of a key; empty for keys of `meta`.
pub(crate) fn id_of(key: &[u8]) -> &str {
    let id = key.len().checked_sub(ULID_CHARS).map(|at| &key[at..]);
    id.filter(|_| !key.starts_with(b"meta/")).and_then(|id| str::from_utf8(id).ok()).unwrap_or("")
}

/// `seq | record`.
pub(crate) fn value_of(seq: u64, record: &[u8]) -> Vec<u8> {
    [&seq.to_be_bytes(), record].concat()
}

/// The inverse of [`value_of`].
pub(crate) fn parse_value(value: &[u8]) -> Option<(u64, &[u8])> {
    let (seq, record) = value.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*seq), record))
}

/// All rows of an index that holds exactly `live`.
pub(crate) fn rows_of(live: &Entries, last_seq: u64) -> IndexRows {
    let mut rows = IndexRows::new();
    rows.insert(LAST_SEQ.to_vec(), last_seq.to_be_bytes().to_vec());
    rows.insert(VERSION.to_vec(), u64::from(SCHEMA).to_be_bytes().to_vec());
    for (id, JournalEntry { seq, record }) in live {
        rows.insert(job_key(id), value_of(*seq, record));
    }
    rows
}

/// The readable jobs among `rows`, and the last change the index has seen. An error means that a
/// newer onnxd wrote it.
pub(crate) fn parse_rows(rows: &IndexRows) -> Result<(Entries, u64), RecordError> {
    let number = |key: &[u8]| {
        let value = rows.get(key).and_then(|v| <[u8; 8]>::try_from(v.as_slice()).ok());
        value.map(u64::from_be_bytes)
    };
    if let Some(version) = number(VERSION).filter(|v| *v > u64::from(SCHEMA)) {
        return Err(RecordError::Newer(u8::try_from(version).unwrap_or(u8::MAX)));
    }
    let mut live = Entries::new();
    for (key, value) in rows.range(JOBS.to_vec()..).take_while(|(key, _)| key.starts_with(JOBS)) {
        let Some((seq, record)) = parse_value(value) else { continue };
        match decode(record) {
            Ok(job) if job_key(&job.id) == *key => {
                live.insert(job.id, JournalEntry { seq, record: record.to_vec() });
            }
            Err(RecordError::Newer(version)) => return Err(RecordError::Newer(version)),
            Ok(_) | Err(RecordError::Damaged) => {}
        }
    }
    Ok((live, number(LAST_SEQ).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::encode;
    use onnxd_proto::onnxd::{Job, JobState};

    #[test]
    fn rows_come_back() {
        let mut live = Entries::new();
        for (n, state) in [(1, JobState::Queued), (2, JobState::Succeeded)] {
            let identity = "d1".into();
            let mut job = Job { id: format!("{n:026}"), identity, ..Job::default() };
            job.set_state(state);
            live.insert(job.id.clone(), JournalEntry { seq: n, record: encode(&job) });
        }
        let rows = rows_of(&live, 7);
        assert_eq!(rows.len(), 2 + 2);
        assert_eq!(parse_rows(&rows), Ok((live, 7)));
        let ids: Vec<&str> = rows.keys().map(|key| id_of(key)).collect();
        assert_eq!(ids.iter().filter(|id| id.is_empty()).count(), 2);
    }

    #[test]
    fn a_newer_index_is_refused() {
        let mut rows = rows_of(&Entries::new(), 0);
        rows.insert(VERSION.to_vec(), 9u64.to_be_bytes().to_vec());
        assert_eq!(parse_rows(&rows), Err(RecordError::Newer(9)));
    }
}
