//! Which front-end takes a network and what is missing, asked in a confined child.

use super::{Launcher, Plugins, Submission};
use onnxd_config::Params;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{
    self as message, FrontendName, InputFile, PluginComponent, ProbeAnswer, ProbeCandidate,
    ProbeRequest, StageStarted,
};
use onnxd_worker::confine::parent::PROBE;
use onnxd_worker::recognition::{ChosenFrontend, Question};
use std::collections::{HashMap, VecDeque};
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
    let mut answer = None;
    probe_each(launcher, std::slice::from_ref(question), |_, told| answer = Some(told));
    let none = || Diagnostic::new(Code::Internal, "the front-ends were not asked");
    answer.unwrap_or_else(|| Err(none().into()))
}

/// Asks about several networks in one child, one after the other, and tells each answer as soon as
/// it is there, with the question's place. All questions are to the plugins of the first one.
///
/// A child that dies takes no other network's answer with it. It may have died of what an earlier
/// network left behind, so the one that it died over is asked about again, alone.
pub(crate) fn probe_each(
    launcher: &Launcher,
    questions: &[Question],
    mut tell: impl FnMut(usize, Result<Vec<ProbeAnswer>, Diagnostics>),
) {
    let mut open: VecDeque<Open> = questions.iter().enumerate().map(Open::new).collect();
    while let Some(first) = open.front() {
        let together = match first.alone {
            true => 1,
            false => open.iter().take_while(|o| !o.alone).count(),
        };
        let asked = open.drain(..together).collect();
        let again = ask_together(launcher, asked, &mut tell);
        let (alone, others): (Vec<Open>, Vec<Open>) = again.into_iter().partition(|o| o.alone);
        others.into_iter().rev().for_each(|o| open.push_front(o));
        open.extend(alone);
    }
}

/// A question without an answer.
struct Open<'q> {
    number: usize,
    question: &'q Question<'q>,
    /// Front-ends that died over it.
    died: Vec<Died>,
    /// A child died over it.
    alone: bool,
}

impl<'q> Open<'q> {
    fn new((number, question): (usize, &'q Question<'q>)) -> Open<'q> {
        Open { number, question, died: Vec::new(), alone: false }
    }

    /// Whether the one in charge is a front-end that was asked, whatever the child says.
    fn may_leave_out(&self, stage: &StageStarted) -> bool {
        let left = self.died.iter();
        let mut left = left.map(|d| (d.plugin.as_str(), d.frontend.as_str()));
        let name = (stage.plugin.as_str(), stage.component.as_str());
        let plugin = self.question.plugins.iter().find(|p| p.id == stage.plugin);
        let is_named = |c: &PluginComponent| c.kind == "frontend" && c.id == stage.component;
        plugin.is_some_and(|p| p.components.iter().any(is_named)) && !left.any(|l| l == name)
    }

    fn answers(&self, from_child: Vec<ProbeAnswer>) -> Vec<ProbeAnswer> {
        let without_answer = self.died.iter().map(|d| ProbeAnswer {
            frontend: d.frontend.clone(),
            plugin: d.plugin.clone(),
            probe: None,
            failed: vec![message::Diagnostic::from(&d.why)],
            died: true,
        });
        from_child.into_iter().chain(without_answer).collect()
    }
}

type Told<'t> = &'t mut dyn FnMut(usize, Result<Vec<ProbeAnswer>, Diagnostics>);

/// One child; what has to be asked again.
fn ask_together<'q>(launcher: &Launcher, asked: Vec<Open<'q>>, tell: Told) -> Vec<Open<'q>> {
    let what = What::Probe(request(&asked));
    let company = asked.len() > 1;
    let mut open: Vec<Option<Open>> = asked.into_iter().map(Some).collect();
    let mut in_charge = None;
    let outcome = launcher.follow(what, PROBES_LIMIT, |event| match &event.what {
        Some(Event::Probing(next)) => in_charge = usize::try_from(next.candidate).ok(),
        Some(Event::Answers(said)) => {
            let at = usize::try_from(said.candidate).unwrap_or(usize::MAX);
            if let Some(asked) = open.get_mut(at).and_then(Option::take) {
                tell(asked.number, Ok(asked.answers(said.answers.clone())));
            }
        }
        _ => {}
    });
    let answered = open.iter().any(Option::is_none);
    let culprit = in_charge.and_then(|at| open.get_mut(at)?.take());
    let mut rest: Vec<Open> = open.into_iter().flatten().collect();
    let (why, stage) = match outcome {
        Ok(outcome) => match outcome.answer() {
            Ok(_) => (no_answer().into(), None),
            Err(why) => (why, outcome.stage.filter(|s| s.stage == PROBE && !outcome.stopped)),
        },
        Err(why) => (why.into(), None),
    };
    match (culprit, stage) {
        (Some(culprit), _) if company => rest.push(Open { alone: true, ..culprit }),
        (Some(mut culprit), Some(stage)) => {
            let first = why.0.first().cloned().unwrap_or_else(no_answer);
            if culprit.may_leave_out(&stage) {
                let StageStarted { plugin, component, .. } = stage;
                culprit.died.push(Died { plugin, frontend: component, why: first });
                rest.push(Open { alone: true, ..culprit });
            } else {
                tell(culprit.number, Err(why));
            }
        }
        (None, _) if answered => {}
        // Nothing was found out: another child would end in the same way.
        (culprit, _) => {
            rest.extend(culprit);
            rest.drain(..).for_each(|asked| tell(asked.number, Err(why.clone())));
        }
    }
    rest
}

