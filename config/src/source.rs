//! Reads one source of values (a TOML text, or key and value as text) against a table of rows.
//!
//! Everything that is wrong is collected with file and line, so that a user corrects it in one go.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::table::{GivenValue, KeyRow, suggestion, toml_string};

/// Largest number of findings shown; more would only repeat the same mistake.
const FINDINGS_MAX: usize = 100;

/// Marks of a TOML text: what keys, values, lists, texts and lines begin or end with. Each may become a kilobyte when
/// it is read.
const MARKS_MAX: usize = 1 << 17;

/// The diagnostics of a family of files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes {
    pub(crate) syntax: Code,
    pub(crate) unknown_key: Code,
    pub(crate) bad_value: Code,
}

/// What of a TOML text is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SectionFilter {
    /// All of it.
    All,
    /// All but a section.
    Without(&'static str),
    /// The keys of one section, named as if they stood outside.
    Only(&'static str),
}

/// Reads sources and collects what is wrong with them.
pub(crate) struct KeyReader<'t> {
    rows: &'t [KeyRow],
    codes: Codes,
    bytes_max: usize,
    found: Diagnostics,
    hidden: usize,
    notes: Vec<Diagnostic>,
}

impl<'t> KeyReader<'t> {
    pub(crate) fn new(rows: &'t [KeyRow], codes: Codes, bytes_max: usize) -> KeyReader<'t> {
        KeyReader {
            rows,
            codes,
            bytes_max,
            found: Diagnostics::default(),
            hidden: 0,
            notes: Vec::new(),
        }
    }

    /// `Ok(value)` if nothing was wrong.
    pub(crate) fn finish<T>(mut self, value: T) -> Result<T, Diagnostics> {
        if self.hidden > 0 {
            let more = format!("{} more findings of this kind are not shown.", self.hidden);
            self.found.push(Diagnostic::new(self.codes.syntax, more));
        }
        self.found.or_ok(value)
    }

    /// Something that stops nothing but that the user should know.
    pub(crate) fn note(&mut self, message: String) {
        if self.notes.len() < FINDINGS_MAX {
            self.notes.push(Diagnostic::new(Code::LayerParameterIgnored, message).help(""));
        }
    }

    pub(crate) fn take_notes(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.notes)
    }

    /// True while nothing was wrong.
    pub(crate) fn is_clean(&self) -> bool {
        self.found.0.is_empty()
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.is_full() {
            self.hidden += 1;
        } else {
            self.found.push(diagnostic);
        }
    }

    /// True once further findings are only counted.
    fn is_full(&self) -> bool {
        self.found.0.len() >= FINDINGS_MAX
    }

    pub(crate) fn syntax(&mut self, place: &str, what: &str) {
        self.push(Diagnostic::new(self.codes.syntax, format!("{place}: {what}.")));
    }

    pub(crate) fn bad_value(&mut self, place: &str, what: &str) {
        self.push(Diagnostic::new(self.codes.bad_value, format!("{place}: {what}.")));
    }

    pub(crate) fn unknown_key(&mut self, place: &str, key: &str) {
        self.unknown_key_near(place, key, |rows| suggestion(rows, key));
    }

    /// As [`KeyReader::unknown_key`], with the nearest key found by other means.
    pub(crate) fn unknown_key_near<'k>(
        &mut self,
        place: &str,
        key: &str,
        nearest: impl FnOnce(&'t [KeyRow]) -> Option<&'k str>,
    ) {
        if self.is_full() {
            self.hidden += 1;
            return;
        }
        let near = nearest(self.rows);
        let end = near.map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"));
        let message = format!("{place}: unknown key `{}`{end}", shown(key));
        self.push(Diagnostic::new(self.codes.unknown_key, message));
    }

    /// False, with a diagnostic, if the text is too large to be a file of this kind.
    pub(crate) fn admits(&mut self, name: &str, text: &str) -> bool {
        let fits = text.len() <= self.bytes_max;
        if !fits {
            let (bytes, max) = (text.len(), self.bytes_max);
            let what = format!("the file has {bytes} bytes; at most {max} are read");
            self.syntax(name, &what);
        }
        fits
    }

