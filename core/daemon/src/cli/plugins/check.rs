//! `onnxd plugins check`: the conformance cases, each in a confined child with a time limit.

use super::conformance::{Case, CaseReport, SUBCOMMAND, garbage};
use super::timed_child::wait;
use super::{find, samples};
use crate::cli::context::Context;
use crate::cli::scratch::Scratch;
use crate::cli::{Ended, FINDINGS, out};
use crate::conversion::Plugins;
use crate::conversion::plugins::inspect;
use onnxd_config::Descriptor;
use onnxd_config::descriptor::Component;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::PluginInfo;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// For one case.
const LIMIT: Duration = Duration::from_secs(20);
/// What is read of a case's answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Puts a plugin through the conformance cases, each in a confined process of its own.
#[derive(clap::Args)]
pub(crate) struct Check {
    /// A library, or the id of an installed plugin.
    #[arg(value_name = "FILE|ID")]
    plugin: String,
    /// Converts this drop with the plugin: a network, or a folder with its companions. May be given several times.
    #[arg(long = "drop", value_name = "PATH")]
    drops: Vec<PathBuf>,
    /// Runs passes and quantizers of the plugin on this ONNX model. May be given several times.
    #[arg(long = "model", value_name = "FILE")]
    models: Vec<PathBuf>,
    /// Prints the cases as JSON.
    #[arg(long)]
    json: bool,
    /// Settings file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// How one case ended.
#[derive(Serialize)]
struct CaseOutcome {
    case: String,
    component: String,
    passed: bool,
    text: String,
}

impl Check {
    pub(crate) fn run(&self) -> Ended {
        let context = Context::load(self.config.as_deref())?;
        let info = find(&self.plugin, &context)?;
        let mut rows = vec![row("loads", "", Ok(format!("{} {}", info.id, info.version)))];
        let again = inspect(&context.launcher, Path::new(&info.path));
        rows.push(row("same-descriptor", "", same(&info, again)));
        let descriptor = Descriptor::parse(&info.descriptor)
            .map_err(|why| Diagnostic::new(Code::PluginRefused, why))?;
        rows.push(row("described", "", described(&descriptor)));
        rows.push(row("alone", "", apart(&info, &context)?));
        for component in &descriptor.components {
            for case in Case::of_kind(&component.kind) {
                let seen = run_case(*case, &info, component)?;
                rows.push(row(&case.name(), &component.id, seen));
            }
        }
        let drops = self.drops.iter().map(|path| (path, true));
        for (path, dropped) in drops.chain(self.models.iter().map(|path| (path, false))) {
            let found = samples::check(&info, path, dropped, self.config.as_deref())?;
            rows.extend(found.into_iter().map(|(case, id, seen)| row(&case, &id, seen)));
        }
        self.show(&info, &rows);
        Ok(if rows.iter().all(|r| r.passed) { 0 } else { FINDINGS })
    }

