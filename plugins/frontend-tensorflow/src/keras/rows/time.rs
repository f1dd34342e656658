//! `TimeDistributed`: a layer for each step of a sequence; and `Pipeline`: layers one after the other.

use super::recurrent_call::Call;
use crate::keras::runner::{Called, Given};
use crate::keras::values::Item;
use crate::ops::rank;
use crate::ops::shape::{Size, sized, sizes};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::Lowered;

/// Runs the layer inside on all steps at once: they are samples for it.
///
/// # Errors
/// As `Runner::call`.
pub(crate) fn distributed(called: &Called<'_, '_, '_>, given: &Given) -> Lowered<Vec<Item>> {
    let b = called.builder();
    let Some(inner) = called.layer.part("layer") else {
        return Err(b.diagnostic(Code::SourceSyntax, "The layer has no layer inside."));
    };
    let Call { x, mask, .. } = Call::of(b, given)?;
    let outer = sizes(b, x, 0..2)?;
    // A mask of steps says nothing about what is inside of one.
    let mask = mask.filter(|mask| b.rank_of(*mask).is_some_and(|n| n > 2));
    let mask = mask.map(|mask| merged(b, mask)).transpose()?;
    let item = Item::Tensor(merged(b, x)?, mask);
    let apart = |item: Item| match item {
        Item::Tensor(y, _) => {
            let all = [outer.clone(), sizes(b, y, 1..rank(b, y)?)?].concat();
            Ok(Item::Tensor(sized(b, y, &all)?, None))
        }
        other => Ok(other),
    };
    called.inner(inner, Given::one(item))?.into_iter().map(apart).collect()
}

/// The first two axes as one.
pub(super) fn merged(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    sized(b, x, &[vec![Size::Known(-1)], sizes(b, x, 2..rank(b, x)?)?].concat())
}

/// Runs the layers of a `Pipeline`.
///
/// # Errors
/// As `Runner::call`.
pub(crate) fn pipeline(called: &Called<'_, '_, '_>, given: &Given) -> Lowered<Option<Vec<Item>>> {
    if called.layer.class != "Pipeline" {
        return Ok(None);
    }
    let mut items = vec![given.first().cloned().unwrap_or(Item::Hole)];
    for (_, layer) in &called.layer.parts {
        items = called.inner(layer, Given::one(Item::of(items)))?;
    }
    Ok(Some(items))
}
