//! All types of layers: what computes them, or why nothing in ONNX does.
//!
//! To add one: a function in its family's file with its `settings!`, and a row here.

mod conv;
mod elementwise;
mod norm;
mod pool;
mod resize;
mod scale;
mod shape;

use crate::activation;
use crate::cell::{Cell, Lowered};
use crate::diag::{Code, Diagnostic, refuse, shown};
use crate::ini::{Settings, similar};
use crate::quantizers;

/// A type of layer.
pub(crate) struct LayerRow {
    pub(crate) kind: &'static str,
    pub(crate) lower: fn(&Cell) -> Lowered,
    /// Whether an activation function may follow.
    activates: bool,
    /// Which parameters the layer's files hold.
    pub(crate) parameters: Parameters,
}

/// Parameters that are learned, by the files they lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameters {
    None,
    /// Weights, and biases unless `NoBias` is set.
    Weights,
    BatchNorm,
}

const fn row(kind: &'static str, lower: fn(&Cell) -> Lowered) -> LayerRow {
    LayerRow { kind, lower, activates: false, parameters: Parameters::None }
}

/// A layer by what its section says.
fn told<A: Settings>(b: &Cell, lower: fn(&Cell, &A) -> Lowered) -> Lowered {
    lower(b, &A::of(b.section)?)
}

impl LayerRow {
    const fn activates(self) -> LayerRow {
        LayerRow { activates: true, ..self }
    }

    const fn with(self, parameters: Parameters) -> LayerRow {
        LayerRow { parameters, ..self }
    }
}

const ROWS: &[LayerRow] = &[
    row("Activation", activation_layer),
    row("BatchNorm", |b| told(b, norm::batch_norm)).with(Parameters::BatchNorm).activates(),
    row("Conv", |b| told(b, conv::conv)).with(Parameters::Weights).activates(),
    row("Deconv", |b| told(b, conv::deconv)).with(Parameters::Weights).activates(),
    row("Dropout", dropout),
    row("ElemWise", |b| told(b, elementwise::elementwise)).activates(),
    row("Fc", |b| told(b, conv::fc)).with(Parameters::Weights).activates(),
    row("LRN", |b| told(b, norm::lrn)),
    row("Normalize", |b| told(b, norm::normalize)),
    row("Padding", |b| told(b, shape::padding)),
    row("Pool", |b| told(b, pool::pool)).activates(),
    row("Reshape", |b| told(b, shape::reshape)),
    row("Resize", |b| told(b, resize::resize)),
    row("Scaling", |b| told(b, scale::scaling)),
    row("Softmax", |b| told(b, norm::softmax)),
    row("Threshold", |b| told(b, scale::threshold)),
    row("Transpose", |b| told(b, shape::transpose)),
];

/// Types that N2D2 knows and ONNX has no counterpart for, with the reason.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("Anchor", DETECTION),
    ("Distance", LOSS),
    ("FMP", "its pooling regions are drawn at random"),
    ("LSTM", "recurrent layers are not supported"),
    ("ObjectDet", DETECTION),
    ("Proposal", DETECTION),
    ("ROIPooling", DETECTION),
    ("RP", DETECTION),
    ("TargetBias", LOSS),
    ("Transformation", "image transformations are not supported as layers"),
    ("Unpool", "positions of the maxima cannot be passed on between layers"),
];
const DETECTION: &str = "post-processing of detections is not supported";
const LOSS: &str = "it computes a loss for training; remove it and what follows it";

/// Parameters that concern training or spikes, wherever they stand.
pub(crate) const SILENT_PARAMETERS: &[&str] =
    &["BipolarThreshold", "Dropout", "IncomingDelay", "TerminateDelta", "Threshold"];

/// Settings that every layer may have.
pub(crate) const COMMON_KEYS: &[&str] = &[
    "Input", "Type", "Model", "DataType", "Dropout", "ConfigSection", "NbOutputs", "InputOffsetX",
    "InputOffsetY", "InputWidth", "InputHeight",
];

/// The type of a layer, if it can be converted.
pub(crate) fn find(kind: &str) -> Option<&'static LayerRow> {
    ROWS.iter().find(|row| row.kind == kind)
}

/// Why a type of layer cannot be converted; `places` says how often it occurs.
pub(crate) fn refusal(kind: &str, places: &str) -> Diagnostic {
    if let Some((_, reason)) = UNSUPPORTED.iter().find(|(name, _)| *name == kind) {
        let message = format!("layers of type {kind} cannot be converted{places}: {reason}");
        return Diagnostic::new(Code::LayerUnsupported, message);
    }
    let message = format!("`Type`: there is no type of layer called `{}`{places}", shown(kind));
    let problem = Diagnostic::new(Code::LayerParameter, message);
    let known = ROWS.iter().map(|row| row.kind).chain(UNSUPPORTED.iter().map(|(name, _)| *name));
    match similar(kind, known.clone()) {
        Some(near) => problem.help(format!("Did you mean `{near}`?")),
        None => problem.help(format!("Types are {}.", known.collect::<Vec<_>>().join(", "))),
    }
}

/// Builds a layer with its activation function.
pub(crate) fn lower(row: &LayerRow, b: &mut Cell) -> Lowered {
    let model = b.section.model()?;
    refuse!(model.starts_with("Spike") =>
        b.problem(Code::FeatureUnsupported, format!("`Model` is {model}: spiking networks cannot be converted")));
    b.inputs = b.cut_inputs()?;
    let computed = (row.lower)(b)?;
    if !row.activates {
        return Ok(computed);
    }
    quantizers::activation(b, activation::apply(b, computed, None)?)
}

fn activation_layer(b: &Cell) -> Lowered {
    let activated = activation::apply(b, b.kept()?.value, Some("Tanh"))?;
    quantizers::activation(b, activated)
}

/// Dropout does nothing once a network is trained.
fn dropout(b: &Cell) -> Lowered {
    Ok(b.kept()?.value)
}
