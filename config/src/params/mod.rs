//! The params of one conversion: what a user says about it, resolved against the table of rows.
//!
//! The result is complete, so that the worker and the plugins need to know no default.

mod declared;
mod implied;
mod ini;
mod passes;
pub(crate) mod special;
mod spelling;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_params::Resolved;
use serde_json::Value;

pub(crate) use declared::HOST_ROWS;
pub use declared::{Clash, Declared};

use crate::source::{Codes, KeyReader, SectionFilter};
use crate::table::{GivenValue, KeyEntry, overlay, sections, suggestion};

/// Largest params file that is read.
pub const BYTES_MAX: usize = 1 << 20;

const CODES: Codes = Codes {
    syntax: Code::ParamsSyntax,
    unknown_key: Code::ParamsUnknownKey,
    bad_value: Code::ParamsBadValue,
};

/// Params in TOML that hold for many conversions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preset {
    name: String,
    text: String,
    section: Option<&'static str>,
}

impl Preset {
    /// All of a file; `name` is how messages and origins call it.
    pub fn of_file(name: String, text: String) -> Preset {
        Preset { name, text, section: None }
    }

    /// One section of a file.
    pub(crate) fn of_section(name: String, text: String, section: &'static str) -> Preset {
        Preset { name, text, section: Some(section) }
    }

    fn part(&self) -> SectionFilter {
        self.section.map_or(SectionFilter::All, SectionFilter::Only)
    }
}

/// The resolved params of one conversion.
#[derive(Clone, Debug)]
pub struct Params {
    resolved: Arc<Resolved>,
    entries: Vec<KeyEntry>,
    notes: Vec<Diagnostic>,
}

impl Params {
    /// Overlays the defaults with files (name and text; `.toml` or `.ini`), in their order, and
    /// then with `KEY=VALUE` overrides. INI files and overrides understand the options that plugins
    /// declare, too, which have no section.
    ///
    /// Errors name everything that is wrong at once: codes `N0104` to `N0106`, and `N0704` for
    /// an override without `=`.
    pub fn resolve(
        declared: &Declared,
        files: &[(&str, &str)],
        overrides: &[String],
    ) -> Result<Params, Diagnostics> {
        Params::resolve_over(&[], declared, files, overrides)
    }

    /// As [`Params::resolve`], over presets, of which later ones win.
    ///
    /// # Errors
    /// As there.
    pub fn resolve_over(
        presets: &[Preset],
        declared: &Declared,
        files: &[(&str, &str)],
        overrides: &[String],
    ) -> Result<Params, Diagnostics> {
        let mut reader = KeyReader::new(declared.rows(), CODES, BYTES_MAX);
        let presets = presets.iter().map(|p| reader.toml_of(&p.name, &p.text, p.part()));
        let mut layers: Vec<Vec<GivenValue>> = presets.collect();
        for (name, text) in files {
            layers.push(match name.rsplit_once('.').map(|(_, extension)| extension) {
                Some("toml") => reader.toml(name, text),
                Some("ini") => read_ini(&mut reader, declared, name, text),
                _ => {
                    reader.syntax(name, "params are files named `.toml` or `.ini`");
                    Vec::new()
                }
            });
        }
        layers.push(read_overrides(&mut reader, declared, overrides));
        layers.iter_mut().for_each(|layer| implied::of_layer(&mut reader, declared, layer));
        let mut entries = overlay(declared.rows(), layers);
        implied::computed(&mut reader, declared, &mut entries);
        if reader.is_clean() {
            check_together(&mut reader, &entries);
            implied::contradictions(&mut reader, declared, &entries);
        }
        let notes = reader.take_notes();
        reader.finish(())?;
        let order = passes::order(declared, &entries)?;
        let after = entries.iter().rposition(|e| e.key.starts_with("passes."));
        entries.insert(after.map_or(entries.len(), |at| at + 1), order);
        Ok(Params { resolved: Arc::new(Resolved::from_json(sections(&entries))), entries, notes })
    }

