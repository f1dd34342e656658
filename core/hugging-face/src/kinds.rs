//! Kinds of families, and which architecture a class or a task of one has.

use crate::architecture::Architecture;
use crate::config::Config;
use crate::decoder::states::States;
use crate::diag::{Code, Diagnostic, shown};
use crate::{audio, encoders, families, seq2seq, towers, vision};
use onnxd_plugin_sdk::build::Result;

/// What the class of a model ends with that continues a text.
const CAUSAL: [&str; 2] = ["ForCausalLM", "LMHeadModel"];

/// What the class of a model ends with that writes a sequence by one that it reads.
const GENERATING: [&str; 3] = ["ForConditionalGeneration", "WithLMHeadModel", "MarianMTModel"];
/// What that of an encoder without its decoder ends with.
const ENCODING: &str = "EncoderModel";

/// The tasks of decoders.
const GENERATION: &str = "text-generation";
/// The task that steps of sentence-transformers stand behind.
pub(crate) const FEATURES: &str = "feature-extraction";

/// A kind of families, with how one of them reads `config.json`.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    /// Continues a text.
    Decoder(families::Family),
    /// Understands a text.
    Encoder(encoders::Family),
    /// Reads pictures.
    Vision(vision::Family),
    /// Reads pictures and texts, or one of them for the other.
    Towers(towers::Family),
    /// Reads sound.
    Audio(audio::Family),
    /// Writes a text by what it reads or hears.
    EncoderDecoder(seq2seq::Family),
}

/// The family of a checkpoint, by the name of its kind.
pub(crate) fn family(config: &Config, named: &dyn Fn(&str) -> Option<Family>) -> Result<Family> {
    let kind = config.word("model_type")?;
    let kind = kind.ok_or_else(|| config.wrong("model_type", "the name of a family"))?;
    named(kind).ok_or_else(|| {
        config
            .unknown("model_type", "which is no family that is known; no code of the folder is run")
    })
}

/// The family of this name.
pub(crate) fn named(kind: &str) -> Option<Family> {
    let decoder = families::named(kind).map(Family::Decoder);
    let vision = || vision::named(kind).map(Family::Vision);
    let towers = || towers::named(kind).map(Family::Towers);
    let audio = || audio::named(kind).map(Family::Audio);
    let encoder = || encoders::named(kind).map(Family::Encoder);
    let seq2seq = || seq2seq::named(kind).map(Family::EncoderDecoder);
    decoder.or_else(encoder).or_else(vision).or_else(towers).or_else(audio).or_else(seq2seq)
}

impl Family {
    /// Whether texts alone are read, of which there may be vectors.
    pub(crate) fn reads_texts(self) -> bool {
        matches!(self, Family::Decoder(_) | Family::Encoder(_) | Family::EncoderDecoder(_))
    }

    /// The architecture that the fields of `config` describe, for a task that is asked for or for that of the class.
    ///
    /// # Errors
    /// A field, a class or a task of the model that is not known.
    pub(crate) fn describe(
        self,
        config: &Config,
        task: Option<&str>,
    ) -> Result<Box<dyn Architecture>> {
        let has = |task: &str| match self {
            Family::Encoder(_) | Family::Decoder(_) | Family::EncoderDecoder(_) => true,
            Family::Vision(_) | Family::Audio(_) => task == FEATURES,
            Family::Towers(_) => false,
        };
        if let Some(task) = task.filter(|task| !has(task)) {
            let why = format!(
                "`source.task` is `{}`, and models of this kind have the head of their class alone",
                shown(task)
            );
            return Err(Diagnostic::new(Code::ParamsBadValue, why).help("Leave it out."));
        }
        match self {
            Family::Encoder(family) => Ok(Box::new(family.describe(config, task)?)),
            Family::Decoder(describe) => decoder(describe, config, task),
            Family::Vision(describe) | Family::Towers(describe) | Family::Audio(describe) => {
                if task == Some(FEATURES) {
                    config.without_head();
                }
                describe(config)
            }
            Family::EncoderDecoder(describe) => encoder_decoder(describe, config, task),
        }
    }
}

