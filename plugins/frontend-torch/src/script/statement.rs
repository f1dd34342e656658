//! Statements and blocks.

use super::lexer::{Parsed, Token, TokenKind};
use super::parse::Parser;
use crate::diag::refuse;
use crate::syntax::ast::{AssignTarget, Expr, Statement, StatementKind};

impl Parser<'_> {
    /// `:` and the statements behind it. The lexer limits how deep blocks nest.
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.expect(b':')?;
        if self.token.kind != TokenKind::Newline {
            let start = self.token;
            let kind = self.simple()?;
            return Ok(vec![self.placed(start, kind)?]);
        }
        self.advance()?;
        refuse!(self.token.kind != TokenKind::Indent => self.unexpected("an indented block"));
        self.advance()?;
        let mut statements = Vec::new();
        while self.token.kind != TokenKind::Dedent {
            let start = self.token;
            let kind = self.statement()?;
            statements.push(self.placed(start, kind)?);
        }
        self.advance()?;
        Ok(statements)
    }

    fn placed(&mut self, start: Token, kind: StatementKind) -> Parsed<Statement> {
        self.counted()?;
        Ok(Statement { line: start.line, kind })
    }

    fn statement(&mut self) -> Parsed<StatementKind> {
        if self.token.kind != TokenKind::Word {
            return self.simple();
        }
        match self.lexer.text(self.token) {
            "if" => self.condition(),
            "for" => self.for_loop(),
            "while" => {
                self.advance()?;
                let condition = self.expression()?;
                Ok(StatementKind::While { condition, body: self.block()? })
            }
            "with" => self.context(),
            "def" => Ok(StatementKind::Define(self.function()?.into())),
            _ => self.simple(),
        }
    }

    fn condition(&mut self) -> Parsed<StatementKind> {
        self.advance()?;
        let condition = self.expression()?;
        let then = self.block()?;
        let otherwise = if self.takes_word("else")? { self.block()? } else { Vec::new() };
        Ok(StatementKind::If { condition, then, otherwise })
    }

    fn for_loop(&mut self) -> Parsed<StatementKind> {
        self.advance()?;
        let target = self.word()?.into();
        refuse!(!self.takes_word("in")? => self.unexpected("`in`"));
        let iterable = self.expression()?;
        Ok(StatementKind::For { target, iterable, body: self.block()? })
    }

    fn context(&mut self) -> Parsed<StatementKind> {
        self.advance()?;
        let context = self.expression()?;
        let target = if self.takes_word("as")? { Some(self.word()?.into()) } else { None };
        Ok(StatementKind::With { context, target, body: self.block()? })
    }

    /// A statement of one line, with its end.
    fn simple(&mut self) -> Parsed<StatementKind> {
        let kind = if self.takes_word("pass")? {
            StatementKind::Pass
        } else if self.takes_word("return")? {
            StatementKind::Return(self.returned()?)
        } else {
            self.assignment()?
        };
        self.end_line()?;
        Ok(kind)
    }

    /// `return`, `return e`, `return a, b`
    fn returned(&mut self) -> Parsed<Option<Expr>> {
        if matches!(self.token.kind, TokenKind::Newline | TokenKind::Dedent | TokenKind::End) {
            return Ok(None);
        }
        let (mut values, comma) = self.row()?;
        Ok(if values.len() == 1 && !comma { values.pop() } else { Some(Expr::Tuple(values)) })
    }

    /// Expressions up to the end of a side, and whether a comma stands behind the last one.
    fn row(&mut self) -> Parsed<(Vec<Expr>, bool)> {
        let (mut row, mut tallest) = (vec![self.expression()?], self.height);
        while self.takes(b',')? {
            if self.sees(b'=')
                || matches!(
                    self.token.kind,
                    TokenKind::Newline | TokenKind::Dedent | TokenKind::End
                )
            {
                return Ok((row, true));
            }
            row.push(self.expression()?);
            tallest = tallest.max(self.height);
        }
        // A row may become a tuple.
        self.grown(tallest + 1)?;
        Ok((row, false))
    }

    fn assignment(&mut self) -> Parsed<StatementKind> {
        let start = self.token;
        let (mut left, comma) = self.row()?;
        if left.len() == 1 && !comma {
            if self.takes(b':')? {
                self.whole_type()?;
                let Some(Expr::Name(name)) = left.pop() else {
                    return Err(self.lexer.wrong(start, "only a name can be declared"));
                };
                self.expect(b'=')?;
                let targets = vec![AssignTarget::Name(name)];
                let values = vec![self.expression()?];
                return Ok(StatementKind::Assign { targets, unpack: false, values });
            }
            if !self.sees(b'=') {
                return Ok(StatementKind::Expression(left.remove(0)));
            }
        }
        self.expect(b'=')?;
        let targets = left
            .into_iter()
            .map(|expr| target(expr).ok_or_else(|| self.lexer.wrong(start, "no value fits here")))
            .collect::<Parsed<Vec<AssignTarget>>>()?;
        let (values, _) = self.row()?;
        let unpack = values.len() == 1 && (comma || targets.len() > 1);
        refuse!(!unpack && values.len() != targets.len() =>
            self.lexer.wrong(start, format!("{} values do not fit {} names", values.len(), targets.len())));
        Ok(StatementKind::Assign { targets, unpack, values })
    }
}

fn target(expr: Expr) -> Option<AssignTarget> {
    match expr {
        Expr::Name(name) => Some(AssignTarget::Name(name)),
        Expr::Attribute(object, name) => Some(AssignTarget::Attribute(*object, name)),
        Expr::Item(container, key) => Some(AssignTarget::Item(*container, *key)),
        _ => None,
    }
}
