//! Recurrent layers: `LSTM` becomes ONNX Runtime's `DynamicQuantizeLSTM`, which makes integers of its
//! input and of its state while it runs.

use super::DynamicGraph;
use crate::graph::quantized::MICROSOFT;
use crate::plan::request::Settings;
use crate::range::integers;
use crate::range::weights::{Rule, per_channel};
use crate::report::Form;
use onnxd_build::Operand;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Graph, NodeId, Tensor, ValueId};

/// Weights of all directions and gates as the operator takes them.
struct Gates {
    /// `[directions, inputs, gates]`.
    integers: Tensor,
    /// One for each direction, or for each of its gates.
    scales: Tensor,
    zeros: Tensor,
}

impl DynamicGraph<'_, '_> {
    /// Writes a recurrent layer; says as what, or why not.
    pub(crate) fn lstm(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        settings: Settings,
    ) -> Result<&'static str, String> {
        let node = &g[id];
        refuse!(self.pass.form != Form::QLinear => "the standard has no LSTM on integers");
        refuse!(node.int("layout", 0) != 0 => "its batch comes first, which DynamicQuantizeLSTM does not know");
        let weights = [1, 2].map(|slot| node.input(slot));
        let [Some(w), Some(r)] = weights else { return Err("it has no weights".to_owned()) };
        let (mut inputs, mut attrs) = (node.inputs.clone(), node.attrs.clone());
        attrs.retain(|(name, _)| name != "layout");
        let made = [self.gates(g, w, settings)?, self.gates(g, r, settings)?];
        self.stale.extend([w, r]);
        self.pass.microsoft = true;
        self.stand_in(g, id, |b, node| {
            // Sequence lengths, first states and peepholes come between.
            inputs.resize(8, None);
            let mut inputs: Vec<Operand> = inputs.into_iter().map(Operand::from).collect();
            for (slot, (role, gates)) in [1, 2].into_iter().zip(["w", "r"].into_iter().zip(made)) {
                let constant = |part, data| b.parameter(&format!("{role}{part}"), data).into();
                inputs[slot] = constant("", gates.integers);
                inputs.extend([constant("_scale", gates.scales), constant("_zero", gates.zeros)]);
            }
            b.op(MICROSOFT, "DynamicQuantizeLSTM", inputs).attrs(attrs).outputs_of(node)
        })?;
        Ok("DynamicQuantizeLSTM")
    }

    /// `[directions, gates, inputs]` as integers, symmetric because kernels demand it.
    fn gates(&mut self, g: &Graph, v: ValueId, settings: Settings) -> Result<Gates, String> {
        let data = g.constant(v).ok_or("its weights are computed")?;
        refuse!(data.dtype() != DataType::Float => "its weights are not of float32");
        let [directions, gates, width] = *data.dims() else {
            return Err("its weights lack axes".to_owned());
        };
        let groups = if settings.per_channel { directions * gates } else { directions };
        refuse!(data.is_empty() || groups == 0 => "its weights are empty");
        let rule = Rule::new(DataType::Int8, true, settings.reduce_range);
        let rule = Rule { search: false, ..rule.ok_or("its weights have no type")? };
        let rows = data.reshaped(vec![groups, data.len() / groups]).map_err(|e| e.to_string())?;
        let gate_integers = per_channel(&rows, 0, rule)?;
        let gate_integers = if settings.named { gate_integers } else { gate_integers.exact() };
        let name = self.name(g, v);
        self.pass.done.tensors.push(gate_integers.row(&name));
        let mut turned = Vec::with_capacity(data.len());
        for direction in gate_integers.integers.bytes().chunks(gates * width) {
            let column = |k: usize| direction.iter().skip(k).step_by(width).copied();
            (0..width).for_each(|k| turned.extend(column(k)));
        }
        let dtype = gate_integers.integers.dtype();
        let turned = Tensor::new(dtype, vec![directions, width, gates], turned.into());
        let dims = if settings.per_channel { vec![directions, gates] } else { vec![directions] };
        let scales = gate_integers.scales.iter().map(|s| s.scale as f32).collect();
        let zeros: Vec<i64> = gate_integers.scales.iter().map(|s| s.zero_point).collect();
        let zeros = integers(dtype, &dims, &zeros).ok_or("its zero points have no tensor")?;
        let integers = turned.map_err(|e| e.to_string())?;
        Ok(Gates { integers, scales: Tensor::from_vec(dims, scales), zeros })
    }
}
