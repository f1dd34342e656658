//! Windows of signal processing, as constants.

use super::shape::{INDICES_MAX, unsupported};
use super::{Lower, RowContext, dtype};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::window::WindowFunction;
use onnxd_plugin_sdk::ir::{DataType, Reals};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::hann_window" => |b, a: Arguments| window(b, &a, WindowFunction::Hann);
        "aten::hamming_window" => |b, a: Arguments| {
            let (alpha, beta) = (a.alpha.unwrap_or(0.54), a.beta.unwrap_or(0.46));
            window(b, &a, WindowFunction::Hamming { alpha, beta })
        };
        "aten::blackman_window" => |b, a: Arguments| window(b, &a, WindowFunction::Blackman);
        "aten::bartlett_window" => |b, a: Arguments| window(b, &a, WindowFunction::Bartlett);
        "aten::kaiser_window" => |b, a: Arguments| {
            window(b, &a, WindowFunction::Kaiser { beta: a.beta.unwrap_or(12.0) })
        };
    }
}

arguments! {
    /// `hann_window`
    struct Arguments {
        window_length: i64, periodic: Option<bool>, alpha: Option<f64>, beta: Option<f64>,
        dtype: Option<i64>,
    }
}

fn window(b: &Lower, a: &Arguments, window: WindowFunction) -> Lowered<Var> {
    let n = a.window_length;
    if !(0..=INDICES_MAX).contains(&n) {
        return Err(unsupported(b, "A window is too long."));
    }
    let to = a.dtype.map_or(Ok(DataType::Float), |number| dtype::named(b, number))?;
    let whole = if a.periodic.unwrap_or(true) { n } else { n - 1 };
    let values = window.points(n, whole);
    let tensor = Reals { dims: vec![values.len()], values }.to_tensor(to);
    Ok(b.constant(tensor.ok_or_else(|| unsupported(b, "A window is of a float type."))?))
}
