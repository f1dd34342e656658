//! Prompts of random tokens, for decoders with a cache: numbers drawn apart for each input would be no cache of
//! their mask. Each prompt is run without a cache, and is then continued with the cache that the float network gives.

use crate::observe::Feeds;
use crate::session::{Batches, Calibration, Session};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_eval::{Builtin, Engine, Prepared, RandomSource, RunOptions};
use onnxd_ir::{DataType, Dim, Graph, Model, Tensor, ValueId, element_count};

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

/// Elements of all states of a prompt's empty cache at most.
const CACHE_MAX: usize = 1 << 27;

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
            let prompt = decoder.feeds(&ids(length), 0, decoder.empty()?);
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

/// The size of an axis of an empty cache, whose first axis is that of prompts.
fn size((axis, dim): (usize, &Dim)) -> Option<usize> {
    match dim {
        Dim::Known(size) => usize::try_from(*size).ok(),
        _ => Some(usize::from(axis == 0)),
    }
}

impl<'g> Decoder<'g> {
    fn find(graph: &'g Graph) -> Option<Decoder<'g>> {
        let name = |v: &ValueId| graph[*v].name.as_str();
        let (past, others): (Vec<ValueId>, Vec<ValueId>) =
            graph.inputs().iter().partition(|v| name(v).starts_with(PAST));
        // One prompt, of any number of tokens.
        let takes_prompts = |v: &ValueId| match graph[*v].shape() {
            Some([prompts, tokens @ ..]) => {
                prompts.known().is_none_or(|n| n == 1)
                    && tokens.iter().all(|dim| dim.known().is_none())
            }
            _ => true,
        };
        let known = |v: &ValueId| {
            ["input_ids", "attention_mask", "position_ids"].contains(&name(v))
                && graph[*v].dtype() == Some(DataType::Int64)
                && takes_prompts(v)
        };
        let ids = others.iter().find(|v| name(v) == "input_ids")?;
        // Keys and values grow with the tokens; states of other kinds keep their size.
        let grows = |v: &ValueId| {
            graph[*v].shape().is_some_and(|dims| {
                let is_state = ![".key", ".value"].iter().any(|part| name(v).ends_with(part));
                is_state || dims.iter().skip(1).any(|dim| dim.known().is_none())
            })
        };
        let has_cache = !past.is_empty() && past.iter().all(grows);
        let tables = graph.readers(*ids).iter().filter(|id| graph[**id].is("Gather"));
        let rows = tables.filter_map(|id| {
            let table = graph.constant(graph[*id].input(0)?)?;
            table.dims().first().copied().filter(|_| graph[*id].int("axis", 0) == 0)
        });
        let words = rows.min().filter(|words| *words > 0)?;
        (has_cache && others.iter().all(known)).then_some(Decoder { graph, words, past })
    }

    /// A cache of nothing; states of a fixed size are zero.
    ///
    /// # Errors
    /// That it is larger than caches are made, or of no numbers.
    fn empty(&self) -> Result<Vec<Tensor>, Diagnostics> {
        let mut room = CACHE_MAX;
        let mut of = |v: &ValueId| {
            let value = &self.graph[*v];
            let dims = value.shape().unwrap_or_default().iter().enumerate().map(size);
            let dims: Vec<usize> = dims.collect::<Option<_>>()?;
            room = room.checked_sub(element_count(&dims)?)?;
            let dtype = value.dtype()?;
            let bytes = vec![0; dtype.byte_len(element_count(&dims)?)?];
            Tensor::new(dtype, dims, bytes.into()).ok()
        };
        let made = |v: &ValueId| {
            of(v).ok_or_else(|| {
                let name = shown(&self.graph[*v].name);
                let text = format!(
                    "no cache is made for input `{name}`: it is of no numbers, or all caches have more than \
                     {CACHE_MAX} elements"
                );
                Diagnostic::new(Code::EvalInputs, text).into()
            })
        };
        self.past.iter().map(made).collect()
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
        let prompt = decoder.feeds(&[3, 4, 5], 0, decoder.empty().unwrap());
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

    /// A network with these inputs, `past_` standing for the prefix of caches, and `_` in them for points.
    fn of_inputs(inputs: &str) -> Model {
        let mut model = model(
            &format!(
                "g ({inputs}) => (float[?,?,4] logits) <float[50,4] t> {{ logits = Gather(t, input_ids) }}"
            ),
            1,
        );
        for v in model.graph.inputs().to_vec() {
            if let Some(own) = model.graph[v].name.strip_prefix("past_") {
                let name = format!("{PAST}{}", own.replace('_', "."));
                model.graph.rename(v, &name);
            }
        }
        model
    }

    /// Sizes that no memory holds, alone or together, are refused.
    #[test]
    fn caches_are_of_bounded_size() {
        for (sizes, fits) in [
            ("B,8,P,64", true),
            ("B,8,1099511627776,P", true),
            ("1,8,4,64", true),
            ("1,8,1099511627776,64", false),
            ("1,4611686018427387904,P,64", false),
            ("B,3,P,1000000", true),
            ("B,90000000", false),
        ] {
            let model = of_inputs(&format!(
                "int64[B,S] input_ids, float[{sizes}] past_0_conv, float[{sizes}] past_0_recurrent"
            ));
            let decoder = Decoder::find(&model.graph).unwrap();
            assert_eq!(decoder.empty().is_ok(), fits, "{sizes}");
        }
        let model = of_inputs("int64[B,S] input_ids, string[B,P] past_0_key");
        let found = Decoder::find(&model.graph).unwrap().empty().unwrap_err().to_string();
        assert!(found.contains("past_key_values.0.key"), "{found}");
    }

    /// A decoder whose cache or tokens have a fixed number gets no prompts; states have a fixed size always.
    #[test]
    fn decoders_of_fixed_lengths_have_no_prompts() {
        for (inputs, found) in [
            ("int64[B,S] input_ids, int64[B,T] attention_mask, float[B,4,P,8] past_0_key", true),
            ("int64[1,S] input_ids, int64[1,T] attention_mask, float[1,4,P,8] past_0_key", true),
            ("int64[B,S] input_ids, float[B,4,3] past_0_conv, float[B,4,P,8] past_1_key", true),
            ("int64[1,1] input_ids, int64[1,17] attention_mask, float[1,4,16,8] past_0_key", false),
            ("int64[B,S] input_ids, int64[B,17] attention_mask, float[B,4,P,8] past_0_key", false),
            ("int64[B,S] input_ids, int64[B,T] attention_mask, float[B,4,16,8] past_0_key", false),
            ("int64[4,S] input_ids, float[4,4,P,8] past_0_value", false),
        ] {
            assert_eq!(is_decoder(&of_inputs(inputs)), found, "{inputs}");
        }
    }
}
