//! What the stages of one conversion share.

use super::Events;
use super::looked::Looked;
use super::models::Models;
use super::plugin_log::PluginLog;
use crate::described::Described;
use crate::summary;
use bytes::Bytes;
use onnxd_config::descriptor::Component;
use onnxd_diagnostics::{Class, Code, Diagnostic, Diagnostics, Severity};
use onnxd_ir::{DataType, Model, Tensor};
use onnxd_onnx::TensorLoader;
use onnxd_params::{Resolved, Section};
use onnxd_plugin_host::call::CallError;
use onnxd_plugin_host::{HostEvent, JobContext, Library, Submission, TensorTable};
use onnxd_proto::onnxd as message;
use onnxd_proto::onnxd::worker_event::What;
use onnxd_proto::onnxd::{
    ConvertRequest, ConvertResult, FileRole, PluginInfo, Report, Verdict, WorkerEvent,
};
use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Version of the report's layout.
const REPORT_SCHEMA: u32 = 1;

/// Bytes of an encoded graph that is kept decoded as well.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Digests in the making.
pub(super) type PendingDigests = JoinHandle<Result<Vec<message::FileDigest>, Diagnostic>>;

/// One conversion in progress.
pub(crate) struct Session {
    pub(crate) request: ConvertRequest,
    /// The resolved params, which remember what was read.
    pub(crate) params: Arc<Resolved>,
    /// The graph between stages: an encoded `ModelProto` with handles into `tensors`.
    graph: Bytes,
    /// The same graph, decoded on first use.
    model: OnceCell<Model>,
    /// The same graph with inferred types, if a stage left it.
    pub(crate) typed: Option<Model>,
    pub(crate) tensors: Arc<TensorTable>,
    pub(crate) report: Report,
    pub(crate) outputs: Vec<message::FileDigest>,
    /// Digests of the sources that are still computed.
    pub(super) digests: Option<PendingDigests>,
    /// The models that the network makes.
    pub(super) models: Models,
    /// What the model keeps between calls.
    pub(crate) states: Vec<message::State>,
    /// The values of states for the first call, once they are no part of the model any more.
    pub(crate) initial: onnxd_arrays::Arrays,
    /// Source, after passes, final.
    pub(crate) op_counts: [BTreeMap<String, u64>; 3],
    libraries: BTreeMap<String, Library>,
    /// What the plugins say about themselves.
    pub(crate) described: Rc<Described>,
    threads: u32,
    events: Events,
    /// What the conversion took notice of.
    looked: RefCell<Looked>,
    /// The time that comparisons of models took.
    pub(super) compared_for: Cell<Duration>,
    /// What plugins logged.
    pub(super) plugin_log: PluginLog,
}

impl Session {
    pub(crate) fn new(
        request: ConvertRequest,
        params: Arc<Resolved>,
        threads: u32,
        events: Events,
    ) -> Session {
        let described = Rc::new(Described::from_plugins(&request.plugins));
        let tensors = TensorTable::on_disk(PathBuf::from(&request.work_dir));
        let report = Report {
            schema: REPORT_SCHEMA,
            job: request.job.clone(),
            name: request.name.clone(),
            attempt: request.attempt,
            versions: Some(message::Versions {
                onnxd: env!("CARGO_PKG_VERSION").into(),
                plugins: Vec::new(),
            }),
            params: request.params.clone(),
            ..Report::default()
        };
        Session {
            request,
            params,
            report,
            events,
            threads,
            looked: RefCell::default(),
            compared_for: Cell::default(),
            plugin_log: PluginLog::default(),
            graph: Bytes::new(),
            model: OnceCell::new(),
            typed: None,
            tensors,
            outputs: Vec::new(),
            digests: None,
            models: Models::default(),
            states: Vec::new(),
            initial: Vec::new(),
            op_counts: Default::default(),
            libraries: BTreeMap::new(),
            described,
        }
    }

    /// Runs one stage and notes its time and memory.
    pub(crate) fn stage(
        &mut self,
        name: &'static str,
        run: fn(&mut Session) -> Result<(), Diagnostics>,
    ) -> Result<(), Diagnostics> {
        self.entered(name, "", "");
        let started = Instant::now();
        let outcome = run(self);
        // A stage has one entry for all models.
        let stages = &mut self.report.stages;
        let at = stages.iter().position(|stage| stage.name == name).unwrap_or_else(|| {
            stages.push(message::Stage { name: name.into(), ..message::Stage::default() });
            stages.len() - 1
        });
        stages[at].seconds += started.elapsed().as_secs_f64();
        stages[at].peak_rss_bytes = summary::peak_rss_bytes();
        let told = |found| self.models.told(found);
        outcome.map_err(|found| Diagnostics(found.0.into_iter().map(told).collect()))
    }

    /// Says who is in charge from now on, so that a crash can be laid at the right door.
    pub(crate) fn entered(&self, stage: &str, plugin: &str, component: &str) {
        self.plugin_log.by(plugin);
        let started = message::StageStarted {
            stage: stage.into(),
            plugin: plugin.into(),
            component: component.into(),
        };
        (self.events)(WorkerEvent { what: Some(What::Stage(started)) });
    }

