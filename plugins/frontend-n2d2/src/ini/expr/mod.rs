//! The arithmetic of `$( … )`: integers and floats with Python's operators and precedence.
//!
//! N2D2 hands the text to a Python interpreter; a network file must not be able to run programs.

mod lexer;
mod parser;

use crate::diag::refuse;
use std::fmt;

/// Longest expression, in bytes.
const LENGTH_MAX: usize = 4096;

/// A number as Python keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(i) => write!(f, "{i}"),
            Number::Float(x) => write!(f, "{x:?}"),
        }
    }
}

/// Value of an expression, or why it has none.
pub(super) fn evaluate(text: &str) -> Result<Number, String> {
    refuse!(text.len() > LENGTH_MAX => "it is longer than {LENGTH_MAX} bytes");
    parser::parse(text)?.value()
}

/// Signs and what stands at their right.
type Operands = Vec<(&'static str, Tree)>;

enum Tree {
    Number(Number),
    Negate(Box<Tree>),
    Not(Box<Tree>),
    Power(Box<Tree>, Box<Tree>),
    /// Operands of equal precedence, applied from the left.
    Chain(Box<Tree>, Operands),
    /// `a < b <= c`: every neighbouring pair must hold.
    Compare(Box<Tree>, Operands),
    And(Vec<Tree>),
    Or(Vec<Tree>),
    Call(Function, Vec<Tree>),
    If {
        condition: Box<Tree>,
        then: Box<Tree>,
        other: Box<Tree>,
    },
}

#[derive(Clone, Copy)]
enum Function {
    Int,
    Float,
    Max,
    Min,
    Round,
    Abs,
}

type Evaluated = Result<Number, String>;

impl Tree {
    fn value(&self) -> Evaluated {
        match self {
            Tree::Number(number) => Ok(*number),
            Tree::Negate(operand) => apply("-", Number::Int(0), operand.value()?),
            Tree::Not(operand) => Ok(truth(!operand.value()?.is_true())),
            Tree::Power(base, exponent) => apply("**", base.value()?, exponent.value()?),
            Tree::Chain(first, rest) => {
                rest.iter().try_fold(first.value()?, |sum, (sign, operand)| {
                    apply(sign, sum, operand.value()?)
                })
            }
            Tree::Compare(first, rest) => compare(first, rest),
            Tree::And(all) => first_where(all, |n| !n.is_true()),
            Tree::Or(any) => first_where(any, Number::is_true),
            Tree::Call(function, arguments) => {
                let values: Vec<Number> =
                    arguments.iter().map(Tree::value).collect::<Result<_, _>>()?;
                call(*function, &values)
            }
            Tree::If { condition, then, other } => {
                if condition.value()?.is_true() {
                    then.value()
                } else {
                    other.value()
                }
            }
        }
    }
}

/// Python's `and` and `or`: the first operand that decides, else the last.
fn first_where(operands: &[Tree], decides: fn(&Number) -> bool) -> Evaluated {
    let mut last = truth(false);
    for operand in operands {
        last = operand.value()?;
        if decides(&last) {
            break;
        }
    }
    Ok(last)
}

fn compare(first: &Tree, rest: &[(&str, Tree)]) -> Evaluated {
    let mut left = first.value()?;
    for (sign, operand) in rest {
        let right = operand.value()?;
        let order = match (left, right) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            _ => left.float().total_cmp(&right.float()),
        };
        let holds = match *sign {
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            ">=" => order.is_ge(),
            "==" => order.is_eq(),
            _ => order.is_ne(),
        };
        if !holds {
            return Ok(truth(false));
        }
        left = right;
    }
    Ok(truth(true))
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }

    fn is_true(&self) -> bool {
        self.float() != 0.0
    }
}

fn truth(holds: bool) -> Number {
    Number::Int(i64::from(holds))
}

/// Negative zero is made positive so that it compares equal and prints alike.
fn finite(float: f64) -> Evaluated {
    if float.is_finite() { Ok(Number::Float(float + 0.0)) } else { Err(overflow()) }
}

fn overflow() -> String {
    "the result is too large, or not a number".into()
}

fn apply(sign: &str, a: Number, b: Number) -> Evaluated {
    let divides = matches!(sign, "/" | "//" | "%") || (sign == "**" && b.float() < 0.0);
    let divisor = if sign == "**" { a } else { b };
    refuse!(divides && !divisor.is_true() => "it divides by zero");
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => apply_int(sign, a, b),
        _ => apply_float(sign, a.float(), b.float()),
    }
}

fn apply_int(sign: &str, a: i64, b: i64) -> Evaluated {
    let result = match sign {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" if a.checked_rem(b) != Some(0) => return finite(a as f64 / b as f64),
        "/" => a.checked_div(b),
        "//" => floor_divide(a, b),
        "%" => floor_divide(a, b).map(|q| a - q * b),
        _ => match u32::try_from(b) {
            Ok(exponent) => a.checked_pow(exponent),
            Err(_) if b < 0 => return finite((a as f64).powf(b as f64)),
            Err(_) if a.abs() <= 1 => Some(if b % 2 == 0 { a * a } else { a }),
            Err(_) => None,
        },
    };
    result.map(Number::Int).ok_or_else(overflow)
}

/// Rounds toward minus infinity.
fn floor_divide(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    Some(quotient - i64::from(a % b != 0 && (a < 0) != (b < 0)))
}

fn apply_float(sign: &str, a: f64, b: f64) -> Evaluated {
    finite(match sign {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        "%" => a - b * (a / b).floor(),
        _ => a.powf(b),
    })
}

fn call(function: Function, arguments: &[Number]) -> Evaluated {
    match (function, arguments) {
        (Function::Int, [Number::Float(f)]) => integer(f.trunc()),
        (Function::Int, [int]) => Ok(*int),
        (Function::Float, [number]) => Ok(Number::Float(number.float())),
        (Function::Abs, [Number::Int(i)]) => i.checked_abs().map(Number::Int).ok_or_else(overflow),
        (Function::Abs, [Number::Float(f)]) => Ok(Number::Float(f.abs())),
        (Function::Round, [Number::Float(f)]) => integer(f.round_ties_even()),
        (Function::Round, [int]) => Ok(*int),
        (Function::Round, [number, Number::Int(digits @ 0..=15)]) => {
            let unit = 10_f64.powi(*digits as i32);
            finite((number.float() * unit).round_ties_even() / unit)
        }
        (Function::Max, [first, rest @ ..]) => Ok(pick(*first, rest, f64::gt)),
        (Function::Min, [first, rest @ ..]) => Ok(pick(*first, rest, f64::lt)),
        (_, all) => Err(format!("a function does not take {} arguments", all.len())),
    }
}

fn integer(float: f64) -> Evaluated {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if float.abs() < LIMIT { Ok(Number::Int(float as i64)) } else { Err(overflow()) }
}

fn pick(first: Number, rest: &[Number], better: fn(&f64, &f64) -> bool) -> Number {
    let choose = |best: Number, n: &Number| {
        if better(&n.float(), &best.float()) { *n } else { best }
    };
    rest.iter().fold(first, choose)
}

#[cfg(test)]
mod tests;
