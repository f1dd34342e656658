//! Activation functions, which N2D2 keeps as a property of the layer they follow.

use onnxd_plugin_sdk::ir::ops;

use crate::build::Feature;
use crate::cell::{Cell, Lowered};
use crate::diag::{Code, Diagnostic};
use crate::ini::{is_training_key, similar};

const KEY: &str = "ActivationFunction";

/// A function: its name, its parameters, and what computes it.
struct Row {
    name: &'static str,
    parameters: &'static [&'static str],
    lower: fn(&mut Cell, Feature) -> Lowered,
}

const ROWS: &[Row] = &[
    Row { name: "Linear", parameters: &["Clipping"], lower: linear },
    Row { name: "Rectifier", parameters: &["LeakSlope", "Clipping"], lower: rectifier },
    Row { name: "Saturation", parameters: &["Threshold"], lower: saturation },
    Row { name: "Tanh", parameters: &["Alpha"], lower: tanh },
    Row { name: "TanhLeCun", parameters: &[], lower: tanh_lecun },
    Row { name: "Logistic", parameters: &[], lower: logistic },
    Row { name: "LogisticWithLoss", parameters: &[], lower: logistic_with_loss },
    Row { name: "Softplus", parameters: &[], lower: softplus },
    Row { name: "Swish", parameters: &[], lower: swish },
];

/// Applies the layer's activation function, or `default` if it names none.
pub(crate) fn apply(cell: &mut Cell, x: Feature, default: Option<&str>) -> Lowered {
    let written = cell.section.text(KEY)?;
    let Some(name) = written.as_deref().or(default) else { return Ok(x) };
    let Some(row) = ROWS.iter().find(|row| row.name == name) else {
        return Err(unknown(cell, name));
    };
    check_parameters(cell, row)?;
    (row.lower)(cell, x)
}

fn unknown(cell: &Cell, name: &str) -> Diagnostic {
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let message =
        format!("must be one of {}, found `{}`", names.join(", "), crate::diag::shown(name));
    let problem = cell.section.problem(KEY, message);
    match similar(name, names) {
        Some(near) => problem.help(format!("Did you mean `{near}`?")),
        None => problem,
    }
}

/// N2D2 refuses parameters that a function does not have.
fn check_parameters(cell: &Cell, row: &Row) -> Result<(), Diagnostic> {
    let keys = cell.section.keys().filter(|key| !is_training_key(key));
    let mut names = keys.filter_map(|key| Some((key, key.strip_prefix(KEY)?.strip_prefix('.')?)));
    let Some((key, name)) = names.find(|(_, name)| !row.parameters.contains(name)) else {
        return Ok(());
    };
    let known = match row.parameters {
        [] => "has no parameters".to_owned(),
        known => format!("has the parameters {}", known.join(", ")),
    };
    let problem = cell.section.problem(key, format!("does not exist: {} {known}", row.name));
    Err(match similar(name, row.parameters.iter().copied()) {
        Some(near) => problem.help(format!("Did you mean `{KEY}.{near}`?")),
        None => problem.help("Remove the line."),
    })
}

fn parameter(cell: &Cell, name: &str, default: f32) -> Result<f32, Diagnostic> {
    cell.section.or(&format!("{KEY}.{name}"), default)
}

/// The bound that `Clipping` sets; 0 is none.
fn clipping(cell: &Cell) -> Result<Option<f32>, Diagnostic> {
    let bound = parameter(cell, "Clipping", 0.0)?;
    if bound < 0.0 {
        let message = format!("must not be negative, found {bound}");
        return Err(cell.section.problem(&format!("{KEY}.Clipping"), message));
    }
    Ok((bound > 0.0).then_some(bound))
}

fn clip(cell: &mut Cell, x: Feature, min: Option<f32>, max: Option<f32>) -> Feature {
    let min = min.map(|min| cell.scalar("min", min));
    let max = max.map(|max| cell.scalar("max", max));
    cell.same(x, ops::Clip { min, max, ..ops::Clip::new(x.value) })
}

fn linear(cell: &mut Cell, x: Feature) -> Lowered {
    Ok(match clipping(cell)? {
        Some(bound) => clip(cell, x, Some(-bound), Some(bound)),
        None => x,
    })
}

/// `x > 0 ? min(x, Clipping) : LeakSlope * x`
fn rectifier(cell: &mut Cell, x: Feature) -> Lowered {
    let alpha = parameter(cell, "LeakSlope", 0.0)?;
    let bound = clipping(cell)?;
    if alpha == 0.0 {
        return Ok(match bound {
            Some(bound) => clip(cell, x, Some(0.0), Some(bound)),
            None => cell.same(x, ops::Relu::new(x.value)),
        });
    }
    if alpha < 0.0 && bound.is_some() {
        let message = "a negative `LeakSlope` together with `Clipping`";
        return Err(cell.problem(Code::FeatureUnsupported, message));
    }
    let leaky = cell.same(x, ops::LeakyRelu { alpha, ..ops::LeakyRelu::new(x.value) });
    Ok(match bound {
        Some(bound) => clip(cell, leaky, None, Some(bound)),
        None => leaky,
    })
}

fn saturation(cell: &mut Cell, x: Feature) -> Lowered {
    let threshold = parameter(cell, "Threshold", 1.0)?;
    if threshold < 0.0 {
        let message = format!("must not be negative, found {threshold}");
        return Err(cell.section.problem(&format!("{KEY}.Threshold"), message));
    }
    Ok(clip(cell, x, Some(-threshold), Some(threshold)))
}

fn tanh(cell: &mut Cell, x: Feature) -> Lowered {
    let alpha = parameter(cell, "Alpha", 1.0)?;
    Ok(scaled_tanh(cell, x, alpha))
}

/// N2D2 scales the input as LeCun et al. (1998) do, and leaves the output as it is.
fn tanh_lecun(cell: &mut Cell, x: Feature) -> Lowered {
    Ok(scaled_tanh(cell, x, 1.7159 * (2.0 / 3.0)))
}

fn scaled_tanh(cell: &mut Cell, x: Feature, alpha: f32) -> Feature {
    let scaled = if alpha == 1.0 {
        x
    } else {
        let alpha = cell.scalar("alpha", alpha);
        cell.same(x, ops::Mul::new(x.value, alpha))
    };
    cell.same(scaled, ops::Tanh::new(scaled.value))
}

fn logistic(cell: &mut Cell, x: Feature) -> Lowered {
    Ok(cell.same(x, ops::Sigmoid::new(x.value)))
}

fn logistic_with_loss(cell: &mut Cell, x: Feature) -> Lowered {
    let message =
        format!("`{KEY}` LogisticWithLoss is Logistic here: the loss is for training only");
    let note = cell.problem(Code::LayerParameterIgnored, message).help("");
    cell.build.notes.push(note);
    logistic(cell, x)
}

fn softplus(cell: &mut Cell, x: Feature) -> Lowered {
    Ok(cell.same(x, ops::Softplus::new(x.value)))
}

fn swish(cell: &mut Cell, x: Feature) -> Lowered {
    let gate = cell.same(x, ops::Sigmoid::new(x.value));
    Ok(cell.same(x, ops::Mul::new(x.value, gate.value)))
}
