//! The first layer of BERT: ONNX Runtime's `EmbedLayerNormalization` becomes
//! `QEmbedLayerNormalization`, whose tables are integers. It reads no activations, so that it is the
//! same with ranges of samples.

use super::{DynamicGraph, Want};
use crate::graph::quantized::MICROSOFT;
use crate::graph::weighted::EMBEDDING_TABLES;
use crate::plan::request::Settings;
use crate::report::Form;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Graph, NodeId, Tensor, ValueId};

const MASK: usize = 7;
const POSITIONS: usize = 8;

/// What the operator takes of a table: integers, scale, zero point.
type EmbeddingTable = [Option<ValueId>; 3];

impl DynamicGraph<'_, '_> {
    /// Writes embeddings; says as what, or why not.
    pub(crate) fn embeddings(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let node = &g[id];
        let used = |slot: usize| node.output(slot).is_some_and(|v| g.uses(v) > 0);
        refuse!(self.pass.form != Form::QLinear => "the standard has no embeddings on integers");
        refuse!(node.input(POSITIONS).is_some() => "QEmbedLayerNormalization counts positions by itself");
        refuse!(used(2) => "QEmbedLayerNormalization does not give the sum");
        let mut tables: Vec<EmbeddingTable> = Vec::new();
        let given = EMBEDDING_TABLES.map(|slot| g[id].input(slot));
        for v in given {
            tables.push(match v {
                Some(v) => self.embedding(g, v, settings)?,
                None => [None; 3],
            });
        }
        let part = |i: usize| tables.iter().map(move |table| table[i]);
        let node = &g[id];
        let mut inputs = vec![node.input(0), node.input(1)];
        inputs.extend(part(0));
        inputs.push(node.input(MASK));
        inputs.extend(part(1).chain(part(2)));
        self.pass.microsoft = true;
        self.stand_in(g, id, |b, node| {
            let epsilon = node.attrs.iter().filter(|(name, _)| name == "epsilon");
            let embeddings = b.op(MICROSOFT, "QEmbedLayerNormalization", inputs);
            // It always counts the words.
            let embeddings = embeddings.attrs(epsilon.cloned()).roles(["norm", "mask_index"]);
            Ok(embeddings.list(2)?.into_iter().take(node.outputs.len()).map(Some))
        })?;
        Ok("QEmbedLayerNormalization")
    }

    fn embedding(
        &mut self,
        g: &mut Graph,
        v: ValueId,
        settings: Settings,
    ) -> Result<EmbeddingTable, String> {
        let data = g.constant(v).ok_or("one of its tables is computed")?;
        refuse!(data.dtype() != DataType::Float => "a table is of {}: kernels take float32", data.dtype());
        // One scale for all: a zero point of its own spares half of the steps.
        let want = Want::table(DataType::Uint8, settings.symmetric);
        let made = self.weights(g, v, want)?;
        let name = self.name(g, v);
        let scale = Tensor::scalar(made.scales.first().map_or(1.0, |s| *s as f32));
        let scale = g.add_initializer(&format!("{name}_scale"), scale);
        let zero = made.zero.unwrap_or_else(|| {
            g.add_initializer(&format!("{name}_zero_point"), Tensor::scalar(0u8))
        });
        Ok([Some(made.integers), Some(scale), Some(zero)])
    }
}
