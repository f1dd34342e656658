//! Values of expressions, computed with exact fractions.

use super::{Expr, SizeFunction};

/// A fraction in lowest terms; what is below is positive.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fraction {
    above: i128,
    below: i128,
}

impl Expr {
    /// The value for known symbols; none if a symbol or function is not known, or the value is no `i64`.
    pub(crate) fn evaluate(&self, known: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let value = self.fraction(known)?;
        (value.below == 1).then(|| value.above.try_into().ok())?
    }

    fn fraction(&self, known: &dyn Fn(&str) -> Option<i64>) -> Option<Fraction> {
        let (function, operands) = match self {
            Expr::Int(number) => return Some(Fraction::whole((*number).into())),
            Expr::Symbol(symbol) => {
                return known(symbol).map(|number| Fraction::whole(number.into()));
            }
            Expr::Apply(function, operands) => (function, operands),
        };
        let values: Vec<_> =
            operands.iter().map(|operand| operand.fraction(known)).collect::<Option<_>>()?;
        apply(function, &values)
    }
}

fn apply(function: &SizeFunction, values: &[Fraction]) -> Option<Fraction> {
    let fold = |join: fn(Fraction, Fraction) -> Option<Fraction>| {
        let (first, rest) = values.split_first()?;
        rest.iter().try_fold(*first, |result, value| join(result, *value))
    };
    let truth = |truth: bool| Some(Fraction::whole(truth.into()));
    match (function, values) {
        (SizeFunction::Add, _) => fold(Fraction::plus),
        (SizeFunction::Mul, _) => fold(Fraction::times),
        (SizeFunction::Max, _) => fold(|a, b| Some(if b.less(a)? { a } else { b })),
        (SizeFunction::Min, _) => fold(|a, b| Some(if b.less(a)? { b } else { a })),
        (SizeFunction::And, _) => truth(values.iter().all(|value| value.above != 0)),
        (SizeFunction::Or, _) => truth(values.iter().any(|value| value.above != 0)),
        (SizeFunction::Pow, [base, exponent]) => base.power(*exponent),
        (SizeFunction::Divide, [a, b]) => a.over(*b),
        (SizeFunction::FloorDiv, [a, b]) => a.over(*b).map(Fraction::floor),
        (SizeFunction::Mod, [a, b]) => a.plus(a.over(*b)?.floor().times(*b)?.opposite()?),
        (SizeFunction::Floor, [value]) => Some(value.floor()),
        (SizeFunction::Ceiling, [value]) => value.opposite()?.floor().opposite(),
        (SizeFunction::Truncate, [value]) => Some(Fraction::whole(value.above / value.below)),
        (SizeFunction::Absolute, [value]) => {
            if value.above < 0 {
                value.opposite()
            } else {
                Some(*value)
            }
        }
        (SizeFunction::Equal, [a, b]) => truth(a == b),
        (SizeFunction::Unequal, [a, b]) => truth(a != b),
        (SizeFunction::Less, [a, b]) => truth(a.less(*b)?),
        (SizeFunction::LessEqual, [a, b]) => truth(!b.less(*a)?),
        (SizeFunction::Greater, [a, b]) => truth(b.less(*a)?),
        (SizeFunction::GreaterEqual, [a, b]) => truth(!a.less(*b)?),
        (SizeFunction::Not, [value]) => truth(value.above == 0),
        (SizeFunction::Where, [condition, then, otherwise]) => {
            Some(if condition.above == 0 { *otherwise } else { *then })
        }
        _ => None,
    }
}

/// Operations give nothing where numbers grow too large.
impl Fraction {
    fn whole(number: i128) -> Fraction {
        Fraction { above: number, below: 1 }
    }

    fn new(above: i128, below: i128) -> Option<Fraction> {
        if below == 0 {
            return None;
        }
        let common = common_divisor(above.checked_abs()?, below.checked_abs()?);
        let sign = below.signum();
        Some(Fraction { above: above / common * sign, below: below / common * sign })
    }

    fn plus(self, other: Fraction) -> Option<Fraction> {
        let (one, two) =
            (self.above.checked_mul(other.below)?, other.above.checked_mul(self.below)?);
        Fraction::new(one.checked_add(two)?, self.below.checked_mul(other.below)?)
    }

    fn times(self, other: Fraction) -> Option<Fraction> {
        Fraction::new(self.above.checked_mul(other.above)?, self.below.checked_mul(other.below)?)
    }

    fn over(self, other: Fraction) -> Option<Fraction> {
        Fraction::new(self.above.checked_mul(other.below)?, self.below.checked_mul(other.above)?)
    }

    fn opposite(self) -> Option<Fraction> {
        Some(Fraction { above: self.above.checked_neg()?, below: self.below })
    }

    fn floor(self) -> Fraction {
        Fraction::whole(self.above.div_euclid(self.below))
    }

    fn less(self, other: Fraction) -> Option<bool> {
        Some(self.above.checked_mul(other.below)? < other.above.checked_mul(self.below)?)
    }

    /// To a whole power.
    fn power(self, exponent: Fraction) -> Option<Fraction> {
        let exponent = (exponent.below == 1).then(|| i32::try_from(exponent.above).ok())??;
        let times = exponent.unsigned_abs();
        let (above, below) = (self.above.checked_pow(times)?, self.below.checked_pow(times)?);
        if exponent < 0 { Fraction::new(below, above) } else { Fraction::new(above, below) }
    }
}

fn common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
