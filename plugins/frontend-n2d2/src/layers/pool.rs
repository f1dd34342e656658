//! Pooling, which in N2D2 may also pool over channels, as the connection map says.
//!
//! Every channel is pooled on its own first; what an output reads of the results follows from the
//! map. For both kinds that is the same as pooling over all of them at once.

use onnxd_plugin_sdk::ir::{Attr, DataType, Node, ops};

use crate::build::{Feature, Size};
use crate::cell::{Cell, Lowered, Pads};
use crate::diag::Code;
use crate::geometry::Window;
use crate::mapping::{Map, Pattern};

pub(super) const KEYS: &[&str] = &[
    "PoolDims",
    "PoolSize",
    "PoolWidth",
    "PoolHeight",
    "StrideDims",
    "Stride",
    "StrideX",
    "StrideY",
    "PaddingDims",
    "Padding",
    "PaddingX",
    "PaddingY",
    "Pooling",
    "Mapping.Size",
    "Mapping.NbGroups",
    "Mapping.ChannelsPerGroup",
];

/// Most channels that are gathered for the outputs of a layer, repetitions included.
const GATHERED_MAX: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pooling {
    Max,
    Average,
}

pub(super) fn pool(cell: &mut Cell) -> Lowered {
    const KINDS: &[(&str, Pooling)] = &[("Max", Pooling::Max), ("Average", Pooling::Average)];
    let outputs = cell.outputs()?;
    let Some(kind) = cell.section.choice("Pooling", KINDS)? else {
        return Err(cell
            .section
            .problem("Pooling", "is missing")
            .help("Set it to Max or Average."));
    };
    let window = Window::pool(cell.section)?;
    let x = cell.image_input()?;
    let plane = window.positions(cell.section, x.size.plane())?;
    Size::new(outputs, plane).check(&cell.layer)?;
    let map = cell.connections(outputs)?;
    let pooled = pool_planes(cell, x, window, plane, kind)?;
    if map.is_identity() {
        return Ok(pooled);
    }
    if let Some(output) = (0..outputs).find(|output| map.fan_in(*output) == 0) {
        let message = format!("output {output} is connected to no channel");
        return Err(cell.problem(Code::LayerParameter, message));
    }
    match (map.pattern(), kind) {
        (Pattern::Dense, _) => Ok(over_all_channels(cell, pooled, outputs, kind)),
        (_, Pooling::Average) => Ok(mean_of_channels(cell, pooled, &map)),
        (_, Pooling::Max) => max_of_channels(cell, pooled, &map),
    }
}

/// Pools every channel on its own.
fn pool_planes(
    cell: &mut Cell,
    x: Feature,
    window: Window,
    plane: [usize; 2],
    kind: Pooling,
) -> Lowered {
    let mut reach = [Reach::default(); 2];
    for axis in [0, 1] {
        let found = Reach::new(&window, axis, x.size.plane()[axis], plane[axis]);
        reach[axis] = found.ok_or_else(|| {
            let message = "no window of the pooling reaches the image";
            cell.problem(Code::FeatureUnsupported, message)
        })?;
    }
    let [along_y, along_x] = reach;
    let cut = |n: i64| n.min(0);
    let [top, bottom] = along_y.pads;
    let [left, right] = along_x.pads;
    let border = Pads { top: cut(top), left: cut(left), bottom: cut(bottom), right: cut(right) };
    let x = cell.pad(x, border, 0.0)?;
    let pads = [top, left, bottom, right].map(|n| n.max(0)).to_vec();
    let pads = if pads == [0; 4] { vec![] } else { pads };
    let size = Size::new(x.size.channels, [along_y.windows, along_x.windows]).check(&cell.layer)?;
    let (kernel_shape, strides) = (window.sizes(), window.strides());
    let (pooled, fill) = match kind {
        Pooling::Max => {
            let pool = ops::MaxPool::new(x.value, kernel_shape);
            let pooled = cell.image(size, ops::MaxPool { pads, strides, ..pool });
            (pooled, lowest(cell.build.dtype))
        }
        Pooling::Average => {
            // The divisor is the area of the window, padding or not.
            let count_include_pad = i64::from(!pads.is_empty());
            let pool = ops::AveragePool::new(x.value, kernel_shape);
            let pool = ops::AveragePool { count_include_pad, pads, strides, ..pool };
            (cell.image(size, pool), 0.0)
        }
    };
    let [top, bottom] = along_y.outside;
    let [left, right] = along_x.outside;
    cell.pad(pooled, Pads { top, left, bottom, right }, fill)
}

