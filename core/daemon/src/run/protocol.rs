//! The requests on the control socket: one JSON object per line, answered by one.
//!
//! ```text
//! {"do":"jobs.list","state":"failed"}        -> {"ok":true,"jobs":[...]}
//! {"do":"jobs.retry","job":"01K..."}         -> {"ok":false,"diagnostic":{"code":...}}
//! ```

use onnxd_diagnostics::{Code, Diagnostic};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Longest request, in bytes, the line's end included.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;
/// Most jobs in one answer.
pub(crate) const JOBS_MAX: usize = 1_000;

/// What a client asks of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", deny_unknown_fields)]
pub(crate) enum ControlRequest {
    /// A page of jobs, newest first.
    #[serde(rename = "jobs.list")]
    List {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<usize>,
        /// The job that the page before ended with: `next` of its answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// One job with its files and history.
    #[serde(rename = "jobs.show")]
    Show { job: String },
    /// Convert a failed or cancelled job again.
    #[serde(rename = "jobs.retry")]
    Retry { job: String },
    /// Stop a job that is not finished.
    #[serde(rename = "jobs.cancel")]
    Cancel { job: String },
    /// Trust a quarantined job again.
    #[serde(rename = "jobs.release")]
    Release { job: String },
    /// Finish what runs, take and start nothing.
    #[serde(rename = "pause")]
    Pause {},
    /// Go on.
    #[serde(rename = "resume")]
    Resume {},
    /// Read the settings again, and the plugins.
    #[serde(rename = "reload")]
    Reload {},
    /// Whether all is well.
    #[serde(rename = "health")]
    Health {},
    /// Counts, running jobs, folders.
    #[serde(rename = "status")]
    Status {},
    /// What lies in the inbox and why it is not taken.
    #[serde(rename = "inbox")]
    Inbox {},
}

/// Reads one line.
pub(crate) fn parse(line: &str) -> Result<ControlRequest, Diagnostic> {
    serde_json::from_str(line)
        .map_err(|e| Diagnostic::new(Code::Usage, format!("The request is not understood: {e}")))
}

/// Adds `"ok": true` to an object.
pub(crate) fn granted(answer: Value) -> Value {
    let mut all = json!({"ok": true});
    if let (Some(all), Value::Object(answer)) = (all.as_object_mut(), answer) {
        all.extend(answer);
    }
    all
}

/// The answer to what was not done.
pub(crate) fn refused(why: &Diagnostic) -> Value {
    json!({"ok": false, "diagnostic": diagnostic(why)})
}

/// A diagnostic as reports write it.
pub(crate) fn diagnostic(found: &Diagnostic) -> Value {
    json!({
        "code": found.code,
        "class": found.class.as_str(),
        "message": found.message,
        "help": found.help,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_back() {
        let all = [
            ControlRequest::List {
                state: Some("failed".into()),
                limit: None,
                after: Some("01J".into()),
            },
            ControlRequest::Show { job: "01J".into() },
            ControlRequest::Retry { job: "01J".into() },
            ControlRequest::Cancel { job: "01J".into() },
            ControlRequest::Release { job: "01J".into() },
            ControlRequest::Pause {},
            ControlRequest::Resume {},
            ControlRequest::Reload {},
            ControlRequest::Health {},
            ControlRequest::Status {},
            ControlRequest::Inbox {},
        ];
        for request in all {
            let line = serde_json::to_string(&request).unwrap();
            assert_eq!(parse(&line).unwrap(), request, "{line}");
        }
        let line = r#"{"do":"jobs.list"}"#;
        assert_eq!(
            parse(line).unwrap(),
            ControlRequest::List { state: None, limit: None, after: None }
        );
    }

    #[test]
    fn other_lines_are_refused() {
        let lines = [
            "", "pause", "[]", r#"{"do":"explode"}"#, r#"{"do":"jobs.show"}"#,
            r#"{"do":"jobs.show","job":7}"#, r#"{"do":"pause","why":"lunch"}"#,
            r#"{"do":"pause"} trailing"#,
        ];
        for line in lines {
            let why = parse(line).unwrap_err();
            assert_eq!(why.code, "N0704", "{line}");
            assert_eq!(refused(&why)["ok"], false);
        }
        let deep = format!(r#"{{"do":{}"#, "[".repeat(10_000));
        assert!(parse(&deep).is_err());
    }

    #[test]
    fn answers_say_ok_first() {
        assert_eq!(granted(json!({"jobs": []})).to_string(), r#"{"ok":true,"jobs":[]}"#);
    }
}
