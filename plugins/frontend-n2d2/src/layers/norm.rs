//! Normalization: over batches, over neighbouring channels, over all channels; softmax.

use crate::diag::refuse;
use onnxd_plugin_sdk::build::Var;

use crate::cell::{Cell, Lowered};
use crate::ini::{settings, words};

words! { Norm { L1, L2 } }

settings! {
    struct BatchNorm {
        ScalesSharing: Option<String> = None, BiasesSharing: Option<String> = None,
        MeansSharing: Option<String> = None, VariancesSharing: Option<String> = None,
    }
    config { Epsilon: f32 = 1e-5 }
    struct Lrn {} config { N: usize = 5, Alpha: f32 = 1e-4, Beta: f32 = 0.75, K: f32 = 2.0 }
    struct Normalize { Norm: Norm }
    struct Softmax { GroupSize: usize = 0 }
}

pub(super) fn batch_norm(b: &Cell, a: &BatchNorm) -> Lowered {
    let x = b.kept()?;
    let channels = x.size.channels;
    let owners = [&a.ScalesSharing, &a.BiasesSharing, &a.MeansSharing, &a.VariancesSharing];
    let mut own = Default::default();
    if owners.iter().any(|owner| owner.is_none()) {
        b.source.claim(channels.checked_mul(4), &b.layer)?;
        let found = b.source.weights.batch_norm(&b.layer, channels)?;
        own = [found.scale, found.bias, found.mean, found.variance];
    }
    let parameters = ["scale", "bias", "mean", "var"].into_iter().zip(owners).zip(own);
    let values = parameters.map(|((suffix, owner), own)| match owner {
        Some(owner) => b.shared(suffix, owner.clone(), vec![channels]),
        None => b.weights(suffix, b.source.reals(vec![channels], own)),
    });
    let [scale, bias, mean, var] = values.collect::<Vec<Var>>()[..] else { unreachable!() };
    b.batch_normalization(x, scale, bias, mean, var).epsilon(a.Epsilon).one()
}

pub(super) fn lrn(b: &Cell, a: &Lrn) -> Lowered {
    refuse!(!(1..=1 << 20).contains(&a.N) => b.section.problem("N", format!("must be at least 1, found {}", a.N)));
    let x = b.image()?;
    b.check_outputs(x)?;
    b.lrn(x).alpha(a.Alpha).beta(a.Beta).bias(a.K).size(a.N as i64).one()
}

pub(super) fn normalize(b: &Cell, a: &Normalize) -> Lowered {
    b.lp_normalization(b.kept()?).axis(1).p(if a.Norm == Norm::L1 { 1 } else { 2 }).one()
}

/// Softmax over the channels of each pixel, or over groups of them.
pub(super) fn softmax(b: &Cell, a: &Softmax) -> Lowered {
    let x = b.kept()?;
    // The loss is for training only.
    b.section.get::<bool>("WithLoss")?;
    let (group, channels) = (a.GroupSize, x.size.channels);
    if group == 0 || group == channels {
        return b.softmax(x).axis(1).one();
    }
    refuse!(!channels.is_multiple_of(group) =>
        b.section.problem("GroupSize", format!("is {group}, which does not divide the {channels} channels")));
    let plane = x.size.plane().map(|n| n as i64);
    let plane = if x.flat { &[] } else { &plane[..] };
    let sizes = |channels: &[usize]| {
        let channels = channels.iter().map(|n| *n as i64);
        [0].into_iter().chain(channels).chain(plane.iter().copied()).collect::<Vec<i64>>()
    };
    let groups = b.reshape(x, sizes(&[channels / group, group])).one()?;
    b.reshape(b.softmax(groups).axis(2).one()?, sizes(&[channels])).one()
}
