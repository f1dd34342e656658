//! The tower of pictures.

use super::Given;
use crate::layers::{Layers, activate, checked};
use crate::transformer::{Stack, mixed, project};
use crate::vision::encoder::token;
use crate::vision::patches::{Patches, repeated};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Tensor;

#[derive(Clone, Copy, Debug)]
pub(super) struct Picture {
    pub(super) patches: Patches,
    pub(super) stack: Stack,
    pub(super) pool: Pool,
}

/// What stands for a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pool {
    /// The norm of the first token; the layers begin with a norm, too.
    First,
    /// What a learned query finds in the norm of all tokens.
    Probe,
    /// Nothing; tokens are normed.
    None,
}

impl Picture {
    /// What the tower makes of pictures.
    pub(super) fn write(&self, net: &Layers<'_>, pictures: Var) -> Result<Given> {
        let norm = |x, name: &str| {
            net.layer_norm(
                x,
                &format!("vision_model.{name}"),
                self.stack.hidden,
                self.stack.epsilon,
            )
        };
        let x = self.patches.embed(net, pictures)?;
        // Transformers spells it so.
        let x = if self.pool == Pool::First { norm(x, "pre_layrnorm")? } else { x };
        let tokens = self.stack.apply(net, x, |_| Ok(None))?;
        if self.pool == Pool::First {
            let pooled = Some(norm(token(net, tokens, 0)?, "post_layernorm")?);
            return Ok(Given { tokens, pooled });
        }
        let tokens = norm(tokens, "post_layernorm")?;
        let pooled = (self.pool == Pool::Probe).then(|| self.probe(net, tokens)).transpose()?;
        Ok(Given { tokens, pooled })
    }

    /// The same with the size of what is pooled.
    pub(super) fn pooled(&self, net: &Layers<'_>, pictures: Var) -> Result<(Given, usize)> {
        Ok((self.write(net, pictures)?, self.stack.hidden))
    }

    /// Tokens of patches, without those before them.
    pub(super) fn patches_alone(&self, net: &Layers<'_>, pictures: Var) -> Result<Var> {
        let alone = Picture {
            pool: if self.pool == Pool::First { Pool::First } else { Pool::None },
            ..*self
        };
        let tokens = alone.write(net, pictures)?.tokens;
        match self.patches.tokens.len() as i64 {
            0 => Ok(tokens),
            before => net.b.slice(tokens, vec![before], vec![i64::MAX]).axes(vec![1]).one(),
        }
    }

    /// `x + mlp(norm(x))` of what the query finds, whose weights for queries, keys and values lie in one.
    fn probe(&self, net: &Layers<'_>, tokens: Var) -> Result<Var> {
        let (b, Stack { hidden, heads, inner, epsilon, .. }) = (net.b, self.stack);
        let name = |part: &str| format!("vision_model.head.{part}");
        let tensor = |part: &str, dims: &[usize]| net.w.tensor(&name(part), dims);
        let weight = tensor("attention.in_proj_weight", &[3 * hidden, hidden])?;
        let bias = tensor("attention.in_proj_bias", &[3 * hidden])?;
        let part = |x, role: &str, at: usize| {
            let name = name(&format!("attention.{role}"));
            let rows = |tensor: &Tensor, more: &[(usize, usize, isize)]| {
                let cut = tensor.sliced(&[&[(at * hidden, hidden, 1)], more].concat());
                checked(&name, cut)
            };
            let weight = rows(&weight, &[(0, hidden, 1)])?;
            let weight = checked(&name, weight.permuted(&[1, 0]))?;
            let y = b.mat_mul(x, net.constant(&format!("{name}.weight"), weight))?;
            b.add(y, net.constant(&format!("{name}.bias"), rows(&bias, &[])?))
        };
        let probe = net.constant(&name("probe"), tensor("probe", &[1, 1, hidden])?);
        let query = repeated(net, part(probe, "query", 0)?, tokens)?;
        let (keys, values) = (part(tokens, "key", 1)?, part(tokens, "value", 2)?);
        let found = mixed(b, [query, keys, values], [hidden / heads, heads], None)?;
        let found = project(net, found, &name("attention.out_proj"), [hidden; 2])?;
        let y = net.layer_norm(found, &name("layernorm"), hidden, epsilon)?;
        let y = project(net, y, &name("mlp.fc1"), [hidden, inner])?;
        let y = project(
            net,
            activate(b, y, self.stack.activation)?,
            &name("mlp.fc2"),
            [inner, hidden],
        )?;
        token(net, b.add(found, y)?, 0)
    }
}
