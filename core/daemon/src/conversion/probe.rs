//! Which front-end takes a network and what is missing, asked in a confined child.

use super::{Launcher, Plugins, Submission};
use onnxd_config::Params;
use onnxd_config::descriptor::names;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{ClaimLevel, InputFile, Need, PluginInfo, ProbeAnswer, ProbeRequest};
use onnxd_worker::confine::parent::PROBE;
use std::time::Duration;

/// For all front-ends to look at one network; each alone has `confine::parent::PROBE_LIMIT`.
const PROBES_LIMIT: Duration = Duration::from_secs(60);

/// What the front-ends said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Asked {
    pub(crate) answers: Vec<ProbeAnswer>,
    /// Those whose process hung or crashed over the question; their answers hold the reason, too.
    pub(crate) died: Vec<Died>,
}

/// A front-end that gave no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Died {
    /// Plugin id.
    pub(crate) plugin: String,
    /// Component id.
    pub(crate) frontend: String,
    pub(crate) why: Diagnostic,
}

/// The front-end that takes a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// Component id.
    pub(crate) frontend: String,
    /// Plugin id.
    pub(crate) plugin: String,
    /// Why it takes it.
    pub(crate) reason: String,
    /// What it refers to, found or not.
    pub(crate) needs: Vec<Need>,
}

impl Choice {
    /// What is not there yet, one diagnostic each.
    pub(crate) fn missing(&self) -> Vec<Diagnostic> {
        let missing = self.needs.iter().filter(|need| !need.found);
        let say = |need: &Need| format!("{} `{}` is missing", need.what, shown(&need.path));
        missing.map(|need| Diagnostic::new(Code::FileMissing, say(need))).collect()
    }
}

/// Asks every front-end that may claim the network's name. One that hangs or crashes keeps no other
/// one from it: they are asked again without it.
///
/// # Errors
/// What stopped the child where no front-end was in charge.
pub(crate) fn probe(
    launcher: &Launcher,
    plugins: &Plugins,
    files: &[InputFile],
    network: &str,
    params_json: &str,
) -> Result<Asked, Diagnostics> {
    let mut request = ProbeRequest {
        plugins: plugins.used.clone(),
        files: files.to_vec(),
        network: network.to_owned(),
        params_json: params_json.to_owned(),
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
                    error: d.why.to_string(),
                });
                let answers = result.answers.into_iter().chain(without_answer).collect();
                return Ok(Asked { answers, died });
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
/// As [`probe`] and [`choose`].
pub(crate) fn ask(
    launcher: &Launcher,
    plugins: &Plugins,
    submission: &Submission,
    params: &Params,
) -> Result<Choice, Diagnostics> {
    let (files, network) = (&submission.files, &submission.network);
    let asked = probe(launcher, plugins, files, network, &params.json().to_string())?;
    Ok(choose(&asked, network, params.get_str("job.frontend"))?)
}

/// Takes a front-end away; its plugin's other components stay. False if it is not there.
pub(crate) fn leave_out(plugins: &mut [PluginInfo], plugin: &str, frontend: &str) -> bool {
    let Some(plugin) = plugins.iter_mut().find(|p| p.id == plugin) else { return false };
    let before = plugin.components.len();
    plugin.components.retain(|c| c.kind != "frontend" || c.id != frontend);
    plugin.components.len() < before
}

/// The strongest claim, or the front-end that the params name.
///
/// # Errors
/// `N0102` for a tie, `N0101` with everybody's reason if nobody takes it. Where one that might hung
/// or crashed, that is the reason; `N0404` if all that might have failed.
pub(crate) fn choose(
    result: &Asked,
    network: &str,
    wanted: Option<&str>,
) -> Result<Choice, Diagnostic> {
    let asked = || {
        let named = |a: &&ProbeAnswer| wanted.is_none_or(|w| names(w, &a.plugin, &a.frontend));
        result.answers.iter().filter(named)
    };
    let mut claims: Vec<&ProbeAnswer> =
        asked().filter(|a| level(a) != ClaimLevel::ClaimNo).collect();
    claims.sort_by_key(|a| std::cmp::Reverse(level(a)));
    match claims.as_slice() {
        [first, second, ..] if level(first) == level(second) => {
            let text = format!(
                "`{}/{}` and `{}/{}` both claim `{}`",
                first.plugin,
                first.frontend,
                second.plugin,
                second.frontend,
                shown(network)
            );
            Err(Diagnostic::new(Code::FrontendTie, text))
        }
        [first, ..] => {
            let probe = first.probe.clone().unwrap_or_default();
            Ok(Choice {
                frontend: first.frontend.clone(),
                plugin: first.plugin.clone(),
                reason: probe.reason,
                needs: probe.needs,
            })
        }
        [] => {
            let died = result
                .died
                .iter()
                .find(|d| wanted.is_none_or(|w| names(w, &d.plugin, &d.frontend)));
            Err(died.map_or_else(|| nobody(asked(), network, wanted), |d| d.why.clone()))
        }
    }
}

