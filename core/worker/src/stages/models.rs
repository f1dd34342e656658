//! A network may make several models, such as an encoder and the decoder behind it. The import makes all of them. From
//! then on each goes through the stages by itself, as if it were the only one, and leaves its part in the report.

use crate::summary;
use bytes::Bytes;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_onnx::SharedData;
use onnxd_proto::onnxd::{FileDigest, ImportLog, ModelReport, Pass, Report};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Name of the files of a model that is the only one.
const USUAL: &str = "model";
/// Name of the file of weights that lie outside.
const DATA: &str = "model.onnx.data";
/// Most models of a network.
const MODELS_MAX: usize = 16;
/// Longest name of one, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// What files of onnxd's own begin with.
const OWN: [&str; 3] = ["graph", "receipt", "report"];

/// The models of a conversion.
#[derive(Default)]
pub(crate) struct Models {
    /// Name of the current one; empty where it is the only one.
    name: String,
    waiting: VecDeque<WaitingModel>,
    /// What became of those before the current one.
    done: Vec<ModelReport>,
    /// Where all have their weights, if these lie outside.
    data: Option<SharedData>,
}

/// How often each operator occurs.
type OpCounts = BTreeMap<String, u64>;

fn count_ops(counts: &mut [OpCounts; 3], report: &mut Report) {
    report.model.get_or_insert_default().op_counts = summary::op_counts(&std::mem::take(counts));
}

/// A model that was imported, and whose turn comes.
struct WaitingModel {
    name: String,
    graph: Bytes,
    /// Operators of the source.
    ops: OpCounts,
    /// What the import said of it.
    passes: Vec<Pass>,
    facts: Vec<String>,
}

impl Models {
    /// The current model's file.
    pub(super) fn file(&self) -> String {
        format!("{}.onnx", if self.name.is_empty() { USUAL } else { &self.name })
    }

    /// A file beside it that is called `usual` where there is one model.
    pub(super) fn beside(&self, usual: &str) -> String {
        if self.name.is_empty() { usual.to_owned() } else { format!("{}.{usual}", self.name) }
    }

    /// The file of weights that lie outside of the model; several models have one.
    pub(super) fn data(&mut self) -> &mut SharedData {
        self.data.get_or_insert_with(|| SharedData::named(DATA))
    }

    /// Whether there are several.
    pub(super) fn are_several(&self) -> bool {
        !self.name.is_empty()
    }

