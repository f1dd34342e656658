//! Moves zero padding into the convolution or pooling that follows, where the result is exactly the same.
//!
//! A convolution pads with zeros itself. Average pooling does when it counts its padding. Maximum pooling pads with
//! minus infinity, which equals zero only where nothing is negative: after an activation that is never below zero.
//!
//! ```onnx
//! before (float[1,1,4,4] x) => (float[1,1,6,5] y)
//! <int64[8] pads = {0, 0, 1, 0, 0, 0, 3, 3}, float[1,1,3,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}>
//! {
//!   p = Pad(x, pads)
//!   y = Conv(p, w)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[1,1,4,4] x) => (float[1,1,6,5] y)
//! <float[1,1,3,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}>
//! {
//!   y = Conv<pads = [1, 0, 3, 3]>(x, w)
//! }
//! ```

use onnxd_plugin_sdk::ir::ops::{AveragePool, Clip, Conv, MaxPool, Pad, Relu, Sigmoid, Softplus};
use onnxd_plugin_sdk::ir::{At, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn fuse_pad(cx: &mut Rewriter, pad: At<Pad>) -> Rewrite {
    let extra = spatial_zeros(cx, &pad)?;
    if let Ok(conv) = cx.sole_reader::<Conv>(pad.out) {
        if conv.x != pad.out {
            return Skip::because(format!("{} is not the data input of Conv", cx.name(pad.out)));
        }
        let pads = added(&conv.pads, &extra, &conv.auto_pad)?;
        let auto_pad = "NOTSET".into();
        return cx.replace(conv.out, Conv { x: pad.data, pads, auto_pad, ..conv.op });
    }
    if let Ok(pool) = cx.sole_reader::<AveragePool>(pad.out) {
        let own = pool.pads.iter().any(|p| *p != 0);
        if own && pool.count_include_pad == 0 {
            return Skip::because("AveragePool leaves its own padding out of the mean");
        }
        let pads = pooled(&pool.pads, &extra, &pool.auto_pad, &pool.kernel_shape, pool.ceil_mode)?;
        let (count_include_pad, auto_pad) = (1, "NOTSET".into());
        let pool_op = AveragePool { x: pad.data, pads, count_include_pad, auto_pad, ..pool.op };
        return cx.replace(pool.out, pool_op);
    }
    if let Ok(pool) = cx.sole_reader::<MaxPool>(pad.out) {
        if !is_never_negative(cx, pad.data) {
            return Skip::because(format!(
                "MaxPool would ignore the padding, and {} may be negative",
                cx.name(pad.data)
            ));
        }
        if cx.graph[pool.node].output(1).is_some() {
            return Skip::because("MaxPool also gives indices");
        }
        if pool.dilations.iter().any(|d| *d != 1) {
            return Skip::because("a dilated window may hold nothing but padding");
        }
        let pads = pooled(&pool.pads, &extra, &pool.auto_pad, &pool.kernel_shape, pool.ceil_mode)?;
        let auto_pad = "NOTSET".into();
        return cx.replace(pool.out, MaxPool { x: pad.data, pads, auto_pad, ..pool.op });
    }
    let name = cx.name(pad.out);
    Skip::because(format!("{name} is not read by one Conv, AveragePool or MaxPool alone"))
}

/// The padding of the spatial axes (all begins, then all ends), if it pads nothing else and with zeros.
fn spatial_zeros(cx: &Rewriter, pad: &Pad) -> Result<Vec<i64>, Skip> {
    if pad.mode != "constant" {
        return Skip::because(format!("it pads by mode {}", pad.mode));
    }
    if let Some(value) = pad.constant_value
        && cx.constant(value)?.bytes().iter().any(|byte| *byte != 0)
    {
        return Skip::because("it does not pad with zeros");
    }
    let mut pads = cx.integers(pad.pads)?;
    if let Some(axes) = pad.axes {
        let (axes, rank) = (cx.integers(axes)?, cx.rank(pad.data)?);
        let within = |axis: &i64| (-(rank as i64)..rank as i64).contains(axis);
        if pads.len() != 2 * axes.len() || !axes.iter().all(within) {
            return Skip::because("its axes and pads do not belong together");
        }
        let mut full = vec![0; 2 * rank];
        for (i, axis) in axes.iter().enumerate() {
            let axis = axis.rem_euclid(rank as i64) as usize;
            full[axis] = pads[i];
            full[rank + axis] = pads[axes.len() + i];
        }
        pads = full;
    }
    if pads.len() < 6 || pads.len() % 2 != 0 {
        return Skip::because("it has no spatial axes");
    }
    let (begins, ends) = pads.split_at(pads.len() / 2);
    if begins[..2].iter().chain(&ends[..2]).any(|p| *p != 0) {
        return Skip::because("it pads the batch or channel axis");
    }
    if pads.iter().any(|p| *p < 0) {
        return Skip::because("it crops");
    }
    Ok([&begins[2..], &ends[2..]].concat())
}

fn added(own: &[i64], extra: &[i64], auto_pad: &str) -> Result<Vec<i64>, Skip> {
    if !matches!(auto_pad, "NOTSET" | "VALID") {
        return Skip::because(format!("auto_pad is {auto_pad}"));
    }
    if own.is_empty() {
        return Ok(extra.to_vec());
    }
    if own.len() != extra.len() {
        return Skip::because("the number of axes differs");
    }
    let sums: Option<Vec<i64>> = own.iter().zip(extra).map(|(a, b)| a.checked_add(*b)).collect();
    sums.ok_or_else(|| Skip("the padding is too large".into()))
}

/// Pooling demands that padding is smaller than the kernel, and with `ceil_mode` the last window depends on it.
fn pooled(
    own: &[i64],
    extra: &[i64],
    auto_pad: &str,
    kernel: &[i64],
    ceil_mode: i64,
) -> Result<Vec<i64>, Skip> {
    if ceil_mode != 0 {
        return Skip::because("the pooling rounds its size up");
    }
    let pads = added(own, extra, auto_pad)?;
    if pads.iter().zip(kernel.iter().cycle()).any(|(p, k)| p >= k) {
        return Skip::because("the padding is not smaller than the pooling window");
    }
    Ok(pads)
}

fn is_never_negative(cx: &Rewriter, v: ValueId) -> bool {
    let clipped = cx.producer::<Clip>(v).ok().and_then(|clip| clip.min);
    let min = clipped.and_then(|min| cx.reals(min).ok());
    let min = min.and_then(|min| min.values.first().copied());
    min.is_some_and(|min| min >= 0.0)
        || cx.producer::<Relu>(v).is_ok()
        || cx.producer::<Sigmoid>(v).is_ok()
        || cx.producer::<Softplus>(v).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("fuse_pad.rs"), fuse_pad);
    }

    #[test]
    fn average_pooling_counts_the_padding() {
        check_same(
            fuse_pad,
            "g (float[1,2,4,4] x) => (float[1,2,5,5] y)
             <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}>
             {
               p = Pad(x, pads)
               y = AveragePool<kernel_shape = [2, 2]>(p)
             }",
        );
    }

    #[test]
    fn an_operator_that_says_it_does_not_pad() {
        let pads = "<int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, float[1,2,2,2] w = {1.0, 2.0, 3.0,
            4.0, 5.0, 6.0, 7.0, 8.0}>";
        for op in [
            "Conv<auto_pad = \"VALID\">(p, w)",
            "AveragePool<auto_pad = \"VALID\", kernel_shape = [2, 2]>(p)",
            "MaxPool<auto_pad = \"VALID\", kernel_shape = [2, 2]>(p)",
        ] {
            let graph = format!(
                "g (float[1,2,4,4] x) => (float[1,c,5,5] y)
                 {pads} {{ r = Relu(x) p = Pad(r, pads) y = {op} }}"
            );
            check_same(fuse_pad, &graph);
        }
    }

    #[test]
    fn a_dilated_window_over_padding_alone_is_left_alone() {
        check_skip(
            fuse_pad,
            "a dilated window may hold nothing but padding",
            "g (float[1,1,2] x) => (float[1,1,1] y)
             <int64[6] pads = {0, 0, 1, 0, 0, 1}>
             {
               r = Relu(x)
               p = Pad(r, pads)
               y = MaxPool<kernel_shape = [2], dilations = [3]>(p)
             }",
        );
    }

    #[test]
    fn maximum_pooling_after_relu() {
        check_same(
            fuse_pad,
            "g (float[1,2,4,4] x) => (float[1,2,5,5] y)
             <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}>
             {
               r = Relu(x)
               p = Pad(r, pads)
               y = MaxPool<kernel_shape = [2, 2]>(p)
             }",
        );
    }

    #[test]
    fn maximum_pooling_of_negative_values_is_left_alone() {
        check_skip(
            fuse_pad,
            "MaxPool would ignore the padding, and `x` may be negative",
            "g (float[1,2,4,4] x) => (float[1,2,5,5] y)
             <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}>
             {
               p = Pad(x, pads)
               y = MaxPool<kernel_shape = [2, 2]>(p)
             }",
        );
    }
}
