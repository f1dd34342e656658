//! Convolutions and their transposes.

use onnxd_plugin_sdk::ir::{ValueId, ops};

use crate::build::{Feature, Size};
use crate::cell::{Cell, Lowered, Pads};
use crate::diag::{Code, Diagnostic};
use crate::geometry::{Window, sub_sample};
use crate::ini::SectionRef;
use crate::mapping::{Map, Pattern};
use crate::quantizers;
use crate::weights::{Fate, Kernels, Layout, Order, remap};

pub(super) const CONV_KEYS: &[&str] = &[
    "KernelDims",
    "KernelSize",
    "KernelWidth",
    "KernelHeight",
    "StrideDims",
    "Stride",
    "StrideX",
    "StrideY",
    "PaddingDims",
    "Padding",
    "PaddingX",
    "PaddingY",
    "DilationDims",
    "Dilation",
    "SubSampleDims",
    "SubSample",
    "Mapping.Size",
    "Mapping.NbGroups",
    "Mapping.ChannelsPerGroup",
    "WeightsSharing",
    "BiasesSharing",
    "NoBias",
    "WeightsExportFormat",
    "WeightsExportFlip",
    "OutputsRemap",
];
pub(super) const DECONV_KEYS: &[&str] = CONV_KEYS;

/// Most numbers of a tensor that is mostly zeros, because its map has gaps.
const SPARSE_NUMBERS_MAX: usize = 1 << 26;

pub(super) fn conv(cell: &mut Cell) -> Lowered {
    let outputs = cell.outputs()?;
    let mut window = Window::conv(cell.section)?;
    let mut x = cell.image_input()?;
    if window.padding.iter().any(|n| *n < 0) {
        x = cell.pad(x, Pads::symmetric(window.padding), 0.0)?;
        window.padding = [0, 0];
    }
    let plane = window.positions(cell.section, x.size.plane())?;
    let size = Size::new(outputs, plane).check(&cell.layer)?;
    let blocks = sub_sample(cell.section)?;
    let map = cell.connections(outputs)?;
    let (w, b) = kernels(cell, &map, window.size, false)?;
    let sums = blocks != [1, 1];
    let conv = ops::Conv {
        b: b.filter(|_| !sums),
        dilations: window.dilations(),
        group: map.groups() as i64,
        kernel_shape: window.sizes(),
        pads: window.pads(),
        strides: window.strides(),
        ..ops::Conv::new(x.value, w)
    };
    let x = cell.image(size, conv);
    if sums { block_sums(cell, x, blocks, b) } else { Ok(x) }
}

/// `SubSample`: the sums of blocks, those at the end cut off where the map ends, and the biases once.
fn block_sums(cell: &mut Cell, x: Feature, blocks: [usize; 2], b: Option<ValueId>) -> Lowered {
    let plane = x.size.plane();
    let block = [blocks[0].min(plane[0]), blocks[1].min(plane[1])];
    let sums = [plane[0].div_ceil(block[0]), plane[1].div_ceil(block[1])];
    let [below, right] = [sums[0] * block[0] - plane[0], sums[1] * block[1] - plane[1]];
    let channels = x.size.channels;
    let dims = vec![channels, 1, block[0], block[1]];
    cell.build.claim(channels.checked_mul(block[0] * block[1]), &cell.layer)?;
    let ones = cell.build.reals(dims.clone(), vec![1.0; dims.iter().product()]);
    let w = cell.constant("ones", ones);
    let conv = ops::Conv {
        b,
        group: channels as i64,
        kernel_shape: block.map(|n| n as i64).to_vec(),
        pads: vec![0, 0, below as i64, right as i64],
        strides: block.map(|n| n as i64).to_vec(),
        ..ops::Conv::new(x.value, w)
    };
    Ok(cell.image(Size::new(channels, sums), conv))
}

