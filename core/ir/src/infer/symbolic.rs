//! Sizes computed from symbols: sums of products of symbols, in the guise of a [`Dim::Symbol`].
//!
//! Rules handle them like any other symbol: equal sizes have equal names. A sum has the marked
//! name `SUM (TERM coefficient (FACTOR symbol)*)*`, terms sorted by their symbols. Other results
//! (`floor(N/2)`) and sizes of which nothing is known but that they are what they are get marked
//! symbols of their own. [`readable`] turns all of them back at the end of inference.

use crate::Dim;
use std::collections::BTreeMap;
use std::sync::Arc;

const SUM: char = '\u{1}';
const TERM: char = '\u{2}';
const FACTOR: char = '\u{3}';
/// Begins a symbol that stands for an operation on sizes.
const RESULT: char = '\u{4}';
/// Begins a symbol that stands for the unknown size of one axis of one value.
const FRESH: char = '\u{5}';
/// Begins a number that is not whole for all sizes: the marked divisor, then the marked size that it divides.
const FRACTION: char = '\u{6}';

/// Terms of a sum and symbols of a term that are kept.
const PARTS_MAX: usize = 8;
/// Bytes of a name that are kept.
const NAME_MAX: usize = 256;

/// Symbols (sorted) and their coefficient; never 0.
type Sum = BTreeMap<Vec<Arc<str>>, i64>;

/// Whether a declared name could be mistaken for one of these, or says that nothing is known.
pub(super) fn is_meaningless(name: &str) -> bool {
    matches!(name, "" | "?" | "-1" | "None") || name.contains(|c: char| c <= FRACTION)
}

/// The size number `n` of which nothing else is known.
pub(super) fn fresh(n: usize) -> Dim {
    Dim::Symbol(format!("{FRESH}{n}").into())
}

/// Whether it depends on a size that was numbered `since` or later.
pub(crate) fn is_fresh(dim: &Dim, since: usize) -> bool {
    let Dim::Symbol(name) = dim else { return false };
    name.split(FRESH).skip(1).any(|text| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..digits].parse::<usize>().is_ok_and(|n| n >= since)
    })
}

/// The size under a name for readers; `None` if it depends on sizes without names.
pub(super) fn readable(dim: &Dim) -> Option<Dim> {
    match dim {
        Dim::Symbol(name) if name.contains([FRESH, FRACTION]) => None,
        Dim::Symbol(name) if name.starts_with([SUM, RESULT]) => {
            Some(Dim::Symbol(written(&parsed(dim)?, str::to_owned).into()))
        }
        other => Some(other.clone()),
    }
}

fn parsed(dim: &Dim) -> Option<Sum> {
    match dim {
        Dim::Unknown => None,
        Dim::Known(0) => Some(Sum::new()),
        Dim::Known(n) => Some(Sum::from([(vec![], *n)])),
        Dim::Symbol(name) if name.starts_with(FRACTION) => None,
        Dim::Symbol(name) => match name.strip_prefix(SUM) {
            None => Some(Sum::from([(vec![name.clone()], 1)])),
            Some(terms) => terms.split(TERM).skip(1).map(term).collect(),
        },
    }
}

fn term(text: &str) -> Option<(Vec<Arc<str>>, i64)> {
    let mut parts = text.split(FACTOR);
    let coefficient = parts.next()?.parse().ok()?;
    Some((parts.map(Arc::from).collect(), coefficient))
}

fn dim(sum: &Sum) -> Dim {
    let mut terms = sum.iter();
    match (terms.next(), terms.next()) {
        (None, _) => return Dim::Known(0),
        (Some((symbols, n)), None) if symbols.is_empty() => return Dim::Known(*n),
        (Some((symbols, 1)), None) if symbols.len() == 1 => return Dim::Symbol(symbols[0].clone()),
        _ => {}
    }
    let large = sum.len() > PARTS_MAX || sum.keys().any(|symbols| symbols.len() > PARTS_MAX);
    let mut name = String::from(SUM);
    for (symbols, n) in sum.iter().filter(|_| !large) {
        name.push_str(&format!("{TERM}{n}"));
        symbols.iter().for_each(|s| name.extend([FACTOR.to_string().as_str(), s]));
        if name.len() > NAME_MAX {
            return Dim::Unknown;
        }
    }
    if large { Dim::Unknown } else { Dim::Symbol(name.into()) }
}

