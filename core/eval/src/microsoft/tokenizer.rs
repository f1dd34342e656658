//! Strings cut into tokens, as text pipelines of scikit-learn begin.

use crate::call::{KernelCall, one};
use crate::dims::size;
use crate::fault::{Fault, Outcome};
use crate::text::{compiled, strings, utf8};
use bytes::Bytes;
use onnxd_diagnostics::{refuse, shown};
use onnxd_ir::{Attr, DataType, Tensor};
use regex_lite::Regex;

/// Marks of begin and end of a text.
const MARKS: [&[u8]; 2] = [b"\x02", b"\x03"];

/// What makes tokens of a string.
enum Cut {
    /// Every character is a token.
    Characters,
    /// What matches is a token.
    Matches(Regex),
    /// What stands between matches of the first, cut by the next in turn.
    Between(Vec<Regex>),
}

/// A row of tokens for each string, filled up to the longest.
pub(super) fn tokenizer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    refuse!(!matches!(x.rank(), 1 | 2) => "{x:?} is neither a list nor a table of strings");
    let (cut, least) = (Cut::from_call(call)?, size(call.int("mincharnum", 1)?)?.max(1));
    let rows = strings(x)?.iter().map(|text| Ok(cut.tokens(utf8(text)?, least)));
    let rows = rows.collect::<Outcome<Vec<Vec<&str>>>>()?;
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let marks = call.flag("mark", false)? && most > 0;
    let dims = [x.dims(), &[most + 2 * usize::from(marks)]].concat();
    let mut y: Vec<Bytes> = Vec::with_capacity(call.room(DataType::String, &dims)?);
    let pad = Bytes::copy_from_slice(call.string("pad_value", "")?.as_bytes());
    for row in rows {
        let mark = |i: usize| marks.then(|| Bytes::from_static(MARKS[i]));
        y.extend(mark(0));
        y.extend(row.iter().map(|token| Bytes::copy_from_slice(token.as_bytes())));
        y.extend(mark(1));
        y.extend(std::iter::repeat_n(pad.clone(), most - row.len()));
    }
    one(Tensor::strings(dims, y)?)
}

impl Cut {
    fn from_call(call: &KernelCall) -> Outcome<Cut> {
        let separators = match call.attr("separators") {
            Some(Attr::Strs(list)) => list.iter().map(utf8).collect::<Outcome<Vec<&str>>>()?,
            _ => vec![],
        };
        match (call.string("tokenexp", "")?, &separators[..]) {
            (".", []) | ("", [""]) => Ok(Cut::Characters),
            (pattern, []) if !pattern.is_empty() => Ok(Cut::Matches(longest(pattern)?)),
            ("", [_, ..]) => {
                Ok(Cut::Between(separators.into_iter().map(longest).collect::<Outcome<_>>()?))
            }
            _ => Err(Fault::invalid("it needs either `tokenexp` or `separators`")),
        }
    }

    fn tokens<'t>(&self, text: &'t str, least: usize) -> Vec<&'t str> {
        let long = |token: &&str| token.chars().count() >= least;
        match self {
            Cut::Characters => {
                text.char_indices().map(|(i, c)| &text[i..i + c.len_utf8()]).collect()
            }
            Cut::Matches(pattern) => matched(pattern, text, &long),
            Cut::Between(patterns) => {
                let mut tokens = vec![text];
                for pattern in patterns {
                    let parts = tokens.iter().flat_map(|token| pattern.split(token));
                    tokens = parts.filter(long).collect();
                }
                tokens
            }
        }
    }
}

/// Matches one after the other; behind the first character of one that is too short the search
/// goes on.
fn matched<'t>(pattern: &Regex, text: &'t str, long: &impl Fn(&&str) -> bool) -> Vec<&'t str> {
    let (mut tokens, mut start) = (Vec::new(), 0);
    while let Some(found) = pattern.find_at(text, start) {
        if long(&found.as_str()) {
            tokens.push(found.as_str());
            start = found.end();
        } else {
            let first = text[found.start()..].chars().next();
            let Some(first) = first else { break };
            start = found.start() + first.len_utf8();
        }
    }
    tokens
}

/// A pattern whose first match is also its longest, which is what the runtime takes.
fn longest(pattern: &str) -> Outcome<Regex> {
    let (mut class, mut before) = (false, ' ');
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let lazy = c == '?' && matches!(before, '*' | '+' | '?' | '}');
        match c {
            '\\' => drop(chars.next()),
            '[' => class = true,
            ']' => class = false,
            _ if !class && (c == '|' || lazy) => {
                let text = "alternatives and lazy repetitions are not computed";
                return Err(Fault::unsupported(format!("pattern `{}`: {text}", shown(pattern))));
            }
            _ => {}
        }
        before = if c == '\\' { ' ' } else { c };
    }
    compiled(pattern)
}

#[cfg(test)]
#[path = "tokenizer_tests.rs"]
mod tests;
