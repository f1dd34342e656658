//! Layers whose tokens change a state, one after the other (Mamba).

use super::shared::Shared;
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
    /// Logarithms of rates of decay: [groups, steps, 1, 1], or as many as elements of a state.
    rates: Var,
}

impl StateSpace {
    /// What is kept of a row: the last inputs of the convolution, and the state.
    pub(super) fn sizes(&self) -> [[usize; 2]; 2] {
        [[self.channels(), self.taps - 1], [self.inner, self.size]]
    }

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

/// A layer with a state, and what the cache has of it.
struct Layer<'a> {
    net: &'a Net<'a>,
    state: &'a StateSpace,
    /// What names of its weights begin with.
    prefix: String,
    /// 1 for tokens and 0 for padding: [B, S, 1].
    is_token: Var,
    /// The last inputs of the convolution, and the state.
    past: [Var; 2],
}

/// What a layer gives, with the last inputs of its convolution and the state after all tokens.
pub(super) fn state_space(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    (prefix, state, past): (&str, &StateSpace, [Var; 2]),
) -> Result<(Var, Vec<Var>)> {
    let is_token = shared.tokens.new_ones(net.b)?;
    let prefix = format!("{prefix}{}.", state.name);
    let layer = Layer { net, state, prefix, is_token, past };
    let (mixed, cache) = match state.kind {
        StateKind::Channels { rank, norm } => layer.channels(x, rank, norm)?,
        StateKind::Heads { heads, groups, bounds, epsilon } => {
            let (y, z, cache) = layer.by_heads(x, [heads, groups * state.size], bounds)?;
            (layer.gated(y, z, epsilon)?, cache)
        }
    };
    let given = net.project(mixed, &layer.name("out_proj"), [state.inner, net.d.hidden])?;
    Ok((given, cache.to_vec()))
}