/// `2*N*M-1`; `symbol` writes the symbols.
fn written(sum: &Sum, symbol: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    // The constant stands last.
    for (symbols, n) in sum.iter().skip_while(|t| t.0.is_empty()).chain(sum.get_key_value(&vec![]))
    {
        let sign = if *n < 0 { "-" } else { "+" };
        if *n < 0 || !text.is_empty() {
            text.push_str(sign);
        }
        let names = symbols.iter().map(|s| symbol(s.strip_prefix(RESULT).unwrap_or(s)));
        let number = (n.unsigned_abs() != 1 || symbols.is_empty()).then(|| n.unsigned_abs());
        let factors: Vec<String> = number.map(|n| n.to_string()).into_iter().chain(names).collect();
        text.push_str(&factors.join("*"));
    }
    text
}

/// The size as operand of a named operation: distinct sizes have distinct texts.
fn operand(sum: &Sum) -> String {
    written(sum, |name| match name.contains(|c: char| !c.is_alphanumeric() && c != '_') {
        true => format!("{{{}}}", name.replace('{', "{{").replace('}', "}}")),
        false => name.to_owned(),
    })
}

/// The sum; negative numbers are allowed.
pub(super) fn sum(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) => {
            return x.checked_add(*y).map_or(Dim::Unknown, Dim::Known);
        }
        (Dim::Known(0), other) | (other, Dim::Known(0)) => return other.clone(),
        _ => {}
    }
    combined(a, b, |x, y| {
        let mut all = x;
        for (symbols, n) in y {
            let total = all.entry(symbols).or_insert(0);
            *total = total.checked_add(n)?;
        }
        all.retain(|_, n| *n != 0);
        Some(dim(&all))
    })
}

/// The product; negative numbers are allowed.
pub(super) fn product(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(0), _) | (_, Dim::Known(0)) => return Dim::Known(0),
        (Dim::Known(1), other) | (other, Dim::Known(1)) => return other.clone(),
        (Dim::Known(x), Dim::Known(y)) => {
            return x.checked_mul(*y).map_or(Dim::Unknown, Dim::Known);
        }
        _ => {}
    }
    combined(a, b, |x, y| {
        let mut all = Sum::new();
        for ((s, m), (t, n)) in x.iter().flat_map(|p| y.iter().map(move |q| (p, q))) {
            let mut symbols = [&s[..], &t[..]].concat();
            symbols.sort_unstable();
            let total = all.entry(symbols).or_insert(0);
            *total = i64::checked_add(*total, m.checked_mul(*n)?)?;
        }
        all.retain(|_, n| *n != 0);
        Some(dim(&all))
    })
}

/// `a - b`; may be negative.
pub(super) fn difference(a: &Dim, b: &Dim) -> Dim {
    sum(a, &product(b, &Dim::Known(-1)))
}

fn combined(a: &Dim, b: &Dim, f: impl FnOnce(Sum, Sum) -> Option<Dim>) -> Dim {
    let both = parsed(a).zip(parsed(b));
    both.and_then(|(a, b)| f(a, b)).unwrap_or(Dim::Unknown)
}

/// `a / b` where that is a whole number for all sizes; no size of `b` is 0.
pub(super) fn exact(a: &Dim, b: &Dim) -> Option<Dim> {
    if a.same(b) && *a != Dim::Known(0) {
        return Some(Dim::Known(1));
    }
    let (all, by) = parsed(a).zip(parsed(b))?;
    let mut terms = by.iter();
    let (Some((gone, n)), None) = (terms.next(), terms.next()) else { return None };
    let mut left = Sum::new();
    for (symbols, m) in all {
        let mut symbols = symbols;
        for symbol in gone {
            let at = symbols.iter().position(|s| s == symbol)?;
            symbols.remove(at);
        }
        if m.checked_rem(*n)? != 0 {
            return None;
        }
        left.insert(symbols, m.checked_div(*n)?);
    }
    Some(dim(&left))
}

