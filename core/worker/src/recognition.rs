//! Which front-end takes a network: whom to ask, and what follows from the answers.

use crate::described::Described;
use crate::needs::with_needs;
use onnxd_config::descriptor::names;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_host::{Submission, from_message};
use onnxd_proto::onnxd::{
    self as message, ClaimLevel, Declined, FileRole, Need, PluginComponent, PluginInfo, Probe,
    ProbeAnswer, Recognition,
};
use wildmatch::WildMatch;

/// The front-end that takes a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChosenFrontend {
    /// Who takes it and why, and why others do not.
    pub recognition: Recognition,
    /// What it refers to, found or not.
    pub needs: Vec<Need>,
}

impl ChosenFrontend {
    /// What is not there yet, one diagnostic each.
    pub fn missing(&self) -> Vec<Diagnostic> {
        let missing = self.needs.iter().filter(|need| !need.found);
        let say = |need: &Need| format!("{} `{}` is missing", need.what, shown(&need.path));
        missing.map(|need| Diagnostic::new(Code::FileMissing, say(need))).collect()
    }
}

/// What front-ends are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// All plugins of the conversion.
    pub plugins: &'a [PluginInfo],
    /// The network, with its files and params.
    pub about: Submission<'a>,
}

impl<'a> Question<'a> {
    /// The front-end that the params name.
    fn wanted(&self) -> Option<&'a str> {
        self.about.params.peek("job.frontend").as_str()
    }

    /// Asks the front-end that the params name, else every one that may claim the network's name. One that fails on a
    /// file must not keep another one from it.
    pub(crate) fn ask<E: Into<Diagnostics>>(
        &self,
        described: &Described,
        mut probe: impl FnMut(&PluginInfo, &PluginComponent) -> Result<Probe, E>,
    ) -> Vec<ProbeAnswer> {
        let mut answer = |(plugin, component): (&PluginInfo, &PluginComponent)| {
            let (probe, failed) = match probe(plugin, component) {
                Ok(probe) => {
                    (Some(with_needs(probe, (self.plugins, described), self.about)), Vec::new())
                }
                Err(found) => {
                    (None, found.into().0.iter().map(message::Diagnostic::from).collect())
                }
            };
            let (frontend, plugin) = (component.id.clone(), plugin.id.clone());
            ProbeAnswer { frontend, plugin, probe, failed, died: false }
        };
        frontends(self.plugins)
            .filter(|of| self.why_unasked(*of).is_none())
            .map(&mut answer)
            .collect()
    }

    fn why_unasked(&self, (plugin, component): (&PluginInfo, &PluginComponent)) -> Option<String> {
        match self.wanted() {
            Some(wanted) => (!names(wanted, &plugin.id, &component.id))
                .then(|| "the params name another front-end".to_owned()),
            None => (!component.globs.iter().any(|glob| claims_name(glob, self.about.network)))
                .then(|| format!("it reads {}", component.globs.join(", "))),
        }
    }

    /// The strongest claim, or the front-end that the params name.
    ///
    /// # Errors
    /// `N0102` for a tie. If no front-end takes it: why the one failed that hung or crashed, else why all failed, else
    /// `N0101` with all reasons.
    pub fn choose(&self, answers: &[ProbeAnswer]) -> Result<ChosenFrontend, Diagnostics> {
        let mut claims: Vec<&ProbeAnswer> =
            answers.iter().filter(|a| level(a) != ClaimLevel::ClaimNo).collect();
        claims.sort_by_key(|a| std::cmp::Reverse(level(a)));
        if let [first, second, ..] = claims.as_slice()
            && level(first) == level(second)
        {
            let [first, second] = [first, second].map(|a| format!("`{}/{}`", a.plugin, a.frontend));
            let text = format!("{first} and {second} both claim `{}`", shown(self.about.network));
            return Err(Diagnostic::new(Code::FrontendTie, text).into());
        }
        let Some(first) = claims.first() else { return Err(self.unclaimed(answers)) };
        let unasked = frontends(self.plugins).filter_map(|of| {
            Some(Declined { frontend: of.1.id.clone(), reason: self.why_unasked(of)? })
        });
        let others = answers.iter().filter(|a| !std::ptr::eq(*a, *first));
        let others = others.map(|a| Declined {
            frontend: a.frontend.clone(),
            reason: match level(a) {
                ClaimLevel::ClaimNo => why(a),
                _ => "another front-end has the stronger claim".into(),
            },
        });
        let probe = first.probe.clone().unwrap_or_default();
        let recognition = Recognition {
            frontend: first.frontend.clone(),
            plugin: first.plugin.clone(),
            reason: probe.reason,
            declined: unasked.chain(others).collect(),
        };
        Ok(ChosenFrontend { recognition, needs: probe.needs })
    }

    fn unclaimed(&self, answers: &[ProbeAnswer]) -> Diagnostics {
        let failures = |answers: &mut dyn Iterator<Item = &ProbeAnswer>| {
            Diagnostics(answers.flat_map(|a| &a.failed).map(from_message).collect())
        };
        if answers.iter().any(|a| a.died) {
            return failures(&mut answers.iter().filter(|a| a.died).take(1));
        }
        // A failure is the plugin's, whatever the file is.
        if !answers.is_empty() && answers.iter().all(|a| !a.failed.is_empty()) {
            return failures(&mut answers.iter());
        }
        let name = shown(self.about.network);
        let reasons: Vec<String> =
            answers.iter().map(|a| format!("{}: {}", a.frontend, why(a))).collect();
        let (code, text) = match (reasons.is_empty(), self.wanted()) {
            (true, Some(wanted)) => {
                let text = format!("no front-end `{}` reads `{name}`", shown(wanted));
                (Code::ComponentUnknown, text)
            }
            (true, None) => {
                (Code::NoFrontend, format!("no front-end reads files named like `{name}`"))
            }
            (false, _) => {
                let text = format!("no front-end takes `{name}` ({})", reasons.join("; "));
                (Code::NoFrontend, text)
            }
        };
        Diagnostic::new(code, text).into()
    }
}

