//! Convolutions and their transposes.

use super::layout::Channels;
use super::pad::mirror;
use super::resize::{How, ResizeMode, resized};
use super::shape::{reshaped, transposed};
use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::window::{self, WindowAxis};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Conv2D" | "Conv3D" => |b, a: Conv| convolution(b, a, false);
        "FusedPadConv2D" => |b, a: Padded| {
            let input = mirror(b, a.input, a.paddings, &a.mode)?;
            convolution(b, Conv::new(input, a.filter, a.strides, a.padding), false)
        };
        "FusedResizeAndPadConv2D" => |b, a: Resized| {
            let how = How::new(ResizeMode::Linear, a.resize_align_corners, false);
            let input = mirror(b, resized(b, a.input, &a.size, how)?, a.paddings, &a.mode)?;
            convolution(b, Conv::new(input, a.filter, a.strides, a.padding), false)
        };
        "DepthwiseConv2dNative" => |b, a: Conv| convolution(b, a, true);
        "Conv2DBackpropInput" | "Conv3DBackpropInputV2" => |b, a: Transpose| transpose(b, a, false);
        "Conv2DBackpropInputV2" => |b, a: TransposeLike| {
            let input_sizes = b.shape(a.input).one()?;
            let TransposeLike { filter, out_backprop, strides, padding, explicit_paddings, .. } = a;
            let (data_format, dilations) = (a.data_format, a.dilations);
            let sized = Transpose {
                input_sizes, filter, out_backprop, strides, padding, explicit_paddings, data_format, dilations,
            };
            transpose(b, sized, false)
        };
        "DepthwiseConv2dNativeBackpropInput" => |b, a: Transpose| {
            if unless_ones(&a.dilations).is_some() {
                let message = "Kernels of TensorFlow leave the dilations of this operator out.";
                return Err(b.diagnostic(Code::LayerUnsupported, message));
            }
            transpose(b, a, true)
        };
    }
}

arguments! {
    /// `Conv2D`
    pub(crate) struct Conv {
        input: Var, filter: Var, strides: Vec<i64>, padding: String, explicit_paddings: Option<Vec<i64>>,
        data_format: String, dilations: Vec<i64>,
    }
    /// `FusedPadConv2D`
    struct Padded { input: Var, paddings: Var, filter: Var, mode: String, strides: Vec<i64>, padding: String }
    /// `FusedResizeAndPadConv2D`
    struct Resized {
        input: Var, size: Operand, paddings: Var, filter: Var, resize_align_corners: bool, mode: String,
        strides: Vec<i64>, padding: String,
    }
    /// `Conv2DBackpropInputV2`
    struct TransposeLike {
        input: Var, filter: Var, out_backprop: Var, strides: Vec<i64>, padding: String,
        explicit_paddings: Option<Vec<i64>>, data_format: String, dilations: Vec<i64>,
    }
    /// `Conv2DBackpropInput`
    struct Transpose {
        input_sizes: Var, filter: Var, out_backprop: Var, strides: Vec<i64>, padding: String,
        explicit_paddings: Option<Vec<i64>>, data_format: String, dilations: Vec<i64>,
    }
}

impl Conv {
    /// A convolution of pictures with channels last.
    fn new(input: Var, filter: Var, strides: Vec<i64>, padding: String) -> Conv {
        let (data_format, dilations) = ("NHWC".to_owned(), vec![1; 4]);
        Conv { input, filter, strides, padding, explicit_paddings: None, data_format, dilations }
    }
}

/// How a window moves over the spatial axes.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) dilations: Vec<i64>,
    pub(crate) padding: Padding,
}

/// What is around the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// As much as makes the result `ceil(size / stride)`.
    Same,
    /// Nothing.
    Valid,
    /// Numbers before and behind each spatial axis.
    Explicit(Vec<[i64; 2]>),
}

