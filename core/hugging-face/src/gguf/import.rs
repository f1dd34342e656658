//! A file of GGUF becomes a model.

use super::facts::architectures::Architecture;
use super::metadata::Metadata;
use super::tensors::Stored;
use super::{Read, facts, names, parts, proof, tokenizer};
use crate::architecture::{Architecture as _, Target};
use crate::beside::folder_of;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::config::rope::{Frequencies, Rope};
use crate::decoder::Decoder;
use crate::diag::{Diagnostic, Diagnostics, shown};
use crate::export::{for_genai, strict, target};
use crate::problem::{damaged, unsupported};
use crate::{families, folder};
use onnxd_plugin_sdk::ir::Graph;
use onnxd_plugin_sdk::{Imported, Submission, lower};

/// What tells other than the architecture nothing of what is computed.
const TOLD_ELSEWHERE: [&str; 5] = ["general", "imatrix", "quantize", "split", "tokenizer"];

/// Facts of the card, by their keys.
const CARD: [(&str, &str); 5] = [
    ("name", "general.name"),
    ("architecture", "general.architecture"),
    ("license", "general.license"),
    ("base_model", "general.base_model.0.name"),
    ("quantized_by", "general.quantized_by"),
];

pub(crate) fn import(submission: &Submission) -> Result<Imported, Diagnostics> {
    let network = submission.network();
    let read = parts::open(submission)?;
    let described = describe(network, &read)?;
    let checkpoint = checkpoint(&read.tensors, &described)?;
    let Described { decoder, config, architecture } = described;
    let target = target(submission, &config, &decoder);
    let generation = tokenizer::generation(&read.metadata);
    let genai = match target.is_genai {
        true => Some(for_genai(submission, &config, &decoder, &generation)?),
        false => None,
    };
    let graph = graph(&decoder, &checkpoint, &target)?;
    let mixed = names::mixed_experts(&read.tensors, &decoder);
    let folder = folder_of(network);
    for path in folder::texts(submission) {
        submission.file(&path[folder.len()..], &submission.read(&path)?)?;
    }
    let (files, missing) = tokenizer::files(&read.metadata)?;
    files.iter().try_for_each(|(name, bytes)| submission.file(name, bytes))?;
    submission.file(folder::CONFIG, &config.written())?;
    let mut findings = config.unread();
    findings.extend(checkpoint.not_finite());
    let (of_architecture, others) = unread(&read.metadata, architecture);
    findings.extend(of_architecture);
    let mut notes: Vec<Diagnostic> = missing.into_iter().chain(others).collect();
    strict(submission, [&findings, &notes])?;
    notes.extend(config.notes().into_iter().chain(mixed));
    let model = lower::model(graph, target.opset);
    let (fact, differences) = proof(&model, &read).told(submission);
    findings.extend(differences);
    let metadata = card(&read, (&decoder, &config), &checkpoint)
        .into_iter()
        .chain(genai)
        .chain(fact)
        .collect();
    Ok(Imported { model, notes, findings, metadata, ..Imported::default() })
}

/// The decoder that a file describes.
pub(super) struct Described {
    pub(super) decoder: Decoder,
    pub(super) config: Config,
    architecture: &'static Architecture,
}

/// `file` is the name of the file, for diagnostics.
pub(super) fn describe(file: &str, read: &Read) -> Result<Described, Diagnostic> {
    let Read { metadata, tensors, .. } = read;
    if let Some(kind) = metadata.text("general.type")?
        && kind != "model"
    {
        return Err(metadata.unknown("general.type", "and only a `model` can be converted"));
    }
    let architecture = facts::architecture(metadata)?;
    let place = format!("the metadata of `{}`", shown(file));
    let config = facts::config(place, metadata, tensors)?;
    let family = config.word("model_type")?.and_then(families::named);
    let family = family.expect("architectures name families");
    let mut decoder = family(&config)?;
    // It was added when the file was written.
    decoder.norm.plus_one = false;
    if let Some(factors) = facts::numbers(tensors, "rope_freqs.weight")? {
        divide(&mut decoder.ropes, &factors)?;
    }
    Ok(Described { decoder, config, architecture })
}

/// Divides angles by the factors of a tensor, which says what `config.json` does by words.
fn divide(ropes: &mut [Rope], factors: &[f64]) -> Result<(), Diagnostic> {
    let refused = |why: String| unsupported(format!("tensor `rope_freqs.weight` {why}"));
    let [Rope { frequencies: Frequencies::Fixed(angles), .. }] = ropes else {
        return Err(refused("is there, and positions turn otherwise than by one list".to_owned()));
    };
    if factors.len() != angles.len() || !factors.iter().all(|factor| *factor > 0.0) {
        let count = angles.len();
        return Err(damaged(format!(
            "tensor `rope_freqs.weight` has not {count} numbers above zero, but {}",
            factors.len()
        )));
    }
    angles.iter_mut().zip(factors).for_each(|(angle, factor)| *angle /= factor);
    Ok(())
}

pub(super) fn checkpoint(
    tensors: &[Stored],
    described: &Described,
) -> Result<Checkpoint, Diagnostic> {
    let Described { decoder, architecture, .. } = described;
    let mut checkpoint = names::checkpoint(tensors, decoder, architecture)?;
    checkpoint.under(decoder.prefixes());
    Ok(checkpoint)
}

/// The graph, for which all tensors must be of use: the file has no spare ones.
pub(super) fn graph(
    decoder: &Decoder,
    checkpoint: &Checkpoint,
    target: &Target,
) -> Result<Graph, Diagnostic> {
    let graph = decoder.graph(checkpoint, target)?;
    checkpoint.complete()?;
    match checkpoint.unused() {
        Some(unused) => Err(unsupported(unused.message.clone())),
        None => Ok(graph),
    }
}

/// Keys that nothing read: of the architecture, and of whoever wrote the file.
fn unread(metadata: &Metadata, architecture: &Architecture) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let begins =
        |key: &str, start: &str| key.strip_prefix(start).is_some_and(|rest| rest.starts_with('.'));
    let is_own = |key: &str| begins(key, architecture.name);
    let is_known = |key: &str| TOLD_ELSEWHERE.iter().any(|start| begins(key, start));
    (metadata.unread(|key| !is_own(key)), metadata.unread(|key| is_own(key) || is_known(key)))
}

/// Facts for the report.
fn card(
    read: &Read,
    (decoder, config): (&Decoder, &Config),
    weights: &Checkpoint,
) -> Vec<(String, String)> {
    let text = |key: &str| read.metadata.text(key).ok().flatten().map(str::to_owned);
    let told = CARD.iter().filter_map(|(name, key)| Some((*name, text(key)?)));
    let version = ("gguf_version", read.version.to_string());
    let sizes = [("parameters", weights.parameters()), ("context", config.context())];
    let sizes = sizes.into_iter().filter_map(|(key, size)| Some((key, size?.to_string())));
    let facts = [version].into_iter().chain(told).chain(decoder.card()).chain(sizes);
    let facts = facts.chain(weights.card());
    facts.map(|(name, value)| (format!("hf.{name}"), value)).collect()
}
