//! What Python computes with numbers, strings and lists that are known.

use super::Item;

/// Bytes of a text that a program computes with.
const TEXT_MAX: usize = 1 << 20;

type PythonResult = std::result::Result<Option<Item>, String>;

/// The result of an operator whose arguments are all known; `None` if Python does not compute it.
pub(crate) fn evaluated(name: &str, arguments: &[Item]) -> PythonResult {
    let long = |item: &Item| matches!(item, Item::Text(text) if text.len() > TEXT_MAX);
    if arguments.iter().any(long) {
        return Err(format!("a text of more than {TEXT_MAX} bytes"));
    }
    let found = match arguments {
        [a] => unary(name, a)?,
        [a, b] => binary(name, a, b)?,
        [a, b, c] => ternary(name, a, b, c),
        _ => None,
    };
    Ok(found.or_else(|| if name == "format" { formatted(arguments) } else { None }))
}

fn unary(name: &str, a: &Item) -> PythonResult {
    if let Item::Text(text) = a {
        return Ok(of_text(name, text));
    }
    if let Some(item) = many(name, a) {
        return Ok(Some(item));
    }
    let int = a.as_int();
    let Some(x) = a.as_float() else {
        return Ok(match (name, a) {
            ("__not__" | "Bool", Item::None) => Some(Item::Bool(name == "__not__")),
            ("str", Item::None) => Some(Item::text("None")),
            _ => None,
        });
    };
    let to_int = |f: f64| Ok(Some(Item::Int(f as i64)));
    let float = |f: f64| Ok(Some(Item::Float(f)));
    match name {
        "neg" => Ok(Some(int.map_or(Item::Float(-x), |i| Item::Int(i.wrapping_neg())))),
        "abs" => Ok(Some(int.map_or(Item::Float(x.abs()), |i| Item::Int(i.wrapping_abs())))),
        "Int" | "IntImplicit" => Ok(Some(Item::Int(int.unwrap_or(x as i64)))),
        "Float" | "FloatImplicit" => float(x),
        "Bool" => Ok(Some(Item::Bool(x != 0.0))),
        "ScalarImplicit" | "Scalar" => Ok(Some(a.clone())),
        "__not__" => Ok(Some(Item::Bool(x == 0.0))),
        "ceil" => to_int(x.ceil()),
        "floor" => to_int(x.floor()),
        "trunc" => to_int(x.trunc()),
        "round" => Ok(Some(int.map_or(Item::Float(x.round_ties_even()), Item::Int))),
        "sqrt" if x < 0.0 => Err("the square root of a negative number".into()),
        "sqrt" => float(x.sqrt()),
        "log" if x <= 0.0 => Err("the logarithm of a number that is not positive".into()),
        "log" => float(x.ln()),
        "log2" => float(x.log2()),
        "log10" => float(x.log10()),
        "log1p" => float(x.ln_1p()),
        "exp" => float(x.exp()),
        "expm1" => float(x.exp_m1()),
        "sin" => float(x.sin()),
        "cos" => float(x.cos()),
        "tan" => float(x.tan()),
        "sinh" => float(x.sinh()),
        "cosh" => float(x.cosh()),
        "tanh" => float(x.tanh()),
        "asin" => float(x.asin()),
        "acos" => float(x.acos()),
        "atan" => float(x.atan()),
        "degrees" => float(x.to_degrees()),
        "radians" => float(x.to_radians()),
        "isnan" => Ok(Some(Item::Bool(x.is_nan()))),
        "isinf" => Ok(Some(Item::Bool(x.is_infinite()))),
        "isfinite" => Ok(Some(Item::Bool(x.is_finite()))),
        "str" => Ok(Some(Item::text(&shown_item(a)))),
        "chr" => Ok(int
            .and_then(|i| char::from_u32(u32::try_from(i).ok()?))
            .map(|c| Item::text(&c.to_string()))),
        _ => Ok(None),
    }
}

fn of_text(name: &str, text: &str) -> Option<Item> {
    let number = text.trim();
    Some(match name {
        "Bool" => Item::Bool(!text.is_empty()),
        "__not__" => Item::Bool(text.is_empty()),
        "Int" => Item::Int(number.parse().ok()?),
        "Float" => Item::Float(number.parse().ok()?),
        "str" => Item::text(text),
        "ord" => Item::Int(i64::from(u32::from(text.chars().next()?))),
        "lower" => Item::text(&text.to_lowercase()),
        "upper" => Item::text(&text.to_uppercase()),
        "strip" => Item::text(text.trim()),
        _ => return None,
    })
}

