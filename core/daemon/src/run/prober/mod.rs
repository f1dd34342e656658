//! Answers intake's questions about a candidate by asking the front-ends in a confined child.

mod desk;
pub(crate) mod set_aside;

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use onnxd_config::Params;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use onnxd_intake::names::{is_params, is_role_file, is_role_folder};
use onnxd_intake::{Candidate, Control, DropFile, ProbeOutcome, Prober};
use onnxd_params::Resolved;
use onnxd_proto::onnxd::{InputFile, ProbeAnswer, Recognized};
use onnxd_worker::recognition::{NetworkNames, Question};
use prost::Message;

use super::tools::{SharedTools, Tools, asked};
use crate::conversion::probe::probe_each;
use crate::conversion::{Plugins, Submission};
use desk::{Batch, Desk, Fetched, network};
use set_aside::SetAside;

/// Most missing files that are named to a person.
const MISSING_MAX: usize = 20;

/// Asks front-ends, several networks in one child, and several children at a time.
#[derive(Debug)]
pub(crate) struct FrontendProber {
    asking: Asking,
    /// The names of networks, by the plugins of the look.
    names: NetworkNames,
    plugins: Arc<Plugins>,
    /// What the look has asked and has no answer for.
    wanted: Vec<Candidate>,
}

/// What the threads share that ask.
#[derive(Clone, Debug)]
struct Asking {
    tools: SharedTools,
    inbox: PathBuf,
    /// To say that an answer is there.
    intake: Sender<Control>,
    set_aside: SetAside,
    desk: Arc<Mutex<Desk>>,
}

impl FrontendProber {
    pub(crate) fn new(
        tools: SharedTools,
        inbox: PathBuf,
        intake: Sender<Control>,
        set_aside: SetAside,
    ) -> Self {
        let plugins = tools.get().plugins;
        let asking = Asking { tools, inbox, intake, set_aside, desk: Arc::default() };
        let names = plugins.network_names();
        FrontendProber { asking, names, plugins, wanted: Vec::new() }
    }
}

impl Prober for FrontendProber {
    fn begin(&mut self) {
        let plugins = self.asking.tools.get().plugins;
        if !Arc::ptr_eq(&plugins, &self.plugins) {
            self.names = plugins.network_names();
            self.plugins = plugins;
        }
        self.wanted.clear();
    }

    fn is_network(&self, name: &OsStr) -> bool {
        name.to_str().is_some_and(|name| self.names.claim(name))
    }

    fn probe(&mut self, candidate: &Candidate) -> Option<ProbeOutcome> {
        match self.asking.desk().fetch(candidate, &self.plugins) {
            Fetched::Answer(answer) => return Some(answer),
            Fetched::Pending => {}
            Fetched::Unasked => self.wanted.push(candidate.clone()),
        }
        None
    }

    fn ask(&mut self) {
        self.asking.desk().replace(std::mem::take(&mut self.wanted));
        loop {
            let Some(batch) = self.asking.desk().begin() else { return };
            let asking = self.asking.clone();
            // Shared with the thread, so that it is not lost if that does not start.
            let batch = Arc::new(batch);
            let theirs = Arc::clone(&batch);
            let thread = std::thread::Builder::new().name("probe".into());
            if let Err(e) = thread.spawn(move || asking.work(theirs)) {
                let text = format!("A thread could not start: {e}");
                let why = Diagnostic::new(Code::WorkerStart, text);
                let tools = self.asking.tools.get();
                return self.asking.fail(&batch, &tools.plugins, &why);
            }
        }
    }
}

impl Asking {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about one batch after the other until none is left.
    fn work(&self, mut batch: Arc<Batch>) {
        loop {
            let tools = self.tools.get();
            if catch_unwind(AssertUnwindSafe(|| self.ask(&tools, &batch))).is_err() {
                let text = "the thread that asks the front-ends panicked";
                self.fail(&batch, &tools.plugins, &Diagnostic::new(Code::Internal, text));
            } else {
                self.desk().end(&batch);
            }
            let next = self.desk().begin();
            match next {
                Some(next) => batch = Arc::new(next),
                None => return,
            }
        }
    }

    fn ask(&self, tools: &Tools, batch: &Batch) {
        let tell = |candidate: &Candidate, outcome| self.tell(candidate, &tools.plugins, outcome);
        let mut asked = Vec::new();
        for candidate in &batch.candidates {
            match About::from_candidate(candidate, &self.inbox, &tools.plugins) {
                Ok(about) => asked.push(about),
                Err(found) => tell(candidate, ProbeOutcome::Failed(first(found))),
            }
        }
        let plugins = self.set_aside.without(&tools.plugins);
        let questions: Vec<Question> = asked
            .iter()
            .map(|a| a.submission.question(&plugins.used, a.params.resolved()))
            .collect();
        probe_each(&tools.launcher, &questions, |at, answers| {
            let (Some(about), Some(question)) = (asked.get(at), questions.get(at)) else { return };
            let outcome = match answers {
                Ok(answers) => about.conclude(question, answers, tools, &self.set_aside),
                Err(found) => ProbeOutcome::Failed(first(found)),
            };
            tell(about.candidate, outcome);
        });
    }

