//! `onnxd explain`: what onnxd would do with a drop, without doing it.

use super::context::Context;
use super::drop_options::{DropOptions, ResolvedDrop};
use super::failure::Failure;
use super::{Ended, FINDINGS, out};
use crate::conversion::Submission;
use crate::conversion::companions::{completed, folder_of_network};
use crate::conversion::probe::probe;
use crate::conversion::recognised::tell;
use onnxd_config::{Declared, Params};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_proto::onnxd::{self as message, ClaimLevel, ProbeAnswer};
use onnxd_worker::recognition::{ChosenFrontend, level, why};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Shows what onnxd would do with a drop: front-end claims, missing files, resolved params. Tells what a code means.
#[derive(clap::Args)]
pub(crate) struct Explain {
    /// The network with its companions, or a folder of both; or the code of a diagnostic, such as N0203.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    given: DropOptions,
    /// Shows the params that have their defaults, too, and what each is for.
    #[arg(long)]
    all: bool,
    /// Prints everything as JSON.
    #[arg(long)]
    json: bool,
    /// Settings file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The passes that run, as they follow from the profile and the other params.
const PASSES: &str = "passes.order";

struct Explanation {
    submission: Submission,
    params: Params,
    declared: Declared,
    /// Params that may have been meant.
    unread: Vec<Diagnostic>,
    answers: Vec<ProbeAnswer>,
    choice: Result<ChosenFrontend, Diagnostics>,
}

impl Explain {
    pub(crate) fn run(&self) -> Ended {
        if let Some(code) = self.code() {
            self.tell(code);
            return Ok(0);
        }
        let context = Context::load(self.config.as_deref())?;
        let plugins = context.plugins_and(&self.given.plugins)?;
        let meant = self.given.resolve(&self.paths, (&context, &plugins), &|_| false);
        let ResolvedDrop { mut submission, params, unread } =
            meant.map_err(|e| tell(&self.paths, e))?;
        if let Some(folder) = folder_of_network(&self.paths, &submission.network) {
            let with = (&context.launcher, &plugins, &params);
            // Why front-ends do not take it is told below.
            let _ = completed(&mut submission, folder, &context.names(), with);
        }
        let question = submission.question(&plugins.used, params.resolved());
        let answers = probe(&context.launcher, &question)?;
        let choice = question.choose(&answers).map_err(|why| tell(&self.paths, why));
        let declared = plugins.declared;
        let explained = Explanation { submission, params, declared, unread, answers, choice };
        if self.json {
            out::json(&explained.json());
        } else {
            // What is wrong comes first.
            explained
                .choice
                .iter()
                .flat_map(ChosenFrontend::missing)
                .for_each(|d| out::error(&d.to_string()));
            if let Err(why) = &explained.choice {
                out::error(&why.to_string());
            }
            out::print(&explained.text(self.all));
        }
        Ok(match &explained.choice {
            Err(why) => Failure::from(why.clone()).exit_code(),
            Ok(choice) if choice.missing().is_empty() => 0,
            Ok(_) => FINDINGS,
        })
    }
}

impl Explain {
    /// The code that is asked about. A file of that name comes first.
    fn code(&self) -> Option<Code> {
        let [path] = &self.paths[..] else { return None };
        let named = |code: &&Code| path.as_os_str().eq_ignore_ascii_case(code.as_str());
        Code::ALL.iter().find(named).copied().filter(|_| !path.exists())
    }

