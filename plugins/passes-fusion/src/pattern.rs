//! Formulas as patterns: what computes a value, as one expression.
//!
//! ```text
//! x * Sigmoid({alpha} * x)
//! d / Sqrt(ReduceMean(d * d) + {epsilon}); d = x - ReduceMean(x)
//! ```
//!
//! A name stands for one value wherever it is written, `{name}` for a constant of one element, and `Name(...)` for an
//! operator without attributes; `name?` need not be there. What a name stands for may be said after the expression.
//! Other products and sums are taken apart only if they are read once. All reductions run along the same axes.
//!
//! Products and sums are compared as [`Parts`] has them, in any order and with their numbers multiplied out: a value may
//! be a multiple of the expression that it is compared with, if the product around it makes up for that.

use crate::parts::{Divisor, Parts, Reduction, unlike};
use onnxd_plugin_sdk::ir::ValueId;
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};
use std::sync::OnceLock;

/// An expression, which is parsed when it is looked for first.
pub(crate) struct Pattern {
    text: &'static str,
    parsed: OnceLock<Formula>,
}

/// What the names of a pattern stand for.
#[derive(Clone, Default)]
pub(crate) struct Found {
    values: Vec<(&'static str, ValueId)>,
    numbers: Vec<(&'static str, f64)>,
    reduction: Option<Reduction>,
}

impl Found {
    /// The value called `name`.
    pub(crate) fn value(&self, name: &str) -> ValueId {
        self.optional(name).expect("the pattern has this name")
    }

    /// The value called `name`, if there is one.
    pub(crate) fn optional(&self, name: &str) -> Option<ValueId> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, v)| *v)
    }

    /// The number called `name`.
    pub(crate) fn number(&self, name: &str) -> f64 {
        let found = self.numbers.iter().find(|(known, _)| *known == name);
        found.map(|(_, number)| *number).expect("the pattern has this number")
    }

    /// What the reductions run along.
    pub(crate) fn reduction(&self) -> &Reduction {
        self.reduction.as_ref().expect("the pattern has a reduction")
    }
}

impl Pattern {
    pub(crate) const fn new(text: &'static str) -> Pattern {
        Pattern { text, parsed: OnceLock::new() }
    }

    /// What the names stand for where `out` is computed like this, and nothing else reads what its nodes compute.
    pub(crate) fn at(&self, cx: &Rewriter, out: ValueId) -> Result<Found, Skip> {
        let parts = Parts::of(cx, out);
        let found = self.find(&parts, out)?;
        parts.closed().map(|()| found)
    }

    /// What the names stand for where `out` is computed like this.
    pub(crate) fn find(&self, parts: &Parts, out: ValueId) -> Result<Found, Skip> {
        let formula = self.parsed.get_or_init(|| Formula::parse(self.text));
        let mut matcher = Matcher { parts, formula, root: out, found: Found::default(), why: None };
        match matcher.attempt(|m| m.is(&formula.root, out, false)) {
            Some(()) => Ok(matcher.found),
            None => Err(matcher.why.unwrap_or_else(unlike)),
        }
    }
}

