//! Normalization and dropout.

use crate::row::{Row, both, down, up};
use crate::site::{Done, Site, axis};
use onnxd_ir::{Attr, DataType, Dim, Tensor, ValueId};

pub(crate) const ROWS: &[Row] = &[
    up(&["BatchNormalization"], 7, batch_norm_7),
    up(&["BatchNormalization"], 9, batch_norm_9),
    both(&["BatchNormalization"], 14, batch_norm_14_up, batch_norm_14_down),
    up(&["Dropout"], 7, dropout_7),
    both(&["Dropout"], 10, dropout_10_up, dropout_10_down),
    both(&["Dropout"], 12, dropout_12_up, dropout_12_down),
    down(&["MeanVarianceNormalization"], 9, mean_variance),
    down(&["LayerNormalization"], 17, layer_norm),
    both(&["GroupNormalization"], 21, group_norm_21_up, group_norm_21_down),
    down(&["RMSNormalization"], 23, rms_norm),
];

/// Up to opset 6 `is_test`, or the outputs that are wanted, say what it is for.
fn batch_norm_7(s: &mut Site<'_>) -> Done {
    if s.int("is_test")?.unwrap_or(0) != 0 && (1..5).any(|i| s.wants(i)) {
        return Err("it has `is_test` and outputs of the training".into());
    }
    if s.node().outputs.len() > 1 && !(1..5).any(|i| s.wants(i)) {
        s.keep_outputs(1);
    }
    s.drop("is_test");
    s.drop("consumed_inputs");
    Ok(())
}

/// Without `spatial` every activation has its own mean and variance.
fn batch_norm_9(s: &mut Site<'_>) -> Done {
    if s.int("spatial")?.unwrap_or(1) != 0 {
        s.drop("spatial");
        return Ok(());
    }
    if (1..5).any(|i| s.wants(i)) {
        return Err("it trains statistics of single activations".into());
    }
    let [x, scale, b, mean, var] = inputs(s)?;
    let epsilon = epsilon(s, s.dtype(x)?)?;
    s.keep_outputs(1);
    let centred = s.add("Sub", "centred", &[x, mean], &[]);
    let sum = s.add("Add", "variance", &[var, epsilon], &[]);
    let deviation = s.add("Sqrt", "deviation", &[sum], &[]);
    let normal = s.add("Div", "normal", &[centred, deviation], &[]);
    let scaled = s.add("Mul", "scaled", &[normal, scale], &[]);
    s.become_node("Add", &[scaled, b], &[]);
    Ok(())
}

fn inputs<const N: usize>(s: &Site<'_>) -> Result<[ValueId; N], String> {
    let found: Vec<ValueId> = (0..N).map(|i| s.input(i)).collect::<Result<_, _>>()?;
    Ok(found.try_into().expect("one value per input"))
}

fn epsilon(s: &mut Site<'_>, dtype: DataType) -> Result<ValueId, String> {
    let epsilon = s.float("epsilon")?.unwrap_or(1e-5);
    s.scalar("epsilon", f64::from(epsilon), dtype)
}

/// Up to opset 13 the wanted outputs say whether it trains.
fn batch_norm_14_up(s: &mut Site<'_>) -> Done {
    if (3..5).any(|i| s.wants(i)) {
        return Err("there are no outputs `saved_mean` and `saved_var`".into());
    }
    let trains = (1..3).any(|i| s.wants(i));
    let keep = if trains { 3 } else { 1 };
    s.keep_outputs(keep);
    if trains {
        s.set("training_mode", Attr::Int(1));
    }
    Ok(())
}

fn batch_norm_14_down(s: &mut Site<'_>) -> Done {
    if s.int("training_mode")?.unwrap_or(0) != 0 {
        return Err("what its running variance is in training is not defined".into());
    }
    s.keep_outputs(1);
    s.drop("training_mode");
    Ok(())
}

/// From opset 7 on it does nothing unless it is told to train.
fn dropout_7(s: &mut Site<'_>) -> Done {
    if s.int("is_test")?.unwrap_or(0) == 0 {
        return Err("it drops at random, because `is_test` is 0".into());
    }
    s.drop("is_test");
    s.drop("consumed_inputs");
    Ok(())
}

/// From opset 10 on the mask is of type bool.
fn dropout_10_up(s: &mut Site<'_>) -> Done {
    mask_as(s, |s| s.dtype(s.input(0)?))
}

