//! Transformers that read patches of pictures: ViT, and what families do otherwise.

use super::patches::Patches;
use super::{BATCH, relative};
use crate::architecture::{Architecture, Target};
use crate::checkpoint::Checkpoint;
use crate::layers::Layers;
use crate::layers::graph;
use crate::transformer::{Stack, project};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{Graph, Tensor};

#[derive(Clone, Copy, Debug)]
pub(super) struct VisionTransformer {
    pub(super) prefixes: &'static [&'static str],
    pub(super) patches: Patches,
    /// Tokens that come behind the first one after positions were added: their name and number.
    pub(super) registers: Option<(&'static str, usize)>,
    pub(super) stack: Stack,
    pub(super) distances: Distances,
    /// The norm of what the last layer gives.
    pub(super) norm: Option<&'static str>,
    pub(super) pool: Pool,
    /// Labels, where the class gives `logits`.
    pub(super) labels: Option<usize>,
}

/// Whose scores depend on how far places are from each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Distances {
    None,
    /// Of layers by a table each, and of all by one, by their names.
    By {
        each: Option<&'static str>,
        shared: Option<&'static str>,
    },
}

/// What becomes of all tokens, for `pooler_output` and labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pool {
    /// The first token.
    First,
    /// `tanh(dense(first))`, of so many elements, where the file has the layer.
    Dense(&'static str, usize),
    /// The norm of the mean of all patches.
    Mean(&'static str),
    /// The first token, and the mean of all patches.
    FirstAndMean,
    /// Two classifiers, of the first token and of the second one, whose logits are averaged.
    Teachers,
}

impl Architecture for VisionTransformer {
    fn prefixes(&self) -> &'static [&'static str] {
        self.prefixes
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        graph(weights, target.opset, |layers| self.write(&layers))
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        vec![
            ("layers", self.stack.count.to_string()),
            ("hidden_size", self.stack.hidden.to_string()),
            ("heads", self.stack.heads.to_string()),
            self.patches.pictures.card(),
        ]
    }
}

impl VisionTransformer {
    fn write(&self, net: &Layers<'_>) -> Result<()> {
        let b = net.b;
        net.w.pass_over(&[".relative_position_index", ".mask_token"]);
        let Stack { hidden, epsilon, .. } = self.stack;
        let pictures = self.patches.pictures.input(b, BATCH);
        let x = self.patches.embed(net, pictures)?;
        let x = self.with_registers(net, x)?;
        let x = self.layers(net, x)?;
        let x = match self.norm {
            Some(name) => net.layer_norm(x, name, hidden, epsilon)?,
            None => x,
        };
        let Some(labels) = self.labels else {
            let pooled = self.pooled(net, x)?;
            b.output(x, "last_hidden_state")?;
            return pooled.map_or(Ok(()), |pooled| b.output(pooled, "pooler_output"));
        };
        let classified = |x, name: &str, size| project(net, x, name, [size, labels]);
        let logits = match self.pool {
            Pool::Teachers => {
                let own = classified(token(net, x, 0)?, "cls_classifier", hidden)?;
                let taught = classified(token(net, x, 1)?, "distillation_classifier", hidden)?;
                b.div(b.add(own, taught)?, 2.0)?
            }
            pool => {
                let size = if pool == Pool::FirstAndMean { 2 * hidden } else { hidden };
                let pooled = self.pooled(net, x)?.unwrap_or(x);
                classified(pooled, "classifier", size)?
            }
        };
        b.output(logits, "logits")
    }

    fn with_registers(&self, net: &Layers<'_>, x: Var) -> Result<Var> {
        let (b, hidden) = (net.b, self.stack.hidden);
        let Some((name, count)) = self.registers else { return Ok(x) };
        let registers = net.constant(name, net.w.tensor(name, &[1, count, hidden])?);
        let registers = super::patches::repeated(net, registers, x)?;
        let first = b.slice(x, vec![0], vec![1]).axes(vec![1]).one()?;
        let patches = b.slice(x, vec![1], vec![i64::MAX]).axes(vec![1]).one()?;
        b.concat([first, registers, patches]).axis(1).one()
    }

    fn layers(&self, net: &Layers<'_>, x: Var) -> Result<Var> {
        let Distances::By { each, shared } = self.distances else {
            return self.stack.apply(net, x, |_| Ok(None));
        };
        let window = self.patches.grid(self.patches.pictures.size.unwrap_or_default());
        let sizes = [relative::count(window) + 3, self.stack.heads];
        let index = relative::index(net, window[0] * window[1] + 1, relative::with_token(window));
        let of = |name: &str| relative::bias(net, name, sizes, index);
        let shared = shared.map(of).transpose()?;
        self.stack.apply(net, x, |layer| {
            let own = each.map(|name| of(&format!("{}{name}", self.stack.prefix(layer))));
            match (own.transpose()?, shared) {
                (Some(own), Some(shared)) => net.b.add(own, shared).map(Some),
                (own, shared) => Ok(own.or(shared)),
            }
        })
    }

    /// What the head of the class reads; `None` where the file lacks the layer of it.
    fn pooled(&self, net: &Layers<'_>, x: Var) -> Result<Option<Var>> {
        let b = net.b;
        let Stack { hidden, epsilon, .. } = self.stack;
        let mean = || {
            let before = 1 + self.registers.map_or(0, |(_, count)| count);
            let patches = b.slice(x, vec![before as i64], vec![i64::MAX]).axes(vec![1]).one()?;
            b.reduce_mean(patches).axes(vec![1]).keepdims(0).one()
        };
        let has = |name: &str, dims: &[usize]| {
            Ok(net.w.optional(&format!("{name}.weight"), dims)?.is_some())
        };
        Ok(Some(match self.pool {
            Pool::First | Pool::Teachers => token(net, x, 0)?,
            Pool::Dense(name, size) => {
                if !has(name, &[size, hidden])? {
                    return Ok(None);
                }
                b.tanh(project(net, token(net, x, 0)?, name, [hidden, size])?)?
            }
            Pool::Mean(name) if self.labels.is_none() && !has(name, &[hidden])? => return Ok(None),
            Pool::Mean(name) => net.layer_norm(mean()?, name, hidden, epsilon)?,
            Pool::FirstAndMean => b.concat([token(net, x, 0)?, mean()?]).axis(-1).one()?,
        }))
    }
}

/// A token of each row: [B, E].
pub(crate) fn token(net: &Layers<'_>, x: Var, at: i64) -> Result<Var> {
    net.b.gather(x, net.b.constant(Tensor::scalar(at))).axis(1).one()
}
