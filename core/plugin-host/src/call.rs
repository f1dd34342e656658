//! The four things a plugin is asked to do: probe, import, run passes, quantize. A failure becomes
//! diagnostics that name plugin, version and component.

use crate::context::JobContext;
use crate::library::{Failure, Library};
use crate::messages::from_message;
use bytes::Bytes;
use onnxd_diagnostics::{Class, Code, Diagnostic, Diagnostics};
use onnxd_plugin_abi as abi;
use onnxd_proto::footprint::{DECODED_BYTES_MAX, Measured, decode_within};
use onnxd_proto::onnxd as message;
use onnxd_proto::onnxd::{ClaimLevel, ImportLog, PassLog, Probe, Quantization, QuantizeLog};
use serde_json::{Value, json};

/// Most diagnostics that are taken from one call.
pub const DIAGNOSTICS_MAX: usize = 1000;

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// The job was asked to stop, and the plugin did.
    Cancelled,
    /// What was wrong; never empty.
    Failed(Diagnostics),
}

impl From<Diagnostic> for CallError {
    fn from(one: Diagnostic) -> CallError {
        CallError::Failed(one.into())
    }
}

/// What an import gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Encoded `ModelProto` with handles into the context's tensor table.
    pub model: Bytes,
    /// Notes and metadata.
    pub log: ImportLog,
}

/// What a list of passes gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// Encoded `ModelProto` with handles; `None` if nothing was changed.
    pub model: Option<Bytes>,
    /// What each pass did.
    pub log: PassLog,
}

/// What a quantizer gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// Encoded `ModelProto` with handles.
    pub model: Bytes,
    /// Notes and metadata.
    pub log: QuantizeLog,
    /// Its part of the report.
    pub report: Quantization,
}

/// Asks a front-end whether the context's submission is its own and what is missing.
///
/// # Errors
/// If the plugin failed; "not mine" is an answer.
pub fn probe(
    library: &Library,
    frontend: &str,
    context: &mut JobContext,
) -> Result<Probe, CallError> {
    let who = Who { library, component: frontend };
    let mut instance = who.frontend(context)?;
    match instance.probe(context) {
        Ok(()) => who.required(context, abi::ARTIFACT_PROBE),
        Err(Failure { status: abi::DECLINED, text }) => {
            let level = ClaimLevel::ClaimNo.into();
            Ok(Probe { level, reason: text, ..Probe::default() })
        }
        Err(failure) => Err(who.failed(&failure, Code::SourceSyntax, context)),
    }
}

/// Has a front-end read the context's submission.
///
/// # Errors
/// If it failed or put no graph.
pub fn import(
    library: &Library,
    frontend: &str,
    context: &mut JobContext,
) -> Result<Imported, CallError> {
    let who = Who { library, component: frontend };
    let mut instance = who.frontend(context)?;
    if let Err(failure) = instance.run(context) {
        return Err(who.failed(&failure, Code::SourceSyntax, context));
    }
    let log = who.optional(context, abi::ARTIFACT_IMPORT_LOG)?;
    let model = context.take_graph().ok_or_else(|| who.no_graph())?;
    Ok(Imported { model, log })
}

/// Runs passes of one plugin, in order, over the context's graph, which must be set.
/// `rewrites_max` ends the work after so many rewrites; 0 means no limit.
///
/// # Errors
/// If one of them failed.
pub fn run_passes(
    library: &Library,
    passes: &[String],
    rewrites_max: u64,
    context: &mut JobContext,
) -> Result<Passed, CallError> {
    let names = passes.join(", ");
    let who = Who { library, component: &names };
    let list: Vec<Value> = passes.iter().map(|id| json!({"id": id})).collect();
    let asked = json!({"passes": list, "rewrites_max": rewrites_max});
    let mut instance = who.create("pass", &asked, context)?;
    match instance.run(context) {
        Ok(()) | Err(Failure { status: abi::DECLINED, .. }) => {}
        Err(failure) => return Err(who.failed(&failure, Code::OnnxInvalid, context)),
    }
    let log = who.optional(context, abi::ARTIFACT_PASS_LOG)?;
    Ok(Passed { model: context.take_graph(), log })
}

/// Has a quantizer work on the context's graph, which must be set.
///
/// # Errors
/// If it failed or put no graph.
pub fn quantize(
    library: &Library,
    quantizer: &str,
    context: &mut JobContext,
) -> Result<Quantized, CallError> {
    let who = Who { library, component: quantizer };
    let mut instance = who.create(&format!("quantizer/{quantizer}"), &json!({}), context)?;
    if let Err(failure) = instance.run(context) {
        return Err(who.failed(&failure, Code::OnnxInvalid, context));
    }
    let name = abi::ARTIFACT_QUANTIZE_LOG;
    let said = context.take_artifact(name).map(|artifact| artifact.data).unwrap_or_default();
    let (log, report) = (who.decode(name, said.clone())?, who.decode(name, said)?);
    let model = context.take_graph().ok_or_else(|| who.no_graph())?;
    Ok(Quantized { model, log, report })
}