fn dropout_10_down(s: &mut Site<'_>) -> Done {
    mask_as(s, |_| Ok(DataType::Bool))
}

/// Casts the mask, if it is wanted, to what it was.
fn mask_as(s: &mut Site<'_>, dtype: fn(&Site<'_>) -> Result<DataType, String>) -> Done {
    if !s.wants(1) {
        s.keep_outputs(1);
        return Ok(());
    }
    let to = Attr::Int(i64::from(dtype(s)?.number()));
    let (inner, out) = s.detach(1, "new")?;
    s.add_to(out, "Cast", &[inner], &[("to", to)]);
    Ok(())
}

fn dropout_12_up(s: &mut Site<'_>) -> Done {
    if let Some(ratio) = s.float("ratio")? {
        let ratio = s.tensor("ratio", Tensor::scalar(ratio));
        s.set_input(1, Some(ratio));
        s.drop("ratio");
    }
    Ok(())
}

/// Without training neither ratio nor seed matter.
fn dropout_12_down(s: &mut Site<'_>) -> Done {
    if s.fixed_ints(2)?.is_some_and(|on| on.iter().any(|x| *x != 0)) {
        return Err("there is no training mode".into());
    }
    let ratio = s.fixed_floats(1).ok().flatten().and_then(|r| r.first().copied());
    s.set_inputs(vec![Some(s.input(0)?)]);
    s.drop("seed");
    if let Some(ratio) = ratio {
        s.set("ratio", Attr::Float(ratio as f32));
    }
    Ok(())
}

/// (x - mean) / (√(mean of squares - square of mean) + 1e-9)
fn mean_variance(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let axes = s.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let small = s.scalar("small", 1e-9, s.dtype(x)?)?;
    let mean = s.reduce("ReduceMean", "mean", x, &axes);
    let square = s.add("Mul", "square", &[x, x], &[]);
    let squares = s.reduce("ReduceMean", "squares", square, &axes);
    let mean_square = s.add("Mul", "mean_square", &[mean, mean], &[]);
    let variance = s.add("Sub", "variance", &[squares, mean_square], &[]);
    let deviation = s.add("Sqrt", "deviation", &[variance], &[]);
    let divisor = s.add("Add", "divisor", &[deviation, small], &[]);
    let centred = s.add("Sub", "centred", &[x, mean], &[]);
    s.become_node("Div", &[centred, divisor], &[]);
    Ok(())
}

/// The type that statistics are computed in, and `x` in it.
fn stashed(s: &mut Site<'_>, x: ValueId) -> Result<(ValueId, DataType, DataType), String> {
    let dtype = s.dtype(x)?;
    let half = matches!(dtype, DataType::Float16 | DataType::Bfloat16);
    if half && s.int("stash_type")?.unwrap_or(1) == 1 {
        return Ok((s.cast("wide", x, DataType::Float), dtype, DataType::Float));
    }
    Ok((x, dtype, dtype))
}

/// The axes from `axis` on; counted from the back where the rank is not known.
fn axes_from(s: &Site<'_>, x: ValueId) -> Result<Vec<i64>, String> {
    let first = s.int("axis")?.unwrap_or(-1);
    match s.rank(x) {
        Ok(rank) => Ok((axis(first, rank)?..rank as i64).collect()),
        Err(_) if first < 0 => Ok((first..0).collect()),
        Err(why) => Err(why),
    }
}

/// (x - mean) / √(variance + epsilon) scale + bias
fn layer_norm(s: &mut Site<'_>) -> Done {
    let (x, scale, bias) = (s.input(0)?, s.input(1)?, s.node().input(2));
    let axes = axes_from(s, x)?;
    let (x, narrow, wide) = stashed(s, x)?;
    let epsilon = epsilon(s, wide)?;
    let (mean_out, inverse_out) = (s.node().output(1), s.node().output(2));
    s.keep_outputs(1);
    let mean = s.reduce("ReduceMean", "mean", x, &axes);
    let centred = s.add("Sub", "centred", &[x, mean], &[]);
    let square = s.add("Mul", "square", &[centred, centred], &[]);
    let variance = s.reduce("ReduceMean", "variance", square, &axes);
    let sum = s.add("Add", "sum", &[variance, epsilon], &[]);
    let deviation = s.add("Sqrt", "deviation", &[sum], &[]);
    let mut y = s.add("Div", "normal", &[centred, deviation], &[]);
    if let Some(out) = mean_out {
        s.add_to(out, "Identity", &[mean], &[]);
    }
    if let Some(out) = inverse_out {
        s.add_to(out, "Reciprocal", &[deviation], &[]);
    }
    if wide != narrow {
        y = s.cast("narrow", y, narrow);
    }
    let Some(bias) = bias else {
        s.become_node("Mul", &[y, scale], &[]);
        return Ok(());
    };
    let scaled = s.add("Mul", "scaled", &[y, scale], &[]);
    s.become_node("Add", &[scaled, bias], &[]);
    Ok(())
}