    /// Files of params that options in INI `files` and `overrides` name. Of one option, the last counts.
    pub fn files_named(
        declared: &Declared,
        files: &[(&str, &str)],
        overrides: &[String],
    ) -> Vec<String> {
        // What is wrong is told when the params are resolved.
        let mut reader = KeyReader::new(declared.rows(), CODES, BYTES_MAX);
        let ini = files.iter().filter(|(name, _)| name.ends_with(".ini"));
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, text) in ini {
            let lines = ini::lines(&mut reader, name, text).into_iter();
            let top = lines.filter(|line| line.section.is_empty());
            pairs.extend(top.filter_map(|line| Some((line.key, line.value?))));
        }
        let given = overrides.iter().filter_map(|text| text.split_once('='));
        pairs.extend(given.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())));
        let names_file = |key: &str| {
            let named = spelling::find(declared, spelling::bare(key));
            named.is_some_and(|named| named.spelling.params_file)
        };
        let named = pairs.into_iter().filter(|(key, value)| names_file(key) && !value.is_empty());
        let last = named.map(|(key, value)| (spelling::bare(&key).to_owned(), value));
        last.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// The values of all keys, complete with defaults; unset keys are `null`.
    /// `passes.order` lists the passes that result from profile, enable and disable.
    pub fn resolved(&self) -> &Arc<Resolved> {
        &self.resolved
    }

    /// Every key with its value and origin, in the order of the rows.
    pub fn entries(&self) -> &[KeyEntry] {
        &self.entries
    }

    /// Findings that stop nothing, such as options that have no effect here.
    pub fn notes(&self) -> &[Diagnostic] {
        &self.notes
    }

    /// Keys of resolved params that change nothing although they were looked at, each with what goes
    /// on after its key and value.
    pub fn idle(declared: &Declared, params: &Resolved) -> Vec<(&'static str, String)> {
        passes::idle(declared, params)
    }

    /// The value of a key; `None` if it is unset or no key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let entry = self.entries.iter().find(|e| e.key == key);
        debug_assert!(entry.is_some(), "`{key}` is not a key of the params");
        entry.map(|e| &e.value).filter(|v| !v.is_null())
    }

    /// Where the value of a key comes from; empty if it is no key.
    pub fn origin(&self, key: &str) -> &str {
        self.entries.iter().find(|e| e.key == key).map_or("", |e| e.origin.as_str())
    }
}

fn read_ini<'t>(
    reader: &mut KeyReader<'t>,
    declared: &'t Declared,
    name: &str,
    text: &str,
) -> Vec<GivenValue<'t>> {
    let mut given = Vec::new();
    if !reader.admits(name, text) {
        return given;
    }
    let mut seen = HashMap::new();
    for ini::Line { section, key, value, place } in ini::lines(reader, name, text) {
        let dotted = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
        let earlier = seen.insert(spelling::bare(&dotted).to_owned(), place.clone());
        if let Some(earlier) = earlier {
            reader.note(format!("{place}: `{}` replaces the value at {earlier}.", shown(&key)));
        }
        given.extend(read_pair(reader, declared, &place, &dotted, value.as_deref()));
    }
    given
}

fn read_overrides<'t>(
    reader: &mut KeyReader<'t>,
    declared: &'t Declared,
    overrides: &[String],
) -> Vec<GivenValue<'t>> {
    let mut given = Vec::new();
    for text in overrides {
        if let Some((key, value)) = reader.pair(text) {
            given.extend(read_pair(reader, declared, "--set", key, Some(value)));
        }
    }
    given
}

/// A key of the table, or an option without section.
fn read_pair<'t>(
    reader: &mut KeyReader<'t>,
    declared: &'t Declared,
    place: &str,
    key: &str,
    value: Option<&str>,
) -> Option<GivenValue<'t>> {
    let key = spelling::bare(key);
    if let Some(named) = spelling::find(declared, key) {
        return spelling::read(reader, place, named, value);
    }
    if !key.contains('.') {
        let lacks_section = declared.rows().iter().any(|r| r.name() == key);
        reader.unknown_key_near(place, key, |rows| {
            let option = spelling::nearest_option(declared, key).filter(|_| !lacks_section);
            option.or_else(|| suggestion(rows, key))
        });
        return None;
    }
    match value {
        Some(value) => reader.text(place, key, value),
        None => {
            reader.syntax(place, &format!("`{}` is not of the form KEY=VALUE", shown(key)));
            None
        }
    }
}

/// What each value alone cannot show.
fn check_together(reader: &mut KeyReader, entries: &[KeyEntry]) {
    let of = |key: &str| {
        entries.iter().find(|e| e.key == key).expect("the keys of this function are rows")
    };
    let (shapes, dtypes) = (of("export.input_shapes"), of("export.input_dtypes"));
    let count = |e: &KeyEntry| e.value.as_array().map_or(0, Vec::len);
    if count(shapes) > 0 && count(dtypes) > 0 && count(shapes) != count(dtypes) {
        let (n, m) = (count(dtypes), count(shapes));
        let what = format!("`export.input_dtypes` has {n} items, `export.input_shapes` has {m}");
        reader.bad_value(&dtypes.origin, &what);
    }
}
