//! Pools.

use crate::ops::conv::{Padding, Window};
use crate::ops::layout::Channels;
use crate::ops::pool::{average_pool, max_pool};
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Elements of the places that an adaptive pool looks at.
const PLACES_MAX: i64 = 1 << 20;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "MaxPooling1D" | "MaxPooling2D" | "MaxPooling3D" => |b, a: Pool| pool(b, a, max_pool);
        "AveragePooling1D" | "AveragePooling2D" | "AveragePooling3D" => |b, a: Pool| pool(b, a, average_pool);
        "GlobalMaxPooling1D" | "GlobalMaxPooling2D" | "GlobalMaxPooling3D" => |b, a: Global| {
            let (axes, keep) = spatial(b, &a)?;
            b.reduce_max(a.inputs).axes(axes).keepdims(keep).one()
        };
        "GlobalAveragePooling2D" | "GlobalAveragePooling3D" => global_mean;
        "GlobalAveragePooling1D" => masked_mean;
        "AdaptiveMaxPooling1D" | "AdaptiveMaxPooling2D" | "AdaptiveMaxPooling3D" => |b, a: Adaptive| {
            adaptive(b, a, true)
        };
        "AdaptiveAveragePooling1D" | "AdaptiveAveragePooling2D" | "AdaptiveAveragePooling3D" => |b, a: Adaptive| {
            adaptive(b, a, false)
        };
    }
}

arguments! {
    /// `MaxPooling2D(pool_size=(2, 2), strides=None, padding="valid", data_format=None)`
    struct Pool {
        inputs: Var, pool_size: Vec<i64>, strides: Option<Vec<i64>>, padding: String = "valid",
        data_format: String = "channels_last",
    }
    /// `GlobalMaxPooling2D(data_format=None, keepdims=False)`; `call(inputs, mask=None)`
    struct Global {
        inputs: Var, mask: Option<Var>, data_format: String = "channels_last", keepdims: bool = false,
        is_keras2: bool = false,
    }
    /// `AdaptiveMaxPooling2D(output_size, data_format=None)`
    struct Adaptive { inputs: Var, output_size: Vec<i64>, data_format: String = "channels_last" }
}

fn pool(
    b: &Lower,
    a: Pool,
    lower: fn(&GraphBuilder, Var, &Window) -> Lowered<Var>,
) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let strides = a.strides.unwrap_or_else(|| a.pool_size.clone());
    let window = super::window(b, &a.pool_size, &strides, None, &a.padding, channels)?;
    channels.within(b, a.inputs, |x| lower(b, x, &window))
}

/// The axes of a picture, and whether they stay.
fn spatial(b: &GraphBuilder, a: &Global) -> Lowered<(Vec<i64>, i64)> {
    let n = rank(b, a.inputs)? as i64;
    let axes = match Channels::from_format(b, &a.data_format)? {
        Channels::First => (2..n).collect(),
        Channels::Last => (1..n - 1).collect(),
    };
    Ok((axes, i64::from(a.keepdims)))
}

/// A pool over everything where channels come first there, as convolutions do.
fn global_mean(b: &Lower, a: Global) -> Lowered<Var> {
    let (axes, keep) = spatial(b, &a)?;
    b.reduce_mean(floats(b, &a)?).axes(axes).keepdims(keep).one()
}

/// What is averaged. Integers have a mean of floats; version 2 gave its whole part.
fn floats(b: &GraphBuilder, a: &Global) -> Lowered<Var> {
    match dtype_of(b, a.inputs)?.is_float() {
        true => Ok(a.inputs),
        false if a.is_keras2 => {
            Err(b.unsupported("The layer averages integers, as version 2 of Keras does."))
        }
        false => b.cast(a.inputs, DataType::Float),
    }
}

