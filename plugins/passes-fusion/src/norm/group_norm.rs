//! Makes GroupNormalization of InstanceNormalization over groups of channels. A factor and an addend per channel that
//! follow become its scale and bias.
//!
//! ONNX Runtime has no kernel of GroupNormalization and a fast one for the parts, so the pass runs on demand only.
//!
//! ```onnx
//! <ir_version: 10, opset_import: ["" : 21]>
//! before (float[2,4,3] x) => (float[2,4,3] y)
//! <int64[3] groups = {0, 2, -1}, float[2] one = {1.0, 1.0}, float[2] zero = {0.0, 0.0}, int64[3] channels = {2, 4, 3},
//!  float[4,1] gain = {1.0, 2.0, 3.0, 4.0}>
//! {
//!   g = Reshape(x, groups)
//!   n = InstanceNormalization(g, one, zero)
//!   normal = Reshape(n, channels)
//!   y = Mul(normal, gain)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 10, opset_import: ["" : 21]>
//! after (float[2,4,3] x) => (float[2,4,3] y)
//! <float[4] one_channels_scaled = {1.0, 2.0, 3.0, 4.0}, float[4] zero_channels_scaled = {0.0, 0.0, 0.0, 0.0}>
//! {
//!   y = GroupNormalization<num_groups = 2>(x, one_channels_scaled, zero_channels_scaled)
//! }
//! ```

use super::per_channel::{scaled, shifted};
use crate::fuse_batch_norm::GainAndBias;
use crate::parts::{PatternNodes, dims, needs, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::{
    BatchNormalization, GroupNormalization, InstanceNormalization, Reshape,
};
use onnxd_plugin_sdk::ir::{At, DataType, Dim, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-group-norm",
        vec![
            rule("normalized", normalized),
            rule("scaled", scaled::<GroupNormalization>),
            rule("shifted", shifted::<GroupNormalization>),
            rule("folded", folded),
        ],
    )
}

fn normalized(cx: &mut Rewriter, back: At<Reshape>) -> Rewrite {
    let norm = cx.producer::<InstanceNormalization>(back.data).map_err(|_| unlike())?;
    let there = cx.producer::<Reshape>(norm.x).map_err(|_| unlike())?;
    let parts = PatternNodes::from_root(cx, back.out);
    parts.node("InstanceNormalization", norm.out)?;
    parts.node("Reshape", there.out)?;
    parts.closed()?;
    let x = there.data;
    let [input_dims, grouped, result] = [dims(cx, x)?, dims(cx, norm.x)?, dims(cx, back.out)?];
    let restored =
        input_dims.len() == result.len() && input_dims.iter().zip(&result).all(|(a, b)| a.same(b));
    let known_groups =
        |dims: &[Dim]| dims.get(1).and_then(Dim::known).and_then(|n| usize::try_from(n).ok());
    let (Some(channels), Some(groups)) = (known_groups(&input_dims), known_groups(&grouped)) else {
        return Skip::because("the number of channels or groups is not known");
    };
    let divides = groups > 0 && channels > 0 && channels % groups == 0;
    if !restored || !divides || grouped.len() != 3 || !grouped[0].same(&input_dims[0]) {
        return Skip::because(
            "the values are not divided into groups of channels and joined again",
        );
    }
    needs(cx, "GroupNormalization", 21)?;
    of_type(cx, x, &[DataType::Float, DataType::Float16])?;
    let [scale, bias] = [norm.scale, norm.b].map(|v| spread(cx, v, channels));
    let (scale, bias, epsilon) = (scale?, bias?, norm.epsilon);
    let made =
        GroupNormalization { epsilon, ..GroupNormalization::new(x, scale, bias, groups as i64) };
    cx.replace(back.out, made)
}

/// A parameter per group as one per channel.
fn spread(cx: &mut Rewriter, v: ValueId, channels: usize) -> Result<ValueId, Skip> {
    let each = cx.weights(v, 1)?;
    let times = channels / each.values.len().max(1);
    let values = each.values.iter().flat_map(|x| std::iter::repeat_n(*x, times)).collect();
    cx.derive_reals(v, "channels", &Reals { dims: vec![channels], values }, v)
}

/// Both, as `fuse-affine` leaves them.
fn folded(cx: &mut Rewriter, bn: At<BatchNormalization>) -> Rewrite {
    let norm = cx.sole_producer::<GroupNormalization>(bn.x).map_err(|_| unlike())?;
    needs(cx, "a bias per channel of GroupNormalization", 21)?;
    let affine = GainAndBias::from_batch_norm(cx, &bn, Some(norm.bias))?;
    let scale = cx.derive_scaled(norm.scale, "folded", 0, &affine.gain.values)?;
    let bias = cx.derive_reals(bn.b, "folded", &affine.bias, norm.bias)?;
    cx.replace(bn.out, GroupNormalization { scale, bias, ..norm.op })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("group_norm.rs"), pass().as_ref());
    }

    fn model(opset: i64, body: &str) -> String {
        format!(
            "<ir_version: 10, opset_import: [\"\" : {opset}]> g (float[N,4,3] x) => (float[N,4,3] y)
             <int64[3] groups = {{0, 2, -1}}, int64[3] channels = {{0, 4, 3}}, float[2] one = {{1.5, 2.5}},
              float[2] two = {{0.5, 1.0}}, float[4,1] gain = {{1.0, 2.0, 3.0, 4.0}}, float[3] row = {{1.0, 2.0, 3.0}}>
             {{ g = Reshape(x, groups) n = InstanceNormalization<epsilon = 0.1>(g, one, two) {body} }}"
        )
    }

    #[test]
    fn parameters_per_group_and_per_channel() {
        let body = "r = Reshape<allowzero = 0>(n, channels) s = Mul(r, gain) y = Add(gain, s)";
        assert_eq!(check_pass_same(pass().as_ref(), &model(21, body)).graph.node_count(), 1);
        let body = "r = Reshape(n, channels) y = Mul(r, row)";
        assert_eq!(check_pass_same(pass().as_ref(), &model(21, body)).graph.node_count(), 2);
    }

    #[test]
    fn parameters_of_batch_normalization() {
        let body = "r = Reshape(n, channels)
            y = BatchNormalization<epsilon = 0.5>(r, four, shift, shift, four)";
        let model = model(21, body)
            .replace("float[3] row", "float[4] four = {1.0, 2.0, 3.0, 4.0}, float[3] row")
            .replace("float[3] row", "float[4] shift = {0.5, 1.0, 1.5, 2.0}, float[3] row");
        assert_eq!(check_pass_same(pass().as_ref(), &model).graph.node_count(), 1);
    }

    #[test]
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        let body = "y = Reshape(n, channels)";
        check(&model(20, body), "opset 20 has no GroupNormalization, which came with 21");
        check(
            &model(21, body).replace("[N,4,3] y)", "[N,4,3] y, float[N,2,6] n)"),
            "`n` is read elsewhere, too",
        );
        let other =
            model(21, body).replace("{0, 4, 3}", "{0, 3, 4}").replace("[N,4,3] y", "[N,3,4] y");
        check(&other, "the values are not divided into groups of channels and joined again");
    }
}
