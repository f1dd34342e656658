//! Front-ends: is this network mine, what does it need, and what does it say.

use crate::component::{Begun, Component, Instance, Make, made};
use crate::contract::contract;
use crate::diagnostics::{Diagnostic, Diagnostics, Severity};
use crate::host::JobHandle;
use crate::ir::Model;
use crate::tensors::{HostTensors, hand_over};
use crate::{State, Submission};
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd as message;
use prost::Message;
use std::collections::BTreeSet;

/// How sure a front-end is that a network is its own. The surest claim wins; a tie is an error that names both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// Not mine.
    No,
    /// The file's name says so.
    ByExtension,
    /// The file's content says so.
    ByContent,
}

/// A file or folder that a network refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What it is, in words: `weights folder`.
    pub what: String,
    /// Where it is expected, relative to the submission's root.
    pub path: String,
    /// The files of the submission that satisfy it; empty while it is missing.
    pub found_as: Vec<String>,
    /// Whether the network can be converted without it.
    pub optional: bool,
}

/// A fact: the network brings the ranges of its activations, learned while it was trained.
pub const LEARNED_RANGES: &str = "learned ranges";
/// A fact: the network computes with quantized integers already.
pub const QUANTIZED: &str = "quantized";

/// Answer to "is this yours, and what does it need".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// How sure.
    pub claim: Claim,
    /// Why, in one sentence for the report.
    pub reason: String,
    /// Everything the network refers to.
    pub needs: Vec<Need>,
    /// What is known of the network: [`LEARNED_RANGES`], [`QUANTIZED`], or words that other components look for in the
    /// `unless_facts` of what they need.
    pub facts: Vec<String>,
}

impl Probe {
    /// A claim without needs.
    pub fn new(claim: Claim, reason: impl Into<String>) -> Probe {
        let reason = reason.into();
        Probe { claim, reason, needs: Vec::new(), facts: Vec::new() }
    }

    fn message(self) -> message::Probe {
        let level = match self.claim {
            Claim::No => message::ClaimLevel::ClaimNo,
            Claim::ByExtension => message::ClaimLevel::ClaimByExtension,
            Claim::ByContent => message::ClaimLevel::ClaimByContent,
        };
        let need = |n: Need| message::Need {
            what: n.what,
            path: n.path,
            found: n.optional || !n.found_as.is_empty(),
            found_as: n.found_as,
        };
        message::Probe {
            level: level.into(),
            reason: self.reason,
            needs: self.needs.into_iter().map(need).collect(),
            facts: self.facts,
        }
    }
}

/// A network, read.
#[derive(Debug, Default)]
pub struct Imported {
    /// The model. It must be valid ONNX; every node should name its layer.
    pub model: Model,
    /// What a user should know: warnings with the layer they concern.
    pub notes: Vec<Diagnostic>,
    /// The same of another severity. With an error the model is written all the same, and the result counts as one with
    /// findings.
    pub findings: Vec<(Severity, Diagnostic)>,
    /// Facts for the report, such as the meaning of an input's range.
    pub metadata: Vec<(String, String)>,
    /// What the network keeps between calls, if the params ask for it as inputs and outputs.
    pub states: Vec<State>,
    /// Name of the model's file without its ending; empty where there is one model, which is `model.onnx`.
    pub name: String,
    /// Models that the network makes besides, such as the decoder beside its encoder. The host does with each what it
    /// does with the first one. Names, states aside, are all that tells them apart.
    pub further: Vec<NamedModel>,
}

/// A further model of a network.
#[derive(Debug)]
pub struct NamedModel {
    /// Name of its file without its ending: `decoder_model_merged`. Letters, digits, `-` and `_`.
    pub name: String,
    /// The model, as the first one.
    pub model: Model,
}

/// Reads networks of one format.
pub trait Frontend: Send {
    /// Says whether `submission.network()` is of this format and which files it needs. Quick: reads beginnings of files
    /// only as far as the answer demands.
    ///
    /// # Errors
    /// What keeps it from answering. A damaged file of its own format is a claim: the import says what is wrong.
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics>;

    /// Reads the network. All findings at once; each names the layer of the source.
    ///
    /// # Errors
    /// Everything that is wrong with the network or cannot be said in ONNX; what [`Submission::progress`] answers.
    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics>;
}

impl Component {
    /// The front-end that `make` makes; for [`crate::export_plugin!`].
    pub fn frontend(id: &'static str, make: fn() -> Box<dyn Frontend>) -> Component {
        Component { id, make: Make::Frontend(make), begin }
    }
}

fn begin(components: &[Component], id: &str, _: &[u8]) -> Begun {
    let frontend = made(components, id, "front-end", |make| match make {
        Make::Frontend(make) => Some(make()),
        #[cfg(any(feature = "pass", feature = "quantizer"))]
        _ => None,
    })?;
    Ok(Box::new(Reads(frontend)))
}

/// A front-end at work.
struct Reads(Box<dyn Frontend>);

impl Instance for Reads {
    fn run(&mut self, job: JobHandle) -> Result<(), Diagnostics> {
        import(self.0.as_ref(), job)
    }

    fn probe(&mut self, job: JobHandle) -> Result<(), Diagnostics> {
        let submission = Submission::of(job)?;
        let answer = self.0.probe(&submission)?.message();
        Ok(submission.job().artifact(abi::ARTIFACT_PROBE, &answer.encode_to_vec())?)
    }
}

pub(crate) fn import(frontend: &dyn Frontend, job: JobHandle) -> Result<(), Diagnostics> {
    let submission = Submission::of(job)?;
    let imported = frontend.import(&submission)?;
    let job = submission.job();
    if !imported.further.is_empty() && !job.takes_further() {
        return Err(
            contract("this onnxd takes one model of a network; a newer one is needed").into()
        );
    }
    let encoded = |mut model: Model| {
        // Passes and quantizers find these facts in the model.
        for (key, value) in &imported.metadata {
            model.set_metadata(&format!("onnxd.{key}"), value.clone());
        }
        hand_over(&mut model, job)?;
        onnxd_onnx::encode_to_bytes(&model, &mut HostTensors(job))
    };
    job.put_graph(&encoded(imported.model)?)?;
    let further = imported
        .further
        .into_iter()
        .map(|NamedModel { name, model }| Ok(message::NamedGraph { name, graph: encoded(model)? }));
    let further = further.collect::<Result<_, Diagnostic>>()?;
    let notes = imported.notes.iter().map(|note| (Severity::Warning, note));
    let findings = imported.findings.iter().map(|(severity, found)| (*severity, found));
    let told = notes.chain(findings);
    let log = message::ImportLog {
        notes: told.map(|(severity, found)| message::Diagnostic::of(found, severity)).collect(),
        metadata: imported.metadata.into_iter().collect(),
        params_read: Some(submission.params().read(&BTreeSet::new())),
        states: imported.states.into_iter().map(State::message).collect(),
        name: imported.name,
        further,
    };
    Ok(job.artifact(abi::ARTIFACT_IMPORT_LOG, &log.encode_to_vec())?)
}
