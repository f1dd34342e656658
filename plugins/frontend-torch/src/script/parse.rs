//! Printed code to [`CodeFile`]: what all rules of the grammar share.
//!
//! Rules for statements, expressions, types and definitions are in files of their own. No rule recurses deeper than a
//! constant, and no expression is taller than one, so all that walks the result may recurse.

use super::lexer::{Lexer, Parsed, Token, TokenKind};
use crate::diag::{Code, Diagnostic, refuse};
use crate::syntax::ast::CodeFile;

/// Deepest nesting of brackets, and the height of expressions.
pub(crate) const DEPTH_MAX: usize = 100;

/// Parses a file of code with a limit to statements and expressions. `module` is its path (`__torch__.a.b`).
pub(crate) fn parse(module: &str, source: &[u8], nodes_max: usize) -> Result<CodeFile, Diagnostic> {
    let source = std::str::from_utf8(source).map_err(|error| {
        let at = error.valid_up_to();
        let message = format!("code `{module}` is not UTF-8 at byte {at}");
        Diagnostic::new(Code::SourceSyntax, message)
    })?;
    Parser::new(module, source, nodes_max).and_then(Parser::file).map_err(|problem| *problem)
}

/// For the fuzz target: parses whatever it gets.
pub(crate) fn parse_any(source: &[u8]) {
    let _ = parse("fuzz", source, 10_000);
}

pub(crate) struct Parser<'s> {
    pub(super) lexer: Lexer<'s>,
    /// The next token.
    pub(super) token: Token,
    depth: usize,
    /// Of the expression that was parsed last.
    pub(super) height: usize,
    nodes: usize,
    nodes_max: usize,
}

impl<'s> Parser<'s> {
    pub(crate) fn new(module: &'s str, source: &'s str, nodes_max: usize) -> Parsed<Parser<'s>> {
        let mut lexer = Lexer::new(module, source)?;
        let token = lexer.next()?;
        Ok(Parser { lexer, token, depth: 0, height: 0, nodes: 0, nodes_max })
    }

    pub(super) fn advance(&mut self) -> Parsed<Token> {
        let token = self.token;
        self.token = self.lexer.next()?;
        Ok(token)
    }

    /// Whether the next token is this mark.
    pub(super) fn sees(&self, mark: u8) -> bool {
        self.token.kind == TokenKind::Mark(mark)
    }

    /// Whether the next token is this word.
    pub(super) fn sees_word(&self, word: &str) -> bool {
        self.token.kind == TokenKind::Word && self.lexer.text(self.token) == word
    }

    /// Takes a mark if it comes next.
    pub(super) fn takes(&mut self, mark: u8) -> Parsed<bool> {
        let seen = self.sees(mark);
        if seen {
            self.advance()?;
        }
        Ok(seen)
    }

    pub(super) fn takes_word(&mut self, word: &str) -> Parsed<bool> {
        let seen = self.sees_word(word);
        if seen {
            self.advance()?;
        }
        Ok(seen)
    }

    pub(super) fn expect(&mut self, mark: u8) -> Parsed<()> {
        if self.takes(mark)? {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{}`", char::from(mark))))
    }

    /// Items with commas between, up to a closing mark. Tells whether a comma stands behind the last one.
    pub(super) fn listed(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Parsed<()>,
    ) -> Parsed<bool> {
        let mut comma = false;
        while !self.takes(close)? {
            item(self)?;
            comma = self.takes(b',')?;
            if !comma {
                self.expect(close)?;
                break;
            }
        }
        Ok(comma)
    }

    pub(super) fn word(&mut self) -> Parsed<&'s str> {
        refuse!(self.token.kind != TokenKind::Word => self.unexpected("a name"));
        let token = self.advance()?;
        Ok(self.lexer.text(token))
    }

    /// The end of a statement.
    pub(super) fn end_line(&mut self) -> Parsed<()> {
        match self.token.kind {
            TokenKind::Newline => self.advance().map(|_| ()),
            TokenKind::Dedent | TokenKind::End => Ok(()),
            _ => Err(self.unexpected("the end of the line")),
        }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Box<Diagnostic> {
        let found = match self.token.kind {
            TokenKind::Newline => "the end of the line".to_owned(),
            TokenKind::Indent => "a deeper indentation".to_owned(),
            TokenKind::Dedent => "the end of the block".to_owned(),
            TokenKind::End => "the end of the file".to_owned(),
            _ => format!("`{}`", shortened(self.lexer.text(self.token))),
        };
        self.lexer.wrong(self.token, format!("{wanted} is expected here, and not {found}"))
    }

    /// One bracket deeper.
    pub(super) fn deeper(&mut self) -> Parsed<()> {
        refuse!(self.depth == DEPTH_MAX => self.too_deep());
        self.depth += 1;
        Ok(())
    }

    pub(super) fn shallower(&mut self) {
        self.depth -= 1;
    }

    /// A new expression of this height.
    pub(super) fn grown(&mut self, height: usize) -> Parsed<()> {
        refuse!(height > DEPTH_MAX => self.too_deep());
        self.height = height;
        self.counted()
    }

    fn too_deep(&self) -> Box<Diagnostic> {
        let message = format!("expressions are nested deeper than {DEPTH_MAX} levels");
        self.lexer.too_much(self.token, message)
    }

    /// One more statement or expression.
    pub(super) fn counted(&mut self) -> Parsed<()> {
        self.nodes += 1;
        if self.nodes <= self.nodes_max {
            return Ok(());
        }
        let message = format!("the code has more than {} expressions", self.nodes_max);
        Err(self.lexer.too_much(self.token, message))
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
