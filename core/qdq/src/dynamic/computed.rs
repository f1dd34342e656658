//! Products of two activations: both have the range that they have at run time.

use super::product::cast;
use super::{SUM_MAX, Site};
use crate::coded::{MICROSOFT, dtype_of};
use crate::emit::Emit;
use crate::report::Form;
use onnxd_ir::{DataType, Graph, Node, NodeId, ValueId, ValueType};

impl Site<'_, '_> {
    /// Writes `MatMul` of two computed factors; says as what, or why not.
    pub(super) fn computed(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        (a, b): (ValueId, ValueId),
    ) -> Result<&'static str, String> {
        if [a, b].iter().any(|v| dtype_of(g, *v) != Some(DataType::Float)) {
            return Err("DynamicQuantizeLinear takes float32, and its factors are not".to_owned());
        }
        let of_zero = i64::from(u8::MAX);
        if summed(g, a, b).is_none_or(|n| n > SUM_MAX / of_zero) {
            return Err("32 bits may not hold sums of so many products".to_owned());
        }
        let ([aq, sa, za], [bq, sb, zb]) = (self.activation(g, a), self.activation(g, b));
        let integer = self.pass.form == Form::QLinear;
        self.pass.microsoft |= integer;
        let mut emit = Emit::replace(g, id);
        if integer {
            let mut made = Node::new("MatMulIntegerToFloat", [aq, bq, sa, sb, za, zb], []);
            made.domain = MICROSOFT.to_owned();
            emit.last(made);
            return Ok("MatMulIntegerToFloat");
        }
        let sum = emit.op("MatMulInteger", &[aq, bq, za, zb], "integer");
        let real = cast(&mut emit, sum);
        let scale = emit.op("Mul", &[sa, sb], "scales");
        emit.last(Node::new("Mul", [real, scale], []));
        Ok("MatMulInteger")
    }
}

/// How many products are summed.
fn summed(g: &Graph, a: ValueId, b: ValueId) -> Option<i64> {
    let dims = |v: ValueId| g[v].ty.as_ref().and_then(ValueType::shape);
    let last = || dims(a)?.last()?.known();
    let first = || {
        let dims = dims(b)?;
        dims.get(dims.len().saturating_sub(2))?.known()
    };
    last().or_else(first)
}
