//! A queue as text, in full: what is on record, what is packed, what is remembered, what waits.
//! Times are left out.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use onnxd_jobs::{is_finished, state_word};
use onnxd_proto::onnxd::{Job, JobState};

use crate::run::queue::{Queue, now_ms};

/// All of a queue; `root` is left out of paths.
pub(super) fn print(queue: &Queue, root: &Path) -> String {
    let mut out = String::new();
    for job in queue.store().scan(None).unwrap() {
        out += &job_text(queue, &job);
    }
    let (book, refused) = (queue.book(), &queue.refused);
    let counts = book.counts().into_iter().map(|(state, n)| format!("{n} {state}"));
    let live = book.states().map(|(id, state)| format!("{} {}", short(id), state_word(state)));
    let at_rest = book.at_rest().map(|id| short(id).to_owned());
    let next = book.next(now_ms(), |_| false).map(|id| short(&id).to_owned());
    line(&mut out, "counted", counts);
    line(&mut out, "not finished", live);
    line(&mut out, "at rest", at_rest);
    line(&mut out, "next turn", next);
    line(&mut out, "repairs", queue.repairs().iter().cloned());
    line(&mut out, "refused", refused.why().map(|why| why.message.clone()));
    line(
        &mut out,
        "events that wait",
        (refused.waiting() > 0).then(|| refused.waiting().to_string()),
    );
    out.replace(&root.display().to_string(), "")
}

fn line(out: &mut String, what: &str, items: impl IntoIterator<Item = String>) {
    let items: Vec<String> = items.into_iter().collect();
    if !items.is_empty() {
        writeln!(out, "{what}: {}", items.join(", ")).unwrap();
    }
}

fn job_text(queue: &Queue, job: &Job) -> String {
    let packed = if queue.store().is_packed(&job.id) { ", packed" } else { "" };
    let name = Path::new(&job.folder).join(&job.name);
    let (id, state) = (short(&job.id), state_word(job.state()));
    let mut out = format!("job {id} {}: {state}{packed}\n", name.display());
    let fields = [
        ("priority", job.priority.to_string()),
        ("lease", job.lease.to_string()),
        ("attempts", job.attempts.to_string()),
        ("crashes", job.crashes.to_string()),
        ("identity", job.identity.clone()),
        ("staged", job.staged.clone()),
        ("published", job.published.clone()),
        ("duplicate of", short(&job.duplicate_of).to_owned()),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty() && value != "0");
    line(&mut out, "  has", fields.map(|(name, value)| format!("{name} {value}")));
    assert_eq!(is_finished(job.state()), job.finished_ms > 0, "{out}");
    for event in &job.events {
        let word = |state| state_word(JobState::try_from(state).unwrap());
        let (from, to) = (word(event.from), word(event.to));
        writeln!(out, "  {from} -> {to} by {}: {}", event.actor, event.reason).unwrap();
    }
    if let Some(kept) = queue.store().kept(&job.id).unwrap() {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        writeln!(out, "  kept: claim `{}`, report `{}`", text(&kept.claim), text(&kept.report))
            .unwrap();
    }
    out
}

fn short(id: &str) -> &str {
    id.trim_start_matches('0')
}

/// Compares with `NAME.txt` beside this file.
pub(super) fn assert_text(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/run/queue/tests");
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "run with UPDATE_EXPECT=1 to rewrite {}", path.display());
}
