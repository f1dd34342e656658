//! What params ask of a conversion, and what lies beside a model for ONNX Runtime GenAI.

use crate::architecture::{Architecture, Target};
use crate::beside::folder_of;
use crate::config::Config;
use crate::decoder::genai;
use crate::diag::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::Submission;
use serde_json::{Map, Value};

/// Version of the standard's operators that graphs are written in. The host converts to the one that is asked for,
/// and passes make newer operators of formulas.
const OPSET: i64 = 21;

/// The runtime that decoders have an own form for, and the version whose norms that form has.
const GENAI: &str = "onnxruntime-genai";
const GENAI_OPSET: i64 = 23;

/// Settings of a search that belong to the model.
const GENERATION: &str = "generation_config.json";

/// What the params ask the graph to be written for.
pub(crate) fn target(
    submission: &Submission,
    config: &Config,
    described: &dyn Architecture,
) -> Target {
    let is_genai = submission.param("export", "runtime") == GENAI;
    let opset = submission.param("export", "opset").as_i64();
    let least = if is_genai { GENAI_OPSET } else { OPSET };
    Target {
        opset: opset.unwrap_or(least).max(least),
        is_genai,
        has_cache: !described.has_decoder() || submission.param("export", "cache") != false,
        context: config.context(),
    }
}

/// Refuses a model of which something was not read, where the params ask for that.
pub(crate) fn strict(
    submission: &Submission,
    found: [&[Diagnostic]; 2],
) -> Result<(), Diagnostics> {
    let found = found.concat();
    match submission.param("source", "strict") == true && !found.is_empty() {
        true => Err(Diagnostics(found)),
        false => Ok(()),
    }
}

/// Settings of a search beside the model.
pub(crate) fn generation(submission: &Submission) -> Result<Map<String, Value>, Diagnostic> {
    let path = format!("{}{GENERATION}", folder_of(submission.network()));
    match submission.has(&path) {
        true => Ok(Config::parse_file(&submission.read(&path)?, GENERATION)?.into_fields()),
        false => Ok(Map::new()),
    }
}

/// Writes what ONNX Runtime GenAI reads beside the model; a fact that users of it must know.
pub(crate) fn for_genai(
    submission: &Submission,
    config: &Config,
    described: &dyn Architecture,
    generation: &Map<String, Value>,
) -> Result<(String, String), Diagnostics> {
    let text = described.genai(config, generation)?;
    if submission.param("export", "cache") == false {
        let why = "`export.cache` is false, and ONNX Runtime GenAI needs the cache";
        let help = "Leave `export.cache` or `export.runtime` out.";
        return Err(Diagnostic::new(Code::ParamsBadValue, why).help(help).into());
    }
    submission.file(genai::FILE, text.as_bytes())?;
    let fact = "rows are padded on the right: the attention does not know of padding on the left";
    Ok(("hf.padding".to_owned(), fact.to_owned()))
}
