//! One attempt of one conversion: start the worker, follow it, judge what it left.
//!
//! Exit status alone is never proof of success: that takes the result message, status 0, and files
//! that are what the message announces.

use super::probe::Died;
use super::recognised::tell_in_report;
use super::{Launcher, Plugins, Submission, verify};
use onnxd_config::{Params, Settings};
use onnxd_diagnostics::{Class, Code, Diagnostic, Diagnostics, Severity};
use onnxd_params::host;
use onnxd_plugin_host::from_message;
use onnxd_proto::onnxd as message;
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{
    Component, ConvertRequest, Limits, Param, PluginInfo, Report, Request, StageStarted,
    WorkerEvent,
};
use onnxd_report::SCHEMA;
use onnxd_worker::confine::outcome::{self, End, Exit};
use onnxd_worker::confine::parent::{Killer, PROBE, WorkerProcess};
use onnxd_worker::recognition::leave_out;
use std::path::{Path, PathBuf};

/// Where in its work folder a worker writes the result.
const OUT: &str = "out";

/// What is to be converted, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversionOrder {
    /// What the worker is told. Its folder exists and is empty.
    pub(crate) request: ConvertRequest,
    pub(crate) limits: Limits,
    /// Findings that stop nothing, known before the worker starts.
    pub(crate) notes: Vec<message::Diagnostic>,
}

/// Converts in a worker. A front-end that hangs or crashes when it is asked whether the network is
/// its own keeps no other one from it: the conversion begins again without it.
///
/// # Errors
/// `N0303` if no worker can be started, `N0304` if its folder for outputs cannot be made.
pub(crate) fn convert(
    launcher: &Launcher,
    mut order: ConversionOrder,
    mut on_start: impl FnMut(Killer),
    mut on_event: impl FnMut(&WorkerEvent),
) -> Result<Outcome, Diagnostic> {
    loop {
        let attempt = Attempt::start(launcher, &order)?;
        on_start(attempt.killer());
        let (mut outcome, died) = attempt.finish(&mut on_event);
        let Some(died) = died.filter(|d| order.goes_on_without(d)) else {
            let ConvertRequest { files, network, .. } = &order.request;
            if let Some(network) = files.iter().find(|f| f.name == *network) {
                tell_in_report(network.path.as_ref(), &mut outcome.report);
            }
            return Ok(outcome);
        };
        order.notes.push(message::Diagnostic::of(&died.why, Severity::Warning));
        super::files::remove_folder(&outcome.out_dir)
            .map_err(|e| no_folder(&outcome.out_dir, &e))?;
    }
}

fn no_folder(out: &Path, e: &std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::of_write(e), format!("`{}` could not be made: {e}", out.display()))
}

/// A running attempt.
struct Attempt<'o> {
    worker: WorkerProcess,
    order: &'o ConversionOrder,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// With a model.
    Succeeded,
    /// With a model that misses something that was asked for.
    SucceededWithFindings,
    /// Without a model.
    Failed {
        /// Whose problem it is.
        class: Class,
        /// The worker died, or gave no answer.
        crashed: bool,
        /// The worker took too long.
        timed_out: bool,
        /// A user asked for its end.
        stopped: bool,
    },
}

impl Verdict {
    /// Exit status of a command that ends like this.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Verdict::Succeeded => 0,
            Verdict::SucceededWithFindings => 1,
            Verdict::Failed { class, .. } => class.exit_code(),
        }
    }
}

/// What an attempt gave.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Complete on success; else as far as the conversion got.
    pub(crate) report: Report,
    /// How it ended.
    pub(crate) verdict: Verdict,
    /// The folder with the verified outputs; on failure its contents mean nothing.
    pub(crate) out_dir: PathBuf,
}

impl ConversionOrder {
    /// An order for the files and params of a submission.
    pub(crate) fn new(
        job: &str,
        submission: &Submission,
        params: &Params,
        (plugins, settings): (&Plugins, &Settings),
        work_dir: &Path,
    ) -> ConversionOrder {
        let own: host::Job = params.resolved().section();
        let request = ConvertRequest {
            job: job.to_owned(),
            name: own.name().unwrap_or_else(|| submission.name.clone()),
            attempt: 1,
            plugins: plugins.used.clone(),
            files: submission.files.clone(),
            network: submission.network.clone(),
            params_json: params.resolved().text().to_owned(),
            params: listed(params),
            work_dir: work_dir.to_string_lossy().into_owned(),
            ..ConvertRequest::default()
        };
        ConversionOrder { request, limits: limits(settings, &own), notes: warnings(params.notes()) }
    }