impl Padding {
    /// Reads `SAME`, `VALID` and `EXPLICIT`, the latter with two numbers for each axis.
    ///
    /// # Errors
    /// `N0204` for other words.
    pub(crate) fn from_word(
        b: &GraphBuilder,
        word: &str,
        explicit: &[i64],
        channels: Channels,
    ) -> Lowered<Padding> {
        let side = |at: usize| {
            let list: Vec<i64> = explicit.iter().skip(at).step_by(2).copied().collect();
            channels.spatial(&list)
        };
        match word {
            "SAME" | "same" => Ok(Padding::Same),
            "VALID" | "valid" => Ok(Padding::Valid),
            "EXPLICIT" => {
                let pairs =
                    side(0).into_iter().zip(side(1)).map(|(before, behind)| [before, behind]);
                Ok(Padding::Explicit(pairs.collect()))
            }
            other => {
                let message = format!("There is no padding `{}`.", shown(other));
                Err(b.diagnostic(Code::LayerParameter, message))
            }
        }
    }
}

/// Pads of ONNX, or that it has to find them.
pub(crate) enum Pads {
    Known(Vec<i64>),
    Auto,
}

impl Pads {
    /// The attributes `pads` and `auto_pad`.
    pub(crate) fn attributes(&self) -> (Operand, Option<&'static str>) {
        match self {
            Pads::Known(pads) if pads.iter().all(|n| *n == 0) => (Operand::Absent, None),
            Pads::Known(pads) => (pads.into(), None),
            Pads::Auto => (Operand::Absent, Some("SAME_UPPER")),
        }
    }
}

/// Sizes, steps and pads of windows. Larger ones are no windows, and their sums could overflow.
const CELLS_MAX: i64 = 1 << 24;

impl Window {
    /// Demands a size, a step and a dilation for each spatial axis of `x`, which has channels first.
    ///
    /// # Errors
    /// `N0204` if the lists do not fit.
    pub(crate) fn check(&self, b: &GraphBuilder, x: Var) -> Lowered<()> {
        let n = self.kernel.len();
        let fits =
            |list: &[i64]| list.len() == n && list.iter().all(|i| (1..=CELLS_MAX).contains(i));
        let padded = match &self.padding {
            Padding::Explicit(pairs) => {
                let flat = || pairs.iter().flatten();
                pairs.len() == n && flat().all(|i| (-CELLS_MAX..=CELLS_MAX).contains(i))
            }
            Padding::Valid | Padding::Same => true,
        };
        let lists = [&self.kernel, &self.strides, &self.dilations];
        let of_x = b.rank_of(x).is_none_or(|rank| rank == n + 2);
        if n > 0 && of_x && padded && lists.into_iter().all(|list| fits(list)) {
            return Ok(());
        }
        let message = "Sizes, strides, dilations or pads of the window do not fit its input.";
        Err(b.diagnostic(Code::LayerParameter, message))
    }

    /// The window along a spatial axis.
    fn along(&self, axis: usize) -> WindowAxis {
        let padding = match &self.padding {
            Padding::Same => window::Padding::SameUpper,
            Padding::Valid => window::Padding::Explicit([0, 0]),
            Padding::Explicit(pairs) => window::Padding::Explicit(pairs[axis]),
        };
        let (kernel, stride) = (self.kernel[axis], self.strides[axis]);
        WindowAxis { kernel, stride, dilation: self.dilations[axis], padding }
    }

    /// Cells that the window reaches over along a spatial axis.
    pub(crate) fn reach(&self, axis: usize) -> i64 {
        self.along(axis).reach().unwrap_or(i64::MAX)
    }

    /// Cells that as many windows as `size` spread over along a spatial axis.
    fn spread(&self, axis: usize, size: i64) -> i64 {
        self.along(axis).covered(size).unwrap_or(i64::MAX)
    }

    /// The pads of a window over `x`, which has channels first.
    ///
    /// # Errors
    /// As [`Window::check`].
    pub(crate) fn pads(&self, b: &GraphBuilder, x: Var) -> Lowered<Pads> {
        self.check(b, x)?;
        let n = self.kernel.len();
        let pairs: Option<Vec<[i64; 2]>> = match &self.padding {
            Padding::Valid => Some(vec![[0, 0]; n]),
            Padding::Explicit(pairs) => Some(pairs.clone()),
            Padding::Same => (0..n).map(|axis| self.same(b, x, axis)).collect(),
        };
        let all = pairs.map(|pairs| {
            [0, 1].map(|side| pairs.iter().map(move |p| p[side]).collect::<Vec<i64>>()).concat()
        });
        Ok(all.map_or(Pads::Auto, Pads::Known))
    }

