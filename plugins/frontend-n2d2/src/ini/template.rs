//! The template language of `*.tpl` files: `{{name}}` and `{% … %}` blocks, parsed into a tree.
//!
//! Parsing once and rendering from the tree keeps a loop over an included file cheap.

use crate::diag::refuse;
use std::rc::Rc;

use super::Place;

/// Longest tag, in bytes; messages repeat what it names.
const TAG_BYTES_MAX: usize = 1000;
/// Deepest nesting of blocks.
const NESTING_MAX: usize = 64;

/// A parsed template file.
pub(super) struct Template {
    pub(super) file: Rc<str>,
    pub(super) nodes: Vec<Node>,
}

/// A piece of a template and the line it starts on.
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) kind: NodeKind,
}

pub(super) enum NodeKind {
    Text(String),
    /// `{{name}}`
    Value(String),
    /// `{% if … %} … {% else %} … {% endif %}`
    If {
        test: Test,
        then: Vec<Node>,
        other: Vec<Node>,
    },
    /// `{% for variable in range(start, stop) %}`
    For {
        variable: String,
        start: String,
        stop: String,
        body: Vec<Node>,
    },
    /// `{% block array %}`
    Block {
        array: String,
        body: Vec<Node>,
    },
    /// `{% set variable %}`
    Set {
        variable: String,
        body: Vec<Node>,
    },
    /// `{% include file %}`
    Include(String),
}

/// The condition of an `if`.
pub(super) struct Test {
    pub(super) variable: String,
    pub(super) operator: TestOperator,
}

pub(super) enum TestOperator {
    Equals(String),
    Differs(String),
    Exists,
    Missing,
}

/// Where a template breaks the grammar, and how.
pub(super) struct Malformed {
    pub(super) line: usize,
    pub(super) message: String,
}

impl Template {
    pub(super) fn parse(file: Rc<str>, text: &str) -> Result<Template, Malformed> {
        let mut parser = Parser { rest: text, line: 1 };
        let (nodes, _) = parser.nodes(None, 0)?;
        Ok(Template { file, nodes })
    }

    pub(super) fn place(&self, line: usize) -> Place {
        Place { file: Rc::clone(&self.file), line }
    }
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
}

/// An opened block: its word and line, for the message when it is not closed.
#[derive(Clone, Copy)]
struct Open<'a> {
    word: &'a str,
    line: usize,
}

impl<'a> Parser<'a> {
    /// Nodes up to the word that ends or divides the block `open`, which is returned too.
    fn nodes(
        &mut self,
        open: Option<Open>,
        depth: usize,
    ) -> Result<(Vec<Node>, &'a str), Malformed> {
        refuse!(depth > NESTING_MAX => self.error(format!("blocks nest deeper than {NESTING_MAX} levels")));
        let mut nodes = Vec::new();
        loop {
            let line = self.line;
            let text = self.until_brace();
            if !text.is_empty() {
                nodes.push(Node { line, kind: NodeKind::Text(text.to_owned()) });
            }
            let line = self.line;
            if self.rest.is_empty() {
                return match open {
                    None => Ok((nodes, "")),
                    Some(Open { word, line }) => {
                        let message = format!("`{{% {word} %}}` is never closed");
                        Err(Malformed { line, message })
                    }
                };
            }
            if self.rest.starts_with("{{") {
                let name = self.until("}}")?;
                nodes.push(Node { line, kind: NodeKind::Value(name.to_owned()) });
                continue;
            }
            let words = control_words(self.until("%}")?);
            if let Some(word) = self.closing(&words, open, line)? {
                return Ok((nodes, word));
            }
            nodes.push(Node { line, kind: self.block(&words, line, depth)? });
        }
    }

    /// The word of a tag that ends or divides `open`; nothing if the tag does neither.
    fn closing(
        &self,
        words: &[&'a str],
        open: Option<Open>,
        line: usize,
    ) -> Result<Option<&'a str>, Malformed> {
        let [word @ ("else" | "endif" | "endfor" | "endblock" | "endset"), extra @ ..] = words
        else {
            return Ok(None);
        };
        let fits = match open {
            Some(Open { word: "else", .. }) => *word == "endif",
            Some(Open { word: "if", .. }) => matches!(*word, "else" | "endif"),
            Some(Open { word: opened, .. }) => word.strip_prefix("end") == Some(opened),
            None => false,
        };
        if fits && extra.is_empty() {
            return Ok(Some(word));
        }
        Err(Malformed { line, message: format!("`{{% {word} %}}` does not fit here") })
    }