/// Whether it is not negative, whatever the sizes.
pub(super) fn is_natural(dim: &Dim) -> bool {
    if let Dim::Known(n) = dim {
        return *n >= 0;
    }
    parsed(dim).is_some_and(|sum| sum.values().all(|n| *n >= 0))
}

/// Whether it is more than 0, whatever the sizes.
pub(crate) fn is_positive(dim: &Dim) -> bool {
    is_natural(dim) && parsed(dim).is_some_and(|sum| sum.contains_key(&vec![]))
}

/// `a / by` in real numbers, of which only [`rounded`] makes a size; `by` is more than 0.
pub(super) fn fraction(a: &Dim, by: i64) -> Dim {
    if let Some(whole) = exact(a, &Dim::Known(by)) {
        return whole;
    }
    match a {
        Dim::Known(n) => Dim::Symbol(format!("{FRACTION}{by}{FRACTION}{n}").into()),
        Dim::Symbol(name) if parsed(a).is_some() && name.len() <= NAME_MAX => {
            Dim::Symbol(format!("{FRACTION}{by}{FRACTION}{name}").into())
        }
        _ => Dim::Unknown,
    }
}

/// What is divided and by what, if it is a [`fraction`].
pub(super) fn divided(dim: &Dim) -> Option<(Dim, i64)> {
    let Dim::Symbol(name) = dim else { return None };
    let (by, of) = name.strip_prefix(FRACTION)?.split_once(FRACTION)?;
    let of = of.parse().map_or_else(|_| Dim::Symbol(of.into()), Dim::Known);
    Some((of, by.parse().ok()?))
}

/// The whole number at or below `dim`, or at or above it. Floating-point division never rounds to a whole number what
/// is none, below 2^24.
pub(super) fn rounded(dim: &Dim, up: bool) -> Dim {
    let Some((of, by)) = divided(dim) else { return dim.clone() };
    let of = if up { sum(&of, &Dim::Known(by - 1)) } else { of };
    if is_natural(&of) { floor(&of, &Dim::Known(by)) } else { Dim::Unknown }
}

/// `a / b` rounded down; `a` is not negative, `b` is more than 0.
pub(crate) fn floor(a: &Dim, b: &Dim) -> Dim {
    if let (Dim::Known(a), Dim::Known(b)) = (a, b) {
        return a.checked_div_euclid(*b).map_or(Dim::Unknown, Dim::Known);
    }
    exact(a, b).unwrap_or_else(|| match (parsed(a), parsed(b)) {
        (Some(a), Some(b)) => result(&format!("floor(({})/({}))", operand(&a), operand(&b))),
        _ => Dim::Unknown,
    })
}

/// `name(a,b)` of sizes that are not negative; the operation is commutative unless `ordered`.
pub(super) fn named(name: &str, a: &Dim, b: &Dim, ordered: bool) -> Dim {
    if !is_natural(a) || !is_natural(b) {
        return Dim::Unknown;
    }
    let Some(mut operands) = parsed(a).zip(parsed(b)).map(|(a, b)| [operand(&a), operand(&b)])
    else {
        return Dim::Unknown;
    };
    if !ordered {
        operands.sort_unstable();
    }
    result(&format!("{name}({})", operands.join(",")))
}

/// The smaller one; both are not negative.
pub(super) fn min(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) => Dim::Known(*x.min(y)),
        (Dim::Known(0), _) | (_, Dim::Known(0)) => Dim::Known(0),
        _ if a.same(b) => a.clone(),
        _ => named("min", a, b, false),
    }
}

/// The larger one.
pub(super) fn max(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) => Dim::Known(*x.max(y)),
        (Dim::Known(..=0), other) | (other, Dim::Known(..=0)) if is_natural(other) => other.clone(),
        (Dim::Known(1), other) | (other, Dim::Known(1)) if is_positive(other) => other.clone(),
        _ if a.same(b) => a.clone(),
        _ => named("max", a, b, false),
    }
}

