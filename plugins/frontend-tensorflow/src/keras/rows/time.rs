//! `TimeDistributed`: a layer for each step of a sequence; and `Pipeline`: layers one after the other.

use super::recurrent_call::Call;
use crate::keras::runner::{Called, Given, Runner};
use crate::keras::values::Item;
use crate::ops::rank;
use crate::ops::shape::{Size, reshaped, shape_of, size};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::Lowered;

/// Runs the layer inside on all steps at once: they are samples for it.
///
/// # Errors
/// As `Runner::call`.
pub(crate) fn distributed(
    runner: &Runner<'_, '_>,
    called: &Called<'_>,
    given: &Given,
) -> Lowered<Vec<Item>> {
    let b = runner.builder();
    let Some((_, inner)) = called.layer.parts.iter().find(|(key, _)| key == "layer") else {
        return Err(b.diagnostic(Code::SourceSyntax, "The layer has no layer inside."));
    };
    let Call { x, mask, .. } = Call::of(b, given)?;
    let (batch, time) = (size(b, x, 0)?, size(b, x, 1)?);
    // A mask of steps says nothing about what is inside of one.
    let mask = mask.filter(|mask| b.rank_of(*mask).is_some_and(|n| n > 2));
    let mask = mask.map(|mask| merged(b, mask)).transpose()?;
    let item = Item::Tensor(merged(b, x)?, mask);
    let apart = |item: Item| match item {
        Item::Tensor(y, _) => {
            let inner = (1..rank(b, y)?).map(|axis| size(b, y, axis));
            let inner = inner.collect::<Lowered<Vec<_>>>()?;
            let shape = shape_of(b, &[vec![batch, time], inner].concat())?;
            Ok(Item::Tensor(reshaped(b, y, &shape)?, None))
        }
        other => Ok(other),
    };
    runner.call(inner, called.path, Given::one(item))?.into_iter().map(apart).collect()
}

/// The first two axes as one.
fn merged(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let inner = (2..rank(b, x)?).map(|axis| size(b, x, axis)).collect::<Lowered<Vec<_>>>()?;
    reshaped(b, x, &shape_of(b, &[vec![Size::Known(-1)], inner].concat())?)
}

/// Runs the layers of a `Pipeline`.
///
/// # Errors
/// As `Runner::call`.
pub(crate) fn pipeline(
    runner: &Runner<'_, '_>,
    called: &Called<'_>,
    given: &Given,
) -> Lowered<Option<Vec<Item>>> {
    if called.layer.class != "Pipeline" {
        return Ok(None);
    }
    let mut items = vec![given.first().cloned().unwrap_or(Item::Hole)];
    for (_, layer) in &called.layer.parts {
        items = runner.call(layer, called.path, Given::one(Item::of(items)))?;
    }
    Ok(Some(items))
}
