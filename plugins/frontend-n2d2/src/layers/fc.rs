//! Fully connected layers.

use super::conv::layout;
use crate::cell::{Cell, Lowered};
use crate::diag::Code;
use crate::geometry::Size;
use crate::ini::words;
use crate::quantizers;

words! {
    /// The axes of weights in files.
    Format { OC, CO }
}

pub(super) fn fc(b: &Cell) -> Lowered {
    let outputs = b.outputs()?;
    let last = b.section.parameter("WeightsExportFormat")? == Some(Format::CO);
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
