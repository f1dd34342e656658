//! Which front-end takes a network and what is missing, asked in a confined child.

use super::{Launcher, Plugins, Submission};
use onnxd_config::Params;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{self as message, PluginInfo, ProbeAnswer, ProbeRequest};
use onnxd_worker::confine::parent::PROBE;
use onnxd_worker::recognition::{Choice, Question};
use std::time::Duration;

/// For all front-ends to look at one network; each alone has `confine::parent::PROBE_LIMIT`.
const PROBES_LIMIT: Duration = Duration::from_secs(60);

/// A front-end that gave no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Died {
    /// Plugin id.
    pub(crate) plugin: String,
    /// Component id.
    pub(crate) frontend: String,
    pub(crate) why: Diagnostic,
}

/// Asks every front-end that may claim the network's name. One that hangs or crashes keeps no other
/// one from it: they are asked again without it.
///
/// # Errors
/// What stopped the child where no front-end was in charge.
pub(crate) fn probe(
    launcher: &Launcher,
    question: &Question,
) -> Result<Vec<ProbeAnswer>, Diagnostics> {
    let mut request = ProbeRequest {
        plugins: question.plugins.to_vec(),
        files: question.files.to_vec(),
        network: question.network.to_owned(),
        params_json: question.params.to_string(),
    };
    let mut died: Vec<Died> = Vec::new();
    loop {
        let outcome = launcher.follow(What::Probe(request.clone()), PROBES_LIMIT)?;
        let why = match outcome.answer() {
            Ok(Event::Probed(result)) => {
                let without_answer = died.iter().map(|d| ProbeAnswer {
                    frontend: d.frontend.clone(),
                    plugin: d.plugin.clone(),
                    probe: None,
                    failed: vec![message::Diagnostic::from(&d.why)],
                    died: true,
                });
                return Ok(result.answers.into_iter().chain(without_answer).collect());
            }
            Ok(_) => {
                let text = "the worker answered another question than was asked";
                return Err(Diagnostic::new(Code::WorkerNoResult, text).into());
            }
            Err(why) => why,
        };
        let stage = outcome.stage.filter(|s| s.stage == PROBE && !outcome.stopped);
        let Some((stage, first)) = stage.zip(why.0.first().cloned()) else { return Err(why) };
        if !leave_out(&mut request.plugins, &stage.plugin, &stage.component) {
            return Err(why);
        }
        died.push(Died { plugin: stage.plugin, frontend: stage.component, why: first });
    }
}

/// Asks the front-ends about a submission's network: the one that takes it, and what it refers to.
///
/// # Errors
/// As [`probe`] and [`Question::choose`].
pub(crate) fn ask(
    launcher: &Launcher,
    plugins: &Plugins,
    submission: &Submission,
    params: &Params,
) -> Result<Choice, Diagnostics> {
    let question = submission.question(&plugins.used, params.json());
    question.choose(&probe(launcher, &question)?)
}

/// Takes a front-end away; its plugin's other components stay. False if it is not there.
pub(crate) fn leave_out(plugins: &mut [PluginInfo], plugin: &str, frontend: &str) -> bool {
    let Some(plugin) = plugins.iter_mut().find(|p| p.id == plugin) else { return false };
    let before = plugin.components.len();
    plugin.components.retain(|c| c.kind != "frontend" || c.id != frontend);
    plugin.components.len() < before
}
