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
pub(super) enum ExprNumber {
    Int(i64),
    Float(f64),
}

impl fmt::Display for ExprNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExprNumber::Int(i) => write!(f, "{i}"),
            ExprNumber::Float(x) => write!(f, "{x:?}"),
        }
    }
}

/// Value of an expression, or why it has none.
pub(super) fn evaluate(text: &str) -> Result<ExprNumber, String> {
    refuse!(text.len() > LENGTH_MAX => "it is longer than {LENGTH_MAX} bytes");
    parser::parse(text)?.value()
}

/// Signs and what stands at their right.
type ChainOperands = Vec<(&'static str, ExprTree)>;

enum ExprTree {
    Number(ExprNumber),
    Negate(Box<ExprTree>),
    Not(Box<ExprTree>),
    Power(Box<ExprTree>, Box<ExprTree>),
    /// Operands of equal precedence, applied from the left.
    Chain(Box<ExprTree>, ChainOperands),
    /// `a < b <= c`: every neighbouring pair must hold.
    Compare(Box<ExprTree>, ChainOperands),
    And(Vec<ExprTree>),
    Or(Vec<ExprTree>),
    Call(ExprFunction, Vec<ExprTree>),
    If {
        condition: Box<ExprTree>,
        then: Box<ExprTree>,
        other: Box<ExprTree>,
    },
}

#[derive(Clone, Copy)]
enum ExprFunction {
    Int,
    Float,
    Max,
    Min,
    Round,
    Abs,
}

type Evaluated = Result<ExprNumber, String>;

impl ExprTree {
    fn value(&self) -> Evaluated {
        match self {
            ExprTree::Number(number) => Ok(*number),
            ExprTree::Negate(operand) => apply("-", ExprNumber::Int(0), operand.value()?),
            ExprTree::Not(operand) => Ok(truth(!operand.value()?.is_true())),
            ExprTree::Power(base, exponent) => apply("**", base.value()?, exponent.value()?),
            ExprTree::Chain(first, rest) => {
                rest.iter().try_fold(first.value()?, |sum, (sign, operand)| {
                    apply(sign, sum, operand.value()?)
                })
            }
            ExprTree::Compare(first, rest) => compare(first, rest),
            ExprTree::And(all) => first_where(all, |n| !n.is_true()),
            ExprTree::Or(any) => first_where(any, ExprNumber::is_true),
            ExprTree::Call(function, arguments) => {
                let values: Vec<ExprNumber> =
                    arguments.iter().map(ExprTree::value).collect::<Result<_, _>>()?;
                call(*function, &values)
            }
            ExprTree::If { condition, then, other } => {
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
fn first_where(operands: &[ExprTree], decides: fn(&ExprNumber) -> bool) -> Evaluated {
    let mut last = truth(false);
    for operand in operands {
        last = operand.value()?;
        if decides(&last) {
            break;
        }
    }
    Ok(last)
}

fn compare(first: &ExprTree, rest: &[(&str, ExprTree)]) -> Evaluated {
    let mut left = first.value()?;
    for (sign, operand) in rest {
        let right = operand.value()?;
        let order = match (left, right) {
            (ExprNumber::Int(a), ExprNumber::Int(b)) => a.cmp(&b),
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

impl ExprNumber {
    fn float(self) -> f64 {
        match self {
            ExprNumber::Int(i) => i as f64,
            ExprNumber::Float(f) => f,
        }
    }

    fn is_true(&self) -> bool {
        self.float() != 0.0
    }
}

fn truth(holds: bool) -> ExprNumber {
    ExprNumber::Int(i64::from(holds))
}

/// Negative zero is made positive so that it compares equal and prints alike.
fn finite(float: f64) -> Evaluated {
    if float.is_finite() { Ok(ExprNumber::Float(float + 0.0)) } else { Err(overflow()) }
}

fn overflow() -> String {
    "the result is too large, or not a number".into()
}

fn apply(sign: &str, a: ExprNumber, b: ExprNumber) -> Evaluated {
    let divides = matches!(sign, "/" | "//" | "%") || (sign == "**" && b.float() < 0.0);
    let divisor = if sign == "**" { a } else { b };
    refuse!(divides && !divisor.is_true() => "it divides by zero");
    match (a, b) {
        (ExprNumber::Int(a), ExprNumber::Int(b)) => apply_int(sign, a, b),
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
    result.map(ExprNumber::Int).ok_or_else(overflow)
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

fn call(function: ExprFunction, arguments: &[ExprNumber]) -> Evaluated {
    match (function, arguments) {
        (ExprFunction::Int, [ExprNumber::Float(f)]) => integer(f.trunc()),
        (ExprFunction::Int, [int]) => Ok(*int),
        (ExprFunction::Float, [number]) => Ok(ExprNumber::Float(number.float())),
        (ExprFunction::Abs, [ExprNumber::Int(i)]) => {
            i.checked_abs().map(ExprNumber::Int).ok_or_else(overflow)
        }
        (ExprFunction::Abs, [ExprNumber::Float(f)]) => Ok(ExprNumber::Float(f.abs())),
        (ExprFunction::Round, [ExprNumber::Float(f)]) => integer(f.round_ties_even()),
        (ExprFunction::Round, [int]) => Ok(*int),
        (ExprFunction::Round, [number, ExprNumber::Int(digits @ 0..=15)]) => {
            let unit = 10_f64.powi(*digits as i32);
            finite((number.float() * unit).round_ties_even() / unit)
        }
        (ExprFunction::Max, [first, rest @ ..]) => Ok(pick(*first, rest, f64::gt)),
        (ExprFunction::Min, [first, rest @ ..]) => Ok(pick(*first, rest, f64::lt)),
        (_, all) => Err(format!("a function does not take {} arguments", all.len())),
    }
}

fn integer(float: f64) -> Evaluated {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if float.abs() < LIMIT { Ok(ExprNumber::Int(float as i64)) } else { Err(overflow()) }
}

fn pick(first: ExprNumber, rest: &[ExprNumber], better: fn(&f64, &f64) -> bool) -> ExprNumber {
    let choose = |best: ExprNumber, n: &ExprNumber| {
        if better(&n.float(), &best.float()) { *n } else { best }
    };
    rest.iter().fold(first, choose)
}

#[cfg(test)]
mod tests;
