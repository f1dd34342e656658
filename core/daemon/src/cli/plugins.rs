//! `onnxd plugins`: what is installed, and what a plugin says about itself.

mod check;
pub(super) mod conformance;
mod new;
mod samples;
mod timed_child;

use super::context::Context;
use super::{Ended, FINDINGS, out};
use crate::conversion::Plugins as Installed;
use crate::conversion::plugins::inspect;
use onnxd_config::Descriptor;
use onnxd_diagnostics::{Code, Diagnostic, escaped, shown};
use onnxd_proto::onnxd::{self as message, PluginInfo};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Shows, checks and makes plugins.
#[derive(clap::Subcommand)]
pub(crate) enum Plugins {
    List(List),
    Inspect(Inspect),
    Check(check::Check),
    New(new::New),
}

/// Lists the plugins on the search path, what they provide, and what cannot be used; with status 1 if
/// there is such a file.
#[derive(clap::Args)]
pub(crate) struct List {
    /// Lists the folders that were searched and libraries that are no plugins, too.
    #[arg(long)]
    all: bool,
    /// Prints the list as JSON.
    #[arg(long)]
    json: bool,
    /// Settings file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Shows everything that one plugin says about itself.
#[derive(clap::Args)]
pub(crate) struct Inspect {
    /// A library, or the id of an installed plugin.
    #[arg(value_name = "FILE|ID")]
    plugin: String,
    /// Prints it as JSON.
    #[arg(long)]
    json: bool,
    /// Settings file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Plugins {
    pub(crate) fn run(&self) -> Ended {
        match self {
            Plugins::List(c) => c.run(),
            Plugins::Inspect(c) => c.run(),
            Plugins::Check(c) => c.run(),
            Plugins::New(c) => c.run(),
        }
    }
}

impl List {
    fn run(&self) -> Ended {
        let Context { environment, settings, launcher } = Context::load(self.config.as_deref())?;
        let found = Installed::discover(&settings, &environment, &launcher)?;
        let ended = Ok(if found.problems().is_empty() { 0 } else { FINDINGS });
        if self.json {
            out::json(&as_json(&found));
            return ended;
        }
        let mut rows = vec![row(&["PLUGIN", "VERSION", "KIND", "COMPONENT", "SUMMARY"])];
        for p in &found.used {
            let components = p.components.iter();
            rows.extend(components.map(|c| row(&[&p.id, &p.version, &c.kind, &c.id, &c.summary])));
            let lowered = found.declared.lowered.iter().filter(|l| l.plugin == p.id);
            rows.extend(lowered.map(|l| {
                row(&[&p.id, &p.version, "operator", &l.op, &format!("Lowered by {}", l.pass)])
            }));
        }
        out::print(&out::table(&rows));
        for p in &found.disabled {
            out::error(&format!("{} is disabled by the settings: {}", p.id, p.path));
        }
        for s in &found.shadowed {
            out::error(&format!("{} is not used: {} has the same id", s.plugin.path, s.by));
        }
        if self.all {
            for folder in &found.searched {
                out::print(&format!("searched: {}\n", escaped(&folder.display().to_string())));
            }
            for library in &found.bystanders {
                out::print(&format!("no plugin: {}\n", escaped(&library.display().to_string())));
            }
        }
        for problem in found.problems() {
            out::error(&problem.to_string());
        }
        ended
    }
}

fn as_json(found: &Installed) -> Value {
    let clashes = found.declared.clashes.iter();
    json!({
        "digest": found.digest(),
        "plugins": found.used.iter().map(info).collect::<Vec<_>>(),
        "disabled": found.disabled.iter().map(info).collect::<Vec<_>>(),
        "shadowed": found.shadowed.iter().map(|s| info(&s.plugin)).collect::<Vec<_>>(),
        "searched": found.searched,
        "no_plugins": found.bystanders,
        "clashes": clashes.map(|c| message::Diagnostic::from(&c.why)).collect::<Vec<_>>(),
        "refused": found.refused.iter().map(message::Diagnostic::from).collect::<Vec<_>>(),
    })
}

fn info(p: &PluginInfo) -> Value {
    let descriptor = onnxd_config::descriptor::as_json(&p.descriptor);
    json!({
        "id": p.id,
        "version": p.version,
        "path": p.path,
        "sha256": p.sha256,
        "abi": format!("{}.{}", p.abi_major, p.abi_minor),
        "descriptor": descriptor,
    })
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&c| c.to_owned()).collect()
}

impl Inspect {
    fn run(&self) -> Ended {
        let context = Context::load(self.config.as_deref())?;
        let found = find(&self.plugin, &context)?;
        if self.json {
            out::json(&info(&found));
            return Ok(0);
        }
        let abi = format!("{}.{}", found.abi_major, found.abi_minor);
        let mut rows = vec![
            row(&["id", &found.id]),
            row(&["version", &found.version]),
            row(&["abi", &abi]),
            row(&["path", &found.path]),
            row(&["sha256", &found.sha256]),
        ];
        let descriptor = Descriptor::parse(&found.descriptor).map_err(|why| {
            Diagnostic::new(Code::PluginRefused, format!("plugin `{}`: {why}", found.path))
        })?;
        rows.push(row(&["summary", &descriptor.summary]));
        rows.push(row(&["licence", &descriptor.licence]));
        out::print(&out::table(&rows));
        let mut rows = Vec::new();
        for c in &descriptor.components {
            rows.push(row(&[&c.kind, &c.id, &c.globs.join(", "), &c.summary]));
            rows.extend(c.lowers.iter().map(|op| row(&["operator", op, "", ""])));
            rows.extend(c.params.iter().map(|param| {
                let kind = format!("{} = {}", param.kind, param.row().default_text());
                row(&["param", &param.key, &kind, &param.help])
            }));
        }
        out::print(&format!("\n{}", out::table(&rows)));
        Ok(0)
    }
}

/// The plugin that a path or an id names.
pub(super) fn find(named: &str, context: &Context) -> Result<PluginInfo, Diagnostic> {
    let path = Path::new(named);
    if path.exists() {
        let absolute = path
            .canonicalize()
            .map_err(|e| Diagnostic::new(Code::Unreadable, format!("`{}`: {e}", path.display())))?;
        return inspect(&context.launcher, &absolute);
    }
    let found = Installed::discover(&context.settings, &context.environment, &context.launcher)?;
    let by_component = || found.component(named).ok().map(|(p, _)| p.clone());
    let by_id = found.used.iter().find(|p| p.id == named).cloned();
    by_id.or_else(by_component).ok_or_else(|| {
        let text = format!("no file and no installed plugin `{}`", shown(named));
        Diagnostic::new(Code::ComponentUnknown, text)
    })
}
