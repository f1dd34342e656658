//! Words, numbers and punctuation of printed code.
//!
//! Indentation becomes [`TokenKind::Indent`] and [`TokenKind::Dedent`], as in Python. Lines are joined inside brackets.
//! Tokens come one at a time, so a large file costs no memory here.

use crate::diag::{Code, Diagnostic, refuse};
use std::fmt::Display;

/// Largest file of code in bytes.
pub(crate) const SOURCE_MAX: usize = 16 << 20;
/// Deepest nesting of blocks. Each early return or `elif` of the user's code costs one level.
pub(crate) const BLOCKS_MAX: usize = 150;

/// What a rule gives. Errors are boxed, because rules recurse and the stack is small.
pub(super) type Parsed<T> = Result<T, Box<Diagnostic>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    Int,
    Float,
    /// A number with `j`.
    Imaginary,
    Text,
    /// One character; `>` of `->` too.
    Mark(u8),
    Newline,
    Indent,
    Dedent,
    End,
}

/// A token and the bytes of the source that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Number of its line, from 1.
    pub(crate) line: u32,
}

#[derive(Clone)]
pub(crate) struct Lexer<'s> {
    /// Path of the module, for messages.
    module: &'s str,
    source: &'s str,
    at: usize,
    line: u32,
    brackets: usize,
    /// Widths of the blocks that are open.
    indents: Vec<usize>,
    /// Blocks that end before the next token.
    dedents: usize,
    fresh_line: bool,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(module: &'s str, source: &'s str) -> Parsed<Lexer<'s>> {
        if source.len() > SOURCE_MAX {
            let (found, limit) = (source.len(), SOURCE_MAX >> 20);
            let message = format!("code `{module}` has {found} bytes; a file may have {limit} MiB");
            return Err(Diagnostic::new(Code::SourceLimit, message).into());
        }
        Ok(Lexer {
            module,
            source,
            at: 0,
            line: 1,
            brackets: 0,
            indents: Vec::new(),
            dedents: 0,
            fresh_line: true,
        })
    }

    pub(crate) fn text(&self, token: Token) -> &'s str {
        &self.source[token.start..token.end]
    }

    pub(crate) fn wrong(&self, at: Token, what: impl Display) -> Box<Diagnostic> {
        self.fault(Code::SourceSyntax, at, what)
    }

    pub(crate) fn too_much(&self, at: Token, what: impl Display) -> Box<Diagnostic> {
        self.fault(Code::SourceLimit, at, what)
    }

    fn fault(&self, code: Code, at: Token, what: impl Display) -> Box<Diagnostic> {
        let line_start = self.source[..at.start].rfind('\n').map_or(0, |newline| newline + 1);
        let column = self.source[line_start..at.start].chars().count() + 1;
        let message = format!("code `{}`, line {}, column {column}: {what}", self.module, at.line);
        let problem = Diagnostic::new(code, message);
        Box::new(match code {
            Code::SourceSyntax => problem.help("Save the model again with `torch.jit.save`."),
            _ => problem,
        })
    }

    /// The next token; [`TokenKind::End`] again and again behind the last one.
    pub(crate) fn next(&mut self) -> Parsed<Token> {
        if self.fresh_line && self.brackets == 0 && self.dedents == 0 {
            self.fresh_line = false;
            if let Some(indent) = self.indentation()? {
                return Ok(indent);
            }
        }
        if self.dedents > 0 {
            self.dedents -= 1;
            return Ok(self.token(TokenKind::Dedent, self.at));
        }
        self.skip_space();
        let start = self.at;
        let Some(&byte) = self.source.as_bytes().get(start) else { return Ok(self.end()) };
        let kind = match byte {
            b'\n' => return Ok(self.newline()),
            b'"' | b'\'' => self.quoted()?,
            b'0'..=b'9' => self.number(),
            b'.' if self.digit_at(start + 1) => self.number(),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => self.word_or_text()?,
            b'(' | b'[' | b'{' => self.mark(byte, self.brackets + 1),
            b')' | b']' | b'}' => self.mark(byte, self.brackets.saturating_sub(1)),
            b',' | b':' | b'=' | b'.' | b'-' | b'+' | b'>' => self.mark(byte, self.brackets),
            _ => {
                let found = self.source[start..].chars().next().unwrap_or(' ');
                let message = format!("`{}` has no meaning here", found.escape_default());
                return Err(self.wrong(self.token(TokenKind::End, start), message));
            }
        };
        Ok(self.token(kind, start))
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token { kind, start, end: self.at, line: self.line }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn digit_at(&self, at: usize) -> bool {
        self.source.as_bytes().get(at).is_some_and(u8::is_ascii_digit)
    }

    fn mark(&mut self, byte: u8, brackets: usize) -> TokenKind {
        self.brackets = brackets;
        self.at += 1;
        TokenKind::Mark(byte)
    }

    fn newline(&mut self) -> Token {
        let token = Token { end: self.at + 1, ..self.token(TokenKind::Newline, self.at) };
        self.at += 1;
        self.line += 1;
        self.fresh_line = true;
        token
    }

    /// A last line without its end gets one, then all blocks end.
    fn end(&mut self) -> Token {
        if !self.indents.is_empty() {
            self.dedents = self.indents.len() - 1;
            self.indents.clear();
            return self.token(TokenKind::Dedent, self.at);
        }
        self.token(TokenKind::End, self.at)
    }

    /// Spaces, comments, joined lines; newlines too where brackets are open.
    fn skip_space(&mut self) {
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\r' | 0x0c => self.at += 1,
                b'\n' if self.brackets > 0 => {
                    self.at += 1;
                    self.line += 1;
                }
                b'\\' if self.peek(1) == b'\n' => {
                    self.at += 2;
                    self.line += 1;
                }
                b'#' => self.at += self.rest_of_line(),
                _ => return,
            }
        }
    }

    fn rest_of_line(&self) -> usize {
        let rest = &self.source[self.at..];
        rest.find('\n').unwrap_or(rest.len())
    }

    /// Looks how far the next line with content is indented.
    fn indentation(&mut self) -> Parsed<Option<Token>> {
        let start = loop {
            let start = self.at;
            while matches!(self.peek(0), b' ' | b'\t' | b'\r' | 0x0c) {
                self.at += 1;
            }
            if self.peek(0) == b'#' {
                self.at += self.rest_of_line();
            }
            if self.peek(0) != b'\n' {
                break start;
            }
            self.at += 1;
            self.line += 1;
        };
        if self.at == self.source.len() {
            return Ok(None);
        }
        let width = self.at - start;
        if width > self.indents.last().copied().unwrap_or(0) {
            if self.indents.len() == BLOCKS_MAX {
                let message = format!("blocks are nested deeper than {BLOCKS_MAX} levels");
                return Err(self.too_much(self.token(TokenKind::Indent, self.at), message));
            }
            self.indents.push(width);
            return Ok(Some(self.token(TokenKind::Indent, self.at)));
        }
        while self.indents.last().is_some_and(|&open| open > width) {
            self.indents.pop();
            self.dedents += 1;
        }
        refuse!(self.indents.last().copied().unwrap_or(0) != width =>
            self.wrong(self.token(TokenKind::Dedent, self.at), "the indentation fits no block that is open"));
        Ok(None)
    }

    fn number(&mut self) -> TokenKind {
        let mut kind = TokenKind::Int;
        self.skip_digits();
        if self.peek(0) == b'.' {
            kind = TokenKind::Float;
            self.at += 1;
            self.skip_digits();
        }
        let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
        if matches!(self.peek(0), b'e' | b'E') && self.digit_at(self.at + 1 + sign) {
            kind = TokenKind::Float;
            self.at += 1 + sign;
            self.skip_digits();
        }
        if self.peek(0) == b'j' {
            self.at += 1;
            kind = TokenKind::Imaginary;
        }
        kind
    }

    fn skip_digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    /// A word, or a string with a prefix.
    fn word_or_text(&mut self) -> Parsed<TokenKind> {
        let start = self.at;
        while matches!(self.peek(0), b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | 0x80..) {
            self.at += 1;
        }
        let word = &self.source[start..self.at];
        let prefixes = matches!(word, "b" | "r" | "u" | "br" | "rb" | "B" | "R" | "U");
        if prefixes && matches!(self.peek(0), b'"' | b'\'') {
            self.quoted()
        } else {
            Ok(TokenKind::Word)
        }
    }

    fn quoted(&mut self) -> Parsed<TokenKind> {
        let (start, quote) = (self.token(TokenKind::Text, self.at), self.peek(0));
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        let marks = if triple { 3 } else { 1 };
        self.at += marks;
        loop {
            match self.peek(0) {
                _ if self.at >= self.source.len() => break,
                b'\n' if !triple => break,
                b'\n' => self.line += 1,
                b'\\' if self.peek(1) == b'\n' => {
                    self.at += 1;
                    self.line += 1;
                }
                b'\\' => self.at += 1,
                byte if byte == quote && (0..marks).all(|i| self.peek(i) == quote) => {
                    self.at += marks;
                    return Ok(TokenKind::Text);
                }
                _ => {}
            }
            self.at += 1;
        }
        Err(self.wrong(start, "the string has no end"))
    }
}

