//! Images in other sizes.

use super::pool_adaptive::averaged;
use super::sizes::{all_known, known, rank, sizes, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::{Float, Int64};
use onnxd_plugin_sdk::ir::{Attr, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::upsample_nearest1d" | "aten::upsample_nearest2d" | "aten::upsample_nearest3d" =>
            |b, a: Upsample| upsample(b, a, ResizeMode::Nearest, false);
        "aten::_upsample_nearest_exact1d" | "aten::_upsample_nearest_exact2d" | "aten::_upsample_nearest_exact3d" =>
            |b, a: Upsample| upsample(b, a, ResizeMode::NearestExact, false);
        "aten::upsample_linear1d" | "aten::upsample_bilinear2d" | "aten::upsample_trilinear3d" =>
            |b, a: Upsample| upsample(b, a, ResizeMode::Linear, false);
        "aten::upsample_bicubic2d" => |b, a: Upsample| upsample(b, a, ResizeMode::Cubic, false);
        "aten::_upsample_bilinear2d_aa" => |b, a: Upsample| upsample(b, a, ResizeMode::Linear, true);
        "aten::_upsample_bicubic2d_aa" => |b, a: Upsample| upsample(b, a, ResizeMode::Cubic, true);
        "aten::__interpolate" | "aten::__upsample" => interpolate;
        "aten::__upsample_nearest" => |b, a: Interpolate| interpolate(b, Interpolate { mode: None, ..a });
        "aten::__upsample_bilinear" => |b, a: Interpolate| {
            interpolate(b, Interpolate { mode: Some("bilinear".into()), align_corners: Some(true), ..a })
        };
    }
}

