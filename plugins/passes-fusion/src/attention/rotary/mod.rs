//! Makes RotaryEmbedding of its parts. Cosines and sines, which networks have for each element, are then there once for
//! each pair, and all rotations by them share them.
//!
//! ```onnx
//! <ir_version: 11, opset_import: ["" : 23]>
//! before (float[N,3,8] x, float[1,3,2] angles) => (float[N,2,3,4] y)
//! <int64[4] apart = {0, 0, 2, 4}, int64[1] heads = {1}>
//! {
//!   split = Reshape(x, apart)
//!   h = Transpose<perm = [0, 2, 1, 3]>(split)
//!   twice = Concat<axis = -1>(angles, angles)
//!   c = Cos(twice)
//!   cos = Unsqueeze(c, heads)
//!   s = Sin(twice)
//!   sin = Unsqueeze(s, heads)
//!   a, b = Split<axis = 3, num_outputs = 2>(h)
//!   minus = Neg(b)
//!   turned = Concat<axis = -1>(minus, a)
//!   straight = Mul(h, cos)
//!   across = Mul(turned, sin)
//!   y = Add(straight, across)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 11, opset_import: ["" : 23]>
//! after (float[N,3,8] x, float[1,3,2] angles) => (float[N,2,3,4] y)
//! <int64[4] apart = {0, 0, 2, 4}, int64[2] y_constant = {1, 1}>
//! {
//!   y_cos = Cos(angles)
//!   y_sin = Sin(angles)
//!   y_shape = Shape<end = 1>(x)
//!   y_concat = Concat<axis = 0>(y_shape, y_constant)
//!   y_expand = Expand(y_cos, y_concat)
//!   y_expand_1 = Expand(y_sin, y_concat)
//!   y_rotary_embedding = RotaryEmbedding<num_heads = 2>(x, y_expand, y_expand_1)
//!   y_reshape = Reshape(y_rotary_embedding, apart)
//!   y = Transpose<perm = [0, 2, 1, 3]>(y_reshape)
//! }
//! ```

mod angles;
mod form;

use crate::parts::{needs, of_type};
use angles::{Angles, Repeat};
use form::{Heads, Rotation, rotation};
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Result as Built, Var};
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::ops::Add;
use onnxd_plugin_sdk::ir::{At, DataType, Dim, Graph, Model, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Rewrite, Rewriter, Skip};
use std::collections::BTreeMap;

/// How many nodes a rotation has at least.
const PARTS: usize = 6;

pub(crate) fn pass() -> Box<dyn Pass> {
    Box::new(FuseRotary { name: "fuse-rotary-embedding", domain: None })
}

/// The same with ONNX Runtime's operator, which is in `domain` and which older models may have, too.
pub(crate) fn microsoft(domain: &'static str) -> Box<dyn Pass> {
    Box::new(FuseRotary { name: "rotary", domain: Some(domain) })
}

struct FuseRotary {
    name: &'static str,
    /// That of ONNX Runtime's operator; `None` for the one of the standard.
    domain: Option<&'static str>,
}

impl Pass for FuseRotary {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        model.for_each_graph_mut(&mut |graph, opset| self.fuse(graph, opset, cx));
        Ok(())
    }
}

/// Cosines, sines and the number of batches: what rotations share.
type RotationTables = (ValueId, ValueId, String);

impl FuseRotary {
    fn fuse(&self, graph: &mut Graph, opset: i64, cx: &mut PassContext) {
        let mut groups: BTreeMap<RotationTables, Vec<Rotation>> = BTreeMap::new();
        let rewriter = Rewriter::new(graph, opset);
        for id in rewriter.graph.node_ids() {
            let Some(add) = At::<Add>::find(rewriter.graph, id) else { continue };
            match rotation(&rewriter, &add).and_then(|r| self.fits(&rewriter, &r).map(|()| r)) {
                Ok(r) => {
                    let shared = (r.cos, r.sin, format!("{:?}", r.heads.batch));
                    groups.entry(shared).or_default().push(r);
                }
                Err(why) if why.0.is_empty() => {}
                Err(why) => cx.skip(&rewriter.graph[add.out].name.clone(), why),
            }
        }
        for group in groups.into_values() {
            let at = graph[group[0].out].name.clone();
            if let Err(why) = self.rewrite(graph, opset, &group, cx) {
                cx.skip(&at, why);
            }
        }
    }

    fn fits(&self, cx: &Rewriter, r: &Rotation) -> Rewrite {
        if self.domain.is_none() {
            needs(cx, "RotaryEmbedding", 23)?;
        }
        // Runtimes have kernels for these types only.
        of_type(cx, r.out, &[DataType::Float, DataType::Float16])?;
        match r.partial && r.heads.count.is_none() {
            true => Skip::because("the number of heads is not known"),
            false => Ok(()),
        }
    }

    /// Rotations by the same angles.
    fn rewrite(
        &self,
        graph: &mut Graph,
        opset: i64,
        group: &[Rotation],
        cx: &mut PassContext,
    ) -> Rewrite {
        let rewriter = Rewriter::new(graph, opset);
        let angles = self.angles(&rewriter, group)?;
        let mut shared = None;
        for r in group {
            if cx.fuel.is_empty() {
                break;
            }
            let mut rewriter = Rewriter::new(graph, opset);
            let done = rewriter.rebuild(r.out, |b| {
                let inputs = match shared {
                    Some(inputs) => inputs,
                    None => *shared.insert(self.shared(b, &angles, &r.heads)?),
                };
                self.rotated(b, r, inputs)
            });
            done?;
            rewriter.finish();
            cx.rewrote();
        }
        Ok(())
    }

