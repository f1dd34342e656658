//! Operators that a front-end leaves to passes of plugins: these run directly after the import, before types are
//! demanded of everything.

use super::session::{Session, findings};
use onnxd_config::descriptor::Component;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Layer, Severity, shown};
use onnxd_ir::{Model, verify};
use onnxd_plugin_host::call::{self, Passed};
use onnxd_plugin_host::from_message;
use onnxd_proto::onnxd::PluginInfo;
use std::collections::{BTreeMap, BTreeSet};

/// Which passes lower which operators: pairs of plugin and pass, by operator.
pub(super) type LoweringPasses = BTreeMap<String, Vec<(String, String)>>;

/// What the installed passes lower, if they run with these params.
pub(super) fn rows(session: &Session) -> LoweringPasses {
    let runs = |pass: &Component| pass.runs.holds_with(&session.params, &[]);
    let mut rows = LoweringPasses::new();
    for (plugin, pass) in session.described.of_kind("pass").filter(|(_, pass)| runs(pass)) {
        for op in &pass.lowers {
            let by = (plugin.to_owned(), pass.id.clone());
            rows.entry(op.clone()).or_default().push(by);
        }
    }
    rows
}

/// Runs the passes whose operators the graph has.
pub(super) fn lower(session: &mut Session, rows: &LoweringPasses) -> Result<(), Diagnostics> {
    let found = operators(session.model()?, rows);
    let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut ties = Diagnostics::default();
    for (op, places) in &found {
        match rows[*op].as_slice() {
            [(plugin, pass)] => {
                wanted.entry(plugin.clone()).or_default().insert(pass.clone());
            }
            several => ties.push(tie(op, several).at(places[0].0.clone())),
        }
    }
    ties.or_ok(())?;
    for (plugin, passes) in wanted {
        let known = session.request.plugins.iter().find(|p| p.id == plugin).cloned();
        let plugin = known.expect("rows are of the request's plugins");
        let passes: Vec<String> = passes.into_iter().collect();
        let passed = run(session, "import", &plugin, &passes, 0)?;
        session.report.passes.extend(passed.log.passes);
        if let Some(model) = passed.model {
            session.replace_graph(model);
        }
    }
    let left = operators(session.model()?, rows);
    let left = left.into_iter().map(|(op, places)| survived(session, op, &rows[op][0], &places));
    Diagnostics(left.collect()).or_ok(())
}

/// Has passes of one plugin work on the graph. What they changed is in the answer alone.
pub(super) fn run(
    session: &mut Session,
    stage: &str,
    plugin: &PluginInfo,
    passes: &[String],
    rewrites_max: u64,
) -> Result<Passed, Diagnostics> {
    session.entered(stage, &plugin.id, &passes.join(","));
    session.library(plugin)?;
    let mut context = session.context(session.submission());
    context.set_graph(session.lend_graph());
    let library = session.loaded(&plugin.id);
    let passed = call::run_passes(library, passes, rewrites_max, &mut context).map_err(findings)?;
    session.keep(&mut context, passed.log.params_read.as_ref());
    for note in &passed.log.notes {
        session.note(&from_message(note), Severity::Warning);
    }
    Ok(passed)
}

/// Where a node is in the source, and the name of its first output.
type SourcePlace = (Layer, String);

/// The operators of `rows` that a model has, and where. What a function of the model defines is not among them.
fn operators<'r>(model: &Model, rows: &'r LoweringPasses) -> BTreeMap<&'r str, Vec<SourcePlace>> {
    let mut found: BTreeMap<&str, Vec<SourcePlace>> = BTreeMap::new();
    model.for_each_graph(|graph| {
        for (_, node) in graph.nodes().filter(|(_, node)| !node.domain.is_empty()) {
            let is_function = || {
                let of = |f: &&onnxd_ir::Function| f.domain == node.domain && f.name == node.op;
                model.functions.iter().any(|f| of(&f))
            };
            let op = format!("{}::{}", node.domain, node.op);
            if let Some((op, _)) = rows.get_key_value(&op).filter(|_| !is_function()) {
                let output = node.outputs.iter().flatten().next();
                let output = output.map_or_else(String::new, |v| graph[*v].name.clone());
                found.entry(op).or_default().push((verify::source_layer(graph, node), output));
            }
        }
    });
    found
}

fn tie(op: &str, several: &[(String, String)]) -> Diagnostic {
    let all: Vec<String> =
        several.iter().map(|(plugin, pass)| format!("`{plugin}/{pass}`")).collect();
    let text = format!("{} all lower `{}`", all.join(", "), shown(op));
    Diagnostic::new(Code::PluginRefused, text)
        .help("Name all plugins but one in the setting `plugins.disable`.")
}

/// A pass said that it lowers an operator, and left it.
fn survived(
    session: &Session,
    op: &str,
    (plugin, pass): &(String, String),
    places: &[SourcePlace],
) -> Diagnostic {
    let plugins = &session.request.plugins;
    let version = plugins.iter().find(|p| p.id == *plugin).map_or("", |p| p.version.as_str());
    let counted = match places.len() {
        1 => String::new(),
        n => format!(" ({n} places)"),
    };
    // Why, if the pass says it of the place.
    let mut skipped =
        session.report.passes.iter().filter(|p| p.name == *pass).flat_map(|p| &p.skipped);
    let why = skipped.find(|skip| places.iter().any(|(_, output)| skip.at == *output));
    let why = why.map_or_else(String::new, |skip| format!(": {}", shown(&skip.reason)));
    let op = shown(op);
    let text =
        format!("`{op}` was left{counted} by the pass {pass} of plugin {plugin} {version}{why}");
    Diagnostic::new(Code::LayerUnsupported, text).at(places[0].0.clone())
}