/// The windows along an axis that see something of the image. ONNX refuses others, and padding
/// the image instead would be undone by runtimes that fuse it into the pooling.
#[derive(Clone, Copy, Default)]
struct Reach {
    windows: usize,
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
        let inside = usize::try_from(windows - before - after).ok().filter(|n| *n > 0)?;
        let start = first + before * stride;
        let end = start + (inside as i64 - 1) * stride + size;
        // Less padding than before must not cut off what no window reaches.
        let behind = match before + after {
            0 => window.padding[axis],
            _ => (end - image).max(0),
        };
        Some(Reach { windows: inside, pads: [-start, behind], outside: [before, after] })
    }
}

/// The number that no maximum ever is.
fn lowest(dtype: DataType) -> f32 {
    match dtype {
        DataType::Float16 => -65504.0,
        _ => f32::MIN,
    }
}

/// All outputs are the same.
fn over_all_channels(cell: &mut Cell, x: Feature, outputs: usize, kind: Pooling) -> Feature {
    let one = Size { channels: 1, ..x.size };
    let ty = cell.build.value_type(one, false);
    let op = match kind {
        Pooling::Max => "ReduceMax",
        Pooling::Average => "ReduceMean",
    };
    let reduced = cell.node(&op.to_lowercase(), ty, |out| {
        Node::new(op, [x.value], [out]).with("axes", Attr::Ints(vec![1]))
    });
    if outputs == 1 {
        return Feature { value: reduced, size: one, flat: false };
    }
    let shape = cell.integers("shape", vec![1, outputs as i64, 1, 1]);
    cell.image(Size { channels: outputs, ..x.size }, ops::Expand::new(reduced, shape))
}

/// A convolution by one pixel averages any choice of channels.
fn mean_of_channels(cell: &mut Cell, x: Feature, map: &Map) -> Feature {
    let share = |output: usize, channel: usize| match map.connected(output, channel) {
        true => 1.0 / map.fan_in(output) as f32,
        false => 0.0,
    };
    let channels = map.channels();
    let weights =
        (0..map.outputs()).flat_map(|output| (0..channels).map(move |c| share(output, c)));
    let weights = cell.build.reals(vec![map.outputs(), channels, 1, 1], weights.collect());
    let w = cell.constant("mean", weights);
    let size = Size { channels: map.outputs(), ..x.size };
    cell.image(size, ops::Conv { kernel_shape: vec![1, 1], ..ops::Conv::new(x.value, w) })
}

/// Gathers what each output reads, and takes the maximum. An output that reads fewer channels
/// than others reads its last one several times, which changes no maximum.
fn max_of_channels(cell: &mut Cell, x: Feature, map: &Map) -> Lowered {
    let outputs = map.outputs();
    let most = (0..outputs).map(|output| map.fan_in(output)).max().unwrap_or(1);
    let gathered = outputs.checked_mul(most).filter(|n| *n <= GATHERED_MAX);
    let Some(gathered) = gathered else {
        let message = format!("outputs that read more than {GATHERED_MAX} channels together");
        return Err(cell.problem(Code::SourceLimit, message));
    };
    let mut indices = Vec::with_capacity(gathered);
    for output in 0..outputs {
        indices.extend(map.channels_of(output).map(|channel| channel as i64));
        let last = *indices.last().expect("every output reads a channel");
        indices.resize((output + 1) * most, last);
    }
    let indices = cell.integers("channels", indices);
    let size = Size { channels: gathered, ..x.size }.check(&cell.layer)?;
    let gather = cell.image(size, ops::Gather { axis: 1, ..ops::Gather::new(x.value, indices) });
    if most == 1 {
        return Ok(gather);
    }
    let Size { height, width, .. } = x.size;
    let dims = [outputs, most, height, width];
    let shape = [0].into_iter().chain(dims.iter().map(|n| *n as i64)).collect();
    let shape = cell.integers("shape", shape);
    let split = cell.op(&dims, ops::Reshape::new(gather.value, shape));
    let size = Size { channels: outputs, ..x.size };
    let ty = cell.build.value_type(size, false);
    let value = cell.node("reducemax", ty, |out| {
        let node = Node::new("ReduceMax", [split], [out]);
        node.with("axes", Attr::Ints(vec![2])).with("keepdims", Attr::Int(0))
    });
    Ok(Feature { value, size, flat: false })
}
