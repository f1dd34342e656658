//! Writes the integer graph: every cell's float nodes give way to nodes on integers that compute
//! the value of the same name.

mod branches;
mod proof;
mod rescale;
#[cfg(test)]
mod tests;
mod types;
mod weighted;

pub use types::Casting;

use crate::plan::{
    Activation, Cell, CellInput, CellKind, CellNetwork, CellPlan, How, IntegerPlan, Output,
    Rescale, bounds,
};
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, Layer};
use onnxd_plugin_sdk::ir::{Attr, DataType, Dim, Graph, Layers, Model, Node, ValueId};
use rescale::{Accumulator, raised, rescale, rounded, saturate, saturation, storage};
use std::cell::RefCell;
use std::collections::HashMap;
use types::{Refusal, Result, Types};

/// First version of the standard's operators with `Clip` and `MaxPool` on integers.
const OPSET_MIN: i64 = 12;
/// From here on `1 / (2 · window)` gets lost in the float32 mean of eight bits.
const WINDOW_MAX: i64 = 1 << 13;

/// Operators that runtimes have for integers of 16 bits.
const ANY_TYPE: &[&str] =
    &["Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"];

/// The model in integers, and what is known about it.
#[derive(Debug)]
pub struct IntegerModel {
    /// The model.
    pub model: Model,
    /// Largest magnitude that an accumulator can reach, per cell.
    pub accumulators: Vec<Option<i64>>,
    /// What the user should know.
    pub remarks: Vec<String>,
}

/// Writes `network` with the integers of `plan`.
///
/// # Errors
/// Every cell that has no form in integers, with its layer.
pub fn write(
    network: &CellNetwork,
    plan: &IntegerPlan,
    casting: Casting,
) -> std::result::Result<IntegerModel, Diagnostics> {
    let mut model = network.model.clone();
    if model.opset() < OPSET_MIN {
        let text =
            format!("opset {} has no clipping of integers; it takes {OPSET_MIN}", model.opset());
        return Err(Diagnostic::new(Code::FeatureUnsupported, text).into());
    }
    let graph = std::mem::replace(&mut model.graph, Graph::new(""));
    let builder = GraphBuilder::new(graph, model.opsets.clone());
    let builder = builder.without_folding().untyped().with_node_names();
    let builder = if casting == Casting::Implicit { builder.unchecked() } else { builder };
    let mut writer = Writer {
        network,
        plan,
        t: Types { b: &builder, casting, remarks: RefCell::default() },
        floats: HashMap::new(),
        accumulators: vec![None; network.cells.len()],
    };
    writer.inputs();
    let mut problems = Diagnostics::default();
    for index in 0..network.cells.len() {
        let cell = &network.cells[index];
        let layers = writer.layers(cell);
        let done = builder.in_layers(layers.clone(), &cell.name, |_| writer.cell(index));
        if let Err(why) = done {
            let layer = layers.first().cloned();
            let layer = layer.unwrap_or_else(|| Layer::new(&cell.name, format!("{:?}", cell.kind)));
            let text = format!("`{}` cannot be written in integers: {}", cell.name, why.0);
            problems.push(Diagnostic::new(Code::FeatureUnsupported, text).at(layer));
        }
    }
    let Writer { t, accumulators, .. } = writer;
    let remarks = t.remarks.into_inner();
    model.graph = builder.finish();
    problems.or_ok(IntegerModel { model, accumulators, remarks })
}

pub(crate) struct Writer<'n> {
    pub(crate) network: &'n CellNetwork,
    pub(crate) plan: &'n IntegerPlan,
    t: Types<'n>,
    /// Real values of integers, where something is computed in float.
    floats: HashMap<CellInput, Var>,
    accumulators: Vec<Option<i64>>,
}