    /// The pads of an axis that make the result `ceil(size / stride)`: the odd one is behind.
    fn same(&self, b: &GraphBuilder, x: Var, axis: usize) -> Option<[i64; 2]> {
        let window = self.along(axis);
        let size = b.shape_of(x).and_then(|shape| shape.get(axis + 2)?.known());
        // Windows of one cell need nothing around, where runtimes that find the pads may take less than that.
        let any = (window.stride == 1 || window.reach() == Some(1)).then_some(1);
        let size = size.or(any)?;
        window.pads(size, window.count(size, false)?)
    }
}

/// A list that says something else than ones.
pub(crate) fn unless_ones(list: &[i64]) -> Option<Vec<i64>> {
    list.iter().any(|n| *n != 1).then(|| list.to_vec())
}

/// The sizes of a filter.
///
/// # Errors
/// `N0203` if one is not known.
pub(crate) fn sizes(b: &GraphBuilder, w: Var) -> Lowered<Vec<i64>> {
    b.dims_of(w).ok_or_else(|| {
        let message = "The sizes of the filter are not known.";
        b.diagnostic(Code::LayerUnsupported, message)
    })
}

/// A filter `[spatial..., in, out]` as ONNX has it: `[out, in, spatial...]`.
pub(crate) fn filter(b: &GraphBuilder, w: Var) -> Lowered<Var> {
    let n = rank(b, w)? as i64;
    let perm: Vec<i64> = [n - 1, n - 2].into_iter().chain(0..n - 2).collect();
    transposed(b, w, &perm)
}

/// A filter `[h, w, channels, multiplier]` as one of `channels * multiplier` channels of one input each.
pub(crate) fn depthwise(b: &GraphBuilder, w: Var) -> Lowered<Var> {
    let mut dims = sizes(b, w)?;
    let multiplier = dims.pop().unwrap_or(1);
    let channels = dims.pop().unwrap_or(1);
    dims.extend([1, channels.saturating_mul(multiplier)]);
    reshaped(b, w, &dims.into())
}

/// A convolution of `x` with channels first by a filter of ONNX.
pub(crate) fn conv(
    b: &GraphBuilder,
    x: Var,
    w: Var,
    bias: Option<Var>,
    window: &Window,
    group: i64,
) -> Lowered<Var> {
    let pads = window.pads(b, x)?;
    let (pads, auto_pad) = pads.attributes();
    let call = b.conv(x, w).b(bias).strides(unless_ones(&window.strides));
    let call = call.dilations(unless_ones(&window.dilations)).pads(pads).auto_pad(auto_pad);
    call.group((group != 1).then_some(group)).one()
}

/// The window of a filter, whose axes are the spatial ones, that of channels, and that of results; and the number of
/// its channels.
fn window(
    b: &GraphBuilder,
    filter: Var,
    [strides, dilations]: [&[i64]; 2],
    padding: Padding,
    channels: Channels,
) -> Lowered<(Window, i64)> {
    let (strides, dilations) = (channels.spatial(strides), channels.spatial(dilations));
    match &sizes(b, filter)?[..] {
        [kernel @ .., count, _] if !kernel.is_empty() => {
            Ok((Window { kernel: kernel.to_vec(), strides, dilations, padding }, *count))
        }
        _ => Err(b.diagnostic(Code::LayerParameter, "The filter has no spatial axes.")),
    }
}

