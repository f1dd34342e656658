//! Linear layers of a decoder, with their inputs or outputs first, and heads that lie in one weight.

use super::{Decoder, Fused};
use crate::architecture::Target;
use crate::layers::{Layers, Linear};
use onnxd_plugin_sdk::build::{Result, Var};
use std::ops::Deref;

/// What writes a decoder: its description, its weights, and the graph.
pub(super) struct Net<'a> {
    pub(super) layers: Layers<'a>,
    pub(super) d: &'a Decoder,
    pub(super) target: &'a Target,
}

impl<'a> Deref for Net<'a> {
    type Target = Layers<'a>;

    fn deref(&self) -> &Layers<'a> {
        &self.layers
    }
}

impl Net<'_> {
    /// The layer `name`.
    pub(super) fn linear(&self, name: &str, sizes: [usize; 2]) -> Result<Linear> {
        match self.d.inputs_first {
            true => self.inputs_first(name, sizes),
            false => self.plain(name, sizes),
        }
    }

    /// The layer `name` of `x`.
    pub(super) fn project(&self, x: Var, name: &str, sizes: [usize; 2]) -> Result<Var> {
        self.apply(x, &self.linear(name, sizes)?)
    }

    /// Queries, keys and values of the layer under `prefix`.
    pub(super) fn heads(&self, prefix: &str) -> Result<[Linear; 3]> {
        let Decoder { names, hidden, heads, kv_heads, head, .. } = *self.d;
        let (q, kv) = (heads * head, kv_heads * head);
        let apart =
            |name: &str, outputs| self.linear(&format!("{prefix}{name}"), [hidden, outputs]);
        if self.d.attention.fused == Fused::Apart {
            return Ok([apart(names.q, q)?, apart(names.k, kv)?, apart(names.v, kv)?]);
        }
        let all = apart(names.qkv, q + 2 * kv)?;
        let rows = |role: &str, first, count| match self.d.attention.fused {
            Fused::Grouped => all.grouped(role, kv_heads, [first / kv_heads, count / kv_heads]),
            _ => all.rows(role, first, count),
        };
        if self.d.attention.fused == Fused::Quarters {
            let part = |role: &str, at: usize| all.grouped(role, 4, [at * q / 4, q / 4]);
            return Ok([part("q", 0)?, part("k", 2)?, part("v", 1)?]);
        }
        Ok([rows("q", 0, q)?, rows("k", q, kv)?, rows("v", q + kv, kv)?])
    }
}