fn nobody<'a>(
    asked: impl Iterator<Item = &'a ProbeAnswer>,
    network: &str,
    wanted: Option<&str>,
) -> Diagnostic {
    let asked: Vec<&ProbeAnswer> = asked.collect();
    let reasons: Vec<String> =
        asked.iter().map(|a| format!("{}: {}", a.frontend, why(a))).collect();
    let name = shown(network);
    match (reasons.is_empty(), wanted) {
        (true, Some(wanted)) => {
            let text = format!("no front-end `{}` reads `{name}`", shown(wanted));
            Diagnostic::new(Code::ComponentUnknown, text)
        }
        (true, None) => {
            let text = format!("no front-end reads files named like `{name}`");
            Diagnostic::new(Code::NoFrontend, text)
        }
        (false, _) => {
            let text = format!("no front-end takes `{name}` ({})", reasons.join("; "));
            // A failure is the plugin's, whatever the file is.
            let failed = asked.iter().all(|a| !a.error.is_empty());
            Diagnostic::new(if failed { Code::PluginFailed } else { Code::NoFrontend }, text)
        }
    }
}

/// What a front-end says, in one line.
pub(crate) fn why(answer: &ProbeAnswer) -> String {
    let reason = answer.probe.as_ref().map(|p| p.reason.clone()).unwrap_or_default();
    if answer.error.is_empty() { reason } else { answer.error.replace('\n', " ") }
}

/// How sure a front-end is; one that failed does not claim.
pub(crate) fn level(answer: &ProbeAnswer) -> ClaimLevel {
    match &answer.probe {
        Some(probe) if answer.error.is_empty() => probe.level(),
        _ => ClaimLevel::ClaimNo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::Probe;

    fn answer(frontend: &str, level: ClaimLevel) -> ProbeAnswer {
        let need = |path: &str, found| Need {
            what: "weights".into(),
            path: path.into(),
            found,
            found_as: Vec::new(),
        };
        let needs = vec![need("a", true), need("b", false), need("c", false)];
        let probe = Probe {
            level: level.into(),
            reason: format!("{frontend} says so"),
            needs,
            ..Probe::default()
        };
        ProbeAnswer {
            frontend: frontend.into(),
            plugin: format!("p.{frontend}"),
            probe: Some(probe),
            error: String::new(),
        }
    }

    fn result(answers: &[(&str, ClaimLevel)]) -> Asked {
        let answers = answers.iter().map(|(f, l)| answer(f, *l)).collect();
        Asked { answers, died: Vec::new() }
    }

    #[test]
    fn a_front_end_that_hangs_costs_no_other_one_its_claim() {
        let why = Diagnostic::new(Code::PluginHung, "plugin p.b hung");
        let died = Died { plugin: "p.b".into(), frontend: "b".into(), why };
        let with = |mut asked: Asked| {
            asked.died.push(died.clone());
            asked
        };
        let choice = choose(&with(result(&[("a", Content)])), "net", None).unwrap();
        assert_eq!(choice.frontend, "a");
        // Nobody knows whose the file is: that is no word about the file.
        let unknown = with(result(&[("a", No)]));
        assert_eq!(choose(&unknown, "net", None).unwrap_err().code, "N0405");
        assert_eq!(choose(&unknown, "net", Some("a")).unwrap_err().code, "N0101");
    }

    use ClaimLevel::{ClaimByContent as Content, ClaimByExtension as Extension, ClaimNo as No};

    #[test]
    fn the_strongest_claim_wins() {
        let all = result(&[("a", Extension), ("b", Content), ("c", No)]);
        let choice = choose(&all, "net", None).unwrap();
        assert_eq!((choice.frontend.as_str(), choice.plugin.as_str()), ("b", "p.b"));
        let texts: Vec<String> = choice.missing().iter().map(|d| d.message.clone()).collect();
        assert_eq!(texts, ["weights `b` is missing", "weights `c` is missing"]);
        assert_eq!(choose(&all, "net", Some("a")).unwrap().frontend, "a");
    }

    #[test]
    fn front_ends_of_one_id_are_told_apart_by_their_plugins() {
        let mut all = result(&[("a", Content), ("a", Content)]);
        all.answers[1].plugin = "q.a".into();
        let why = choose(&all, "net", Some("a")).unwrap_err().message;
        assert!(why.contains("`p.a/a` and `q.a/a` both claim"), "{why}");
        for plugin in ["p.a", "q.a"] {
            let wanted = format!("{plugin}/a");
            assert_eq!(choose(&all, "net", Some(&wanted)).unwrap().plugin, plugin);
        }
        assert!(choose(&all, "net", Some("r.a/a")).is_err());
    }

    #[test]
    fn ties_and_refusals() {
        let tie = choose(&result(&[("a", Content), ("b", Content)]), "net", None).unwrap_err();
        assert_eq!(tie.code, "N0102");
        assert!(tie.message.contains("`p.a/a` and `p.b/b`"), "{tie}");
        let none = choose(&result(&[("a", No), ("b", No)]), "net", None).unwrap_err();
        assert_eq!(none.code, "N0101");
        assert!(none.message.contains("(a: a says so; b: b says so)"), "{none}");
        assert_eq!(choose(&result(&[]), "net", None).unwrap_err().code, "N0101");
        assert_eq!(choose(&result(&[]), "net", Some("x")).unwrap_err().code, "N0109");
        let mut failed = result(&[("a", Content)]);
        failed.answers[0].error = "it broke".into();
        assert_eq!(choose(&failed, "net", None).unwrap_err().code, "N0404");
    }
}