    /// Takes the front-end away, if another one may claim the network's name.
    fn goes_on_without(&mut self, died: &Died) -> bool {
        let mut plugins = self.request.plugins.clone();
        let left = leave_out(&mut plugins, &died.plugin, &died.frontend);
        let rest = Plugins { used: plugins, ..Plugins::default() };
        let goes_on = left && rest.may_be_network(&self.request.network);
        if goes_on {
            self.request.plugins = rest.used;
        }
        goes_on
    }

    /// Where the worker writes the result.
    fn out_dir(&self) -> PathBuf {
        Path::new(&self.request.work_dir).join(OUT)
    }

    /// The report of a conversion that did not come to one of its own.
    fn failure(&self, found: &Diagnostics) -> Report {
        let ConvertRequest { job, name, params, attempt, .. } = &self.request;
        Report { params: params.clone(), attempt: *attempt, ..failure(job, name, found) }
    }
}

/// Params as reports list them.
pub(crate) fn listed(params: &Params) -> Vec<Param> {
    let param = |e: &onnxd_config::KeyEntry| Param {
        key: e.key.clone(),
        value: e.toml(),
        origin: e.origin.clone(),
    };
    params.entries().iter().map(param).collect()
}

/// Findings that stop nothing, as reports list them.
pub(crate) fn warnings(found: &[Diagnostic]) -> Vec<message::Diagnostic> {
    found.iter().map(|d| message::Diagnostic::of(d, Severity::Warning)).collect()
}

/// A report that says only what went wrong.
fn failure(job: &str, name: &str, found: &Diagnostics) -> Report {
    let first = found.0.first().map(|d| d.message.clone()).unwrap_or_default();
    let more = found.0.len().saturating_sub(1);
    let more = if more > 0 { format!(" (and {more} more findings)") } else { String::new() };
    Report {
        schema: SCHEMA,
        job: job.to_owned(),
        name: name.to_owned(),
        verdict: message::Verdict::Failed.into(),
        summary: first + &more,
        versions: Some(message::Versions {
            onnxd: env!("CARGO_PKG_VERSION").to_owned(),
            plugins: Vec::new(),
        }),
        diagnostics: found.0.iter().map(message::Diagnostic::from).collect(),
        attempt: 1,
        ..Report::default()
    }
}

impl Outcome {
    /// A conversion that failed before its worker started.
    pub(crate) fn failed(job: &str, name: &str, found: &Diagnostics, out_dir: PathBuf) -> Outcome {
        let (crashed, timed_out, stopped) = (false, false, false);
        let verdict = Verdict::Failed { class: found.class(), crashed, timed_out, stopped };
        Outcome { report: failure(job, name, found), verdict, out_dir }
    }

    /// That models would have replaced what must stay, as was seen once they were known.
    pub(crate) fn taken(&self) -> Option<Diagnostic> {
        let mut found = self.report.diagnostics.iter();
        let taken = found.find(|found| found.code == Code::OutputTaken.as_str())?;
        matches!(self.verdict, Verdict::Failed { .. }).then(|| from_message(taken))
    }
}

/// The limits of one conversion: those of the settings, lowered by its params.
pub(crate) fn limits(settings: &Settings, own: &host::Job) -> Limits {
    let worker = &settings.worker;
    let memory_mib = own.memory_mib_max().unwrap_or(u64::MAX).min(worker.memory_mib_max);
    Limits {
        memory_bytes: memory_mib << 20,
        cpu_seconds: worker.cpu_s,
        wall_ms: own.timeout_s().unwrap_or(worker.timeout_s).saturating_mul(1000),
        file_bytes: worker.file_mib_max << 20,
        threads: worker.threads,
        threads_max: worker.threads_max,
        disk_bytes: worker.disk_mib_max << 20,
    }
}

