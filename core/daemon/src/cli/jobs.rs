//! `onnxd jobs`: the queue of the running daemon.

use super::ctl::{DaemonArgs, text_of};
use super::{Ended, layout, out};
use crate::run::protocol::{ControlRequest, JOBS_MAX};
use serde_json::Value;
use std::cell::Cell;
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
        /// All jobs, however many there are.
        #[arg(long, conflicts_with = "limit")]
        all: bool,
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
        let request = match self.what {
            What::List { state, limit, all } => {
                return list(&self.daemon, state.as_deref(), if all { usize::MAX } else { limit });
            }
            What::Show { job } => ControlRequest::Show { job },
            What::Retry { job } => ControlRequest::Retry { job },
            What::Cancel { job } => ControlRequest::Cancel { job },
            What::Release { job } => ControlRequest::Release { job },
        };
        self.daemon.ask(&request, |answer| {
            let (now, columns) = (now_ms(), out::columns());
            answer.get("job").map_or_else(String::new, |job| shown(job, now, columns))
        })
    }
}

/// Prints each page as it comes, so that any number of jobs takes the memory of one page.
fn list(daemon: &DaemonArgs, state: Option<&str>, limit: usize) -> Ended {
    let (left, printed) = (Cell::new(limit), Cell::new(0));
    let request = |after| {
        let limit = Some(left.get().min(JOBS_MAX));
        ControlRequest::List { state: state.map(str::to_owned), limit, after }
    };
    let columns = out::columns();
    daemon.ask_pages(request, |page| {
        let jobs = page["jobs"].as_array().map_or(&[][..], Vec::as_slice);
        let before = printed.replace(printed.get() + jobs.len());
        left.set(left.get() - jobs.len().min(left.get()));
        let is_last = page["next"].is_null() || left.get() == 0;
        match daemon.is_json() {
            true => out::json_text(&json_page(page, before, is_last)),
            false => {
                let total = if is_last { page["total"].as_u64() } else { None };
                let more = total.filter(|total| *total > printed.get() as u64);
                let more = more.map(|total| format!("{} of {total} jobs\n", printed.get()));
                out::print(
                    &(table(jobs, before == 0, now_ms(), columns) + &more.unwrap_or_default()),
                );
            }
        }
        !is_last
    })
}

/// A page as a part of one JSON object, whose `jobs` are those of all pages.
fn json_page(page: &Value, before: usize, is_last: bool) -> String {
    let jobs = page["jobs"].as_array().into_iter().flatten();
    let lines: Vec<String> = jobs.map(|job| format!("  {job}")).collect();
    let head = match before {
        0 => format!("{{\"ok\":true,\"total\":{},\"jobs\":[\n", page["total"]),
        _ => ",\n".to_owned(),
    };
    head + &lines.join(",\n") + if is_last { "\n]}\n" } else { "" }
}

fn table(jobs: &[Value], is_first: bool, now_ms: u64, columns: Option<usize>) -> String {
    let head = ["JOB", "STATE", "AGE", "TOOK", "NAME", "REASON"].map(str::to_owned).to_vec();
    let ids: Vec<String> = jobs.iter().map(|job| text_of(&job["job"])).collect();
    let letters = distinct(&ids);
    let row = |job: &Value| {
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
    let head = Some(head).filter(|_| is_first);
    let rows: Vec<Vec<String>> = head.into_iter().chain(jobs.iter().map(row)).collect();
    layout::table(&rows, columns)
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
        let text = table(&jobs, true, 7_201_000, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "01ARZ3NDEKTSV  running (import)  2 h  3 s   a/net  started");
        assert!(lines[2].starts_with("01ARZ3NDEKTSX  "), "{text}");
        let next = table(&jobs, false, 7_201_000, None);
        assert!(next.starts_with("01ARZ3NDEKTSV  running (import)"), "{next}");
    }

    #[test]
    fn pages_are_one_json_object() {
        let page = |ids: &[u32]| json!({"ok": true, "total": 3, "jobs": ids, "next": "x"});
        let text = json_page(&page(&[1, 2]), 0, false) + &json_page(&page(&[3]), 2, true);
        let all: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(all, json!({"ok": true, "total": 3, "jobs": [1, 2, 3]}));
        let none: Value = serde_json::from_str(&json_page(&page(&[]), 0, true)).unwrap();
        assert_eq!(none["jobs"], json!([]));
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
