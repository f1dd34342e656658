//! Parts that the encoder and the decoder have in common.

use super::{EncoderDecoder, Norm, Stack};
use crate::layers::{Layers, activate};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, ValueType};
use std::ops::Deref;

/// The size of a batch.
pub(super) const BATCH: &str = "batch_size";

/// What writes a graph: the description, the weights, and the graph.
pub(super) struct Net<'a> {
    pub(super) layers: Layers<'a>,
    pub(super) d: &'a EncoderDecoder,
}

impl<'a> Deref for Net<'a> {
    type Target = Layers<'a>;

    fn deref(&self) -> &Layers<'a> {
        &self.layers
    }
}

impl Net<'_> {
    pub(super) fn tokens(&self, name: &str, length: &str) -> Var {
        let sizes = [BATCH, length].map(|name| Dim::Symbol(name.into()));
        self.b.input(name, ValueType::tensor(DataType::Int64, sizes))
    }

    pub(super) fn norm(&self, x: Var, name: &str) -> Result<Var> {
        let Norm { is_rms, epsilon, .. } = self.d.norm;
        if !is_rms {
            return self.layer_norm(x, name, self.d.hidden, epsilon);
        }
        let name = format!("{name}.weight");
        let weight = self.w.tensor(&name, &[self.d.hidden])?;
        self.rms(x, self.constant(&name, weight), epsilon)
    }

    /// `x + branch(norm(x))`, or `norm(x + branch(x))`.
    pub(super) fn residual(
        &self,
        x: Var,
        norm: &str,
        branch: impl FnOnce(Var) -> Result<Var>,
    ) -> Result<Var> {
        match self.d.norm.is_first {
            true => self.b.add(x, branch(self.norm(x, norm)?)?),
            false => self.norm(self.b.add(x, branch(x)?)?, norm),
        }
    }

    /// `down(f(up(x)))`, or `down(f(gate(x)) * up(x))`.
    pub(super) fn mlp(&self, x: Var, stack: &Stack, prefix: &str) -> Result<Var> {
        let inwards = |name: &str| {
            let name = format!("{prefix}{name}");
            self.apply(x, &self.plain(&name, [self.d.hidden, stack.inner])?)
        };
        let up = inwards(stack.up)?;
        let inner = match stack.gate {
            Some(gate) => self.b.mul(activate(self.b, inwards(gate)?, self.d.activation)?, up)?,
            None => activate(self.b, up, self.d.activation)?,
        };
        let name = format!("{prefix}{}", stack.down);
        self.apply(inner, &self.plain(&name, [stack.inner, self.d.hidden])?)
    }

    pub(super) fn final_norm(&self, stack: &Stack, x: Var) -> Result<Var> {
        match stack.final_norm {
            Some(norm) => self.norm(x, &format!("{}.{norm}", stack.name)),
            None => Ok(x),
        }
    }
}
