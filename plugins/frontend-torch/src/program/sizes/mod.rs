//! Symbolic sizes: expressions over the symbols of a program.
//!
//! Torch prints them as Python (`2*s0 - 1`) or as the constructors of SymPy (`Add(Mul(Integer(2), Symbol('s0')),
//! Integer(-1))`). Both give the same [`Expr`].

mod evaluate;
mod parse;
mod render;
#[cfg(test)]
mod tests;

use super::SymbolicSize;
use crate::diag::Diagnostic;
use std::collections::HashMap;
use std::rc::Rc;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Int(i64),
    /// `s77` of an input, `u0` of data.
    Symbol(Rc<str>),
    Apply(SizeFunction, Vec<Expr>),
}

/// What is applied to operands. Truth is 1 and 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SizeFunction {
    Add,
    Mul,
    Pow,
    /// Exact; results need not be integers.
    Divide,
    FloorDiv,
    /// With the sign of the divisor.
    Mod,
    Max,
    Min,
    Floor,
    Ceiling,
    Truncate,
    Absolute,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Not,
    /// Of a condition, what it is if that holds, and what else.
    Where,
    /// A function that is not known here, or a number that is no integer; without a value.
    Other(Rc<str>),
}

/// Expressions that were read: graphs repeat the same few.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    known: HashMap<Rc<str>, Rc<Expr>>,
}

impl Expressions {
    /// The expression of a size.
    pub(crate) fn expression_of(&mut self, size: &SymbolicSize) -> Result<Rc<Expr>, Diagnostic> {
        let text = match size {
            SymbolicSize::Known(number) => return Ok(Rc::new(Expr::Int(*number))),
            SymbolicSize::Symbolic(text) => text,
        };
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        let expr = Rc::new(Expr::parse(text)?);
        self.known.insert(text.clone(), expr.clone());
        Ok(expr)
    }
}

impl Expr {
    /// The symbols in it, each once, in the order in which they stand.
    pub(crate) fn symbols(&self) -> Vec<&Rc<str>> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Rc<str>>) {
        match self {
            Expr::Int(_) => {}
            Expr::Symbol(symbol) if found.contains(&symbol) => {}
            Expr::Symbol(symbol) => found.push(symbol),
            Expr::Apply(_, operands) => operands.iter().for_each(|operand| operand.collect(found)),
        }
    }
}