/// A convolution, also one with a filter of its own for each channel.
///
/// # Errors
/// `N0203` if sizes of the filter are not known, `N0204` for lists that do not fit.
pub(crate) fn convolution(b: &Lower, a: Conv, is_depthwise: bool) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let explicit = a.explicit_paddings.unwrap_or_default();
    let padding = Padding::from_word(b, &a.padding, &explicit, channels)?;
    let (window, count) = window(b, a.filter, [&a.strides, &a.dilations], padding, channels)?;
    let x = channels.first(b, a.input)?;
    let (w, group) = match is_depthwise {
        true => (depthwise(b, a.filter)?, count),
        false => {
            let inputs = b.shape_of(x).and_then(|shape| shape.get(1)?.known());
            (a.filter, inputs.map_or(1, |inputs| inputs / count.max(1)))
        }
    };
    let dtype = dtype_of(b, x)?;
    // Integers are convolved as floats of 64 bits, which are exact.
    let computed = if dtype.is_float() { dtype } else { DataType::Double };
    let (x, w) = (b.cast(x, computed)?, b.cast(filter(b, w)?, computed)?);
    let y = conv(b, x, w, None, &window, group)?;
    channels.back(b, b.cast(y, dtype)?)
}

/// An element of a list of sizes, if it is known.
pub(crate) fn element(b: &GraphBuilder, sizes: Var, at: usize) -> Option<i64> {
    if let Some(all) = b.ints_of(sizes) {
        return all.get(at).copied();
    }
    let one = b.gather(sizes, at as i64).axis(0).one().ok()?;
    b.ints_of(one)?.first().copied()
}

/// What a transposed convolution cuts off, what it adds, and what has to be padded behind.
#[derive(Debug, Default)]
pub(crate) struct Borders {
    pads: Vec<[i64; 2]>,
    more: Vec<i64>,
    missing: Vec<i64>,
}

impl Borders {
    /// Adds an axis of size `size` (if known) whose result has size `out` (if known).
    pub(crate) fn axis(
        &mut self,
        window: &Window,
        axis: usize,
        size: Option<i64>,
        out: Option<i64>,
    ) {
        let (stride, reach) = (window.strides[axis], window.reach(axis));
        // Cells beyond the result: those of `SAME` do not depend on the size where the result is a multiple of it.
        let beyond = match (size.zip(out), &window.padding) {
            (Some((size, out)), _) => window.spread(axis, size).saturating_sub(out),
            (None, Padding::Same) => reach - stride,
            (None, Padding::Valid) => (reach - stride).min(0),
            (None, Padding::Explicit(pairs)) => pairs[axis].iter().sum(),
        };
        self.cut(window, axis, beyond);
    }

    /// Adds an axis along which so many cells are beyond the result; fewer than none are missing.
    fn cut(&mut self, window: &Window, axis: usize, beyond: i64) {
        let stride = window.strides[axis];
        let before = match &window.padding {
            Padding::Explicit(pairs) => pairs[axis][0],
            Padding::Same => beyond.max(0) / 2,
            Padding::Valid => 0,
        };
        let behind = beyond.saturating_sub(before);
        self.pads.push([before, behind.max(0)]);
        let lacking = behind.min(0).saturating_neg();
        // Runtimes add less than a step.
        let more = if lacking < stride { lacking } else { 0 };
        self.more.push(more);
        self.missing.push(lacking - more);
    }

    /// Of `n` axes along which nothing is cut off and nothing is missing.
    fn none(n: usize) -> Borders {
        Borders { pads: vec![[0, 0]; n], more: vec![0; n], missing: vec![0; n] }
    }
}

/// A transposed convolution of `x` with channels first by a filter `[in, out, spatial...]`.
pub(crate) fn conv_transpose(
    b: &GraphBuilder,
    x: Var,
    w: Var,
    bias: Option<Var>,
    (window, borders): (&Window, &Borders),
    group: i64,
) -> Lowered<Var> {
    let pads =
        [0, 1].map(|side| borders.pads.iter().map(move |p| p[side]).collect::<Vec<i64>>()).concat();
    let unless_zeros = |list: &[i64]| list.iter().any(|n| *n != 0).then(|| list.to_vec());
    let call = b.conv_transpose(x, w).b(bias).strides(unless_ones(&window.strides));
    let call = call.dilations(unless_ones(&window.dilations)).pads(unless_zeros(&pads));
    let call = call.output_padding(unless_zeros(&borders.more));
    let y = call.group((group != 1).then_some(group)).one()?;
    match unless_zeros(&borders.missing) {
        None => Ok(y),
        Some(missing) => {
            let n = missing.len() + 2;
            let behind = [vec![0; n + 2], missing].concat();
            b.pad(y, behind).one()
        }
    }
}

