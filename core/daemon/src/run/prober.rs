//! Answers intake's questions about a candidate by asking the front-ends in a confined child.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_intake::names::{is_params, is_role_file, is_role_folder};
use onnxd_intake::{Candidate, ProbeOutcome, Prober};
use onnxd_proto::onnxd::InputFile;
use serde_json::Value;

use crate::conversion::probe::ask;
use crate::conversion::{Launcher, Plugins, Submission};

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

/// Asks front-ends.
#[derive(Debug)]
pub(crate) struct FrontendProber {
    pub(crate) tools: SharedTools,
}

impl Prober for FrontendProber {
    fn is_network(&self, name: &OsStr) -> bool {
        let plugins = self.tools.get().plugins;
        name.to_str().is_some_and(|name| plugins.may_be_network(name))
    }

    fn probe(&mut self, candidate: &Candidate) -> ProbeOutcome {
        let tools = self.tools.get();
        let submission = submission(candidate);
        let params = match submission.params(None, &[]) {
            Ok(params) => params,
            Err(found) => return ProbeOutcome::Failed(first(found)),
        };
        let choice = match ask(&tools.launcher, &tools.plugins, &submission, &params) {
            Ok(choice) => choice,
            Err(found) => match first(found) {
                why if why.code == Code::NoFrontend.as_str() => {
                    return ProbeOutcome::NotMine(why.message);
                }
                why => return ProbeOutcome::Failed(why),
            },
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
        ProbeOutcome::Complete { used }
    }
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
