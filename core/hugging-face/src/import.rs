//! A checkpoint becomes a model.

use crate::architecture::Architecture;
use crate::beside::{GGUF, folder_of};
use crate::checkpoint::Checkpoint;
use crate::config::{BYTES_MAX, Config};
use crate::diag::{Code, Diagnostic, Diagnostics, shown};
use crate::export::{for_genai, generation, strict, target};
use crate::kinds::Family;
use crate::problem::{damaged, pointer, unsupported};
use crate::sentence::Sentence;
use crate::{folder, gguf, kinds, proof, quantization, sentence};
use onnxd_plugin_sdk::{Imported, NamedModel, Submission, lower};
use serde_json::Value;

/// Names of other copies that are told.
const TOLD_MAX: usize = 3;

/// The model of a folder or file, of a family that `named` knows.
pub(crate) fn import(
    submission: &Submission,
    named: &dyn Fn(&str) -> Option<kinds::Family>,
) -> Result<Imported, Diagnostics> {
    let network = submission.network();
    if folder::ends(network, GGUF) {
        return gguf::import(submission);
    }
    let bytes = submission.read(network)?;
    if network.ends_with(folder::ADAPTER) {
        return Err(adapter(&bytes).into());
    }
    let config = Config::parse(&bytes)?;
    let scheme = quantization::scheme(&config)?;
    let family = kinds::family(&config, named)?;
    let task = submission.param("source", "task").as_str();
    let sentence = if task.is_none() { sentence::read(submission)? } else { None };
    if sentence.is_some() && !family.reads_texts() {
        return Err(sentence::not_of_texts().into());
    }
    let task = task.or(sentence.as_ref().map(|_| kinds::FEATURES));
    let described = family.describe(&config, task)?;
    let mut checkpoint = Checkpoint::open(submission, folder_of(network))?;
    checkpoint.under(described.prefixes());
    checkpoint.by(scheme);
    let target = target(submission, &config, &*described);
    let genai = match target.is_genai {
        true => Some(for_genai(submission, &config, &*described, &generation(submission)?)?),
        false => None,
    };
    let graph = match &sentence {
        Some(sentence) => described.sentences(&checkpoint, &target, sentence)?,
        None => described.graph(&checkpoint, &target)?,
    };
    let further = described.further(&checkpoint, &target)?;
    checkpoint.complete()?;
    let pointers = copy(submission)?;
    let mut findings = config.unread();
    findings.extend(checkpoint.not_finite());
    findings.extend(sentence.iter().flat_map(|s| s.of_steps(Checkpoint::not_finite)));
    let mut notes: Vec<Diagnostic> = checkpoint.unused().into_iter().collect();
    notes.extend(sentence.iter().flat_map(|s| s.of_steps(Checkpoint::unused)));
    strict(submission, [&findings, &notes])?;
    notes.extend(config.notes());
    notes.extend(pointers);
    notes.extend(sentence.iter().filter_map(Sentence::note));
    notes.extend(not_read(submission, &config));
    notes.extend(adapter_beside(submission));
    let model = |graph| lower::model(graph, target.opset);
    let first = model(graph);
    let is_proven = described.has_decoder() && matches!(family, Family::Decoder(_));
    let proof = is_proven.then(|| proof::of_folder(&first, &config, &checkpoint));
    let (fact, differences) = proof.map(|proof| proof.told(submission)).unwrap_or_default();
    findings.extend(differences);
    let facts = card(&config, &*described, &checkpoint).into_iter().chain(genai).chain(fact);
    let metadata = facts.collect();
    let named =
        |(name, graph): (&str, _)| NamedModel { name: name.to_owned(), model: model(graph) };
    let further = further.into_iter().map(named).collect();
    let name = described.file().to_owned();
    Ok(Imported { model: first, notes, findings, metadata, name, further, ..Imported::default() })
}

