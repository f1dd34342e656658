//! Attention with its projections: ONNX Runtime's `Attention` becomes `QAttention`, which projects
//! integers; its scores stay in floating point.

use super::product::{check, scales};
use super::{Site, Want};
use crate::coded::{MICROSOFT, int};
use crate::emit::Emit;
use crate::report::Form;
use crate::request::Settings;
use crate::weighted::Product;
use onnxd_ir::{Attr, Graph, Node, NodeId, Tensor};

/// Attributes of `Attention` that `QAttention` lacks.
const DROPPED: [&str; 2] = ["qkv_hidden_sizes", "rotary_embedding_dim"];

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
        let [_, columns] = *g.constant(w).map_or(&[][..], Tensor::dims) else {
            return Err("its weights are no matrix".to_owned());
        };
        let axis = Some(1);
        let made = Want::of(Product::MatMul, axis, settings);
        let weights = self.weights(g, w, Want { outputs: axis, ..made })?;
        let [xq, sx, zx] = self.activation(g, x);
        let [bias, mask, past] = [2, 3, 4].map(|slot| g[id].input(slot));
        let mut attrs = g[id].attrs.clone();
        attrs.retain(|(name, _)| !DROPPED.contains(&name.as_str()));
        self.pass.microsoft = true;
        let mut emit = Emit::replace(g, id);
        let sw = scales(&mut emit, &weights, 1.0, 0);
        let bias = bias.unwrap_or_else(|| {
            emit.constant("bias", Tensor::from_vec([columns], vec![0f32; columns]))
        });
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

/// Demands that a node has nothing that `QAttention` does not know.
fn plain(node: &Node) -> Result<(), String> {
    if [5, 6].iter().any(|slot| node.input(*slot).is_some()) {
        return Err("QAttention has no bias of scores, and no length of what went before".into());
    }
    if let Some(Attr::Ints(sizes)) = node.attr("qkv_hidden_sizes")
        && sizes.windows(2).any(|pair| pair[0] != pair[1])
    {
        return Err("QAttention has queries, keys and values of one size".into());
    }
    for flag in ["do_rotary", "past_present_share_buffer"] {
        if int(node, flag, 0) != 0 {
            return Err(format!("no kernel of QAttention has `{flag}`"));
        }
    }
    Ok(())
}
