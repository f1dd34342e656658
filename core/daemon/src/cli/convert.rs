//! `onnxd convert`: one conversion without the daemon, by the same worker, with the same report.

use super::context::Context;
use super::drop_options::{DropOptions, ResolvedDrop};
use super::failure::line;
use super::progress::Progress;
use super::scratch::Scratch;
use super::{Ended, logged, out};
use crate::conversion::attempt::warnings;
use crate::conversion::companions::{completed, folder_of_network};
use crate::conversion::publish::prepare;
use crate::conversion::recognised::tell;
use crate::conversion::{
    ConversionOrder, Outcome, Plugins, ResultFolder, Submission, Verdict, convert,
};
use onnxd_config::Params;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_params::host::Export;
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
    #[command(flatten)]
    given: DropOptions,
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
        let mut target = ResultFolder::new(&self.out)?;
        let job = ulid::Ulid::generate().to_string();
        let work = self.work(&context, &target, &job, &stop);
        let mut taken = vec![];
        if let Ok((work, submission)) = &work {
            self.protect(&mut target, submission);
            let export: Export = work.params.resolved().section();
            target.check_early(export.folder().as_deref())?;
            taken = target.taken(export.folder().as_deref());
        }
        let unread: Vec<_> = work.iter().flat_map(|(work, _)| work.unread.clone()).collect();
        let scratch = Scratch::new(target.scratch(&job))?;
        let converted = work.and_then(|(mut work, mut submission)| {
            work.taken = taken;
            let outcome = self.attempt(&work, &mut submission, scratch.path());
            self.protect(&mut target, &submission);
            outcome
        });
        let mut outcome = converted.unwrap_or_else(|e| {
            let e = tell(&self.paths, e);
            let name = self.paths[0].file_name().unwrap_or_default().to_string_lossy();
            Outcome::failed(&job, &name, &e, scratch.path().join("out"))
        });
        if let Some(taken) = outcome.taken() {
            return Err(taken.into());
        }
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
        target: &ResultFolder,
        job: &'a str,
        stop: &'a Stop,
    ) -> Result<(Work<'a>, Submission), Diagnostics> {
        let plugins = context.plugins_and(&self.given.plugins)?;
        plugins.has_frontend()?;
        let ours = |file: &Path| target.wrote(file);
        let meant = self.given.resolve(&self.paths, (context, &plugins), &ours)?;
        let ResolvedDrop { submission, params, unread } = meant;
        let (unread, taken) = (warnings(&unread), vec![]);
        Ok((Work { context, plugins, params, unread, taken, job, stop }, submission))
    }

    /// What this run reads is never written.
    fn protect(&self, target: &mut ResultFolder, submission: &Submission) {
        let files = submission.files.iter().map(|f| Path::new(&f.path));
        let named =
            [&self.given.params, &self.config].into_iter().flatten().chain(&self.given.plugins);
        let named = named.map(PathBuf::as_path);
        target.protect(files.chain(named));
    }

    fn attempt(
        &self,
        work: &Work,
        submission: &mut Submission,
        scratch: &Path,
    ) -> Result<Outcome, Diagnostics> {
        let outcome = self.once(work, submission, scratch)?;
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
        self.once(work, submission, &again)
    }

    fn once(
        &self,
        work: &Work,
        submission: &Submission,
        folder: &Path,
    ) -> Result<Outcome, Diagnostics> {
        let with = (&work.plugins, &work.context.settings);
        let mut order = ConversionOrder::new(work.job, submission, &work.params, with, folder);
        order.request.rewrites_max = self.stop_after_rewrite;
        order.request.taken.clone_from(&work.taken);
        let mut progress = Progress::new();
        let on_start = |killer| work.stop.watch(killer);
        let on_event = |event: &WorkerEvent| {
            progress.event(event);
            logged::show(event, self.verbose);
        };
        Ok(convert(&work.context.launcher, order, on_start, on_event)?)
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
    /// Models in the folder of the result that must stay.
    taken: Vec<String>,
    job: &'a str,
    stop: &'a Stop,
}

/// Stops the worker when this process is told to stop, so that nothing unfinished is left.
struct Stop(Arc<Mutex<Interruption>>);

#[derive(Default)]
struct Interruption {
    asked: bool,
    killer: Option<Killer>,
}

impl Stop {
    fn on_signals() -> Result<Stop, Diagnostic> {
        let state: Arc<Mutex<Interruption>> = Arc::default();
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
