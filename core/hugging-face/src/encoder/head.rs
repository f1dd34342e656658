//! What a task asks for.

use super::embedding::Tokens;
use super::weights::Net;
use super::{Encoder, Head, Pretraining, Task};
use crate::layers::activate;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::DataType;

/// Outputs of the graph by their names, of the hidden states `x`.
pub(super) fn outputs(net: &Net<'_>, tokens: &Tokens, x: Var) -> Result<Vec<(&'static str, Var)>> {
    let (b, Encoder { tasks, hidden, .. }) = (net.b, net.e);
    let labelled = |x, head: &Head, labels| with_head(net, x, head, [*hidden, labels]);
    match net.e.task {
        Task::Features => {
            let mut all = vec![("last_hidden_state", x)];
            // Transformers would give random numbers where the checkpoint has no pooler.
            if let Some(name) = tasks.pooler.map(|(name, _)| format!("{name}.weight"))
                && net.w.optional(&name, &[*hidden, *hidden])?.is_some()
            {
                all.push(("pooler_output", pooled(net, x)?));
            }
            Ok(all)
        }
        Task::FillMask => Ok(vec![("logits", words(net, tokens, x)?)]),
        Task::TextClassification => {
            let x = match tasks.sequence.dense {
                Some(_) if tasks.is_mean => mean(net, tokens, x)?,
                Some(_) => first(net, x)?,
                None => pooled(net, x)?,
            };
            Ok(vec![("logits", labelled(x, &tasks.sequence, tasks.labels)?)])
        }
        Task::TokenClassification => {
            Ok(vec![("logits", labelled(x, &tasks.tokens, tasks.labels)?)])
        }
        Task::QuestionAnswering => {
            let both = labelled(x, &tasks.spans, 2)?;
            let both = b.split(both).split(vec![1, 1]).axis(-1).outputs::<2>()?;
            let [start, end] = both.map(|x| b.squeeze(x).axes(vec![-1]).one());
            Ok(vec![("start_logits", start?), ("end_logits", end?)])
        }
        Task::Pretraining | Task::NextSentence => pretraining(net, tokens, x),
    }
}

fn pretraining(net: &Net<'_>, tokens: &Tokens, x: Var) -> Result<Vec<(&'static str, Var)>> {
    let Encoder { tasks, hidden, task, .. } = net.e;
    match &tasks.pretraining {
        Pretraining::Discriminator(head) => {
            let scores = with_head(net, x, head, [*hidden, 1])?;
            Ok(vec![("logits", net.b.squeeze(scores).axes(vec![-1]).one()?)])
        }
        Pretraining::Words { linear, output, .. } => {
            let head = Head { dense: None, norm: None, out: linear };
            let pair = with_head(net, pooled(net, x)?, &head, [*hidden, 2])?;
            match task {
                Task::NextSentence => Ok(vec![("logits", pair)]),
                _ => Ok(vec![("prediction_logits", words(net, tokens, x)?), (output, pair)]),
            }
        }
        Pretraining::None => unreachable!("families without this head refuse the task"),
    }
}

/// The hidden state of the first token.
fn first(net: &Net<'_>, x: Var) -> Result<Var> {
    net.b.gather(x, onnxd_plugin_sdk::ir::Tensor::scalar(0i64)).axis(1).one()
}

/// The mean of the tokens that are no padding.
fn mean(net: &Net<'_>, tokens: &Tokens, x: Var) -> Result<Var> {
    let b = net.b;
    let sum = b.reduce_sum(b.mul(x, tokens.ones(net)?)?).axes(vec![1]).keepdims(0).one()?;
    let count = b.reduce_sum(b.cast(tokens.mask, DataType::Float)?).axes(vec![1]).one()?;
    b.div(sum, count)
}

/// The pooler of the model over its first token.
fn pooled(net: &Net<'_>, x: Var) -> Result<Var> {
    let (name, activation) =
        net.e.tasks.pooler.expect("heads without a dense layer stand behind a pooler");
    let hidden = net.e.hidden;
    activate(net.b, net.project(first(net, x)?, name, [hidden, hidden])?, activation)
}

/// `out(norm(f(dense(x))))`
fn with_head(net: &Net<'_>, x: Var, head: &Head, [hidden, outputs]: [usize; 2]) -> Result<Var> {
    net.w.at_root(|| {
        let x = dense(net, x, head, [hidden, hidden])?;
        net.project(x, head.out, [hidden, outputs])
    })
}

fn dense(net: &Net<'_>, x: Var, head: &Head, sizes: [usize; 2]) -> Result<Var> {
    let Some((name, activation)) = head.dense else { return Ok(x) };
    let x = activate(net.b, net.project(x, name, sizes)?, activation)?;
    head.norm.map_or(Ok(x), |norm| net.norm(x, norm, sizes[1]))
}

/// Scores of all words for each token. A table of words that gives them, too, is one constant.
fn words(net: &Net<'_>, tokens: &Tokens, x: Var) -> Result<Var> {
    let Encoder { tasks, hidden, vocabulary, embedding, .. } = net.e;
    let (head, bias) = &tasks.words;
    let sizes = [embedding.size, *vocabulary];
    let (x, bias) = net.w.at_root(|| {
        // Of untied words, Transformers 5 has both, and adds that of the linear layer.
        let own = format!("{}.bias", head.out);
        let names = if tasks.is_tied { [*bias, &own] } else { [&own, *bias] };
        let bias = match net.optional_weight(names[0], &[*vocabulary])? {
            Some(bias) => Some(bias),
            None => net.optional_weight(names[1], &[*vocabulary])?,
        };
        Ok((dense(net, x, head, [*hidden, embedding.size])?, bias))
    })?;
    if tasks.is_tied {
        return net.by_table(x, net.words()?, (bias, tokens.ids), sizes);
    }
    let name = format!("{}.weight", head.out);
    let table = net.w.at_root(|| net.weight(&name, &[*vocabulary, embedding.size]))?;
    net.by_table(x, table, (bias, tokens.ids), sizes)
}
