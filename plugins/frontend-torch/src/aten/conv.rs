//! Convolutions.

use super::sizes::rank;
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::conv1d" | "aten::conv2d" | "aten::conv3d" | "aten::_convolution_mode" | "aten::mkldnn_convolution"
            => plain;
        "aten::conv_transpose1d" | "aten::conv_transpose2d" | "aten::conv_transpose3d" => transposed;
        "aten::convolution" | "aten::convolution_overrideable" | "aten::_convolution" => convolution;
        "aten::conv_depthwise3d" | "aten::_conv_depthwise2d" => |b, a: Kernel| kernel(b, a, true);
        "aten::thnn_conv2d" | "aten::_slow_conv2d_forward" | "aten::slow_conv3d" | "aten::slow_conv3d_forward"
            | "aten::slow_conv_dilated2d" | "aten::slow_conv_dilated3d"
            => |b, a: Kernel| kernel(b, a, false);
        "aten::conv_tbc" => conv_tbc(input, weight, bias, pad);
    }
}

arguments! {
    /// `conv2d`; `padding` may be a word.
    struct Plain {
        input: Var, weight: Var, bias: Option<Var>,
        stride: Vec<i64>, padding: Value, dilation: Vec<i64>, groups: i64,
    }
    /// `conv_transpose2d.input`
    struct Transposed {
        input: Var, weight: Var, bias: Option<Var>, stride: Vec<i64>, padding: Vec<i64>,
        output_padding: Vec<i64>, groups: i64, dilation: Vec<i64>,
    }
    /// `convolution`
    pub(super) struct Convolution {
        input: Var, weight: Var, bias: Option<Var>, stride: Vec<i64>, padding: Vec<i64>,
        dilation: Vec<i64>, transposed: bool, output_padding: Vec<i64>, groups: i64,
    }
    /// `conv_depthwise3d`
    struct Kernel {
        input: Var, weight: Var, kernel_size: Vec<i64>, bias: Option<Var>,
        stride: Vec<i64>, padding: Vec<i64>, dilation: Option<Vec<i64>>,
    }
}

/// How a window moves, an item for each spatial axis.
pub(super) struct Window {
    pub(super) stride: Vec<i64>,
    /// Before all axes, then behind them.
    pub(super) pads: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    pub(super) groups: i64,
}

/// Cells that a window, its steps and its pads take along an axis.
pub(super) const CELLS_MAX: i64 = 1 << 24;

/// A list with one item for each of `n` axes; one item stands for all.
pub(super) fn per_axis(b: &Lower, list: &[i64], n: usize) -> Lowered<Vec<i64>> {
    within(b, list, n, -CELLS_MAX)
}

/// The same of sizes, strides or dilations, which are at least one.
pub(super) fn steps_per_axis(b: &Lower, list: &[i64], n: usize) -> Lowered<Vec<i64>> {
    within(b, list, n, 1)
}

fn within(b: &Lower, list: &[i64], n: usize, least: i64) -> Lowered<Vec<i64>> {
    let message = match list {
        all if all.iter().any(|item| !(least..=CELLS_MAX).contains(item)) => {
            format!("{list:?} of a window must be from {least} to {CELLS_MAX}.")
        }
        [one] => return Ok(vec![*one; n]),
        all if all.len() == n => return Ok(all.to_vec()),
        _ => format!("{list:?} does not have an item for each of {n} axes."),
    };
    Err(b.diagnostic(Code::LayerParameter, message))
}

/// A list twice: what is before all axes is also behind them.
pub(super) fn both_sides(list: &[i64]) -> Vec<i64> {
    [list, list].concat()
}

/// Number of spatial axes.
fn spatial(b: &Lower, weight: Var) -> Lowered<usize> {
    match rank(b, weight)? {
        0..=2 => Err(b.diagnostic(Code::LayerParameter, "A convolution needs spatial axes.")),
        n => Ok(n - 2),
    }
}

/// Runs `f` on a batch: an input without that axis is a batch of one.
pub(super) fn batched<const N: usize>(
    b: &Lower,
    x: Var,
    spatial: usize,
    f: impl FnOnce(Var) -> Lowered<[Var; N]>,
) -> Lowered<[Var; N]> {
    if b.rank_of(x) != Some(spatial + 1) {
        return f(x);
    }
    let mut outputs = f(b.unsqueeze(x, [0])?)?;
    for output in &mut outputs {
        *output = b.squeeze(*output).axes([0]).one()?;
    }
    Ok(outputs)
}

/// `Conv`, with the inputs and attributes that it needs.
pub(super) fn conv(b: &Lower, [x, weight]: [Var; 2], bias: Option<Var>, w: Window) -> Lowered<Var> {
    let n = spatial(b, weight)?;
    let kernel = b.dims_of(weight).map(|dims| dims[2..].to_vec());
    let [y] = batched(b, x, n, |x| {
        let conv = b.conv(x, weight).b(bias).group(w.groups).kernel_shape(kernel);
        Ok([conv.strides(w.stride).pads(w.pads).dilations(w.dilation).one()?])
    })?;
    Ok(y)
}

