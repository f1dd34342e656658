//! Jobs and the inbox as JSON, for `onnxd jobs` and `onnxd ctl`.

use onnxd_intake::{Status, WatchMode};
use onnxd_jobs::state_word;
use onnxd_proto::onnxd::{Diagnostic, Job, JobState};
use serde_json::{Value, json};

/// What is done for a job right now.
pub(crate) struct Now<'d> {
    /// The stage of its worker, or `cancelling`, or why its result waits.
    pub(crate) stage: &'d str,
    /// How far that is, if it is known.
    pub(crate) progress: String,
}

/// A job in one line of a list.
pub(crate) fn summary_json(job: &Job, now: Option<&Now>) -> Value {
    let reason = job.events.last().map(|e| e.reason.as_str()).unwrap_or_default();
    json!({
        "job": job.id,
        "name": job.name,
        "folder": job.folder,
        "state": state_word(job.state()),
        "stage": now.map_or("", |now| now.stage),
        "progress": now.map_or("", |now| &now.progress),
        "attempts": job.attempts,
        "priority": job.priority,
        "created_ms": job.created_ms,
        "finished_ms": job.finished_ms,
        "published": job.published,
        "duplicate_of": job.duplicate_of,
        "reason": reason,
    })
}

/// A job with its files, findings and history.
pub(crate) fn job_json(job: &Job, now: Option<&Now>) -> Value {
    let files = job
        .files
        .iter()
        .map(|f| json!({"name": f.name, "source": f.path, "bytes": f.bytes, "sha256": f.sha256}));
    let word = |state: i32| state_word(JobState::try_from(state).unwrap_or_default());
    let events = job.events.iter().map(|e| {
        json!({
            "unix_ms": e.unix_ms,
            "from": word(e.from),
            "to": word(e.to),
            "actor": e.actor,
            "reason": e.reason,
        })
    });
    let params = job.params.iter().filter(|p| p.origin != "default");
    let params = params.map(|p| json!({"key": p.key, "value": p.value, "origin": p.origin}));
    let mut answer = summary_json(job, now);
    let more = json!({
        "network": job.network,
        "identity": job.identity,
        "crashes": job.crashes,
        "not_before_ms": job.not_before_ms,
        "files": files.collect::<Vec<_>>(),
        "params": params.collect::<Vec<_>>(),
        "diagnostics": job.diagnostics.iter().map(finding).collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
    });
    if let (Some(answer), Value::Object(more)) = (answer.as_object_mut(), more) {
        answer.extend(more);
    }
    answer
}

fn finding(d: &Diagnostic) -> Value {
    json!({
        "code": d.code,
        "class": d.class,
        "message": d.message,
        "layer": d.layer,
        "place": d.place,
        "help": d.help,
        "severity": d.severity().as_str(),
    })
}

/// What lies in the inbox, and why.
pub(crate) fn inbox_json(status: &Status) -> Value {
    let items = status.items.iter().map(|item| {
        json!({
            "drop": item.id.display().to_string(),
            "state": item.state.word(),
            "why": item.state.sentence(),
            "since_s": item.since.elapsed().as_secs(),
        })
    });
    json!({
        "inbox": status.inbox.display().to_string(),
        "offline": status.offline,
        "watching": watching(&status.watch_mode),
        "files": status.files,
        "scans": status.scans,
        "overflows": status.overflows,
        "last_scan_s": status.last_scan.elapsed().unwrap_or_default().as_secs(),
        "items": items.collect::<Vec<_>>(),
    })
}

fn watching(mode: &WatchMode) -> String {
    match (mode.has_events(), mode.polls()) {
        (true, false) => "events".to_owned(),
        (true, true) => "events and polling".to_owned(),
        _ => "polling".to_owned(),
    }
}
