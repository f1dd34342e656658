//! `onnxd jobs`: the queue of the running daemon.

use super::ctl::{DaemonArgs, text_of};
use super::{Ended, out};
use crate::run::control::protocol::Request;
use serde_json::Value;

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
        /// Id of the job.
        job: String,
    },
    /// Converts a failed or cancelled job again.
    Retry {
        /// Id of the job.
        job: String,
    },
    /// Stops a job that is not finished; its originals go to the folder of failed ones.
    Cancel {
        /// Id of the job.
        job: String,
    },
    /// Trusts a quarantined job again.
    Release {
        /// Id of the job.
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
            if is_list { list(answer) } else { answer.get("job").map_or_else(String::new, shown) }
        })
    }
}

fn list(answer: &Value) -> String {
    let mut rows = vec![["JOB", "STATE", "TRIES", "NAME", "REASON"].map(str::to_owned).to_vec()];
    let jobs = answer["jobs"].as_array();
    for job in jobs.into_iter().flatten() {
        let (state, stage) = (text_of(&job["state"]), text_of(&job["stage"]));
        let state = if stage.is_empty() { state } else { format!("{state} ({stage})") };
        let (folder, name) = (text_of(&job["folder"]), text_of(&job["name"]));
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let tries = text_of(&job["attempts"]);
        rows.push(vec![text_of(&job["job"]), state, tries, name, text_of(&job["reason"])]);
    }
    let count = rows.len() - 1;
    let total = answer["total"].as_u64().unwrap_or_default();
    let more =
        if total > count as u64 { format!("{count} of {total} jobs\n") } else { String::new() };
    out::table(&rows) + &more
}

/// A job's fields, one per line; lists below their names.
fn shown(job: &Value) -> String {
    let Some(fields) = job.as_object() else { return format!("job {}\n", text_of(job)) };
    let mut rows = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Array(items) => {
                for item in items {
                    let parts = item.as_object().into_iter().flatten().map(|(_, v)| text_of(v));
                    let line: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
                    rows.push(vec![name.clone(), line.join("  ")]);
                }
            }
            value if text_of(value).is_empty() => {}
            value => rows.push(vec![name.clone(), text_of(value)]),
        }
    }
    out::table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_tables() {
        let job = json!({"job": "01J", "state": "running", "stage": "import", "attempts": 1,
            "folder": "a", "name": "net", "reason": "started"});
        let text = list(&json!({"total": 3, "jobs": [job]}));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "01J  running (import)  1      a/net  started");
        assert_eq!(lines[2], "1 of 3 jobs");
    }

    #[test]
    fn a_job_is_shown_field_by_field() {
        let job =
            json!({"job": "01J", "stage": "", "events": [{"from": "queued", "to": "running"}]});
        assert_eq!(shown(&job), "job     01J\nevents  queued  running\n");
        assert_eq!(shown(&json!("01J")), "job 01J\n");
    }
}
