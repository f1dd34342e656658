//! Weights as constants of the graph, and what is linear in them. None is copied: transposed and sliced weights are
//! derived from those of the file.

use super::{Decoder, Fused};
use crate::checkpoint::Checkpoint;
use crate::diag::{Diagnostic, shown};
use crate::problem::damaged;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{Tensor, TensorError};

/// What writes a decoder: its description, its weights, and the graph.
pub(super) struct Net<'a> {
    pub(super) b: &'a GraphBuilder,
    pub(super) d: &'a Decoder,
    pub(super) w: &'a Checkpoint,
}

/// A linear layer: weights with their outputs first.
pub(super) struct Linear {
    name: String,
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Net<'_> {
    /// A constant under the name that it has in the checkpoint.
    pub(super) fn constant(&self, name: &str, tensor: Tensor) -> Var {
        self.b.under("", |b| b.parameter(name, tensor))
    }

    /// The layer `name`.
    pub(super) fn linear(&self, name: &str, [inputs, outputs]: [usize; 2]) -> Result<Linear> {
        if !self.d.inputs_first {
            return self.plain(name, [inputs, outputs]);
        }
        let weight = turned(name, &self.w.tensor(&format!("{name}.weight"), &[inputs, outputs])?)?;
        let bias = self.w.optional(&format!("{name}.bias"), &[outputs])?;
        Ok(Linear { name: name.to_owned(), weight, bias })
    }

    /// The layer `name`, whose weights have their outputs first in all families.
    pub(super) fn plain(&self, name: &str, [inputs, outputs]: [usize; 2]) -> Result<Linear> {
        let weight = self.w.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = self.w.optional(&format!("{name}.bias"), &[outputs])?;
        Ok(Linear { name: name.to_owned(), weight, bias })
    }

    /// `x W^T + b`
    pub(super) fn apply(&self, x: Var, linear: &Linear) -> Result<Var> {
        let Linear { name, weight, bias } = linear;
        let weight = self.constant(&format!("{name}.weight"), turned(name, weight)?);
        let y = self.b.mat_mul(x, weight)?;
        match bias {
            Some(bias) => self.b.add(y, self.constant(&format!("{name}.bias"), bias.clone())),
            None => Ok(y),
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

impl Linear {
    /// Some of the outputs, as a layer of their own.
    pub(super) fn rows(&self, role: &str, first: usize, count: usize) -> Result<Linear> {
        let cut = |tensor: &Tensor| {
            let mut axes: Vec<_> = tensor.dims().iter().map(|size| (0, *size, 1)).collect();
            axes[0] = (first, count, 1);
            tensor.sliced(&axes)
        };
        self.with(role, cut)
    }

    /// Of outputs in so many groups, `count` of each from `first` on.
    fn grouped(&self, role: &str, groups: usize, [first, count]: [usize; 2]) -> Result<Linear> {
        let cut = |tensor: &Tensor| {
            let each = tensor.dims()[0] / groups;
            let inputs = tensor.dims()[1..].iter().product();
            let apart = tensor.reshaped([groups, each, inputs])?;
            let cut = apart.sliced(&[(0, groups, 1), (first, count, 1), (0, inputs, 1)])?;
            let mut dims = tensor.dims().to_vec();
            dims[0] = groups * count;
            cut.reshaped(dims)
        };
        self.with(role, cut)
    }

    fn with(
        &self,
        role: &str,
        cut: impl Fn(&Tensor) -> std::result::Result<Tensor, TensorError>,
    ) -> Result<Linear> {
        let name = format!("{}.{role}", self.name);
        let weight = checked(&name, cut(&self.weight))?;
        let bias = self.bias.as_ref().map(|bias| checked(&name, cut(bias))).transpose()?;
        Ok(Linear { name, weight, bias })
    }
}

/// A derivation that sizes were checked for.
pub(super) fn checked(
    name: &str,
    tensor: std::result::Result<Tensor, TensorError>,
) -> std::result::Result<Tensor, Diagnostic> {
    tensor.map_err(|e| damaged(format!("tensor `{}`: {e}", shown(name))))
}

/// A matrix with its axes exchanged.
pub(super) fn turned(name: &str, matrix: &Tensor) -> Result<Tensor> {
    checked(name, matrix.permuted(&[1, 0]))
}