/// The component in charge, for messages.
struct Who<'a> {
    library: &'a Library,
    component: &'a str,
}

impl<'a> Who<'a> {
    fn frontend(&self, context: &mut JobContext) -> Result<crate::Instance<'a>, CallError> {
        self.create(&format!("frontend/{}", self.component), &json!({}), context)
    }

    /// An instance that is given the object `asked`, and in it the params as they are.
    fn create(
        &self,
        kind: &str,
        asked: &Value,
        context: &mut JobContext,
    ) -> Result<crate::Instance<'a>, CallError> {
        // What an earlier call left must not be taken for this one's.
        context.take_artifacts();
        let asked = asked.to_string();
        let asked = asked.trim_start_matches('{').trim_end_matches('}');
        let comma = if asked.is_empty() { "" } else { "," };
        let given = format!("{{{asked}{comma}\"params\":{}}}", context.params_json());
        self.library
            .create(kind, &given)
            .map_err(|failure| self.failed(&failure, Code::ParamsBadValue, context))
    }

    fn says(&self, code: Code, text: &str) -> Diagnostic {
        let (id, version) = (self.library.id(), self.library.version());
        Diagnostic::new(code, format!("{text} [{} of plugin {id} {version}]", self.component))
    }

    fn no_graph(&self) -> Diagnostic {
        self.says(Code::PluginContract, "it reported success but handed over no graph")
    }

    fn required<M: Measured>(&self, context: &mut JobContext, name: &str) -> Result<M, CallError> {
        self.decoded(context, name)?.ok_or_else(|| {
            let text = format!("it reported success but handed over no artifact `{name}`");
            self.says(Code::PluginContract, &text).into()
        })
    }

    fn optional<M: Measured>(&self, context: &mut JobContext, name: &str) -> Result<M, CallError> {
        Ok(self.decoded(context, name)?.unwrap_or_default())
    }

    fn decoded<M: Measured>(
        &self,
        context: &mut JobContext,
        name: &str,
    ) -> Result<Option<M>, Diagnostic> {
        let artifact = context.take_artifact(name);
        artifact.map(|artifact| self.decode(name, artifact.data)).transpose()
    }

    fn decode<M: Measured>(&self, name: &str, data: Bytes) -> Result<M, Diagnostic> {
        decode_within(data, DECODED_BYTES_MAX).map_err(|e| {
            self.says(Code::PluginContract, &format!("its artifact `{name}` is not taken: {e}"))
        })
    }

    /// A failure as diagnostics: the plugin's own if it handed over any, else one from its text.
    /// `invalid` is the code for a status that blames the input.
    fn failed(&self, failure: &Failure, invalid: Code, context: &mut JobContext) -> CallError {
        let Failure { status, text } = failure;
        if *status == abi::CANCELLED && context.is_cancelled() {
            return CallError::Cancelled;
        }
        if let Some(why) = context.take_unwritten() {
            return CallError::Failed(why.into());
        }
        let own = self.decoded::<message::Diagnostics>(context, abi::ARTIFACT_DIAGNOSTICS);
        match own {
            Ok(Some(own)) if !own.items.is_empty() => {
                let items = own.items.iter().take(DIAGNOSTICS_MAX);
                CallError::Failed(Diagnostics(items.map(|d| self.attributed(d)).collect()))
            }
            Ok(_) => self.answer_to(*status, text, invalid).into(),
            Err(malformed) => {
                let one = self.answer_to(*status, text, invalid);
                CallError::Failed(Diagnostics(vec![one, malformed]))
            }
        }
    }

    /// A plugin's own diagnostic. One about the files of a user stays as it is; any other names the
    /// plugin.
    fn attributed(&self, message: &message::Diagnostic) -> Diagnostic {
        let mut diagnostic = from_message(message);
        let known = Code::ALL.iter().any(|c| c.as_str() == diagnostic.code);
        if diagnostic.class == Class::Internal || !known {
            let (id, version) = (self.library.id(), self.library.version());
            let component = self.component;
            diagnostic.message += &format!(" [{component} of plugin {id} {version}]");
        }
        diagnostic
    }

    fn answer_to(&self, status: abi::Status, text: &str, invalid: Code) -> Diagnostic {
        let (code, meaning) = match status {
            abi::DECLINED => (Code::NoFrontend, "it declined"),
            abi::INVALID => (invalid, "it found the input invalid"),
            abi::INTERNAL if text.contains("panic") => (Code::PluginPanicked, "it panicked"),
            abi::INTERNAL => (Code::PluginFailed, "it failed"),
            abi::CANCELLED => (Code::PluginContract, "it stopped without being asked to"),
            abi::UNSUPPORTED => (Code::FeatureUnsupported, "it lacks something it needs"),
            abi::OUT_OF_MEMORY => (Code::OutOfMemory, "it ran out of memory"),
            abi::IO => (Code::Unreadable, "it could not read a file"),
            other => {
                let text = format!("it answered with the reserved status {other}: {text}");
                return self.says(Code::PluginContract, &text);
            }
        };
        self.says(code, if text.is_empty() { meaning } else { text })
    }
}