    /// Intake may fetch the answer.
    fn tell(&self, candidate: &Candidate, plugins: &Arc<Plugins>, outcome: ProbeOutcome) {
        self.desk().answered(candidate, plugins, outcome);
        // Without a receiver the inbox is not watched any more.
        let _ = self.intake.send(Control::Answered);
    }

    /// What has no answer gets this one.
    fn fail(&self, batch: &Batch, plugins: &Arc<Plugins>, why: &Diagnostic) {
        let mut desk = self.desk();
        for candidate in &batch.candidates {
            if desk.is_asked(&network(candidate)) {
                desk.answered(candidate, plugins, ProbeOutcome::Failed(why.clone()));
            }
        }
        desk.end(batch);
    }
}

/// A candidate as a conversion sees it, with its params.
struct About<'c> {
    candidate: &'c Candidate,
    submission: Submission,
    params: Params,
}

impl<'c> About<'c> {
    fn from_candidate(
        candidate: &'c Candidate,
        inbox: &Path,
        plugins: &Plugins,
    ) -> Result<About<'c>, Diagnostics> {
        let submission = submission(candidate);
        let params = submission.params_below(plugins, inbox, &candidate.folder)?;
        Ok(About { candidate, submission, params })
    }

    fn conclude(
        &self,
        question: &Question,
        answers: Vec<ProbeAnswer>,
        tools: &Tools,
        set_aside: &SetAside,
    ) -> ProbeOutcome {
        answers.iter().for_each(|answer| set_aside.note(answer));
        let choice = match question.choose(&answers).map_err(first) {
            Ok(choice) => choice,
            Err(why) if why.code == Code::NoFrontend.as_str() => {
                // One that is not asked any more might have taken it.
                return match set_aside.concerns(&tools.plugins, &self.submission.network) {
                    Some(why) => ProbeOutcome::Failed(why),
                    None => ProbeOutcome::NotMine(why.into_finding().message),
                };
            }
            Err(why) => return ProbeOutcome::Failed(why),
        };
        let missing = choice.needs.iter().filter(|need| !need.found);
        let missing: Vec<String> =
            missing.take(MISSING_MAX).map(|n| format!("{} ({})", n.path, n.what)).collect();
        if !missing.is_empty() {
            return ProbeOutcome::Waiting { missing };
        }
        let params = self.params.resolved();
        let mut used: Vec<PathBuf> =
            choice.needs.iter().flat_map(|n| &n.found_as).map(PathBuf::from).collect();
        used.extend(self.submission.params_files().iter().map(|f| PathBuf::from(&f.name)));
        used.extend(roles(self.candidate, params));
        used.sort();
        used.dedup();
        let asked = asked(&tools.plugins, params.text());
        let died = answers.into_iter().filter(|answer| answer.died);
        let notes =
            died.flat_map(|answer| answer.failed).map(|d| d.with(Severity::Warning)).collect();
        let recognized = Recognized { recognition: Some(choice.recognition), notes, asked };
        ProbeOutcome::Complete { used, answer: recognized.encode_to_vec().into() }
    }
}

/// The candidate as a conversion sees it. A name that is not text cannot be told to a front-end;
/// the job that takes such a file says so.
fn submission(candidate: &Candidate) -> Submission {
    let file = |DropFile { name, stamp }: &DropFile| {
        let path = candidate.root.join(name).to_str()?.to_owned();
        let name = name.to_str()?.to_owned();
        Some(InputFile { path, name, bytes: stamp.size, sha256: String::new() })
    };
    Submission {
        name: candidate.name.to_string_lossy().into_owned(),
        network: candidate.network.to_string_lossy().into_owned(),
        files: candidate.files.iter().filter_map(file).collect(),
    }
}

/// Files that belong to the network although no front-end asks for them: calibration data and
/// references, by their names or named in the params.
fn roles(candidate: &Candidate, params: &Resolved) -> Vec<PathBuf> {
    let keys = ["calibration.data", "check.inputs", "check.outputs"];
    let named = keys.iter().filter_map(|key| params.peek(key).as_str());
    let named: Vec<PathBuf> = named.map(PathBuf::from).collect();
    let is_role = |name: &Path| {
        let mut parts = name.components();
        let top = parts.next().map(|c| c.as_os_str().to_owned()).unwrap_or_default();
        match parts.next() {
            // The params of another network beside this one are not shared.
            None => is_role_file(&top) && (!is_params(&top) || is_bare(&top)),
            Some(_) => is_role_folder(&top) && top != "weights" && top != "weights_validation",
        }
    };
    let is_named = |name: &Path| named.iter().any(|n| name.starts_with(n));
    let names = candidate.files.iter().map(|f| f.name.as_path());
    names.filter(|name| is_role(name) || is_named(name)).map(Path::to_owned).collect()
}

/// `params.toml` or `params.ini` without a network's stem.
fn is_bare(params: &OsStr) -> bool {
    ["params.toml", "params.ini"].iter().any(|bare| params.eq_ignore_ascii_case(bare))
}

fn first(found: Diagnostics) -> Diagnostic {
    let none = || Diagnostic::new(Code::Internal, "a failure without a reason");
    found.0.into_iter().next().unwrap_or_else(none)
}
