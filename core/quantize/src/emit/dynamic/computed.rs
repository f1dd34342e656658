//! Products of two activations: both have the range that they have at run time.

use super::weighted::{bias_of, conv_integer, real};
use super::{DynamicGraph, SUM_MAX};
use crate::graph::quantized::{MICROSOFT, dtype_of, rank_of};
use crate::report::Form;
use onnxd_diagnostics::refuse;
use onnxd_ir::ops::Conv;
use onnxd_ir::{DataType, Dim, Graph, NodeId, ValueId};

impl DynamicGraph<'_, '_> {
    /// Writes `MatMul` of two computed factors; says as what, or why not.
    pub(crate) fn computed(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        (a, b): (ValueId, ValueId),
    ) -> Result<&'static str, String> {
        check([a, b].map(|v| dtype_of(g, v)), summed(g, a, b))?;
        let ([aq, sa, za], [bq, sb, zb]) = (self.activation(g, a)?, self.activation(g, b)?);
        let integer = self.pass.form == Form::QLinear;
        self.pass.microsoft |= integer;
        self.stand_in(g, id, |b, _| match integer {
            true => {
                let op = "MatMulIntegerToFloat";
                Ok([b.op(MICROSOFT, op, [aq, bq, sa, sb, za, zb]).one()?])
            }
            false => {
                let sum = b.mat_mul_integer(aq, bq).a_zero_point(za).b_zero_point(zb);
                Ok([real(b, sum.role("integer").one()?, [sa, sb], None)?])
            }
        })?;
        Ok(if integer { "MatMulIntegerToFloat" } else { "MatMulInteger" })
    }
}

impl DynamicGraph<'_, '_> {
    /// Writes `Conv` of computed weights; says as what, or why not.
    pub(crate) fn computed_conv(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        op: &Conv,
    ) -> Result<&'static str, String> {
        let summed = || {
            let dims = g[op.w].shape()?;
            let known = dims.get(1..)?.iter().map(Dim::known);
            known.into_iter().try_fold(1i64, |size, dim| size.checked_mul(dim?))
        };
        check([op.x, op.w].map(|v| dtype_of(g, v)), summed())?;
        let rank = rank_of(g, op.w).and_then(|rank| rank.checked_sub(2));
        let bias = bias_of(g, op, rank.ok_or("its weights lack axes")?)?;
        let ([xq, sx, zx], [wq, sw, zw]) = (self.activation(g, op.x)?, self.activation(g, op.w)?);
        self.stale.extend(op.b);
        self.stand_in(g, id, |b, node| {
            let sum = conv_integer(b, node, [xq, wq, zx], Some(zw))?;
            let bias = bias.map(|bias| b.parameter("bias", bias));
            Ok([real(b, sum, [sx, sw], bias)?])
        })?;
        Ok("ConvInteger")
    }
}

/// Demands reals, and sums of so few products that 32 bits hold them.
fn check(types: [Option<DataType>; 2], summed: Option<i64>) -> Result<(), String> {
    refuse!(types != [Some(DataType::Float); 2] => "DynamicQuantizeLinear takes float32, and its factors are not");
    match summed {
        None => Err("it is not known how many products it sums".to_owned()),
        Some(n) if n > SUM_MAX / i64::from(u8::MAX) => {
            Err("32 bits may not hold accumulators of so many terms".to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// How many products are summed.
fn summed(g: &Graph, a: ValueId, b: ValueId) -> Option<i64> {
    let dims = |v: ValueId| g[v].shape();
    let last = || dims(a)?.last()?.known();
    let first = || {
        let dims = dims(b)?;
        dims.get(dims.len().saturating_sub(2))?.known()
    };
    last().or_else(first)
}
