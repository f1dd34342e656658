//! The steps behind a model, as a graph.

use super::{Pool, Sentence, Step};
use crate::diag::{Layer, shown};
use crate::layers::{Layers, activate};
use crate::problem::damaged;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// The vectors of tokens as an output, and behind steps those of texts.
pub(crate) fn output(
    b: &GraphBuilder,
    [x, mask]: [Var; 2],
    (sentence, hidden): (Option<&Sentence>, usize),
) -> Result<()> {
    let Some(sentence) = sentence else { return b.output(x, "last_hidden_state") };
    b.output(x, "token_embeddings")?;
    b.output(sentence.write(b, [x, mask], hidden)?, "sentence_embedding")
}

impl Sentence {
    /// A vector for each text, by the vectors [B, S, hidden] of its tokens and the mask of its padding.
    fn write(&self, b: &GraphBuilder, [x, mask]: [Var; 2], hidden: usize) -> Result<Var> {
        let (mut x, mut elements) = (x, hidden);
        for (name, step) in &self.steps {
            let needed = match step {
                Step::Pooling { size, .. } | Step::Norm { size, .. } => *size,
                Step::Dense { sizes, .. } => sizes[0],
                Step::Normalize => elements,
            };
            if needed != elements {
                let name = shown(name);
                return Err(damaged(format!(
                    "`{name}` is for {needed} elements, and gets {elements}"
                )));
            }
            let layer = Layer::new(name.clone(), "module");
            (x, elements) = b.in_layer(layer, |b| step.write(b, [x, mask], elements))?;
        }
        Ok(x)
    }
}

impl Step {
    /// What the step gives, and how many elements it has.
    fn write(
        &self,
        b: &GraphBuilder,
        [x, mask]: [Var; 2],
        elements: usize,
    ) -> Result<(Var, usize)> {
        match self {
            Step::Pooling { modes, .. } => {
                let all = modes
                    .iter()
                    .map(|mode| pooled(b, *mode, x, mask))
                    .collect::<Result<Vec<_>>>()?;
                let count = all.len();
                let joined = if count == 1 { all[0] } else { b.concat(all).axis(1).one()? };
                Ok((joined, count * elements))
            }
            Step::Dense { weights, sizes, activation } => {
                let layers = Layers { b, w: weights };
                let y = layers.apply(x, &layers.plain("linear", *sizes)?)?;
                Ok((activate(b, y, *activation)?, sizes[1]))
            }
            // PyTorch's epsilon, as the module does not say another.
            Step::Norm { weights, size } => {
                Ok((Layers { b, w: weights }.layer_norm(x, "norm", *size, 1e-5)?, *size))
            }
            Step::Normalize => {
                let length = b.reduce_l2(x).axes(vec![1]).keepdims(1).one()?;
                let least = b.constant(Tensor::scalar(1e-12f32));
                Ok((b.div(x, b.max([length, least])?)?, elements))
            }
        }
    }
}

/// One of the vectors that pooling gives: [B, hidden].
fn pooled(b: &GraphBuilder, mode: Pool, x: Var, mask: Var) -> Result<Var> {
    let ones = b.cast(mask, DataType::Float)?;
    let masked = |x| b.mul(x, b.unsqueeze(ones, vec![2])?);
    let least = b.constant(Tensor::scalar(1e-9f32));
    // Sums by weights of tokens, and of these weights.
    let sums = |weights: Var| {
        let sum = b
            .reduce_sum(b.mul(x, b.unsqueeze(weights, vec![2])?)?)
            .axes(vec![1])
            .keepdims(0)
            .one()?;
        let count = b.reduce_sum(weights).axes(vec![1]).keepdims(1).one()?;
        Ok((sum, b.max([count, least])?))
    };
    let at = |last: i64| b.arg_max(ones).axis(1).keepdims(1).select_last_index(last).one();
    match mode {
        Pool::First => b.gather_nd(x, at(0)?).batch_dims(1).one(),
        Pool::Last => b.gather_nd(masked(x)?, at(1)?).batch_dims(1).one(),
        Pool::Max => {
            let is_token = b.unsqueeze(b.cast(mask, DataType::Bool)?, vec![2])?;
            let least = b.constant(Tensor::scalar(-1e9f32));
            b.reduce_max(b.where_(is_token, x, least)?).axes(vec![1]).keepdims(0).one()
        }
        Pool::Mean => {
            let (sum, count) = sums(ones)?;
            b.div(sum, count)
        }
        Pool::MeanOfRoot => {
            let (sum, count) = sums(ones)?;
            b.div(sum, b.sqrt(count)?)
        }
        Pool::Weighted => {
            let one = b.constant(Tensor::scalar(1i64));
            let places = b.cum_sum(b.add(b.mul(mask, 0)?, one)?, 1).one()?;
            let (sum, count) = sums(b.mul(ones, b.cast(places, DataType::Float)?)?)?;
            b.div(sum, count)
        }
    }
}
