//! Arithmetic, element by element.

use crate::row::{Row, both, down, up};
use crate::site::{Done, Site, axis};
use onnxd_ir::{Attr, DataType, ValueId};

pub(crate) const ROWS: &[Row] = &[
    up(&["Add", "Sub", "Mul", "Div", "Pow"], 7, broadcast_7),
    up(&["PRelu"], 7, prelu_7),
    down(&["Sum", "Mean", "Max", "Min"], 8, merge_8_down),
    down(&["Mod"], 10, mod_10_down),
    both(&["Clip"], 11, clip_11_up, clip_11_down),
    down(&["Max", "Min", "Clip"], 12, integers_as_double),
    down(&["Pow"], 12, pow_12_down),
    down(&["Add", "Sub", "Mul", "Div"], 14, integers_as_int64),
    down(&["Relu"], 14, integers_as_double),
    down(&["IsInf"], 20, half_as_float),
];

/// Up to opset 6 the second input is laid along the first one's axes from `axis` on.
pub(crate) fn broadcast_7(s: &mut Site<'_>) -> Done {
    let on = s.int("broadcast")?.unwrap_or(0) != 0;
    let at = s.int("axis")?;
    s.drop("broadcast");
    s.drop("axis");
    let Some(at) = at.filter(|_| on) else { return Ok(()) };
    let (a, b) = (s.input(0)?, s.input(1)?);
    let (rank, own) = (s.rank(a)?, s.rank(b)?);
    let after = rank as i64 - axis(at, rank)? - own as i64;
    if after < 0 {
        return Err(format!("its second input does not fit from axis {at} on"));
    }
    trailing_ones(s, 1, own, after as usize);
    Ok(())
}

/// Appends axes of size 1 to an input of rank `rank`.
fn trailing_ones(s: &mut Site<'_>, input: usize, rank: usize, count: usize) {
    if count > 0
        && let Some(v) = s.node().input(input)
    {
        let axes: Vec<i64> = (rank as i64..(rank + count) as i64).collect();
        let aligned = s.squeeze("Unsqueeze", "aligned", v, &axes);
        s.set_input(input, Some(aligned));
    }
}

/// The slopes of channels lie along axis 1.
fn prelu_7(s: &mut Site<'_>) -> Done {
    let slope = s.input(1)?;
    let dims = s.dims(slope)?;
    if dims.len() == 1 && dims[0] != 1 {
        let rank = s.rank(s.input(0)?)?;
        trailing_ones(s, 1, 1, rank.saturating_sub(2));
    }
    Ok(())
}

/// Before opset 8 all inputs have the same shape.
fn merge_8_down(s: &mut Site<'_>) -> Done {
    let inputs: Vec<ValueId> = s.node().inputs.iter().flatten().copied().collect();
    let shapes: Vec<_> = inputs.iter().map(|v| s.dims(*v)).collect();
    if inputs.len() < 2 || shapes[0].is_ok() && shapes.iter().all(|d| *d == shapes[0]) {
        return Ok(());
    }
    let op = s.node().op.clone();
    if !matches!(op.as_str(), "Sum" | "Mean") {
        return Err("its inputs may have different shapes".into());
    }
    let (last, rest) = inputs.split_last().expect("there are two");
    let mut sum = rest[0];
    for v in &rest[1..] {
        sum = s.add("Add", "part", &[sum, *v], &[]);
    }
    if op == "Sum" {
        s.become_node("Add", &[sum, *last], &[]);
        return Ok(());
    }
    let sum = s.add("Add", "sum", &[sum, *last], &[]);
    let count = s.scalar("count", inputs.len() as f64, s.dtype(inputs[0])?)?;
    s.become_node("Div", &[sum, count], &[]);
    Ok(())
}

