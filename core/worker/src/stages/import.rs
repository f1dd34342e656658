//! From the dropped files to a graph, by the front-end with the strongest claim.

use super::needs::with_needs;
use super::outputs::complete_outputs;
use super::session::{Session, findings};
use super::summary;
use crate::confine::parent::PROBE;
use onnxd_config::descriptor::names;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::{Level, Model, by_gravity, examine};
use onnxd_plugin_host::{call, from_message};
use onnxd_proto::onnxd as message;
use onnxd_proto::onnxd::{ClaimLevel, PluginComponent, PluginInfo, Probe};
use std::path::Path;

pub(crate) fn import(session: &mut Session) -> Result<(), Diagnostics> {
    digest_sources(session)?;
    let chosen = choose(session)?;
    let missing: Vec<&message::Need> = chosen.probe.needs.iter().filter(|n| !n.found).collect();
    if !missing.is_empty() {
        let missing = missing.iter().map(|n| {
            let text = format!("{} `{}` is missing", n.what, shown(&n.path));
            Diagnostic::new(Code::FileMissing, text)
        });
        return Err(Diagnostics(missing.collect()));
    }
    let network = session.request.network.clone();
    let (plugin, frontend) = (chosen.plugin.id.clone(), chosen.component.id.clone());
    session.entered("import", &plugin, &frontend);
    let mut context = session.context(&session.submission(&network));
    let imported =
        call::import(session.loaded(&plugin), &frontend, &mut context).map_err(findings)?;
    session.replace_graph(imported.model);
    session.keep(&mut context, imported.log.params_read.as_ref());
    for note in &imported.log.notes {
        session.note(&from_message(note), "warning");
    }
    let metadata = imported.log.metadata.iter().map(|(k, v)| format!("{k} = {v}"));
    session.report.metadata.extend(metadata);
    let mut model = session.model()?.clone();
    session.op_counts[0] = summary::count_ops(&model);
    if complete_outputs(&mut model) {
        let text = "types or shapes of outputs are not declared; they are inferred where possible";
        session.note(&Diagnostic::new(Code::LayerParameterIgnored, text).help(""), "warning");
    }
    verified(&mut model, session.frontend().is_some_and(|frontend| frontend.is_source))?;
    session.typed = Some(model);
    Ok(())
}

/// What keeps the graph from being run anywhere. A front-end is at fault itself if its graph is invalid, unless that is
/// the source's own.
fn verified(model: &mut Model, is_source: bool) -> Result<(), Diagnostics> {
    let mut found = examine(model, Level::Full);
    if is_source {
        // It took the computed shapes, and said so.
        found = by_gravity(found).0;
    } else {
        for diagnostic in &mut found.0 {
            diagnostic.code = Code::PluginContract.as_str().into();
            diagnostic.class = Code::PluginContract.class();
            diagnostic.help = Code::PluginContract.help().into();
        }
    }
    found.or_ok(())
}

struct Chosen {
    plugin: PluginInfo,
    component: PluginComponent,
    probe: Probe,
}

/// Asks every front-end that may claim the network's name.
fn choose(session: &mut Session) -> Result<Chosen, Diagnostics> {
    let network = session.request.network.clone();
    let wanted = session.param("job", "frontend").as_str().map(str::to_owned);
    let mut claims: Vec<Chosen> = Vec::new();
    let mut declined: Vec<message::Declined> = Vec::new();
    let mut failed = Diagnostics::default();
    for (plugin, component) in frontends(&session.request.plugins) {
        let decline = |reason: String| message::Declined { frontend: component.id.clone(), reason };
        if wanted.as_ref().is_some_and(|w| !names(w, &plugin.id, &component.id)) {
            declined.push(decline("the params name another front-end".into()));
            continue;
        }
        if wanted.is_none() && !component.globs.iter().any(|g| claims_name(g, &network)) {
            declined.push(decline(format!("it reads {}", component.globs.join(", "))));
            continue;
        }
        // A front-end that fails on a file must not keep another one from it.
        let probe = match probe(session, &plugin, &component, &network) {
            Ok(probe) => probe,
            Err(found) => {
                declined
                    .push(decline(found.0.first().map_or_else(String::new, |d| d.message.clone())));
                failed.0.extend(found.0);
                continue;
            }
        };
        match probe.level() {
            ClaimLevel::ClaimNo => declined.push(decline(probe.reason)),
            _ => claims.push(Chosen { plugin, component, probe }),
        }
    }
    claims.sort_by_key(|c| std::cmp::Reverse(c.probe.level));
    if let [a, b, ..] = claims.as_slice()
        && a.probe.level == b.probe.level
    {
        let [a, b] = [a, b].map(|c| format!("`{}/{}`", c.plugin.id, c.component.id));
        let text = format!("{a} and {b} both claim `{network}`");
        return Err(Diagnostic::new(Code::FrontendTie, text).into());
    }
    let weaker = claims.iter().skip(1).map(|c| message::Declined {
        frontend: c.component.id.clone(),
        reason: "another front-end has the stronger claim".into(),
    });
    declined.extend(weaker);
    let Some(chosen) = claims.into_iter().next() else {
        failed.or_ok(())?;
        let reasons: Vec<String> =
            declined.iter().map(|d| format!("{}: {}", d.frontend, d.reason)).collect();
        let text = format!("no front-end takes `{}` ({})", shown(&network), reasons.join("; "));
        return Err(Diagnostic::new(Code::NoFrontend, text).into());
    };
    session.report.recognition = Some(message::Recognition {
        frontend: chosen.component.id.clone(),
        plugin: chosen.plugin.id.clone(),
        reason: chosen.probe.reason.clone(),
        declined,
    });
    Ok(chosen)
}