    fn block(
        &mut self,
        words: &[&'a str],
        line: usize,
        depth: usize,
    ) -> Result<NodeKind, Malformed> {
        let mut body = |word| self.nodes(Some(Open { word, line }), depth + 1);
        match *words {
            ["if", variable, ref operator @ ..] => {
                let Some(operator) = operator_of(operator) else {
                    let message = "`if` takes `NAME == VALUE`, `NAME != VALUE`, `NAME exists` \
                                   or `NAME not_exists`";
                    return Err(Malformed { line, message: message.into() });
                };
                let test = Test { variable: variable.to_owned(), operator };
                let (then, end) = body("if")?;
                let other = if end == "else" { body("else")?.0 } else { Vec::new() };
                Ok(NodeKind::If { test, then, other })
            }
            ["for", variable, "in", "range", ref bounds @ ..] => {
                let (start, stop) = match bounds {
                    [stop] => ("0", *stop),
                    [start, stop] => (*start, *stop),
                    _ => {
                        let message = "`range` takes a stop, or a start and a stop".into();
                        return Err(Malformed { line, message });
                    }
                };
                let (variable, start, stop) = (variable.into(), start.into(), stop.into());
                Ok(NodeKind::For { variable, start, stop, body: body("for")?.0 })
            }
            ["block", array] => Ok(NodeKind::Block { array: array.into(), body: body("block")?.0 }),
            ["set", variable] => {
                Ok(NodeKind::Set { variable: variable.into(), body: body("set")?.0 })
            }
            ["include", file] => Ok(NodeKind::Include(file.to_owned())),
            _ => {
                let message = format!("`{{% {} %}}` is not known", words.join(" "));
                Err(Malformed { line, message: crate::diag::shown(&message) })
            }
        }
    }

    fn error(&self, message: String) -> Malformed {
        Malformed { line: self.line, message }
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let (text, rest) = self.rest.split_at(bytes);
        self.line += text.bytes().filter(|b| *b == b'\n').count();
        self.rest = rest;
        text
    }

    /// Plain text before the next `{{` or `{%`.
    fn until_brace(&mut self) -> &'a str {
        let opens =
            |(at, _): &(usize, &str)| matches!(self.rest.as_bytes().get(at + 1), Some(b'{' | b'%'));
        let found = self.rest.match_indices('{').find(opens).map(|(at, _)| at);
        self.advance(found.unwrap_or(self.rest.len()))
    }

    /// The inside of the tag that starts here and ends with `close`.
    fn until(&mut self, close: &str) -> Result<&'a str, Malformed> {
        let open = &self.rest[..2];
        let Some(end) = self.rest[2..].find(close) else {
            return Err(self.error(format!("`{open}` is never closed by `{close}`")));
        };
        refuse!(end > TAG_BYTES_MAX => self.error(format!("a tag has {end} bytes, {TAG_BYTES_MAX} are allowed")));
        let tag = self.advance(end + 4);
        Ok(&tag[2..tag.len() - 2])
    }
}

fn control_words(tag: &str) -> Vec<&str> {
    let separates = |c: char| c.is_ascii_whitespace() || matches!(c, '(' | ')' | ',');
    tag.split(separates).filter(|w| !w.is_empty()).collect()
}

fn operator_of(words: &[&str]) -> Option<TestOperator> {
    match *words {
        ["==", value] => Some(TestOperator::Equals(value.to_owned())),
        ["!=", value] => Some(TestOperator::Differs(value.to_owned())),
        ["exists"] => Some(TestOperator::Exists),
        ["not_exists"] => Some(TestOperator::Missing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> (usize, String) {
        match Template::parse("t.tpl".into(), text) {
            Ok(_) => panic!("{text} parses"),
            Err(Malformed { line, message }) => (line, message),
        }
    }

    #[test]
    fn grammar_errors_name_line_and_reason() {
        for (text, line, reason) in [
            ("a\n{{B", 2, "never closed by `}}`"),
            ("{% if A exists", 1, "never closed by `%}`"),
            ("\n{% if A exists %}\n\n", 2, "`{% if %}` is never closed"),
            ("{% if A exists %}{% else %}{% else %}{% endif %}", 1, "`{% else %}` does not fit"),
            ("{% endif %}", 1, "does not fit"),
            ("{% for I in range(2) %}{% endif %}", 1, "does not fit"),
            ("{% for I in range() %}{% endfor %}", 1, "`range` takes"),
            ("{% for I in range(1,2,3) %}{% endfor %}", 1, "`range` takes"),
            ("{% for I of range(1) %}{% endfor %}", 1, "is not known"),
            ("{% if A > 1 %}{% endif %}", 1, "`if` takes"),
            ("{% if A == %}{% endif %}", 1, "`if` takes"),
            ("{% while 1 %}", 1, "is not known"),
            ("{% %}", 1, "is not known"),
            ("{% set A %}x{% endset A %}", 1, "does not fit"),
        ] {
            let found = refusal(text);
            assert_eq!(found.0, line, "{text}");
            assert!(found.1.contains(reason), "{text}: {}", found.1);
        }
    }

    #[test]
    fn size_is_limited() {
        let long = "x".repeat(2000);
        assert!(refusal(&format!("{{{{{long}}}}}")).1.contains("2000 bytes"));
        let deep = "{% if A exists %}".repeat(1000);
        assert!(refusal(&deep).1.contains("nest deeper"));
    }

    #[test]
    fn single_braces_are_text() {
        let template = Template::parse("t.tpl".into(), "a { b } {").ok().unwrap();
        assert!(
            matches!(&template.nodes[..], [Node { kind: NodeKind::Text(t), .. }] if t == "a { b } {")
        );
    }
}
