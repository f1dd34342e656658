//! Formulas as patterns: what computes a value, as one expression.
//!
//! ```text
//! x * Sigmoid({alpha} * x)
//! d / Sqrt(ReduceMean(d^2) + {epsilon}); d = x - ReduceMean(x)
//! ```
//!
//! A name stands for one value wherever it is written, `{name}` for a constant of one element, and `Name(...)` for an
//! operator without attributes; `name?` need not be there. What a name stands for may be said after the expression.
//! Other products and sums are taken apart only if they are read once. All reductions run along the same axes.
//!
//! Products and sums are compared as [`PatternNodes`] has them, in any order and with their numbers multiplied out: a
//! value may be a multiple of the expression that it is compared with, if the product around it makes up for that.

use crate::parts::{By, PatternNodes, Reduction, unlike};
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
pub(crate) struct PatternMatch {
    values: Vec<(&'static str, ValueId)>,
    numbers: Vec<(&'static str, f64)>,
    reduction: Option<Reduction>,
}

impl PatternMatch {
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
    pub(crate) fn at(&self, cx: &Rewriter, out: ValueId) -> Result<PatternMatch, Skip> {
        let parts = PatternNodes::from_root(cx, out);
        let found = self.find(&parts, out)?;
        parts.closed().map(|()| found)
    }

    /// What the names stand for where `out` is computed like this.
    pub(crate) fn find(&self, parts: &PatternNodes, out: ValueId) -> Result<PatternMatch, Skip> {
        let formula = self.parsed.get_or_init(|| Formula::parse(self.text));
        let mut matcher =
            Matcher { parts, formula, root: out, found: PatternMatch::default(), why: None };
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
) -> Result<(&'static str, PatternMatch), Skip> {
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

enum Expr {
    Number(Number),
    Op(&'static str, Box<Expr>),
    /// As in [`crate::parts::Combined`]. Names come last: any value may fit them.
    Combined {
        is_sum: bool,
        number: Number,
        items: Vec<(f64, Expr)>,
    },
    Name(&'static str),
    Optional(&'static str),
}

#[derive(Clone, Copy, PartialEq)]
enum Number {
    Is(f64),
    Named(&'static str),
}

struct Matcher<'a, 'g> {
    parts: &'a PatternNodes<'a, 'g>,
    formula: &'a Formula,
    root: ValueId,
    found: PatternMatch,
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
        let Expr::Combined { is_sum, number, items } = expr else {
            return self.attempt(|m| m.exactly(expr, v).map(|()| 1.0)).or_else(|| {
                let found = self.parts.combined(By::Quotient, v, shared);
                match found.items[..] {
                    // The value itself was compared already.
                    [(1.0, factor)] if factor != v => {
                        self.exactly(expr, factor).map(|()| found.number)
                    }
                    _ => None,
                }
            });
        };
        let by = match (is_sum, number) {
            (false, _) => By::Quotient,
            (true, Number::Is(0.0)) => By::SumOfTerms,
            (true, _) => By::Sum,
        };
        let found = self.parts.combined(by, v, shared);
        let multiples = self.each(*is_sum, items, &found.items)?;
        if !is_sum {
            return Some(self.ratio(found.number * multiples.iter().product::<f64>(), *number));
        }
        let times = *multiples.first()?;
        multiples.iter().try_for_each(|other| self.equal(*other, times))?;
        match number {
            Number::Is(number) => self.equal(found.number, times * number)?,
            Number::Named(_) => drop(self.ratio(found.number / times, *number)),
        }
        Some(times)
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

    /// How many times each expression, with its factor or exponent, one of the items is, in any order.
    fn each(
        &mut self,
        is_sum: bool,
        exprs: &'a [(f64, Expr)],
        items: &[(f64, ValueId)],
    ) -> Option<Vec<f64>> {
        let ((wanted, first), rest) = match exprs {
            [] | [(_, Expr::Optional(_))] if items.is_empty() => return Some(vec![]),
            [] => return None,
            [first, rest @ ..] => (first, rest),
        };
        (0..items.len()).find_map(|i| {
            self.attempt(|m| {
                let mut others = items.to_vec();
                let (found, v) = others.remove(i);
                let times = match first {
                    // The divisor is this root.
                    Expr::Op("Sqrt", x) if !is_sum && [*wanted, found] == [-1.0, -0.5] => {
                        m.is(x, v, false).map(|()| 1.0)?
                    }
                    _ if is_sum => m.multiple(first, v, false)? * found / wanted,
                    _ if *wanted == found => m.multiple(first, v, false)?.powf(found),
                    _ => return None,
                };
                Some([vec![times], m.each(is_sum, rest, &others)?].concat())
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
            Expr::Number(_) | Expr::Combined { .. } => None,
        }
    }
}

impl Formula {
    fn parse(text: &'static str) -> Formula {
        let whole = |text: &'static str| {
            let mut rest = text;
            let expr = Expr::parse(&mut rest, true);
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
    /// A sum, or a product.
    fn parse(rest: &mut &'static str, is_sum: bool) -> Expr {
        let (signs, none) = if is_sum { (['+', '-'], 0.0) } else { (['*', '/'], 1.0) };
        let (mut number, mut items, mut k) = (none, vec![], 1.0);
        let mut named = None;
        loop {
            let operand = if is_sum { Expr::parse(rest, false) } else { Expr::factor(rest) };
            match operand {
                Expr::Number(Number::Is(c)) if is_sum => number += k * c,
                Expr::Number(Number::Is(c)) => number *= c.powf(k),
                Expr::Number(name) => named = Some(name),
                base if !is_sum && take(rest, '^') => match Expr::factor(rest) {
                    Expr::Number(Number::Is(exponent)) => items.push((k * exponent, base)),
                    _ => panic!("an exponent is no number before `{rest}`"),
                },
                operand => items.push((k, operand)),
            }
            let Some(sign) = signs.iter().position(|c| take(rest, *c)) else { break };
            k = [1.0, -1.0][sign];
        }
        items.sort_by_key(|(_, item)| match item {
            Expr::Name(_) => 1,
            Expr::Optional(_) => 2,
            _ => 0,
        });
        let number = named.unwrap_or(Number::Is(number));
        match items[..] {
            [] => Expr::Number(number),
            [(1.0, _)] if number == Number::Is(none) => items.remove(0).1,
            _ => Expr::Combined { is_sum, number, items },
        }
    }

    fn factor(rest: &mut &'static str) -> Expr {
        let closed = |rest: &mut &'static str| {
            let inner = Expr::parse(rest, true);
            assert!(take(rest, ')'), "a `)` is missing before `{rest}`");
            inner
        };
        if take(rest, '(') {
            return closed(rest);
        }
        if take(rest, '{') {
            let (name, behind) = rest.split_once('}').expect("a number ends with `}`");
            *rest = behind;
            return Expr::Number(Number::Named(name));
        }
        let text = rest.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(text.len());
        let (word, behind) = text.split_at(end);
        *rest = behind;
        match word.parse() {
            Ok(number) => Expr::Number(Number::Is(number)),
            Err(_) if take(rest, '(') => Expr::Op(word, Box::new(closed(rest))),
            Err(_) if take(rest, '?') => Expr::Optional(word),
            Err(_) => Expr::Name(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::text;

    /// The numbers of the names if `y` of the body is like the pattern.
    fn numbers(pattern: &'static str, body: &str) -> Option<Vec<f64>> {
        let graph = format!(
            "g (float[2] x, float[2] z) => (float[2] y) <float two = {{2.0}}, float half = {{0.5}}> {{ {body} }}"
        );
        let mut graph = text::parse_graph(&graph).unwrap();
        let y = graph.value_named("y").unwrap();
        let found = Pattern::new(pattern).at(&Rewriter::new(&mut graph, 17), y).ok()?;
        Some(found.numbers.iter().map(|(_, number)| *number).collect())
    }

    #[test]
    fn numbers_are_multiplied_out() {
        let pattern = "4 * Exp(x) + {b}";
        let body = "e = Exp(x) a = Mul(e, two) s = Add(half, a) y = Mul(two, s)";
        assert_eq!(numbers(pattern, body), None);
        let body = body.replace("y = Mul(two, s)", "p = Mul(s, z) y = Div(p, half)");
        assert_eq!(numbers("4 * z * (Exp(x) + {b})", &body), Some(vec![0.25]));
        assert_eq!(numbers("{a} * z * (Exp(x) + {b})", &body), Some(vec![0.25, 4.0]));
        assert_eq!(numbers("2 * z * (Exp(x) + {b})", &body), None);
    }

    #[test]
    fn powers_quotients_and_signs() {
        let body = "s = Mul(x, x) n = Neg(s) r = Reciprocal(z) y = Mul(n, r)";
        assert_eq!(numbers("{a} * x^2 / z", body), Some(vec![-1.0]));
        assert_eq!(numbers("{a} * x^3 / z", body), None);
        assert_eq!(numbers("a - b", "y = Sub(x, z)"), Some(vec![]));
        assert_eq!(numbers("a + b", "y = Sub(x, z)"), None);
        let body = "s = Sqrt(z) y = Div(x, s)";
        assert_eq!(numbers("x / Sqrt(z)", body), Some(vec![]));
        let body = body.replace("Sqrt(z)", "Exp(z)");
        assert_eq!(numbers("x / Sqrt(z)", &body), None);
    }

    #[test]
    fn names_are_the_same_everywhere() {
        let body = "d = Sub(x, z) e = Exp(d) y = Mul(d, e)";
        for pattern in ["d * Exp(d); d = a - b", "d * Exp(d)", "c? * d * Exp(d)"] {
            assert_eq!(numbers(pattern, body), Some(vec![]), "{pattern}");
        }
        assert_eq!(numbers("d * Exp(c); c = d", &body.replace("(d, e)", "(x, e)")), None);
        assert_eq!(numbers("d * Exp(d); d = b - a - b", body), None);
    }
}
