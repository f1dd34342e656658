//! The params of one conversion: what a user says about it, resolved against the table of rows.
//!
//! The result is complete, so that the worker and the plugins need to know no default.

mod inc;
mod ini;
mod n2d2;
mod passes;
mod rows;
mod special;

use std::collections::HashMap;

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use serde_json::Value;

use crate::source::{Codes, Reader};
use crate::table::{Entry, Given, Row, overlay, sections, suggestion};

/// Largest params file that is read.
pub const BYTES_MAX: usize = 1 << 20;

const CODES: Codes = Codes {
    syntax: Code::ParamsSyntax,
    unknown_key: Code::ParamsUnknownKey,
    bad_value: Code::ParamsBadValue,
};

/// The resolved params of one conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    json: Value,
    entries: Vec<Entry>,
    notes: Vec<Diagnostic>,
}

impl Params {
    /// The rows of all keys, for help.
    pub fn rows() -> &'static [Row] {
        rows::ROWS
    }

    /// The keys that have their effect when params are resolved: they stand for others. One stands
    /// for all keys below it.
    pub fn read_on_resolution() -> impl Iterator<Item = &'static str> {
        [passes::PROFILE, passes::ENABLE, passes::DISABLE, inc::SECTION].into_iter()
    }

    /// Overlays the defaults with files (name and text; `.toml` or `.ini`), in their order, and
    /// then with `KEY=VALUE` overrides. Of keys without a section, N2D2's spelling is understood
    /// in INI files and overrides.
    ///
    /// Errors name everything that is wrong at once: codes `N0104` to `N0106`, and `N0704` for
    /// an override without `=`.
    pub fn resolve(files: &[(&str, &str)], overrides: &[String]) -> Result<Params, Diagnostics> {
        let mut reader = Reader::new(rows::ROWS, CODES, BYTES_MAX);
        let mut layers = Vec::new();
        for (name, text) in files {
            layers.push(match name.rsplit_once('.').map(|(_, extension)| extension) {
                Some("toml") => reader.toml(name, text),
                Some("ini") => read_ini(&mut reader, name, text),
                _ => {
                    reader.syntax(name, "params are files named `.toml` or `.ini`");
                    Vec::new()
                }
            });
        }
        layers.push(read_overrides(&mut reader, overrides));
        layers.iter_mut().for_each(|layer| inc::implied(&mut reader, layer));
        let mut entries = overlay(rows::ROWS, layers);
        entries.iter_mut().for_each(normalize);
        if reader.is_clean() {
            check_together(&mut reader, &entries);
        }
        let notes = reader.take_notes();
        reader.finish(())?;
        let order = passes::order(&entries)?;
        let after = entries.iter().rposition(|e| e.key.starts_with("passes."));
        entries.insert(after.map_or(entries.len(), |at| at + 1), order);
        Ok(Params { json: sections(&entries), entries, notes })
    }

    /// One object of nested sections, complete with defaults; unset keys are `null`.
    /// `passes.order` lists the passes that result from profile, enable and disable.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Every key with its value and origin, in the order of the rows.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Findings that stop nothing, such as options of N2D2 that have no effect here.
    pub fn notes(&self) -> &[Diagnostic] {
        &self.notes
    }

    /// Keys of resolved params that change nothing although they were looked at, each with what goes
    /// on after its key and value.
    pub fn idle(params: &Value) -> Vec<(&'static str, String)> {
        passes::idle(params)
    }

    /// The value of a key; `None` if it is unset or no key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let entry = self.entries.iter().find(|e| e.key == key);
        debug_assert!(entry.is_some(), "`{key}` is not a key of the params");
        entry.map(|e| &e.value).filter(|v| !v.is_null())
    }

    /// Text of a key; `None` if unset.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Integer of a key; `None` if unset.
    pub fn get_int(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_i64()
    }

    /// Number of a key; `None` if unset.
    pub fn get_float(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    /// Truth value of a key; `None` if unset.
    pub fn get_bool(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// List of texts; empty if unset.
    pub fn get_list(&self, key: &str) -> Vec<&str> {
        let items = self.get(key).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Where the value of a key comes from; empty if it is no key.
    pub fn origin(&self, key: &str) -> &str {
        self.entries.iter().find(|e| e.key == key).map_or("", |e| e.origin.as_str())
    }
}

fn read_ini(reader: &mut Reader, name: &str, text: &str) -> Vec<Given> {
    let mut given = Vec::new();
    if !reader.admits(name, text) {
        return given;
    }
    let mut seen = HashMap::new();
    for ini::Line { section, key, value, place } in ini::lines(reader, name, text) {
        let dotted = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
        let earlier = seen.insert(n2d2::bare(&dotted).to_owned(), place.clone());
        if let Some(earlier) = earlier {
            reader.note(format!("{place}: `{}` replaces the value at {earlier}.", shown(&key)));
        }
        given.extend(read_pair(reader, &place, &dotted, value.as_deref()));
    }
    given
}

fn read_overrides(reader: &mut Reader, overrides: &[String]) -> Vec<Given> {
    let mut given = Vec::new();
    for text in overrides {
        if let Some((key, value)) = reader.pair(text) {
            given.extend(read_pair(reader, "--set", key, Some(value)));
        }
    }
    given
}

/// A key of the table, or an option in N2D2's spelling.
fn read_pair(reader: &mut Reader, place: &str, key: &str, value: Option<&str>) -> Vec<Given> {
    let key = n2d2::bare(key);
    if n2d2::is_option(key) {
        return n2d2::read_option(reader, place, key, value);
    }
    if !key.contains('.') {
        let lacks_section = rows::ROWS.iter().any(|r| r.name() == key);
        reader.unknown_key_near(place, key, |rows| {
            let option = n2d2::nearest_option(key).filter(|_| !lacks_section);
            option.or_else(|| suggestion(rows, key))
        });
        return Vec::new();
    }
    match value {
        Some(value) => reader.text(place, key, value).into_iter().collect(),
        None => {
            reader.syntax(place, &format!("`{}` is not of the form KEY=VALUE", shown(key)));
            Vec::new()
        }
    }
}

/// Two words of N2D2 for the same mode become one.
fn normalize(entry: &mut Entry) {
    if entry.key == "quantization.n2d2.act_rescaling_mode" && entry.value == "Fixed-point" {
        entry.value = Value::from("Fixed-point32");
    }
}

/// What each value alone cannot show.
fn check_together(reader: &mut Reader, entries: &[Entry]) {
    let of = |key: &str| {
        entries.iter().find(|e| e.key == key).expect("the keys of this function are rows")
    };
    let calib = of("quantization.n2d2.calib");
    if of("quantization.format").value == "N2D2" && calib.value == 0 {
        let what = "`quantization.n2d2.calib` = 0 leaves integers without ranges; use -1 or a \
                    number of samples, or nbbits=-32 for a float model";
        reader.bad_value(&calib.origin, what);
    }
    let (shapes, dtypes) = (of("export.input_shapes"), of("export.input_dtypes"));
    let count = |e: &Entry| e.value.as_array().map_or(0, Vec::len);
    if count(shapes) > 0 && count(dtypes) > 0 && count(shapes) != count(dtypes) {
        let (n, m) = (count(dtypes), count(shapes));
        let what = format!("`export.input_dtypes` has {n} items, `export.input_shapes` has {m}");
        reader.bad_value(&dtypes.origin, &what);
    }
}

#[cfg(test)]
mod tests;
