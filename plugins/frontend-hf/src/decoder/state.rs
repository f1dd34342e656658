//! Layers whose tokens change a state, one after the other (Mamba).

use super::attention::Shared;
use super::weights::Net;
use super::{StateKind, StateSpace};
use crate::layers::{Activation, activate, checked};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, ValueType};

/// What the state reads of each token: a time step, an input, and how these go into the state and come out of it.
struct Read {
    step: Var,
    input: Var,
    into: Var,
    out_of: Var,
    /// Rates of decay, for each time step and element of the state.
    rates: Var,
}

impl StateSpace {
    /// Channels of the convolution.
    pub(super) fn channels(&self) -> usize {
        match self.kind {
            StateKind::Channels { .. } => self.inner,
            StateKind::Heads { groups, .. } => self.inner + 2 * groups * self.size,
        }
    }

    /// Groups of time steps that the same elements go into the state of, time steps in a group, and channels that
    /// share a time step.
    fn shape(&self) -> [i64; 3] {
        match self.kind {
            StateKind::Channels { .. } => [1, self.inner as i64, 1],
            StateKind::Heads { heads, groups, .. } => {
                [groups, heads / groups, self.inner / heads].map(|n| n as i64)
            }
        }
    }
}

/// What a layer gives, with the last inputs of its convolution and the state after all tokens.
pub(super) fn state_space(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    (prefix, state, past): (&str, &StateSpace, [Var; 2]),
) -> Result<(Var, Vec<Var>)> {
    let name = |part: &str| format!("{prefix}{}.{part}", state.name);
    let is_token = shared.tokens.new_ones(net.b)?;
    let (mixed, conv, last) = match state.kind {
        StateKind::Channels { rank, norm } => {
            channels(net, x, &name, (state, is_token, past, rank, norm))?
        }
        StateKind::Heads { heads, groups, bounds, epsilon } => {
            let sizes = [heads, groups * state.size];
            by_heads(net, x, &name, (state, is_token, past, sizes, bounds, epsilon))?
        }
    };
    let given = net.project(mixed, &name("out_proj"), [state.inner, net.d.hidden])?;
    Ok((given, vec![conv, last]))
}

/// `(scan(u) + D u) f(z)` where time steps, and what goes into the state and comes out of it, follow from `u`.
fn channels(
    net: &Net<'_>,
    x: Var,
    name: &dyn Fn(&str) -> String,
    (state, is_token, past, rank, norm): (&StateSpace, Var, [Var; 2], usize, Option<f64>),
) -> Result<(Var, Var, Var)> {
    let b = net.b;
    let StateSpace { inner, size, activation, .. } = *state;
    let both = net.project(x, &name("in_proj"), [net.d.hidden, 2 * inner])?;
    let [u, z] = b.split(both).split(vec![inner as i64; 2]).axis(-1).outputs()?;
    let (u, conv) = state.convolved(net, b.mul(u, is_token)?, name, past[0])?;
    let parts = net.project(u, &name("x_proj"), [inner, rank + 2 * size])?;
    let parts = b.split(parts).split([rank, size, size].map(|n| n as i64));
    let normed = |x| norm.map_or(Ok(x), |epsilon| bare_rms(net, x, epsilon));
    let [step, into, out_of] = parts.axis(-1).outputs::<3>()?.map(normed);
    let step = b.softplus(net.project(step?, &name("dt_proj"), [rank, inner])?)?;
    // A time step of 0 leaves the state alone.
    let step = b.mul(step, is_token)?;
    let rates = net.w.tensor(&name("A_log"), &[inner, size])?;
    let rates = checked(&name("A_log"), rates.reshaped([1, inner, 1, size]))?;
    let rates = b.neg(b.exp(net.constant(&name("A_log"), rates))?)?;
    let read = Read { step, input: u, into: into?, out_of: out_of?, rates };
    let (y, last) = state.scan(net, &read, past[1])?;
    let skip = net.constant(&name("D"), net.w.tensor(&name("D"), &[inner])?);
    let y = b.add(y, b.mul(u, skip)?)?;
    Ok((b.mul(y, activate(b, z, activation)?)?, conv, last))
}