    /// A section of the params that all conversions have, in types. Asking for one of its values says that it counts: a
    /// param that a user set and that nothing asked for is a finding.
    pub(crate) fn section<S: Section>(&self) -> S {
        self.params.section()
    }

    /// The front-end that read the network, as it describes itself.
    pub(crate) fn frontend(&self) -> Option<&Component> {
        let by = self.report.recognition.as_ref()?;
        self.described.component(&by.plugin, "frontend", &by.frontend)
    }

    /// What was taken notice of so far.
    pub(crate) fn looked(&self) -> RefMut<'_, Looked> {
        self.looked.borrow_mut()
    }

    /// What the plugins see of the submission.
    pub(crate) fn submission(&self) -> Submission<'_> {
        let ConvertRequest { files, network, .. } = &self.request;
        Submission { files, network, params: &self.params, lowered: &[] }
    }

    /// A context for one plugin call.
    pub(crate) fn context(&self, submission: Submission<'_>) -> JobContext {
        let (events, plugin_log) = (self.events.clone(), self.plugin_log.clone());
        let sink = move |event| {
            if let HostEvent::Log { level, target, text } = &event {
                plugin_log.log(*level, target, text);
            }
            events(WorkerEvent { what: Some(host_event(event)) });
        };
        let cancel = Arc::new(AtomicBool::new(false));
        JobContext::new(submission, self.tensors.clone(), self.threads, cancel, sink)
            .with_outputs(self.out_dir())
    }

    /// The folder that the result is written to.
    pub(crate) fn out_dir(&self) -> PathBuf {
        Path::new(&self.request.work_dir).join("out")
    }

    /// Keeps what a call left beside the graph: the files that a plugin handed over belong to the result, and what it
    /// looked at was not given in vain.
    pub(crate) fn keep(&mut self, context: &mut JobContext, read: Option<&message::ParamsRead>) {
        self.looked().by_plugin(context.take_mapped(), read);
        let files = context.take_files();
        let names: BTreeSet<&str> = files.iter().map(|f| f.path.as_str()).collect();
        self.outputs.retain(|known| !names.contains(known.path.as_str()));
        self.outputs.extend(files);
    }

    /// Loads a plugin's library, once; it is never unloaded.
    pub(crate) fn library(&mut self, plugin: &PluginInfo) -> Result<&Library, Diagnostic> {
        if !self.libraries.contains_key(&plugin.id) {
            let library = Library::open_inspected(plugin)?;
            self.libraries.insert(plugin.id.clone(), library);
            self.report.versions.get_or_insert_default().plugins.push(message::Component {
                id: plugin.id.clone(),
                version: plugin.version.clone(),
                sha256: plugin.sha256.clone(),
            });
        }
        Ok(&self.libraries[&plugin.id])
    }

    /// A loaded library.
    pub(crate) fn loaded(&self, plugin: &str) -> &Library {
        &self.libraries[plugin]
    }

    /// The graph, for a plugin to work on. A large one is not kept decoded while the plugin holds it, too.
    pub(crate) fn lend_graph(&mut self) -> Bytes {
        if self.graph.len() > KEPT_BYTES_MAX {
            self.model = OnceCell::new();
        }
        self.graph.clone()
    }

    /// Puts a graph in the place of the one before, which it gives.
    pub(crate) fn replace_graph(&mut self, graph: Bytes) -> Bytes {
        self.model = OnceCell::new();
        std::mem::replace(&mut self.graph, graph)
    }

    /// Lets the graph wait until the models before it are done.
    pub(super) fn let_wait(&mut self) {
        self.typed = None;
        let (graph, ops) =
            (self.replace_graph(Bytes::new()), std::mem::take(&mut self.op_counts[0]));
        self.models.wait(graph, ops, &mut self.report);
    }

    /// Goes on to the next model of the network; whether there is one.
    pub(super) fn goes_on(&mut self) -> bool {
        let Some(graph) = self.models.next(&mut self.op_counts, &mut self.report) else {
            return false;
        };
        self.replace_graph(graph);
        self.states.clear();
        self.initial.clear();
        true
    }

    /// The graph, decoded; its weights stay where they are.
    pub(crate) fn model(&self) -> Result<&Model, Diagnostics> {
        if let Some(model) = self.model.get() {
            return Ok(model);
        }
        let model = self.decoded(self.graph.clone())?;
        Ok(self.model.get_or_init(|| model))
    }

    /// The same for the last stage, which changes it.
    pub(crate) fn take_model(&mut self) -> Result<Model, Diagnostics> {
        self.model()?;
        self.typed = None;
        self.model.take().map_or_else(|| self.decoded(self.graph.clone()), Ok)
    }

    /// The graph with inferred types, for the last time.
    pub(crate) fn typed(&mut self) -> Result<Model, Diagnostics> {
        if let Some(typed) = self.typed.take() {
            return Ok(typed);
        }
        let mut model = self.model()?.clone();
        // Contradictions were told when the graph came.
        let _ = onnxd_ir::infer(&mut model);
        Ok(model)
    }

    /// A graph whose weights are handles into the table.
    pub(crate) fn decoded(&self, graph: Bytes) -> Result<Model, Diagnostics> {
        Ok(onnxd_onnx::decode(graph, &mut Handles(&self.tensors))?.model)
    }

    /// Adds a finding that does not end the conversion.
    pub(crate) fn note(&mut self, diagnostic: &Diagnostic, severity: Severity) {
        let told = self.models.told(diagnostic.clone());
        self.report.diagnostics.push(message::Diagnostic::of(&told, severity));
    }

    /// The report with its verdict.
    pub(crate) fn conclude(mut self, outcome: Result<(), Diagnostics>) -> ConvertResult {
        self.models.conclude(&mut self.op_counts, &mut self.report);
        let errors = self.report.diagnostics.iter().filter(|d| d.severity() == Severity::Error);
        let findings = errors.count();
        let report = &mut self.report;
        let (verdict, summary) = match &outcome {
            Ok(()) if findings == 0 => (Verdict::Succeeded, "the model was converted".into()),
            Ok(()) => {
                let noun = if findings == 1 { "finding" } else { "findings" };
                let text = format!("the model was converted, with {findings} {noun}");
                (Verdict::SucceededWithFindings, text)
            }
            Err(failures) => (Verdict::Failed, failure(failures)),
        };
        report.set_verdict(verdict);
        report.summary = summary;
        if let Err(failures) = outcome {
            report.diagnostics.splice(0..0, failures.0.iter().map(message::Diagnostic::from));
            self.outputs.clear();
        }
        // The model first, whoever wrote files before it.
        self.outputs.sort_by_key(|f| !matches!(f.role(), FileRole::Model | FileRole::ExternalData));
        report.outputs = self.outputs.clone();
        self.plugin_log.into_report(report);
        ConvertResult { report: Some(self.report), outputs: self.outputs }
    }
}

