//! `onnxd ctl`: the running daemon as a whole.

use super::context::Context;
use super::{Ended, FINDINGS, Failure, out};
use crate::run::control::{class_of, client};
use crate::run::protocol::ControlRequest;
use onnxd_config::{Environment, KeyEntry, load};
use onnxd_diagnostics::{Class, Code, Diagnostic, escaped};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How the daemon is reached, and how its answer is printed.
#[derive(clap::Args)]
pub(crate) struct DaemonArgs {
    /// Settings file; it says where the daemon's socket is.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The daemon's socket itself.
    #[arg(long, value_name = "SOCKET", global = true)]
    socket: Option<PathBuf>,
    /// Prints the answer as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// Controls the running daemon.
#[derive(clap::Args)]
pub(crate) struct Ctl {
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Copy, clap::Subcommand)]
enum What {
    /// Finishes what runs, takes and starts nothing more.
    Pause,
    /// Goes on after a pause.
    Resume,
    /// Reads settings and plugins again; keeps the old ones if anything is wrong.
    Reload,
    /// Says whether all is well; exit status 1 if not.
    Health,
    /// Shows counts, running jobs and the inbox.
    Status,
    /// Shows what lies in the inbox and why it is not taken.
    Inbox,
    /// Checks the settings and shows every value with its origin; needs no daemon.
    CheckConfig,
}

impl Ctl {
    pub(crate) fn run(self) -> Ended {
        let request = match self.what {
            What::Pause => ControlRequest::Pause {},
            What::Resume => ControlRequest::Resume {},
            What::Reload => ControlRequest::Reload {},
            What::Health => ControlRequest::Health {},
            What::Status => ControlRequest::Status {},
            What::Inbox => ControlRequest::Inbox {},
            What::CheckConfig => return self.daemon.check_config(),
        };
        self.daemon.ask(&request, |answer| lines(answer, 0))
    }
}

impl DaemonArgs {
    /// Asks the daemon, prints its answer, and gives the exit status.
    pub(crate) fn ask(&self, request: &ControlRequest, text: impl Fn(&Value) -> String) -> Ended {
        let answer = client::ask(&self.socket()?, request)?;
        if self.json {
            out::json(&answer);
        } else if answer["ok"] == true {
            out::print(&text(&answer));
        }
        if answer["ok"] != true {
            return if self.json { Ok(status(&answer)) } else { Err(Failure(findings(&answer))) };
        }
        Ok(if answer["healthy"] == false { FINDINGS } else { 0 })
    }

    /// Asks for one page after the other; `show` gets each, and says whether it wants the next.
    pub(crate) fn ask_pages(
        &self,
        mut request: impl FnMut(Option<String>) -> ControlRequest,
        mut show: impl FnMut(&Value) -> bool,
    ) -> Ended {
        let (socket, mut next) = (self.socket()?, None);
        loop {
            let answer = client::ask(&socket, &request(next))?;
            if answer["ok"] != true {
                if self.json {
                    out::json(&answer);
                    return Ok(status(&answer));
                }
                return Err(Failure(findings(&answer)));
            }
            next = answer["next"].as_str().map(str::to_owned);
            if !show(&answer) || next.is_none() {
                return Ok(0);
            }
        }
    }

    /// Whether answers are printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    fn socket(&self) -> Result<PathBuf, Failure> {
        match &self.socket {
            Some(socket) => Ok(socket.clone()),
            None => Ok(Context::load(self.config.as_deref())?.settings.control.socket),
        }
    }

    fn check_config(&self) -> Ended {
        let environment = Environment::of_process();
        let loaded = load(self.config.as_deref(), &environment, &[])?;
        if self.json {
            let entry = |e: &KeyEntry| json!({"key": e.key, "value": e.value, "origin": e.origin});
            let entries: Vec<Value> = loaded.entries.iter().map(entry).collect();
            out::json(&json!({"ok": true, "file": loaded.file, "settings": entries}));
        } else {
            let row = |e: &KeyEntry| vec![e.key.to_owned(), e.toml(), e.origin.clone()];
            out::print(&out::table(&loaded.entries.iter().map(row).collect::<Vec<_>>()));
        }
        Ok(0)
    }
}

/// The daemon's refusal as this command's failure.
fn findings(answer: &Value) -> onnxd_diagnostics::Diagnostics {
    let several = answer["diagnostics"].as_array().filter(|all| !all.is_empty());
    let all = match several {
        Some(all) => all.iter().map(finding).collect(),
        None => vec![finding(&answer["diagnostic"])],
    };
    onnxd_diagnostics::Diagnostics(all)
}

fn finding(d: &Value) -> Diagnostic {
    let code = Code::ALL.iter().find(|c| d["code"] == c.as_str()).copied();
    let message = Diagnostic::new(code.unwrap_or(Code::Internal), text_of(&d["message"]));
    message.help(text_of(&d["help"]))
}

fn status(answer: &Value) -> u8 {
    match class_of(answer) {
        Class::Environment if text_of(&answer["diagnostic"]["code"]).starts_with("N070") => 78,
        class => class.exit_code(),
    }
}

/// A value as text without quotes.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Nested objects as indented lines.
fn lines(value: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let text_of = |value: &Value| escaped(&text_of(value)).into_owned();
    let mut text = String::new();
    for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| *name != "ok") {
        match value {
            Value::Null => {}
            Value::Object(_) => text += &format!("{indent}{name}:\n{}", lines(value, depth + 1)),
            Value::Array(items) if items.iter().any(Value::is_object) => {
                text += &format!("{indent}{name}:\n");
                for item in items {
                    let parts = item.as_object().into_iter().flatten();
                    let parts: Vec<String> = parts.map(|(_, v)| text_of(v)).collect();
                    text += &format!("{indent}  {}\n", parts.join("  "));
                }
            }
            value => text += &format!("{indent}{name}: {}\n", text_of(value)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_lines() {
        let answer = json!({"ok": true, "paused_by": null, "jobs": {"failed": 2}, "problems": [],
            "running": [{"job": "01J", "stage": "import"}]});
        let text = lines(&answer, 0);
        assert_eq!(text, "jobs:\n  failed: 2\nproblems: \nrunning:\n  01J  import\n");
    }

    #[test]
    fn refusals_keep_code_and_status() {
        let refused = json!({"ok": false, "diagnostic": {"code": "N0307", "class": "environment",
            "message": "m", "help": "h"}});
        assert_eq!(findings(&refused).0[0].code, "N0307");
        assert_eq!(status(&refused), 75);
        let config = json!({"ok": false, "diagnostic": {"code": "N0703", "class": "environment"}});
        assert_eq!(status(&config), 78);
    }
}
