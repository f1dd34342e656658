//! Makes InstanceNormalization of its parts. A factor and an addend per channel that follow become its scale and bias.
//!
//! ```onnx
//! before (float[2,2,3,3] x) => (float[2,2,3,3] y)
//! <float eps = {0.5}, float[2,1,1] gain = {1.0, 2.0}>
//! {
//!   mean = ReduceMean<axes = [2, 3]>(x)
//!   d = Sub(x, mean)
//!   square = Mul(d, d)
//!   var = ReduceMean<axes = [2, 3]>(square)
//!   raised = Add(var, eps)
//!   std = Sqrt(raised)
//!   normal = Div(d, std)
//!   y = Mul(normal, gain)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,2,3,3] x) => (float[2,2,3,3] y)
//! <float[2] x_scale_scaled = {1.0, 2.0}, float[2] x_bias_scaled = {0.0, 0.0}>
//! {
//!   y = InstanceNormalization<epsilon = 0.5>(x, x_scale_scaled, x_bias_scaled)
//! }
//! ```

use super::CENTRED;
use super::per_channel::{scaled, shifted};
use crate::arithmetic::per_channel;
use crate::parts::{PatternNodes, dims, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::{Div, InstanceNormalization, Mul};
use onnxd_plugin_sdk::ir::{At, DataType, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-instance-norm",
        vec![
            rule("divided", |cx, at: At<Div>| normalized(cx, at.out)),
            rule("multiplied", |cx, at: At<Mul>| normalized(cx, at.out)),
            rule("scaled", scaled::<InstanceNormalization>),
            rule("shifted", shifted::<InstanceNormalization>),
        ],
    )
}

/// As in LayerNormalization, along all axes but those of batch and channels.
fn normalized(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let parts = PatternNodes::from_root(cx, out);
    let found = CENTRED.find(&parts, out)?;
    let (x, mean, epsilon) = (found.value("x"), found.reduction(), found.number("epsilon"));
    if mean.rank < 3 || !mean.axes.iter().copied().eq(2..mean.rank) || !mean.keepdims {
        return Skip::unlike();
    }
    parts.closed()?;
    // Runtimes have kernels for these types only.
    of_type(cx, x, &[DataType::Float, DataType::Float16])?;
    let channels = dims(cx, x)?[1].known().and_then(|n| usize::try_from(n).ok());
    let Some(channels) = channels.filter(|n| *n > 0) else {
        return Skip::because(format!("the number of channels of {} is not known", cx.name(x)));
    };
    if !scales_channels(cx, out, channels, mean.rank).unwrap_or(mean.rank > 3) {
        return Skip::because(
            "it may be LayerNormalization: what follows is not one value per channel",
        );
    }
    let dtype = cx.dtype(x)?;
    let filled = |value| Reals::full(&[channels], value).to_tensor(dtype).ok_or_else(unlike);
    let (scale, bias) = (filled(1.0)?, filled(0.0)?);
    let (scale, b) = (cx.derive(x, "scale", scale), cx.derive(x, "bias", bias));
    cx.rebuild(out, |f| f.instance_normalization(x, scale, b).epsilon(epsilon).one())
}

/// Whether a factor per channel follows; nothing, if no constant factor does.
fn scales_channels(cx: &Rewriter, out: ValueId, channels: usize, rank: usize) -> Option<bool> {
    let mul = cx.sole_reader::<Mul>(out).ok()?;
    let factor = [mul.a, mul.b].into_iter().find_map(|v| cx.reals(v).ok())?;
    let each = factor.values.len() == channels && channels > 1;
    Some(each && per_channel(&factor, channels, rank, 1).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("instance_norm.rs"), pass().as_ref());
    }

    fn model(body: &str) -> String {
        format!(
            "g (float[1,2,5] x) => (float[1,2,5] y)
             <float eps = {{0.5}}, float two = {{2.0}}, float[2,1] gain = {{1.0, 2.0}},
              float[5] row = {{1.0, 2.0, 3.0, 4.0, 5.0}}>
             {{ m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) s = Pow(d, two) v = ReduceMean<axes = [2]>(s)
                e = Add(v, eps) r = Sqrt(e) n = Div(d, r) {body} }}"
        )
    }

    #[test]
    fn scale_and_bias_follow() {
        let fused = check_pass_same(pass().as_ref(), &model("g = Mul(n, gain) y = Add(g, two)"));
        assert_eq!(fused.graph.node_count(), 1);
        let images =
            model("y = Identity(n)").replace("[1,2,5] ", "[1,2,5,1] ").replace("[2]>", "[2, 3]>");
        let fused = check_pass_same(pass().as_ref(), &images.replace("[-1]", "[-1, 2]"));
        assert_eq!(fused.graph.node_count(), 2);
    }

    #[test]
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        let layer = "it may be LayerNormalization: what follows is not one value per channel";
        check(&model("y = Identity(n)"), layer);
        check(&model("y = Mul(n, row)"), layer);
        let graph = model("y = Mul(n, gain)");
        check(
            &graph.replace("float[1,2,5]", "float[1,C,5]"),
            "the number of channels of `x` is not known",
        );
        check(&graph.replace("float", "double"), "`x` is of type double");
        check(
            &graph.replace("[1,2,5] y)", "[1,2,5] y, float[1,2,5] d)"),
            "`d` is read elsewhere, too",
        );
        check(&graph.replace("[-1]", "[1]").replace("[2]>", "[1]>"), "");
    }
}
