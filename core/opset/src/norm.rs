//! Normalization and dropout.

use crate::context::{Done, LowerContext, Refusal, axis, refuse};
use crate::row::{AdapterRow, both, down, restate, up};
use onnxd_build::Var;
use onnxd_ir::{Attr, DataType, Dim};

pub(crate) const ROWS: &[AdapterRow] = &[
    up(&["BatchNormalization"], 7, batch_norm_7),
    up(&["BatchNormalization"], 9, batch_norm_9),
    both(&["BatchNormalization"], 14, batch_norm_14_up, batch_norm_14_down),
    up(&["Dropout"], 7, dropout_7),
    both(&["Dropout"], 10, dropout_10_up, dropout_10_down),
    both(&["Dropout"], 12, restate, dropout_12_down),
    down(&["MeanVarianceNormalization"], 9, mean_variance),
    down(&["LayerNormalization"], 17, layer_norm),
    both(&["GroupNormalization"], 21, group_norm_21_up, group_norm_21_down),
    down(&["RMSNormalization"], 23, rms_norm),
];

/// Up to opset 6 `is_test`, or the outputs that are wanted, say what it is for.
fn batch_norm_7(s: &mut LowerContext<'_>) -> Done {
    let trains = (1..5).any(|i| s.wants(i));
    if s.flag("is_test", false)? && trains {
        return refuse("it has `is_test` and outputs of the training");
    }
    if !trains {
        s.keep_outputs(1);
    }
    s.drop("is_test");
    s.drop("consumed_inputs");
    Ok(())
}

/// Without `spatial` every activation has its own mean and variance.
fn batch_norm_9(s: &mut LowerContext<'_>) -> Done {
    if s.flag("spatial", true)? {
        s.drop("spatial");
        return Ok(());
    }
    if (1..5).any(|i| s.wants(i)) {
        return refuse("it trains statistics of single activations");
    }
    let (b, [x, scale, bias, mean, variance]) = (s.b, s.vars()?);
    let deviation = b.sqrt(b.add(variance, epsilon(s)?)?)?;
    s.becomes(b.add(b.mul(b.div(b.sub(x, mean)?, deviation)?, scale)?, bias)?)
}

fn epsilon(s: &LowerContext<'_>) -> Result<f32, Refusal> {
    Ok(s.float("epsilon")?.unwrap_or(1e-5))
}

/// Up to opset 13 the wanted outputs say whether it trains.
fn batch_norm_14_up(s: &mut LowerContext<'_>) -> Done {
    if (3..5).any(|i| s.wants(i)) {
        return refuse("there are no outputs `saved_mean` and `saved_var`");
    }
    let trains = (1..3).any(|i| s.wants(i));
    s.keep_outputs(if trains { 3 } else { 1 });
    if trains {
        s.set_int("training_mode", 1);
    }
    Ok(())
}

fn batch_norm_14_down(s: &mut LowerContext<'_>) -> Done {
    if s.flag("training_mode", false)? {
        return refuse("what its running variance is in training is not defined");
    }
    s.keep_outputs(1);
    s.drop("training_mode");
    Ok(())
}

/// From opset 7 on it does nothing unless it is told to train.
fn dropout_7(s: &mut LowerContext<'_>) -> Done {
    if !s.flag("is_test", false)? {
        return refuse("it drops at random, because `is_test` is 0");
    }
    s.drop("is_test");
    s.drop("consumed_inputs");
    Ok(())
}

/// From opset 10 on the mask is of type bool.
fn dropout_10_up(s: &mut LowerContext<'_>) -> Done {
    if !s.wants(1) {
        s.keep_outputs(1);
        return Ok(());
    }
    let dtype = s.dtype(s.var(0)?)?;
    s.then(1, |b, mask| b.cast(mask, dtype))
}

fn dropout_10_down(s: &mut LowerContext<'_>) -> Done {
    if !s.wants(1) {
        s.keep_outputs(1);
        return Ok(());
    }
    s.then(1, |b, mask| b.cast(mask, DataType::Bool))
}

/// Without training neither ratio nor seed matter.
fn dropout_12_down(s: &mut LowerContext<'_>) -> Done {
    if s.fixed_ints(2)?.is_some_and(|on| on.iter().any(|x| *x != 0)) {
        return refuse("there is no training mode");
    }
    let ratio = s.fixed_floats(1).ok().flatten().and_then(|r| r.first().copied());
    s.set_inputs(&[Some(s.var(0)?)])?;
    s.drop("seed");
    if let Some(ratio) = ratio {
        s.set("ratio", Attr::Float(ratio as f32));
    }
    Ok(())
}