    /// From now on all that happens is about the model of this name; an empty one is that of all.
    pub(super) fn about(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Lets a graph wait, of the model that all was about so far. Takes what the report says of it.
    pub(super) fn wait(&mut self, graph: Bytes, ops: OpCounts, report: &mut Report) {
        let passes = std::mem::take(&mut report.passes);
        let (name, facts) = (self.name.clone(), report.metadata.clone());
        self.waiting.push_back(WaitingModel { name, graph, ops, passes, facts });
    }

    /// The graph of the next model and the operators of its source, if there is one. The report goes on with that.
    pub(super) fn next(
        &mut self,
        counts: &mut [OpCounts; 3],
        report: &mut Report,
    ) -> Option<Bytes> {
        let next = self.waiting.pop_front()?;
        self.set_aside(counts, report);
        self.name = next.name;
        counts[0] = next.ops;
        report.passes = next.passes;
        report.metadata = next.facts;
        Some(next.graph)
    }

    /// Takes what the report says of the current model out of it.
    fn set_aside(&mut self, counts: &mut [OpCounts; 3], report: &mut Report) {
        count_ops(counts, report);
        let part = ModelReport {
            model: report.model.take(),
            passes: std::mem::take(&mut report.passes),
            comparisons: std::mem::take(&mut report.comparisons),
            quantization: report.quantization.take(),
            numerics: report.numerics.take(),
            metadata: std::mem::take(&mut report.metadata),
        };
        self.done.push(part);
    }

    /// Puts all models into the report, the first one where an only one stands.
    pub(super) fn conclude(&mut self, counts: &mut [OpCounts; 3], report: &mut Report) {
        if self.done.is_empty() {
            return count_ops(counts, report);
        }
        self.set_aside(counts, report);
        let mut done = std::mem::take(&mut self.done).into_iter();
        if let Some(first) = done.next() {
            report.model = first.model;
            report.passes = first.passes;
            report.comparisons = first.comparisons;
            report.quantization = first.quantization;
            report.numerics = first.numerics;
            report.metadata = first.metadata;
        }
        report.further = done.collect();
    }

    /// What was found, with the model that it is about.
    pub(super) fn told(&self, mut found: Diagnostic) -> Diagnostic {
        if self.are_several() {
            found.message = format!("{} (`{}`)", found.message, self.file());
        }
        found
    }
}

/// Files of the models that an import made, where there are several.
fn files(log: &ImportLog) -> Vec<String> {
    let names = log.further.iter().map(|model| model.name.as_str());
    let several = !log.further.is_empty();
    let names = several.then_some(log.name.as_str()).into_iter().chain(names);
    names.map(|name| format!("{name}.onnx")).collect()
}

/// Refuses params that are about the one model of a network, of which several are made, and models that would replace
/// what must stay. No work was done on the models yet.
pub(super) fn refuse(
    log: &ImportLog,
    params_of_one: &[&str],
    taken: &[String],
) -> Result<(), Diagnostics> {
    let files = files(log);
    let listed = |files: &mut dyn Iterator<Item = &String>| {
        files.map(|file| format!("`{}`", shown(file))).collect::<Vec<_>>().join(", ")
    };
    let mut found = Diagnostics::default();
    for key in params_of_one.iter().filter(|_| !files.is_empty()) {
        let all = listed(&mut files.iter());
        let text = format!("the param {key} is about one model, and the network makes {all}");
        found.push(Diagnostic::new(Code::FeatureUnsupported, text).help("Leave the param out."));
    }
    let replaced = listed(&mut files.iter().filter(|file| taken.contains(file)));
    if !replaced.is_empty() {
        let text = format!(
            "the result would replace files in its folder that are not an earlier result of onnxd: {replaced}"
        );
        found.push(Diagnostic::new(Code::OutputTaken, text));
    }
    found.or_ok(())
}

/// Refuses names that are no names of files, or of two, or of what is there already.
pub(super) fn check(written: &[FileDigest], log: &ImportLog) -> Result<(), Diagnostic> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name =
        |name: &str| (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(allowed);
    let plain = |name: &str| is_name(name) && !OWN.contains(&name.to_lowercase().as_str());
    let wrong = |why: String| Err(Diagnostic::new(Code::PluginContract, why));
    if log.further.len() >= MODELS_MAX {
        return wrong(format!("more than {MODELS_MAX} models"));
    }
    if log.further.is_empty() && log.name.is_empty() {
        return Ok(());
    }
    if log.further.is_empty() {
        return wrong("the name of a model that is the only one".to_owned());
    }
    let further = log.further.iter().map(|model| model.name.as_str());
    let mut names = BTreeSet::new();
    for name in further.chain([log.name.as_str()]) {
        let file = format!("{name}.onnx");
        let is_taken = written.iter().any(|known| known.path.starts_with(&file));
        if !plain(name) || is_taken || !names.insert(name.to_lowercase()) {
            return wrong(format!("`{}` is not a name for one of the models", shown(name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::NamedGraph;

    fn log(names: &[&str]) -> ImportLog {
        let further = names[1..]
            .iter()
            .map(|name| NamedGraph { name: (*name).to_owned(), ..NamedGraph::default() });
        let further = further.collect();
        ImportLog { name: names[0].to_owned(), further, ..ImportLog::default() }
    }

    #[test]
    fn each_model_has_a_name_of_its_own() {
        let beside = FileDigest { path: "decoder.onnx.data".into(), ..FileDigest::default() };
        let written = [beside];
        for good in [&[""][..], &["encoder_model", "decoder_model_merged"], &["a", "b", "c-1"]] {
            check(&written, &log(good)).unwrap();
        }
        let many: Vec<String> = (0..=MODELS_MAX).map(|i| format!("m{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for bad in [
            &["a"][..],
            &["", "b"],
            &["a", ""],
            &["a", "A"],
            &["a", "../b"],
            &["a", "b.c"],
            &["a", "report"],
            &["a", "decoder"],
            &many,
        ] {
            let found = check(&written, &log(bad)).unwrap_err();
            assert_eq!(found.code, "N0406", "{bad:?}");
        }
    }

    #[test]
    fn what_several_models_cannot_have_is_refused_at_once() {
        let taken = ["b.onnx".to_owned(), "model.onnx".to_owned()];
        let params = ["check.inputs", "export.dynamic_axes"];
        // Params of one model are about it, and its file was looked at before.
        refuse(&log(&[""]), &params, &taken).unwrap();
        refuse(&log(&["a", "c"]), &[], &taken).unwrap();
        let found = refuse(&log(&["a", "b"]), &params, &taken).unwrap_err();
        let told: Vec<&str> = found.0.iter().map(|found| found.message.as_str()).collect();
        let of = |key: &str| {
            format!("the param {key} is about one model, and the network makes `a.onnx`, `b.onnx`")
        };
        assert_eq!(told[..2], params.map(of));
        assert!(told.len() == 3 && told[2].ends_with("onnxd: `b.onnx`"), "{told:?}");
        assert_eq!(found.0[2].code, "N0705");
    }

    #[test]
    fn findings_name_the_model_where_there_are_several() {
        let mut models = Models::default();
        let told =
            |models: &Models| models.told(Diagnostic::new(Code::Disk, "full")).message.clone();
        assert_eq!(
            (told(&models).as_str(), models.beside("graph.txt").as_str()),
            ("full", "graph.txt")
        );
        models.about("decoder");
        assert_eq!(told(&models), "full (`decoder.onnx`)");
        assert_eq!(models.beside("graph.txt"), "decoder.graph.txt");
    }
}
