//! Attention of a stack to itself, with a cache in the decoder, and of the decoder to what the encoder gives.

use super::net::Net;
use super::{AttentionNames, Stack};
use crate::layers::Linear;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::Tensor;

/// The attention of a layer: its stack, its names, and what they begin with.
pub(super) struct Attention<'a> {
    pub(super) stack: &'a Stack,
    pub(super) names: &'a AttentionNames,
    pub(super) prefix: &'a str,
}

/// What the encoder gives, or the cache has of it.
#[derive(Clone, Copy)]
pub(super) struct Crossing {
    /// Whether the cache has it.
    pub(super) is_cached: Var,
    pub(super) states: Var,
    pub(super) past: [Var; 2],
    pub(super) bias: Option<Var>,
}

impl Attention<'_> {
    /// Attention to the same sequence. Gives the cache with the new keys and values, too.
    pub(super) fn to_itself(
        &self,
        net: &Net<'_>,
        x: Var,
        past: Option<[Var; 2]>,
        bias: Option<Var>,
    ) -> Result<(Var, [Var; 2])> {
        let AttentionNames { q, k, v, .. } = *self.names;
        let [q, k, v] = [q, k, v].map(|name| self.apart(net, self.projected(net, x, name)?));
        let (q, mut cache) = (q?, [k?, v?]);
        if let Some(past) = past {
            let joined = |past, new| net.b.concat([past, new]).axis(2).one();
            cache = [joined(past[0], cache[0])?, joined(past[1], cache[1])?];
        }
        Ok((self.output(net, self.mixed(net, q, cache, bias)?)?, cache))
    }

    /// Attention to what the encoder gives. Its keys and values are computed once: later calls take them from the
    /// cache, and give empty ones, so that nothing is copied.
    pub(super) fn to_encoder(
        &self,
        net: &Net<'_>,
        x: Var,
        crossing: Crossing,
    ) -> Result<(Var, [Var; 2])> {
        let AttentionNames { q, k, v, .. } = *self.names;
        let Crossing { is_cached, states, past, bias } = crossing;
        let q = self.apart(net, self.projected(net, x, q)?)?;
        let (k, v) = (self.linear(net, k)?, self.linear(net, v)?);
        let none = || {
            net.b
                .constant(Tensor::from_vec([0, self.stack.heads, 0, net.d.head], Vec::<f32>::new()))
        };
        let then = |_: &GraphBuilder| Ok(vec![self.mixed(net, q, past, bias)?, none(), none()]);
        let otherwise = |_: &GraphBuilder| {
            let cache = [
                self.apart(net, net.apply(states, &k)?)?,
                self.apart(net, net.apply(states, &v)?)?,
            ];
            Ok(vec![self.mixed(net, q, cache, bias)?, cache[0], cache[1]])
        };
        let given = net.b.if_(is_cached, then, otherwise)?;
        Ok((self.output(net, given[0])?, [given[1], given[2]]))
    }

    fn linear(&self, net: &Net<'_>, name: &str) -> Result<Linear> {
        let size = self.stack.heads * net.d.head;
        net.plain(&format!("{}{name}", self.prefix), [net.d.hidden, size])
    }

    fn projected(&self, net: &Net<'_>, x: Var, name: &str) -> Result<Var> {
        net.apply(x, &self.linear(net, name)?)
    }

    fn output(&self, net: &Net<'_>, x: Var) -> Result<Var> {
        let size = self.stack.heads * net.d.head;
        let name = format!("{}{}", self.prefix, self.names.o);
        net.apply(x, &net.plain(&name, [size, net.d.hidden])?)
    }

    /// Heads apart: [B, heads, S, D].
    fn apart(&self, net: &Net<'_>, x: Var) -> Result<Var> {
        let sizes = vec![0, -1, self.stack.heads as i64, net.d.head as i64];
        net.b.transpose(net.b.reshape(x, sizes).one()?).perm(vec![0, 2, 1, 3]).one()
    }

    /// `softmax(q k^T * scale + bias) v`, with heads together again.
    fn mixed(&self, net: &Net<'_>, q: Var, [k, v]: [Var; 2], bias: Option<Var>) -> Result<Var> {
        let b = net.b;
        let k = b.transpose(k).perm(vec![0, 1, 3, 2]).one()?;
        let mut scores = b.mat_mul(q, k)?;
        if net.d.scale != 1.0 {
            scores = b.mul(scores, net.d.scale)?;
        }
        if let Some(bias) = bias {
            scores = b.add(scores, bias)?;
        }
        let mixed = b.mat_mul(b.softmax(scores).axis(-1).one()?, v)?;
        let together = b.transpose(mixed).perm(vec![0, 2, 1, 3]).one()?;
        b.reshape(together, vec![0, -1, (self.stack.heads * net.d.head) as i64]).one()
    }
}