fn failure(found: &Diagnostics) -> String {
    let first = found.0.first().map(|d| d.message.clone()).unwrap_or_default();
    match found.0.len() {
        0 | 1 => first,
        2 => format!("{first} (and one more finding)"),
        n => format!("{first} (and {} more findings)", n - 1),
    }
}

fn host_event(event: HostEvent) -> What {
    match event {
        HostEvent::Progress { done, total, about } => {
            What::Progress(message::Progress { done, total, about })
        }
        HostEvent::Log { level, target, text } => {
            What::Log(message::LogLine { level, target, text })
        }
    }
}

/// What a plugin call failed with, as findings.
pub(crate) fn findings(error: CallError) -> Diagnostics {
    match error {
        CallError::Failed(found) => found,
        CallError::Cancelled => {
            let mut found = Diagnostic::new(Code::WorkerTimeout, "cancelled");
            found.class = Class::Environment;
            found.into()
        }
    }
}

/// That a file of the result cannot be written.
pub(crate) fn disk(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::of_write(error), format!("`{}`: {error}", path.display()))
}

/// Finds the tensors that a graph names by handle.
struct Handles<'t>(&'t TensorTable);

impl TensorLoader for Handles<'_> {
    fn load(
        &mut self,
        dtype: DataType,
        dims: &[usize],
        entries: &[(String, String)],
    ) -> Result<Tensor, Diagnostic> {
        let id = onnxd_onnx::handle_of(entries)?;
        let wrong = |why: &str| {
            let text = format!("the graph names tensor {id}, which {why}");
            Diagnostic::new(Code::PluginContract, text)
        };
        let tensor = self.0.tensor(id).ok_or_else(|| wrong("is not there"))?;
        tensor.viewed_as(dtype, dims).map_err(|e| wrong(&format!("is another one: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_config::{Declared, Params};
    use onnxd_params::host::{Calibration, Check, Export, Job, Passes, Quantization, Source};
    use onnxd_params::words::ExternalData;

    #[test]
    fn every_section_holds_the_defaults_of_its_rows() {
        let params = Params::resolve(&Declared::default(), &[], &[]).unwrap();
        let resolved = Arc::new(Resolved::parse(params.resolved().text()).unwrap());
        Job::of(&resolved).unwrap();
        Source::of(&resolved).unwrap();
        Passes::of(&resolved).unwrap();
        Quantization::of(&resolved).unwrap();
        Calibration::of(&resolved).unwrap();
        let check = Check::of(&resolved).unwrap();
        let export = Export::of(&resolved).unwrap();
        assert!(resolved.seen().keys.is_empty(), "taking a section reads nothing");
        assert_eq!((check.tolerance_abs(), export.external_data()), (1e-4, ExternalData::Auto));
        let seen = resolved.seen().keys.iter().cloned().collect::<Vec<_>>();
        assert_eq!(seen, ["check.tolerance_abs", "export.external_data"]);
    }
}