/// What a front-end says, in one line.
pub fn why(answer: &ProbeAnswer) -> String {
    match answer.failed.first() {
        Some(failed) => failed.message.replace('\n', " "),
        None => answer.probe.as_ref().map(|p| p.reason.clone()).unwrap_or_default(),
    }
}

/// How sure a front-end is; one that failed does not claim.
pub fn level(answer: &ProbeAnswer) -> ClaimLevel {
    answer.probe.as_ref().map_or(ClaimLevel::ClaimNo, message::Probe::level)
}

/// All front-ends of the plugins.
fn frontends(plugins: &[PluginInfo]) -> impl Iterator<Item = (&PluginInfo, &PluginComponent)> {
    let all = plugins.iter().flat_map(|p| p.components.iter().map(move |c| (p, c)));
    all.filter(|(_, c)| c.kind == "frontend")
}

/// Whether a front-end's glob fits a file's name, letter case and folders aside.
pub fn claims_name(glob: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    WildMatch::new_case_insensitive(glob).matches(name)
}

/// Takes a front-end away; its plugin's other components stay. False if it is not there.
pub fn leave_out(plugins: &mut [PluginInfo], plugin: &str, frontend: &str) -> bool {
    let Some(plugin) = plugins.iter_mut().find(|p| p.id == plugin) else { return false };
    let before = plugin.components.len();
    plugin.components.retain(|c| c.kind != "frontend" || c.id != frontend);
    plugin.components.len() < before
}

/// Names that front-ends may claim, ready to be compared with thousands of them.
#[derive(Clone, Debug, Default)]
pub struct NetworkNames(Vec<WildMatch>);

impl NetworkNames {
    /// The names that these globs fit.
    pub fn from_globs<'g>(globs: impl IntoIterator<Item = &'g str>) -> NetworkNames {
        let globs: std::collections::BTreeSet<&str> = globs.into_iter().collect();
        NetworkNames(globs.into_iter().map(WildMatch::new_case_insensitive).collect())
    }

    /// Whether one of them fits a file's name, folders before it aside.
    #[must_use]
    pub fn claim(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.0.iter().any(|glob| glob.matches(name))
    }
}

