//! Layers that move elements, repeat them, or leave some out.

use super::ints;
use crate::ops::layout::Channels;
use crate::ops::resize::{How, ResizeMode, resized};
use crate::ops::shape::{int64s, reshaped, transposed};
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::shown;
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// What is put around a picture, or taken off.
const SIZE_MAX: i64 = 1 << 30;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "Flatten" => flatten;
        "Reshape" => reshape(inputs, target_shape);
        "Permute" => |b, inputs: Var, dims: Vec<i64>| transposed(b, inputs, &[vec![0], dims].concat());
        "RepeatVector" => repeat_vector(inputs, n);
        "Cropping1D" | "Cropping2D" | "Cropping3D" => crop;
        "ZeroPadding1D" | "ZeroPadding2D" | "ZeroPadding3D" => zero_pad;
        "UpSampling1D" => |b, inputs: Var, size: i64| repeated(b, inputs, &[size], Channels::Last);
        "UpSampling2D" | "UpSampling3D" => up_sampling;
    }
}

arguments! {
    /// `Flatten(data_format=None)`
    struct Flatten { inputs: Var, data_format: String = "channels_last" }
    /// `Cropping2D(cropping=((0, 0), (0, 0)), data_format=None)`
    struct Cropping { inputs: Var, cropping: Vec<Value>, data_format: String = "channels_last" }
    /// `ZeroPadding2D(padding=(1, 1), data_format=None)`
    struct ZeroPadding { inputs: Var, padding: Vec<Value>, data_format: String = "channels_last" }
    /// `UpSampling2D(size=(2, 2), data_format=None, interpolation="nearest")`
    struct UpSampling {
        inputs: Var, size: Vec<i64>, data_format: String = "channels_last", interpolation: String = "nearest",
    }
}

/// All axes but the first become one; channels come last in it.
fn flatten(b: &Lower, a: Flatten) -> Lowered<Var> {
    let x = match (Channels::from_format(b, &a.data_format)?, rank(b, a.inputs)?) {
        (_, 0 | 1) => return b.reshape(a.inputs, [-1, 1]).one(),
        (Channels::First, 3..) => crate::ops::layout::channels_last(b, a.inputs)?,
        _ => a.inputs,
    };
    let shape = b.shape_of(x).unwrap_or_default();
    let sizes: Option<Vec<i64>> = shape[1..].iter().map(Dim::known).collect();
    let whole = sizes.and_then(|sizes| sizes.iter().try_fold(1i64, |n, size| n.checked_mul(*size)));
    match (whole, shape.first().and_then(Dim::known)) {
        (Some(0), first) => {
            b.reshape(x, [first.unwrap_or(0), 0]).allowzero(i64::from(first.is_some())).one()
        }
        (Some(size), _) => b.reshape(x, [-1, size]).one(),
        (None, _) => b.flatten(x).axis(1).one(),
    }
}

fn reshape(b: &Lower, inputs: Var, target_shape: Vec<Value>) -> Lowered<Var> {
    let size = |size: &Value| match size {
        Value::Int(n) => Some(*n),
        Value::None => Some(-1),
        _ => None,
    };
    let target: Option<Vec<i64>> = target_shape.iter().map(size).collect();
    let target = target.ok_or_else(|| b.wrong("The target shape is no list of sizes."))?;
    let batch = b.shape_of(inputs).and_then(|shape| shape.first()?.known());
    let is_open = target.contains(&-1);
    match batch {
        Some(batch) => reshaped(b, inputs, &[vec![batch], target].concat().into()),
        None if !is_open && !target.contains(&0) => {
            b.reshape(inputs, [vec![-1], target].concat()).one()
        }
        // Zero stands for the size that the input has there.
        None if !target.contains(&0) => b.reshape(inputs, [vec![0], target].concat()).one(),
        None => {
            let first = b.shape(inputs).start(0).end(1).one()?;
            let rest = b.constant(Tensor::vector(target));
            b.reshape(inputs, b.concat([first, rest]).axis(0).one()?).allowzero(1).one()
        }
    }
}

/// A matrix as `n` equal steps.
fn repeat_vector(b: &Lower, inputs: Var, n: i64) -> Lowered<Var> {
    b.tile(b.unsqueeze(inputs, [1])?, [1, n, 1])
}