/// Minimum, maximum, sum and truth of lists of numbers.
fn many(name: &str, list: &Item) -> Option<Item> {
    let items = list.items()?;
    let ints: Option<Vec<i64>> = items.iter().map(Item::as_int).collect();
    let floats: Option<Vec<f64>> = items.iter().map(Item::as_float).collect();
    match (name, ints, floats) {
        ("min", Some(x), _) if !x.is_empty() => x.into_iter().min().map(Item::Int),
        ("max", Some(x), _) if !x.is_empty() => x.into_iter().max().map(Item::Int),
        ("min", _, Some(x)) => x.into_iter().reduce(f64::min).map(Item::Float),
        ("max", _, Some(x)) => x.into_iter().reduce(f64::max).map(Item::Float),
        ("sum", Some(x), _) => x.iter().try_fold(0i64, |sum, x| sum.checked_add(*x)).map(Item::Int),
        ("sum", _, Some(x)) => Some(Item::Float(x.iter().sum())),
        ("any", _, Some(x)) => Some(Item::Bool(x.iter().any(|x| *x != 0.0))),
        ("all", _, Some(x)) => Some(Item::Bool(x.iter().all(|x| *x != 0.0))),
        ("Bool", ..) => Some(Item::Bool(!items.is_empty())),
        ("__not__", ..) => Some(Item::Bool(items.is_empty())),
        _ => None,
    }
}

fn binary(name: &str, a: &Item, b: &Item) -> PythonResult {
    match name {
        "__is__" | "__isnot__" => {
            let same = a.same(b) || matches!((a, b), (Item::None, Item::None));
            return Ok(Some(Item::Bool(same == (name == "__is__"))));
        }
        "eq" | "ne" => {
            return Ok(Some(Item::Bool(equal(a, b) == (name == "eq"))));
        }
        _ => {}
    }
    if let (Item::Text(a), Item::Text(b)) = (a, b) {
        return Ok(match name {
            "add" => Some(Item::text(&format!("{a}{b}"))),
            "lt" => Some(Item::Bool(a < b)),
            "gt" => Some(Item::Bool(a > b)),
            "le" => Some(Item::Bool(a <= b)),
            "ge" => Some(Item::Bool(a >= b)),
            "startswith" => Some(Item::Bool(a.starts_with(&**b))),
            "endswith" => Some(Item::Bool(a.ends_with(&**b))),
            "__contains__" => Some(Item::Bool(a.contains(&**b))),
            _ => None,
        });
    }
    match (a.as_int(), b.as_int(), a.as_float(), b.as_float()) {
        (Some(x), Some(y), ..) => of_ints(name, (a, b), x, y),
        (_, _, Some(x), Some(y)) => of_floats(name, x, y),
        _ => Ok(None),
    }
}

fn of_ints(name: &str, (a, b): (&Item, &Item), x: i64, y: i64) -> PythonResult {
    let both = matches!((a, b), (Item::Bool(_), Item::Bool(_)));
    let logic = |bits: i64| if both { Item::Bool(bits != 0) } else { Item::Int(bits) };
    let overflow = || "a number beyond 64 bits".to_owned();
    let zero = || "a division by zero".to_owned();
    Ok(Some(match name {
        "add" => Item::Int(x.checked_add(y).ok_or_else(overflow)?),
        "sub" => Item::Int(x.checked_sub(y).ok_or_else(overflow)?),
        "mul" => Item::Int(x.checked_mul(y).ok_or_else(overflow)?),
        "floordiv" | "mod" | "remainder" | "div" if y == 0 => return Err(zero()),
        "div" => Item::Float(x as f64 / y as f64),
        "floordiv" => Item::Int(
            (x.wrapping_sub(x.wrapping_rem_euclid(y).wrapping_add(fixed_sign(x, y))))
                .wrapping_div(y),
        ),
        "remainder" | "mod" => Item::Int(x.wrapping_rem_euclid(y).wrapping_add(fixed_sign(x, y))),
        "pow" => power(x, y),
        "lt" => Item::Bool(x < y),
        "le" => Item::Bool(x <= y),
        "gt" => Item::Bool(x > y),
        "ge" => Item::Bool(x >= y),
        "min" => Item::Int(x.min(y)),
        "max" => Item::Int(x.max(y)),
        "__and__" => logic(x & y),
        "__or__" => logic(x | y),
        "__xor__" => logic(x ^ y),
        "__lshift__" => Item::Int(
            x.checked_shl(u32::try_from(y).map_err(|_| overflow())?).ok_or_else(overflow)?,
        ),
        "__rshift__" => Item::Int(
            x.checked_shr(u32::try_from(y).map_err(|_| overflow())?).unwrap_or(x.signum().min(0)),
        ),
        "gcd" => Item::Int(gcd(x, y)),
        _ => return of_floats(name, x as f64, y as f64),
    }))
}

/// What the remainder of Python, which has the sign of the divisor, differs by from the one that is never negative.
fn fixed_sign(x: i64, y: i64) -> i64 {
    if y < 0 && x.wrapping_rem_euclid(y) != 0 { y } else { 0 }
}

fn gcd(x: i64, y: i64) -> i64 {
    if y == 0 { x.wrapping_abs() } else { gcd(y, x.wrapping_rem(y)) }
}

fn power(x: i64, y: i64) -> Item {
    let whole = u32::try_from(y).ok().and_then(|y| x.checked_pow(y));
    whole.map_or_else(|| Item::Float((x as f64).powf(y as f64)), Item::Int)
}