/// The first of the patterns that [`Pattern::at`] finds, by its name.
pub(crate) fn first(
    cx: &Rewriter,
    out: ValueId,
    patterns: &[(&'static str, Pattern)],
) -> Result<(&'static str, Found), Skip> {
    let mut why = unlike();
    for (name, pattern) in patterns {
        match pattern.at(cx, out) {
            Ok(found) => return Ok((name, found)),
            Err(skip) if why.0.is_empty() => why = skip,
            Err(_) => {}
        }
    }
    Err(why)
}

struct Formula {
    root: Expr,
    definitions: Vec<(&'static str, Expr)>,
}

/// In lists, names come last: any value may fit them.
enum Expr {
    Op(&'static str, Box<Expr>),
    Product { scale: Number, factors: Vec<Expr>, divisor: Option<Box<Expr>> },
    Sum { constant: Number, terms: Vec<Expr> },
    Name(&'static str),
    Optional(&'static str),
}

#[derive(Clone, Copy, PartialEq)]
enum Number {
    Is(f64),
    Named(&'static str),
}

struct Matcher<'a, 'g> {
    parts: &'a Parts<'a, 'g>,
    formula: &'a Formula,
    root: ValueId,
    found: Found,
    /// Why a reduction is not known to be one of the pattern.
    why: Option<Skip>,
}

impl<'a> Matcher<'a, '_> {
    /// Forgets what `f` found if it does not match.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (parts, before) = (self.parts, self.found.clone());
        let found = parts.attempt(|| f(self).ok_or_else(unlike)).ok();
        if found.is_none() {
            self.found = before;
        }
        found
    }

    fn equal(&self, found: f64, wanted: f64) -> Option<()> {
        self.parts.is(found, wanted, self.root).then_some(())
    }

    /// Whether `v` is what the expression says; a `shared` value may be read more than once.
    fn is(&mut self, expr: &'a Expr, v: ValueId, shared: bool) -> Option<()> {
        let times = self.multiple(expr, v, shared)?;
        self.equal(times, 1.0)
    }

    /// `k`, if `v` is `k` times the expression.
    fn multiple(&mut self, expr: &'a Expr, v: ValueId, shared: bool) -> Option<f64> {
        match expr {
            Expr::Product { scale, factors, divisor } => {
                let found = self.parts.quotient(v, shared);
                let values: Vec<_> = found.factors.iter().map(|v| (1.0, *v)).collect();
                let above: f64 = self.each(factors, &values)?.iter().product();
                let below = match (divisor, &found.divisors[..]) {
                    (None, []) => 1.0,
                    (Some(expr), [divisor]) => self.divides(expr, *divisor)?,
                    _ => return None,
                };
                Some(self.ratio(found.scale * above / below, *scale))
            }
            Expr::Sum { constant, terms } => {
                let sum = self.parts.sum(v, shared, *constant != Number::Is(0.0));
                let multiples = self.each(terms, &sum.terms)?;
                let times = *multiples.first()?;
                multiples.iter().try_for_each(|other| self.equal(*other, times))?;
                match constant {
                    Number::Is(c) => self.equal(sum.constant, times * c)?,
                    Number::Named(_) => drop(self.ratio(sum.constant / times, *constant)),
                }
                Some(times)
            }
            _ => self.attempt(|m| m.exactly(expr, v).map(|()| 1.0)).or_else(|| {
                let product = self.parts.quotient(v, shared);
                match (&product.factors[..], &product.divisors[..]) {
                    ([factor], []) => self.exactly(expr, *factor).map(|()| product.scale),
                    _ => None,
                }
            }),
        }
    }

    /// How many times `number` is `found`: once, if it is what a name stands for.
    fn ratio(&mut self, found: f64, number: Number) -> f64 {
        match number {
            Number::Is(number) => found / number,
            Number::Named(name) => {
                self.found.numbers.push((name, found));
                1.0
            }
        }
    }

    /// How many times the expression the divisor is.
    fn divides(&mut self, expr: &'a Expr, divisor: Divisor) -> Option<f64> {
        match (divisor, expr) {
            (Divisor::Value(v), _) => self.multiple(expr, v, false),
            (Divisor::RootOf(v), Expr::Op("Sqrt", x)) => self.is(x, v, false).map(|()| 1.0),
            (Divisor::RootOf(_), _) => None,
        }
    }

    /// How many times each expression one of the values is, in any order; each value has a factor beside it.
    fn each(&mut self, exprs: &'a [Expr], values: &[(f64, ValueId)]) -> Option<Vec<f64>> {
        let (first, rest) = match exprs {
            [] | [Expr::Optional(_)] if values.is_empty() => return Some(vec![]),
            [] => return None,
            [first, rest @ ..] => (first, rest),
        };
        (0..values.len()).find_map(|i| {
            self.attempt(|m| {
                let mut others = values.to_vec();
                let (factor, v) = others.remove(i);
                let times = factor * m.multiple(first, v, false)?;
                Some([vec![times], m.each(rest, &others)?].concat())
            })
        })
    }

    /// Whether `v` is what the name or the operator says.
    fn exactly(&mut self, expr: &'a Expr, v: ValueId) -> Option<()> {
        let (parts, formula) = (self.parts, self.formula);
        match expr {
            Expr::Name(name) | Expr::Optional(name) => match self.found.optional(name) {
                Some(known) => (known == v).then_some(()),
                None => {
                    self.found.values.push((name, v));
                    let mut all = formula.definitions.iter();
                    let definition = all.find(|(defined, _)| defined == name);
                    definition.map_or(Some(()), |(_, expr)| self.is(expr, v, true))
                }
            },
            Expr::Op(op, x) if op.starts_with("Reduce") => {
                let reduction = parts.reduction(op, v);
                let reduction = reduction.map_err(|why| self.why = Some(why)).ok()?;
                let (data, known) = (reduction.data, &mut self.found.reduction);
                let known = known.get_or_insert_with(|| reduction.clone());
                let same = *known == Reduction { data: known.data, ..reduction };
                same.then(|| self.is(x, data, false))?
            }
            Expr::Op("Sqrt", x) => {
                let squared = parts.unary("Sqrt", v).or_else(|_| parts.power(v, 0.5));
                self.is(x, squared.ok()?, false)
            }
            Expr::Op(op, x) => self.is(x, parts.unary(op, v).ok()?, false),
            Expr::Product { .. } | Expr::Sum { .. } => None,
        }
    }
}

impl Formula {
    fn parse(text: &'static str) -> Formula {
        let whole = |text: &'static str| {
            let mut rest = text;
            let expr = Expr::sum(&mut rest);
            assert!(rest.trim().is_empty(), "`{rest}` is left of the pattern `{text}`");
            expr
        };
        let mut parts = text.split(';');
        let root = whole(parts.next().unwrap_or_default());
        let definitions = parts.map(|text| {
            let (name, expr) = text.split_once('=').expect("a definition has a `=`");
            (name.trim(), whole(expr))
        });
        Formula { root, definitions: definitions.collect() }
    }
}

/// Whether the text goes on with `c`, which is then taken.
fn take(rest: &mut &'static str, c: char) -> bool {
    let found = rest.trim_start().strip_prefix(c);
    *rest = found.unwrap_or(rest);
    found.is_some()
}

impl Expr {
    fn sum(rest: &mut &'static str) -> Expr {
        let (mut constant, mut terms) = (Number::Is(0.0), vec![Expr::product(rest, 1.0)]);
        while let Some(sign) = [('+', 1.0), ('-', -1.0)].into_iter().find(|(c, _)| take(rest, *c)) {
            terms.push(Expr::product(rest, sign.1));
        }
        terms.retain(|term| match term {
            Expr::Product { scale, factors, divisor: None } if factors.is_empty() => {
                constant = *scale;
                false
            }
            _ => true,
        });
        terms.sort_by_key(Expr::breadth);
        match terms.len() {
            1 if constant == Number::Is(0.0) => terms.remove(0),
            _ => Expr::Sum { constant, terms },
        }
    }

    fn product(rest: &mut &'static str, sign: f64) -> Expr {
        let (mut scale, mut factors, mut divisor) = (Number::Is(sign), vec![], None);
        loop {
            match (Expr::factor(rest), scale) {
                (Ok(factor), _) => factors.push(factor),
                (Err(Number::Is(c)), Number::Is(s)) => scale = Number::Is(s * c),
                (Err(number), _) => scale = number,
            }
            if take(rest, '/') {
                let by = Expr::factor(rest).ok().expect("the divisor is no number");
                divisor = Some(Box::new(by));
            }
            if !take(rest, '*') {
                break;
            }
        }
        factors.sort_by_key(Expr::breadth);
        match factors.len() {
            1 if scale == Number::Is(1.0) && divisor.is_none() => factors.remove(0),
            _ => Expr::Product { scale, factors, divisor },
        }
    }

    fn factor(rest: &mut &'static str) -> Result<Expr, Number> {
        let closed = |rest: &mut &'static str| {
            let inner = Expr::sum(rest);
            assert!(take(rest, ')'), "a `)` is missing before `{rest}`");
            inner
        };
        if take(rest, '(') {
            return Ok(closed(rest));
        }
        if take(rest, '{') {
            let (name, behind) = rest.split_once('}').expect("a number ends with `}`");
            *rest = behind;
            return Err(Number::Named(name));
        }
        let text = rest.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(text.len());
        let (word, behind) = text.split_at(end);
        *rest = behind;
        match word.parse() {
            Ok(number) => Err(Number::Is(number)),
            Err(_) if take(rest, '(') => Ok(Expr::Op(word, Box::new(closed(rest)))),
            Err(_) if take(rest, '?') => Ok(Expr::Optional(word)),
            Err(_) => Ok(Expr::Name(word)),
        }
    }

    /// How little it says of a value.
    fn breadth(&self) -> u8 {
        match self {
            Expr::Op(..) | Expr::Product { .. } | Expr::Sum { .. } => 0,
            Expr::Name(_) => 1,
            Expr::Optional(_) => 2,
        }
    }
}
