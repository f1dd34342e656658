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

/// Pools every channel on its own. ONNX wants less padding than window, and no cutting off.
fn pool_planes(
    cell: &mut Cell,
    x: Feature,
    mut window: Window,
    plane: [usize; 2],
    kind: Pooling,
) -> Lowered {
    let mut x = x;
    let fits = |axis: usize| (0..window.size[axis] as i64).contains(&window.padding[axis]);
    if !fits(0) || !fits(1) {
        let fill = match kind {
            Pooling::Max => lowest(cell.build.dtype),
            Pooling::Average => 0.0,
        };
        x = cell.pad(x, Pads::symmetric(window.padding), fill)?;
        window.padding = [0, 0];
    }
    let size = Size::new(x.size.channels, plane).check(&cell.layer)?;
    let (kernel_shape, pads, strides) = (window.sizes(), window.pads(), window.strides());
    Ok(match kind {
        Pooling::Max => cell.image(
            size,
            ops::MaxPool { pads, strides, ..ops::MaxPool::new(x.value, kernel_shape) },
        ),
        Pooling::Average => {
            // The divisor is the area of the window, padding or not.
            let count_include_pad = i64::from(!pads.is_empty());
            let pool = ops::AveragePool::new(x.value, kernel_shape);
            cell.image(size, ops::AveragePool { count_include_pad, pads, strides, ..pool })
        }
    })
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
