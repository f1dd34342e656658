//! Prompts of random tokens, for decoders with a cache: numbers drawn apart for each input would be no cache of
//! their mask. Each prompt is run without a cache, and is then continued with the cache that the float network gives.

use crate::observe::Feeds;
use crate::session::{Batches, Calibration, Session};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_eval::{Builtin, Engine, Prepared, RandomSource, RunOptions};
use onnxd_ir::{DataType, Dim, Graph, Model, Tensor, ValueId};

/// Multiplications by weights that all prompts may take.
const MULTIPLICATIONS_MAX: usize = 1 << 34;

/// Tokens of all prompts and continuations at most.
const TOKENS_MAX: usize = 256;

/// Fewer tokens say too little.
const TOKENS_MIN: usize = 8;

/// Prompts at most.
const PROMPTS_MAX: usize = 4;

/// Weights of all prompts together: each run reads them all, and may have to compute them.
const WEIGHTS_MAX: usize = 1 << 26;

/// Tokens of a prompt with its continuation at least, where there are several.
const PROMPT_MIN: usize = 16;

/// What names of the cache begin with.
const PAST: &str = "past_key_values.";

/// Prompts and continuations, each a sample.
pub(crate) struct Prompts(Vec<Feeds>);

impl Prompts {
    /// Prompts for a decoder with a cache; `None` for other networks.
    ///
    /// # Errors
    /// Why it does not run on them, or that it is too large.
    pub(crate) fn drawn(model: &Model, cx: &dyn Session) -> Result<Option<Prompts>, Diagnostics> {
        let Some(decoder) = Decoder::find(&model.graph) else { return Ok(None) };
        let sizes = model.graph.value_ids().filter_map(|v| model.graph[v].initializer());
        let weights = sizes.map(Tensor::len).sum::<usize>().max(1);
        let tokens = (MULTIPLICATIONS_MAX / weights).min(TOKENS_MAX);
        if tokens < TOKENS_MIN {
            let text = format!(
                "the network has {weights} weights, and runs on random tokens would take too long"
            );
            return Err(Diagnostic::new(Code::EvalInputs, text).into());
        }
        let mut prepared = Builtin.prepare(model)?;
        let progress = |done, total| cx.count("prompt", done, total);
        let seed = cx.calibration_params().random_seed();
        let count = (tokens / PROMPT_MIN).min(WEIGHTS_MAX / weights).clamp(1, PROMPTS_MAX);
        Prompts::of(&decoder, prepared.as_mut(), (tokens, count, seed), &progress).map(Some)
    }

    /// So many tokens in so many prompts, from a seed.
    fn of(
        decoder: &Decoder,
        prepared: &mut dyn Prepared,
        (tokens, count, seed): (usize, usize, u64),
        progress: &dyn Fn(u64, u64) -> Result<(), Diagnostic>,
    ) -> Result<Prompts, Diagnostics> {
        let continued = (tokens / count / 4).max(1);
        let length = tokens / count - continued;
        let mut random = RandomSource::new(seed);
        let mut samples = Vec::new();
        for done in 0..count {
            progress(done as u64, count as u64)?;
            let mut ids = |count: usize| -> Vec<i64> {
                (0..count).map(|_| (random.fraction() * decoder.words as f64) as i64).collect()
            };
            let prompt = decoder.feeds(&ids(length), 0, decoder.empty());
            let cache = decoder.cache(prepared, &prompt)?;
            samples.push(prompt);
            samples.push(decoder.feeds(&ids(continued), length, cache));
        }
        Ok(Prompts(samples))
    }
}

impl Calibration for Prompts {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn is_random(&self) -> bool {
        true
    }

    fn batch_size(&self) -> usize {
        1
    }

    fn batches(&self, _: usize, samples_max: u64, _: bool) -> Batches<'_> {
        let most = usize::try_from(samples_max).unwrap_or(usize::MAX);
        Box::new(self.0.iter().take(most).cloned().map(Ok))
    }

    fn labels(&self, _: u64) -> Result<Option<Vec<i64>>, Diagnostics> {
        Ok(None)
    }
}

/// Whether a network is a decoder with a cache, for which prompts are drawn.
pub(crate) fn is_decoder(model: &Model) -> bool {
    Decoder::find(&model.graph).is_some()
}

/// The inputs of a decoder, by the names that front-ends and runtimes agree on.
struct Decoder<'g> {
    graph: &'g Graph,
    /// Rows of the smallest table that tokens index.
    words: usize,
    past: Vec<ValueId>,
}

