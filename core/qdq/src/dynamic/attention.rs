//! Attention with its projections: ONNX Runtime's `Attention` becomes `QAttention`, which projects
//! integers; its scores stay in floating point.

use super::product::{check, scales};
use super::{Site, Want};
use crate::coded::MICROSOFT;
use crate::emit::Emit;
use crate::forms::attention::{DROPPED, no_bias, plain};
use crate::report::Form;
use crate::request::Settings;
use crate::weighted::Product;
use onnxd_ir::{Graph, Node, NodeId, Tensor};

impl Site<'_, '_> {
    /// Writes attention; says as what, or why not.
    pub(super) fn attention(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
    ) -> Result<&'static str, String> {
        if self.pass.form != Form::QLinear {
            return Err("the standard has no attention with its projections".to_owned());
        }
        let node = &g[id];
        plain(node)?;
        let missing = || "it has no input or no weights".to_owned();
        let x = node.input(0).ok_or_else(missing)?;
        let w = node.input(1).ok_or_else(missing)?;
        check(g, w)?;
        if g.constant(w).map(Tensor::rank) != Some(2) {
            return Err("its weights are no matrix".to_owned());
        }
        let axis = Some(1);
        let made = Want::of(Product::MatMul, axis, settings);
        let weights = self.weights(g, w, Want { outputs: axis, ..made })?;
        let [xq, sx, zx] = self.activation(g, x);
        let [bias, mask, past] = [2, 3, 4].map(|slot| g[id].input(slot));
        let mut attrs = g[id].attrs.clone();
        attrs.retain(|(name, _)| !DROPPED.contains(&name.as_str()));
        self.pass.microsoft = true;
        let bias = match bias {
            Some(bias) => bias,
            None => no_bias(g, weights.integers)?,
        };
        let mut emit = Emit::replace(g, id);
        let sw = scales(&mut emit, &weights, 1.0, 0);
        let mut made = Node::new("QAttention", [xq, weights.integers, bias, sx, sw], []);
        made.inputs.extend([mask, Some(zx), weights.zero, past]);
        while made.inputs.last() == Some(&None) {
            made.inputs.pop();
        }
        (made.domain, made.attrs) = (MICROSOFT.to_owned(), attrs);
        emit.last(made);
        Ok("QAttention")
    }
}
