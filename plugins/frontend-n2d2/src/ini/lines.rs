//! The lexical rules of INI text: continuation, comments, headers and properties.
//!
//! N2D2 applies them line by line in a fixed order, which decides what odd files mean.

use crate::diag::refuse;

/// Longest name of a section or property, in bytes; messages repeat names.
const NAME_BYTES_MAX: usize = 1000;

/// What one logical line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// `[name] inherited sections`.
    Header { name: String, inherits: Vec<String> },
    /// `key=value`.
    Property { key: String, value: String },
}

/// A line that follows no rule, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) message: String,
    pub(super) help: &'static str,
}

/// A header or property with the index of its first physical line.
pub(super) struct Line {
    pub(super) index: usize,
    pub(super) content: Result<Content, Malformed>,
}

/// All headers and properties of a text; blank lines and comments are passed over.
pub(super) fn lines(text: &str) -> Lines<'_> {
    Lines { physical: text.split_terminator('\n').enumerate(), broken: false }
}

pub(super) struct Lines<'a> {
    physical: std::iter::Enumerate<std::str::SplitTerminator<'a, char>>,
    /// The line before ends in `\` and white space, which looks like a continuation and is none.
    broken: bool,
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let (index, first) = self.physical.next()?;
            let (text, complete) = self.glue(first);
            let broken = std::mem::replace(&mut self.broken, ends_like_continuation(&text));
            let content = match without_comment(&text) {
                Err(malformed) => Err(malformed),
                Ok("") => continue,
                Ok(_) if !complete => Err(Malformed {
                    message: "the file ends in the middle of a continued line".into(),
                    help: "Remove the `\\` at the end of the last line, or complete the line.",
                }),
                Ok(text) => classify(text, broken),
            };
            return Some(Line { index, content });
        }
    }
}

impl Lines<'_> {
    /// Appends the lines that continue `first`; false if the text ended while one was awaited.
    fn glue(&mut self, first: &str) -> (String, bool) {
        let mut glued = without_bom(first).to_owned();
        while glued.ends_with('\\') {
            glued.pop();
            match self.physical.next() {
                Some((_, next)) => glued.push_str(without_bom(next)),
                None => return (glued, false),
            }
        }
        (glued, true)
    }
}

