//! Tables that are only gathered from: embeddings.

use super::{DynamicGraph, Want};
use crate::plan::request::Settings;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Graph, NodeId, Tensor};

/// Elements of a table below which integers save nothing that counts.
const TABLE_MIN: usize = 4096;

impl DynamicGraph<'_, '_> {
    /// `Gather(table, i)` becomes `DequantizeLinear(Gather(integers, i))`, with a scale for each
    /// column of the table where columns stay together. An empty reason is none worth telling.
    pub(crate) fn table(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let node = &g[id];
        let (Some(table), Some(indices)) = (node.input(0), node.input(1)) else {
            return Err(String::new());
        };
        let data = g.constant(table).filter(|t| t.dtype().is_float());
        let Some(data) = data.filter(|t| t.rank() >= 2 && t.len() >= TABLE_MIN) else {
            let named = data.is_some() && self.pass.request.names("Gather");
            let why = format!("its table has less than {TABLE_MIN} elements, or one axis");
            return Err(if named { why } else { String::new() });
        };
        refuse!(g.readers(table).iter().any(|id| !g[*id].is("Gather")) =>
            "its table is read by others than Gather");
        let (last, real) = (data.rank() - 1, data.dtype());
        let axis = match node.attr("axis") {
            Some(Attr::Int(axis)) if *axis < 0 => axis + data.rank() as i64,
            Some(Attr::Int(axis)) => *axis,
            _ => 0,
        };
        let columns = (settings.per_channel && axis != last as i64).then_some(last);
        let symmetric = settings.symmetric || settings.weight == DataType::Int8;
        let want = Want { axis: columns, ..Want::table(settings.weight, symmetric) };
        let weights = self.weights(g, table, want)?;
        let steps = match columns {
            Some(_) => weights.scales(1.0, 0).reshaped(vec![weights.scales.len()]),
            None => Ok(Tensor::scalar(weights.scales[0] as f32)),
        };
        let steps = steps.map_err(|e| e.to_string())?;
        self.stand_in(g, id, |b, _| {
            let scale = b.parameter("scale", steps);
            let rows = b.gather(weights.integers, indices).axis(axis).role("integer").one()?;
            let reals = b.dequantize_linear(rows, scale).x_zero_point(weights.zero);
            let reals = if columns.is_some() { reals.axis(-1) } else { reals };
            match real {
                DataType::Float => Ok([reals.one()?]),
                real => Ok([b.cast(reals.role("float32").one()?, real)?]),
            }
        })?;
        Ok("Gather of integers")
    }
}
