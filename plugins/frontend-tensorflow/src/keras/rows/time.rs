//! `TimeDistributed`: a layer for each step of a sequence; and `Pipeline`: layers one after the other.

use super::recurrent_call::RecurrentCall;
use crate::keras::runner::{CallArgs, Called};
use crate::keras::values::KerasItem;
use crate::ops::rank;
use crate::ops::shape::{DimSize, sized, sizes};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::Lowered;

/// Runs the layer inside on all steps at once: they are samples for it.
///
/// # Errors
/// As `KerasRunner::call`.
pub(crate) fn distributed(
    called: &Called<'_, '_, '_>,
    given: &CallArgs,
) -> Lowered<Vec<KerasItem>> {
    let b = called.builder();
    let Some(inner) = called.layer.part("layer") else {
        return Err(b.diagnostic(Code::SourceSyntax, "The layer has no layer inside."));
    };
    let RecurrentCall { x, mask, .. } = RecurrentCall::from_given(b, given)?;
    let outer = sizes(b, x, 0..2)?;
    // A mask of steps says nothing about what is inside of one.
    let mask = mask.filter(|mask| b.rank_of(*mask).is_some_and(|n| n > 2));
    let mask = mask.map(|mask| merged(b, mask)).transpose()?;
    let item = KerasItem::Tensor(merged(b, x)?, mask);
    let apart = |item: KerasItem| match item {
        KerasItem::Tensor(y, _) => {
            let all = [outer.clone(), sizes(b, y, 1..rank(b, y)?)?].concat();
            Ok(KerasItem::Tensor(sized(b, y, &all)?, None))
        }
        other => Ok(other),
    };
    called.inner(inner, CallArgs::one(item))?.into_iter().map(apart).collect()
}

/// The first two axes as one.
pub(super) fn merged(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    sized(b, x, &[vec![DimSize::Known(-1)], sizes(b, x, 2..rank(b, x)?)?].concat())
}

/// Runs the layers of a `Pipeline`.
///
/// # Errors
/// As `KerasRunner::call`.
pub(crate) fn pipeline(
    called: &Called<'_, '_, '_>,
    given: &CallArgs,
) -> Lowered<Option<Vec<KerasItem>>> {
    if called.layer.class != "Pipeline" {
        return Ok(None);
    }
    let mut items = vec![given.first().cloned().unwrap_or(KerasItem::Hole)];
    for (_, layer) in &called.layer.parts {
        items = called.inner(layer, CallArgs::one(KerasItem::of(items)))?;
    }
    Ok(Some(items))
}
