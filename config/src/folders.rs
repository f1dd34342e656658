//! Checks that folders do not lie in each other where that would make a loop.
//!
//! A result published below the inbox would be taken for a new drop.

use std::path::{Component, Path, PathBuf};

use crate::source::KeyReader;
use crate::table::KeyEntry;

const WRITTEN: [&str; 4] = ["output.outbox", "output.failed", "output.done", "output.unmatched"];

pub(crate) fn check(reader: &mut KeyReader, entries: &[KeyEntry]) {
    let of = |key: &str| {
        let entry = entries.iter().find(|e| e.key == key);
        let entry = entry.expect("the keys of this file are rows of the table");
        (entry, resolved(Path::new(entry.value.as_str().unwrap_or_default())))
    };
    let refuse = |reader: &mut KeyReader, entry: &KeyEntry, why: &str| {
        reader.bad_value(&entry.origin, &format!("`{}` = {} {why}", entry.key, entry.toml()));
    };
    let (_, inbox) = of("intake.inbox");
    for key in WRITTEN.into_iter().chain(["state.dir"]) {
        let (entry, folder) = of(key);
        if folder.starts_with(&inbox) {
            refuse(reader, entry, "must not be the inbox or lie inside it");
        } else if key != "state.dir" && inbox.starts_with(&folder) {
            refuse(reader, entry, "must not contain the inbox");
        }
    }
    for (i, key) in WRITTEN.iter().enumerate() {
        let (entry, folder) = of(key);
        if let Some(other) = WRITTEN[..i].iter().find(|other| of(other).1 == folder) {
            refuse(reader, entry, &format!("must differ from `{other}`"));
        }
    }
}

/// The path without links, `.` and `..`, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = lexical(path);
    let known = path.ancestors().find_map(|a| Some((a, a.canonicalize().ok()?)));
    match known {
        Some((ancestor, real)) => real.join(path.strip_prefix(ancestor).unwrap_or(&path)),
        None => path,
    }
}

fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}