impl<'g> Decoder<'g> {
    fn find(graph: &'g Graph) -> Option<Decoder<'g>> {
        let name = |v: &ValueId| graph[*v].name.as_str();
        let (past, others): (Vec<ValueId>, Vec<ValueId>) =
            graph.inputs().iter().partition(|v| name(v).starts_with(PAST));
        let known = |v: &ValueId| {
            ["input_ids", "attention_mask", "position_ids"].contains(&name(v))
                && graph[*v].dtype() == Some(DataType::Int64)
        };
        let ids = others.iter().find(|v| name(v) == "input_ids")?;
        let has_cache = !past.is_empty() && past.iter().all(|v| graph[*v].shape().is_some());
        let tables = graph.readers(*ids).iter().filter(|id| graph[**id].is("Gather"));
        let rows = tables.filter_map(|id| {
            let table = graph.constant(graph[*id].input(0)?)?;
            table.dims().first().copied().filter(|_| graph[*id].int("axis", 0) == 0)
        });
        let words = rows.min().filter(|words| *words > 0)?;
        (has_cache && others.iter().all(known)).then_some(Decoder { graph, words, past })
    }

    /// A cache of nothing.
    fn empty(&self) -> Vec<Tensor> {
        let size = |(axis, dim): (usize, &Dim)| match dim {
            Dim::Known(size) => usize::try_from(*size).unwrap_or_default(),
            _ => usize::from(axis == 0),
        };
        let of = |v: &ValueId| {
            let value = &self.graph[*v];
            let dims = value.shape().unwrap_or_default().iter().enumerate().map(size);
            let dtype = value.dtype().unwrap_or(DataType::Float);
            let dims: Vec<usize> = dims.collect();
            let bytes = vec![0; dtype.byte_len(dims.iter().product()).unwrap_or_default()];
            Tensor::new(dtype, dims, bytes.into()).unwrap_or_else(|_| Tensor::vector(vec![0f32]))
        };
        self.past.iter().map(of).collect()
    }

    /// New tokens behind `past` ones.
    fn feeds(&self, ids: &[i64], past: usize, cache: Vec<Tensor>) -> Feeds {
        let row = |values: Vec<i64>| Tensor::from_vec([1, values.len()], values);
        let all = past + ids.len();
        let inputs = self.graph.inputs().iter().filter(|v| !self.past.contains(v));
        let of = |v: &ValueId| {
            let name = self.graph[*v].name.clone();
            let value = match name.as_str() {
                "input_ids" => row(ids.to_vec()),
                "attention_mask" => row(vec![1; all]),
                _ => row((past as i64..all as i64).collect()),
            };
            (name, value)
        };
        let names = self.past.iter().map(|v| self.graph[*v].name.clone());
        inputs.map(of).chain(names.zip(cache)).collect()
    }

    /// The cache that the network gives.
    fn cache(
        &self,
        prepared: &mut dyn Prepared,
        feeds: &Feeds,
    ) -> Result<Vec<Tensor>, Diagnostics> {
        let options = RunOptions { kept_max: 0, ..RunOptions::default() };
        let outputs = prepared.run(feeds, options)?;
        let of = |v: &ValueId| {
            let past = &self.graph[*v].name;
            let name = format!("present.{}", past.strip_prefix(PAST).unwrap_or(past));
            let found = outputs.iter().find(|(output, _)| *output == name);
            found.map(|(_, tensor)| tensor.clone()).ok_or_else(|| {
                let text = format!("the network has no output `{}`", shown(&name));
                Diagnostic::new(Code::EvalInputs, text).into()
            })
        };
        self.past.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::model;

    /// A prompt has no cache, and its continuation that of the prompt; networks with other names have no prompts.
    #[test]
    fn a_cache_goes_with_its_prompt() {
        let mut model = model(
            "g (int64[B,S] input_ids, int64[B,T] attention_mask, float[B,P,4] past)
              => (float[B,S,4] logits, float[B,T,4] present) <float[50,4] t>
             { x = Gather(t, input_ids) present = Concat<axis = 1>(past, x) logits = Identity(x) }",
            1,
        );
        assert!(Decoder::find(&model.graph).is_none());
        for (own, name) in [("past", "past_key_values.0.key"), ("present", "present.0.key")] {
            let v = model.graph.value_named(own).unwrap();
            model.graph.rename(v, name);
        }
        let decoder = Decoder::find(&model.graph).unwrap();
        let prompt = decoder.feeds(&[3, 4, 5], 0, decoder.empty());
        assert_eq!(prompt["past_key_values.0.key"].dims(), [1, 0, 4]);
        let mut prepared = Builtin.prepare(&model).unwrap();
        let prepared = prepared.as_mut();
        let Prompts(samples) = Prompts::of(&decoder, prepared, (40, 2, 7), &|_, _| Ok(())).unwrap();
        let dims = |at: usize, name: &str| samples[at][name].dims().to_vec();
        assert_eq!(samples.len(), 4);
        assert_eq!((dims(0, "input_ids"), dims(0, "attention_mask")), (vec![1, 15], vec![1, 15]));
        assert_eq!((dims(1, "input_ids"), dims(1, "attention_mask")), (vec![1, 5], vec![1, 20]));
        assert_eq!(dims(1, "past_key_values.0.key"), [1, 15, 4]);
        assert_eq!((decoder.words, decoder.past.len()), (50, 1));
    }
}