impl Layer<'_> {
    fn name(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }

    /// The weight `part` of the sizes `dims`, as one of other sizes.
    fn constant(&self, part: &str, dims: &[usize], shape: &[usize]) -> Result<Var> {
        let name = self.name(part);
        let tensor = checked(&name, self.net.w.tensor(&name, dims)?.reshaped(shape))?;
        Ok(self.net.constant(&name, tensor))
    }

    /// `(scan(u) + D u) f(z)` where time steps, and what goes into the state and comes out of it, follow from `u`.
    fn channels(&self, x: Var, rank: usize, norm: Option<f64>) -> Result<(Var, [Var; 2])> {
        let (net, b) = (self.net, self.net.b);
        let StateSpace { inner, size, activation, .. } = *self.state;
        let both = net.project(x, &self.name("in_proj"), [net.d.hidden, 2 * inner])?;
        let [u, z] = b.split(both).split(vec![inner as i64; 2]).axis(-1).outputs()?;
        let (u, last) = self.convolved(u)?;
        let parts = net.project(u, &self.name("x_proj"), [inner, rank + 2 * size])?;
        let parts = b.split(parts).split([rank, size, size].map(|n| n as i64));
        let normed = |x| norm.map_or(Ok(x), |epsilon| bare_rms(net, x, epsilon));
        let [step, into, out_of] = parts.axis(-1).outputs::<3>()?.map(normed);
        let step = b.softplus(net.project(step?, &self.name("dt_proj"), [rank, inner])?)?;
        let rates = self.constant("A_log", &[inner, size], &[1, inner, 1, size])?;
        let read = Read { step, input: u, into: into?, out_of: out_of?, rates };
        let (y, state) = self.scan(&read)?;
        let y = b.add(y, b.mul(u, self.constant("D", &[inner], &[inner])?)?)?;
        Ok((b.mul(y, activate(b, z, activation)?)?, [last, state]))
    }

    /// `scan(u) + D u`, and `z`, where time steps, and what goes into the state and comes out of it, follow from `x`
    /// itself. Bounds of time steps may be infinite.
    fn by_heads(
        &self,
        x: Var,
        [heads, shared]: [usize; 2],
        [least, most]: [f64; 2],
    ) -> Result<(Var, Var, [Var; 2])> {
        let (net, b, inner) = (self.net, self.net.b, self.state.inner);
        let parts = [inner, self.state.channels(), heads];
        let all = net.project(x, &self.name("in_proj"), [net.d.hidden, parts.iter().sum()])?;
        let [z, u, step] = b.split(all).split(parts.map(|n| n as i64)).axis(-1).outputs()?;
        let (u, last) = self.convolved(u)?;
        let parts = b.split(u).split([inner, shared, shared].map(|n| n as i64));
        let [u, into, out_of] = parts.axis(-1).outputs()?;
        let step = b.softplus(b.add(step, self.constant("dt_bias", &[heads], &[heads])?)?)?;
        let step = match [least, most] {
            [0.0, f64::INFINITY] => step,
            [least, f64::INFINITY] => b.clip(step).min(least).one()?,
            [least, most] => b.clip(step).min(least).max(most).one()?,
        };
        let [groups, of_group, _] = self.state.shape().map(|n| n as usize);
        let rates = self.constant("A_log", &[heads], &[groups, of_group, 1, 1])?;
        let (y, state) = self.scan(&Read { step, input: u, into, out_of, rates })?;
        let by_head = b.reshape(u, vec![0, 0, heads as i64, -1]).one()?;
        let skip = b.mul(by_head, self.constant("D", &[heads], &[heads, 1])?)?;
        let y = b.add(y, b.reshape(skip, vec![0, 0, inner as i64]).one()?)?;
        Ok((y, z, [last, state]))
    }

    /// `rms(y silu(z))`, by one root of the mean square for all groups, as Transformers has it.
    fn gated(&self, y: Var, z: Var, epsilon: f64) -> Result<Var> {
        let (net, b, inner) = (self.net, self.net.b, self.state.inner);
        let y = b.mul(y, activate(b, z, Activation::Silu)?)?;
        net.rms(y, self.constant("norm.weight", &[inner], &[inner])?, epsilon)
    }

    /// The convolution of [B, S, C] over each channel and its activation, and the last inputs, which the next call
    /// begins with.
    fn convolved(&self, x: Var) -> Result<(Var, Var)> {
        let (net, b) = (self.net, self.net.b);
        let (channels, taps) = (self.state.channels(), self.state.taps);
        let x = b.transpose(b.mul(x, self.is_token)?).perm([0, 2, 1]).one()?;
        let inputs = b.concat([self.past[0], x]).axis(2).one()?;
        let last = b.slice(inputs, vec![1 - taps as i64], vec![i64::MAX]).axes(vec![2]).one()?;
        let dims = [channels, 1, taps];
        let weight = self.constant("conv1d.weight", &dims, &dims)?;
        let call = b.conv(inputs, weight).group(channels as i64);
        let bias = self.name("conv1d.bias");
        let call = match net.w.optional(&bias, &[channels])? {
            Some(tensor) => call.b(net.constant(&bias, tensor)),
            None => call,
        };
        let x = activate(b, call.one()?, self.state.activation)?;
        Ok((b.transpose(x).perm([0, 2, 1]).one()?, last))
    }

    /// `s = s exp(-step exp(rate)) + step input into; y = s out_of` for one token after the other, and the last `s`.
    ///
    /// A state is [B, groups, steps, channels of a step, N]; that of the cache is [B, channels, N].
    fn scan(&self, read: &Read) -> Result<(Var, Var)> {
        let b = self.net.b;
        let ([groups, steps, channels], size) = (self.state.shape(), self.state.size as i64);
        // Tokens come first.
        let by_token = |x, sizes: [i64; 4]| {
            let x = b.reshape(x, [&[0, 0], &sizes[..]].concat()).one()?;
            b.transpose(x).perm([1, 0, 2, 3, 4, 5]).one()
        };
        // A time step of 0 leaves the state alone.
        let step = by_token(b.mul(read.step, self.is_token)?, [groups, steps, 1, 1])?;
        let input = by_token(read.input, [groups, steps, channels, 1])?;
        let [into, out_of] = [read.into, read.out_of].map(|x| by_token(x, [groups, 1, 1, size]));
        let scanned = [step, b.mul(step, input)?, into?, out_of?];
        let first = b.reshape(self.past[1], vec![-1, groups, steps, channels, size]).one()?;
        let rates = b.neg(b.exp(read.rates)?)?;
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
        let inner = self.state.inner as i64;
        let given = b.reshape(results[1], vec![0, 0, inner]).one()?;
        let given = b.transpose(given).perm([1, 0, 2]).one()?;
        Ok((given, b.reshape(results[0], vec![-1, inner, size]).one()?))
    }
}

/// The root of the mean square becomes 1.
fn bare_rms(net: &Net<'_>, x: Var, epsilon: f64) -> Result<Var> {
    let b = net.b;
    let square = b.reduce_mean(b.mul(x, x)?).axes(vec![-1]).keepdims(1).one()?;
    b.div(x, b.sqrt(b.add(square, epsilon)?)?)
}
