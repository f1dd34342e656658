//! One conformance case in a process of its own: the side that runs the plugin's code.
//!
//! The process confines itself like a worker, does one thing with the library, and says in one line
//! what it saw. A crash or a hang is seen by whoever started it.

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_params::Resolved;
use onnxd_plugin_host::call::{self, CallError};
use onnxd_plugin_host::{JobContext, Library, Submission, TensorTable};
use onnxd_proto::onnx::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto,
    ValueInfoProto, tensor_shape_proto, type_proto,
};
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::{ClaimLevel, ConvertRequest, InputFile, Limits, PluginInfo, Request};
use onnxd_worker::confine::{ConfinementPlan, confine};
use prost::Message;
use prost::bytes::Bytes;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "conformance";

/// Threads that a case may have.
const THREADS_MAX: u32 = 256;

/// What a plugin is put through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    /// Asked for a component that it does not have, it refuses.
    UnknownComponent,
    /// Given bytes without meaning, a front-end declines or says what is wrong.
    GarbageNetwork,
    /// Given an empty file, a front-end answers somehow.
    EmptyNetwork,
    /// Given bytes without meaning for a graph, a pass says what is wrong.
    GarbageGraph,
    /// Given a graph that ends early, a pass says what is wrong.
    TruncatedGraph,
    /// Given the same small graph twice, a pass gives the same bytes twice.
    SameBytes,
}

impl Case {
    /// The cases for a component of a kind.
    pub(crate) fn of_kind(kind: &str) -> &'static [Case] {
        match kind {
            "frontend" => &[Case::UnknownComponent, Case::GarbageNetwork, Case::EmptyNetwork],
            "pass" => {
                &[Case::UnknownComponent, Case::GarbageGraph, Case::TruncatedGraph, Case::SameBytes]
            }
            "quantizer" => &[Case::UnknownComponent, Case::GarbageGraph, Case::TruncatedGraph],
            _ => &[],
        }
    }

    /// What the case is called, on the command line too.
    pub(crate) fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map(|v| v.get_name().to_owned()).unwrap_or_default()
    }
}

/// Runs one conformance case; onnxd starts it by itself.
#[derive(clap::Args)]
pub(crate) struct Conformance {
    /// The case.
    case: Case,
    /// The library.
    library: String,
    /// Kind of the component.
    kind: String,
    /// Id of the component.
    component: String,
    /// A folder with the network's file, if there is one.
    folder: PathBuf,
    /// Name of the network's file.
    network: String,
}

/// What a case saw, as one line of JSON.
#[derive(Serialize, Deserialize)]
pub(crate) struct CaseReport {
    pub(crate) passed: bool,
    pub(crate) text: String,
}