    /// The values of a TOML text; `name` is how messages and origins call it.
    pub(crate) fn toml(&mut self, name: &str, text: &str) -> Vec<GivenValue<'t>> {
        self.toml_of(name, text, SectionFilter::All)
    }

    /// The values of a part of a TOML text.
    pub(crate) fn toml_of(
        &mut self,
        name: &str,
        text: &str,
        part: SectionFilter,
    ) -> Vec<GivenValue<'t>> {
        let mut given_values = Vec::new();
        if !self.admits(name, text) {
            return given_values;
        }
        let lines = Lines::of(name, text);
        let mut marks = text.bytes().enumerate().filter(|(_, byte)| b".=,[{\"'\r\n".contains(byte));
        if let Some((at, _)) = marks.nth(MARKS_MAX) {
            let what = format!("the file has more than {MARKS_MAX} keys, values and lines");
            self.syntax(&lines.place(at), &what);
            return given_values;
        }
        let (document, mut errors) = DeTable::parse_recoverable(text);
        errors.sort_by_key(|error| error.span().map_or(0, |s| s.start));
        for error in &errors {
            let place = lines.place(error.span().map_or(0, |s| s.start));
            self.syntax(&place, error.message().trim_end_matches('.'));
        }
        let mut table = document.into_inner();
        match part {
            _ if !errors.is_empty() => table.clear(),
            SectionFilter::All => {}
            SectionFilter::Without(section) => drop(table.remove(section)),
            SectionFilter::Only(section) => match table.remove(section).map(Spanned::into_inner) {
                Some(DeValue::Table(inner)) => table = inner,
                Some(_) => self.syntax(name, &format!("`{section}` is a section, not a key")),
                None => table.clear(),
            },
        }
        self.walk(&lines, "", &table, &mut given_values);
        given_values
    }

    fn walk(
        &mut self,
        lines: &Lines,
        section: &str,
        table: &DeTable<'_>,
        into: &mut Vec<GivenValue<'t>>,
    ) {
        let mut pairs: Vec<_> = table.iter().collect();
        pairs.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in pairs {
            let (key, place) = (join(section, name.get_ref()), lines.place(name.span().start));
            if let Some(row) = self.row(&key) {
                match json(value).and_then(|v| row.kind.check(v)) {
                    Ok(value) => {
                        into.push(GivenValue { row, value, origin: place, implied: false });
                    }
                    Err(why) => self.bad_value(&place, &format!("`{key}` {why}")),
                }
            } else if self.has_section(&key) {
                match value.get_ref() {
                    DeValue::Table(inner) => self.walk(lines, &key, inner, into),
                    _ => self.bad_value(&place, &format!("`{key}` is a section, not a key")),
                }
            } else {
                self.unknown_key(&place, &key);
            }
        }
    }

    /// The value of a key given as text, read as TOML if that fits, else as it stands.
    pub(crate) fn text(&mut self, place: &str, key: &str, text: &str) -> Option<GivenValue<'t>> {
        let read = if let Some(row) = self.row(key) {
            row.kind.read(text).map(|value| (row, value))
        } else if let Some((row, below)) = self.row_above(key) {
            entry_of_table(below, text).and_then(|v| row.kind.check(v)).map(|value| (row, value))
        } else {
            self.unknown_key(place, key);
            return None;
        };
        match read {
            Ok((row, value)) => {
                Some(GivenValue { row, value, origin: place.to_owned(), implied: false })
            }
            Err(why) => {
                self.bad_value(place, &format!("`{}` {why}", shown(key)));
                None
            }
        }
    }

    /// `KEY=VALUE` taken apart; a diagnostic if there is no `=`.
    pub(crate) fn pair<'a>(&mut self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let pair = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        if pair.is_none() {
            let message = format!("`--set {}` is not of the form KEY=VALUE.", shown(text));
            self.push(Diagnostic::new(Code::Usage, message));
        }
        pair
    }

    pub(crate) fn row(&self, key: &str) -> Option<&'t KeyRow> {
        self.rows.iter().find(|r| r.key == key)
    }

    /// The row of a table that `key` names an entry of, and the rest of the key.
    fn row_above<'k>(&self, key: &'k str) -> Option<(&'t KeyRow, &'k str)> {
        self.rows
            .iter()
            .find_map(|row| Some((row, key.strip_prefix(&*row.key)?.strip_prefix('.')?)))
    }

    fn has_section(&self, name: &str) -> bool {
        let below = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        self.rows.iter().any(|r| below(&r.key))
    }
}

fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// The table that `KEY = TEXT` denotes, the text taken as a string if it is not TOML.
fn entry_of_table(key: &str, text: &str) -> Result<Value, String> {
    let typed = toml_value(&format!("{{ {key} = {text} }}"));
    typed
        .or_else(|| toml_value(&format!("{{ {key} = {} }}", toml_string(text))))
        .ok_or_else(|| "is not a key in the notation of TOML".to_owned())
}

/// The value a piece of TOML denotes, if it is one.
pub(crate) fn toml_value(text: &str) -> Option<Value> {
    json(&DeValue::parse(text).ok()?).ok()
}

fn json(value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    match value.get_ref() {
        DeValue::String(s) => Ok(Value::from(s.as_ref())),
        DeValue::Integer(i) => i64::from_str_radix(i.as_str(), i.radix())
            .map(Value::from)
            .map_err(|_| format!("must be an integer of 64 bits, not {}", shown(i.as_str()))),
        DeValue::Float(x) => {
            let number = x.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            number
                .map(Value::Number)
                .ok_or_else(|| format!("must be a finite number, not {}", shown(x.as_str())))
        }
        DeValue::Boolean(b) => Ok(Value::Bool(*b)),
        DeValue::Datetime(_) => Err("must not be a date or time".to_owned()),
        DeValue::Array(items) => items.iter().map(json).collect(),
        DeValue::Table(table) => {
            table.iter().map(|(k, v)| Ok((k.get_ref().to_string(), json(v)?))).collect()
        }
    }
}

/// Finds the line of an offset without counting from the start each time.
struct Lines<'a> {
    name: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(name: &'a str, text: &str) -> Lines<'a> {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { name, starts: std::iter::once(0).chain(breaks).collect() }
    }

    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.name, self.starts.partition_point(|start| *start <= offset))
    }
}
