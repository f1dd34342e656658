//! The layers of ViT.

use super::{call, part, sum};
use crate::keras::runner::{Called, Given, Runner};
use crate::keras::values::Item;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::Lowered;
use serde_json::Value as Json;

/// Patches of a picture as steps, behind one step for the class, and what tells their places.
pub(super) fn patches(
    runner: &Runner<'_, '_>,
    called: &Called<'_>,
    given: &Given,
) -> Lowered<Item> {
    let b = runner.builder();
    let Some(x) = given.first().cloned() else { return Ok(Item::Hole) };
    let Item::Tensor(x, _) = call(runner, called, ("patch_embedding", &[]), Given::one(x))? else {
        return Ok(Item::Hole);
    };
    let is = |key: &str| called.layer.config.get(key).and_then(Json::as_bool) != Some(false);
    let hidden = called.layer.config.get("hidden_dim").and_then(Json::as_i64).unwrap_or(-1);
    let mut steps = b.reshape(x, [0, -1, hidden]).one()?;
    if is("use_class_token") {
        let token = only(called, &runner.weights_of(called.layer, called.path)?)?;
        let batch = b.shape(x).start(0).end(1).one()?;
        let shape = b.concat([batch, b.shape(token).start(1).one()?]).axis(0).one()?;
        steps = b.concat([b.expand(token, shape)?, steps]).axis(1).one()?;
    }
    let places = part(called, "position_embedding")?;
    let path = format!("{}/{}", called.path, places.name);
    let table = only(called, &runner.weights_of(places, &path)?)?;
    sum(runner, called, steps.into(), b.unsqueeze(table, [0])?.into())
}

fn only(called: &Called<'_>, weights: &[Var]) -> Lowered<Var> {
    match weights {
        [weight] => Ok(*weight),
        all => {
            let message = format!("The layer has {} weights, not 1.", all.len());
            Err(called.problem(Code::SourceSyntax, message))
        }
    }
}

/// Blocks, and a norm.
pub(super) fn encoder(
    runner: &Runner<'_, '_>,
    called: &Called<'_>,
    given: &Given,
) -> Lowered<Item> {
    let Some(mut x) = given.first().cloned() else { return Ok(Item::Hole) };
    for (_, layer) in &called.layer.parts {
        x = runner.call(layer, called.path, Given::one(x)).map(Item::of)?;
    }
    Ok(x)
}

/// Attention, and two dense layers for each step, both behind a norm.
pub(super) fn block(runner: &Runner<'_, '_>, called: &Called<'_>, given: &Given) -> Lowered<Item> {
    let Some(input) = given.first().cloned() else { return Ok(Item::Hole) };
    let run = |key: &str, x: Item| call(runner, called, (key, &[]), Given::one(x));
    let x = run("layer_norm_1", input.clone())?;
    let both = Given { positional: vec![x.clone(), x], named: vec![] };
    let x = call(runner, called, ("mha", &[]), both)?;
    let x = sum(runner, called, x, input)?;
    let y = run("mlp/dense_2", run("mlp/dense_1", run("layer_norm_2", x.clone())?)?)?;
    sum(runner, called, x, y)
}
