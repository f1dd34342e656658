//! What a property's text means: `[section]property`, `${VARIABLE}` and `$( expression )`.
//!
//! The three are replaced one after the other, as N2D2 does, each in the context of the section
//! that holds the property.

use super::{Ini, Place, Section, expr, similar};
use crate::diag::{Code, Diagnostic, refuse, shown};

/// Longest chain of values that refer to each other.
const DEPTH_MAX: usize = 64;
/// Longest value, in bytes.
const VALUE_BYTES_MAX: usize = 16 << 20;
/// Replacements that the values of a network may take together.
const STEPS_MAX: usize = 2_000_000;
/// Bytes that resolving the values of a network may look at.
const BYTES_MAX: usize = 512 << 20;

/// What resolving has cost so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Effort {
    steps: usize,
    bytes: usize,
}

/// The resolved value of a property; nothing if the section does not have it.
pub(super) fn property(ini: &Ini, section: usize, key: &str) -> Result<Option<String>, Diagnostic> {
    Resolver { ini, chain: Vec::new() }.property(section, key)
}

struct Resolver<'a> {
    ini: &'a Ini,
    /// Properties that are being resolved, outermost first.
    chain: Vec<(usize, String)>,
}

/// Why a text has no value; the caller knows where it stands.
enum Failure {
    Here(Code, String, Option<String>),
    /// Another property is at fault and has been named.
    Elsewhere(Diagnostic),
}

type Resolved = Result<String, Failure>;

