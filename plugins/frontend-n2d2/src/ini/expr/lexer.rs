//! Words of an expression: numbers, names and signs.
//!
//! What cannot be a word is most often a reference that was not resolved, and is named as such.

use std::fmt;

use super::{ExprNumber, finite};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(ExprNumber),
    Name(String),
    Sign(&'static str),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Number(n) => write!(f, "`{n}`"),
            Token::Name(name) => write!(f, "`{name}`"),
            Token::Sign(sign) => write!(f, "`{sign}`"),
            Token::End => write!(f, "the end"),
        }
    }
}

/// Longer signs first, so that `**` is not read as two `*`.
const SIGNS: [&str; 16] =
    ["**", "//", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "(", ")", ",", "<", ">"];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length;
        if first.is_ascii_digit() || first == '.' {
            length = number_length(rest);
            found.push(Token::Number(number(&rest[..length])?));
        } else if first.is_ascii_alphabetic() || first == '_' {
            let other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            length = rest.find(other).unwrap_or(rest.len());
            found.push(Token::Name(rest[..length].to_owned()));
        } else if let Some(sign) = SIGNS.into_iter().find(|s| rest.starts_with(s)) {
            length = sign.len();
            found.push(Token::Sign(sign));
        } else {
            return Err(unreadable(rest));
        }
        rest = rest[length..].trim_start();
    }
    found.push(Token::End);
    Ok(found)
}

/// Names what an expression cannot hold; what looks like a reference was not resolved.
fn unreadable(rest: &str) -> String {
    let word = rest.split_whitespace().next().unwrap_or(rest);
    let word = crate::diag::shown(word);
    match rest.as_bytes()[0] {
        b'$' => format!("the variable `{word}` is not defined"),
        b'[' => format!("no section is called as in `{word}`"),
        _ => format!("`{word}` is not arithmetic"),
    }
}

fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(&byte) = bytes.get(end) {
        let exponent_sign =
            matches!(byte, b'+' | b'-') && end > 0 && matches!(bytes[end - 1], b'e' | b'E');
        if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || exponent_sign) {
            break;
        }
        end += 1;
    }
    end
}

fn number(text: &str) -> Result<ExprNumber, String> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let too_large = || format!("`{text}` is too large");
        return text.parse().map(ExprNumber::Int).map_err(|_| too_large());
    }
    match text.parse() {
        Ok(float) => finite(float),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}