impl Conformance {
    /// Nothing is said if the process cannot be confined: then no foreign code runs.
    pub(crate) fn run(&self) -> ExitCode {
        let tied = set_parent_process_death_signal(Some(Signal::KILL));
        let confined = tied.map_err(|e| e.to_string()).and_then(|()| confine(&self.plan()));
        let (passed, text) = match confined.and_then(|_| self.case()) {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        super::super::out::json(&CaseReport { passed, text });
        ExitCode::SUCCESS
    }

    fn plan(&self) -> ConfinementPlan {
        let convert = ConvertRequest {
            plugins: vec![PluginInfo { path: self.library.clone(), ..PluginInfo::default() }],
            files: vec![self.file()],
            work_dir: self.folder.to_string_lossy().into_owned(),
            ..ConvertRequest::default()
        };
        let limits = Limits {
            memory_bytes: 1 << 30,
            cpu_seconds: 10,
            file_bytes: 1 << 20,
            threads: 1,
            threads_max: THREADS_MAX,
            ..Limits::default()
        };
        ConfinementPlan::for_request(&Request {
            limits: Some(limits),
            what: Some(What::Convert(convert)),
        })
    }

    fn case(&self) -> Result<String, String> {
        let library = Library::open(self.library.as_ref()).map_err(|e| e.into_finding().message)?;
        match self.case {
            Case::UnknownComponent if self.kind == "frontend" => {
                let probed = call::probe(&library, "no-such-component", &mut self.context());
                refused(probed.map(|_| ()))
            }
            Case::UnknownComponent => refused(self.given(&library, "no-such-component", graph())),
            Case::GarbageNetwork => refused(self.import(&library)),
            Case::EmptyNetwork => match self.import(&library) {
                Ok(_) => Ok("an empty file is a network".to_owned()),
                answer => refused(answer),
            },
            Case::GarbageGraph => {
                refused(self.given(&library, &self.component, Bytes::from(garbage())))
            }
            Case::TruncatedGraph => {
                let graph = graph();
                refused(self.given(&library, &self.component, graph.slice(..graph.len() - 3)))
            }
            Case::SameBytes => self.same_bytes(&library),
        }
    }

    /// What a pass or a quantizer makes of a graph.
    fn given(&self, library: &Library, component: &str, graph: Bytes) -> Result<(), CallError> {
        let mut context = self.context();
        if self.kind == "quantizer" {
            context.set_graph(graph);
            return call::quantize(library, component, &mut context).map(|_| ());
        }
        passed(library, component, graph, &mut context).map(|_| ())
    }

    /// Probes and, unless the front-end declines, imports.
    fn import(&self, library: &Library) -> Result<(), CallError> {
        let mut context = self.context();
        let probe = call::probe(library, &self.component, &mut context)?;
        if probe.level() == ClaimLevel::ClaimNo {
            return Err(Diagnostic::new(Code::NoFrontend, probe.reason).into());
        }
        call::import(library, &self.component, &mut context).map(|_| ())
    }

    fn same_bytes(&self, library: &Library) -> Result<String, String> {
        let run = || passed(library, &self.component, graph(), &mut self.context());
        let (first, second) = (run().map_err(|e| said(&e))?, run().map_err(|e| said(&e))?);
        match (first == second, first) {
            (false, _) => Err("the same graph gave other bytes the second time".to_owned()),
            (true, None) => Ok("the graph stays as it is".to_owned()),
            (true, Some(bytes)) => Ok(format!("{} bytes, twice the same", bytes.len())),
        }
    }

    fn file(&self) -> InputFile {
        let path = self.folder.join(&self.network);
        InputFile {
            bytes: path.metadata().map_or(0, |data| data.len()),
            path: path.to_string_lossy().into_owned(),
            name: self.network.clone(),
            ..InputFile::default()
        }
    }

    fn context(&self) -> JobContext {
        let (network, params) = (&self.network, &Resolved::default());
        let submission = Submission { files: &[self.file()], network, params, lowered: &[] };
        let cancel = Arc::new(AtomicBool::new(false));
        JobContext::new(submission, TensorTable::new(), 1, cancel, |_| {})
    }
}

fn passed(
    library: &Library,
    component: &str,
    graph: Bytes,
    context: &mut JobContext,
) -> Result<Option<Bytes>, CallError> {
    context.set_graph(graph);
    call::run_passes(library, &[component.to_owned()], u64::MAX, context).map(|done| done.model)
}

/// A refusal passes; a panic is none, and neither is an answer.
fn refused(answer: Result<(), CallError>) -> Result<String, String> {
    match answer {
        Ok(()) => Err("it was accepted".to_owned()),
        Err(why) if is_panic(&why) => Err(said(&why)),
        Err(why) => Ok(said(&why)),
    }
}

fn is_panic(why: &CallError) -> bool {
    let panicked = Code::PluginPanicked.as_str();
    matches!(why, CallError::Failed(found) if found.0.iter().any(|d| d.code == panicked))
}

fn said(why: &CallError) -> String {
    match why {
        CallError::Cancelled => "it says that it was cancelled".to_owned(),
        CallError::Failed(found) => found.to_string().replace('\n', "; "),
    }
}

/// Bytes that are no protobuf, no text and no archive.
pub(super) fn garbage() -> Vec<u8> {
    (0..512u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect()
}

/// `y = Relu(Neg(Neg(x)))`, of two floats.
fn graph() -> Bytes {
    use tensor_shape_proto::{Dimension, dimension::Value::DimValue};
    let dim = Dimension { value: Some(DimValue(2)), ..Dimension::default() };
    let shape = Some(TensorShapeProto { dim: vec![dim] });
    let tensor = type_proto::Tensor { elem_type: Some(1), shape };
    let value = type_proto::Value::TensorType(tensor);
    let ty = TypeProto { value: Some(value), ..TypeProto::default() };
    let value = |name: &str| ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(ty.clone()),
        ..ValueInfoProto::default()
    };
    let node = |op: &str, input: &str, output: &str| NodeProto {
        op_type: Some(op.to_owned()),
        name: Some(output.to_owned()),
        input: vec![input.to_owned()],
        output: vec![output.to_owned()],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: Some("small".to_owned()),
        node: vec![node("Neg", "x", "a"), node("Neg", "a", "b"), node("Relu", "b", "y")],
        input: vec![value("x")],
        output: vec![value("y")],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { version: Some(17), ..OperatorSetIdProto::default() };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    };
    model.encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_no_refusal() {
        let failed = |code| Err(CallError::from(Diagnostic::new(code, "why")));
        assert!(refused(failed(Code::SourceSyntax)).is_ok());
        assert!(refused(failed(Code::PluginPanicked)).unwrap_err().contains("N0402"));
        assert!(refused(Ok(())).is_err());
    }
}