fn probe(
    session: &mut Session,
    plugin: &PluginInfo,
    component: &PluginComponent,
    network: &str,
) -> Result<Probe, Diagnostics> {
    session.entered(PROBE, &plugin.id, &component.id);
    session.library(plugin)?;
    let mut context = session.context(&session.submission(network));
    let probe =
        call::probe(session.loaded(&plugin.id), &component.id, &mut context).map_err(findings)?;
    let request = &session.request;
    Ok(with_needs(probe, &request.plugins, session.params.peek(""), &request.files))
}

/// All front-ends of the request.
pub(crate) fn frontends(plugins: &[PluginInfo]) -> Vec<(PluginInfo, PluginComponent)> {
    let of = |p: &PluginInfo| {
        let components = p.components.iter().filter(|c| c.kind == "frontend");
        components.map(|c| (p.clone(), c.clone())).collect::<Vec<_>>()
    };
    plugins.iter().flat_map(of).collect()
}

/// Whether a glob of the form `*.ext` or a plain name fits a file's name, letter case aside.
pub(crate) fn claims_name(glob: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    match glob.to_lowercase().strip_prefix('*') {
        Some(ending) => name.ends_with(ending),
        None => name == glob.to_lowercase(),
    }
}

/// Sizes and digests of the dropped files, unless the parent knows them already.
fn digest_sources(session: &mut Session) -> Result<(), Diagnostics> {
    for file in session.request.files.clone() {
        let path = Path::new(&file.path);
        let unreadable = |e: std::io::Error| {
            Diagnostic::new(Code::Unreadable, format!("`{}`: {e}", shown(&file.name)))
        };
        let (bytes, sha256) = match file.sha256.is_empty() {
            true => summary::digest(path).map_err(unreadable)?,
            false => (path.metadata().map_err(unreadable)?.len(), file.sha256.clone()),
        };
        let role = role(&file.name, &session.request.network).into();
        session.report.source.push(message::FileDigest { path: file.name, bytes, sha256, role });
    }
    Ok(())
}

/// What a file of the submission is for, by its name.
fn role(name: &str, network: &str) -> &'static str {
    let base = name.rsplit('/').next().unwrap_or(name);
    let top = name.split('/').next().unwrap_or(name);
    match () {
        () if name == network => "network",
        () if base.ends_with("params.toml") || base.ends_with("params.ini") => "params",
        () if base == "calib.npz" || base == "calibration.json" || top == "calib" => "calibration",
        () if base == "inputs.npz" || base == "outputs.npz" => "reference",
        () if top.starts_with("weights") => "weights",
        () => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_look_at_the_file_name() {
        assert!(claims_name("*.onnx", "models/Net.ONNX"));
        assert!(!claims_name("*.onnx", "net.onnx.data"));
        assert!(claims_name("saved_model.pb", "x/saved_model.pb"));
    }

    #[test]
    fn roles() {
        assert_eq!(role("net.ini", "net.ini"), "network");
        assert_eq!(role("net.params.toml", "net.ini"), "params");
        assert_eq!(role("weights/conv1_weights.syntxt", "net.ini"), "weights");
        assert_eq!(role("calib/1.png", "net.ini"), "calibration");
    }
}