impl<'o> Attempt<'o> {
    /// Starts the worker; its deadline begins now.
    ///
    /// # Errors
    /// `N0303` if it cannot be started, `N0304` if its folder for outputs cannot be made.
    fn start(launcher: &Launcher, order: &'o ConversionOrder) -> Result<Attempt<'o>, Diagnostic> {
        let out = order.out_dir();
        std::fs::create_dir(&out).map_err(|e| no_folder(&out, &e))?;
        let what = Some(What::Convert(order.request.clone()));
        let worker = launcher.spawn(&Request { limits: Some(order.limits), what })?;
        Ok(Attempt { worker, order })
    }

    /// A handle that stops the worker and all that it started, from any thread.
    fn killer(&self) -> Killer {
        self.worker.killer()
    }

    /// Passes the worker's news on until it has ended, then judges what it left, and says which
    /// front-end died over the question whether the network is its own. Blocks.
    fn finish(self, on_event: impl FnMut(&WorkerEvent)) -> (Outcome, Option<Died>) {
        let Attempt { worker, order } = self;
        let end = worker.follow(on_event);
        let out_dir = order.out_dir();
        let (report, verdict) = judge(&end, order, &out_dir);
        let died = died_probing(&end);
        (Outcome { report: with_notes(report, order.notes.clone()), verdict, out_dir }, died)
    }
}

fn died_probing(end: &outcome::Outcome) -> Option<Died> {
    let stage = end.stage.as_ref().filter(|s| s.stage == PROBE && !end.stopped)?;
    let why = outcome::conclude(end).err()?.0.into_iter().next()?;
    // What the worker itself reports concerns no single front-end.
    let (plugin, frontend) = (stage.plugin.clone(), stage.component.clone());
    (end.answer.is_none()).then_some(Died { plugin, frontend, why })
}

fn judge(end: &outcome::Outcome, order: &ConversionOrder, out_dir: &Path) -> (Report, Verdict) {
    let result = match outcome::conclude(end) {
        Ok(result) => result,
        Err(no_result) => {
            let mut report = order.failure(&no_result);
            report.versions.get_or_insert_default().plugins =
                in_charge(end.stage.as_ref(), &order.request.plugins);
            return (report, failed(no_result.class(), end));
        }
    };
    let Some(report) = result.report else {
        let text = "the worker sent a result without a report";
        let no_result = Diagnostics::from(Diagnostic::new(Code::WorkerNoResult, text));
        return (order.failure(&no_result), failed(no_result.class(), end));
    };
    let verdict = match report.verdict() {
        message::Verdict::Succeeded => Verdict::Succeeded,
        message::Verdict::SucceededWithFindings => Verdict::SucceededWithFindings,
        _ => return (report.clone(), failed(class_of(&report), end)),
    };
    match verify::verify(out_dir, result.outputs) {
        Ok(outputs) => (Report { outputs, ..report }, verdict),
        Err(why) => {
            let no_result = Diagnostics::from(why);
            let versions = report.versions;
            (Report { versions, ..order.failure(&no_result) }, failed(no_result.class(), end))
        }
    }
}

fn failed(class: Class, end: &outcome::Outcome) -> Verdict {
    let stopped = end.stopped;
    let timed_out = !stopped && (end.end == End::Late || end.exit == Exit::Signal(SIGXCPU));
    let answered = end.answer.is_some() && end.end == End::Closed;
    let crashed = !stopped && !timed_out && (end.exit != Exit::Code(0) || !answered) && {
        // A worker that says why it cannot start has not crashed.
        !matches!(end.answer, Some(Event::Failed(_)))
    };
    Verdict::Failed { class, crashed, timed_out, stopped }
}

/// The signal that ends a process whose processor time is used up.
const SIGXCPU: i32 = rustix::process::Signal::XCPU.as_raw();

/// The gravest class among a report's errors.
pub(crate) fn class_of(report: &Report) -> Class {
    let errors = report.diagnostics.iter().filter(|d| d.severity() == Severity::Error);
    errors.map(message::Diagnostic::class).max().unwrap_or(Class::Internal)
}

/// The plugin that was in charge when the worker ended.
fn in_charge(stage: Option<&StageStarted>, plugins: &[PluginInfo]) -> Vec<Component> {
    let plugin = stage.and_then(|s| plugins.iter().find(|p| p.id == s.plugin));
    let component = plugin.map(|p| Component {
        id: p.id.clone(),
        version: p.version.clone(),
        sha256: p.sha256.clone(),
    });
    component.into_iter().collect()
}

fn with_notes(mut report: Report, notes: Vec<message::Diagnostic>) -> Report {
    report.diagnostics.extend(notes);
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_config::{Environment, load};
    use onnxd_params::Resolved;
    use onnxd_proto::onnxd::{ConvertResult, FileDigest, FileRole};
    use std::sync::Arc;

    fn ended(exit: Exit, answer: Option<Event>) -> outcome::Outcome {
        let stage = Some(StageStarted {
            stage: "import".into(),
            plugin: "org.example.p".into(),
            component: "c".into(),
        });
        let stderr = String::new();
        let (end, stopped, wall_ms, lacked_memory) = (End::Closed, false, 0, false);
        outcome::Outcome { exit, end, stage, answer, stderr, lacked_memory, stopped, wall_ms }
    }

    fn converted(verdict: message::Verdict, outputs: Vec<FileDigest>) -> Option<Event> {
        let report = Report { verdict: verdict.into(), ..Report::default() };
        Some(Event::Converted(ConvertResult { report: Some(report), outputs }))
    }

    fn order() -> ConversionOrder {
        let plugin = PluginInfo {
            id: "org.example.p".into(),
            version: "1.2.3".into(),
            ..Default::default()
        };
        let (job, name, plugins) = ("J".into(), "net".into(), vec![plugin]);
        let request = ConvertRequest { job, name, plugins, ..ConvertRequest::default() };
        ConversionOrder { request, ..ConversionOrder::default() }
    }

    #[test]
    fn success_needs_message_status_and_files() {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("model.onnx");
        std::fs::write(&path, b"m").unwrap();
        let (bytes, sha256) = super::super::files::digest(&path).unwrap();
        let file =
            FileDigest { path: "model.onnx".into(), bytes, sha256, role: FileRole::Model.into() };
        let judged = |exit, answer| judge(&ended(exit, answer), &order(), out.path());

        let good = || converted(message::Verdict::Succeeded, vec![file.clone()]);
        let (report, verdict) = judged(Exit::Code(0), good());
        assert_eq!(verdict, Verdict::Succeeded);
        assert_eq!(report.outputs.len(), 1);
        let findings = converted(message::Verdict::SucceededWithFindings, vec![file.clone()]);
        assert_eq!(judged(Exit::Code(0), findings).1.exit_code(), 1);

        let (report, verdict) = judged(Exit::Signal(11), good());
        assert!(matches!(verdict, Verdict::Failed { crashed: true, .. }), "{verdict:?}");
        assert_eq!(report.versions.unwrap().plugins[0].version, "1.2.3");
        assert_eq!(report.diagnostics[0].code, "N0401");

        let (_, verdict) = judged(Exit::Code(0), None);
        assert!(matches!(verdict, Verdict::Failed { crashed: true, .. }), "{verdict:?}");
        let lie = FileDigest { bytes: 9, ..file };
        let (report, verdict) =
            judged(Exit::Code(0), converted(message::Verdict::Succeeded, vec![lie]));
        assert_eq!(verdict.exit_code(), 4);
        assert_eq!(report.verdict(), message::Verdict::Failed);
    }

    #[test]
    fn a_reported_failure_keeps_its_class() {
        let bad = Diagnostic::new(Code::LayerUnsupported, "no");
        let note = message::Diagnostic::of(
            &Diagnostic::new(Code::Internal, "never mind"),
            Severity::Warning,
        );
        let report = Report {
            verdict: message::Verdict::Failed.into(),
            diagnostics: vec![message::Diagnostic::from(&bad), note],
            ..Report::default()
        };
        let answer = Event::Converted(ConvertResult { report: Some(report), outputs: Vec::new() });
        let (_, verdict) = judge(&ended(Exit::Code(0), Some(answer)), &order(), "/none".as_ref());
        assert_eq!(verdict.exit_code(), 3);
        assert!(matches!(verdict, Verdict::Failed { crashed: false, timed_out: false, .. }));
    }

    #[test]
    fn params_lower_the_limits() {
        let environment = Environment { cores: 2, ..Environment::default() };
        let settings = load(None, &environment, &["worker.timeout_s=100".into()]).unwrap().settings;
        let limits = |json| limits(&settings, &Arc::new(Resolved::parse(json).unwrap()).section());
        let own = limits(r#"{"job":{"timeout_s":7,"memory_mib_max":64}}"#);
        assert_eq!((own.wall_ms, own.memory_bytes), (7000, 64 << 20));
        let none = limits(r#"{"job":{"timeout_s":null,"memory_mib_max":999999}}"#);
        assert_eq!(none.wall_ms, 100_000);
        assert_eq!(none.memory_bytes, settings.worker.memory_mib_max << 20);
    }
}