/// What a string token says, without quotes and escapes. Bytes that are no UTF-8 are replaced.
pub(crate) fn unquoted(token: &str) -> String {
    let quote = token.find(['"', '\'']).unwrap_or(0);
    let raw = token[..quote].contains(['r', 'R']);
    let triple = ["\"\"\"", "'''"].iter().any(|marks| token[quote..].starts_with(marks));
    let marks = if triple { 3 } else { 1 };
    let inner = token.get(quote + marks..token.len() - marks).unwrap_or("");
    if raw || !inner.contains('\\') {
        return inner.to_owned();
    }
    String::from_utf8_lossy(&unescaped(inner.as_bytes())).into_owned()
}

/// C escapes: torch writes every byte that cannot be printed as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let (b'\\', [escape, after @ ..]) = (*first, tail) else {
            bytes.push(*first);
            continue;
        };
        rest = after;
        match escape {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            b'v' => bytes.push(11),
            b'\n' => {}
            b'0'..=b'7' => rest = code(&mut bytes, tail, 8, 3),
            b'x' => rest = code(&mut bytes, after, 16, 2),
            b'\\' | b'\'' | b'"' => bytes.push(*escape),
            other => bytes.extend([b'\\', *other]),
        }
    }
    bytes
}

/// Reads a byte written as digits; gives what follows them.
fn code<'t>(bytes: &mut Vec<u8>, text: &'t [u8], radix: u32, digits_max: usize) -> &'t [u8] {
    let digit = |byte: &u8| char::from(*byte).to_digit(radix);
    let digits: Vec<u32> = text.iter().take(digits_max).map_while(digit).collect();
    let value = digits.iter().fold(0, |value, digit| value * radix + digit);
    bytes.push((value & 0xff) as u8);
    &text[digits.len()..]
}