/// Computed as the gradient of a convolution: `ConvTranspose` as it is.
pub(super) fn deconv(cell: &mut Cell) -> Lowered {
    let outputs = cell.outputs()?;
    let window = Window::conv(cell.section)?;
    if window.padding.iter().any(|n| *n < 0) {
        let message = "a Deconv with negative `Padding` cannot be converted";
        return Err(cell.problem(Code::FeatureUnsupported, message));
    }
    let x = cell.image_input()?;
    let plane = window.spread(cell.section, x.size.plane())?;
    let size = Size::new(outputs, plane).check(&cell.layer)?;
    let map = cell.connections(outputs)?;
    let (w, b) = kernels(cell, &map, window.size, true)?;
    let conv = ops::ConvTranspose {
        b,
        dilations: window.dilations(),
        group: map.groups() as i64,
        kernel_shape: window.sizes(),
        pads: window.pads(),
        strides: window.strides(),
        ..ops::ConvTranspose::new(x.value, w)
    };
    Ok(cell.image(size, conv))
}

/// Weights and biases, the layer's own or those of the layers it shares them with.
fn kernels(
    cell: &mut Cell,
    map: &Map,
    window: [usize; 2],
    transposed: bool,
) -> Result<(ValueId, Option<ValueId>), Diagnostic> {
    let layout = layout(cell.section, map.outputs(), ["OCHW", "HWCO"])?;
    let shared_weights = cell.section.text("WeightsSharing")?;
    let shared_bias = cell.section.text("BiasesSharing")?.filter(|_| layout.bias);
    let kernels = Kernels::new(map, window, transposed);
    let numbers = kernels.count();
    if map.pattern() == Pattern::Partial && numbers.is_none_or(|n| n > SPARSE_NUMBERS_MAX) {
        let message = format!(
            "weights with gaps in their connections have more than {SPARSE_NUMBERS_MAX} entries"
        );
        return Err(cell.problem(Code::SourceLimit, message));
    }
    let own_bias = layout.bias && shared_bias.is_none();
    let (method, fate) = match shared_weights {
        None => quantizers::of_weights(cell)?,
        Some(_) => {
            quantizers::check_shared(cell)?;
            (None, Fate::Changed)
        }
    };
    let mut found = None;
    if shared_weights.is_none() || own_bias {
        cell.build.claim(numbers, &cell.layer)?;
        let layout = Layout { bias: own_bias, ..layout };
        found = Some(cell.build.weights.conv(&cell.layer, kernels, &layout, fate)?);
    }
    let (weights, bias) = found.map_or((None, None), |f| (Some(f.weights), f.bias));
    let w = match (shared_weights, weights) {
        (None, Some(weights)) => {
            let spread = map.outputs().saturating_mul(window[0] * window[1]);
            quantizers::weights(cell, method, weights, spread)?
        }
        (owner, _) => {
            let owner = owner.unwrap_or_default();
            cell.build.share(&cell.layer, "w", owner, kernels.dims())
        }
    };
    let b = match (shared_bias, bias) {
        (Some(owner), _) => Some(cell.build.share(&cell.layer, "b", owner, vec![map.outputs()])),
        (None, bias) => bias.map(|bias| {
            let data = cell.build.reals(vec![bias.len()], bias);
            cell.build.parameter(&cell.layer, "b", data)
        }),
    };
    Ok((w, b))
}

/// How the files of a layer are laid out; `formats` are the words for outputs first and last.
pub(super) fn layout(
    section: SectionRef,
    outputs: usize,
    formats: [&str; 2],
) -> Result<Layout, Diagnostic> {
    const FORMAT: &str = "WeightsExportFormat";
    const REMAP: &str = "OutputsRemap";
    let order = match section.parameter::<String>(FORMAT)? {
        None => Order::OutputFirst,
        Some(word) if word == formats[0] => Order::OutputFirst,
        Some(word) if word == formats[1] => Order::OutputLast,
        Some(word) => {
            let word = crate::diag::shown(&word);
            let message = format!("must be {} or {}, found `{word}`", formats[0], formats[1]);
            return Err(section.problem(FORMAT, message));
        }
    };
    let pairs = section.parameter::<String>(REMAP)?.unwrap_or_default();
    Ok(Layout {
        order,
        flip: section.parameter("WeightsExportFlip")?.unwrap_or(false),
        remap: remap(&pairs, outputs).map_err(|reason| section.problem(REMAP, reason))?,
        bias: !section.parameter("NoBias")?.unwrap_or(false),
    })
}