/// The remainder with the divisor's sign: (r + b) mod b for the remainder r with the dividend's.
fn mod_10_down(s: &mut Site<'_>) -> Done {
    let (a, b) = (s.input(0)?, s.input(1)?);
    if s.int("fmod")?.unwrap_or(0) != 0 || !s.dtype(a)?.is_integer() {
        return Err("there is no remainder of floats".into());
    }
    let whole = s.add("Div", "whole", &[a, b], &[]);
    let part = s.add("Mul", "part", &[whole, b], &[]);
    let rest = s.add("Sub", "rest", &[a, part], &[]);
    let above = s.add("Add", "above", &[rest, b], &[]);
    let whole = s.add("Div", "whole", &[above, b], &[]);
    let part = s.add("Mul", "part", &[whole, b], &[]);
    s.become_node("Sub", &[above, part], &[]);
    Ok(())
}

fn clip_11_up(s: &mut Site<'_>) -> Done {
    for (i, name) in [(1, "min"), (2, "max")] {
        if let Some(limit) = s.float(name)? {
            let limit = s.scalar(name, f64::from(limit), s.dtype(s.input(0)?)?)?;
            s.set_input(i, Some(limit));
            s.drop(name);
        }
    }
    Ok(())
}

/// Limits that are computed are taken by `Max` and `Min`.
fn clip_11_down(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let mut limits = Vec::new();
    for (i, name) in [(1, "min"), (2, "max")] {
        let Some(v) = s.node().input(i) else { continue };
        let exact = s.fixed_floats(i).ok().flatten().and_then(|l| l.first().copied());
        let exact = exact.filter(|l| f64::from(*l as f32) == *l);
        limits.push((name, v, exact.map(|l| l as f32)));
    }
    let known: Option<Vec<_>> = limits.iter().map(|(n, _, l)| Some((*n, (*l)?))).collect();
    if let Some(known) = known {
        s.set_inputs(vec![Some(x)]);
        known.into_iter().for_each(|(name, limit)| s.set(name, Attr::Float(limit)));
        return Ok(());
    }
    let mut inner = x;
    let op = |name: &str| if name == "min" { "Max" } else { "Min" };
    let (last, rest) = limits.split_last().expect("one is not known");
    for (name, v, _) in rest {
        inner = s.add(op(name), "above", &[inner, *v], &[]);
    }
    s.become_node(op(last.0), &[inner, last.1], &[]);
    Ok(())
}

/// Whether every value of the type is a double.
fn is_small_integer(dtype: DataType) -> bool {
    dtype.is_integer() && dtype.bits() <= 32
}

fn all_inputs(s: &Site<'_>) -> Vec<usize> {
    (0..s.node().inputs.len()).collect()
}

/// Where only floating-point types were allowed.
pub(crate) fn integers_as_double(s: &mut Site<'_>) -> Done {
    if is_small_integer(s.dtype(s.input(0)?)?) {
        s.through(DataType::Double, &all_inputs(s), &[0])?;
    }
    Ok(())
}

/// Where integers of fewer than 32 bits were not allowed; casting back wraps as they do.
fn integers_as_int64(s: &mut Site<'_>) -> Done {
    let dtype = s.dtype(s.input(0)?)?;
    if dtype.is_integer() && dtype.bits() < 32 {
        s.through(DataType::Int64, &all_inputs(s), &[0])?;
    }
    Ok(())
}

/// Before opset 12 base and exponent have the same type.
fn pow_12_down(s: &mut Site<'_>) -> Done {
    let (base, exponent) = (s.input(0)?, s.input(1)?);
    let (of, to) = (s.dtype(exponent)?, s.dtype(base)?);
    if is_small_integer(to) {
        return s.through(DataType::Double, &[0, 1], &[0]);
    }
    if of != to {
        let same = s.cast("exponent", exponent, to);
        s.set_input(1, Some(same));
    }
    Ok(())
}

fn half_as_float(s: &mut Site<'_>) -> Done {
    match s.dtype(s.input(0)?)? {
        DataType::Float16 | DataType::Bfloat16 => s.through(DataType::Float, &[0], &[]),
        _ => Ok(()),
    }
}
