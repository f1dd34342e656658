//! Writes expressions as names of dimensions: `2*batch - 1`.

use super::{Expr, SizeFunction};
use std::fmt::Write;

/// How tightly operators bind, as in Python.
const RELATION: u8 = 0;
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const POWER: u8 = 3;
const ATOM: u8 = 4;

impl Expr {
    /// As Python writes it, with the user's names for symbols that have one.
    pub(crate) fn render(&self, name: &dyn Fn(&str) -> Option<String>) -> String {
        self.binding(name).0
    }

    /// Its text, and how tightly its outermost operator binds.
    fn binding(&self, name: &dyn Fn(&str) -> Option<String>) -> (String, u8) {
        let (function, operands) = match self {
            Expr::Int(number) => return (number.to_string(), if *number < 0 { SUM } else { ATOM }),
            Expr::Symbol(symbol) => {
                return (name(symbol).unwrap_or_else(|| symbol.to_string()), ATOM);
            }
            Expr::Apply(SizeFunction::Add, terms) => return (sum(terms, name), SUM),
            Expr::Apply(function, operands) => (function, operands),
        };
        let (between, binds) = match function {
            SizeFunction::Mul => ("*", PRODUCT),
            SizeFunction::Divide => ("/", PRODUCT),
            SizeFunction::FloorDiv => ("//", PRODUCT),
            SizeFunction::Mod => ("%", PRODUCT),
            SizeFunction::Pow => ("**", POWER),
            SizeFunction::Equal => (" == ", RELATION),
            SizeFunction::Unequal => (" != ", RELATION),
            SizeFunction::Less => (" < ", RELATION),
            SizeFunction::LessEqual => (" <= ", RELATION),
            SizeFunction::Greater => (" > ", RELATION),
            SizeFunction::GreaterEqual => (" >= ", RELATION),
            other => return (call(other, operands, name), ATOM),
        };
        // The first operand of a product may be a product: Python reads from the left.
        let mut texts = operands.iter().enumerate().map(|(at, operand)| {
            let (text, inner) = operand.binding(name);
            let fits = inner > binds || (inner == PRODUCT && binds == PRODUCT && at == 0);
            if fits { text } else { format!("({text})") }
        });
        let first = texts.next().unwrap_or_default();
        (texts.fold(first, |all, text| all + between + &text), binds)
    }
}

/// `a + 2*b - 1`
fn sum(terms: &[Expr], name: &dyn Fn(&str) -> Option<String>) -> String {
    let mut all = String::new();
    for term in terms {
        let (sign, (text, binds)) = match opposite(term) {
            Some(opposite) if !all.is_empty() => (" - ", opposite.binding(name)),
            _ => (if all.is_empty() { "" } else { " + " }, term.binding(name)),
        };
        let text = if binds <= SUM && !all.is_empty() { format!("({text})") } else { text };
        // Writing to a text cannot fail.
        let _ = write!(all, "{sign}{text}");
    }
    all
}

/// Of `-3` and `-3*a`: what is subtracted instead.
fn opposite(term: &Expr) -> Option<Expr> {
    match term {
        Expr::Int(number) if *number < 0 => number.checked_neg().map(Expr::Int),
        Expr::Apply(SizeFunction::Mul, factors) => match factors.as_slice() {
            [Expr::Int(-1), factor] => Some(factor.clone()),
            [Expr::Int(-1), rest @ ..] => Some(Expr::Apply(SizeFunction::Mul, rest.to_vec())),
            [Expr::Int(number), rest @ ..] if *number < 0 => {
                let factors = [&[Expr::Int(number.checked_neg()?)], rest].concat();
                Some(Expr::Apply(SizeFunction::Mul, factors))
            }
            _ => None,
        },
        _ => None,
    }
}

fn call(
    function: &SizeFunction,
    operands: &[Expr],
    name: &dyn Fn(&str) -> Option<String>,
) -> String {
    let word = match function {
        SizeFunction::Max => "Max",
        SizeFunction::Min => "Min",
        SizeFunction::Floor => "floor",
        SizeFunction::Ceiling => "ceiling",
        SizeFunction::Truncate => "trunc",
        SizeFunction::Absolute => "Abs",
        SizeFunction::And => "And",
        SizeFunction::Or => "Or",
        SizeFunction::Not => "Not",
        SizeFunction::Where => "Where",
        SizeFunction::Other(number) if operands.is_empty() => return number.to_string(),
        SizeFunction::Other(word) => word,
        _ => unreachable!("operators between operands are written by `binding`"),
    };
    let operands: Vec<_> = operands.iter().map(|operand| operand.render(name)).collect();
    format!("{word}({})", operands.join(", "))
}
