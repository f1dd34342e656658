//! Normalization: over batches, over neighbouring channels, over all channels; softmax.

use onnxd_plugin_sdk::build::Var;

use crate::cell::{Cell, Lowered};
use crate::ini::words;

words! { Norm { L1, L2 } }

/// Setting that shares a parameter, and the parameter's suffix.
const SHARED: [(&str, &str); 4] = [
    ("ScalesSharing", "scale"),
    ("BiasesSharing", "bias"),
    ("MeansSharing", "mean"),
    ("VariancesSharing", "var"),
];

pub(super) fn batch_norm(b: &Cell) -> Lowered {
    let epsilon = b.section.parameter("Epsilon")?.unwrap_or(1e-5_f32);
    let x = b.kept()?;
    let [scale, bias, mean, var] = batch_norm_parameters(b, x.size.channels)?;
    b.batch_normalization(x, scale, bias, mean, var).epsilon(epsilon).one()
}

fn batch_norm_parameters(b: &Cell, channels: usize) -> Lowered<[Var; 4]> {
    let owners = SHARED.iter().map(|(key, _)| b.section.text(key));
    let owners = owners.collect::<Lowered<Vec<Option<String>>>>()?;
    let mut own = [None, None, None, None];
    if owners.iter().any(Option::is_none) {
        b.source.claim(channels.checked_mul(4), &b.layer)?;
        let found = b.source.weights.batch_norm(&b.layer, channels)?;
        own = [found.scale, found.bias, found.mean, found.variance].map(Some);
    }
    let mut values = Vec::new();
    for ((owner, own), (_, suffix)) in owners.into_iter().zip(own).zip(SHARED) {
        values.push(match owner {
            Some(owner) => b.shared(suffix, owner, vec![channels]),
            None => b.weights(suffix, b.source.reals(vec![channels], own.unwrap_or_default())),
        });
    }
    Ok([values[0], values[1], values[2], values[3]])
}

pub(super) fn lrn(b: &Cell) -> Lowered {
    let section = b.section;
    let size = section.parameter::<usize>("N")?.unwrap_or(5);
    let alpha = section.parameter("Alpha")?.unwrap_or(1e-4_f32);
    let beta = section.parameter("Beta")?.unwrap_or(0.75_f32);
    let bias = section.parameter("K")?.unwrap_or(2.0_f32);
    if !(1..=1 << 20).contains(&size) {
        return Err(section.problem("N", format!("must be at least 1, found {size}")));
    }
    let x = b.image()?;
    b.check_outputs(x)?;
    b.lrn(x).alpha(alpha).beta(beta).bias(bias).size(size as i64).one()
}

pub(super) fn normalize(b: &Cell) -> Lowered {
    let norm = b.section.required::<Norm>("Norm")?;
    b.lp_normalization(b.kept()?).axis(1).p(if norm == Norm::L1 { 1 } else { 2 }).one()
}

/// Softmax over the channels of each pixel, or over groups of them.
pub(super) fn softmax(b: &Cell) -> Lowered {
    let x = b.kept()?;
    // The loss is for training only.
    b.section.get::<bool>("WithLoss")?;
    let group = b.section.or("GroupSize", 0_usize)?;
    let channels = x.size.channels;
    if group == 0 || group == channels {
        return b.softmax(x).axis(1).one();
    }
    if !channels.is_multiple_of(group) {
        let message = format!("is {group}, which does not divide the {channels} channels");
        return Err(b.section.problem("GroupSize", message));
    }
    let plane = x.size.plane().map(|n| n as i64);
    let plane = if x.flat { &[] } else { &plane[..] };
    let sizes = |channels: &[usize]| {
        let channels = channels.iter().map(|n| *n as i64);
        [0].into_iter().chain(channels).chain(plane.iter().copied()).collect::<Vec<i64>>()
    };
    let groups = b.reshape(x, sizes(&[channels / group, group])).one()?;
    b.reshape(b.softmax(groups).axis(2).one()?, sizes(&[channels])).one()
}
