//! Tables that are gathered from: embeddings, which may give scores of words, too.

use super::{DynamicGraph, IntegerWeights, Want};
use crate::graph::weighted::WeightedOp;
use crate::plan::request::Settings;
use onnxd_diagnostics::refuse;
use onnxd_ir::ops::{Gemm, Op};
use onnxd_ir::{Attr, DataType, Graph, NodeId, Tensor, ValueId};

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
        let (last, real) = (data.rank() - 1, data.dtype());
        let axis = match node.attr("axis") {
            Some(Attr::Int(axis)) if *axis < 0 => axis + data.rank() as i64,
            Some(Attr::Int(axis)) => *axis,
            _ => 0,
        };
        if g.readers(table).iter().any(|id| !g[*id].is("Gather")) {
            let want = self.want_of_products(g, table).filter(|_| axis == 0);
            let want = want.ok_or("its table is read by others than Gather")?;
            return self.shared(g, id, (table, indices), want);
        }
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

    /// How products want the rows of a table, if all that read it beside `Gather` are `Gemm` that turn it, and if they
    /// want the same.
    fn want_of_products(&self, g: &Graph, table: ValueId) -> Option<Want> {
        let mut wants = vec![];
        for id in g.readers(table).iter().copied().filter(|id| !g[*id].is("Gather")) {
            let op = Gemm::view(&g[id]).filter(|op| op.b == table && op.transB != 0)?;
            if op.a == table || op.c == Some(table) || self.floats.contains(&id) {
                return None;
            }
            wants.push(Want::of_gemm(&op, self.pass.request.settings_for(g, &g[id])?));
        }
        wants.dedup();
        <[Want; 1]>::try_from(wants).ok().map(|[want]| want)
    }

    /// `Gather(table, i)` by the integers that products of the table read: these lie turned, so columns are gathered,
    /// with their own scale and zero point each.
    fn shared(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        (table, indices): (ValueId, ValueId),
        want: Want,
    ) -> Result<&'static str, String> {
        let rank = g[indices].ty.as_ref().and_then(|ty| ty.shape()).map(|shape| shape.len() as i64);
        let rank = rank.ok_or("the rank of its indices is not known")?;
        refuse!(g.constant(table).is_none_or(|t| t.dtype() != DataType::Float || t.rank() != 2) =>
            "its table is no matrix of float32");
        let IntegerWeights { integers, zero, scales } = self.weights(g, table, want)?;
        let zeros = zero.and_then(|zero| g.constant(zero)).map_or(0, Tensor::rank);
        self.stand_in(g, id, |b, _| {
            let perm: Vec<i64> = (1..=rank).chain([0]).collect();
            let columns = b.gather(integers, indices).axis(1).role("integer").one()?;
            let rows = b.transpose(columns).perm(perm).role("rows").one()?;
            // One for all, or one for each index.
            let each = |v, is_row: bool| match is_row {
                true => b.unsqueeze(b.gather(v, indices).one()?, vec![-1]),
                false => Ok(v),
            };
            let mut reals = b.cast(rows, DataType::Float)?;
            if let Some(zero) = zero {
                let zero = b.cast(b.var(zero), DataType::Float)?;
                reals = b.sub(reals, each(zero, zeros == 1)?)?;
            }
            let is_row = scales.len() > 1;
            let values: Vec<f32> = scales.iter().map(|scale| *scale as f32).collect();
            let dims = if is_row { vec![values.len()] } else { vec![] };
            let scale = b.parameter("scale", Tensor::from_vec(dims, values));
            Ok([b.mul(reals, each(scale, is_row)?)?])
        })?;
        Ok("Gather of the integers of products")
    }
}

impl Want {
    /// What `Gemm` wants of its weights.
    pub(crate) fn of_gemm(op: &Gemm, settings: Settings) -> Want {
        let transposed = op.transB != 0;
        let outputs = Some(usize::from(!transposed));
        let want = Want::from_settings(WeightedOp::Gemm, outputs, settings);
        Want { transposed, outputs, ..want }
    }
}
