//! Layers with weights: convolutions, their transposes, and fully connected layers.

use onnxd_plugin_sdk::build::Var;

use crate::cell::{Cell, Lowered};
use crate::diag::Code;
use crate::geometry::{Pads, Size, Window, sub_sample};
use crate::ini::{SectionRef, words};
use crate::mapping::{Map, Pattern};
use crate::quantizers;
use crate::weights::{Fate, Kernels, Layout, Order, remap};

words! {
    /// The axes of kernels in files.
    ConvFormat { OCHW, HWCO }
}

words! {
    /// The axes of weights in files.
    FcFormat { OC, CO }
}

/// Most numbers of a tensor that is mostly zeros, because its map has gaps.
const SPARSE_NUMBERS_MAX: usize = 1 << 26;

pub(super) fn conv(b: &Cell) -> Lowered {
    let outputs = b.outputs()?;
    let mut window = Window::conv(b.section)?;
    let mut x = b.image()?;
    if window.padding.iter().any(|n| *n < 0) {
        x = b.padded(x, Pads::symmetric(window.padding), 0.0)?;
        window.padding = [0, 0];
    }
    let plane = window.positions(b.section, x.size.plane())?;
    Size::new(outputs, plane).check(&b.layer)?;
    let blocks = sub_sample(b.section)?;
    let map = b.connections(outputs)?;
    let (w, bias) = kernels(b, &map, window.size, false)?;
    let sums = blocks != [1, 1];
    let y = b
        .conv(x, w)
        .b(bias.filter(|_| !sums))
        .dilations(window.dilations())
        .group(map.groups() as i64)
        .kernel_shape(window.sizes())
        .pads(window.pads())
        .strides(window.strides())
        .one()?;
    if sums { block_sums(b, y, blocks, bias) } else { Ok(y) }
}

/// `SubSample`: the sums of blocks, those at the end cut off where the map ends, and the biases once.
fn block_sums(b: &Cell, x: Var, blocks: [usize; 2], bias: Option<Var>) -> Lowered {
    let Size { channels, height, width } = b.feature(x)?.size;
    let block = [blocks[0].min(height), blocks[1].min(width)];
    let missing = |n: usize, block: usize| (n.next_multiple_of(block) - n) as i64;
    let (below, right) = (missing(height, block[0]), missing(width, block[1]));
    let dims = vec![channels, 1, block[0], block[1]];
    b.source.claim(channels.checked_mul(block[0] * block[1]), &b.layer)?;
    let ones = b.source.reals(dims.clone(), vec![1.0; dims.iter().product()]);
    b.conv(x, b.parameter("ones", ones))
        .b(bias)
        .group(channels as i64)
        .kernel_shape(block.map(|n| n as i64))
        .pads([0, 0, below, right])
        .strides(block.map(|n| n as i64))
        .one()
}

/// Computed as the gradient of a convolution: `ConvTranspose` as it is.
pub(super) fn deconv(b: &Cell) -> Lowered {
    let outputs = b.outputs()?;
    let window = Window::conv(b.section)?;
    if window.padding.iter().any(|n| *n < 0) {
        let message = "a Deconv with negative `Padding` cannot be converted";
        return Err(b.problem(Code::FeatureUnsupported, message));
    }
    let x = b.image()?;
    let plane = window.spread(b.section, x.size.plane())?;
    Size::new(outputs, plane).check(&b.layer)?;
    let map = b.connections(outputs)?;
    let (w, bias) = kernels(b, &map, window.size, true)?;
    b.conv_transpose(x, w)
        .b(bias)
        .dilations(window.dilations())
        .group(map.groups() as i64)
        .kernel_shape(window.sizes())
        .pads(window.pads())
        .strides(window.strides())
        .one()
}

pub(super) fn fc(b: &Cell) -> Lowered {
    let outputs = b.outputs()?;
    let last = b.section.parameter("WeightsExportFormat")? == Some(FcFormat::CO);
    let layout = layout(b.section, outputs, last)?;
    if b.section.parameter("Normalize")?.unwrap_or(false) {
        let message = "`Normalize` of a fully connected layer cannot be converted";
        return Err(b.problem(Code::FeatureUnsupported, message));
    }
    let x = b.joined()?;
    Size::new(outputs, [1, 1]).check(&b.layer)?;
    let inputs = x.size.count();
    b.source.claim(outputs.checked_mul(inputs), &b.layer)?;
    let (method, fate) = quantizers::of_weights(b)?;
    let found = b.source.weights.fc(&b.layer, [outputs, inputs], &layout, fate)?;
    let w = quantizers::weights(b, method, found.weights, outputs)?;
    let bias = found.bias.map(|bias| b.weights("b", b.source.reals(vec![outputs], bias)));
    let rows = if x.flat { x.value } else { b.flatten(x).one()? };
    b.gemm(rows, w).c(bias).trans_b(true).one()
}

/// Weights and biases of a convolution, the layer's own or those of the layers it shares them with.
fn kernels(
    b: &Cell,
    map: &Map,
    window: [usize; 2],
    transposed: bool,
) -> Lowered<(Var, Option<Var>)> {
    let last = b.section.parameter("WeightsExportFormat")? == Some(ConvFormat::HWCO);
    let layout = layout(b.section, map.outputs(), last)?;
    let shared_weights = b.section.text("WeightsSharing")?;
    let shared_bias = b.section.text("BiasesSharing")?.filter(|_| layout.bias);
    let kernels = Kernels::new(map, window, transposed);
    let (numbers, dims) = (kernels.count(), kernels.dims());
    if map.pattern() == Pattern::Partial && numbers.is_none_or(|n| n > SPARSE_NUMBERS_MAX) {
        let message = format!(
            "weights with gaps in their connections have more than {SPARSE_NUMBERS_MAX} entries"
        );
        return Err(b.problem(Code::SourceLimit, message));
    }
    let own_bias = layout.bias && shared_bias.is_none();
    let (method, fate) = match shared_weights {
        None => quantizers::of_weights(b)?,
        Some(_) => {
            quantizers::check_shared(b)?;
            (None, Fate::Changed)
        }
    };
    let mut own = (None, None);
    if shared_weights.is_none() || own_bias {
        b.source.claim(numbers, &b.layer)?;
        let layout = Layout { bias: own_bias, ..layout };
        let found = b.source.weights.conv(&b.layer, kernels, &layout, fate)?;
        own = (Some(found.weights), found.bias);
    }
    let w = match (shared_weights, own.0) {
        (None, Some(weights)) => {
            let spread = map.outputs().saturating_mul(window[0] * window[1]);
            quantizers::weights(b, method, weights, spread)?
        }
        (owner, _) => b.shared("w", owner.unwrap_or_default(), dims),
    };
    let bias = match shared_bias {
        Some(owner) => Some(b.shared("b", owner, vec![map.outputs()])),
        None => own.1.map(|bias| b.weights("b", b.source.reals(vec![bias.len()], bias))),
    };
    Ok((w, bias))
}

/// How the files of a layer are laid out, whose outputs come first or `last`.
fn layout(section: SectionRef, outputs: usize, last: bool) -> Lowered<Layout> {
    const REMAP: &str = "OutputsRemap";
    let pairs = section.parameter::<String>(REMAP)?.unwrap_or_default();
    Ok(Layout {
        order: if last { Order::OutputLast } else { Order::OutputFirst },
        flip: section.parameter("WeightsExportFlip")?.unwrap_or(false),
        remap: remap(&pairs, outputs).map_err(|reason| section.problem(REMAP, reason))?,
        bias: !section.parameter("NoBias")?.unwrap_or(false),
    })
}