arguments! {
    /// `upsample_bilinear2d`; `.vec`
    struct Upsample {
        input: Var, output_size: Option<Vec<Value>>, align_corners: Option<bool>,
        scales: Option<f64>, scales_d: Option<f64>, scales_h: Option<f64>, scales_w: Option<f64>,
        scale_factors: Option<Vec<f64>>,
    }
    /// `__interpolate`; sizes and factors may be lists.
    struct Interpolate {
        input: Var, size: Value, scale_factor: Value, mode: Option<String>, align_corners: Option<bool>,
        recompute_scale_factor: Option<bool>, antialias: Option<bool>,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ResizeMode {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
}

/// What an image becomes, an item for each spatial axis.
struct ResizeTarget {
    sizes: Option<Vec<Value>>,
    /// The factors by which coordinates are scaled, where they are not the ratio of the sizes.
    factors: Option<Vec<f64>>,
}

fn upsample(b: &Lower, a: Upsample, mode: ResizeMode, antialias: bool) -> Lowered<Var> {
    let single = [a.scales_d, a.scales_h, a.scales_w, a.scales];
    let single: Vec<f64> = single.into_iter().flatten().filter(|f| *f > 0.0).collect();
    let n = rank(b, a.input)?.saturating_sub(2);
    let factors = a.scale_factors.or(Some(single)).filter(|factors| factors.len() == n && n > 0);
    let sizes = a.output_size.filter(|sizes| !sizes.is_empty());
    resized(
        b,
        a.input,
        ResizeTarget { sizes, factors },
        mode,
        a.align_corners.unwrap_or(false),
        antialias,
    )
}

fn resized(
    b: &Lower,
    x: Var,
    target: ResizeTarget,
    mode: ResizeMode,
    align_corners: bool,
    antialias: bool,
) -> Lowered<Var> {
    if antialias && b.opset() < 18 || b.opset() < 11 {
        let message =
            "Images are resized in this way from opset 18 on, or 11 without antialiasing.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    if antialias && align_corners {
        let message = "torch and ONNX place pixels differently where corners are aligned and several pixels make one.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let coordinates = match mode {
        ResizeMode::Nearest => "asymmetric",
        _ if align_corners => "align_corners",
        _ => "half_pixel",
    };
    let call = match mode {
        ResizeMode::Nearest => b.resize(x).mode("nearest").nearest_mode("floor"),
        ResizeMode::NearestExact => b.resize(x).mode("nearest").nearest_mode("round_prefer_ceil"),
        ResizeMode::Linear => b.resize(x).mode("linear"),
        ResizeMode::Cubic if antialias => b.resize(x).mode("cubic").cubic_coeff_a(-0.5),
        ResizeMode::Cubic => b.resize(x).mode("cubic").cubic_coeff_a(-0.75),
    };
    let call = call.coordinate_transformation_mode(coordinates);
    // What is outside of the image does not count where several pixels make one.
    let call = if antialias { call.antialias(1).exclude_outside(1) } else { call };
    let empty = (b.opset() < 13).then(|| Tensor::vector(Vec::<f32>::new()));
    let call = call.roi(empty.clone());
    if let Some(factors) = target.factors.as_ref().filter(|f| serves(b, x, &target, f)) {
        let factors = [1.0f32; 2].into_iter().chain(factors.iter().map(|f| *f as f32));
        return call.scales(Tensor::vector(factors.collect())).one();
    }
    if target.factors.as_ref().is_some_and(|factors| contradicts(b, x, &target, factors)) {
        let message = "The new sizes are not those that the factors give, which ONNX cannot say.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let message = "A new size or a factor is needed.";
    let wanted = target.sizes.ok_or_else(|| b.diagnostic(Code::LayerParameter, message))?;
    let call = call.scales(empty);
    let all = sizes(b, x)?;
    let leading = &all[..all.len().saturating_sub(wanted.len())];
    match all_known(b, leading) {
        None if b.opset() >= 18 => {
            let axes: Vec<i64> = (leading.len() as i64..all.len() as i64).collect();
            call.sizes(vector(b, &wanted)?).axes(Operand::Attr(Attr::Ints(axes))).one()
        }
        _ => call.sizes(vector(b, &[leading, &wanted].concat())?).one(),
    }
}

/// Whether factors, which ONNX has in single precision, give the sizes that are wanted.
fn serves(b: &Lower, x: Var, target: &ResizeTarget, factors: &[f64]) -> bool {
    let Some(wanted) = &target.sizes else { return true };
    let Some(shape) = b.shape_of(x) else { return true };
    let pairs = shape.iter().skip(2).zip(wanted).zip(factors);
    pairs.clone().count() == factors.len()
        && pairs.into_iter().all(|((size, wanted), factor)| {
            match (size.known(), known(b, wanted)) {
                (Some(n), Some(m)) => (n as f32 * *factor as f32).floor() as i64 == m,
                // The program computed the size from the factor.
                (None, None) => true,
                _ => false,
            }
        })
}

/// Whether factors, by which torch scales coordinates, are not about the ratio of sizes.
fn contradicts(b: &Lower, x: Var, target: &ResizeTarget, factors: &[f64]) -> bool {
    let (Some(wanted), Some(shape)) = (&target.sizes, b.shape_of(x)) else { return false };
    let mut all = shape.iter().skip(2).zip(wanted).zip(factors);
    all.any(|((size, wanted), factor)| match (size.known(), known(b, wanted)) {
        (Some(n), Some(m)) => {
            let rest = n as f64 * factor - m as f64;
            !(-1e-3..1.001).contains(&rest)
        }
        (known, wanted) => known.is_some() != wanted.is_some(),
    })
}

fn interpolate(b: &Lower, a: Interpolate) -> Lowered<Var> {
    let n = rank(b, a.input)?.saturating_sub(2);
    let list = |value: &Value| match value {
        Value::None => None,
        Value::List(items) if items.len() == 1 => Some(vec![items[0].clone(); n]),
        Value::List(items) => Some(items.clone()),
        one => Some(vec![one.clone(); n]),
    };
    let wanted = list(&a.size);
    let factors = list(&a.scale_factor)
        .map(|items| items.iter().map(super::linear::number).collect::<Option<Vec<f64>>>());
    let factors = factors.flatten().filter(|factors| factors.len() == n);
    let mode = a.mode.as_deref().unwrap_or("nearest");
    let own = sizes(b, a.input)?;
    let sizes = match (&wanted, &factors) {
        (Some(_), _) => wanted,
        (None, Some(factors)) if mode == "area" || a.recompute_scale_factor == Some(true) => {
            let all = own[2..].iter().zip(factors).map(|(size, factor)| scaled(b, size, *factor));
            Some(all.collect::<Lowered<Vec<_>>>()?)
        }
        _ => None,
    };
    let factors = if sizes.is_some() { None } else { factors };
    let antialias = a.antialias.unwrap_or(false);
    let mode = match mode {
        "nearest" => ResizeMode::Nearest,
        "nearest-exact" => ResizeMode::NearestExact,
        "linear" | "bilinear" | "trilinear" => ResizeMode::Linear,
        "bicubic" => ResizeMode::Cubic,
        "area" => return averaged(b, a.input, sizes.unwrap_or_default(), n),
        other => {
            let message = format!("There is no interpolation `{}`.", shown(other));
            return Err(b.diagnostic(Code::LayerParameter, message));
        }
    };
    let align = a.align_corners.unwrap_or(false);
    resized(b, a.input, ResizeTarget { sizes, factors }, mode, align, antialias)
}

/// A size times a factor, rounded down.
fn scaled(b: &Lower, size: &Value, factor: f64) -> Lowered<Value> {
    if let Some(n) = known(b, size) {
        return Ok(Value::Int((n as f64 * factor).floor() as i64));
    }
    let n = b.cast(super::sizes::scalar(b, size)?, Float)?;
    Ok(Value::Var(b.cast(b.floor(b.mul(n, factor)?)?, Int64)?))
}
