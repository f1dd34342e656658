//! Places of findings in the user's program, where the archive has them.

use super::debug::Origins;
use crate::archive::objects::ScriptArchive;
use crate::archive::pickle::{self, Context};
use crate::diag::Diagnostic;
use std::collections::HashMap;

/// Lets findings name lines of the user's program in place of the printed code.
pub(crate) fn translated<'d>(
    archive: &ScriptArchive,
    found: impl IntoIterator<Item = &'d mut Diagnostic>,
) {
    let mut origins = HashMap::new();
    for diagnostic in found {
        let Some(layer) = &mut diagnostic.layer else { continue };
        let Some((path, line)) = layer.place.rsplit_once(".py:") else { continue };
        let Ok(line) = line.parse::<usize>() else { continue };
        let module = path.replace('/', ".");
        let known = origins.entry(module.clone()).or_insert_with(|| read(archive, &module));
        let range = || line_range(archive.code.get(module.as_str())?, line);
        if let Some((start, end)) = range()
            && let Some(origin) = known.as_ref().and_then(|o| o.between(start, end))
        {
            // Folders of the machine that saved the model stay out of reports.
            let file = origin.file.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
            layer.place = format!("{file}:{}", origin.line);
        }
    }
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
