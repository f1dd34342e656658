//! Places of findings in the user's program, where the archive has them.

use super::debug::{Origin, Origins};
use crate::archive::objects::ScriptArchive;
use crate::archive::pickle::{self, Context};
use crate::diag::Diagnostic;
use onnxd_plugin_sdk::ir::Graph;
use std::collections::HashMap;

/// Lets findings name lines of the user's program in place of the printed code.
pub(crate) fn translated<'d>(
    archive: &ScriptArchive,
    found: impl IntoIterator<Item = &'d mut Diagnostic>,
) {
    let mut origins = HashMap::new();
    for layer in found.into_iter().filter_map(|found| found.layer.as_mut()) {
        if let Some(origin) = origin(archive, &layer.place, &mut origins) {
            layer.place = place(&origin);
        }
    }
}

/// Writes the user's lines to the nodes that come from them.
pub(crate) fn documented(archive: &ScriptArchive, graph: &mut Graph) {
    documented_in(archive, graph, &mut HashMap::new());
}

fn documented_in(archive: &ScriptArchive, graph: &mut Graph, origins: &mut Known) {
    for id in graph.node_ids() {
        let node = graph.node_mut(id);
        for layer in &mut node.layers {
            let Some(origin) = origin(archive, &layer.place, origins) else { continue };
            layer.place = place(&origin);
            if node.doc.is_empty() {
                let within = origin.function.as_ref().map(|name| format!(", in {name}"));
                let within = within.unwrap_or_default();
                node.doc = format!("{}{within}: {}", layer.place, origin.text);
            }
        }
        graph.edit_subgraphs(id, |inner| documented_in(archive, inner, origins));
    }
}

/// What is known of files of code.
type Known = HashMap<String, Option<Origins>>;

/// The user's line that a line of printed code comes from.
fn origin(archive: &ScriptArchive, place: &str, origins: &mut Known) -> Option<Origin> {
    let (path, line) = place.rsplit_once(".py:")?;
    let line = line.parse().ok()?;
    let module = path.replace('/', ".");
    let known = origins.entry(module.clone()).or_insert_with(|| read(archive, &module));
    let (start, end) = line_range(archive.code.get(module.as_str())?, line)?;
    known.as_ref()?.between(start, end)
}

/// Folders of the machine that saved the model stay out.
fn place(origin: &Origin) -> String {
    let file = origin.file.rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{file}:{}", origin.line)
}

fn read(archive: &ScriptArchive, module: &str) -> Option<Origins> {
    let bytes = archive.debug(module).ok()??;
    let pickled = pickle::read(&bytes, &Context::default()).ok()?.checked().ok()?;
    Origins::read(module, &pickled).ok()
}

/// Offsets of the first byte of a line, from 1, and of the byte behind it.
fn line_range(code: &[u8], line: usize) -> Option<(usize, usize)> {
    let mut start = 0;
    for (i, text) in code.split(|byte| *byte == b'\n').enumerate() {
        let end = start + text.len();
        if i + 1 == line {
            let indent = text.iter().take_while(|byte| **byte == b' ').count();
            return Some((start + indent, end));
        }
        start = end + 1;
    }
    None
}
