//! Fully connected layers.

use onnxd_plugin_sdk::ir::ops;

use super::conv::layout;
use crate::build::{Feature, Size};
use crate::cell::{Cell, Lowered};
use crate::quantizers;

pub(super) const KEYS: &[&str] =
    &["NoBias", "Normalize", "WeightsExportFormat", "OutputsRemap", "DropConnect"];

pub(super) fn fc(cell: &mut Cell) -> Lowered {
    let outputs = cell.outputs()?;
    let layout = layout(cell.section, outputs, ["OC", "CO"])?;
    if cell.section.parameter("Normalize")?.unwrap_or(false) {
        let message = "`Normalize` of a fully connected layer cannot be converted";
        return Err(cell.problem(crate::diag::Code::FeatureUnsupported, message));
    }
    let x = cell.input()?;
    let size = Size::new(outputs, [1, 1]).check(&cell.layer)?;
    let inputs = x.size.count();
    cell.build.claim(outputs.checked_mul(inputs), &cell.layer)?;
    let (method, fate) = quantizers::of_weights(cell)?;
    let found = cell.build.weights.fc(&cell.layer, [outputs, inputs], &layout, fate)?;
    let w = quantizers::weights(cell, method, found.weights, outputs)?;
    let b = found.bias.map(|bias| {
        let data = cell.build.reals(vec![bias.len()], bias);
        cell.build.parameter(&cell.layer, "b", data)
    });
    let a = match x.flat {
        true => x.value,
        false => cell.op(&[inputs], ops::Flatten::new(x.value)),
    };
    let value = cell.op(&[outputs], ops::Gemm { c: b, transB: 1, ..ops::Gemm::new(a, w) });
    Ok(Feature { value, size, flat: true })
}