impl Writer<'_> {
    fn inputs(&mut self) {
        let inputs = self.t.b.graph().inputs().to_vec();
        for (input, output) in inputs.into_iter().zip(&self.plan.inputs) {
            self.t.retype(input, storage(*output));
        }
    }

    /// The value that holds what `source` computes.
    pub(crate) fn value(&self, source: CellInput) -> ValueId {
        match source {
            CellInput::Input(i) => self.t.b.graph().inputs()[i],
            CellInput::Cell(i) => self.network.cells[i].output,
        }
    }

    /// How `source` is represented, if in integers.
    pub(crate) fn represented(&self, source: CellInput) -> Option<Output> {
        match source {
            CellInput::Input(i) => self.plan.inputs.get(i).copied(),
            CellInput::Cell(i) => self.plan.cells[i].output,
        }
    }

    /// The layers of a cell; of one in integers that of its last node, which it is called by, first.
    fn layers(&self, cell: &Cell) -> Layers {
        let graph = self.t.b.graph();
        let mut nodes: Vec<&Node> = cell.nodes.iter().filter_map(|id| graph.node(*id)).collect();
        if cell.kind != CellKind::Float {
            nodes.reverse();
        }
        nodes.into_iter().map(|node| node.layers.clone()).collect()
    }

    fn cell(&mut self, index: usize) -> Result<()> {
        let (network, plan) = (self.network, self.plan);
        let (cell, plan) = (&network.cells[index], &plan.cells[index]);
        match cell.kind {
            CellKind::Float => self.float(cell, plan),
            _ => self.integer(index, cell, plan),
        }
    }

    fn integer(&mut self, index: usize, cell: &Cell, plan: &CellPlan) -> Result<()> {
        let Some(output) = plan.output else { return self.dequantized(index, cell, plan) };
        let inputs = self.operands(cell, plan)?;
        let node = self.take(cell);
        let to = storage(output);
        let accumulator = match cell.kind {
            CellKind::Conv | CellKind::Fc => {
                let integers = plan.integers.as_ref().ok_or("it has no integer weights")?;
                self.weighted(cell, node, inputs[0], integers)?
            }
            CellKind::AveragePool => self.average(cell, node, inputs[0])?,
            CellKind::Sum | CellKind::Max => branches::elementwise(&self.t, cell.kind, &inputs)?,
            CellKind::Concat => branches::concat(&self.t, &node, &inputs, to, output)?,
            CellKind::MaxPool | CellKind::Layout => self.moved(node, inputs[0])?,
            CellKind::Activation | CellKind::Float => inputs[0],
        };
        if matches!(cell.kind, CellKind::Conv | CellKind::Fc | CellKind::Sum) {
            self.accumulators[index] = Some(accumulator.max);
        }
        let rectifier = matches!(cell.activation, Activation::Rectifier { .. });
        let range = saturation(output.bits, output.signed, rectifier);
        let t = &self.t;
        let result = match &plan.rescale {
            Some(how) => rescale(t, accumulator, &how.how, range, to)?,
            None => saturate(t, accumulator, range, to)?,
        };
        t.retype(cell.output, to);
        Ok(t.settle(result, cell.output)?)
    }

    /// A weighted operator on integers whose result is real.
    fn dequantized(&mut self, index: usize, cell: &Cell, plan: &CellPlan) -> Result<()> {
        let (Some(integers), Some(Rescale { how: How::FloatingPoint(factors), .. })) =
            (&plan.integers, &plan.rescale)
        else {
            return Err("nothing says how its result is represented".into());
        };
        let input = self.operands(cell, plan)?[0];
        let node = self.take(cell);
        let acc = self.weighted(cell, node, input, integers)?;
        self.accumulators[index] = Some(acc.max);
        let (t, b) = (&self.t, self.t.b);
        let x = t.cast(acc.value, acc.dtype, DataType::Float, "act_icast")?;
        let factors = t.reals(factors, acc.axes.unwrap_or(0), "act_w");
        let x = b.named("act_scaled", b.mul(x, factors)?);
        let bounds = match cell.activation {
            Activation::Linear => None,
            Activation::Rectifier { clipping } => Some((0.0, clipping.unwrap_or(f32::MAX))),
            Activation::Saturation { threshold } => Some((-threshold, threshold)),
        };
        let x = match bounds {
            None => x,
            Some((lo, hi)) => {
                let [lo, hi] = [lo, hi].map(|bound| t.reals(&[bound], 0, "act_bound"));
                b.clip(x).min(lo).max(hi).role("act_clip").one()?
            }
        };
        Ok(t.settle(x, cell.output)?)
    }

    /// The inputs of a cell, each rescaled where the plan says so.
    fn operands(&mut self, cell: &Cell, plan: &CellPlan) -> Result<Vec<Accumulator>> {
        let mut operands = Vec::with_capacity(cell.inputs.len());
        for (slot, source) in cell.inputs.iter().enumerate() {
            let name = || format!("its input {slot} is not in integers");
            let output = self.represented(*source).ok_or_else(name)?;
            let value = self.t.b.var(self.value(*source));
            let branch = plan.branches.get(slot).and_then(Option::as_ref);
            operands.push(branches::operand(&self.t, value, output, branch)?);
        }
        if operands.is_empty() {
            return Err("it reads nothing".into());
        }
        Ok(operands)
    }

    /// Removes a cell's nodes and gives the main one.
    fn take(&mut self, cell: &Cell) -> Node {
        let mut graph = self.t.b.graph_mut();
        let mut main = Node::default();
        for id in cell.nodes.iter().rev() {
            let node = graph.remove_node(*id);
            if *id == cell.node {
                main = node;
            }
        }
        main
    }

    /// The mean of a window, rounded towards zero. It is a multiple of `1 / window`; with its size
    /// raised by half of that it stays below the next integer, and float32 cannot get it wrong.
    fn average(&mut self, cell: &Cell, node: Node, input: Accumulator) -> Result<Accumulator> {
        let sizes = match node.attr("kernel_shape") {
            Some(Attr::Ints(sizes)) => Some(sizes.clone()),
            _ => self.plane(input.value),
        };
        let window = sizes.iter().flatten().try_fold(1i64, |n, s| n.checked_mul(*s));
        let (Some(sizes), Some(window @ 1..)) = (sizes, window) else {
            return Err("the size of its window is not known".into());
        };
        // How many sums there are of each sum of bytes.
        let width = (input.max >> 8) + 1;
        if window.checked_mul(width).is_none_or(|n| n >= WINDOW_MAX) {
            return self.wide_average(cell, node, input, &sizes, window);
        }
        let t = &self.t;
        let x = t.cast(input.value, input.dtype, DataType::Float, "icast")?;
        let mean = t.b.again(&node, [x]).role("mean").one()?;
        let mean = raised(t, mean, 0.5 / window as f32, input.signed())?;
        let value = t.cast(mean, DataType::Float, input.dtype, "integer")?;
        Ok(Accumulator { value, ..input })
    }

    /// The same by sums of integers, where float32 would not be exact.
    fn wide_average(
        &mut self,
        cell: &Cell,
        mut node: Node,
        input: Accumulator,
        sizes: &[i64],
        window: i64,
    ) -> Result<Accumulator> {
        let pads = match node.attr("pads") {
            Some(Attr::Ints(pads)) => pads.iter().any(|p| *p != 0),
            _ => false,
        };
        let plain = node.int("ceil_mode", 0) == 0
            && node.attr("auto_pad").is_none()
            && (!pads || node.int("count_include_pad", 0) == 1);
        if !plain {
            return Err(format!("windows of {window} values that reach over the edge").into());
        }
        let kept = |name: &str| ["dilations", "kernel_shape", "pads", "strides"].contains(&name);
        node.attrs.retain(|(name, _)| kept(name));
        if node.attr("kernel_shape").is_none() {
            node.attrs.push(("kernel_shape".into(), Attr::Ints(sizes.to_vec())));
        }
        node.attrs.push(("group".into(), Attr::Int(cell.channels as i64)));
        let sizes: Vec<usize> = sizes.iter().filter_map(|s| usize::try_from(*s).ok()).collect();
        let sum = self.window_sums(node, input, cell.channels, &sizes)?;
        let (t, b) = (&self.t, self.t.b);
        let x = t.cast(sum.value, sum.dtype, DataType::Int64, "sum_wide")?;
        let divisor = t.integers(&[window], t.held(DataType::Int64), 0, "mean_window")?;
        let mut x = b.named("mean", b.div(x, divisor)?);
        if t.fake() {
            x = raised(t, x, 0.5 / window as f32, input.signed())?;
        }
        let value = t.cast(x, DataType::Int64, input.dtype, "integer")?;
        Ok(Accumulator { value, ..input })
    }

    /// The sizes of all axes of `v` behind the channels.
    fn plane(&self, v: Var) -> Option<Vec<i64>> {
        self.t.b.shape_of(v)?.get(2..)?.iter().map(Dim::known).collect()
    }

    /// What `node` makes of the same integers.
    fn moved(&self, mut node: Node, input: Accumulator) -> Result<Accumulator> {
        match node.op.as_str() {
            // In inference it is one, and it takes floats only.
            "Dropout" => node = Node { name: node.name, ..Node::new("Identity", [], []) },
            // The float constant is zero, which is what is padded without it.
            "Pad" if node.inputs.len() > 2 => node.inputs[2] = None,
            _ => {}
        }
        let wide = matches!(input.dtype, DataType::Int16 | DataType::Uint16);
        let moved_as = match wide && !ANY_TYPE.contains(&node.op.as_str()) {
            // Exact, and every runtime has it.
            true => DataType::Float,
            false => input.dtype,
        };
        let t = &self.t;
        let x = t.cast(input.value, input.dtype, moved_as, "moved_icast")?;
        let others = node.inputs.iter().skip(1).map(|v| Operand::from(*v));
        let inputs = std::iter::once(x.into()).chain(others);
        let value = t.b.again(&node, inputs).role("moved").one()?;
        let value = t.cast(value, moved_as, input.dtype, "moved_ocast")?;
        Ok(Accumulator { value, axes: None, ..input })
    }

    /// A cell that computes in float, on the real values of its inputs.
    fn float(&mut self, cell: &Cell, plan: &CellPlan) -> Result<()> {
        for source in &cell.inputs {
            let (from, to) = (self.value(*source), self.real(*source)?);
            let to = self.t.b.id(to)?;
            let mut graph = self.t.b.graph_mut();
            for id in &cell.nodes {
                let inputs = graph[*id].inputs.clone();
                for slot in (0..inputs.len()).filter(|slot| inputs[*slot] == Some(from)) {
                    graph.set_input(*id, slot, Some(to));
                }
            }
        }
        let Some(output) = plan.output else { return Ok(()) };
        let (t, b) = (&self.t, self.t.b);
        let real = b.named("real", b.detach(cell.output)?);
        let scale = t.reals(&[(1.0 / output.scale) as f32], 0, "act_w");
        let scaled = b.named("act_scaled", b.mul(real, scale)?);
        let to = storage(output);
        let result = rounded(t, scaled, bounds(output.bits, output.signed), to)?;
        t.retype(cell.output, to);
        Ok(t.settle(result, cell.output)?)
    }

    /// The real value of what `source` computes.
    fn real(&mut self, source: CellInput) -> Result<Var> {
        let (t, b) = (&self.t, self.t.b);
        let value = b.var(self.value(source));
        let Some(output) = self.represented(source) else { return Ok(value) };
        if let Some(known) = self.floats.get(&source) {
            return Ok(*known);
        }
        let real = b.under(&b.name_of(value), |b| {
            let float = t.cast(value, storage(output), DataType::Float, "float")?;
            let scale = t.reals(&[output.scale as f32], 0, "scale");
            Ok::<_, Refusal>(b.named("real", b.mul(float, scale)?))
        })?;
        self.floats.insert(source, real);
        Ok(real)
    }
}

/// `[rows, columns]` as `[columns, rows]`.
pub(crate) fn transposed(values: &[i32], rows: usize, columns: usize) -> Vec<i32> {
    let at = |column: usize| (0..rows).map(move |row| values[row * columns + column]);
    (0..columns).flat_map(at).collect()
}