/// (x - mean) / (√(mean of squares - square of mean) + 1e-9)
fn mean_variance(s: &mut LowerContext<'_>) -> Done {
    let (b, x) = (s.b, s.var(0)?);
    let axes = s.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let mean = b.reduce_mean(x).axes(&axes).one()?;
    let squares = b.reduce_mean(b.mul(x, x)?).axes(&axes).one()?;
    let deviation = b.sqrt(b.sub(squares, b.mul(mean, mean)?)?)?;
    s.becomes(b.div(b.sub(x, mean)?, b.add(deviation, 1e-9)?)?)
}

/// `x` in the type that statistics are computed in.
fn stashed(s: &LowerContext<'_>, x: Var) -> Result<Var, Refusal> {
    let half = matches!(s.dtype(x)?, DataType::Float16 | DataType::Bfloat16);
    Ok(if half && s.flag("stash_type", true)? { s.b.cast(x, DataType::Float)? } else { x })
}

/// The axes from `axis` on; counted from the back where the rank is not known.
fn axes_from(s: &LowerContext<'_>, x: Var) -> Result<Vec<i64>, Refusal> {
    let first = s.int("axis")?.unwrap_or(-1);
    match s.rank(x) {
        Ok(rank) => Ok((axis(first, rank)?..rank as i64).collect()),
        Err(_) if first < 0 => Ok((first..0).collect()),
        Err(why) => Err(why),
    }
}

/// (x - mean) / √(variance + epsilon) scale + bias
fn layer_norm(s: &mut LowerContext<'_>) -> Done {
    let (b, [given, scale]) = (s.b, s.vars()?);
    let (axes, x) = (axes_from(s, given)?, stashed(s, given)?);
    let mean = b.reduce_mean(x).axes(&axes).one()?;
    let centred = b.sub(x, mean)?;
    let variance = b.reduce_mean(b.mul(centred, centred)?).axes(&axes).one()?;
    let deviation = b.sqrt(b.add(variance, epsilon(s)?)?)?;
    let normal = b.cast(b.div(centred, deviation)?, s.dtype(given)?)?;
    let mut y = b.mul(normal, scale)?;
    if let Some(bias) = s.optional(2) {
        y = b.add(y, bias)?;
    }
    let inverse = if s.has_output(2) { Some(b.reciprocal(deviation)?) } else { None };
    s.becomes_all(&[Some(y), Some(mean), inverse])
}

/// x / √(mean of squares + epsilon) scale
fn rms_norm(s: &mut LowerContext<'_>) -> Done {
    let (b, [given, scale]) = (s.b, s.vars()?);
    let (axes, x) = (axes_from(s, given)?, stashed(s, given)?);
    let squares = b.reduce_mean(b.mul(x, x)?).axes(&axes).one()?;
    let root = b.sqrt(b.add(squares, epsilon(s)?)?)?;
    let normal = b.cast(b.div(x, root)?, s.dtype(scale)?)?;
    s.becomes(b.mul(normal, scale)?)
}

/// Scale and bias, one per group up to opset 20, become one per channel.
fn group_norm_21_up(s: &mut LowerContext<'_>) -> Done {
    let (b, [x, scale, bias]) = (s.b, s.vars()?);
    let groups = s.int("num_groups")?.ok_or("it has no `num_groups`")?;
    let channels = s.shape(x)?.get(1).and_then(Dim::known);
    let channels = channels.ok_or("the number of channels is not known")?;
    let each = channels.checked_div(groups).ok_or("it has no groups")?;
    for (i, v) in [(1, scale), (2, bias)] {
        let wide = b.expand(b.reshape(v, [groups, 1]).one()?, [groups, each])?;
        s.set_input(i, Some(b.reshape(wide, [-1]).one()?))?;
    }
    Ok(())
}

/// Groups become channels of an `InstanceNormalization`.
fn group_norm_21_down(s: &mut LowerContext<'_>) -> Done {
    let (b, [given, scale, bias]) = (s.b, s.vars()?);
    let rank = s.rank(given)?;
    let groups = s.int("num_groups")?.ok_or("it has no `num_groups`")?;
    let count = usize::try_from(groups).ok().filter(|n| (1..=1 << 16).contains(n));
    let count = count.ok_or("its `num_groups` makes no sense")?;
    let x = b.reshape(stashed(s, given)?, [0, groups, -1]).one()?;
    let (ones, zeros) = (vec![1.0f32; count], vec![0.0f32; count]);
    let normal = b.instance_normalization(x, ones, zeros).epsilon(epsilon(s)?).one()?;
    let normal = b.reshape(normal, b.shape(given).one()?).one()?;
    let mut column = vec![1; rank.max(2) - 1];
    column[0] = -1;
    let along = |v: Var| b.reshape(v, &column).one();
    let scaled = b.mul(b.cast(normal, s.dtype(given)?)?, along(scale)?)?;
    s.becomes(b.add(scaled, along(bias)?)?)
}
