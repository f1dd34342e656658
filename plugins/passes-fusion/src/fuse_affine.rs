//! Makes one BatchNormalization of constants that are subtracted, multiplied and added for each channel.
//!
//! `(x - mean) * scale + bias`, where the variance is 1 and epsilon 0. What a factor could go into, or an addend, other
//! passes find before.
//!
//! ```onnx
//! before (float[N,2,4] x) => (float[N,2,4] y)
//! <float[1,2,1] c = {2.0, 3.0}, float[2,1] d = {4.0, 5.0}>
//! {
//!   r = Relu(x)
//!   p = Mul(r, c)
//!   y = Add(p, d)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[N,2,4] x) => (float[N,2,4] y)
//! <float[2] c_scale = {2.0, 3.0}, float[2] d_bias = {4.0, 5.0}, float[2] y_mean = {0.0, 0.0},
//!  float[2] y_var = {1.0, 1.0}>
//! {
//!   r = Relu(x)
//!   y = BatchNormalization<epsilon = 0.0>(r, c_scale, d_bias, y_mean, y_var)
//! }
//! ```

use crate::arithmetic::{Applied, Arithmetic, per_channel};
use crate::parts::{needs, of_type};
use onnxd_plugin_sdk::ir::{At, Attr, DataType, Node, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// The first operator set in which BatchNormalization is one of inference.
const OPSET_MIN: i64 = 7;

pub(crate) fn fuse_affine(cx: &mut Rewriter, last: At<Arithmetic>) -> Rewrite {
    let bias = Applied::addend(cx, &last).ok();
    let product = match &bias {
        Some(bias) => cx.sole_producer::<Arithmetic>(bias.x).map_err(|_| Skip(String::new()))?,
        None => last.clone(),
    };
    let factor = Applied::factor(cx, &product)?;
    let shift = cx.sole_producer::<Arithmetic>(factor.x).ok();
    let shift = shift.and_then(|sum| Applied::addend(cx, &sum).ok());
    if bias.is_none() && (shift.is_none() || adds_constant(cx, last.out)) {
        return Skip::unlike();
    }
    let x = shift.as_ref().map_or(factor.x, |shift| shift.x);
    let channels = Channels::find(cx, x)?;
    let scale = channels.of_constant(&factor.by)?;
    let zero = || Reals::scalar(0.0);
    let mean = shift.as_ref().map_or_else(zero, |shift| shift.by.map(|m| -m));
    let mean = channels.of_constant(&mean)?;
    let bias_by = bias.as_ref().map_or_else(zero, |bias| bias.by.clone());
    let bias_by = channels.of_constant(&bias_by)?;
    let all = [Some(&factor), shift.as_ref(), bias.as_ref()];
    if all.into_iter().flatten().all(|applied| applied.by.values.len() == 1) {
        return Skip::because("the constants are the same for all channels");
    }
    needs(cx, "BatchNormalization", OPSET_MIN)?;
    // What runtimes have on processors.
    of_type(cx, x, &[DataType::Float, DataType::Double])?;
    let like = factor.constant;
    let (out, one) = (last.out, Reals::full(&scale.dims, 1.0));
    let inputs = [
        x,
        cx.derive_reals(like, "scale", &scale, like)?,
        cx.derive_reals(bias.map_or(out, |bias| bias.constant), "bias", &bias_by, like)?,
        cx.derive_reals(shift.map_or(out, |shift| shift.constant), "mean", &mean, like)?,
        cx.derive_reals(out, "var", &one, like)?,
    ];
    let node = Node::new("BatchNormalization", inputs, [out]);
    cx.replace_by(out, node.with("epsilon", Attr::Float(0.0)))
}

/// Whether a constant is added to `v` next, so that this is not the last operator.
fn adds_constant(cx: &Rewriter, v: ValueId) -> bool {
    cx.sole_reader::<Arithmetic>(v).is_ok_and(|sum| Applied::addend(cx, &sum).is_ok())
}

/// The channels of a value.
struct Channels {
    count: usize,
    rank: usize,
}

impl Channels {
    fn find(cx: &Rewriter, x: ValueId) -> Result<Channels, Skip> {
        let shape = cx.graph[x].ty.as_ref().and_then(|ty| ty.shape()).unwrap_or_default();
        let count = shape.get(1).and_then(|d| usize::try_from(d.known()?).ok());
        match (count, shape.len()) {
            (Some(count), rank @ 3..) => Ok(Channels { count, rank }),
            _ => Skip::because(format!("{} has no known channels", cx.name(x))),
        }
    }

    fn of_constant(&self, constant: &Reals) -> Result<Reals, Skip> {
        per_channel(constant, self.count, self.rank, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("fuse_affine.rs"), fuse_affine);
    }

    fn graph(nodes: &str) -> String {
        format!(
            "g (float[1,2,3,N] x) => (float[1,2,3,N] y)
             <float[2,1,1] m = {{0.5, 0.25}}, float[1,2,1,1] s = {{2.0, 4.0}}, float[2,1,1] b = {{1.0, -1.0}},
              float two = {{2.0}}, float[3,1] row = {{1.0, 2.0, 3.0}}, float[2,2,1,1] pair = {{1.0, 2.0, 3.0, 4.0}}>
             {{ {nodes} }}"
        )
    }

    #[test]
    fn what_normalizes() {
        for nodes in [
            "a = Sub(x, m) c = Div(a, s) y = Add(b, c)", "a = Add(x, m) y = Div(a, s)",
            "a = Mul(x, two) y = Sub(a, m)", "a = Sub(x, two) c = Mul(s, a) y = Add(c, two)",
        ] {
            let model = check_same(fuse_affine, &graph(nodes));
            assert_eq!(model.graph.node_count(), 1, "{nodes}");
        }
    }

    #[test]
    fn left_alone() {
        for (reason, nodes) in [
            ("the constants are the same for all channels", "a = Mul(x, two) y = Add(a, two)"),
            ("the constant [3, 1] is not one value per channel", "a = Mul(x, s) y = Add(a, row)"),
            ("", "a = Sub(m, x) y = Mul(a, s)"),
            ("", "a = Mul(x, s) c = Add(a, b) y = Mul(a, c)"),
            ("", "y = Mul(x, s)"),
        ] {
            check_skip(fuse_affine, reason, &graph(nodes));
        }
        check_skip(
            fuse_affine,
            "`x` has no known channels",
            "g (float[1,C,3] x) => (float[1,2,3] y) <float[2,1] s = {1.0, 2.0}>
             { a = Mul(x, s) y = Add(a, s) }",
        );
        check_skip(
            fuse_affine,
            "`x` is of type float16",
            "g (float16[1,2,3] x) => (float16[1,2,3] y) <float16[2,1] s = {1.0, 2.0}>
             { a = Mul(x, s) y = Add(a, s) }",
        );
    }
}
