//! Whether a file is one of TensorFlow's, and which files it needs.
//!
//! Asked again whenever files arrive.

use crate::files::Files;
use crate::graph::bundle::shard_names;
use crate::graph::saved::{CHECKPOINT, NETWORK, is_variable};
use crate::kind::{self, Kind};
use crate::wire::proto::SavedModel;
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use onnxd_plugin_sdk::{Claim, Need, Probe, Submission};
use prost::Message;

/// Files and folders that TensorFlow and Keras write beside a SavedModel.
const BESIDE: [&str; 4] = ["variables/", "assets/", "assets.extra/", "debug/"];
const FILES_BESIDE: [&str; 2] = ["fingerprint.pb", "keras_metadata.pb"];

/// Answers for the network of a submission.
pub(crate) fn probe(submission: &Submission) -> Result<Probe, Diagnostic> {
    let bytes = submission.read(submission.network())?;
    let Some(kind) = kind::of(submission.network(), &bytes) else {
        return Ok(Probe::new(Claim::No, "the file is none of TensorFlow's"));
    };
    let claimed = |claim| Probe::new(claim, format!("the file is {}", kind.words()));
    match kind {
        Kind::SavedModel => {
            let files = Files::beside(submission, submission.network());
            let needs = needs(submission, &files, bytes);
            Ok(Probe { needs, ..claimed(Claim::ByContent) })
        }
        Kind::Archive => Ok(match Files::inside(bytes) {
            Ok(Some(_)) => Probe::new(Claim::ByContent, "the file is an archive of a SavedModel"),
            Ok(None) => Probe::new(Claim::No, format!("the archive has no single `{NETWORK}`")),
            // Many files are archives; nothing says that a damaged one is of TensorFlow.
            Err(found) => Probe::new(Claim::No, found.message),
        }),
        _ => Ok(claimed(Claim::ByContent)),
    }
}

/// What a SavedModel needs: the checkpoint of its variables, and everything that lies beside it as TensorFlow writes it.
fn needs(submission: &Submission, files: &Files<'_>, bytes: Bytes) -> Vec<Need> {
    let folder = submission.network().strip_suffix(NETWORK).unwrap_or_default();
    let need = |what: &str, path: &str, optional: bool| {
        let path = format!("{folder}{path}");
        let found_as = if submission.has(&path) { vec![path.clone()] } else { vec![] };
        Need { what: what.to_owned(), path, found_as, optional }
    };
    let mut all = vec![];
    if has_variables(bytes) {
        let index = format!("{CHECKPOINT}.index");
        all.push(need("index of the checkpoint", &index, false));
        // A damaged index is reported when the network is read.
        let shards = files.read(&index).and_then(|index| shard_names(CHECKPOINT, &index));
        let shards = shards.unwrap_or_default();
        all.extend(shards.iter().map(|name| need("data of the checkpoint", name, false)));
    }
    let is_beside = |path: &str| {
        FILES_BESIDE.contains(&path) || BESIDE.iter().any(|begin| path.starts_with(begin))
    };
    let beside = submission.files().filter_map(|(path, _)| path.strip_prefix(folder));
    let beside = beside.filter(|path| is_beside(path)).map(|path| need("part", path, true));
    let more: Vec<Need> =
        beside.filter(|need| all.iter().all(|known| known.path != need.path)).collect();
    all.extend(more);
    all
}

/// Whether a SavedModel has variables. What is wrong with a damaged file is told when it is read.
fn has_variables(bytes: Bytes) -> bool {
    let saved = SavedModel::decode(bytes).unwrap_or_default();
    let graphs = saved.meta_graphs.iter().filter_map(|meta| meta.graph_def.as_ref());
    graphs.flat_map(|graph| &graph.node).any(is_variable)
}