/// Two numbers for each axis: Keras also takes one for all, or one for each.
fn pairs(b: &GraphBuilder, list: &[Value], n: usize) -> Lowered<Vec<[i64; 2]>> {
    let pair = |value: &Value| match (value, &ints(value)?[..]) {
        (Value::Int(x), _) => Some([*x, *x]),
        (_, [before, behind]) => Some([*before, *behind]),
        _ => None,
    };
    let found: Option<Vec<[i64; 2]>> = match list {
        [Value::Int(before), Value::Int(behind)] if n == 1 => Some(vec![[*before, *behind]]),
        list => list.iter().map(pair).collect(),
    };
    let found = found.filter(|found| {
        found.len() == n && found.iter().flatten().all(|x| (0..=SIZE_MAX).contains(x))
    });
    found.ok_or_else(|| {
        let message = format!("The layer does not have two numbers for each of {n} axes.");
        b.wrong(message)
    })
}

/// The first axis of the picture, and how many there are.
fn picture(b: &GraphBuilder, x: Var, channels: Channels) -> Lowered<(usize, usize)> {
    let n = rank(b, x)?.saturating_sub(2);
    Ok((if channels == Channels::First { 2 } else { 1 }, n))
}

fn crop(b: &Lower, a: Cropping) -> Lowered<Var> {
    let (first, n) = picture(b, a.inputs, Channels::from_format(b, &a.data_format)?)?;
    let cuts: Vec<(usize, [i64; 2])> = pairs(b, &a.cropping, n)?
        .into_iter()
        .enumerate()
        .filter(|(_, cut)| *cut != [0, 0])
        .collect();
    if cuts.is_empty() {
        return Ok(a.inputs);
    }
    let begins: Vec<i64> = cuts.iter().map(|(_, [before, _])| *before).collect();
    let end = |behind: i64| if behind == 0 { i64::MAX } else { -behind };
    let ends: Vec<i64> = cuts.iter().map(|(_, [_, behind])| end(*behind)).collect();
    let axes: Vec<i64> = cuts.iter().map(|(i, _)| (first + i) as i64).collect();
    b.slice(a.inputs, begins, ends).axes(axes).one()
}

fn zero_pad(b: &Lower, a: ZeroPadding) -> Lowered<Var> {
    let (first, n) = picture(b, a.inputs, Channels::from_format(b, &a.data_format)?)?;
    let pads = pairs(b, &a.padding, n)?;
    let mut all = vec![0; 2 * (n + 2)];
    for (i, [before, behind]) in pads.into_iter().enumerate() {
        (all[first + i], all[n + 2 + first + i]) = (before, behind);
    }
    b.pad(a.inputs, all).one()
}

fn up_sampling(b: &Lower, a: UpSampling) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let mode = match a.interpolation.as_str() {
        "nearest" => return repeated(b, a.inputs, &a.size, channels),
        "bilinear" => ResizeMode::Linear,
        "bicubic" => ResizeMode::Cubic,
        other => {
            let message =
                format!("The interpolation `{}` has no counterpart in ONNX.", shown(other));
            return Err(b.unsupported(message));
        }
    };
    let x = match channels {
        Channels::First => crate::ops::layout::channels_last(b, a.inputs)?,
        Channels::Last => a.inputs,
    };
    let shape = b.shape(x).start(1).end(3).one()?;
    let to = b.mul(shape, b.constant(Tensor::vector(a.size)))?;
    let y = resized(b, x, &int64s(b, &to.into())?, How::new(mode, false, true))?;
    match channels {
        Channels::First => crate::ops::layout::channels_first(b, y),
        Channels::Last => Ok(y),
    }
}

/// Each element of a picture several times.
fn repeated(b: &GraphBuilder, x: Var, times: &[i64], channels: Channels) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let computed = if dtype.is_float() { DataType::Float } else { dtype };
    let x = channels.first(b, b.cast(x, computed)?)?;
    let scales: Vec<f32> = [1, 1].iter().chain(times).map(|n| *n as f32).collect();
    let y = b
        .resize(x)
        .scales(b.constant(Tensor::vector(scales)))
        .mode("nearest")
        .coordinate_transformation_mode("asymmetric")
        .nearest_mode("floor")
        .one()?;
    channels.back(b, b.cast(y, dtype)?)
}
