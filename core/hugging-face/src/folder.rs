//! What lies in the folder of a checkpoint: what is read, what is copied to the result, and what is left alone.

use crate::beside::{GGUF, folder_of};
use crate::checkpoint::{Form, PICKLES, SAFETENSORS, SINGLE, index};
use crate::config::{BYTES_MAX, json};
use crate::diag::{Diagnostic, shown};
use crate::sentence;
use onnxd_plugin_sdk::{Claim, Need, Probe, Submission};

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const ADAPTER: &str = "adapter_config.json";

/// What runtimes read beside a model. None of it changes the graph.
const COPIED: [&str; 24] = [
    CONFIG, "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "vocab.txt",
    "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "chat_template.jinja",
    "chat_template.json", "preprocessor_config.json", "processor_config.json",
    "sentence_bert_config.json", "config_sentence_transformers.json", "normalizer.json",
    "source.spm", "target.spm", "target_vocab.json", "spm.model", "bpe.codes",
];

/// What people read beside a model, and licences.
const TEXTS: [&str; 3] = ["README.md", "NOTICE", "USE_POLICY.md"];

fn is_text(file: &str) -> bool {
    TEXTS.contains(&file) || file.starts_with("LICENSE") && !file.contains('/')
}

/// Folders and endings of files that hold the same model in other forms.
const OTHER_FOLDERS: [&str; 4] = ["original/", "onnx/", "openvino/", "coreml/"];
const OTHER_ENDINGS: [&str; 8] =
    [".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pth", ".tflite"];

/// Endings of networks that other front-ends read.
const NETWORKS: [&str; 4] = [".gguf", ".h5", ".onnx", ".tflite"];

/// Whether a name has an ending, in whichever case.
pub(crate) fn ends(name: &str, ending: &str) -> bool {
    let at = name.len().checked_sub(ending.len());
    at.is_some_and(|at| name.as_bytes()[at..].eq_ignore_ascii_case(ending.as_bytes()))
}

/// Files beside the network, relative to its folder.
fn beside(submission: &Submission) -> impl Iterator<Item = &str> {
    let folder = folder_of(submission.network());
    submission.files().filter_map(move |(path, _)| path.strip_prefix(folder))
}

/// The files that belong to the result as they are.
pub(crate) fn copied(submission: &Submission) -> Vec<&str> {
    beside(submission).filter(|file| COPIED.contains(file) || is_text(file)).collect()
}

/// What people read beside a model in one file, as paths.
pub(crate) fn texts(submission: &Submission) -> Vec<String> {
    let folder = folder_of(submission.network());
    let texts = beside(submission).filter(|file| is_text(file));
    texts.map(|file| format!("{folder}{file}")).collect()
}

/// Files of further languages beside a model that has layers for one.
pub(crate) fn is_language(file: &str) -> bool {
    let rest = file.strip_prefix("adapter.");
    rest.is_some_and(|rest| rest.ends_with(".safetensors") || rest.ends_with(".bin"))
}

/// Other copies of the model, which are not read.
pub(crate) fn other_copies(submission: &Submission) -> Vec<&str> {
    let form = form(submission);
    let is_single = has(submission, form.single);
    let is_read = |file: &str| match is_single {
        true => file == form.single,
        false => form.has(file),
    };
    let is_copy = |file: &&str| {
        let is_shard = !file.contains('/') && file.ends_with(".safetensors");
        let is_shard = is_single && (is_shard || form.has(file));
        let is_consolidated = file.starts_with("consolidated") || *file == "params.json";
        let inside = OTHER_FOLDERS.iter().any(|folder| file.starts_with(folder));
        if is_read(file) {
            return false;
        }
        is_shard
            || is_consolidated
            || inside
            || OTHER_ENDINGS.iter().any(|ending| ends(file, ending))
    };
    beside(submission).filter(is_copy).collect()
}

/// The form of the weights that are read.
pub(crate) fn form(submission: &Submission) -> &'static Form {
    Form::of(submission, folder_of(submission.network()))
}

/// Whether the weights, or some of them, are there, and only as pickles.
fn is_pickled(submission: &Submission) -> bool {
    !has_weights(submission) && PICKLES.is_in(submission, folder_of(submission.network()))
}

/// Whether weights are there as safetensors, or some of them.
pub(crate) fn has_weights(submission: &Submission) -> bool {
    SAFETENSORS.is_in(submission, folder_of(submission.network()))
}

pub(crate) fn has(submission: &Submission, file: &str) -> bool {
    submission.has(&format!("{}{file}", folder_of(submission.network())))
}

