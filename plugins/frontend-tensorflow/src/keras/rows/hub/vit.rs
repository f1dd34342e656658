//! The layers of ViT.

use crate::keras::rows::exactly;
use crate::keras::runner::{CallArgs, Called};
use crate::keras::values::KerasItem;
use onnxd_plugin_sdk::lower::Lowered;

/// Patches of a picture as steps, behind one step for the class, and what tells their places.
pub(super) fn patches(called: &Called<'_, '_, '_>, given: &CallArgs) -> Lowered<KerasItem> {
    let b = called.builder();
    let Some(x) = given.first().cloned() else { return Ok(KerasItem::Hole) };
    let KerasItem::Tensor(x, _) = called.run("patch_embedding", x)? else {
        return Ok(KerasItem::Hole);
    };
    let hidden = called.layer.int("hidden_dim").unwrap_or(-1);
    let mut steps = b.reshape(x, [0, -1, hidden]).one()?;
    if called.layer.has("use_class_token") {
        let [token] = exactly(b, &called.weights()?)?;
        let batch = b.shape(x).start(0).end(1).one()?;
        let shape = b.concat([batch, b.shape(token).start(1).one()?]).axis(0).one()?;
        steps = b.concat([b.expand(token, shape)?, steps]).axis(1).one()?;
    }
    let places = called.part("position_embedding")?;
    let path = format!("{}/{}", called.path, places.name);
    let [table] = exactly(b, &called.runner.weights_of(places, &path)?)?;
    called.sum(steps.into(), b.unsqueeze(table, [0])?.into())
}

/// Blocks, and a norm.
pub(super) fn encoder(called: &Called<'_, '_, '_>, given: &CallArgs) -> Lowered<KerasItem> {
    let Some(mut x) = given.first().cloned() else { return Ok(KerasItem::Hole) };
    for (_, layer) in &called.layer.parts {
        x = called.inner(layer, CallArgs::one(x)).map(KerasItem::of)?;
    }
    Ok(x)
}

/// Attention, and two dense layers for each step, both behind a norm.
pub(super) fn block(called: &Called<'_, '_, '_>, given: &CallArgs) -> Lowered<KerasItem> {
    let Some(input) = given.first().cloned() else { return Ok(KerasItem::Hole) };
    let x = called.run("layer_norm_1", input.clone())?;
    let both = CallArgs { positional: vec![x.clone(), x], named: vec![] };
    let x = called.sum(called.call("mha", &[], both)?, input)?;
    let y = called.run("mlp/dense_1", called.run("layer_norm_2", x.clone())?)?;
    called.sum(x, called.run("mlp/dense_2", y)?)
}
