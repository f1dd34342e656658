//! Activation functions, which N2D2 keeps as a property of the layer they follow.

use onnxd_plugin_sdk::build::Var;

use crate::cell::{Cell, Lowered};
use crate::diag::{Code, Diagnostic, refuse};
use crate::ini::{Settings, is_training_key, settings, similar};

const KEY: &str = "ActivationFunction";

/// A function: its name, its parameters, and what computes it.
struct ActivationRow {
    name: &'static str,
    parameters: &'static [&'static str],
    lower: fn(&Cell, Var) -> Lowered,
}

const fn row<A: Settings>(name: &'static str, lower: fn(&Cell, Var) -> Lowered) -> ActivationRow {
    ActivationRow { name, parameters: A::KEYS, lower }
}

/// A function by what the layer's section says.
fn told<A: Settings>(b: &Cell, x: Var, lower: fn(&Cell, Var, &A) -> Lowered) -> Lowered {
    lower(b, x, &A::take(b.section, "ActivationFunction.")?)
}

settings! {
    struct Linear { Clipping: f32 = 0.0 }
    struct Rectifier { LeakSlope: f32 = 0.0, Clipping: f32 = 0.0 }
    struct Saturation { Threshold: f32 = 1.0 }
    struct Tanh { Alpha: f32 = 1.0 }
}

const ROWS: &[ActivationRow] = &[
    row::<Linear>("Linear", |b, x| told(b, x, linear)),
    row::<Rectifier>("Rectifier", |b, x| told(b, x, rectifier)),
    row::<Saturation>("Saturation", |b, x| told(b, x, saturation)),
    row::<Tanh>("Tanh", |b, x| told(b, x, |b, x, a: &Tanh| scaled_tanh(b, x, a.Alpha))),
    // N2D2 scales the input as LeCun et al. (1998) do, and leaves the output as it is.
    row::<()>("TanhLeCun", |b, x| scaled_tanh(b, x, 1.7159 * (2.0 / 3.0))),
    row::<()>("Logistic", |b, x| b.sigmoid(x)),
    row::<()>("LogisticWithLoss", logistic_with_loss),
    row::<()>("Softplus", |b, x| b.softplus(x)),
    row::<()>("Swish", |b, x| b.mul(x, b.sigmoid(x)?)),
];

/// Applies the layer's activation function, or `default` if it names none.
pub(crate) fn apply(b: &Cell, x: Var, default: Option<&str>) -> Lowered {
    let written = b.section.text(KEY)?;
    let Some(name) = written.as_deref().or(default) else { return Ok(x) };
    let Some(row) = ROWS.iter().find(|row| row.name == name) else {
        return Err(unknown(b, name));
    };
    check_parameters(b, row)?;
    (row.lower)(b, x)
}

fn unknown(b: &Cell, name: &str) -> Diagnostic {
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let message =
        format!("must be one of {}, found `{}`", names.join(", "), crate::diag::shown(name));
    let problem = b.section.problem(KEY, message);
    match similar(name, names) {
        Some(near) => problem.help(format!("Did you mean `{near}`?")),
        None => problem,
    }
}

/// N2D2 refuses parameters that a function does not have.
fn check_parameters(b: &Cell, row: &ActivationRow) -> Result<(), Diagnostic> {
    let keys = b.section.keys().filter(|key| !is_training_key(key));
    let mut names = keys.filter_map(|key| Some((key, key.strip_prefix(KEY)?.strip_prefix('.')?)));
    let Some((key, name)) = names.find(|(_, name)| !row.parameters.contains(name)) else {
        return Ok(());
    };
    let known = match row.parameters {
        [] => "has no parameters".to_owned(),
        known => format!("has the parameters {}", known.join(", ")),
    };
    let problem = b.section.problem(key, format!("does not exist: {} {known}", row.name));
    Err(match similar(name, row.parameters.iter().copied()) {
        Some(near) => problem.help(format!("Did you mean `{KEY}.{near}`?")),
        None => problem.help("Remove the line."),
    })
}

/// A bound, which the parameter `name` sets.
fn bound(b: &Cell, name: &str, bound: f32) -> Lowered<f32> {
    refuse!(bound < 0.0 =>
        b.section.problem(&format!("{KEY}.{name}"), format!("must not be negative, found {bound}")));
    Ok(bound)
}

/// The bound that `Clipping` sets; 0 is none.
fn clipping(b: &Cell, clipping: f32) -> Lowered<Option<f32>> {
    Ok(Some(bound(b, "Clipping", clipping)?).filter(|bound| *bound > 0.0))
}

fn clipped(b: &Cell, x: Var, min: Option<f32>, max: Option<f32>) -> Lowered {
    b.clip(x).min(min).max(max).one()
}

fn linear(b: &Cell, x: Var, a: &Linear) -> Lowered {
    match clipping(b, a.Clipping)? {
        Some(bound) => clipped(b, x, Some(-bound), Some(bound)),
        None => Ok(x),
    }
}

/// `x > 0 ? min(x, Clipping) : LeakSlope * x`
fn rectifier(b: &Cell, x: Var, a: &Rectifier) -> Lowered {
    let alpha = a.LeakSlope;
    match (alpha, clipping(b, a.Clipping)?) {
        (0.0, None) => b.relu(x),
        (0.0, bound) => clipped(b, x, Some(0.0), bound),
        (_, None) => b.leaky_relu(x).alpha(alpha).one(),
        (..0.0, _) => {
            let message = "a negative `LeakSlope` together with `Clipping`";
            Err(b.problem(Code::FeatureUnsupported, message))
        }
        (_, bound) => clipped(b, b.leaky_relu(x).alpha(alpha).one()?, None, bound),
    }
}

fn saturation(b: &Cell, x: Var, a: &Saturation) -> Lowered {
    let threshold = bound(b, "Threshold", a.Threshold)?;
    clipped(b, x, Some(-threshold), Some(threshold))
}

fn scaled_tanh(b: &Cell, x: Var, alpha: f32) -> Lowered {
    if alpha == 1.0 { b.tanh(x) } else { b.tanh(b.mul(x, b.scalar("alpha", alpha))?) }
}

fn logistic_with_loss(b: &Cell, x: Var) -> Lowered {
    let message =
        format!("`{KEY}` LogisticWithLoss is Logistic here: the loss is for training only");
    b.source.note(b.problem(Code::LayerParameterIgnored, message).help(""));
    b.sigmoid(x)
}