/// What a file of the submission is for, by its name.
pub fn role(name: &str, network: &str) -> FileRole {
    let base = name.rsplit('/').next().unwrap_or(name);
    let top = name.split('/').next().unwrap_or(name);
    match () {
        () if name == network => FileRole::Network,
        () if base.ends_with("params.toml") || base.ends_with("params.ini") => FileRole::Params,
        () if base == "calib.npz" || base == "calibration.json" || top == "calib" => {
            FileRole::Calibration
        }
        () if base == "inputs.npz" || base == "outputs.npz" => FileRole::Reference,
        () if top.starts_with("weights") => FileRole::Weights,
        () => FileRole::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ClaimLevel::{ClaimByContent as Content, ClaimByExtension as Extension, ClaimNo as No};
    use onnxd_params::Resolved;
    use serde_json::json;

    fn answer(frontend: &str, level: ClaimLevel) -> ProbeAnswer {
        let need = |path: &str, found| Need {
            what: "weights".into(),
            path: path.into(),
            found,
            found_as: Vec::new(),
        };
        let needs = vec![need("a", true), need("b", false), need("c", false)];
        let reason = format!("{frontend} says so");
        let probe = Probe { level: level.into(), reason, needs, ..Probe::default() };
        ProbeAnswer {
            frontend: frontend.into(),
            plugin: format!("p.{frontend}"),
            probe: Some(probe),
            ..ProbeAnswer::default()
        }
    }

    fn failed(frontend: &str, code: Code) -> ProbeAnswer {
        let failed = vec![message::Diagnostic::from(&Diagnostic::new(code, "it broke"))];
        let died = code == Code::PluginHung;
        ProbeAnswer { probe: None, failed, died, ..answer(frontend, No) }
    }

    fn plugins(frontends: &[&str]) -> Vec<PluginInfo> {
        let plugin = |id: &&str| PluginInfo {
            id: format!("p.{id}"),
            components: vec![PluginComponent {
                kind: "frontend".into(),
                id: (*id).into(),
                globs: vec!["*.net".into()],
                ..PluginComponent::default()
            }],
            ..PluginInfo::default()
        };
        frontends.iter().map(plugin).collect()
    }

    fn question<'a>(
        plugins: &'a [PluginInfo],
        network: &'a str,
        params: &'a Resolved,
    ) -> Question<'a> {
        Question { plugins, about: Submission { files: &[], network, params, lowered: &[] } }
    }

    fn choose(
        answers: &[ProbeAnswer],
        wanted: Option<&str>,
    ) -> Result<ChosenFrontend, Diagnostics> {
        let params = Resolved::from_json(json!({ "job": { "frontend": wanted } }));
        let plugins = plugins(&["a", "b", "c"]);
        question(&plugins, "x.net", &params).choose(answers)
    }

    fn code(answers: &[ProbeAnswer], wanted: Option<&str>) -> String {
        choose(answers, wanted).unwrap_err().0[0].code.to_string()
    }

    #[test]
    fn a_front_end_that_hangs_costs_no_other_one_its_claim() {
        let choice = choose(&[answer("a", Content), failed("b", Code::PluginHung)], None).unwrap();
        assert_eq!(choice.recognition.frontend, "a");
        assert_eq!(choice.recognition.declined[0].reason, "it broke");
        // Whose the file is stays unknown: that is no word about the file.
        assert_eq!(code(&[answer("a", No), failed("b", Code::PluginHung)], None), "N0405");
        assert_eq!(code(&[answer("a", No)], Some("a")), "N0101");
    }

    #[test]
    fn the_strongest_claim_wins() {
        let all = [answer("a", Extension), answer("b", Content), answer("c", No)];
        let choice = choose(&all, None).unwrap();
        let Recognition { frontend, plugin, declined, .. } = &choice.recognition;
        assert_eq!((frontend.as_str(), plugin.as_str()), ("b", "p.b"));
        let declined: Vec<(&str, &str)> =
            declined.iter().map(|d| (d.frontend.as_str(), d.reason.as_str())).collect();
        let weaker = "another front-end has the stronger claim";
        assert_eq!(declined, [("a", weaker), ("c", "c says so")]);
        let texts: Vec<String> = choice.missing().iter().map(|d| d.message.clone()).collect();
        assert_eq!(texts, ["weights `b` is missing", "weights `c` is missing"]);
    }

    #[test]
    fn those_are_asked_that_the_params_name_or_whose_globs_fit() {
        let all = plugins(&["a", "b"]);
        let asked = |network: &str, wanted: Option<&str>| {
            let params = Resolved::from_json(json!({ "job": { "frontend": wanted } }));
            let answers = question(&all, network, &params)
                .ask(&Described::default(), |_, _| Ok::<_, Diagnostics>(Probe::default()));
            answers.into_iter().map(|a| a.plugin).collect::<Vec<_>>()
        };
        assert_eq!(asked("x.net", None), ["p.a", "p.b"]);
        assert!(asked("x.other", None).is_empty());
        assert_eq!(asked("x.other", Some("b")), ["p.b"]);
        assert_eq!(asked("x.net", Some("p.a/a")), ["p.a"]);
        assert!(asked("x.net", Some("r.a/a")).is_empty());
    }

    #[test]
    fn ties_and_refusals() {
        let tie = choose(&[answer("a", Content), answer("b", Content)], None).unwrap_err();
        assert_eq!(tie.0[0].code, "N0102");
        assert!(tie.0[0].message.contains("`p.a/a` and `p.b/b`"), "{tie}");
        let none = choose(&[answer("a", No), failed("b", Code::PluginFailed)], None).unwrap_err();
        assert_eq!(none.0[0].code, "N0101");
        assert!(none.0[0].message.contains("(a: a says so; b: it broke)"), "{none}");
        assert_eq!(code(&[], None), "N0101");
        assert_eq!(code(&[], Some("x")), "N0109");
        assert_eq!(code(&[failed("a", Code::PluginFailed)], None), "N0404");
    }

    #[test]
    fn globs_look_at_the_file_name() {
        assert!(claims_name("*.onnx", "models/Net.ONNX"));
        assert!(!claims_name("*.onnx", "net.onnx.data"));
        assert!(claims_name("saved_model.pb", "x/saved_model.pb"));
        assert!(!claims_name("saved.pb", "unsaved.pb"));
        assert!(claims_name("net?.*.pb", "net1.x.PB"));
        let names = NetworkNames::from_globs(["*.onnx", "saved.pb", "*.onnx"]);
        assert!(names.claim("models/Net.ONNX") && names.claim("x/saved.pb"));
        assert!(!names.claim("unsaved.pb") && !names.claim("net.onnx.data"));
    }

    #[test]
    fn roles() {
        assert_eq!(role("net.ini", "net.ini"), FileRole::Network);
        assert_eq!(role("net.params.toml", "net.ini"), FileRole::Params);
        assert_eq!(role("weights/conv1_weights.syntxt", "net.ini"), FileRole::Weights);
        assert_eq!(role("calib/1.png", "net.ini"), FileRole::Calibration);
    }
}
