//! Layers with weights: convolutions, their transposes, and fully connected layers.

use onnxd_plugin_sdk::build::{Call, Var};

use crate::cell::{Cell, Lowered};
use crate::diag::{Code, refuse};
use crate::geometry::{MapSize, Pads, Window, outputs, sub_sample};
use crate::ini::{settings, words};
use crate::mapping::{Map, Pattern};
use crate::quantizers;
use crate::weights::{Kernels, WeightLayout, WeightOrder, remap};

words! {
    /// The axes of kernels in files.
    ConvFormat { OCHW, HWCO }
    /// The axes of weights in files.
    FcFormat { OC, CO }
}

/// Most numbers of a tensor that is mostly zeros, because its map has gaps.
const SPARSE_NUMBERS_MAX: usize = 1 << 26;

settings! {
    /// How the files of a layer are laid out.
    struct Files {}
    config { OutputsRemap: String = String::new(), WeightsExportFlip: bool = false, NoBias: bool = false }

    struct Conv { WeightsSharing: Option<String> = None, BiasesSharing: Option<String> = None }
    config { WeightsExportFormat: ConvFormat = ConvFormat::OCHW }
    parts { outputs: usize = outputs, window: Window = Window::conv, files: Files = Files::of }

    struct Fc {}
    config { WeightsExportFormat: FcFormat = FcFormat::OC, Normalize: bool = false }
    parts { outputs: usize = outputs, files: Files = Files::of }
}

pub(super) fn conv(b: &Cell, a: &Conv) -> Lowered {
    let (outputs, mut window) = (a.outputs, a.window);
    let blocks = sub_sample(b.section)?;
    let mut x = b.image()?;
    if window.padding.iter().any(|n| *n < 0) {
        x = b.padded(x, Pads::symmetric(window.padding), 0.0)?;
        window.padding = [0, 0];
    }
    let plane = window.positions(b.section, x.size.plane())?;
    MapSize::new(outputs, plane).check(&b.layer)?;
    let map = b.connections(outputs)?;
    let (w, bias) = kernels(b, a, &map, false)?;
    let sums = blocks != [1, 1];
    let y = moving(b.conv(x, w).b(bias.filter(|_| !sums)), &window, &map).one()?;
    if sums { block_sums(b, y, blocks, bias) } else { Ok(y) }
}

/// `SubSample`: the sums of blocks, those at the end cut off where the map ends, and the biases once.
fn block_sums(b: &Cell, x: Var, blocks: [usize; 2], bias: Option<Var>) -> Lowered {
    let MapSize { channels, height, width } = b.feature(x)?.size;
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
pub(super) fn deconv(b: &Cell, a: &Conv) -> Lowered {
    let (outputs, window) = (a.outputs, a.window);
    refuse!(window.padding.iter().any(|n| *n < 0) =>
        b.problem(Code::FeatureUnsupported, "a Deconv with negative `Padding` cannot be converted"));
    let x = b.image()?;
    let plane = window.spread(b.section, x.size.plane())?;
    MapSize::new(outputs, plane).check(&b.layer)?;
    let map = b.connections(outputs)?;
    let (w, bias) = kernels(b, a, &map, true)?;
    moving(b.conv_transpose(x, w).b(bias), &window, &map).one()
}

/// What convolutions and their transposes are told of a window and its map.
fn moving<'b, O>(call: Call<'b, O>, window: &Window, map: &Map) -> Call<'b, O> {
    call.set("dilations", window.dilations())
        .set("group", map.groups() as i64)
        .set("kernel_shape", window.sizes())
        .set("pads", window.pads())
        .set("strides", window.strides())
}

pub(super) fn fc(b: &Cell, a: &Fc) -> Lowered {
    let outputs = a.outputs;
    let layout = a.files.layout(b, outputs, a.WeightsExportFormat == FcFormat::CO)?;
    refuse!(a.Normalize =>
        b.problem(Code::FeatureUnsupported, "`Normalize` of a fully connected layer cannot be converted"));
    let x = b.joined()?;
    MapSize::new(outputs, [1, 1]).check(&b.layer)?;
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
fn kernels(b: &Cell, a: &Conv, map: &Map, transposed: bool) -> Lowered<(Var, Option<Var>)> {
    let layout = a.files.layout(b, map.outputs(), a.WeightsExportFormat == ConvFormat::HWCO)?;
    let shared_bias = a.BiasesSharing.clone().filter(|_| layout.bias);
    let own_bias = layout.bias && shared_bias.is_none();
    let kernels = Kernels::new(map, a.window.size, transposed);
    let (numbers, dims) = (kernels.count(), kernels.dims());
    if map.pattern() == Pattern::Partial && numbers.is_none_or(|n| n > SPARSE_NUMBERS_MAX) {
        let message = format!(
            "weights with gaps in their connections have more than {SPARSE_NUMBERS_MAX} entries"
        );
        return Err(b.problem(Code::SourceLimit, message));
    }
    let (method, fate) = match a.WeightsSharing {
        None => quantizers::of_weights(b)?,
        Some(_) => quantizers::of_shared_weights(b)?,
    };
    let mut own = (None, None);
    if a.WeightsSharing.is_none() || own_bias {
        b.source.claim(numbers, &b.layer)?;
        let layout = WeightLayout { bias: own_bias, ..layout };
        let stored_weights = b.source.weights.conv(&b.layer, kernels, &layout, fate)?;
        own = (Some(stored_weights.weights), stored_weights.bias);
    }
    let w = match (a.WeightsSharing.clone(), own.0) {
        (None, Some(weights)) => {
            let [height, width] = a.window.size;
            let spread = map.outputs().saturating_mul(height * width);
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

impl Files {
    /// Outputs come first or `last`.
    fn layout(&self, b: &Cell, outputs: usize, last: bool) -> Lowered<WeightLayout> {
        let wrong = |reason| b.section.problem("OutputsRemap", reason);
        Ok(WeightLayout {
            order: if last { WeightOrder::OutputLast } else { WeightOrder::OutputFirst },
            flip: self.WeightsExportFlip,
            remap: remap(&self.OutputsRemap, outputs).map_err(wrong)?,
            bias: !self.NoBias,
        })
    }
}
