//! Answers intake's questions about a candidate by asking the front-ends in a confined child.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use onnxd_intake::names::{is_params, is_role_file, is_role_folder};
use onnxd_intake::{Candidate, Control, Fingerprint, ProbeOutcome, Prober};
use onnxd_plugin_host::hexadecimal;
use onnxd_proto::onnxd::{InputFile, Recognized};
use prost::Message;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::set_aside::SetAside;
use crate::conversion::probe::probe;
use crate::conversion::submission::presets;
use crate::conversion::{Launcher, Plugins, Submission};

/// Networks that front-ends look at, at the same time.
const QUESTIONS_MAX: usize = 4;
/// Answers that wait to be fetched; of drops that went away meanwhile none is.
const ANSWERS_MAX: usize = 4_096;
/// How long an answer is waited for before intake looks at other drops.
const PROMPT: Duration = Duration::from_millis(250);
/// Most missing files that are named to a person.
const MISSING_MAX: usize = 20;

/// What conversions are made with; a reload replaces it as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) launcher: Launcher,
    pub(crate) plugins: Arc<Plugins>,
}

/// The tools in use, for several threads.
#[derive(Clone, Debug)]
pub(crate) struct SharedTools(Arc<Mutex<Tools>>);

impl SharedTools {
    pub(crate) fn new(tools: Tools) -> SharedTools {
        SharedTools(Arc::new(Mutex::new(tools)))
    }

    pub(crate) fn get(&self) -> Tools {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, tools: Tools) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }
}

/// Asks front-ends, each question in a thread of its own.
#[derive(Debug)]
pub(crate) struct FrontendProber {
    pub(crate) tools: SharedTools,
    pub(crate) inbox: PathBuf,
    /// To ask for a look once an answer is there.
    pub(crate) intake: Sender<Control>,
    pub(crate) set_aside: SetAside,
    questions: Questions,
}

/// Questions on their way and answers that were not fetched yet, by network.
type Questions = Arc<Mutex<HashMap<PathBuf, Question>>>;

#[derive(Debug)]
struct Question {
    /// Those that were asked.
    plugins: Arc<Plugins>,
    /// Of the files that were asked about: others are another question.
    narrow: Fingerprint,
    wide: Fingerprint,
    answer: Option<ProbeOutcome>,
}

impl FrontendProber {
    pub(crate) fn new(
        tools: SharedTools,
        inbox: PathBuf,
        intake: Sender<Control>,
        set_aside: SetAside,
    ) -> Self {
        FrontendProber { tools, inbox, intake, set_aside, questions: Questions::default() }
    }

    /// The answer to this question, if it was asked and has come.
    fn fetch(&self, network: &Path, candidate: &Candidate) -> Fetched {
        let mut all = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        match all.remove(network) {
            Some(Question { plugins, narrow, wide, answer: Some(answer) })
                if Arc::ptr_eq(&plugins, &self.tools.get().plugins)
                    && narrow == candidate.narrow
                    && (wide == candidate.wide
                        || !matches!(answer, ProbeOutcome::Waiting { .. })) =>
            {
                Fetched::Answer(answer)
            }
            // An answer about files, or of plugins, that have changed since is of no use.
            Some(Question { answer: Some(_), .. }) | None => {
                let pending = all.values().filter(|q| q.answer.is_none()).count();
                if pending < QUESTIONS_MAX { Fetched::Unasked } else { Fetched::Pending }
            }
            Some(pending) => {
                all.insert(network.to_owned(), pending);
                Fetched::Pending
            }
        }
    }

    fn ask(&self, candidate: &Candidate, network: &Path) {
        let (narrow, wide) = (candidate.narrow, candidate.wide);
        let (tools, set_aside) = (self.tools.get(), self.set_aside.clone());
        let (inbox, plugins) = (self.inbox.clone(), Arc::clone(&tools.plugins));
        let (questions, intake) = (Arc::clone(&self.questions), self.intake.clone());
        let lock = |questions: &Questions, answer: Option<ProbeOutcome>| {
            let mut all = questions.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() > ANSWERS_MAX {
                all.retain(|_, question| question.answer.is_none());
            }
            let plugins = Arc::clone(&plugins);
            all.insert(network.to_owned(), Question { plugins, narrow, wide, answer });
        };
        lock(&questions, None);
        let (done, prompt) = bounded(1);
        let (candidate, asked) = (candidate.clone(), network.to_owned());
        let work = move || {
            let answer =
                catch_unwind(AssertUnwindSafe(|| answer(&tools, &inbox, &set_aside, &candidate)));
            let answer = answer.unwrap_or_else(|_| {
                let text = "the thread that asks the front-ends panicked";
                ProbeOutcome::Failed(Diagnostic::new(Code::Internal, text))
            });
            let mut all = questions.lock().unwrap_or_else(PoisonError::into_inner);
            let plugins = tools.plugins;
            all.insert(asked, Question { plugins, narrow, wide, answer: Some(answer) });
            drop(all);
            // Either a look still waits for it, or the next look finds it.
            if done.send(()).is_err() {
                let _ = intake.send(Control::Rescan);
            }
        };
        match std::thread::Builder::new().name("probe".into()).spawn(work) {
            // Most answers come at once, and save a look.
            Ok(_) => drop(prompt.recv_timeout(PROMPT)),
            Err(e) => {
                let text = format!("A thread could not start: {e}");
                let why = Diagnostic::new(Code::WorkerStart, text);
                lock(&self.questions, Some(ProbeOutcome::Failed(why)));
            }
        }
    }
}

