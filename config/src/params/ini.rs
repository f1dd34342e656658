//! Lines of an INI file: key, value and line number.
//!
//! Lexical rules are those of networks in INI files: a final `\` continues the line, `;` and `#` outside quotes start a
//! comment, one pair of quotes around a value is taken off, names are case-sensitive.

use crate::source::KeyReader;

/// A key and its value, where they stand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Section of the header above; empty before the first one.
    pub(super) section: String,
    pub(super) key: String,
    /// `None` for a line without `=`.
    pub(super) value: Option<String>,
    /// `params.ini:3`.
    pub(super) place: String,
}

/// All lines that hold something; what is malformed is reported.
pub(super) fn lines(reader: &mut KeyReader, name: &str, text: &str) -> Vec<Line> {
    let mut ini_lines = Vec::new();
    let mut section = String::new();
    for (number, joined) in continued(text) {
        let place = format!("{name}:{number}");
        let Some(content) = without_comment(&joined) else {
            reader.syntax(&place, "a `\"` is not closed");
            continue;
        };
        let content = content.trim();
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            match rest.split_once(']') {
                Some((header, "")) => section = header.trim().to_owned(),
                _ => reader.syntax(&place, "a section is written `[name]`"),
            }
            continue;
        }
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim_end(), Some(unquoted(value.trim()).to_owned())),
            None => (content, None),
        };
        let (section, key) = (section.clone(), key.to_owned());
        ini_lines.push(Line { section, key, value, place });
    }
    ini_lines
}

/// Lines with their continuations, under the number of the first.
fn continued(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let (line, goes_on) = line.strip_suffix('\\').map_or((line, false), |rest| (rest, true));
        match out.last_mut() {
            Some((_, joined)) if open => joined.push_str(line),
            _ => out.push((i + 1, line.to_owned())),
        }
        open = goes_on;
    }
    out
}

/// What stands before the comment; `None` if a quote before it is not closed.
fn without_comment(line: &str) -> Option<&str> {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ';' | '#' if !quoted => return Some(&line[..at]),
            _ => {}
        }
    }
    (!quoted).then_some(line)
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value)
}
