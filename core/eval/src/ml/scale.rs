//! Features: picked, joined, filled in and scaled.

use super::scores::{floats, table};
use crate::call::{KernelCall, KernelRow, integers, one, raw, row};
use crate::cells::take;
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, stored};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("ArrayFeatureExtractor", array_feature_extractor).in_domain(super::DOMAIN),
    row("Binarizer", binarizer).in_domain(super::DOMAIN),
    row("FeatureVectorizer", feature_vectorizer).in_domain(super::DOMAIN),
    raw("Imputer", imputer).in_domain(super::DOMAIN),
    row("Normalizer", normalizer).in_domain(super::DOMAIN),
    row("Scaler", scaler).in_domain(super::DOMAIN),
];

/// Columns by index.
fn array_feature_extractor(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let x = if x.rank() == 1 { x.reshaped([1, x.len()])? } else { x.clone() };
    let Some((size, outer)) = x.dims().split_last() else {
        return Err(Fault::invalid("a scalar has no columns"));
    };
    let picked = integers(call.x(1)?)?.into_iter().map(|i| dims::index(i, *size));
    let mut tables: Vec<Vec<usize>> = outer.iter().map(|d| (0..*d).collect()).collect();
    tables.push(picked.collect::<Outcome<_>>()?);
    let sizes: Vec<usize> = tables.iter().map(Vec::len).collect();
    call.room_like(&x, &sizes)?;
    one(take(&x, &tables, None)?)
}

/// One above the threshold, zero elsewhere.
fn binarizer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let threshold = f64::from(call.float("threshold", 0.0)?);
    call.room(DataType::Double, x.dims())?;
    let above = reals(x)?.into_iter().map(|v| f64::from(u8::from(v > threshold))).collect();
    one(stored(x.dtype(), x.dims(), above)?)
}

/// The columns of all inputs side by side, each cut or filled up with zeros to its width.
fn feature_vectorizer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let inputs = call.all()?;
    let widths = match call.ints("inputdimensions")? {
        Some(widths) => dims::sizes(widths)?,
        None => inputs.iter().map(|x| Ok(table(x)?.1)).collect::<Outcome<_>>()?,
    };
    refuse!(widths.len() != inputs.len() => "{} inputdimensions for {} inputs", widths.len(), inputs.len());
    let (rows, _) = table(inputs[0])?;
    let total = widths.iter().try_fold(0usize, |sum, w| sum.checked_add(*w));
    let total = total.ok_or_else(|| Fault::invalid("the inputdimensions overflow"))?;
    let mut y = vec![0f64; call.room(DataType::Double, &[rows, total])?];
    let mut start = 0;
    for (x, width) in inputs.iter().zip(widths) {
        let (own, columns) = table(x)?;
        refuse!(own != rows => "{x:?} has not {rows} rows, as the first input");
        let (values, taken) = (reals(x)?, columns.min(width));
        for i in 0..rows {
            let from = &values[i * columns..][..taken];
            y[i * total + start..][..taken].copy_from_slice(from);
        }
        start += width;
    }
    one(stored(DataType::Float, &[rows, total], y)?)
}

/// The entry of a list for each column: its own, or the only one.
fn per_column<T: Copy>(list: &[T], columns: usize, what: &str) -> Outcome<Vec<T>> {
    match list {
        [only] => Ok(vec![*only; columns]),
        list if list.len() == columns => Ok(list.to_vec()),
        list => {
            let text = format!("{what} has {} entries for {columns} columns", list.len());
            Err(Fault::invalid(text))
        }
    }
}

/// Another value in place of the one that stands for a missing one. NaN equals itself.
fn imputer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (_, columns) = table(x)?;
    call.room(DataType::Double, x.dims())?;
    if x.dtype().is_float() {
        let filled = per_column(&floats(call, "imputed_value_floats")?, columns, "the list")?;
        let gone = f64::from(call.float("replaced_value_float", 0.0)?);
        let missing = |v: f64| v == gone || (v.is_nan() && gone.is_nan());
        let mut y = reals(x)?;
        for row in y.chunks_mut(columns.max(1)) {
            let cells = row.iter_mut().zip(&filled).filter(|(v, _)| missing(**v));
            cells.for_each(|(v, by)| *v = *by);
        }
        return one(stored(x.dtype(), x.dims(), y)?);
    }
    let filled = call.ints("imputed_value_int64s")?.unwrap_or_default();
    let filled = per_column(filled, columns, "the list")?;
    let gone = call.int("replaced_value_int64", 0)?;
    let mut y = integers(x)?;
    for row in y.chunks_mut(columns.max(1)) {
        let cells = row.iter_mut().zip(&filled).filter(|(v, _)| **v == gone);
        cells.for_each(|(v, by)| *v = *by);
    }
    one(crate::shape::cast(&Tensor::from_vec(x.dims(), y), x.dtype())?)
}

/// Each row over its norm; a row whose norm is zero stays.
fn normalizer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (_, columns) = table(x)?;
    let norm: fn(&[f64]) -> f64 = match call.string("norm", "MAX")? {
        "MAX" => |row| row.iter().copied().fold(f64::MIN, f64::max),
        "L1" => |row| row.iter().map(|v| v.abs()).sum(),
        "L2" => |row| row.iter().map(|v| v * v).sum::<f64>().sqrt(),
        other => return Err(Fault::invalid(format!("norm `{other}` is not defined"))),
    };
    call.room(DataType::Double, x.dims())?;
    let mut y = reals(x)?;
    for row in y.chunks_mut(columns.max(1)) {
        let norm = norm(row);
        if norm != 0.0 {
            row.iter_mut().for_each(|v| *v /= norm);
        }
    }
    one(stored(DataType::Float, x.dims(), y)?)
}

/// Without the offset, times the scale. Floats are computed as such, since trees may split behind.
fn scaler(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (_, columns) = table(x)?;
    let list = |name: &str, none: f64| match floats(call, name)? {
        list if list.is_empty() => Ok(vec![none; columns]),
        list => per_column(&list, columns, name),
    };
    let (offset, scale) = (list("offset", 0.0)?, list("scale", 1.0)?);
    call.room(DataType::Double, x.dims())?;
    let single = x.dtype() != DataType::Double;
    let mut y = reals(x)?;
    for row in y.chunks_mut(columns.max(1)) {
        for ((v, offset), scale) in row.iter_mut().zip(&offset).zip(&scale) {
            let moved = *v - offset;
            *v = if single { f64::from(moved as f32) } else { moved } * scale;
        }
    }
    one(stored(DataType::Float, x.dims(), y)?)
}
