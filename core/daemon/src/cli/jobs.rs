//! `onnxd jobs`: the queue of the running daemon.

use super::ctl::{DaemonArgs, text_of};
use super::{Ended, layout, out};
use crate::run::control::protocol::Request;
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Shows and changes the jobs of the running daemon.
#[derive(clap::Args)]
pub(crate) struct Jobs {
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Lists jobs, newest first.
    List {
        /// Only jobs in this state, such as `failed`.
        #[arg(long)]
        state: Option<String>,
        /// At most this many.
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Shows one job with its files, findings and history.
    Show {
        /// Id of the job, or its first letters.
        job: String,
    },
    /// Converts a failed or cancelled job again.
    Retry {
        /// Id of the job, or its first letters.
        job: String,
    },
    /// Stops a job that is not finished; its originals go to the folder of failed ones.
    Cancel {
        /// Id of the job, or its first letters.
        job: String,
    },
    /// Trusts a quarantined job again.
    Release {
        /// Id of the job, or its first letters.
        job: String,
    },
}

impl Jobs {
    pub(crate) fn run(self) -> Ended {
        let is_list = matches!(self.what, What::List { .. });
        let request = match self.what {
            What::List { state, limit } => Request::List { state, limit: Some(limit) },
            What::Show { job } => Request::Show { job },
            What::Retry { job } => Request::Retry { job },
            What::Cancel { job } => Request::Cancel { job },
            What::Release { job } => Request::Release { job },
        };
        self.daemon.ask(&request, |answer| {
            let (now, columns) = (now_ms(), out::columns());
            match is_list {
                true => list(answer, now, columns),
                false => answer.get("job").map_or_else(String::new, |job| shown(job, now, columns)),
            }
        })
    }
}

fn list(answer: &Value, now_ms: u64, columns: Option<usize>) -> String {
    let head = ["JOB", "STATE", "AGE", "TOOK", "NAME", "REASON"].map(str::to_owned).to_vec();
    let jobs: Vec<&Value> = answer["jobs"].as_array().into_iter().flatten().collect();
    let ids: Vec<String> = jobs.iter().map(|job| text_of(&job["job"])).collect();
    let letters = distinct(&ids);
    let row = |job: &&Value| {
        let (state, stage) = (text_of(&job["state"]), text_of(&job["stage"]));
        let state = if stage.is_empty() { state } else { format!("{state} ({stage})") };
        let (folder, name) = (text_of(&job["folder"]), text_of(&job["name"]));
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let id: String = text_of(&job["job"]).chars().take(letters).collect();
        let ms = |key: &str| job[key].as_u64().filter(|ms| *ms > 0);
        let (created, finished) = (ms("created_ms"), ms("finished_ms"));
        let age = created.map(|c| span(now_ms.saturating_sub(c))).unwrap_or_default();
        let took = created.zip(finished).map(|(c, f)| span(f.saturating_sub(c)));
        // Of a job that runs, how far it is says more than why it was started.
        let progress = text_of(&job["progress"]);
        let why = if progress.is_empty() { text_of(&job["reason"]) } else { progress };
        vec![id, state, age, took.unwrap_or_default(), name, why]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(jobs.iter().map(row)).collect();
    let (count, total) = (jobs.len() as u64, answer["total"].as_u64().unwrap_or_default());
    let more = if total > count { format!("{count} of {total} jobs\n") } else { String::new() };
    layout::table(&rows, columns) + &more
}

/// First letters of ids that tell them apart. The first ten are the time of arrival.
fn distinct(ids: &[String]) -> usize {
    const LETTERS: [usize; 2] = [10, 26];
    let are_enough = |n: usize| {
        let mut starts: Vec<&str> = ids.iter().map(|id| id.get(..n).unwrap_or(id)).collect();
        starts.sort_unstable();
        starts.windows(2).all(|two| two[0] != two[1])
    };
    (LETTERS[0]..LETTERS[1]).find(|n| are_enough(*n)).unwrap_or(LETTERS[1])
}

/// A duration in its largest unit.
fn span(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    let unit = units.into_iter().find(|(length, _)| ms >= *length);
    unit.map_or_else(|| format!("{ms} ms"), |(length, name)| format!("{} {name}", ms / length))
}

/// A time of day, and how long ago that is.
fn moment(ms: u64, now_ms: u64) -> String {
    let at = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms));
    match now_ms.checked_sub(ms) {
        Some(ago) => format!("{at} ({} ago)", span(ago)),
        None => format!("{at} (in {})", span(ms - now_ms)),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A job's fields, one per line; lists below their names.
fn shown(job: &Value, now_ms: u64, columns: Option<usize>) -> String {
    let Some(fields) = job.as_object() else { return format!("job {}\n", text_of(job)) };
    let text = |name: &str, value: &Value| match (name.ends_with("_ms"), value.as_u64()) {
        (true, Some(0)) => String::new(),
        (true, Some(ms)) => moment(ms, now_ms),
        _ => text_of(value),
    };
    let mut rows = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Array(items) => {
                for item in items {
                    let parts = item.as_object().into_iter().flatten().map(|(k, v)| text(k, v));
                    let line: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
                    rows.push(vec![name.clone(), line.join("  ")]);
                }
            }
            value if text(name, value).is_empty() => {}
            value => rows.push(vec![name.trim_end_matches("_ms").to_owned(), text(name, value)]),
        }
    }
    layout::table(&rows, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_tables_for_people() {
        let job = |id: &str| {
            json!({"job": id, "state": "running", "stage": "import", "attempts": 1, "folder": "a",
                "name": "net", "reason": "started", "created_ms": 1000, "finished_ms": 4500})
        };
        let jobs = [job("01ARZ3NDEKTSV4RRFFQ69G5FAV"), job("01ARZ3NDEKTSX4RRFFQ69G5FAV")];
        let text = list(&json!({"total": 3, "jobs": jobs}), 7_201_000, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "01ARZ3NDEKTSV  running (import)  2 h  3 s   a/net  started");
        assert!(lines[2].starts_with("01ARZ3NDEKTSX  "), "{text}");
        assert_eq!(lines[3], "2 of 3 jobs");
    }

    #[test]
    fn a_job_is_shown_field_by_field() {
        let event = json!({"unix_ms": 60_000, "from": "queued", "to": "running"});
        let job = json!({"job": "01J", "stage": "", "created_ms": 1000, "finished_ms": 0,
            "events": [event]});
        let text = shown(&job, 90_061_000, None);
        assert!(text.contains("created  1970-01-01T00:00:01Z (1 d ago)\n"), "{text}");
        assert!(text.contains("(1 d ago)  queued  running\n") || text.contains("queued  running"));
        assert!(!text.contains("finished"), "{text}");
        assert_eq!(shown(&json!("01J"), 0, None), "job 01J\n");
    }
}
