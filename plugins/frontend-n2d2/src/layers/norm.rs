//! Normalization: over batches, over neighbouring channels, over all channels.

use onnxd_plugin_sdk::ir::{ValueId, ops};

use crate::cell::{Cell, Lowered};
use crate::diag::Diagnostic;

pub(super) const BATCH_NORM_KEYS: &[&str] = &[
    "Epsilon",
    "MovingAverageMomentum",
    "ScalesSharing",
    "BiasesSharing",
    "MeansSharing",
    "VariancesSharing",
];
pub(super) const LRN_KEYS: &[&str] = &["N", "Alpha", "Beta", "K"];

/// Setting that shares a parameter, and the parameter's suffix.
const SHARED: [(&str, &str); 4] = [
    ("ScalesSharing", "scale"),
    ("BiasesSharing", "bias"),
    ("MeansSharing", "mean"),
    ("VariancesSharing", "var"),
];

pub(super) fn batch_norm(cell: &mut Cell) -> Lowered {
    let epsilon = cell.section.parameter("Epsilon")?.unwrap_or(1e-5_f32);
    let x = cell.input()?;
    cell.check_outputs(x)?;
    let [scale, b, mean, var] = batch_norm_parameters(cell, x.size.channels)?;
    let op = ops::BatchNormalization::new(x.value, scale, b, mean, var);
    Ok(cell.same(x, ops::BatchNormalization { epsilon, ..op }))
}

fn batch_norm_parameters(cell: &mut Cell, channels: usize) -> Result<[ValueId; 4], Diagnostic> {
    let mut owners = Vec::new();
    for (key, _) in SHARED {
        owners.push(cell.section.text(key)?);
    }
    let mut own = [None, None, None, None];
    if owners.iter().any(Option::is_none) {
        cell.build.claim(channels.checked_mul(4), &cell.layer)?;
        let found = cell.build.weights.batch_norm(&cell.layer, channels)?;
        own = [found.scale, found.bias, found.mean, found.variance].map(Some);
    }
    let mut values = Vec::new();
    for ((owner, own), (_, suffix)) in owners.into_iter().zip(own).zip(SHARED) {
        values.push(match owner {
            Some(owner) => cell.build.share(&cell.layer, suffix, owner, vec![channels]),
            None => {
                let data = cell.build.reals(vec![channels], own.unwrap_or_default());
                cell.build.parameter(&cell.layer, suffix, data)
            }
        });
    }
    Ok([values[0], values[1], values[2], values[3]])
}

pub(super) fn lrn(cell: &mut Cell) -> Lowered {
    let section = cell.section;
    let size = section.parameter::<usize>("N")?.unwrap_or(5);
    let alpha = section.parameter("Alpha")?.unwrap_or(1e-4);
    let beta = section.parameter("Beta")?.unwrap_or(0.75);
    let bias = section.parameter("K")?.unwrap_or(2.0);
    if !(1..=1 << 20).contains(&size) {
        return Err(section.problem("N", format!("must be at least 1, found {size}")));
    }
    let x = cell.image_input()?;
    cell.check_outputs(x)?;
    Ok(cell.same(x, ops::LRN { alpha, beta, bias, ..ops::LRN::new(x.value, size as i64) }))
}

pub(super) fn normalize(cell: &mut Cell) -> Lowered {
    let Some(p) = cell.section.choice("Norm", &[("L1", 1), ("L2", 2)])? else {
        return Err(cell.section.problem("Norm", "is missing").help("Set it to L1 or L2."));
    };
    let x = cell.input()?;
    cell.check_outputs(x)?;
    Ok(cell.same(x, ops::LpNormalization { axis: 1, p, ..ops::LpNormalization::new(x.value) }))
}