fn transpose(b: &Lower, a: Transpose, is_depthwise: bool) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let explicit = a.explicit_paddings.unwrap_or_default();
    let padding = Padding::from_word(b, &a.padding, &explicit, channels)?;
    let (window, count) = window(b, a.filter, [&a.strides, &a.dilations], padding, channels)?;
    let x = channels.first(b, a.out_backprop)?;
    window.check(b, x)?;
    let n = window.kernel.len();
    // The filter is that of the convolution that this one undoes: its results are the inputs here.
    let (w, group) = match is_depthwise {
        true => (depthwise(b, a.filter)?, count),
        false => (a.filter, 1),
    };
    let w = filter(b, w)?;
    let out = spatial_sizes(b, a.input_sizes, channels, n)?;
    let beyond = beyond(b, &window, x, out)?;
    // Where the size of `x` is not known, it is that of a convolution of the result.
    let known = |axis: usize| {
        let by_result = || {
            let out = element(b, out, axis)?;
            let count = window.along(axis).count(out, false)?;
            Some(window.spread(axis, count).saturating_sub(out))
        };
        element(b, beyond, axis).or_else(by_result)
    };
    let y = match (0..n).map(known).collect::<Option<Vec<i64>>>() {
        Some(cells) => {
            let mut borders = Borders::default();
            cells.into_iter().enumerate().for_each(|(axis, n)| borders.cut(&window, axis, n));
            conv_transpose(b, x, w, None, (&window, &borders), group)?
        }
        None => {
            let all = conv_transpose(b, x, w, None, (&window, &Borders::none(n)), group)?;
            without(b, all, beyond, &window.padding)?
        }
    };
    channels.back(b, y)
}

/// The sizes of spatial axes among those of all axes; a list may have no others.
fn spatial_sizes(b: &GraphBuilder, sizes: Var, channels: Channels, n: usize) -> Lowered<Var> {
    let sizes = b.cast(sizes, DataType::Int64)?;
    if super::size_of(b, sizes, 0) == Some(n as i64) {
        return Ok(sizes);
    }
    let first = if channels == Channels::First { 2 } else { 1 };
    b.slice(sizes, [first], [first + n as i64]).axes([0]).one()
}

/// How many cells a transposed convolution of `x` gives beyond sizes `out`, for each spatial axis.
fn beyond(b: &GraphBuilder, window: &Window, x: Var, out: Var) -> Lowered<Var> {
    let rest: Vec<i64> =
        window.strides.iter().enumerate().map(|(axis, n)| window.reach(axis) - n).collect();
    let steps =
        b.mul(b.shape(x).start(2).one()?, b.constant(Tensor::vector(window.strides.clone())))?;
    b.sub(b.add(steps, b.constant(Tensor::vector(rest)))?, out)
}

/// `y` without the computed numbers of cells beyond its spatial axes, and with zeros for fewer than none.
fn without(b: &GraphBuilder, y: Var, beyond: Var, padding: &Padding) -> Lowered<Var> {
    let zero = || b.constant(Tensor::vector(vec![0_i64]));
    let before = match padding {
        Padding::Valid => b.mul(beyond, zero())?,
        Padding::Same => b.div(b.max([beyond, zero()])?, 2)?,
        Padding::Explicit(pairs) => {
            b.constant(Tensor::vector(pairs.iter().map(|pair| pair[0]).collect::<Vec<i64>>()))
        }
    };
    let others = b.constant(Tensor::vector(vec![0_i64; 2]));
    let cells = b.concat([others, before, others, b.sub(beyond, before)?]).axis(0).one()?;
    b.pad(y, b.neg(cells)?).one()
}

#[cfg(test)]
mod tests;