fn plain(b: &Lower, a: Plain) -> Lowered<Var> {
    let n = spatial(b, a.weight)?;
    let dilation = steps_per_axis(b, &a.dilation, n)?;
    let pads = pads(b, &a.padding, a.weight, &dilation)?;
    let stride = steps_per_axis(b, &a.stride, n)?;
    conv(b, [a.input, a.weight], a.bias, Window { stride, pads, dilation, groups: a.groups })
}

/// Padding as numbers or as a word. Where the same size needs an odd number, the end gets more.
fn pads(b: &Lower, padding: &Value, weight: Var, dilation: &[i64]) -> Lowered<Vec<i64>> {
    let n = dilation.len();
    let wrong = |found: &Value| {
        let message = format!("The padding {found} is not known.");
        b.diagnostic(Code::LayerParameter, message)
    };
    let word = match padding {
        Value::Text(word) => word.as_str(),
        Value::List(items) => {
            let one = |item: &Value| match item {
                Value::Int(x) => Some(*x),
                Value::Var(v) => b.ints_of(*v).and_then(|x| x.first().copied()),
                _ => None,
            };
            let list = items.iter().map(one).collect::<Option<Vec<_>>>();
            let list = list.ok_or_else(|| wrong(padding))?;
            return Ok(both_sides(&per_axis(b, &list, n)?));
        }
        Value::Int(x) => return Ok(vec![*x; 2 * n]),
        other => return Err(wrong(other)),
    };
    match word {
        "valid" => Ok(vec![0; 2 * n]),
        "same" => {
            let kernel = b.dims_of(weight).map(|dims| dims[2..].to_vec());
            let kernel = kernel.ok_or_else(|| wrong(padding))?;
            let total = || kernel.iter().zip(dilation).map(|(k, d)| d * (k - 1));
            Ok(total().map(|t| t / 2).chain(total().map(|t| t - t / 2)).collect())
        }
        _ => Err(wrong(padding)),
    }
}

fn transposed(b: &Lower, a: Transposed) -> Lowered<Var> {
    let Transposed { input, weight, bias, stride, padding, output_padding, groups, dilation } = a;
    let transposed = true;
    convolution(
        b,
        Convolution {
            input,
            weight,
            bias,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
        },
    )
}

pub(super) fn convolution(b: &Lower, a: Convolution) -> Lowered<Var> {
    let n = spatial(b, a.weight)?;
    let stride = steps_per_axis(b, &a.stride, n)?;
    let pads = both_sides(&per_axis(b, &a.padding, n)?);
    let dilation = steps_per_axis(b, &a.dilation, n)?;
    if !a.transposed {
        let window = Window { stride, pads, dilation, groups: a.groups };
        return conv(b, [a.input, a.weight], a.bias, window);
    }
    let more = per_axis(b, &a.output_padding, n)?;
    let more = more.iter().any(|x| *x != 0).then_some(more);
    let kernel = b.dims_of(a.weight).map(|dims| dims[2..].to_vec());
    let [y] = batched(b, a.input, n, |x| {
        let conv = b.conv_transpose(x, a.weight).b(a.bias).group(a.groups).kernel_shape(kernel);
        let conv = conv.strides(stride).pads(pads).dilations(dilation);
        Ok([conv.output_padding(more).one()?])
    })?;
    Ok(y)
}

/// Operators that are told the size of the weights; depthwise, each channel is a group.
fn kernel(b: &Lower, a: Kernel, depthwise: bool) -> Lowered<Var> {
    let n = spatial(b, a.weight)?;
    let channels = b.shape_of(a.input).and_then(|shape| shape.iter().rev().nth(n)?.known());
    let message = "The number of channels is not known.";
    let groups = match depthwise {
        true => channels.ok_or_else(|| b.diagnostic(Code::LayerParameter, message))?,
        false => 1,
    };
    let stride = steps_per_axis(b, &a.stride, n)?;
    let pads = both_sides(&per_axis(b, &a.padding, n)?);
    let dilation = steps_per_axis(b, &a.dilation.unwrap_or_else(|| vec![1]), n)?;
    conv(b, [a.input, a.weight], a.bias, Window { stride, pads, dilation, groups })
}

/// Time, batch and channels in this order.
fn conv_tbc(b: &Lower, input: Var, weight: Var, bias: Var, pad: i64) -> Lowered<Var> {
    let x = b.transpose(input).perm([1, 2, 0]).one()?;
    let weight = b.transpose(weight).perm([2, 1, 0]).one()?;
    let window = Window { stride: vec![1], pads: vec![pad; 2], dilation: vec![1], groups: 1 };
    let y = conv(b, [x, weight], Some(bias), window)?;
    b.transpose(y).perm([2, 0, 1]).one()
}
