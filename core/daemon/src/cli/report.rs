//! `onnxd report`: shows the report of a job again, in any form.

use super::context::Context;
use super::{Ended, out};
use crate::conversion::publish::{REPORT, read_report};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_jobs::{kept_in_packs, one_id};
use onnxd_proto::onnxd as message;
use std::path::{Path, PathBuf};

/// Folders below outbox and failed that are looked through for a job.
const FOLDERS_MAX: usize = 100_000;

/// Prints the report of a job or a result, as text, HTML, JSON or receipt.
#[derive(clap::Args)]
pub(crate) struct Report {
    /// Id of a job or its first letters, or a report.json, or the folder it lies in.
    #[arg(value_name = "JOB|PATH")]
    what: String,
    /// Form of the report.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// The same as `--format json`.
    #[arg(long)]
    json: bool,
    /// Settings file; it says where results are.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Tables for people and grep.
    Text,
    /// One page without references.
    Html,
    /// What scripts read.
    Json,
    /// At most ten lines.
    Receipt,
}

impl Report {
    pub(crate) fn run(&self) -> Ended {
        let report = self.report()?;
        let format = if self.json { Format::Json } else { self.format };
        match format {
            Format::Text => out::print(&onnxd_report::text(&report)),
            Format::Html => out::source_text(&onnxd_report::html(&report)),
            Format::Json => out::json_text(&onnxd_report::json(&report)),
            Format::Receipt => out::print(&onnxd_report::receipt(&report)),
        }
        Ok(0)
    }

    fn report(&self) -> Result<message::Report, super::Failure> {
        let named = Path::new(&self.what);
        if named.is_dir() {
            return Ok(read_report(&named.join(REPORT))?);
        }
        if named.exists() || self.what.contains('/') {
            return Ok(read_report(named)?);
        }
        let context = Context::load(self.config.as_deref())?;
        let output = &context.settings.output;
        let mut report_files: Vec<(String, PathBuf)> =
            [&output.outbox, &output.failed].into_iter().flat_map(|root| reports(root)).collect();
        // A quarantined job has its report in its own folder only.
        let jobs = std::fs::read_dir(context.settings.state.dir.join("jobs"));
        let kept = jobs.into_iter().flatten().flatten().map(|entry| {
            let id = entry.file_name().to_string_lossy().into_owned();
            (id, entry.path().join(REPORT))
        });
        report_files.extend(kept.filter(|(_, report)| report.is_file()));
        // Those of jobs at rest are packed.
        let packed = kept_in_packs(&context.settings.state.dir, &self.what.to_ascii_uppercase())?;
        let ids = report_files.iter().map(|(id, _)| id).chain(packed.iter().map(|(id, _)| id));
        let id = one_id(&self.what, ids.map(String::as_str))?.map(str::to_owned);
        if let Some((_, report)) = report_files.iter().find(|(job, _)| Some(job) == id.as_ref()) {
            return Ok(read_report(report)?);
        }
        let kept = packed.into_iter().find(|(job, _)| Some(job) == id.as_ref());
        match kept.map(|(_, kept)| kept.report).filter(|report| !report.is_empty()) {
            Some(report) => Ok(onnxd_report::from_json(&String::from_utf8_lossy(&report))?),
            None => {
                let text = format!("no file and no job `{}`", shown(&self.what));
                let help = "Name a job's id, a report.json, or the folder it lies in.";
                Err(Diagnostic::new(Code::Unreadable, text).help(help).into())
            }
        }
    }
}

/// The reports below `root` with the jobs that they are of.
fn reports(root: &Path) -> Vec<(String, PathBuf)> {
    let (mut folders, mut found) = (vec![root.to_owned()], Vec::new());
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        looked_at += 1;
        let report = folder.join(REPORT);
        if report.is_file() {
            found.extend(read_report(&report).ok().map(|r| (r.job, report)));
            continue;
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        folders.extend(below.map(|e| e.path()).take(FOLDERS_MAX.saturating_sub(looked_at)));
    }
    found
}
