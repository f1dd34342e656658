//! Attention with its projections: ONNX Runtime's `Attention` becomes `QAttention`, which projects
//! integers; its scores stay in floating point.

use super::weighted::check;
use super::{DynamicGraph, Want};
use crate::emit::forms::attention::{DROPPED, no_bias, plain};
use crate::graph::quantized::MICROSOFT;
use crate::graph::weighted::WeightedOp;
use crate::plan::request::Settings;
use crate::report::Form;
use onnxd_build::Operand;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Graph, NodeId, Tensor};

impl DynamicGraph<'_, '_> {
    /// Writes attention; says as what, or why not.
    pub(crate) fn attention(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
    ) -> Result<&'static str, String> {
        refuse!(self.pass.form != Form::QLinear => "the standard has no attention with its projections");
        let node = &g[id];
        plain(node)?;
        let missing = || "it has no input or no weights".to_owned();
        let x = node.input(0).ok_or_else(missing)?;
        let w = node.input(1).ok_or_else(missing)?;
        check(g, w)?;
        refuse!(g.constant(w).map(Tensor::rank) != Some(2) => "its weights are no matrix");
        let axis = Some(1);
        let made = Want::from_settings(WeightedOp::MatMul, axis, settings);
        let weights = self.weights(g, w, Want { outputs: axis, ..made })?;
        let [xq, sx, zx] = self.activation(g, x)?;
        let [bias, mask, past] = [2, 3, 4].map(|slot| g[id].input(slot));
        let mut attrs = g[id].attrs.clone();
        attrs.retain(|(name, _)| !DROPPED.contains(&name.as_str()));
        self.pass.microsoft = true;
        let bias = match bias {
            Some(bias) => bias,
            None => no_bias(g, weights.integers)?,
        };
        self.stand_in(g, id, |b, node| {
            let sw = b.parameter("weight_scale", weights.scales(1.0, 0));
            let inputs = [xq, weights.integers, bias].map(Operand::from).into_iter();
            let attention = b.op(MICROSOFT, "QAttention", inputs.chain([sx.into(), sw.into()]));
            let attention = attention.attrs(attrs).set("input_zero_point", zx);
            let attention = attention.set("weight_zero_point", weights.zero);
            attention.set("mask_index", mask).set("past", past).outputs_of(node)
        })?;
        Ok("QAttention")
    }
}
