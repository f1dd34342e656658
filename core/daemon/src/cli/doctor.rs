//! `onnxd doctor`: whether this machine and this installation are fit, one line per finding.

use super::context::Context;
use super::{Ended, FINDINGS, out};
use crate::conversion::Plugins;
use onnxd_config::default_files;
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{Limits, LogLine, ProbeRequest, Request};
use onnxd_worker::confine::{CGROUP, IN_FORCE, LOG_TARGET, NAMESPACES, THREADS};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Checks settings, folders, plugins, confinement and engines of this installation.
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// Prints the checks as JSON.
    #[arg(long)]
    json: bool,
    /// Settings file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// One check.
#[derive(Serialize)]
struct Checked {
    what: &'static str,
    verdict: &'static str,
    text: String,
}

fn good(what: &'static str, text: String) -> Checked {
    Checked { what, verdict: "ok", text }
}

fn bad(what: &'static str, text: String) -> Checked {
    Checked { what, verdict: "warning", text }
}

/// Something else does the work of what is missing.
fn fallback(what: &'static str, text: String) -> Checked {
    Checked { what, verdict: "fallback", text }
}

impl Doctor {
    pub(crate) fn run(&self) -> Ended {
        let context = Context::load(self.config.as_deref())?;
        let mut checks = vec![self.settings(&context)];
        checks.extend(confinement(&context));
        checks.extend(plugins(&context));
        checks.extend(folders(&context));
        checks.extend(engines(&context));
        let fit = checks.iter().all(|c| c.verdict != "warning");
        if self.json {
            out::json(&checks);
        } else {
            let row = |c: &Checked| vec![c.verdict.to_owned(), c.what.to_owned(), c.text.clone()];
            out::print(&out::table(&checks.iter().map(row).collect::<Vec<_>>()));
        }
        Ok(if fit { 0 } else { FINDINGS })
    }

    fn settings(&self, context: &Context) -> Checked {
        let usual = || default_files(&context.environment).into_iter().find(|f| f.exists());
        let file = self.config.clone().or_else(usual);
        let text =
            file.map_or("defaults, no settings file".to_owned(), |f| f.display().to_string());
        good("settings", text)
    }
}

/// Starts a worker that has nothing to do and listens to what it says about itself.
fn confinement(context: &Context) -> Vec<Checked> {
    let what = Some(What::Probe(ProbeRequest::default()));
    let threads_max = context.settings.worker.threads_max;
    let limits = Some(Limits { wall_ms: 5000, threads: 1, threads_max, ..Limits::default() });
    let mut said = Vec::new();
    let answer = context.launcher.spawn(&Request { limits, what }).map(|worker| {
        let end = worker.follow(|event| match &event.what {
            Some(Event::Log(log)) if log.target == LOG_TARGET => said.push(log.clone()),
            _ => {}
        });
        end.answer()
    });
    let why = match answer {
        Ok(Ok(_)) if said.is_empty() => "the worker did not say what is in force".to_owned(),
        Ok(Ok(_)) => return said.into_iter().map(told).collect(),
        Ok(Err(found)) => found.to_string().replace('\n', " "),
        Err(why) => why.to_string(),
    };
    vec![bad("confinement", why)]
}

/// What a worker or its parent says of one part of the confinement.
fn told(line: LogLine) -> Checked {
    let parts = [(NAMESPACES, "namespaces"), (CGROUP, "cgroup"), (THREADS, "threads")];
    let part = parts.iter().find_map(|(head, what)| Some((what, line.text.strip_prefix(head)?)));
    match part {
        Some((what, text)) if line.level >= IN_FORCE => good(what, text.to_owned()),
        Some((what, text)) => fallback(what, text.to_owned()),
        None if line.level >= IN_FORCE => good("confinement", line.text),
        None => bad("confinement", line.text),
    }
}

fn plugins(context: &Context) -> Vec<Checked> {
    let found = Plugins::discover(&context.settings, &context.environment, &context.launcher);
    let found = match found {
        Ok(found) => found,
        Err(why) => return vec![bad("plugins", why.to_string())],
    };
    let used = found.used.iter().map(|p| {
        let count = p.components.len();
        good("plugin", format!("{} {} ({count} components) {}", p.id, p.version, p.path))
    });
    let refused = found.problems().into_iter().map(|why| bad("plugin", why.to_string()));
    let shadowed = found
        .shadowed
        .iter()
        .map(|s| bad("plugin", format!("{} is not used: {} has the same id", s.plugin.path, s.by)));
    let mut checks: Vec<Checked> = used.chain(refused).chain(shadowed).collect();
    checks.extend(found.has_frontend().err().map(|why| bad("plugins", why.to_string())));
    checks
}

/// An engine that is missing is no defect unless the settings name it.
fn engines(context: &Context) -> Vec<Checked> {
    let library = context.onnx_runtime();
    let found = onnxd_worker::tools::engines(library.as_deref()).into_iter();
    found
        .map(|engine| match (&engine.state, &library) {
            (Ok(state), _) => good("engine", format!("{} {state}", engine.name.as_str())),
            (Err(why), Some(_)) => bad("engine", why.to_string()),
            (Err(why), None) => {
                let why = why.to_string();
                Checked { what: "engine", verdict: "absent", text: why }
            }
        })
        .collect()
}

/// Folders of the daemon, as far as they exist: it makes the others.
fn folders(context: &Context) -> Vec<Checked> {
    let s = &context.settings;
    let named: [(&'static str, &Path); 6] = [
        ("inbox", &s.intake.inbox),
        ("outbox", &s.output.outbox),
        ("failed", &s.output.failed),
        ("done", &s.output.done),
        ("unmatched", &s.output.unmatched),
        ("state", &s.state.dir),
    ];
    let rights =
        rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let check = |(what, folder): (&'static str, &Path)| {
        let text = folder.display().to_string();
        match rustix::fs::access(folder, rights) {
            Ok(()) => good(what, text),
            Err(rustix::io::Errno::NOENT) => good(what, format!("{text} (made when needed)")),
            Err(e) => bad(what, format!("{text}: {e}")),
        }
    };
    named.into_iter().map(check).collect()
}