    fn show(&self, info: &PluginInfo, rows: &[CaseOutcome]) {
        if self.json {
            out::json(&serde_json::json!({ "plugin": info.id, "cases": rows }));
            return;
        }
        let cells = |r: &CaseOutcome| {
            let verdict = if r.passed { "pass" } else { "FAIL" };
            vec![verdict.to_owned(), r.case.clone(), r.component.clone(), r.text.clone()]
        };
        out::print(&out::table(&rows.iter().map(cells).collect::<Vec<_>>()));
        let failed = rows.iter().filter(|r| !r.passed).count();
        out::print(&format!("{} cases, {failed} failed", rows.len()));
    }
}

fn row(case: &str, component: &str, seen: Result<String, String>) -> CaseOutcome {
    let (passed, text) = match seen {
        Ok(text) => (true, text),
        Err(text) => (false, text),
    };
    CaseOutcome { case: case.to_owned(), component: component.to_owned(), passed, text }
}

fn same(first: &PluginInfo, again: Result<PluginInfo, Diagnostic>) -> Result<String, String> {
    match again {
        Ok(again) if again == *first => Ok("twice the same".to_owned()),
        Ok(_) => Err("the second inspection gave another descriptor".to_owned()),
        Err(why) => Err(why.into_finding().message),
    }
}

/// Whether no other installed plugin declares what only one can have.
fn apart(info: &PluginInfo, context: &Context) -> Result<Result<String, String>, Diagnostic> {
    let Context { environment, settings, launcher } = context;
    let mut installed = Plugins::discover(settings, environment, launcher)?;
    if !installed.used.iter().any(|plugin| plugin.path == info.path) {
        installed.add(launcher, Path::new(&info.path))?;
    }
    let clashes = installed.declared.clashes.iter().filter(|c| c.plugins.contains(&info.id));
    let found: Vec<String> = clashes.map(|clash| clash.why.message.clone()).collect();
    Ok(match found.is_empty() {
        true => Ok("no installed plugin declares its params or operators, too".to_owned()),
        false => Err(found.join("; ")),
    })
}

/// What a person needs to choose and to set a component.
fn described(descriptor: &Descriptor) -> Result<String, String> {
    let mut missing = Vec::new();
    if descriptor.summary.trim().is_empty() {
        missing.push("the plugin has no summary".to_owned());
    }
    if descriptor.licence.trim().is_empty() {
        missing.push("the plugin has no licence".to_owned());
    }
    for c in &descriptor.components {
        if c.summary.trim().is_empty() {
            missing.push(format!("`{}` has no summary", c.id));
        }
    }
    if missing.is_empty() {
        Ok(format!("{} components", descriptor.components.len()))
    } else {
        Err(missing.join("; "))
    }
}

/// Starts one case. The outer error is the machine's.
fn run_case(
    case: Case,
    info: &PluginInfo,
    component: &Component,
) -> Result<Result<String, String>, Diagnostic> {
    let name = format!("onnxd-check-{}", ulid::Ulid::generate());
    let scratch = Scratch::new(std::env::temp_dir().join(name))?;
    let folder = scratch.path();
    let network = network_name(component);
    let contents = if case == Case::EmptyNetwork { Vec::new() } else { garbage() };
    let disk =
        |e: std::io::Error| Diagnostic::new(Code::Disk, format!("`{}`: {e}", folder.display()));
    std::fs::write(folder.join(&network), contents).map_err(disk)?;
    let answer = folder.join("answer");
    let stdout = File::create(&answer).map_err(disk)?;
    let mut command = Command::new("/proc/self/exe");
    command.args([SUBCOMMAND, &case.name(), &info.path, &component.kind, &component.id]);
    command.arg(folder).arg(&network).process_group(0).env_clear().current_dir(folder);
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null());
    let status = wait(&mut command, LIMIT).map_err(|e| {
        Diagnostic::new(Code::WorkerStart, format!("a case could not be started: {e}"))
    })?;
    let mut text = String::new();
    let file = File::open(&answer).map_err(disk)?;
    // What is not text is no answer, and is treated as such below.
    let _ = file.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
    Ok(judge(status, &text))
}

/// A file name that the front-end's first glob fits.
fn network_name(component: &Component) -> String {
    let glob = component.globs.first().map_or("*", String::as_str);
    let name = glob.replace('*', "network").replace('?', "x");
    name.rsplit('/').next().unwrap_or("network").to_owned()
}

fn judge(status: Option<ExitStatus>, answer: &str) -> Result<String, String> {
    let Some(status) = status else {
        return Err(format!("it did not end within {} s", LIMIT.as_secs()));
    };
    if let Some(signal) = status.signal() {
        return Err(format!("it crashed: signal {signal}"));
    }
    if !status.success() {
        return Err(format!("it ended the process: {status}"));
    }
    // A plugin may have printed before the answer.
    let start = answer.rfind("{\n").unwrap_or(0);
    match serde_json::from_str::<CaseReport>(&answer[start..]) {
        Ok(CaseReport { passed: true, text }) => Ok(text),
        Ok(CaseReport { passed: false, text }) => Err(text),
        Err(_) => Err("it ended the process before there was an answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_only_from_a_process_that_ended_well() {
        let good = "printed\n{\n  \"passed\": true,\n  \"text\": \"t\"\n}\n";
        let ended = |raw| Some(ExitStatus::from_raw(raw));
        assert_eq!(judge(ended(0), good), Ok("t".to_owned()));
        assert!(judge(ended(0), "").unwrap_err().contains("before there was an answer"));
        assert!(judge(ended(11), good).unwrap_err().contains("signal 11"));
        assert!(judge(ended(1 << 8), good).unwrap_err().contains("status: 1"));
        assert!(judge(None, good).unwrap_err().contains("did not end"));
    }

    #[test]
    fn descriptions() {
        let of = |text: &str| described(&Descriptor::parse(text).unwrap());
        let front = "[[components]]\nkind = 'frontend'\nid = 'f'\nglobs = ['*.f']\n";
        let why = of(&format!("summary = 's'\n{front}")).unwrap_err();
        for part in ["no licence", "`f` has no summary"] {
            assert!(why.contains(part), "{why}");
        }
        let good = &format!("summary = 's'\nlicence = 'MIT'\n{front}summary = 's'\n");
        assert_eq!(of(good), Ok("1 components".to_owned()));
        let component = &Descriptor::parse(good).unwrap().components[0];
        assert_eq!(network_name(component), "network.f");
    }
}