fn without_bom(line: &str) -> &str {
    line.strip_prefix('\u{feff}').unwrap_or(line)
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

fn ends_like_continuation(line: &str) -> bool {
    line.trim_end_matches(is_blank).ends_with('\\')
}

/// The trimmed text before the first comment sign that is not quoted.
fn without_comment(line: &str) -> Result<&str, Malformed> {
    let mut quoted = false;
    let mut end = line.len();
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b';' | b'#' if !quoted => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    if quoted {
        return Err(Malformed {
            message: "a quotation mark `\"` is never closed".into(),
            help: "Close the quotation mark, or remove it.",
        });
    }
    Ok(line[..end].trim_matches(is_blank))
}

fn classify(text: &str, broken: bool) -> Result<Content, Malformed> {
    if let Some((name, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        check_length(name)?;
        let inherits = rest.split(is_blank).filter(|w| !w.is_empty()).map(str::to_owned);
        return Ok(Content::Header { name: name.to_owned(), inherits: inherits.collect() });
    }
    let Some((key, value)) = text.split_once('=') else {
        let help = if broken {
            "The `\\` that ends the line before is followed by white space or a carriage return; \
             it must be the very last byte to continue the line."
        } else {
            "Write `key=value`, `[section]`, or a comment that starts with `;`."
        };
        let shown = crate::diag::shown(text);
        return Err(Malformed { message: format!("`{shown}` has no `=`"), help });
    };
    let (key, value) = (key.trim_end_matches(is_blank), value.trim_start_matches(is_blank));
    refuse!(key.is_empty() =>
        Malformed { message: "a property has no name before `=`".into(), help: "Write `key=value`." });
    check_length(key)?;
    let unquoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    Ok(Content::Property { key: key.to_owned(), value: unquoted.unwrap_or(value).to_owned() })
}

fn check_length(name: &str) -> Result<(), Malformed> {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a name has {} bytes, {NAME_BYTES_MAX} are allowed", name.len());
    Err(Malformed { message, help: "Shorten the name." })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, inherits: &[&str]) -> Content {
        Content::Header {
            name: name.into(),
            inherits: inherits.iter().map(|s| (*s).into()).collect(),
        }
    }

    fn property(key: &str, value: &str) -> Content {
        Content::Property { key: key.into(), value: value.into() }
    }

    fn all(text: &str) -> Vec<(usize, Result<Content, Malformed>)> {
        lines(text).map(|l| (l.index, l.content)).collect()
    }

    fn one(text: &str) -> Content {
        let mut found = all(text);
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        found.remove(0).1.unwrap()
    }

    #[test]
    fn headers() {
        assert_eq!(one("[conv1]"), header("conv1", &[]));
        assert_eq!(one("  [ a b ]\r"), header(" a b ", &[]));
        assert_eq!(one("[conv1]def"), header("conv1", &["def"]));
        assert_eq!(one("[fc] common\tfc_def ; both"), header("fc", &["common", "fc_def"]));
        assert_eq!(one("[a]b]"), header("a", &["b]"]));
    }

    #[test]
    fn properties() {
        for (text, key, value) in [
            ("A=1", "A", "1"),
            ("A b = 1 2 \t", "A b", "1 2"),
            ("A=x=y", "A", "x=y"),
            ("A=", "A", ""),
            ("A=1\r", "A", "1"),
            ("\u{feff}A=1", "A", "1"),
            ("A=\"1 ; 2\" # three", "A", "1 ; 2"),
            ("A=\"1\" \"2\"", "A", "1\" \"2"),
            ("A=\"", "", ""),
            ("A=1;B=2", "A", "1"),
            ("A=x\"#\"y", "A", "x\"#\"y"),
            ("[a=1", "[a", "1"),
        ] {
            match lines(text).next().unwrap().content {
                Ok(found) => assert_eq!(found, property(key, value), "{text:?}"),
                Err(e) => assert!(text == "A=\"" && e.message.contains("never closed")),
            }
        }
    }

    #[test]
    fn comments_and_blank_lines_are_passed_over() {
        assert_eq!(all("\n ; a \"\n\t\r\n#b\n\u{feff};c\n\u{feff}"), []);
    }

    #[test]
    fn continuation_glues_without_a_blank() {
        let found = all("A=1 \\\n2\\\n3\nB=4\n");
        assert_eq!(found[0], (0, Ok(property("A", "1 23"))));
        assert_eq!(found[1], (3, Ok(property("B", "4"))));
    }

    #[test]
    fn a_continued_comment_takes_the_next_line() {
        assert_eq!(all("; note \\\nA=1\nB=2"), [(2, Ok(property("B", "2")))]);
    }

    #[test]
    fn a_blank_or_carriage_return_defeats_continuation() {
        for text in ["M=1 \\ \n0 1\n", "M=1 \\\r\n0 1\r\n"] {
            let found = all(text);
            assert_eq!(found[0], (0, Ok(property("M", "1 \\"))));
            assert!(found[1].1.as_ref().unwrap_err().help.contains("very last byte"));
        }
    }

    #[test]
    fn continuation_at_the_end_is_an_error_unless_it_is_a_comment() {
        assert!(all("A=1 \\\n")[0].1.is_err());
        assert_eq!(all("A=1\n; C:\\\n").len(), 1);
    }

    #[test]
    fn lines_without_meaning() {
        let long = "n".repeat(2000);
        for text in ["abc", "=1", "A=\"b", "[a", &format!("{long}=1"), &format!("[{long}]")] {
            assert!(all(text)[0].1.is_err(), "{text}");
        }
    }
}