enum Fetched {
    Answer(ProbeOutcome),
    Pending,
    Unasked,
}

impl Prober for FrontendProber {
    fn is_network(&self, name: &OsStr) -> bool {
        let plugins = self.tools.get().plugins;
        name.to_str().is_some_and(|name| plugins.may_be_network(name))
    }

    fn probe(&mut self, candidate: &Candidate) -> Option<ProbeOutcome> {
        let network = candidate.root.join(&candidate.network);
        let mut fetched = self.fetch(&network, candidate);
        if matches!(fetched, Fetched::Unasked) {
            self.ask(candidate, &network);
            fetched = self.fetch(&network, candidate);
        }
        match fetched {
            Fetched::Answer(answer) => Some(answer),
            Fetched::Pending | Fetched::Unasked => None,
        }
    }
}

fn answer(
    tools: &Tools,
    inbox: &Path,
    set_aside: &SetAside,
    candidate: &Candidate,
) -> ProbeOutcome {
    let submission = submission(candidate);
    let presets = presets(inbox, &candidate.folder).map_err(Diagnostics::from);
    let params = presets.and_then(|presets| submission.params(&tools.plugins, &presets, None, &[]));
    let params = match params {
        Ok(params) => params,
        Err(found) => return ProbeOutcome::Failed(first(found)),
    };
    let plugins = set_aside.without(&tools.plugins);
    let question = submission.question(&plugins.used, params.json());
    let answers = match probe(&tools.launcher, &question) {
        Ok(answers) => answers,
        Err(found) => return ProbeOutcome::Failed(first(found)),
    };
    answers.iter().for_each(|answer| set_aside.note(answer));
    let choice = match question.choose(&answers).map_err(first) {
        Ok(choice) => choice,
        Err(why) if why.code == Code::NoFrontend.as_str() => {
            // One that is not asked any more might have taken it.
            return match set_aside.concerns(&tools.plugins, &submission.network) {
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
    let mut used: Vec<PathBuf> =
        choice.needs.iter().flat_map(|n| &n.found_as).map(PathBuf::from).collect();
    used.extend(submission.params_files().iter().map(|f| PathBuf::from(&f.name)));
    used.extend(roles(candidate, params.json()));
    used.sort();
    used.dedup();
    let asked = asked(&tools.plugins, &params.json().to_string());
    let died = answers.into_iter().filter(|answer| answer.died);
    let notes = died.flat_map(|answer| answer.failed).map(|d| d.with(Severity::Warning)).collect();
    let recognized = Recognized { recognition: Some(choice.recognition), notes, asked };
    ProbeOutcome::Complete { used, answer: recognized.encode_to_vec().into() }
}

/// What an answer depends on, the files aside: with others the front-ends are asked again.
pub(crate) fn asked(plugins: &Plugins, params_json: &str) -> String {
    hexadecimal(&Sha256::digest(format!("{} {params_json}", plugins.digest())))
}

/// The candidate as a conversion sees it. A name that is not text cannot be told to a front-end;
/// the job that takes such a file says so.
fn submission(candidate: &Candidate) -> Submission {
    let file = |name: &Path| {
        let path = candidate.root.join(name).to_str()?.to_owned();
        Some(InputFile { path, name: name.to_str()?.to_owned(), sha256: String::new() })
    };
    Submission {
        name: candidate.name.to_string_lossy().into_owned(),
        network: candidate.network.to_string_lossy().into_owned(),
        files: candidate.files.iter().filter_map(|f| file(&f.name)).collect(),
    }
}

/// Files that belong to the network although no front-end asks for them: calibration data and
/// references, by their names or named in the params.
fn roles(candidate: &Candidate, params: &Value) -> Vec<PathBuf> {
    let sections = [("calibration", "data"), ("check", "inputs"), ("check", "outputs")];
    let named = sections.iter().filter_map(|(section, key)| params[section][key].as_str());
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
