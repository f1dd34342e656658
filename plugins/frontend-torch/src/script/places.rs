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

fn documented_in(archive: &ScriptArchive, graph: &mut Graph, origins: &mut KnownLines) {
    for id in graph.node_ids() {
        let node = graph.node_mut(id);
        let doc = &mut node.doc;
        node.layers.edit(|layers| {
            for layer in layers {
                let Some(origin) = origin(archive, &layer.place, origins) else { continue };
                layer.place = place(&origin);
                if doc.is_empty() {
                    let within = origin.function.as_ref().map(|name| format!(", in {name}"));
                    let within = within.unwrap_or_default();
                    *doc = format!("{}{within}: {}", layer.place, origin.text);
                }
            }
        });
        graph.edit_subgraphs(id, |inner| documented_in(archive, inner, origins));
    }
}

/// What is known of files of code.
type KnownLines = HashMap<String, Option<Lines>>;

/// The lines of a file of printed code.
struct Lines {
    origins: Origins,
    /// Offsets of the first byte of each line behind its indentation, and of the byte behind the line.
    ranges: Vec<(usize, usize)>,
}

/// The user's line that a line of printed code comes from.
fn origin(archive: &ScriptArchive, place: &str, origins: &mut KnownLines) -> Option<Origin> {
    let (path, line) = place.rsplit_once(".py:")?;
    let line: usize = line.parse().ok()?;
    let module = path.replace('/', ".");
    let known = origins.entry(module.clone()).or_insert_with(|| read(archive, &module));
    let known = known.as_ref()?;
    let (start, end) = *known.ranges.get(line.checked_sub(1)?)?;
    known.origins.between(start, end)
}

fn place(origin: &Origin) -> String {
    format!("{}:{}", origin.file, origin.line)
}

fn read(archive: &ScriptArchive, module: &str) -> Option<Lines> {
    let ranges = line_ranges(archive.code.get(module)?);
    let bytes = archive.debug(module).ok()??;
    let pickled = pickle::read(&bytes, &Context::default()).ok()?.checked().ok()?;
    Some(Lines { origins: Origins::read(&pickled)?, ranges })
}

fn line_ranges(code: &[u8]) -> Vec<(usize, usize)> {
    let mut next = 0;
    let lines = code.split(|byte| *byte == b'\n').map(|text| {
        let (start, end) = (next, next + text.len());
        next = end + 1;
        (start + text.iter().take_while(|byte| **byte == b' ').count(), end)
    });
    lines.collect()
}
