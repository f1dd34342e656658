//! `ConvLSTM`: an LSTM whose products are convolutions.

use super::recurrent_call::{RecurrentCall, activation, refuse_stateful};
use super::time::merged;
use super::{kernels, window};
use crate::keras::runner::{CallArgs, Called};
use crate::keras::values::KerasItem;
use crate::ops::conv::{self, Padding, Window};
use crate::ops::layout::Channels;
use crate::ops::recurrent::masked::zeros;
use crate::ops::recurrent::steps::{Mask, over_time};
use crate::ops::shape::{DimSize, size, sized, sizes, transposed};
use crate::ops::slicing::reversed;
use crate::ops::{dtype_of, rank};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::lower::Lowered;
use serde_json::Value as Json;

/// Runs a `ConvLSTM` over a sequence of pictures.
///
/// # Errors
/// As `KerasRunner::call`.
pub(crate) fn run(called: &Called<'_, '_, '_>, given: &CallArgs) -> Lowered<Vec<KerasItem>> {
    let (b, layer) = (called.builder(), called.layer);
    refuse_stateful(b, layer)?;
    let RecurrentCall { x, initial, mask } = RecurrentCall::from_given(b, given)?;
    let (kernel, recurrent, bias) = kernels(b, layer, &called.weights()?)?;
    let list = |key: &str| -> Option<Vec<i64>> {
        layer.config.get(key)?.as_array()?.iter().map(Json::as_i64).collect()
    };
    let channels = Channels::from_format(b, layer.word("data_format").unwrap_or("channels_last"))?;
    let sizes = list("kernel_size").unwrap_or_default();
    let ones = vec![1; sizes.len()];
    let strides = list("strides").unwrap_or_else(|| ones.clone());
    let padding = layer.word("padding").unwrap_or("valid");
    let outer = window(b, &sizes, &strides, list("dilation_rate"), padding, channels)?;
    let inner =
        Window { kernel: sizes, strides: ones.clone(), dilations: ones, padding: Padding::Same };
    let turn = |v: Var| if layer.is("go_backwards") { reversed(b, v, &[1]) } else { Ok(v) };
    let pictures = time_first(b, turn(x)?, channels)?;
    let sums = over_pictures(b, pictures, |x| {
        conv::conv(b, x, conv::filter(b, kernel)?, bias, &outer, 1)
    })?;
    let filters = layer.int("filters").unwrap_or_default();
    let initial = match initial.len() {
        0 => vec![no_state(b, sums, filters)?; 2],
        2 => initial.iter().map(|v| channels.first(b, *v)).collect::<Lowered<_>>()?,
        n => return Err(b.wrong(format!("The layer has 2 states, and is given {n}."))),
    };
    let counts = mask.map(|mask| transposed(b, turn(mask)?, &[1, 0])).transpose()?;
    let mask = counts.map(|counts| Mask { counts, zeros: layer.is("zero_output_for_mask") });
    let recurrent = conv::filter(b, recurrent)?;
    let (own, gates) = (
        activation(called.runner, layer, "activation"),
        activation(called.runner, layer, "recurrent_activation"),
    );
    let run = over_time(b, sums, &initial, mask, |b, x, states| {
        let z = b.add(x, conv::conv(b, states[0], recurrent, None, &inner, 1)?)?;
        let z = b.split(z).split(vec![filters; 4]).axis(1).list(4)?;
        let (gate, own) = (|x: Var| (gates.apply)(b, x), |x: Var| (own.apply)(b, x));
        let c = b.add(b.mul(gate(z[1])?, states[1])?, b.mul(gate(z[0])?, own(z[2])?)?)?;
        let h = b.mul(gate(z[3])?, own(c)?)?;
        Ok((h, vec![h, c]))
    })?;
    let output = match layer.is("return_sequences") {
        true => batch_first(b, run.outputs, channels)?,
        false => channels.back(b, b.gather(run.outputs, -1).axis(0).one()?)?,
    };
    let mut items: Vec<KerasItem> = vec![output.into()];
    if layer.is("return_state") {
        for state in run.states {
            items.push(channels.back(b, state)?.into());
        }
    }
    Ok(items)
}

/// `[time, batch, channels, spatial...]`
fn time_first(b: &GraphBuilder, x: Var, channels: Channels) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let perm: Vec<i64> = match channels {
        Channels::First => [1, 0].into_iter().chain(2..n).collect(),
        Channels::Last => [1, 0, n - 1].into_iter().chain(2..n - 1).collect(),
    };
    transposed(b, x, &perm)
}

fn batch_first(b: &GraphBuilder, x: Var, channels: Channels) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let perm: Vec<i64> = match channels {
        Channels::First => [1, 0].into_iter().chain(2..n).collect(),
        Channels::Last => [1, 0].into_iter().chain(3..n).chain([2]).collect(),
    };
    transposed(b, x, &perm)
}

/// What `f` makes of all pictures at once.
fn over_pictures(b: &GraphBuilder, x: Var, f: impl FnOnce(Var) -> Lowered<Var>) -> Lowered<Var> {
    let y = f(merged(b, x)?)?;
    sized(b, y, &[sizes(b, x, 0..2)?, sizes(b, y, 1..rank(b, y)?)?].concat())
}

/// Zeros like the state that the sums of `[time, batch, 4 * filters, spatial...]` lead to.
fn no_state(b: &GraphBuilder, sums: Var, filters: i64) -> Lowered<Var> {
    let spatial = sizes(b, sums, 3..rank(b, sums)?)?;
    let all = [vec![size(b, sums, 1)?, DimSize::Known(filters)], spatial].concat();
    zeros(b, &all, dtype_of(b, sums)?)
}
