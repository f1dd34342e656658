//! A stack of transformer layers as data, without cache: of pictures, sound, and the texts that go with them.

use crate::diag;
use crate::layers::{Activation, Layers, OPERATORS, activate};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};

/// Layers, all alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub(crate) names: Names,
    pub(crate) count: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) inner: usize,
    pub(crate) epsilon: f64,
    pub(crate) activation: Activation,
    pub(crate) order: Order,
    pub(crate) mlp: Mlp,
    /// Whether weights multiply what branches give.
    pub(crate) has_scales: bool,
}

/// Names of the layers, and in a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) layers: &'static str,
    pub(crate) norm: &'static str,
    pub(crate) mlp_norm: &'static str,
    /// Queries, keys, values, and what is made of heads.
    pub(crate) attention: [&'static str; 4],
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    /// What multiplies attention, and what multiplies the MLP.
    pub(crate) scales: [&'static str; 2],
}

/// Where norms lie in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// `x += attention(norm(x)); x += mlp(norm(x))`
    Before,
    /// `x = norm(x + attention(x)); x = norm(x + mlp(x))`
    After,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mlp {
    /// `down(f(up(x)))`
    Plain,
    /// `down(f(gate(x)) * up(x))`, with the gate before `up` in one weight.
    Gated,
}

impl Stack {
    /// What names of the weights of a layer begin with.
    pub(crate) fn prefix(&self, layer: usize) -> String {
        format!("{}.{layer}.", self.names.layers)
    }

    /// The stack of `x`, by what is added to the scores of each layer.
    pub(crate) fn apply(
        &self,
        net: &Layers<'_>,
        mut x: Var,
        bias: impl Fn(usize) -> Result<Option<Var>>,
    ) -> Result<Var> {
        for number in 0..self.count {
            x = self.layer(net, x, number, &bias)?;
        }
        Ok(x)
    }

    /// A layer by its number.
    pub(crate) fn layer(
        &self,
        net: &Layers<'_>,
        x: Var,
        number: usize,
        bias: impl Fn(usize) -> Result<Option<Var>>,
    ) -> Result<Var> {
        let name = format!("{}.{number}", self.names.layers);
        let layer = diag::Layer::new(name, "transformer layer");
        net.b.in_layer(layer, |_| self.branches(net, x, &self.prefix(number), bias(number)?))
    }

    fn branches(&self, net: &Layers<'_>, x: Var, prefix: &str, bias: Option<Var>) -> Result<Var> {
        let (b, names) = (net.b, &self.names);
        let norm = |x, name: &str| {
            net.layer_norm(x, &format!("{prefix}{name}"), self.hidden, self.epsilon)
        };
        let mix = |x| {
            let weights = names.attention.map(|name| format!("{prefix}{name}"));
            let mixed = attention(net, x, &weights, [self.hidden, self.heads], bias)?;
            self.scaled(net, mixed, &format!("{prefix}{}", names.scales[0]))
        };
        let think = |x| {
            let thought = self.mlp(net, x, prefix)?;
            self.scaled(net, thought, &format!("{prefix}{}", names.scales[1]))
        };
        match self.order {
            Order::Before => {
                let x = b.add(x, mix(norm(x, names.norm)?)?)?;
                b.add(x, think(norm(x, names.mlp_norm)?)?)
            }
            Order::After => {
                let x = norm(b.add(x, mix(x)?)?, names.norm)?;
                norm(b.add(x, think(x)?)?, names.mlp_norm)
            }
        }
    }

    fn scaled(&self, net: &Layers<'_>, x: Var, name: &str) -> Result<Var> {
        match self.has_scales {
            true => net.b.mul(x, net.constant(name, net.w.tensor(name, &[self.hidden])?)),
            false => Ok(x),
        }
    }

    /// The MLP of the layer under `prefix`.
    fn mlp(&self, net: &Layers<'_>, x: Var, prefix: &str) -> Result<Var> {
        let Stack { hidden, inner, .. } = *self;
        let [up, down] = [self.names.up, self.names.down].map(|name| format!("{prefix}{name}"));
        let f = |x| activate(net.b, x, self.activation);
        let thought = match self.mlp {
            Mlp::Plain => f(project(net, x, &up, [hidden, inner])?)?,
            Mlp::Gated => {
                let both = net.plain(&up, [hidden, 2 * inner])?;
                let gate = net.apply(x, &both.rows("gate", 0, inner)?)?;
                net.b.mul(f(gate)?, net.apply(x, &both.rows("up", inner, inner)?)?)?
            }
        };
        project(net, thought, &down, [inner, hidden])
    }
}

/// The linear layer `name` of `x`.
pub(crate) fn project(net: &Layers<'_>, x: Var, name: &str, sizes: [usize; 2]) -> Result<Var> {
    net.apply(x, &net.plain(name, sizes)?)
}

/// Attention of tokens to all others, by the names of its four layers.
pub(crate) fn attention(
    net: &Layers<'_>,
    x: Var,
    [q, k, v, o]: &[String; 4],
    [hidden, heads]: [usize; 2],
    bias: Option<Var>,
) -> Result<Var> {
    let part = |name| project(net, x, name, [hidden; 2]);
    let mixed = mixed(net.b, [part(q)?, part(k)?, part(v)?], [hidden / heads, heads], bias)?;
    project(net, mixed, o, [hidden; 2])
}

/// `softmax(q k^T / sqrt(D) + bias) v` of heads that lie together: [B, S, heads D].
pub(crate) fn mixed(
    b: &GraphBuilder,
    [q, k, v]: [Var; 3],
    [head, heads]: [usize; 2],
    bias: Option<Var>,
) -> Result<Var> {
    let scale = (head as f64).powf(-0.5);
    if b.opset() >= OPERATORS {
        let call = b.attention(q, k, v).q_num_heads(heads as i64).kv_num_heads(heads as i64);
        return call.scale(scale).attn_mask(bias).one();
    }
    let apart = |x, perm: [i64; 4]| {
        let x = b.reshape(x, vec![0, 0, heads as i64, head as i64]).one()?;
        b.transpose(x).perm(perm).one()
    };
    let (q, v) = (apart(q, [0, 2, 1, 3])?, apart(v, [0, 2, 1, 3])?);
    let scores = b.mul(b.mat_mul(q, apart(k, [0, 2, 3, 1])?)?, scale)?;
    let scores = bias.map_or(Ok(scores), |bias| b.add(scores, bias))?;
    let mixed = b.mat_mul(b.softmax(scores).axis(-1).one()?, v)?;
    let together = b.transpose(mixed).perm([0, 2, 1, 3]).one()?;
    b.reshape(together, vec![0, 0, (heads * head) as i64]).one()
}