/// What is left of `a`, at least 0.
pub(super) fn less(a: &Dim, b: &Dim) -> Dim {
    match difference(a, b) {
        Dim::Known(n) => Dim::Known(n.max(0)),
        rest if is_natural(&rest) => rest,
        _ => named("less", a, b, true),
    }
}

fn result(text: &str) -> Dim {
    if text.len() > NAME_MAX { Dim::Unknown } else { Dim::Symbol(format!("{RESULT}{text}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(dim: &Dim) -> String {
        match readable(dim) {
            Some(Dim::Known(n)) => n.to_string(),
            Some(Dim::Symbol(name)) => name.to_string(),
            _ => "?".to_owned(),
        }
    }

    #[test]
    fn sums_and_products_have_one_form() {
        let [n, m, two] = [Dim::from("N"), Dim::from("M"), Dim::Known(2)];
        let a = product(&sum(&n, &two), &m);
        let b = sum(&product(&m, &n), &product(&m, &two));
        assert_eq!(a, b);
        assert_eq!(show(&a), "2*M+M*N");
        assert_eq!(difference(&a, &b), Dim::Known(0));
        assert_eq!(exact(&a, &m).unwrap(), sum(&n, &two));
        assert_eq!(exact(&a, &n), None);
        assert_eq!(show(&difference(&two, &n)), "-N+2");
        assert!(!is_natural(&difference(&n, &two)) && is_natural(&a));
        assert!(is_positive(&sum(&n, &two)) && !is_positive(&a));
    }

    #[test]
    fn other_operations_have_names() {
        let [n, one, two] = [Dim::from("N"), Dim::Known(1), Dim::Known(2)];
        let half = floor(&sum(&n, &one), &two);
        assert_eq!(show(&sum(&half, &one)), "floor((N+1)/(2))+1");
        assert_eq!(floor(&product(&n, &two), &two), n);
        assert_eq!(named("max", &n, &one, false), named("max", &one, &n, false));
        let odd = Dim::from("a+b");
        let text = show(&floor(&odd, &two));
        assert_eq!(text, "floor(({a+b})/(2))");
        assert_ne!(floor(&odd, &two), floor(&sum(&"a".into(), &"b".into()), &two));
    }

    #[test]
    fn fractions_become_sizes_when_they_are_rounded() {
        let [n, two] = [Dim::from("N"), Dim::Known(2)];
        let half = fraction(&n, 2);
        assert_eq!(rounded(&half, false), floor(&n, &two));
        assert_eq!(rounded(&half, true), floor(&sum(&n, &Dim::Known(1)), &two));
        assert_eq!(fraction(&product(&n, &two), 2), n);
        assert_eq!(divided(&fraction(&Dim::Known(3), 2)), Some((Dim::Known(3), 2)));
        assert_eq!(sum(&half, &half), Dim::Unknown);
        assert!(!is_natural(&half) && half.same(&fraction(&n, 2)));
        assert_eq!(readable(&half), None);
        assert_eq!(rounded(&fraction(&difference(&n, &two), 2), false), Dim::Unknown);
    }

    #[test]
    fn nothing_overflows_or_grows_without_bound() {
        let n = Dim::from("N");
        let big = product(&n, &Dim::Known(i64::MAX));
        assert_eq!(sum(&big, &n), Dim::Unknown);
        assert_eq!(product(&big, &Dim::Known(i64::MIN)), Dim::Unknown);
        assert_eq!(exact(&product(&n, &Dim::Known(i64::MIN)), &Dim::Known(-1)), None);
        assert_eq!(exact(&n, &Dim::Known(0)), None);
        let mut x = n.clone();
        for i in 0..100 {
            x = sum(&floor(&x, &Dim::Known(2)), &Dim::from(format!("s{i}").as_str()));
        }
        assert_eq!(x, Dim::Unknown);
    }
}