    fn tell(&self, code: Code) {
        let (name, class) = (code.as_str(), code.class().as_str());
        let (what, help) = (code.what(), code.help());
        if self.json {
            return out::json(&json!({ "code": name, "class": class, "what": what, "help": help }));
        }
        let rows = [["code", name], ["class", class], ["what", what], ["next", help]];
        let rows = rows.map(|cells| cells.map(str::to_owned).to_vec());
        out::print(&out::table(&rows));
    }
}

impl Explanation {
    fn text(&self, all: bool) -> String {
        let row = |cells: &[&str]| cells.iter().map(|&c| c.to_owned()).collect::<Vec<_>>();
        let mut head = vec![
            row(&["name", &self.submission.name]),
            row(&["network", &self.submission.network]),
            row(&["files", &self.submission.files.len().to_string()]),
        ];
        if let Ok(choice) = &self.choice {
            let status = match choice.missing().len() {
                0 => "ready".to_owned(),
                n => format!("waiting for {n} files"),
            };
            head.push(row(&["front-end", &choice.recognition.frontend]));
            head.push(row(&["status", &status]));
        }
        let claims = self.answers.iter().map(|a| {
            let claim = match level(a) {
                ClaimLevel::ClaimNo => "declines",
                ClaimLevel::ClaimByExtension => "claims by name",
                ClaimLevel::ClaimByContent => "claims by content",
            };
            row(&["claim", &a.frontend, claim, &why(a)])
        });
        let needs =
            self.choice.iter().flat_map(|c| &c.needs).map(|n| {
                row(&["need", if n.found { "found" } else { "missing" }, &n.path, &n.what])
            });
        let lowered = self.declared.lowered.iter();
        let lowered = lowered.map(|l| row(&["operator", &l.op, &l.plugin, &l.pass]));
        let notes = self.params.notes().iter().chain(&self.unread);
        let notes = notes.map(|n| row(&["note", &n.message]));
        let entries = self.params.entries().iter();
        let own = |e: &&onnxd_config::KeyEntry| {
            // What follows from the other keys of its section says nothing new without them.
            e.origin != "default" && (e.key != PASSES || self.asks_for_passes())
        };
        let shown = entries.clone().filter(|e| all || own(e));
        let param = |e: &onnxd_config::KeyEntry| {
            let help = if all { self.help(&e.key) } else { "" };
            row(&["param", &e.key, &e.toml(), &e.origin, help])
        };
        let mut params: Vec<_> = shown.map(param).collect();
        let defaults = entries.filter(|e| !own(e)).count();
        if !all && defaults > 0 {
            let more = format!("{defaults} more have their defaults; `--all` shows them");
            params.push(row(&["param", &more]));
        }
        let tables =
            [head, claims.collect(), needs.collect(), lowered.collect(), notes.collect(), params];
        let tables = tables.iter().filter(|t| !t.is_empty()).map(|t| out::table(t));
        tables.collect::<Vec<_>>().join("\n")
    }

    fn help(&self, key: &str) -> &str {
        let row = self.declared.rows().iter().find(|r| r.key == key);
        row.map_or("the passes that run, in their order", |r| &r.help)
    }

    fn asks_for_passes(&self) -> bool {
        let entries = self.params.entries().iter();
        let of_passes =
            |e: &&onnxd_config::KeyEntry| e.key.starts_with("passes.") && e.key != PASSES;
        entries.filter(of_passes).any(|e| e.origin != "default")
    }

    fn json(&self) -> Value {
        let claims = self.answers.iter().map(|a| {
            json!({
                "frontend": a.frontend,
                "plugin": a.plugin,
                "level": level(a).as_str_name(),
                "reason": why(a),
                "failed": !a.failed.is_empty(),
            })
        });
        let params = self.params.entries().iter().map(
            |e| json!({ "key": e.key, "value": e.value, "origin": e.origin, "help": self.help(&e.key) }),
        );
        let lowered = self.declared.lowered.iter();
        let lowered = lowered.map(|l| json!({ "op": l.op, "plugin": l.plugin, "pass": l.pass }));
        let choice = self.choice.as_ref().ok();
        json!({
            "name": self.submission.name,
            "network": self.submission.network,
            "files": self.submission.files.iter().map(|f| &f.name).collect::<Vec<_>>(),
            "frontend": choice.map(|c| &c.recognition.frontend),
            "plugin": choice.map(|c| &c.recognition.plugin),
            "claims": claims.collect::<Vec<_>>(),
            "needs": choice.map(|c| &c.needs),
            "missing": choice.map(|c| c.missing().iter().map(message::Diagnostic::from).collect::<Vec<_>>()),
            "params": params.collect::<Vec<_>>(),
            "lowered": lowered.collect::<Vec<_>>(),
            "notes": self.params.notes().iter().chain(&self.unread).map(message::Diagnostic::from).collect::<Vec<_>>(),
            "error": self.choice.as_ref().err().and_then(|found| found.0.first()).map(message::Diagnostic::from),
        })
    }
}