fn no_answer() -> Diagnostic {
    Diagnostic::new(Code::WorkerNoResult, "the worker ended without an answer")
}

/// One request about all of them; files that several have in common are named once.
fn request(asked: &[Open]) -> ProbeRequest {
    let mut request = ProbeRequest {
        plugins: asked.first().map(|o| o.question.plugins.to_vec()).unwrap_or_default(),
        ..ProbeRequest::default()
    };
    let mut places: HashMap<(&str, &str), u32> = HashMap::new();
    for Open { question, died, .. } in asked {
        let mut place = |file: &InputFile, path, name| {
            *places.entry((path, name)).or_insert_with(|| {
                request.files.push(file.clone());
                u32::try_from(request.files.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let unasked = died
            .iter()
            .map(|d| FrontendName { plugin: d.plugin.clone(), component: d.frontend.clone() });
        request.candidates.push(ProbeCandidate {
            files: question.about.files.iter().map(|f| place(f, &f.path, &f.name)).collect(),
            network: question.about.network.to_owned(),
            params_json: question.about.params.text().to_owned(),
            unasked: unasked.collect(),
        });
    }
    request
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
) -> Result<ChosenFrontend, Diagnostics> {
    let question = submission.question(&plugins.used, params.resolved());
    question.choose(&probe(launcher, &question)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_params::Resolved;
    use onnxd_plugin_host::Submission;
    use onnxd_proto::onnxd::PluginInfo;

    fn file(path: &str, name: &str) -> InputFile {
        InputFile { path: path.into(), name: name.into(), ..InputFile::default() }
    }

    #[test]
    fn files_in_common_are_named_once_and_each_candidate_has_its_own() {
        let params = Resolved::default();
        let [a, b] = ["a", "b"].map(|n| vec![file(&format!("/t/{n}"), n), file("/t/both", "both")]);
        let about = |files, network| Submission { files, network, params: &params, lowered: &[] };
        let ask = |files, network| Question { plugins: &[], about: about(files, network) };
        let questions = [ask(&a, "a"), ask(&b, "b")];
        let mut open: Vec<Open> = questions.iter().enumerate().map(Open::new).collect();
        let (plugin, frontend) = ("p".to_owned(), "f".to_owned());
        let why = Diagnostic::new(Code::PluginCrashed, "it crashed");
        open[1].died.push(Died { plugin, frontend, why });
        let request = request(&open);
        let names: Vec<&str> = request.files.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["a", "both", "b"]);
        assert_eq!(request.candidates[0].files, [0, 1]);
        assert_eq!(request.candidates[1].files, [2, 1]);
        let unasked: Vec<usize> = request.candidates.iter().map(|c| c.unasked.len()).collect();
        assert_eq!(unasked, [0, 1]);
    }

    #[test]
    fn only_a_front_end_that_was_asked_is_left_out() {
        let component = |kind: &str, id: &str| PluginComponent {
            kind: kind.into(),
            id: id.into(),
            ..PluginComponent::default()
        };
        let components = vec![component("frontend", "f"), component("pass", "q")];
        let plugins = [PluginInfo { id: "p".into(), components, ..PluginInfo::default() }];
        let params = Resolved::default();
        let about = Submission { files: &[], network: "n", params: &params, lowered: &[] };
        let question = Question { plugins: &plugins, about };
        let mut open = Open::new((0, &question));
        let stage = |plugin: &str, component: &str| StageStarted {
            stage: PROBE.into(),
            plugin: plugin.into(),
            component: component.into(),
        };
        assert!(open.may_leave_out(&stage("p", "f")));
        for (plugin, component) in [("p", "q"), ("x", "f"), ("p", "made up")] {
            assert!(!open.may_leave_out(&stage(plugin, component)), "{plugin} {component}");
        }
        let why = Diagnostic::new(Code::PluginCrashed, "it crashed");
        open.died.push(Died { plugin: "p".into(), frontend: "f".into(), why });
        assert!(!open.may_leave_out(&stage("p", "f")), "it was not asked any more");
    }
}
