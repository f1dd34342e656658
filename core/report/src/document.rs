//! The layout of `report.json`, as types: names and order of its keys.
//!
//! The messages' own names are used below the top level, so that there is one list of fields.

use onnxd_proto::onnxd::{
    Accumulator, Attempt, Component, Diagnostic, FileDigest, ModelSummary, Numerics, OpCount,
    OutputNumerics, Param, Pass, PluginLine, Quality, Quantization, QuantizedLayer,
    QuantizedTensor, Recognition, Report, Skip, Stage, ValueSummary,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `report.json`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Document {
    schema: u32,
    #[serde(default)]
    job: String,
    #[serde(default)]
    name: String,
    verdict: String,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    attempt: u32,
    #[serde(default)]
    recognition: Option<Recognition>,
    #[serde(default)]
    params: Vec<Param>,
    #[serde(default)]
    versions: Versions,
    #[serde(default)]
    source: Vec<FileDigest>,
    #[serde(default)]
    outputs: Vec<FileDigest>,
    #[serde(default)]
    model: Option<Model>,
    #[serde(default)]
    stages: Vec<Stage>,
    #[serde(default)]
    passes: Vec<Pass>,
    #[serde(default)]
    quantization: Option<Quantized>,
    #[serde(default)]
    numerics: Option<Compared>,
    #[serde(default)]
    diagnostics: Vec<Diagnostic>,
    #[serde(default)]
    metadata: Vec<String>,
    #[serde(default)]
    plugin_log: Vec<PluginLine>,
    #[serde(default)]
    plugin_log_dropped: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Versions {
    onnxd: String,
    #[serde(default)]
    plugins: Vec<Component>,
}

#[derive(Serialize, Deserialize)]
struct Model {
    opset: BTreeMap<String, i64>,
    ir_version: i64,
    inputs: Vec<ValueSummary>,
    outputs: Vec<ValueSummary>,
    op_counts: Vec<OpCount>,
    parameters: u64,
    bytes: u64,
}

/// Quantization; a layer that loses nothing has an infinite ratio.
#[derive(Serialize, Deserialize)]
struct Quantized {
    format: String,
    quantizer: String,
    plugin: String,
    samples: u64,
    #[serde(default)]
    compared: u64,
    tensors: Vec<QuantizedTensor>,
    layers: Vec<Layer>,
    left_in_float: Vec<Skip>,
    #[serde(default)]
    statistics: String,
    #[serde(default)]
    random_samples: u64,
    #[serde(default)]
    tried: Vec<Attempt>,
    #[serde(default)]
    quality: Option<Quality>,
}

#[derive(Serialize, Deserialize)]
struct Layer {
    name: String,
    op: String,
    rescaling: String,
    sqnr_db: Option<Real>,
    #[serde(default)]
    output: String,
    #[serde(default)]
    accumulator: Option<Accumulator>,
}

/// Numerics; what is equal has an infinite ratio, which JSON's numbers cannot say.
#[derive(Serialize, Deserialize)]
struct Compared {
    engine: String,
    #[serde(with = "real")]
    tolerance_abs: f64,
    #[serde(with = "real")]
    tolerance_rel: f64,
    outputs: Vec<ComparedOutput>,
    top1_agreement: Option<f64>,
    #[serde(default)]
    inputs: String,
}

#[derive(Serialize, Deserialize)]
struct ComparedOutput {
    output: String,
    #[serde(with = "real")]
    max_abs: f64,
    #[serde(with = "real")]
    mean_abs: f64,
    #[serde(with = "real")]
    cosine: f64,
    #[serde(with = "real")]
    sqnr_db: f64,
    within: bool,
}

impl From<Report> for Document {
    fn from(r: Report) -> Document {
        Document {
            schema: r.schema,
            job: r.job,
            name: r.name,
            verdict: r.verdict,
            summary: r.summary,
            attempt: r.attempt,
            recognition: r.recognition,
            params: r.params,
            versions: Versions { onnxd: r.onnxd_version, plugins: r.plugins },
            source: r.source,
            outputs: r.outputs,
            model: r.model.map(Model::from),
            stages: r.stages,
            passes: r.passes,
            quantization: r.quantization.map(Quantized::from),
            numerics: r.numerics.map(Compared::from),
            diagnostics: r.diagnostics,
            metadata: r.metadata,
            plugin_log: r.plugin_log,
            plugin_log_dropped: r.plugin_log_dropped,
        }
    }
}

impl From<Document> for Report {
    fn from(d: Document) -> Report {
        Report {
            schema: d.schema,
            job: d.job,
            name: d.name,
            verdict: d.verdict,
            summary: d.summary,
            attempt: d.attempt,
            recognition: d.recognition,
            params: d.params,
            onnxd_version: d.versions.onnxd,
            plugins: d.versions.plugins,
            source: d.source,
            outputs: d.outputs,
            model: d.model.map(ModelSummary::from),
            stages: d.stages,
            passes: d.passes,
            quantization: d.quantization.map(Quantization::from),
            numerics: d.numerics.map(Numerics::from),
            diagnostics: d.diagnostics,
            metadata: d.metadata,
            plugin_log: d.plugin_log,
            plugin_log_dropped: d.plugin_log_dropped,
        }
    }
}

impl From<ModelSummary> for Model {
    fn from(m: ModelSummary) -> Model {
        let ModelSummary { ir_version, opset, inputs, outputs, op_counts, parameters, bytes } = m;
        Model { opset, ir_version, inputs, outputs, op_counts, parameters, bytes }
    }
}

impl From<Model> for ModelSummary {
    fn from(m: Model) -> ModelSummary {
        let Model { opset, ir_version, inputs, outputs, op_counts, parameters, bytes } = m;
        ModelSummary { ir_version, opset, inputs, outputs, op_counts, parameters, bytes }
    }
}

impl From<Quantization> for Quantized {
    fn from(q: Quantization) -> Quantized {
        let Quantization {
            format,
            quantizer,
            plugin,
            samples,
            tensors,
            layers,
            left_in_float,
            compared,
            statistics,
            random_samples,
            tried,
            quality,
        } = q;
        let layers = layers.into_iter().map(|l| Layer {
            name: l.name,
            op: l.op,
            rescaling: l.rescaling,
            sqnr_db: l.sqnr_db.map(Real),
            output: l.output,
            accumulator: l.accumulator,
        });
        let layers = layers.collect();
        Quantized {
            format,
            quantizer,
            plugin,
            samples,
            tensors,
            layers,
            left_in_float,
            compared,
            statistics,
            random_samples,
            tried,
            quality,
        }
    }
}

impl From<Quantized> for Quantization {
    fn from(q: Quantized) -> Quantization {
        let Quantized {
            format,
            quantizer,
            plugin,
            samples,
            tensors,
            layers,
            left_in_float,
            compared,
            statistics,
            random_samples,
            tried,
            quality,
        } = q;
        let layers = layers.into_iter().map(|l| QuantizedLayer {
            name: l.name,
            op: l.op,
            rescaling: l.rescaling,
            sqnr_db: l.sqnr_db.map(|Real(x)| x),
            output: l.output,
            accumulator: l.accumulator,
        });
        let layers = layers.collect();
        Quantization {
            format,
            quantizer,
            plugin,
            samples,
            tensors,
            layers,
            left_in_float,
            compared,
            statistics,
            random_samples,
            tried,
            quality,
        }
    }
}

impl From<Numerics> for Compared {
    fn from(n: Numerics) -> Compared {
        let Numerics { engine, tolerance_abs, tolerance_rel, outputs, top1_agreement, inputs } = n;
        let outputs = outputs.into_iter().map(|o| ComparedOutput {
            output: o.output,
            max_abs: o.max_abs,
            mean_abs: o.mean_abs,
            cosine: o.cosine,
            sqnr_db: o.sqnr_db,
            within: o.within,
        });
        let outputs = outputs.collect();
        Compared { engine, tolerance_abs, tolerance_rel, outputs, top1_agreement, inputs }
    }
}

impl From<Compared> for Numerics {
    fn from(n: Compared) -> Numerics {
        let Compared { engine, tolerance_abs, tolerance_rel, outputs, top1_agreement, inputs } = n;
        let outputs = outputs.into_iter().map(|o| OutputNumerics {
            output: o.output,
            max_abs: o.max_abs,
            mean_abs: o.mean_abs,
            cosine: o.cosine,
            sqnr_db: o.sqnr_db,
            within: o.within,
        });
        let outputs = outputs.collect();
        Numerics { engine, tolerance_abs, tolerance_rel, outputs, top1_agreement, inputs }
    }
}

#[derive(Serialize, Deserialize)]
struct Real(#[serde(with = "real")] f64);

/// A number, or `"inf"`, `"-inf"`, `"nan"`: what Python's `float` and Rust's `parse` read.
mod real {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Finite(f64),
        Other(String),
    }

    pub(super) fn serialize<S: Serializer>(x: &f64, out: S) -> Result<S::Ok, S::Error> {
        match x {
            x if x.is_finite() => out.serialize_f64(*x),
            x if x.is_nan() => out.serialize_str("nan"),
            x if *x > 0.0 => out.serialize_str("inf"),
            _ => out.serialize_str("-inf"),
        }
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
        match Number::deserialize(from)? {
            Number::Finite(x) => Ok(x),
            Number::Other(word) => match word.as_str() {
                "nan" => Ok(f64::NAN),
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                _ => Err(D::Error::custom("expected a number, \"inf\", \"-inf\" or \"nan\"")),
            },
        }
    }
}
