//! `onnxd convert`: one conversion without the daemon, by the same worker, with the same report.

use super::context::Context;
use super::failure::line;
use super::progress::Progress;
use super::scratch::Scratch;
use super::{Ended, logged, out};
use crate::conversion::attempt::listed;
use crate::conversion::companions::{completed, folder_of_network, samples_named};
use crate::conversion::probe::ask;
use crate::conversion::publish::{own_folder, prepare};
use crate::conversion::recognised::tell;
use crate::conversion::submission::presets_of;
use crate::conversion::{Order, Outcome, Plugins, Submission, Target, Verdict, convert};
use onnxd_config::{Params, Preset};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use onnxd_proto::onnxd::{self as message, WorkerEvent};
use onnxd_worker::confine::parent::{GRACE, Killer};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const AFTER_HELP: &str = "\
One folder is a submission as it would be dropped. Several paths lie side by side by their last
names; the first file that a front-end takes is the network, the others belong to it:

    onnxd convert net.ini weights/ block.ini.tpl --params params.ini --out result/

What a network refers to is looked for beside it; params are not. One file of arrays beside a
network that is quantized is its calibration data.
`onnxd.params.toml` holds for drops in the inbox; `--presets DIR` reads it elsewhere.

DIR gets model.onnx, report.json, report.txt, report.html, receipt.txt and manifest.sha256. If DIR
does not exist it appears with all of them at once; else files of an earlier result are replaced, as
far as its manifest.sha256 names them and they are unchanged since. If any other file is in the
way, nothing is converted. The reports of a failure go to DIR/failed if DIR holds a result.";