fn adapter(bytes: &[u8]) -> Diagnostic {
    let is_short = bytes.len() <= BYTES_MAX;
    let parsed: Option<Value> = is_short.then(|| serde_json::from_slice(bytes).ok()).flatten();
    let base = parsed.as_ref().and_then(|parsed| parsed.get("base_model_name_or_path")?.as_str());
    let Some(base) = base else {
        return damaged(format!("`{}` names no base model", folder::ADAPTER));
    };
    let message = format!("The folder holds an adapter of `{}`, and not that model", shown(base));
    unsupported(message).help("Merge the adapter into its base model, and convert the result.")
}

/// A note of an adapter that lies beside the model, which Transformers would apply.
fn adapter_beside(submission: &Submission) -> Option<Diagnostic> {
    let message = "The adapter beside the model (`adapter_config.json`) was not applied.";
    let note = Diagnostic::new(Code::LayerParameterIgnored, message);
    let help = "Merge the adapter into the model first, if it belongs to it.";
    folder::has(submission, folder::ADAPTER).then(|| note.help(help))
}

/// Copies what runtimes read beside the model, and notes what of it is a pointer of Git LFS.
fn copy(submission: &Submission) -> Result<Vec<Diagnostic>, Diagnostic> {
    let folder = folder_of(submission.network());
    let mut notes = vec![];
    for file in folder::copied(submission) {
        let bytes = submission.read(&format!("{folder}{file}"))?;
        submission.file(file, &bytes)?;
        if let Some(found) = pointer(file, &bytes) {
            let message = format!("{}; it was copied as it is.", found.message);
            let help = "Run `git lfs pull` in the repository, and convert again.";
            notes.push(Diagnostic::new(Code::LayerParameterIgnored, message).help(help));
        }
    }
    Ok(notes)
}

/// Notes of files that hold the model once more, or layers of it for other languages.
fn not_read(submission: &Submission, config: &Config) -> Vec<Diagnostic> {
    let has_languages = config.get("adapter_attn_dim").is_some();
    let (languages, copies): (Vec<&str>, Vec<&str>) = folder::other_copies(submission)
        .into_iter()
        .partition(|file| has_languages && folder::is_language(file));
    let note = |message: String, help: &'static str| {
        Diagnostic::new(Code::LayerParameterIgnored, message).help(help)
    };
    let copies = (!copies.is_empty()).then(|| {
        let told = listed(&copies);
        let message = format!(
            "The model was read from its {}; {told} were not read.",
            folder::form(submission).told
        );
        note(message, "Nothing is to be done if they hold the same model.")
    });
    let languages = (!languages.is_empty()).then(|| {
        let told = listed(&languages);
        let message = format!(
            "The model has the layers of the language in `{}`; those in {told} were not read.",
            folder::form(submission).single
        );
        let help = "For another language, call `load_adapter` in Transformers, save the model, and convert that.";
        note(message, help)
    });
    copies.into_iter().chain(languages).collect()
}

/// The first of some files, and how many more there are.
fn listed(files: &[&str]) -> String {
    let told: Vec<String> =
        files.iter().take(TOLD_MAX).map(|file| format!("`{}`", shown(file))).collect();
    let more = match files.len().saturating_sub(TOLD_MAX) {
        0 => String::new(),
        n => format!(" and {n} more files"),
    };
    format!("{}{more}", told.join(", "))
}

/// Facts for the report.
fn card(
    config: &Config,
    described: &dyn Architecture,
    weights: &Checkpoint,
) -> Vec<(String, String)> {
    let said = ["model_type", "transformers_version"]
        .map(|key| (key, config.word(key).ok().flatten().unwrap_or_default().to_owned()));
    let sizes = [
        ("parameters", weights.parameters().map(|count| count.to_string())),
        ("context", config.context().map(|context| context.to_string())),
        ("assumed", config.assumed()),
    ];
    let sizes = sizes.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let facts = said.into_iter().chain(described.card()).chain(sizes).chain(weights.card());
    facts.map(|(key, value)| (format!("hf.{key}"), value)).collect()
}

#[cfg(test)]
mod tests;