impl Resolver<'_> {
    fn property(&mut self, section: usize, key: &str) -> Result<Option<String>, Diagnostic> {
        if let Some(value) = self.ini.computed.borrow().get(&(section, key.to_owned())) {
            return Ok(Some(value.clone()));
        }
        let Some(property) = self.ini.sections[section].properties.get(key) else {
            return Ok(None);
        };
        property.read.set(true);
        match self.linked(section, key, section, &property.value) {
            Ok(value) => Ok(Some(value)),
            Err(failure) => Err(self.explain(section, key, &property.place, failure)),
        }
    }

    /// Resolves the text of property `key` of section `owner` in the context of `section`.
    fn linked(&mut self, owner: usize, key: &str, section: usize, text: &str) -> Resolved {
        let link = (owner, key.to_owned());
        if self.chain.contains(&link) {
            let names: Vec<String> =
                self.chain.iter().chain([&link]).map(|(s, k)| self.name(*s, k)).collect();
            let message = format!("the value depends on itself: {}", names.join(" -> "));
            return fail(Code::Expression, message);
        }
        if self.chain.len() == DEPTH_MAX {
            let message = format!("the value refers to others deeper than {DEPTH_MAX} levels");
            return fail(Code::SourceLimit, message);
        }
        self.chain.push(link);
        let value = self.text(section, text, 0);
        self.chain.pop();
        value
    }

    fn name(&self, section: usize, key: &str) -> String {
        match section {
            0 => key.to_owned(),
            _ => format!("[{}]{key}", self.ini.sections[section].name),
        }
    }

    fn explain(&self, section: usize, key: &str, place: &Place, failure: Failure) -> Diagnostic {
        match failure {
            Failure::Elsewhere(diagnostic) => diagnostic,
            Failure::Here(code, message, help) => {
                let found = self.ini.problem(section, place, code, format!("`{key}`: {message}"));
                match help {
                    Some(help) => found.help(help),
                    None => found,
                }
            }
        }
    }

    fn text(&mut self, section: usize, text: &str, depth: usize) -> Resolved {
        self.spend(text.len())?;
        let text = self.references(text)?;
        let text = self.variables(section, &text)?;
        self.expressions(&text, depth)
    }

    /// Replaces `[section]property`; the property's name ends at white space.
    fn references(&mut self, text: &str) -> Resolved {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            out.push_str(before);
            let Some((name, tail)) = after.split_once(']') else {
                return fail(Code::SourceSyntax, "a `[` is never closed by `]`".into());
            };
            let Some(&section) = self.ini.by_name.get(name) else {
                out.push_str(&rest[before.len()..rest.len() - tail.len()]);
                rest = tail;
                continue;
            };
            let (key, tail) = tail.split_at(tail.find(char::is_whitespace).unwrap_or(tail.len()));
            let value = self.property(section, key).map_err(Failure::Elsewhere)?;
            let value = value.ok_or_else(|| self.no_property(section, key))?;
            self.append(&mut out, &value)?;
            rest = tail;
        }
        self.append(&mut out, rest)?;
        Ok(out)
    }

    fn no_property(&self, section: usize, key: &str) -> Failure {
        let Section { name, properties, .. } = &self.ini.sections[section];
        let known = properties.keys().map(|k| &**k);
        let help = match key.find([')', ',', '+', '-', '*', '/', '%']) {
            Some(at) => format!("Put a blank before the `{}`.", &key[at..=at]),
            None if key.starts_with('_') => {
                "The property is not known here, before the section has been built.".into()
            }
            None => match similar(key, known) {
                Some(near) => format!("Did you mean `[{name}]{near}`?"),
                None => format!("Set `{}` in section `{name}`.", shown(key)),
            },
        };
        let message = format!("section `{name}` has no property `{}`", shown(key));
        Failure::Here(Code::Expression, message, Some(help))
    }

    /// Replaces `${NAME}`; unknown ones stay, since paths hold environment variables.
    fn variables(&mut self, section: usize, text: &str) -> Resolved {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((name, tail)) = after.split_once('}') else {
                return fail(Code::SourceSyntax, "a `${` is never closed by `}`".into());
            };
            match self.variable(section, name)? {
                Some(value) => self.append(&mut out, &value)?,
                None => out.push_str(&rest[before.len()..rest.len() - tail.len()]),
            }
            rest = tail;
        }
        self.append(&mut out, rest)?;
        Ok(out)
    }

    fn variable(&mut self, section: usize, name: &str) -> Result<Option<String>, Failure> {
        self.spend(name.len())?;
        match name {
            "SECTION_NAME" => return Ok(Some(self.ini.sections[section].name.to_string())),
            "PREV_SECTION_NAME" => return Ok(Some(self.previous(section))),
            _ => {}
        }
        let key = format!("${name}");
        for owner in [section, 0] {
            if let Some(property) = self.ini.sections[owner].properties.get(&*key) {
                property.read.set(true);
                let value = self.linked(owner, &key, section, &property.value);
                return value.map(Some).map_err(|failure| {
                    Failure::Elsewhere(self.explain(owner, &key, &property.place, failure))
                });
            }
        }
        Ok(None)
    }

    /// The section before this one, other than those whose templates produced it.
    fn previous(&self, section: usize) -> String {
        let sections = &self.ini.sections;
        let mut parents = Vec::new();
        let mut parent = sections[section].parent;
        while let Some(index) = parent {
            parents.push(index);
            parent = sections[index].parent;
        }
        let previous = (0..section).rev().find(|index| !parents.contains(index));
        sections[previous.unwrap_or(0)].name.to_string()
    }

    /// Replaces `$( … )` by its value, inner ones first.
    fn expressions(&mut self, text: &str, depth: usize) -> Resolved {
        if depth > DEPTH_MAX {
            let message = format!("expressions nest deeper than {DEPTH_MAX} levels");
            return fail(Code::SourceLimit, message);
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("$(") {
            out.push_str(before);
            let Some(end) = closing(after) else {
                return fail(Code::Expression, "a `$(` is never closed by `)`".into());
            };
            self.spend(end)?;
            let inner = self.expressions(&after[..end], depth + 1)?;
            let value = expr::evaluate(&inner).map_err(|reason| {
                let message = format!("`$({})` has no value: {reason}", shown(&inner));
                Failure::Here(Code::Expression, message, None)
            })?;
            self.append(&mut out, &value.to_string())?;
            rest = &after[end + 1..];
        }
        self.append(&mut out, rest)?;
        Ok(out)
    }

    fn append(&mut self, out: &mut String, text: &str) -> Result<(), Failure> {
        self.spend(text.len())?;
        refuse!(out.len() + text.len() > VALUE_BYTES_MAX =>
            Failure::Here(Code::SourceLimit, format!("the value has more than {VALUE_BYTES_MAX} bytes"), None));
        out.push_str(text);
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Failure> {
        let Effort { steps, bytes: spent } = self.ini.effort.get();
        let effort = Effort { steps: steps + 1, bytes: spent + bytes };
        self.ini.effort.set(effort);
        if effort.steps <= STEPS_MAX && effort.bytes <= BYTES_MAX {
            return Ok(());
        }
        let message = "the values of the network refer to each other too often".into();
        Err(Failure::Here(Code::SourceLimit, message, None))
    }
}

fn fail(code: Code, message: String) -> Resolved {
    Err(Failure::Here(code, message, None))
}

/// Position of the `)` that closes a parenthesis opened before the text.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => open += 1,
            b')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}
