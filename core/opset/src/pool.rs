//! Pooling.

use crate::context::{Done, LowerContext, Refusal, refuse};
use crate::row::{AdapterRow, both, down, up};
use onnxd_ir::window;
use onnxd_ir::{Attr, DataType};

pub(crate) const ROWS: &[AdapterRow] = &[
    up(&["LpPool", "GlobalLpPool"], 2, whole_p),
    down(&["MaxPool", "AveragePool"], 10, ceil_by_padding),
    down(&["MaxPool"], 12, bytes_as_float),
    down(&["MaxPool", "AveragePool", "LpPool"], 22, ceil_22_down),
    both(&["RoiAlign"], 16, roi_align_16_up, roi_align_16_down),
];

/// From opset 2 on the exponent is an integer.
fn whole_p(s: &mut LowerContext<'_>) -> Done {
    let p = s.float("p")?.unwrap_or(2.0);
    if p.fract() != 0.0 || p.abs() > 1e6 {
        return refuse(format!("its exponent {p} is no integer"));
    }
    s.set_int("p", p as i64);
    Ok(())
}

/// Windows along the spatial axes.
struct Windows {
    /// Pads at the begin of each axis, then at the end.
    pads: Vec<i64>,
    /// Pads with which windows in full are those of `ceil_mode`.
    wider: Vec<i64>,
    kernel: Vec<i64>,
    /// Whether a window would begin behind the data, which does not count.
    beyond: bool,
}

fn windows(s: &LowerContext<'_>) -> Result<Windows, Refusal> {
    let kernel = s.ints("kernel_shape")?.ok_or("it has no `kernel_shape`")?;
    let (n, node, dims) = (kernel.len(), s.node(), s.dims(s.var(0)?)?);
    let axes = window::axes(|name| node.attr(name), &kernel)?;
    let misfit = "its attributes do not fit its input";
    if dims.len() != n + 2 {
        return refuse(misfit);
    }
    let pads = s.ints("pads")?.filter(|pads| !pads.is_empty()).unwrap_or_else(|| vec![0; 2 * n]);
    let mut window_sizes = Windows { wider: pads.clone(), pads, kernel, beyond: false };
    for (i, (axis, size)) in axes.iter().zip(&dims[2..]).enumerate() {
        let covered =
            axis.count(*size, true).and_then(|count| axis.covered(count)).ok_or(misfit)?;
        window_sizes.wider[i + n] += (covered - axis.padded(*size).ok_or(misfit)?).max(0);
        window_sizes.beyond |= axis.ends_beyond(*size);
    }
    Ok(window_sizes)
}

/// A larger padding at the end gives the windows that `ceil_mode` adds.
fn ceil_by_padding(s: &mut LowerContext<'_>) -> Done {
    if !s.flag("ceil_mode", false)? {
        return Ok(());
    }
    s.drop("ceil_mode");
    if s.word("auto_pad", "NOTSET")? != "NOTSET" {
        return Ok(());
    }
    let Windows { pads, wider, kernel, .. } = windows(s)?;
    if pads == wider {
        return Ok(());
    }
    if s.flag("count_include_pad", false)? {
        return refuse("there is no `ceil_mode`, and padding counts in its means");
    }
    if wider.iter().skip(kernel.len()).zip(&kernel).any(|(pad, k)| pad >= k) {
        return refuse("there is no `ceil_mode`, and no padding does the same");
    }
    s.set("pads", Attr::Ints(wider));
    Ok(())
}

/// Before opset 22 a window that begins behind the data counted.
fn ceil_22_down(s: &mut LowerContext<'_>) -> Done {
    let ceil = s.flag("ceil_mode", false)? && s.word("auto_pad", "NOTSET")? == "NOTSET";
    match ceil && windows(s).is_ok_and(|w| w.beyond) {
        true => ceil_by_padding(s),
        false => Ok(()),
    }
}

fn bytes_as_float(s: &mut LowerContext<'_>) -> Done {
    match s.dtype(s.var(0)?)? {
        DataType::Int8 | DataType::Uint8 => s.through(DataType::Float, &[0], &[0]),
        _ => Ok(()),
    }
}

/// Up to opset 15 coordinates are not shifted by half a pixel.
fn roi_align_16_up(s: &mut LowerContext<'_>) -> Done {
    s.set_word("coordinate_transformation_mode", "output_half_pixel");
    Ok(())
}

fn roi_align_16_down(s: &mut LowerContext<'_>) -> Done {
    let mode = s.word("coordinate_transformation_mode", "half_pixel")?;
    if mode != "output_half_pixel" {
        return refuse(format!("there is no `coordinate_transformation_mode` \"{mode}\""));
    }
    s.drop("coordinate_transformation_mode");
    Ok(())
}
