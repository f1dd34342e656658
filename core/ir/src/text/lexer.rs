//! Tokens of ONNX text. Errors name line and column.

use onnxd_diagnostics::{Code, Diagnostic, shown};
use std::borrow::Cow;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// Letters, digits, underscores.
    Ident(&'a str),
    /// A string literal, without quotes and escapes.
    Str(Cow<'a, str>),
    /// Digits, perhaps signed.
    Int(&'a str),
    /// A number with point or exponent, or a signed `inf` or `nan`.
    Float(&'a str),
    /// `=>`
    Arrow,
    /// Any other character.
    Punct(char),
    /// End of the text.
    End,
}

impl Token<'_> {
    fn describe(&self) -> String {
        match self {
            Token::Ident(text) | Token::Int(text) | Token::Float(text) => {
                format!("`{}`", shown(text))
            }
            Token::Str(text) => format!("\"{}\"", shown(text)),
            Token::Arrow => "`=>`".to_owned(),
            Token::Punct(c) => format!("`{}`", c.escape_debug()),
            Token::End => "the end of the text".to_owned(),
        }
    }
}

/// The text, with one token of lookahead.
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// The next token.
    pub token: Token<'a>,
    /// Where it starts, in bytes.
    pub at: usize,
    end: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Result<Lexer<'a>, Diagnostic> {
        let mut lexer = Lexer { text, token: Token::End, at: 0, end: 0 };
        lexer.advance()?;
        Ok(lexer)
    }

    /// Takes the token.
    pub(super) fn advance(&mut self) -> Result<Token<'a>, Diagnostic> {
        self.skip_space();
        self.at = self.end;
        let next = self.scan()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// Takes the punctuation `c` if it is next.
    pub(super) fn eat(&mut self, c: char) -> Result<bool, Diagnostic> {
        let found = self.token == Token::Punct(c);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Takes the punctuation `c`.
    pub(super) fn expect(&mut self, c: char) -> Result<(), Diagnostic> {
        if self.eat(c)? { Ok(()) } else { Err(self.unexpected(&format!("`{c}`"))) }
    }

    /// An error at the next token.
    pub(super) fn unexpected(&self, expected: &str) -> Diagnostic {
        if self.token == Token::Punct('.') && self.text[self.at..].starts_with("...") {
            return self.error("abbreviated constants (`...`) cannot be read back");
        }
        self.error(&format!("expected {expected}, found {}", self.token.describe()))
    }

    /// An error at the next token.
    pub(super) fn error(&self, what: &str) -> Diagnostic {
        self.error_at(self.at, what)
    }

    /// An error at byte `at`.
    pub(super) fn error_at(&self, at: usize, what: &str) -> Diagnostic {
        error_at(self.text, at, what)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.end..]
    }

    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let text = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
            self.end += rest.len() - text.len();
            if !text.starts_with('#') {
                return;
            }
            self.end += text.find('\n').unwrap_or(text.len());
        }
    }

    /// Scans the token at `end`.
    fn scan(&mut self) -> Result<Token<'a>, Diagnostic> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        let signed = rest.strip_prefix('-').unwrap_or(rest);
        let (length, make): (usize, fn(&'a str) -> Token<'a>) = match first {
            '"' => return self.scan_string(),
            'a'..='z' | 'A'..='Z' | '_' => (word_len(rest), Token::Ident),
            _ if signed.starts_with(|c: char| c.is_ascii_digit()) => {
                let (length, float) = number_len(signed);
                (rest.len() - signed.len() + length, if float { Token::Float } else { Token::Int })
            }
            '-' if super::names::is_float_word(&signed[..word_len(signed)]) => {
                (1 + word_len(signed), Token::Float)
            }
            '=' if rest.starts_with("=>") => (2, |_| Token::Arrow),
            _ => {
                self.end += first.len_utf8();
                return Ok(Token::Punct(first));
            }
        };
        self.end += length;
        Ok(make(&rest[..length]))
    }

    fn scan_string(&mut self) -> Result<Token<'a>, Diagnostic> {
        let body = &self.rest()[1..];
        let mut unescaped = String::new();
        let mut from = 0;
        loop {
            let Some(stop) = body[from..].find(['"', '\\']).map(|i| from + i) else {
                return Err(self.error_at(self.end, "the string is not closed"));
            };
            if body[stop..].starts_with('"') {
                self.end += stop + 2;
                return Ok(Token::Str(match from {
                    0 => Cow::Borrowed(&body[..stop]),
                    _ => Cow::Owned(unescaped + &body[from..stop]),
                }));
            }
            unescaped.push_str(&body[from..stop]);
            let Some(escaped) = body[stop + 1..].chars().next() else {
                return Err(self.error_at(self.end, "the string is not closed"));
            };
            unescaped.push(escaped);
            from = stop + 1 + escaped.len_utf8();
        }
    }
}

/// An error at byte `at` of `text`.
pub(super) fn error_at(text: &str, at: usize, what: &str) -> Diagnostic {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = format!("ONNX text, line {line}, column {column}: {what}.");
    Diagnostic::new(Code::SourceSyntax, message)
}

fn word_len(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

fn digits_len(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())
}

/// Length of the unsigned number at the start, and whether it has a point or an exponent.
fn number_len(text: &str) -> (usize, bool) {
    let mut length = digits_len(text);
    let mut float = false;
    // `{1, 2, ...}` is an abbreviation, not a number with a point.
    if text[length..].starts_with('.') && !text[length..].starts_with("...") {
        float = true;
        length += 1 + digits_len(&text[length + 1..]);
    }
    if text[length..].starts_with(['e', 'E']) {
        float = true;
        length += 1;
        length += usize::from(text[length..].starts_with(['+', '-']));
        length += digits_len(&text[length..]);
    }
    (length, float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text).unwrap();
        let mut all = Vec::new();
        while lexer.token != Token::End {
            all.push(lexer.advance().unwrap());
        }
        all
    }

    #[test]
    fn every_kind_of_token() {
        let text = "a_1 \"x\\\"y\" -5 1.5e-3 5. -inf => = # comment\n...";
        let string = Token::Str(Cow::Owned("x\"y".to_owned()));
        let dots = [Token::Punct('.'), Token::Punct('.'), Token::Punct('.')];
        let mut expected = vec![
            Token::Ident("a_1"),
            string,
            Token::Int("-5"),
            Token::Float("1.5e-3"),
            Token::Float("5."),
            Token::Float("-inf"),
            Token::Arrow,
            Token::Punct('='),
        ];
        expected.extend(dots);
        assert_eq!(tokens(text), expected);
    }

    #[test]
    fn errors_count_lines_and_characters() {
        let error = Lexer::new("  \"abc").err().unwrap();
        assert!(error.message.contains("line 1, column 3: the string is not closed"), "{error}");
        let mut lexer = Lexer::new("a\n\"ä\" b").unwrap();
        lexer.advance().unwrap();
        lexer.advance().unwrap();
        assert!(lexer.error("x").message.contains("line 2, column 5"));
    }
}
