//! Norms over the last axis.

use super::weights::Net;
use super::{Decoder, HeadNorm, Norm, NormKind};
use crate::layers::checked;
use crate::problem::damaged;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

impl Net<'_> {
    /// The norm `name` of `x`, which has `size` elements in its last axis.
    pub(super) fn norm(&self, x: Var, name: &str, size: usize) -> Result<Var> {
        let Norm { kind, epsilon, .. } = self.d.norm;
        if kind == NormKind::Bare {
            return self.scaled_norm(x, Tensor::vector(vec![1f32; size]), None, "ones");
        }
        if kind == NormKind::Layer && !self.d.norm.plus_one {
            return self.layer_norm(x, name, size, epsilon);
        }
        let weight = self.norm_weight(&format!("{name}.weight"), &[size])?;
        if kind == NormKind::Layer {
            let bias = self.w.optional(&format!("{name}.bias"), &[size])?;
            return self.scaled_norm(x, weight, bias, name);
        }
        let weight = self.constant(&format!("{name}.weight"), weight);
        self.rms(x, weight, epsilon)
    }

    fn scaled_norm(&self, x: Var, weight: Tensor, bias: Option<Tensor>, name: &str) -> Result<Var> {
        let weight = match name {
            "ones" => self.b.constant(weight),
            _ => self.constant(&format!("{name}.weight"), weight),
        };
        let call = self.b.layer_normalization(x, weight).axis(-1).epsilon(self.d.norm.epsilon);
        match bias {
            Some(bias) => call.b(self.constant(&format!("{name}.bias"), bias)).one(),
            None => call.one(),
        }
    }

    /// The weights of a norm, with the 1 that the file leaves out.
    fn norm_weight(&self, name: &str, dims: &[usize]) -> Result<Tensor> {
        let weight = self.w.tensor(name, dims)?;
        if !self.d.norm.plus_one {
            return Ok(weight);
        }
        let reals = weight.to_reals().map(|reals| reals.map(|x| x + 1.0));
        let more = reals.and_then(|reals| reals.to_tensor(DataType::Float));
        more.ok_or_else(|| damaged(format!("tensor `{name}` has no numbers")))
    }

    /// Queries or keys of all heads, before they are taken apart.
    pub(super) fn whole_norm(&self, x: Var, name: &str, size: usize) -> Result<Var> {
        match self.d.attention.head_norm {
            HeadNorm::Whole => self.norm(x, name, size),
            _ => Ok(x),
        }
    }

    /// Queries or keys [B, heads, S, D], by heads.
    pub(super) fn head_norm(&self, x: Var, name: &str, heads: usize) -> Result<Var> {
        let Decoder { head, .. } = *self.d;
        let weights = match self.d.attention.head_norm {
            HeadNorm::None | HeadNorm::Whole => return Ok(x),
            HeadNorm::Shared => return self.norm(x, name, head),
            HeadNorm::Own => self.w.tensor(&format!("{name}.weight"), &[heads, head])?,
            HeadNorm::Listed => {
                let one = |i| self.w.tensor(&format!("{name}.norms.{i}.weight"), &[head]);
                let all = (0..heads).map(one).collect::<Result<Vec<_>>>()?;
                checked(name, Tensor::concat(&all, 0))?
            }
        };
        let weights = checked(name, weights.reshaped([heads, 1, head]))?;
        let plain = self.scaled_norm(x, Tensor::vector(vec![1f32; head]), None, "ones")?;
        self.b.mul(plain, self.constant(&format!("{name}.weight"), weights))
    }
}