    /// The angles of a group, if the result is not larger.
    fn angles(&self, cx: &Rewriter, group: &[Rotation]) -> Result<Rotated, Skip> {
        let first = &group[0];
        let [cos, sin] = [first.cos, first.sin].map(|v| Angles::find(cx, v, first));
        let (cos, sin) = (cos?, sin?);
        if !cos.batch().same(&sin.batch()) {
            return Skip::because("sines and cosines differ in shape");
        }
        let repeat = match self.domain {
            None => Repeat::find(cx, &cos, &first.heads)?,
            Some(_) if cos.batch() == Dim::Known(1) => Repeat::Not,
            Some(_) => return Skip::because("the angles differ between batches"),
        };
        let alone = [first.cos, first.sin].iter().all(|v| cx.graph.uses(*v) == group.len());
        let chains = cos.cost() + sin.cost();
        // Squeeze of both, or Expand of both.
        let more = if self.domain.is_some() { 2 } else { repeat.cost() };
        let gone = group.len() * (PARTS - 1) + if alone { chains + 2 } else { 0 };
        if chains + more > gone {
            return Skip::because(format!(
                "{} rotations would need {more} more nodes",
                group.len()
            ));
        }
        if let Angles::Constant(tensor) = &cos {
            let positions = match repeat {
                Repeat::Rows(n) => n.saturating_mul(8 * tensor.dims()[1] as i64),
                _ => 0,
            };
            if !alone || positions > 2 * tensor.byte_len() as i64 {
                return Skip::because("the angles would need more bytes than before");
            }
        }
        Ok(Rotated { cos, sin, repeat })
    }

    /// Adds the angles as the operator reads them.
    fn shared(&self, b: &GraphBuilder, angles: &Rotated, heads: &Heads) -> Built<AngleInputs> {
        let Rotated { cos, sin, repeat } = angles;
        let rows = |angles: &Angles| b.id(angles.build(b, true)?);
        let words = heads.words.known().unwrap_or(0);
        if self.domain.is_some() {
            let first = b.constant(Tensor::from_vec([1], vec![0i64]));
            return Ok(AngleInputs {
                cos: rows(cos)?,
                sin: rows(sin)?,
                positions: Some(b.id(first)?),
            });
        }
        if let Repeat::Rows(n) = repeat {
            let all = (0..*n).flat_map(|_| 0..words).collect::<Vec<i64>>();
            let all = b.constant(Tensor::from_vec([*n as usize, words as usize], all));
            return Ok(AngleInputs {
                cos: rows(cos)?,
                sin: rows(sin)?,
                positions: Some(b.id(all)?),
            });
        }
        let (cos, sin) = (cos.build(b, false)?, sin.build(b, false)?);
        let sizes = match repeat {
            Repeat::Known(n) => b.constant(Tensor::from_vec([3], vec![*n, 1, 1])),
            Repeat::Input(v, axis) => {
                let axis = *axis as i64;
                let batch = b.shape(b.var(*v)).start(axis).end(axis + 1).one()?;
                let ones = b.constant(Tensor::from_vec([2], vec![1i64, 1]));
                b.concat([batch, ones]).axis(0).one()?
            }
            _ => return Ok(AngleInputs { cos: b.id(cos)?, sin: b.id(sin)?, positions: None }),
        };
        let (cos, sin) = (b.expand(cos, sizes)?, b.expand(sin, sizes)?);
        Ok(AngleInputs { cos: b.id(cos)?, sin: b.id(sin)?, positions: None })
    }

    /// The rotation by angles that are in the graph.
    fn rotated(&self, b: &GraphBuilder, r: &Rotation, by: AngleInputs) -> Built<Var> {
        let heads = &r.heads;
        let x = heads.together.unwrap_or(heads.x);
        let count = heads.count.filter(|_| r.partial || heads.together.is_some());
        let turned = match self.domain {
            Some(domain) => {
                let inputs = [Operand::from(x), by.positions.into(), by.cos.into(), by.sin.into()];
                let call = b.op(domain, "RotaryEmbedding", inputs);
                // Without elements that stay, the angles say how many a head has.
                let call = call.set("num_heads", count.filter(|_| r.partial));
                let call = call.set("interleaved", r.interleaved.then_some(true));
                call.set("rotary_embedding_dim", r.partial.then_some(r.width)).one()?
            }
            None => {
                let call = b.rotary_embedding(x, by.cos, by.sin).position_ids(by.positions);
                let call = call.num_heads(count).interleaved(r.interleaved.then_some(true));
                call.rotary_embedding_dim(r.partial.then_some(r.width)).one()?
            }
        };
        if heads.together.is_none() {
            return Ok(turned);
        }
        let (reshape, transpose) = heads.apart(&b.graph());
        let shape = reshape.input(1);
        let apart = b.again(&reshape, [Operand::from(turned), shape.into()]).one()?;
        match transpose {
            Some(transpose) => b.again(&transpose, [apart]).one(),
            None => Ok(apart),
        }
    }
}

/// Angles as the operator reads them, before they are in the graph.
struct Rotated {
    cos: Angles,
    sin: Angles,
    repeat: Repeat,
}

/// Angles in the graph.
#[derive(Clone, Copy)]
struct AngleInputs {
    cos: ValueId,
    sin: ValueId,
    positions: Option<ValueId>,
}

#[cfg(test)]
mod tests;