/// The mean of the steps that count.
fn masked_mean(b: &Lower, a: Global) -> Lowered<Var> {
    let (axes, keep) = spatial(b, &a)?;
    let Some(mask) = a.mask else { return global_mean(b, a) };
    let behind = match Channels::from_format(b, &a.data_format)? {
        Channels::First => 1,
        Channels::Last => 2,
    };
    let x = floats(b, &a)?;
    let mask = b.cast(b.unsqueeze(mask, [behind])?, dtype_of(b, x)?)?;
    let sum = b.reduce_sum(b.mul(x, mask)?).axes(&axes).keepdims(keep).one()?;
    b.div(sum, b.reduce_sum(mask).axes(&axes).keepdims(keep).one()?)
}

/// Windows that together cover each axis: each begins and ends where its share of the axis does.
fn adaptive(b: &Lower, a: Adaptive, is_max: bool) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let n = a.output_size.len();
    refuse!(rank(b, a.inputs)? != n + 2 =>
        b.wrong(format!("The layer says {n} sizes, which its input does not have.")));
    let first = if channels == Channels::First { 2 } else { 1 };
    let shape = b.shape_of(a.inputs).unwrap_or_default();
    let sizes: Option<Vec<i64>> = (first..first + n).map(|at| shape[at].known()).collect();
    let sizes =
        sizes.filter(|sizes| sizes.iter().zip(&a.output_size).all(|(s, o)| *s > 0 && *o > 0));
    let Some(sizes) = sizes else {
        let message = "The sizes of the input must be known to share it out to windows.";
        return Err(b.unsupported(message));
    };
    if sizes.iter().zip(&a.output_size).all(|(size, out)| size % out == 0) {
        let kernel: Vec<i64> = sizes.iter().zip(&a.output_size).map(|(s, o)| s / o).collect();
        let strides = kernel.clone();
        let window = Window { kernel, strides, dilations: vec![1; n], padding: Padding::Valid };
        let lower = if is_max { max_pool } else { average_pool };
        return channels.within(b, a.inputs, |x| lower(b, x, &window));
    }
    (0..n).try_fold(a.inputs, |x, i| along(b, x, first + i, sizes[i], a.output_size[i], is_max))
}

/// Windows along one axis: their places are gathered into an axis of their own, over which they are reduced.
fn along(b: &GraphBuilder, x: Var, axis: usize, size: i64, out: i64, is_max: bool) -> Lowered<Var> {
    let many = || b.diagnostic(Code::SourceLimit, "The windows of the pool have too many places.");
    refuse!(size.max(out) > PLACES_MAX => many());
    let ends: Vec<(i64, i64)> =
        (0..out).map(|i| (i * size / out, ((i + 1) * size + out - 1) / out)).collect();
    let most = ends.iter().map(|(begin, end)| end - begin).max().unwrap_or(1);
    refuse!(out.saturating_mul(most) > PLACES_MAX => many());
    let each = |f: &dyn Fn(i64, i64, i64) -> i64| -> Vec<i64> {
        ends.iter()
            .flat_map(|(begin, end)| (0..most).map(|i| f(*begin, *end, i)).collect::<Vec<_>>())
            .collect()
    };
    let dims = [out as usize, most as usize];
    // Shorter windows look at their last place once more.
    let places = each(&|begin, end, i| (begin + i).min(end - 1));
    let y = b.gather(x, b.constant(Tensor::from_vec(dims, places))).axis(axis as i64).one()?;
    let over = axis as i64 + 1;
    if is_max {
        return b.reduce_max(y).axes([over]).keepdims(0).one();
    }
    let counts = each(&|begin, end, i| i64::from(begin + i < end));
    let lengths = each(&|begin, end, _| end - begin);
    let shares: Vec<f32> =
        counts.iter().zip(&lengths).map(|(count, length)| *count as f32 / *length as f32).collect();
    let rest = rank(b, y)? - axis - 2;
    let dims: Vec<usize> = dims.into_iter().chain(vec![1; rest]).collect();
    let shares = b.cast(b.constant(Tensor::from_vec(dims, shares)), dtype_of(b, x)?)?;
    b.reduce_sum(b.mul(y, shares)?).axes([over]).keepdims(0).one()
}
