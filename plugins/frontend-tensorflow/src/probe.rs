//! Whether a file is one of TensorFlow's, and which files it needs.
//!
//! Asked again whenever files arrive.

use crate::files::Files;
use crate::graph::bundle::shard_names;
use crate::graph::checkpoint::is_variable;
use crate::graph::saved::{self, CHECKPOINT, META, decoded};
use crate::kind::{FileKind, file_kind};
use crate::tflite;
use crate::wire::outline::SavedModel;
use crate::wire::proto::MetaGraphDef;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::{Claim, Need, Probe, QUANTIZED, Submission};
use prost::Message;

/// Files and folders that TensorFlow and Keras write beside a SavedModel.
const BESIDE: [&str; 4] = ["variables/", "assets/", "assets.extra/", "debug/"];
const FILES_BESIDE: [&str; 2] = ["fingerprint.pb", "keras_metadata.pb"];

/// Answers for the network of a submission.
pub(crate) fn probe(submission: &Submission) -> Result<Probe, Diagnostic> {
    let bytes = submission.read(submission.network())?;
    if bytes.is_empty() {
        return Ok(Probe::new(Claim::No, "the file is empty"));
    }
    let Some(kind) = file_kind(submission.network(), &bytes) else {
        return Ok(Probe::new(Claim::No, "the file is none of TensorFlow's"));
    };
    let claimed = |claim| Probe::new(claim, format!("the file is {}", kind.words()));
    match kind {
        FileKind::SavedModel | FileKind::SavedText => {
            // What is wrong with a damaged file is told when it is read.
            let saved: SavedModel = decoded(bytes, kind == FileKind::SavedText).unwrap_or_default();
            let mut needs = needs(submission, CHECKPOINT, has_variables(&saved));
            let known = needs.clone();
            needs.extend(beside(submission, &known));
            Ok(Probe { needs, ..claimed(Claim::ByContent) })
        }
        FileKind::Checkpoint => {
            let meta = MetaGraphDef::decode(bytes).ok();
            let Some(graph) = meta.and_then(|meta| meta.graph_def) else {
                return Ok(Probe::new(Claim::No, "the file is no graph of a checkpoint"));
            };
            let prefix = checkpoint_of(submission.network());
            let has_variables = graph.node.iter().any(|node| is_variable(&node.op));
            let mut needs = needs(submission, prefix, has_variables);
            // TensorFlow lists the checkpoints of a folder in a file of this name.
            needs.push(need(submission, "list of checkpoints", "checkpoint", true));
            Ok(Probe { needs, ..claimed(Claim::ByContent) })
        }
        FileKind::Archive => Ok(match Files::inside(bytes) {
            Ok(files) => Probe::new(Claim::ByContent, archive(&files)),
            Err(found) if found.code == Code::FileMissing.as_str() => {
                Probe::new(Claim::No, found.into_finding().message)
            }
            // What is wrong with a damaged one is told when it is read.
            Err(_) => Probe::new(Claim::ByExtension, "the file is an archive that cannot be read"),
        }),
        FileKind::Lite => {
            // What is wrong with a damaged file is told when it is read.
            let quantized = tflite::model::read(&bytes).is_ok_and(|model| model.is_quantized());
            let facts = quantized.then(|| QUANTIZED.to_owned()).into_iter().collect();
            Ok(Probe { facts, ..claimed(Claim::ByContent) })
        }
        _ => Ok(claimed(Claim::ByContent)),
    }
}

/// What the name of a checkpoint's files begins with, beside its graph `PREFIX.meta`.
pub(crate) fn checkpoint_of(network: &str) -> &str {
    let file = network.rsplit('/').next().unwrap_or(network);
    file.get(..file.len().saturating_sub(META.len())).unwrap_or_default()
}

/// The folder of the network: empty, or ends with `/`.
fn folder(submission: &Submission) -> &str {
    let network = submission.network();
    &network[..network.rfind('/').map_or(0, |at| at + 1)]
}

fn need(submission: &Submission, what: &str, path: &str, optional: bool) -> Need {
    let path = format!("{}{path}", folder(submission));
    let found_as = if submission.has(&path) { vec![path.clone()] } else { vec![] };
    Need { what: what.to_owned(), path, found_as, optional }
}

fn has_variables(saved: &SavedModel) -> bool {
    let graphs = saved.meta_graphs.iter().filter_map(|meta| meta.graph_def.as_ref());
    graphs.flat_map(|graph| &graph.node).any(|node| is_variable(&node.op))
}

/// The checkpoint of the variables that a model may have.
fn needs(submission: &Submission, prefix: &str, has_variables: bool) -> Vec<Need> {
    if !has_variables {
        return vec![];
    }
    let files = Files::beside(submission, submission.network());
    let parts = checkpoint(&files, prefix).into_iter();
    parts.map(|(what, path)| need(submission, what, &path, false)).collect()
}

/// The files of a checkpoint, and what each is.
fn checkpoint(files: &Files<'_>, prefix: &str) -> Vec<(&'static str, String)> {
    let index = format!("{prefix}.index");
    // A damaged index is reported when the network is read.
    let shards = files.read(&index).and_then(|index| shard_names(prefix, &index));
    let shards = shards.unwrap_or_default().into_iter();
    let index = [("index of the checkpoint", index)].into_iter();
    index.chain(shards.map(|name| ("data of the checkpoint", name))).collect()
}

/// What an archive is, and what it lacks: nothing can arrive in it later.
fn archive(files: &Files<'_>) -> String {
    let saved: SavedModel = saved::read(files).unwrap_or_default();
    let parts = if has_variables(&saved) { checkpoint(files, CHECKPOINT) } else { vec![] };
    let paths = parts.into_iter().map(|(_, path)| path);
    let missing: Vec<String> = paths.filter(|path| !files.has(path)).collect();
    let what = "the file is an archive of a SavedModel";
    match missing.as_slice() {
        [] => what.to_owned(),
        [one] => format!("{what} without `{}`", shown(one)),
        [first, rest @ ..] => {
            format!("{what} without `{}` and {} more files", shown(first), rest.len())
        }
    }
}

/// Everything else that lies beside a SavedModel as TensorFlow writes it.
fn beside(submission: &Submission, known: &[Need]) -> Vec<Need> {
    let is_beside = |path: &str| {
        FILES_BESIDE.contains(&path) || BESIDE.iter().any(|begin| path.starts_with(begin))
    };
    let paths = submission.files().filter_map(|(path, _)| path.strip_prefix(folder(submission)));
    let parts =
        paths.filter(|path| is_beside(path)).map(|path| need(submission, "part", path, true));
    parts.filter(|need| known.iter().all(|known| known.path != need.path)).collect()
}

#[cfg(test)]
mod tests;
