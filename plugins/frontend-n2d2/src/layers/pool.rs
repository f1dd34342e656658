//! Pooling, which in N2D2 may also pool over channels, as the connection map says.
//!
//! Every channel is pooled on its own first; what an output reads of the results follows from the
//! map. For both kinds that is the same as pooling over all of them at once.

use onnxd_plugin_sdk::ir::DataType;

use crate::cell::{Cell, Feature, Lowered};
use crate::diag::{Code, refuse};
use crate::geometry::{MapSize, Pads, Window, outputs};
use crate::ini::{settings, words};
use crate::mapping::{Map, Pattern};

/// Most channels that are gathered for the outputs of a layer, repetitions included.
const GATHERED_MAX: usize = 1 << 20;

words! { Pooling { Max, Average } }

settings! {
    struct Pool { Pooling: Pooling } parts { outputs: usize = outputs, window: Window = Window::pool }
}

pub(super) fn pool(b: &Cell, a: &Pool) -> Lowered {
    let &Pool { outputs, Pooling: kind, window } = a;
    let x = b.image()?;
    let plane = window.positions(b.section, x.size.plane())?;
    MapSize::new(outputs, plane).check(&b.layer)?;
    let map = b.connections(outputs)?;
    let pooled = pool_planes(b, x, a, plane)?;
    if map.is_identity() {
        return Ok(pooled.value);
    }
    refuse!(let Some(output) = (0..outputs).find(|output| map.fan_in(*output) == 0) =>
        b.problem(Code::LayerParameter, format!("output {output} is connected to no channel")));
    match (map.pattern(), kind) {
        (Pattern::Dense, _) => over_all_channels(b, pooled, outputs, kind),
        (_, Pooling::Average) => mean_of_channels(b, pooled, &map),
        (_, Pooling::Max) => max_of_channels(b, pooled, &map),
    }
}

/// Pools every channel on its own.
fn pool_planes(b: &Cell, x: Feature, a: &Pool, plane: [usize; 2]) -> Lowered<Feature> {
    let window = a.window;
    let reach = |axis: usize| {
        let found = Reach::new(&window, axis, x.size.plane()[axis], plane[axis]);
        let message = "no window of the pooling reaches the image";
        found.ok_or_else(|| b.problem(Code::FeatureUnsupported, message))
    };
    let (along_y, along_x) = (reach(0)?, reach(1)?);
    let ([top, bottom], [left, right]) = (along_y.pads, along_x.pads);
    let borders = Pads { top, left, bottom, right };
    let x = b.padded(x, borders.map(|n| n.min(0)), 0.0)?;
    let pads = Some([top, left, bottom, right].map(|n| n.max(0))).filter(|pads| *pads != [0; 4]);
    let (sizes, strides) = (window.sizes(), window.strides());
    let (pooled, fill) = match a.Pooling {
        Pooling::Max => {
            let pool = b.max_pool(x).kernel_shape(sizes).pads(pads).strides(strides);
            // The number that no maximum ever is.
            (pool.one()?, if b.source.dtype == DataType::Float16 { -65504.0 } else { f32::MIN })
        }
        Pooling::Average => {
            // The divisor is the area of the window, padding or not.
            let pool = b.average_pool(x).count_include_pad(pads.is_some());
            (pool.kernel_shape(sizes).pads(pads).strides(strides).one()?, 0.0)
        }
    };
    let ([top, bottom], [left, right]) = (along_y.outside, along_x.outside);
    b.padded(b.feature(pooled)?, Pads { top, left, bottom, right }, fill)
}

/// The windows along an axis that see something of the image. ONNX refuses others, and padding
/// the image instead would be undone by runtimes that fuse it into the pooling.
struct Reach {
    /// Padding of the image before and after; negative values cut off.
    pads: [i64; 2],
    /// Windows before and after that see nothing but padding.
    outside: [i64; 2],
}

impl Reach {
    fn new(window: &Window, axis: usize, image: usize, windows: usize) -> Option<Reach> {
        let [size, stride] = [window.size[axis] as i64, window.stride[axis] as i64];
        let (first, windows, image) = (-window.padding[axis], windows as i64, image as i64);
        // Window i covers first + i * stride and what follows.
        let before = if first + size > 0 { 0 } else { (-first - size) / stride + 1 };
        let last = first + (windows - 1) * stride;
        let after = if last < image { 0 } else { (last - image) / stride + 1 };
        let inside = Some(windows - before - after).filter(|n| *n > 0)?;
        let start = first + before * stride;
        let end = start + (inside - 1) * stride + size;
        // Less padding than before must not cut off what no window reaches.
        let behind = match before + after {
            0 => window.padding[axis],
            _ => (end - image).max(0),
        };
        Some(Reach { pads: [-start, behind], outside: [before, after] })
    }
}

/// All outputs are the same.
fn over_all_channels(b: &Cell, x: Feature, outputs: usize, kind: Pooling) -> Lowered {
    let reduced = match kind {
        Pooling::Max => b.reduce_max(x).axes([1]).one()?,
        Pooling::Average => b.reduce_mean(x).axes([1]).one()?,
    };
    if outputs == 1 { Ok(reduced) } else { b.expand(reduced, [1, outputs as i64, 1, 1]) }
}

/// A convolution by one pixel averages any choice of channels.
fn mean_of_channels(b: &Cell, x: Feature, map: &Map) -> Lowered {
    let share = |output: usize, channel: usize| match map.connected(output, channel) {
        true => 1.0 / map.fan_in(output) as f32,
        false => 0.0,
    };
    let (outputs, channels) = (map.outputs(), map.channels());
    let weights = (0..outputs).flat_map(|output| (0..channels).map(move |c| share(output, c)));
    let w = b.source.reals(vec![outputs, channels, 1, 1], weights.collect());
    b.conv(x, b.parameter("mean", w)).kernel_shape([1, 1]).one()
}

/// Gathers what each output reads, and takes the maximum. An output that reads fewer channels
/// than others reads its last one several times, which changes no maximum.
fn max_of_channels(b: &Cell, x: Feature, map: &Map) -> Lowered {
    let outputs = map.outputs();
    let most = (0..outputs).map(|output| map.fan_in(output)).max().unwrap_or(1);
    let gathered = outputs.checked_mul(most).filter(|n| *n <= GATHERED_MAX);
    let Some(gathered) = gathered else {
        let message = format!("outputs that read more than {GATHERED_MAX} channels together");
        return Err(b.problem(Code::SourceLimit, message));
    };
    let mut indices = Vec::with_capacity(gathered);
    for output in 0..outputs {
        indices.extend(map.channels_of(output).map(|channel| channel as i64));
        let last = *indices.last().expect("every output reads a channel");
        indices.resize((output + 1) * most, last);
    }
    MapSize { channels: gathered, ..x.size }.check(&b.layer)?;
    let gather = b.gather(x, indices).axis(1).one()?;
    if most == 1 {
        return Ok(gather);
    }
    let [outputs, most, height, width] =
        [outputs, most, x.size.height, x.size.width].map(|n| n as i64);
    let groups = b.reshape(gather, [0, outputs, most, height, width]).one()?;
    b.reduce_max(groups).axes([2]).keepdims(false).one()
}
