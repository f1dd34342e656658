//! Folds inference-mode batch normalization into the linear operator that feeds it, because both
//! are affine per channel.
//!
//! `gain = gamma / sqrt(var + epsilon)`, `w' = w * gain`, `b' = (b - mean) * gain + beta`
//!
//! ```onnx
//! before (float[1,1,4,4] x) => (float[1,2,4,4] y)
//! <float[2,1,1,1] w = {2.0, 3.0}, float[2] gamma = {4.0, 5.0}, float[2] beta = {6.0, 7.0},
//!  float[2] mean = {1.0, 1.0}, float[2] var = {4.0, 1.0}>
//! {
//!   c = Conv(x, w)
//!   y = BatchNormalization<epsilon = 0.0>(c, gamma, beta, mean, var)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[1,1,4,4] x) => (float[1,2,4,4] y)
//! <float[2,1,1,1] w_folded = {4.0, 15.0}, float[2] beta_folded = {4.0, 2.0}>
//! {
//!   y = Conv(x, w_folded, beta_folded)
//! }
//! ```

use onnxd_plugin_sdk::ir::ops::{BatchNormalization, Conv, ConvTranspose, Gemm};
use onnxd_plugin_sdk::ir::{At, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn fuse_batch_norm(cx: &mut Rewriter, bn: At<BatchNormalization>) -> Rewrite {
    if cx.opset < 7 {
        return Skip::because(format!("in opset {} it is defined for training", cx.opset));
    }
    let wanted = cx.graph[bn.node].outputs.iter().flatten().count();
    if bn.training_mode != 0 || bn.spatial != 1 || wanted > 1 {
        return Skip::because("it does not normalize with constants per channel");
    }
    if let Ok(conv) = cx.sole_producer::<Conv>(bn.x) {
        let affine = GainAndBias::from_batch_norm(cx, &bn, conv.b)?;
        affine.fits(cx.ranked(conv.w, 3)?.dims()[0])?;
        let w = cx.derive_scaled(conv.w, "folded", 0, &affine.gain.values)?;
        let b = cx.derive_reals(bn.b, "folded", &affine.bias, conv.w)?;
        return cx.replace(bn.out, Conv { w, b: Some(b), ..conv.op });
    }
    if let Ok(conv) = cx.sole_producer::<ConvTranspose>(bn.x) {
        let (affine, w) = (GainAndBias::from_batch_norm(cx, &bn, conv.b)?, cx.weights(conv.w, 3)?);
        let w = scale_transposed(&w, conv.group, &affine)?;
        let w = cx.derive_reals(conv.w, "folded", &w, conv.w)?;
        let b = cx.derive_reals(bn.b, "folded", &affine.bias, conv.w)?;
        return cx.replace(bn.out, ConvTranspose { w, b: Some(b), ..conv.op });
    }
    if let Ok(fc) = cx.sole_producer::<Gemm>(bn.x) {
        if fc.beta != 1.0 && fc.c.is_some() {
            return Skip::because(format!("Gemm has beta = {}", fc.beta));
        }
        let affine = GainAndBias::from_batch_norm(cx, &bn, fc.c)?;
        let axis = if fc.transB != 0 { 0 } else { 1 };
        affine.fits(cx.ranked(fc.b, 2)?.dims()[axis])?;
        let b = cx.derive_scaled(fc.b, "folded", axis, &affine.gain.values)?;
        let c = cx.derive_reals(bn.b, "folded", &affine.bias, fc.b)?;
        return cx.replace(bn.out, Gemm { b, c: Some(c), beta: 1.0, ..fc.op });
    }
    let x = cx.name(bn.x);
    let uses = cx.graph.uses(bn.x);
    Skip::because(format!(
        "{x} is not the result of Conv, ConvTranspose or Gemm, read once ({uses})"
    ))
}

/// The normalization as `x * gain + ...`, with the bias of the operator before it worked in.
pub(crate) struct GainAndBias {
    pub(crate) gain: Reals,
    pub(crate) bias: Reals,
}

impl GainAndBias {
    pub(crate) fn from_batch_norm(
        cx: &Rewriter,
        bn: &BatchNormalization,
        bias: Option<ValueId>,
    ) -> Result<GainAndBias, Skip> {
        let [gamma, beta, mean, var] =
            [cx.reals(bn.scale)?, cx.reals(bn.b)?, cx.reals(bn.mean)?, cx.reals(bn.var)?];
        let bias = match bias {
            Some(b) => cx.reals(b)?,
            None => Reals::full(&mean.dims, 0.0),
        };
        if [&beta, &mean, &var, &bias].iter().any(|t| t.dims != gamma.dims) {
            return Skip::because("bias and normalization differ in shape");
        }
        let gain = &gamma / &(&var + f64::from(bn.epsilon)).sqrt();
        if gain.values.iter().any(|g| !g.is_finite()) {
            return Skip::because("a channel has no positive variance");
        }
        let bias = &(&(&bias - &mean) * &gain) + &beta;
        Ok(GainAndBias { gain, bias })
    }

    fn fits(&self, channels: usize) -> Rewrite {
        match self.gain.dims == [channels] {
            true => Ok(()),
            false => Skip::because(format!("{channels} channels meet {:?}", self.gain.dims)),
        }
    }
}

/// Scales the output channels of transposed-convolution weights `[C, M / group, ...]`.
fn scale_transposed(w: &Reals, group: i64, affine: &GainAndBias) -> Result<Reals, Skip> {
    let [channels, per_group] = [w.dims[0], w.dims[1]];
    let group = usize::try_from(group).ok().filter(|g| *g > 0 && channels % g == 0);
    let group = group.ok_or_else(|| Skip("the channels do not divide into its groups".into()))?;
    affine.fits(per_group * group)?;
    let kernel: usize = w.dims[2..].iter().product();
    let output = |i: usize| {
        let (c, m) = (i / (per_group * kernel), i / kernel % per_group);
        c / (channels / group) * per_group + m
    };
    let scaled = w.values.iter().enumerate().map(|(i, x)| x * affine.gain.values[output(i)]);
    Ok(Reals { dims: w.dims.clone(), values: scaled.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("fuse_batch_norm.rs"), fuse_batch_norm);
    }

    #[test]
    fn shared_convolution_is_left_alone() {
        check_skip(
            fuse_batch_norm,
            "`c` is not the result of Conv, ConvTranspose or Gemm, read once (2)",
            "g (float[1,1,4,4] x) => (float[1,1,4,4] y, float[1,1,4,4] z)
             <float[1,1,1,1] w = {2.0}, float[1] one = {1.0}>
             {
               c = Conv(x, w)
               y = BatchNormalization(c, one, one, one, one)
               z = Relu(c)
             }",
        );
    }

    #[test]
    fn grouped_transposed_convolution() {
        check_same(
            fuse_batch_norm,
            "g (float[1,2,3,3] x) => (float[1,4,3,3] y)
             <float[2,2,1,1] w = {1.0, 2.0, 3.0, 4.0}, float[4] bias = {0.5, 1.0, 1.5, 2.0},
              float[4] gamma = {1.0, 2.0, 3.0, 4.0}, float[4] beta = {0.1, 0.2, 0.3, 0.4},
              float[4] mean = {1.0, 0.0, 2.0, 0.5}, float[4] var = {4.0, 1.0, 0.25, 9.0}>
             {
               c = ConvTranspose<group = 2>(x, w, bias)
               y = BatchNormalization(c, gamma, beta, mean, var)
             }",
        );
    }

    #[test]
    fn fully_connected_in_both_layouts() {
        for (dims, attributes) in [("3,2", "<transB = 1>"), ("2,3", "")] {
            check_same(
                fuse_batch_norm,
                &format!(
                    "g (float[4,2] x) => (float[4,3] y)
                     <float[{dims}] w = {{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}},
                      float[3] gamma = {{1.0, 2.0, 3.0}}, float[3] beta = {{0.1, 0.2, 0.3}},
                      float[3] mean = {{1.0, 0.0, 2.0}}, float[3] var = {{4.0, 1.0, 0.25}}>
                     {{
                       c = Gemm{attributes}(x, w)
                       y = BatchNormalization(c, gamma, beta, mean, var)
                     }}"
                ),
            );
        }
    }
}