/// The need of the file at this path.
pub(crate) fn need(submission: &Submission, what: &str, path: String, optional: bool) -> Need {
    let found_as = if submission.has(&path) { vec![path.clone()] } else { vec![] };
    Need { what: what.to_owned(), path, found_as, optional }
}

/// Whether the network is a checkpoint of Hugging Face, and which files it needs. Asked again whenever files arrive.
/// `claim` says how strongly one with this `model_type` is claimed; it is empty where there is none.
pub(crate) fn probe(
    submission: &Submission,
    claim: &dyn Fn(&str) -> Claim,
) -> Result<Probe, Diagnostic> {
    let network = submission.network();
    // The import says that a longer file is refused.
    let parse = |bytes: &[u8]| match bytes.len() <= BYTES_MAX {
        true => json::read(bytes).ok(),
        false => None,
    };
    let parsed = submission.look(network, parse)?;
    let says = |key: &str| parsed.as_ref().is_some_and(|config| config.get(key).is_some());
    let is_for_all = claim("") != Claim::No;
    if !is_for_all && (parsed.is_none() || network.ends_with(ADAPTER)) {
        return Ok(Probe::new(Claim::No, "the file names no `model_type`"));
    }
    if network.ends_with(ADAPTER) {
        return Ok(match says("peft_type") && !has(submission, CONFIG) {
            true => Probe::new(Claim::ByContent, "the file describes an adapter"),
            false => Probe::new(Claim::No, "the file describes no adapter without its model"),
        });
    }
    let others = other_copies(submission);
    // A network that another front-end reads. What else lies there says nothing: the weights may come last.
    let is_other = |file: &str, endings: &[&str]| endings.iter().any(|ending| ends(file, ending));
    let is_pickled = is_pickled(submission);
    // Of a model that is there as a pickle and in one file of GGUF, this file is read.
    let endings = if is_pickled { &[GGUF][..] } else { &NETWORKS[..] };
    let other = others.iter().find(|file| is_other(file, endings));
    let has_weights = has_weights(submission);
    if let Some(other) = other.filter(|_| !has_weights) {
        let why = format!("beside it is the model as `{}`, and no `{SINGLE}`", shown(other));
        return Ok(Probe::new(Claim::No, why));
    }
    if parsed.is_none() && (has_weights || is_pickled) {
        // The import says what is wrong with it.
        return Ok(Probe::new(
            Claim::ByExtension,
            "the file lies beside the weights of a checkpoint",
        ));
    }
    if !says("model_type") && !says("architectures") {
        return Ok(Probe::new(Claim::No, "the file describes no model of Transformers"));
    }
    let kind = parsed.as_ref().and_then(|config| config.get("model_type")?.as_str());
    let kind = kind.unwrap_or_default();
    let claim = claim(kind);
    if claim == Claim::No {
        let why = format!("it reads no models whose `model_type` is `{}`", shown(kind));
        return Ok(Probe::new(claim, why));
    }
    let mut needs = weights(submission)?;
    if submission.param("source", "task").is_null() {
        let steps = sentence::needs(submission)?.into_iter();
        needs.extend(steps.map(|(what, path)| need(submission, what, path, false)));
    }
    // It changes what the model is, and goes along.
    let changing = [ADAPTER].into_iter().filter(|file| has(submission, file));
    let parts = copied(submission).into_iter().filter(|file| *file != CONFIG);
    let parts = parts.chain(others).chain(changing);
    let folder = folder_of(network);
    needs.extend(parts.map(|file| need(submission, "part", format!("{folder}{file}"), true)));
    let reason = "the file describes a model of Transformers";
    Ok(Probe { needs, ..Probe::new(claim, reason) })
}

/// The files of the weights.
fn weights(submission: &Submission) -> Result<Vec<Need>, Diagnostic> {
    let folder = folder_of(submission.network());
    let need = |what, file: &str| need(submission, what, format!("{folder}{file}"), false);
    let Form { single, index: list, .. } = *form(submission);
    if has(submission, single) {
        return Ok(vec![need("file of weights", single)]);
    }
    if !has(submission, list) {
        return Ok(vec![match has_weights(submission) || is_pickled(submission) {
            true => need("list of the files of weights", list),
            false => need("file of weights", single),
        }]);
    }
    let path = format!("{}{list}", folder_of(submission.network()));
    // A damaged index is reported when the network is read.
    let files = submission.look(&path, |bytes| index(list, bytes).unwrap_or_default())?;
    let listed = [need("list of the files of weights", list)];
    Ok(listed.into_iter().chain(files.keys().map(|file| need("file of weights", file))).collect())
}