/// `rms((scan(u) + D u) silu(z))` where time steps, and what goes into the state and comes out of it, follow from
/// `x` itself. Each group has its root of the mean square. Bounds of time steps may be infinite.
fn by_heads(
    net: &Net<'_>,
    x: Var,
    name: &dyn Fn(&str) -> String,
    (state, is_token, past, [heads, shared], [least, most], epsilon): (
        &StateSpace,
        Var,
        [Var; 2],
        [usize; 2],
        [f64; 2],
        f64,
    ),
) -> Result<(Var, Var, Var)> {
    let b = net.b;
    let inner = state.inner;
    let constant = |part: &str, dims: &[usize], shape: Vec<usize>| {
        let tensor = checked(&name(part), net.w.tensor(&name(part), dims)?.reshaped(shape))?;
        Ok(net.constant(&name(part), tensor))
    };
    let parts = [inner, state.channels(), heads];
    let all = net.project(x, &name("in_proj"), [net.d.hidden, parts.iter().sum()])?;
    let all = b.split(all).split(parts.map(|n| n as i64)).axis(-1);
    let [z, u, step] = all.outputs()?;
    let (u, conv) = state.convolved(net, b.mul(u, is_token)?, name, past[0])?;
    let parts = b.split(u).split([inner, shared, shared].map(|n| n as i64)).axis(-1);
    let [u, into, out_of] = parts.outputs()?;
    let step = b.softplus(b.add(step, constant("dt_bias", &[heads], vec![heads])?)?)?;
    let step = match [least, most] {
        [0.0, f64::INFINITY] => step,
        [least, f64::INFINITY] => b.clip(step).min(least).one()?,
        [least, most] => b.clip(step).min(least).max(most).one()?,
    };
    // A time step of 0 leaves the state alone.
    let step = b.mul(step, is_token)?;
    let [groups, of_group, _] = state.shape().map(|n| n as usize);
    let rates = constant("A_log", &[heads], vec![groups, of_group, 1, 1])?;
    let rates = b.neg(b.exp(rates)?)?;
    let (y, last) = state.scan(net, &Read { step, input: u, into, out_of, rates }, past[1])?;
    let by_head = b.reshape(u, [0, 0, heads as i64, -1].to_vec()).one()?;
    let skip = b.mul(by_head, constant("D", &[heads], vec![heads, 1])?)?;
    let y = b.add(y, b.reshape(skip, vec![0, 0, inner as i64]).one()?)?;
    let y = b.mul(y, activate(b, z, Activation::Silu)?)?;
    let weight = constant("norm.weight", &[inner], vec![inner])?;
    if groups == 1 {
        return Ok((net.rms(y, weight, epsilon)?, conv, last));
    }
    let y = b.reshape(y, vec![0, 0, groups as i64, -1]).one()?;
    let y = b.reshape(bare_rms(net, y, epsilon)?, vec![0, 0, inner as i64]).one()?;
    Ok((b.mul(y, weight)?, conv, last))
}

/// The root of the mean square becomes 1.
fn bare_rms(net: &Net<'_>, x: Var, epsilon: f64) -> Result<Var> {
    let b = net.b;
    let square = b.reduce_mean(b.mul(x, x)?).axes(vec![-1]).keepdims(1).one()?;
    b.div(x, b.sqrt(b.add(square, epsilon)?)?)
}

impl StateSpace {
    /// The convolution of [B, S, C] over each channel and its activation, and the last inputs, which the next call
    /// begins with.
    fn convolved(
        &self,
        net: &Net<'_>,
        x: Var,
        name: &dyn Fn(&str) -> String,
        past: Var,
    ) -> Result<(Var, Var)> {
        let (b, channels) = (net.b, self.channels());
        let x = b.transpose(x).perm([0, 2, 1]).one()?;
        let inputs = b.concat([past, x]).axis(2).one()?;
        let last = b.slice(inputs, vec![1 - self.taps as i64], vec![i64::MAX]).axes(vec![2]);
        let weight = name("conv1d.weight");
        let weight = net.constant(&weight, net.w.tensor(&weight, &[channels, 1, self.taps])?);
        let call = b.conv(inputs, weight).group(channels as i64);
        let bias = name("conv1d.bias");
        let call = match net.w.optional(&bias, &[channels])? {
            Some(tensor) => call.b(net.constant(&bias, tensor)),
            None => call,
        };
        let x = activate(b, call.one()?, self.activation)?;
        Ok((b.transpose(x).perm([0, 2, 1]).one()?, last.one()?))
    }

    /// `s = s exp(step rate) + step input into; y = s out_of` for one token after the other, and the last `s`.
    ///
    /// A state is [B, groups, steps, channels of a step, N]; that of the cache is [B, channels, N].
    fn scan(&self, net: &Net<'_>, read: &Read, past: Var) -> Result<(Var, Var)> {
        let b = net.b;
        let ([groups, steps, channels], size) = (self.shape(), self.size as i64);
        // Tokens come first.
        let by_token = |x, sizes: [i64; 4]| {
            let x = b.reshape(x, [&[0, 0], &sizes[..]].concat()).one()?;
            b.transpose(x).perm([1, 0, 2, 3, 4, 5]).one()
        };
        let step = by_token(read.step, [groups, steps, 1, 1])?;
        let input = by_token(read.input, [groups, steps, channels, 1])?;
        let [into, out_of] = [read.into, read.out_of].map(|x| by_token(x, [groups, 1, 1, size]));
        let scanned = [step, b.mul(step, input)?, into?, out_of?];
        let first = b.reshape(past, vec![-1, groups, steps, channels, size]).one()?;
        let rates = read.rates;
        let results = b.scan(&[first], &scanned, |b, states, of_token| {
            let decayed = b.mul(states[0], b.exp(b.mul(of_token[0], rates)?)?)?;
            let state = b.add(decayed, b.mul(of_token[1], of_token[2])?)?;
            let given = b.mul(state, of_token[3])?;
            Ok(vec![state, b.reduce_sum(given).axes(vec![-1]).keepdims(0).one()?])
        })?;
        let shape = b.shape_of(scanned[1]).unwrap_or_default();
        if let [before @ .., _] = &shape[..] {
            b.declare(results[1], ValueType::tensor(DataType::Float, before.to_vec()));
        }
        let inner = self.inner as i64;
        let given = b.reshape(results[1], vec![0, 0, inner]).one()?;
        let given = b.transpose(given).perm([1, 0, 2]).one()?;
        let last = b.reshape(results[0], vec![-1, inner, size]).one()?;
        Ok((given, last))
    }
}