/// Converts one network, without the daemon.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Convert {
    /// The network with its companions, or a folder of both.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Folder for the result.
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
    /// Params (TOML or INI), instead of those among the paths.
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// Reads `onnxd.params.toml` of DIR and of its folders down to the drop; the inbox's own are read anyway.
    #[arg(long, value_name = "DIR")]
    presets: Option<PathBuf>,
    /// Sets one param; wins over the files.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Uses this library beside the installed plugins; may be given several times.
    #[arg(long = "plugin", value_name = "FILE")]
    plugins: Vec<PathBuf>,
    /// Stops rewriting after N rewrites, to find the one that breaks a network.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    stop_after_rewrite: u64,
    /// Shows what plugins log as information, beside their errors and warnings.
    #[arg(long, short)]
    verbose: bool,
    /// Prints report.json instead of the receipt.
    #[arg(long)]
    json: bool,
    /// Settings file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Convert {
    pub(crate) fn run(&self) -> Ended {
        let stop = Stop::on_signals()?;
        let context = Context::load(self.config.as_deref())?;
        let mut target = Target::new(&self.out)?;
        let job = ulid::Ulid::generate().to_string();
        let work = self.work(&context, &target, &job, &stop);
        if let Ok((work, submission)) = &work {
            self.protect(&mut target, submission);
            target.check_early(own_folder(&listed(&work.params)).as_deref())?;
        }
        let unread: Vec<_> = work.iter().flat_map(|(work, _)| work.unread.clone()).collect();
        let scratch = Scratch::new(target.scratch(&job))?;
        let converted = work.and_then(|(work, mut submission)| {
            let outcome = self.attempt(&work, &mut submission, scratch.path());
            self.protect(&mut target, &submission);
            outcome
        });
        let mut outcome = converted.unwrap_or_else(|e| {
            let e = tell(&self.paths, e);
            let name = self.paths[0].file_name().unwrap_or_default().to_string_lossy();
            Outcome::failed(&job, &name, &e, scratch.path().join("out"))
        });
        outcome.report.diagnostics.extend(unread);
        prepare(&mut outcome, None)?;
        match outcome.verdict {
            Verdict::Failed { .. } => {
                let folder = target.publish_failure(&outcome)?;
                self.show(&outcome);
                let report = folder.join("report.html");
                out::error(&format!("The report is `{}`.", report.display()));
            }
            _ => {
                target.publish(&outcome)?;
                self.show(&outcome);
            }
        }
        Ok(outcome.verdict.exit_code())
    }

    /// What is to be done, and on which files.
    fn work<'a>(
        &self,
        context: &'a Context,
        target: &Target,
        job: &'a str,
        stop: &'a Stop,
    ) -> Result<(Work<'a>, Submission), Diagnostics> {
        let plugins = context.plugins_and(&self.plugins)?;
        plugins.has_frontend()?;
        let inbox = &context.settings.intake.inbox;
        let found = presets_of(&self.paths, self.presets.as_deref(), inbox)?;
        let presets = found.as_deref().unwrap_or_default();
        let ours = |file: &Path| target.wrote(file);
        let about = |submission: &Submission| {
            let params = submission.params(&plugins, presets, self.params.as_deref(), &self.set)?;
            ask(&context.launcher, &plugins, submission, &params)
        };
        let submission =
            Submission::from_paths(&self.paths, &plugins, &context.names(), &ours, &about)?;
        let resolve = |presets: &[Preset]| {
            submission.params(&plugins, presets, self.params.as_deref(), &self.set)
        };
        let mut params = resolve(presets)?;
        if let Some(samples) = samples_named(&self.paths, &submission, &params) {
            params = resolve(&[presets, &[samples]].concat())?;
        }
        let unread = submission.unread_params(&self.paths, self.params.as_deref(), &found);
        let unread = unread.iter().map(|d| message::Diagnostic::of(d, Severity::Warning)).collect();
        Ok((Work { context, plugins, params, unread, job, stop }, submission))
    }

    /// What this run reads is never written.
    fn protect(&self, target: &mut Target, submission: &Submission) {
        let files = submission.files.iter().map(|f| Path::new(&f.path));
        let named = [&self.params, &self.config].into_iter().flatten().chain(&self.plugins);
        let named = named.map(PathBuf::as_path);
        target.protect(files.chain(named));
    }

    fn attempt(
        &self,
        work: &Work,
        submission: &mut Submission,
        scratch: &Path,
    ) -> Result<Outcome, Diagnostics> {
        let outcome = self.once(work, submission, scratch.to_owned())?;
        let lacks_file =
            outcome.report.diagnostics.iter().any(|d| d.code == Code::FileMissing.as_str());
        let folder = folder_of_network(&self.paths, &submission.network);
        let Some(folder) = folder.filter(|_| lacks_file) else {
            return Ok(outcome);
        };
        // What a network refers to is looked for beside it; only then, because most networks need
        // nothing and the question costs a process.
        let with = (&work.context.launcher, &work.plugins, &work.params);
        if !completed(submission, folder, &work.context.names(), with)? {
            return Ok(outcome);
        }
        let again = scratch.join("again");
        std::fs::create_dir(&again).map_err(|e| {
            Diagnostic::new(Code::Disk, format!("`{}` could not be made: {e}", again.display()))
        })?;
        self.once(work, submission, again)
    }

    fn once(
        &self,
        work: &Work,
        submission: &Submission,
        folder: PathBuf,
    ) -> Result<Outcome, Diagnostics> {
        let mut order = Order::new(work.job, submission, &work.params, &work.plugins, folder);
        order.rewrites_max = self.stop_after_rewrite;
        let (launcher, settings) = (&work.context.launcher, &work.context.settings);
        let mut progress = Progress::new();
        let on_start = |killer| work.stop.watch(killer);
        let on_event = |event: &WorkerEvent| {
            progress.event(event);
            logged::show(event, self.verbose);
        };
        Ok(convert(launcher, settings, order, on_start, on_event)?)
    }

    fn show(&self, outcome: &Outcome) {
        for found in &outcome.report.diagnostics {
            out::error(&line(found));
        }
        let failed = matches!(outcome.verdict, Verdict::Failed { .. });
        match (self.json, failed) {
            (true, _) => out::json_text(&onnxd_report::json(&outcome.report)),
            // Its findings say all that a receipt does.
            (false, true) => {}
            (false, false) => out::print(&onnxd_report::receipt(&outcome.report)),
        }
    }
}

/// What the attempts of one command share.
struct Work<'a> {
    context: &'a Context,
    plugins: Plugins,
    params: Params,
    /// Params that may have been meant, and were not named.
    unread: Vec<message::Diagnostic>,
    job: &'a str,
    stop: &'a Stop,
}

/// Stops the worker when this process is told to stop, so that nothing unfinished is left.
struct Stop(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    asked: bool,
    killer: Option<Killer>,
}

impl Stop {
    fn on_signals() -> Result<Stop, Diagnostic> {
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| {
            Diagnostic::new(Code::WorkerStart, format!("signals cannot be handled: {e}"))
        })?;
        std::thread::spawn(move || {
            for _ in signals.forever() {
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                state.asked = true;
                let killer = state.killer.clone();
                drop(state);
                if let Some(killer) = killer {
                    killer.kill_group(GRACE);
                }
            }
        });
        Ok(Stop(state))
    }

    fn watch(&self, killer: Killer) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.asked {
            killer.kill_group(GRACE);
        }
        state.killer = Some(killer);
    }
}