/// A decoder, or its hidden states where these are asked for or all that the class has.
fn decoder(
    describe: families::Family,
    config: &Config,
    task: Option<&str>,
) -> Result<Box<dyn Architecture>> {
    let classes = config.words("architectures")?.unwrap_or_default();
    let is_bare = |class: &&str| class.ends_with("Model") && !class.contains("Head");
    let gives_states = match task {
        Some(FEATURES) => true,
        Some(GENERATION) => false,
        Some(task) => return Err(other_task(task)),
        None => classes.first().is_some_and(is_bare),
    };
    let ends: &[&str] = if gives_states { &[CAUSAL[0], CAUSAL[1], "Model"] } else { &CAUSAL };
    class(config, ends, "which is no class that continues a text")?;
    let described = describe(config)?;
    if gives_states {
        config.only("is_causal", true)?;
        let own = config.section("auto_map")?.filter(|map| map.has("AutoModel"));
        return match own {
            // Such code often lets tokens see those behind them.
            Some(map) => Err(map.unknown("AutoModel", "and no code of the folder is run")),
            None => Ok(Box::new(States(described))),
        };
    }
    match described.attention.is_causal {
        true => Ok(Box::new(described)),
        false => {
            let why =
                "and such a model continues no texts: set `source.task = \"feature-extraction\"`";
            Err(config.unknown("use_bidirectional_attention", why))
        }
    }
}

fn other_task(task: &str) -> Diagnostic {
    let message = format!("`source.task` is `{}`, which decoders do not have", shown(task));
    let help = format!("They have `{GENERATION}` and `{FEATURES}`.");
    Diagnostic::new(Code::ParamsBadValue, message).help(help)
}

/// An encoder with its decoder, or the hidden states of the encoder where these are asked for.
fn encoder_decoder(
    describe: seq2seq::Family,
    config: &Config,
    task: Option<&str>,
) -> Result<Box<dyn Architecture>> {
    let classes = config.words("architectures")?.unwrap_or_default();
    let first = classes.first().copied().unwrap_or_default();
    let gives_states = match task {
        Some(FEATURES) => true,
        Some(task) => {
            let shown = shown(task);
            let why =
                format!("`source.task` is `{shown}`, which encoders with decoders do not have");
            let help = format!("Leave it out, or set `{FEATURES}` for the encoder alone.");
            return Err(Diagnostic::new(Code::ParamsBadValue, why).help(help));
        }
        None => first.ends_with(ENCODING),
    };
    let known = [&GENERATING[..], &["Model"]].concat();
    let why = format!(
        "which is no class that writes a text by another: these end with `{}`, and those without head with `Model`",
        GENERATING.join("`, `")
    );
    class(config, &known, &why)?;
    let described = describe(config)?;
    if gives_states {
        return Ok(Box::new(seq2seq::States::new(described)?));
    }
    let has_head = first.is_empty() || GENERATING.iter().any(|end| first.ends_with(end));
    match (has_head, described.whose_head) {
        (true, _) => {}
        (false, seq2seq::Head::Own) => {
            let why = "which has no scores of words, and `tie_word_embeddings` does not let the words give them";
            return Err(config.unknown("architectures", why));
        }
        (false, _) => config.note(format!(
            "The class `{}` has no scores of words. They are those of its table of words, as in the class for \
             generation.",
            shown(first)
        )),
    }
    Ok(Box::new(described))
}

/// The class of the model must have one of these endings, where the file names one.
fn class(config: &Config, ends: &[&str], why: &str) -> Result<()> {
    let classes = config.words("architectures")?.unwrap_or_default();
    match classes.first() {
        Some(class) if !ends.iter().any(|end| class.ends_with(end)) => {
            Err(config.unknown("architectures", why))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
