//! Expressions: printed code calls operators by name, so there are no infix operators.

use super::lexer::{Parsed, TokenKind, unquoted};
use super::parse::Parser;
use crate::diag::refuse;
use crate::syntax::ast::Expr;
use std::rc::Rc;

/// Expressions between brackets.
struct Items {
    items: Vec<Expr>,
    /// Of the tallest.
    height: usize,
    /// Whether a comma stands behind the last one.
    comma: bool,
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.deeper()?;
        let mut expr = self.primary()?;
        let mut height = self.height;
        loop {
            (expr, height) = match self.token.kind {
                TokenKind::Mark(b'.') => {
                    self.advance()?;
                    (Expr::Attribute(Box::new(expr), self.word()?.into()), height)
                }
                TokenKind::Mark(b'[') => self.item(expr, height)?,
                TokenKind::Mark(b'(') => self.call(expr, height)?,
                _ => break,
            };
            height += 1;
            self.grown(height)?;
        }
        self.shallower();
        Ok(expr)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let expr = match self.token.kind {
            TokenKind::Mark(b'(') => return self.parenthesized(),
            TokenKind::Mark(b'[') => {
                self.advance()?;
                let list = self.items(b']')?;
                self.grown(list.height + 1)?;
                return Ok(Expr::List(list.items));
            }
            TokenKind::Mark(b'{') => return self.dict(),
            TokenKind::Mark(b'-') | TokenKind::Int | TokenKind::Float | TokenKind::Imaginary => {
                self.number()?
            }
            TokenKind::Text => Expr::Text(self.text()?),
            TokenKind::Word => return self.named(),
            _ => return Err(self.unexpected("an expression")),
        };
        self.grown(1)?;
        Ok(expr)
    }

    /// `(e)`, `(a, b)`, `(a,)`, `()`
    fn parenthesized(&mut self) -> Parsed<Expr> {
        self.expect(b'(')?;
        let Items { mut items, height, comma } = self.items(b')')?;
        if items.len() == 1 && !comma {
            self.height = height;
            return Ok(items.remove(0));
        }
        self.grown(height + 1)?;
        Ok(Expr::Tuple(items))
    }

    fn dict(&mut self) -> Parsed<Expr> {
        self.expect(b'{')?;
        let (mut entries, mut height) = (Vec::new(), 0);
        self.listed(b'}', |parser| {
            let key = parser.expression()?;
            height = height.max(parser.height);
            parser.expect(b':')?;
            entries.push((key, parser.expression()?));
            height = height.max(parser.height);
            Ok(())
        })?;
        self.grown(height + 1)?;
        Ok(Expr::Dict(entries))
    }

    fn items(&mut self, close: u8) -> Parsed<Items> {
        let (mut items, mut height) = (Vec::new(), 0);
        let comma = self.listed(close, |parser| {
            items.push(parser.expression()?);
            height = height.max(parser.height);
            Ok(())
        })?;
        Ok(Items { items, height, comma })
    }

    /// `e[i]`, `e[a:b]`
    fn item(&mut self, base: Expr, mut height: usize) -> Parsed<(Expr, usize)> {
        self.expect(b'[')?;
        let mut bound = |parser: &mut Self, end: u8| -> Parsed<Option<Box<Expr>>> {
            if parser.sees(end) {
                return Ok(None);
            }
            let bound = parser.expression()?;
            height = height.max(parser.height);
            Ok(Some(Box::new(bound)))
        };
        let base = Box::new(base);
        let first = bound(self, b':')?;
        let expr = match (self.takes(b':')?, first) {
            (true, first) => Expr::Slice(base, first, bound(self, b']')?),
            (false, Some(index)) => Expr::Item(base, index),
            (false, None) => return Err(self.unexpected("an index")),
        };
        self.expect(b']')?;
        Ok((expr, height))
    }

    /// `f(a, b, name=c, )`
    fn call(&mut self, function: Expr, mut height: usize) -> Parsed<(Expr, usize)> {
        self.expect(b'(')?;
        let (mut arguments, mut named) = (Vec::new(), Vec::<(Rc<str>, Expr)>::new());
        self.listed(b')', |parser| {
            let start = parser.token;
            match parser.expression()? {
                Expr::Name(name) if parser.takes(b'=')? => {
                    refuse!(named.iter().any(|(other, _)| *other == name) =>
                        parser.lexer.wrong(start, format!("argument `{name}` is given twice")));
                    named.push((name, parser.expression()?));
                }
                argument if named.is_empty() => arguments.push(argument),
                _ => {
                    let message = "an argument without name stands behind one with a name";
                    return Err(parser.lexer.wrong(start, message));
                }
            }
            height = height.max(parser.height);
            Ok(())
        })?;
        Ok((Expr::Call { function: Box::new(function), arguments, named }, height))
    }

    pub(super) fn text(&mut self) -> Parsed<Rc<str>> {
        refuse!(self.token.kind != TokenKind::Text => self.unexpected("a string"));
        let token = self.advance()?;
        Ok(unquoted(self.lexer.text(token)).into())
    }

    /// A word, and what looks like a call but has types or names in it.
    fn named(&mut self) -> Parsed<Expr> {
        let word = self.lexer.text(self.token);
        if matches!(word, "inf" | "nan" | "infj" | "nanj") {
            let number = self.number()?;
            self.grown(1)?;
            return Ok(number);
        }
        let token = self.advance()?;
        if self.sees(b'(') && is_form(word) {
            self.advance()?;
            let form = self.form(word)?;
            self.takes(b',')?;
            self.expect(b')')?;
            return Ok(form);
        }
        self.grown(1)?;
        Ok(match word {
            "None" => Expr::None,
            "True" => Expr::Bool(true),
            "False" => Expr::Bool(false),
            _ if is_reserved(word) => {
                return Err(self.lexer.wrong(token, format!("printed code has no `{word}` here")));
            }
            _ => Expr::Name(word.into()),
        })
    }

    /// `annotate(T, e)`, `uninitialized(T)`, `unchecked_cast(T, e)`, `isinstance(e, T)`, `getattr(e, "0")` from behind
    /// the bracket.
    fn form(&mut self, word: &str) -> Parsed<Expr> {
        if matches!(word, "isinstance" | "getattr") {
            let of = Box::new(self.expression()?);
            let height = self.height + 1;
            self.expect(b',')?;
            let form = match word {
                "getattr" => Expr::Attribute(of, self.text()?),
                _ => Expr::IsInstance(of, self.classes()?),
            };
            self.grown(height)?;
            return Ok(form);
        }
        let ty = self.whole_type()?;
        if word == "uninitialized" {
            self.grown(1)?;
            return Ok(Expr::Uninitialized(ty));
        }
        self.expect(b',')?;
        let of = Box::new(self.expression()?);
        self.grown(self.height + 1)?;
        Ok(if word == "annotate" { Expr::Annotate(ty, of) } else { Expr::Cast(ty, of) })
    }

    /// `T`, `(T1, T2)`
    fn classes(&mut self) -> Parsed<Vec<crate::syntax::types::Type>> {
        if !self.takes(b'(')? {
            return Ok(vec![self.whole_type()?]);
        }
        let mut types = Vec::new();
        self.listed(b')', |parser| parser.whole_type().map(|ty| types.push(ty)))?;
        Ok(types)
    }

    /// `-3`, `2.5e-05`, `-inf`, `0.+2.j`, `1.-nanj`
    fn number(&mut self) -> Parsed<Expr> {
        let start = self.token;
        let negative = self.takes(b'-')?;
        let sign = if negative { -1.0 } else { 1.0 };
        let token = self.token;
        if token.kind == TokenKind::Int {
            self.advance()?;
            let minus = if negative { "-" } else { "" };
            let digits = format!("{minus}{}", self.lexer.text(token));
            let number = digits.parse().map_err(|_| {
                self.lexer.wrong(start, format!("`{digits}` does not fit an integer of 64 bits"))
            })?;
            return Ok(Expr::Int(number));
        }
        let (real, imaginary) = self.real()?;
        if imaginary {
            return Ok(Expr::Complex(0.0, sign * real));
        }
        if !self.sees(b'+') && !self.sees(b'-') {
            return Ok(Expr::Float(sign * real));
        }
        let minus = self.takes(b'-')?;
        if !minus {
            self.expect(b'+')?;
        }
        let (part, imaginary) = self.real()?;
        refuse!(!imaginary => self.lexer.wrong(start, "the second part of this number lacks its `j`"));
        Ok(Expr::Complex(sign * real, if minus { -part } else { part }))
    }

    /// A number without sign, and whether it has a `j`.
    fn real(&mut self) -> Parsed<(f64, bool)> {
        let token = self.token;
        let text = self.lexer.text(token);
        let known = match token.kind {
            TokenKind::Float | TokenKind::Imaginary => true,
            TokenKind::Word => matches!(text, "inf" | "nan" | "infj" | "nanj"),
            _ => false,
        };
        refuse!(!known => self.unexpected("a number"));
        self.advance()?;
        let digits = text.strip_suffix('j').unwrap_or(text);
        let number = digits
            .parse()
            .map_err(|_| self.lexer.wrong(token, format!("`{text}` is not a number")))?;
        Ok((number, digits.len() < text.len()))
    }
}

fn is_form(word: &str) -> bool {
    matches!(word, "annotate" | "uninitialized" | "unchecked_cast" | "isinstance" | "getattr")
}

/// Words of Python that are no names.
const RESERVED: &str = "and as assert async await break class continue def del elif else except finally for from \
    global if import in is lambda nonlocal not or pass raise return try while with yield";

fn is_reserved(word: &str) -> bool {
    RESERVED.split_whitespace().any(|reserved| reserved == word)
}