fn of_floats(name: &str, x: f64, y: f64) -> PythonResult {
    let zero = || "a division by zero".to_owned();
    Ok(Some(match name {
        "add" => Item::Float(x + y),
        "sub" => Item::Float(x - y),
        "mul" => Item::Float(x * y),
        "div" | "floordiv" | "mod" | "remainder" if y == 0.0 => return Err(zero()),
        "div" => Item::Float(x / y),
        "floordiv" => Item::Float((x / y).floor()),
        "mod" | "remainder" => Item::Float(x - (x / y).floor() * y),
        "fmod" => Item::Float(x % y),
        "pow" => Item::Float(x.powf(y)),
        "lt" => Item::Bool(x < y),
        "le" => Item::Bool(x <= y),
        "gt" => Item::Bool(x > y),
        "ge" => Item::Bool(x >= y),
        "min" => Item::Float(x.min(y)),
        "max" => Item::Float(x.max(y)),
        "atan2" => Item::Float(x.atan2(y)),
        "copysign" => Item::Float(x.copysign(y)),
        "hypot" => Item::Float(x.hypot(y)),
        "__and__" => Item::Bool(x != 0.0 && y != 0.0),
        "__or__" => Item::Bool(x != 0.0 || y != 0.0),
        _ => return Ok(None),
    }))
}

fn ternary(name: &str, a: &Item, b: &Item, c: &Item) -> Option<Item> {
    let (x, y, z) = (a.as_int()?, b.as_int()?, c.as_int()?);
    match name {
        "__range_length" if z != 0 => {
            let (x, y, z) = (i128::from(x), i128::from(y), i128::from(z));
            let count =
                if z > 0 { (y - x + z - 1).div_euclid(z) } else { (x - y - z - 1).div_euclid(-z) };
            Some(Item::Int(i64::try_from(count.max(0)).ok()?))
        }
        "__derive_index" => Some(Item::Int(x.wrapping_mul(z).wrapping_add(y))),
        _ => None,
    }
}

/// The positions that `[start:end:step]` takes of `len` items; the step is not 0.
pub(crate) fn positions(
    len: usize,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> impl Iterator<Item = usize> {
    let len = len as i64;
    let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let (first, last) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    let bound = |bound: Option<i64>, default: i64| {
        let from_start = |x: i64| if x < 0 { x.saturating_add(len) } else { x };
        bound.map_or(default, |x| from_start(x).clamp(lowest, highest))
    };
    let (start, end) = (bound(start, first), bound(end, last));
    std::iter::successors(Some(start), move |at| at.checked_add(step))
        .take_while(move |at| if step > 0 { *at < end } else { *at > end })
        .map(|at| at as usize)
}

/// Python's `==` of values that are known.
pub(crate) fn equal(a: &Item, b: &Item) -> bool {
    match (a, b) {
        (Item::Text(a), Item::Text(b)) | (Item::Device(a), Item::Device(b)) => a == b,
        (Item::Dict(a), Item::Dict(b)) => {
            let (a, b) = (a.borrow(), b.borrow());
            let has = |(k, v): &(Item, Item)| b.iter().any(|(l, w)| equal(k, l) && equal(v, w));
            a.len() == b.len() && a.iter().all(has)
        }
        _ => match (a.items(), b.items(), a.as_float(), b.as_float()) {
            (Some(a), Some(b), ..) => {
                a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| equal(a, b))
            }
            (_, _, Some(x), Some(y)) => match (a.as_int(), b.as_int()) {
                (Some(x), Some(y)) => x == y,
                _ => x == y,
            },
            _ => a.same(b),
        },
    }
}

/// `"{} of {}".format(a, b)`
fn formatted(arguments: &[Item]) -> Option<Item> {
    let [Item::Text(pattern), rest @ ..] = arguments else { return None };
    let mut rest = rest.iter();
    let mut text = String::new();
    let mut parts = pattern.split("{}");
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        match rest.next() {
            Some(item) => show(item, &mut text),
            None => text.push_str("{}"),
        }
        text.push_str(part);
    }
    Some(Item::text(&text))
}

/// Values one after the other, with spaces.
pub(crate) fn joined(items: &[Item]) -> Item {
    let mut text = String::new();
    for item in items {
        show(item, &mut text);
        text.push(' ');
    }
    Item::text(text.trim_end())
}

/// A value as Python prints it.
pub(crate) fn shown_item(item: &Item) -> String {
    let mut text = String::new();
    show(item, &mut text);
    text
}

/// Adds a value as Python prints it; none to a text that is too long.
fn show(item: &Item, text: &mut String) {
    if text.len() > TEXT_MAX {
        return;
    }
    match item {
        Item::None => text.push_str("None"),
        Item::Bool(x) => text.push_str(if *x { "True" } else { "False" }),
        Item::Int(x) => text.push_str(&x.to_string()),
        Item::Float(x) => text.push_str(&format!("{x:?}")),
        Item::Text(x) | Item::Device(x) => text.push_str(x),
        other => match other.items() {
            Some(items) => {
                text.push('[');
                for (i, item) in items.iter().enumerate() {
                    text.push_str(if i > 0 { ", " } else { "" });
                    show(item, text);
                }
                text.push(']');
            }
            None => text.push_str(&other.what()),
        },
    }
}
