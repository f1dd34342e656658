//! Windows of signal processing, as constants.

use super::shape::{INDICES_MAX, unsupported};
use super::{Lower, Source, dtype};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Reals};
use onnxd_plugin_sdk::lower::{Lowered, Table};
use std::f64::consts::PI;

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    rows! { table;
        "aten::hann_window" => |b, a: Window| window(b, &a, |x| 0.5 - 0.5 * (2.0 * PI * x).cos());
        "aten::hamming_window" => |b, a: Window| {
            let (alpha, beta) = (a.alpha.unwrap_or(0.54), a.beta.unwrap_or(0.46));
            window(b, &a, |x| alpha - beta * (2.0 * PI * x).cos())
        };
        "aten::blackman_window" => |b, a: Window| {
            window(b, &a, |x| 0.42 - 0.5 * (2.0 * PI * x).cos() + 0.08 * (4.0 * PI * x).cos())
        };
        "aten::bartlett_window" => |b, a: Window| window(b, &a, |x| 1.0 - (2.0 * x - 1.0).abs());
        "aten::kaiser_window" => |b, a: Window| {
            let beta = a.beta.unwrap_or(12.0);
            let arch = |x: f64| (1.0 - (2.0 * x - 1.0).powi(2)).max(0.0).sqrt();
            window(b, &a, |x| bessel(beta * arch(x)) / bessel(beta))
        };
    }
}

arguments! {
    /// `hann_window(int window_length, bool periodic=True)`
    struct Window {
        window_length: i64, periodic: Option<bool>, alpha: Option<f64>, beta: Option<f64>,
        dtype: Option<i64>,
    }
}

/// A function of the place from 0 to 1.
fn window(b: &Lower, a: &Window, of: impl Fn(f64) -> f64) -> Lowered<Var> {
    let n = a.window_length;
    if !(0..=INDICES_MAX).contains(&n) {
        return Err(unsupported(b, "A window is too long."));
    }
    let to = a.dtype.map_or(Ok(DataType::Float), |number| dtype::named(b, number))?;
    let whole = if a.periodic.unwrap_or(true) { n } else { n - 1 };
    let values = match n {
        1 => vec![1.0],
        _ => (0..n).map(|i| of(i as f64 / whole as f64)).collect(),
    };
    let tensor = Reals { dims: vec![values.len()], values }.to_tensor(to);
    Ok(b.constant(tensor.ok_or_else(|| unsupported(b, "A window is of a float type."))?))
}

/// The modified Bessel function of order 0.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 && k < 1e4 {
        term *= (x / (2.0 * k)).powi(2);
        sum += term;
        k += 1.0;
    }
    sum
}