/// x / √(mean of squares + epsilon) scale
fn rms_norm(s: &mut Site<'_>) -> Done {
    let (x, scale) = (s.input(0)?, s.input(1)?);
    let axes = axes_from(s, x)?;
    let (x, narrow, wide) = stashed(s, x)?;
    let epsilon = epsilon(s, wide)?;
    let square = s.add("Mul", "square", &[x, x], &[]);
    let squares = s.reduce("ReduceMean", "squares", square, &axes);
    let sum = s.add("Add", "sum", &[squares, epsilon], &[]);
    let root = s.add("Sqrt", "root", &[sum], &[]);
    let mut y = s.add("Div", "normal", &[x, root], &[]);
    let to = s.dtype(scale)?;
    if wide != to || wide != narrow {
        y = s.cast("narrow", y, to);
    }
    s.become_node("Mul", &[y, scale], &[]);
    Ok(())
}

/// Scale and bias, one per group up to opset 20, become one per channel.
fn group_norm_21_up(s: &mut Site<'_>) -> Done {
    let x = s.input(0)?;
    let groups = s.int("num_groups")?.ok_or("it has no `num_groups`")?;
    let channels = s.shape(x)?.get(1).and_then(Dim::known);
    let channels = channels.ok_or("the number of channels is not known")?;
    let each = channels.checked_div(groups).ok_or("it has no groups")?;
    for (i, role) in [(1, "scale"), (2, "bias")] {
        let v = s.input(i)?;
        let column = s.reshape(role, v, &[groups, 1]);
        let shape = s.vector("shape", &[groups, each]);
        let wide = s.add("Expand", role, &[column, shape], &[]);
        let flat = s.reshape(role, wide, &[-1]);
        s.set_input(i, Some(flat));
    }
    Ok(())
}

/// Groups become channels of an `InstanceNormalization`.
fn group_norm_21_down(s: &mut Site<'_>) -> Done {
    let (first, scale, bias) = (s.input(0)?, s.input(1)?, s.input(2)?);
    let rank = s.rank(first)?;
    let groups = s.int("num_groups")?.ok_or("it has no `num_groups`")?;
    let count = usize::try_from(groups).ok().filter(|n| (1..=1 << 16).contains(n));
    let count = count.ok_or("its `num_groups` makes no sense")?;
    let epsilon = s.float("epsilon")?.unwrap_or(1e-5);
    let (x, narrow, wide) = stashed(s, first)?;
    let filled = |s: &mut Site<'_>, role: &str, with: f64| {
        let data = onnxd_ir::Reals { dims: vec![count], values: vec![with; count] };
        let data = data.to_tensor(wide).ok_or("its type is no float")?;
        Ok::<ValueId, String>(s.tensor(role, data))
    };
    let (ones, zeros) = (filled(s, "ones", 1.0)?, filled(s, "zeros", 0.0)?);
    let shape = s.add("Shape", "shape", &[first], &[]);
    let grouped = s.reshape("grouped", x, &[0, groups, -1]);
    let attrs = [("epsilon", Attr::Float(epsilon))];
    let normal = s.add("InstanceNormalization", "normal", &[grouped, ones, zeros], &attrs);
    let mut y = s.add("Reshape", "normal", &[normal, shape], &[]);
    if wide != narrow {
        y = s.cast("narrow", y, narrow);
    }
    let mut column = vec![1; rank.max(2)];
    column[1] = -1;
    let scale = s.reshape("scale", scale, &column[1..]);
    let bias = s.reshape("bias", bias, &column[1..]);
    let scaled = s.add("Mul", "scaled", &[y, scale], &[]);
    s.become_node("Add", &[scaled, bias], &[]);
    Ok(())
}
