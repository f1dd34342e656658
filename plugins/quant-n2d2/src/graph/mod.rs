//! Writes the integer graph: every cell's float nodes give way to nodes on integers that compute
//! the value of the same name.

mod branches;
mod emit;
mod product;
mod proof;
mod rescale;
#[cfg(test)]
mod tests;

pub use emit::Casting;

use crate::network::int;
use crate::plan::{
    Activation, Cell, CellPlan, How, Kind, Network, Output, Plan, Rescale, Source, bounds,
};
use emit::Emit;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, Layer};
use onnxd_plugin_sdk::ir::{Attr, DataType, Dim, Graph, Model, Node, ValueId};
use rescale::{Accumulator, raised, rescale, rounded, saturate, saturation, storage};
use std::collections::HashMap;

/// First version of the standard's operators with `Clip` and `MaxPool` on integers.
const OPSET_MIN: i64 = 12;
/// From here on `1 / (2 · window)` gets lost in the float32 mean of eight bits.
const WINDOW_MAX: i64 = 1 << 13;

/// Operators that runtimes have for integers of 16 bits.
const ANY_TYPE: &[&str] =
    &["Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"];

/// The model in integers, and what is known about it.
#[derive(Debug)]
pub struct Written {
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
pub fn write(network: &Network, plan: &Plan, casting: Casting) -> Result<Written, Diagnostics> {
    let mut model = network.model.clone();
    if model.opset() < OPSET_MIN {
        let text =
            format!("opset {} has no clipping of integers; it takes {OPSET_MIN}", model.opset());
        return Err(Diagnostic::new(Code::FeatureUnsupported, text).into());
    }
    let graph = std::mem::replace(&mut model.graph, Graph::new(""));
    let emit = Emit::new(graph, casting);
    let mut writer = Writer {
        network,
        plan,
        e: emit,
        layers: Vec::new(),
        floats: HashMap::new(),
        accumulators: vec![None; network.cells.len()],
    };
    writer.inputs();
    let mut problems = Diagnostics::default();
    for index in 0..network.cells.len() {
        if let Err(text) = writer.cell(index) {
            let cell = &network.cells[index];
            let layer = writer.layers.first().cloned();
            let layer = layer.unwrap_or_else(|| Layer::new(&cell.name, format!("{:?}", cell.kind)));
            let text = format!("`{}` cannot be written in integers: {text}", cell.name);
            problems.push(Diagnostic::new(Code::FeatureUnsupported, text).at(layer));
        }
    }
    let Writer { e, accumulators, .. } = writer;
    model.graph = e.graph;
    problems.or_ok(Written { model, accumulators, remarks: e.remarks })
}

pub(crate) struct Writer<'n> {
    pub(crate) network: &'n Network,
    pub(crate) plan: &'n Plan,
    pub(crate) e: Emit,
    /// Layers of the cell at hand.
    layers: Vec<Layer>,
    /// Real values of integers, where something is computed in float.
    floats: HashMap<Source, ValueId>,
    accumulators: Vec<Option<i64>>,
}

impl Writer<'_> {
    fn inputs(&mut self) {
        let inputs = self.e.graph.inputs().to_vec();
        for (input, output) in inputs.into_iter().zip(&self.plan.inputs) {
            let dtype = self.e.held(storage(*output));
            self.e.retype(input, dtype);
        }
    }

    /// The value that holds what `source` computes.
    pub(crate) fn value(&self, source: Source) -> ValueId {
        match source {
            Source::Input(i) => self.e.graph.inputs()[i],
            Source::Cell(i) => self.network.cells[i].output,
        }
    }

    /// How `source` is represented, if in integers.
    pub(crate) fn represented(&self, source: Source) -> Option<Output> {
        match source {
            Source::Input(i) => self.plan.inputs.get(i).copied(),
            Source::Cell(i) => self.plan.cells[i].output,
        }
    }

    fn cell(&mut self, index: usize) -> Result<(), String> {
        let network = self.network;
        let (cell, plan) = (&network.cells[index], &self.plan.cells[index]);
        self.e.begin(&cell.name);
        let done = match cell.kind {
            Kind::Float => self.float(cell, plan),
            _ => self.integer(index, cell, plan),
        };
        let layers = std::mem::take(&mut self.layers);
        self.e.end(&layers);
        self.layers = layers;
        done
    }

    fn integer(&mut self, index: usize, cell: &Cell, plan: &CellPlan) -> Result<(), String> {
        let Some(output) = plan.output else { return self.dequantized(index, cell, plan) };
        let inputs = self.operands(cell, plan)?;
        let node = self.take(cell);
        let to = storage(output);
        let accumulator = match cell.kind {
            Kind::Conv | Kind::Fc => {
                let integers = plan.integers.as_ref().ok_or("it has no integer weights")?;
                self.product(cell, node, inputs[0], integers)?
            }
            Kind::AveragePool => self.average(cell, node, inputs[0])?,
            Kind::Sum | Kind::Max => branches::elementwise(&mut self.e, cell.kind, &inputs)?,
            Kind::Concat => branches::concat(&mut self.e, node, &inputs, to, output)?,
            Kind::MaxPool | Kind::Move => self.moved(node, inputs[0]),
            Kind::Activation | Kind::Float => inputs[0],
        };
        if matches!(cell.kind, Kind::Conv | Kind::Fc | Kind::Sum) {
            self.accumulators[index] = Some(accumulator.max);
        }
        let rectifier = matches!(cell.activation, Activation::Rectifier { .. });
        let range = saturation(output.bits, output.signed, rectifier);
        let e = &mut self.e;
        let result = match &plan.rescale {
            Some(how) => rescale(e, accumulator, &how.how, range, to)?,
            None => saturate(e, accumulator, range, to),
        };
        e.settle(result, cell.output);
        let held = e.held(to);
        e.retype(cell.output, held);
        Ok(())
    }

    /// A sum of products of integers whose result is real.
    fn dequantized(&mut self, index: usize, cell: &Cell, plan: &CellPlan) -> Result<(), String> {
        let (Some(integers), Some(Rescale { how: How::FloatingPoint(factors), .. })) =
            (&plan.integers, &plan.rescale)
        else {
            return Err("nothing says how its result is represented".into());
        };
        let input = self.operands(cell, plan)?[0];
        let node = self.take(cell);
        let acc = self.product(cell, node, input, integers)?;
        self.accumulators[index] = Some(acc.max);
        let e = &mut self.e;
        let x = e.cast(acc.value, acc.dtype, DataType::Float, "act_icast");
        let factors = e.reals(factors, acc.axes.unwrap_or(0), "act_w");
        let x = e.op("Mul", &[x, factors], "act_scaled");
        let bounds = match cell.activation {
            Activation::Linear => None,
            Activation::Rectifier { clipping } => Some((0.0, clipping.unwrap_or(f32::MAX))),
            Activation::Saturation { threshold } => Some((-threshold, threshold)),
        };
        let x = match bounds {
            None => x,
            Some((lo, hi)) => {
                let [lo, hi] = [lo, hi].map(|bound| e.reals(&[bound], 0, "act_bound"));
                e.op("Clip", &[x, lo, hi], "act_clip")
            }
        };
        e.settle(x, cell.output);
        Ok(())
    }

    /// The inputs of a cell, each rescaled where the plan says so.
    fn operands(&mut self, cell: &Cell, plan: &CellPlan) -> Result<Vec<Accumulator>, String> {
        let mut operands = Vec::with_capacity(cell.inputs.len());
        for (slot, source) in cell.inputs.iter().enumerate() {
            let name = || format!("its input {slot} is not in integers");
            let output = self.represented(*source).ok_or_else(name)?;
            let value = self.value(*source);
            let branch = plan.branches.get(slot).and_then(Option::as_ref);
            operands.push(branches::operand(&mut self.e, value, output, branch)?);
        }
        if operands.is_empty() {
            return Err("it reads nothing".into());
        }
        Ok(operands)
    }

    /// Removes a cell's nodes and gives the main one.
    fn take(&mut self, cell: &Cell) -> Node {
        self.layers.clear();
        let mut main = Node::default();
        for id in cell.nodes.iter().rev() {
            let node = self.e.graph.remove_node(*id);
            for layer in &node.layers {
                if !self.layers.contains(layer) {
                    self.layers.push(layer.clone());
                }
            }
            if *id == cell.node {
                main = node;
            }
        }
        main
    }

    /// The mean of a window, rounded towards zero. It is a multiple of `1 / window`; with its size
    /// raised by half of that it stays below the next integer, and float32 cannot get it wrong.
    fn average(
        &mut self,
        cell: &Cell,
        node: Node,
        input: Accumulator,
    ) -> Result<Accumulator, String> {
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
        let e = &mut self.e;
        let x = e.cast(input.value, input.dtype, DataType::Float, "icast");
        let mean = e.node(Node { inputs: vec![Some(x)], outputs: vec![], ..node }, "mean");
        let mean = raised(e, mean, 0.5 / window as f32, input.signed());
        let value = e.cast(mean, DataType::Float, input.dtype, "integer");
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
    ) -> Result<Accumulator, String> {
        let pads = match node.attr("pads") {
            Some(Attr::Ints(pads)) => pads.iter().any(|p| *p != 0),
            _ => false,
        };
        let plain = int(&node, "ceil_mode", 0) == 0
            && node.attr("auto_pad").is_none()
            && (!pads || int(&node, "count_include_pad", 0) == 1);
        if !plain {
            return Err(format!("windows of {window} values that reach over the edge"));
        }
        let kept = |name: &str| ["dilations", "kernel_shape", "pads", "strides"].contains(&name);
        node.attrs.retain(|(name, _)| kept(name));
        if node.attr("kernel_shape").is_none() {
            node.attrs.push(("kernel_shape".into(), Attr::Ints(sizes.to_vec())));
        }
        node.attrs.push(("group".into(), Attr::Int(cell.channels as i64)));
        let sizes: Vec<usize> = sizes.iter().filter_map(|s| usize::try_from(*s).ok()).collect();
        let sum = self.sums(node, input, cell.channels, &sizes)?;
        let e = &mut self.e;
        let x = e.cast(sum.value, sum.dtype, DataType::Int64, "sum_wide");
        let divisor = e.integers(&[window], e.held(DataType::Int64), 0, "mean_window");
        let mut x = e.op("Div", &[x, divisor], "mean");
        if e.fake() {
            x = raised(e, x, 0.5 / window as f32, input.signed());
        }
        let value = e.cast(x, DataType::Int64, input.dtype, "integer");
        Ok(Accumulator { value, ..input })
    }

    /// The sizes of all axes of `v` behind the channels.
    fn plane(&self, v: ValueId) -> Option<Vec<i64>> {
        let shape = self.e.graph[v].ty.as_ref()?.shape()?;
        shape.get(2..)?.iter().map(Dim::known).collect()
    }

    /// What `node` makes of the same integers.
    fn moved(&mut self, mut node: Node, input: Accumulator) -> Accumulator {
        match node.op.as_str() {
            // In inference it is one, and it takes floats only.
            "Dropout" => node = Node { name: node.name, ..Node::new("Identity", [], []) },
            // The float constant is zero, which is what is padded without it.
            "Pad" if node.inputs.len() > 2 => node.inputs[2] = None,
            _ => {}
        }
        while node.inputs.last() == Some(&None) {
            node.inputs.pop();
        }
        let wide = matches!(input.dtype, DataType::Int16 | DataType::Uint16);
        let moved_as = match wide && !ANY_TYPE.contains(&node.op.as_str()) {
            // Exact, and every runtime has it.
            true => DataType::Float,
            false => input.dtype,
        };
        let x = self.e.cast(input.value, input.dtype, moved_as, "moved_icast");
        match node.inputs.first_mut() {
            Some(slot) => *slot = Some(x),
            None => node.inputs.push(Some(x)),
        }
        let value = self.e.node(node, "moved");
        let value = self.e.cast(value, moved_as, input.dtype, "moved_ocast");
        Accumulator { value, axes: None, ..input }
    }

    /// A cell that computes in float, on the real values of its inputs.
    fn float(&mut self, cell: &Cell, plan: &CellPlan) -> Result<(), String> {
        let ids = cell.nodes.iter().filter_map(|id| self.e.graph.node(*id));
        self.layers = ids.flat_map(|node| node.layers.clone()).collect();
        for source in &cell.inputs {
            let (from, to) = (self.value(*source), self.real(*source));
            for id in &cell.nodes {
                let inputs = self.e.graph[*id].inputs.clone();
                for slot in (0..inputs.len()).filter(|slot| inputs[*slot] == Some(from)) {
                    self.e.graph.set_input(*id, slot, Some(to));
                }
            }
        }
        let Some(output) = plan.output else { return Ok(()) };
        let last = self.e.graph.producer(cell.output).ok_or("no node computes it")?;
        let slot = self.e.graph[last].outputs.iter().position(|o| *o == Some(cell.output));
        let real = self.e.graph.add_value(&format!("{}_real", cell.name), None);
        self.e.graph.set_output(last, slot.unwrap_or(0), real);
        let e = &mut self.e;
        let scale = e.reals(&[(1.0 / output.scale) as f32], 0, "act_w");
        let scaled = e.op("Mul", &[real, scale], "act_scaled");
        let to = storage(output);
        let result = rounded(e, scaled, bounds(output.bits, output.signed), to);
        e.settle(result, cell.output);
        let held = e.held(to);
        e.retype(cell.output, held);
        Ok(())
    }

    /// The real value of what `source` computes.
    fn real(&mut self, source: Source) -> ValueId {
        let value = self.value(source);
        let Some(output) = self.represented(source) else { return value };
        if let Some(known) = self.floats.get(&source) {
            return *known;
        }
        let name = self.e.graph[value].name.clone();
        let prefix = std::mem::replace(&mut self.e.prefix, name);
        let float = self.e.cast(value, storage(output), DataType::Float, "float");
        let scale = self.e.reals(&[output.scale as f32], 0, "scale");
        let real = self.e.op("Mul", &[float, scale], "real");
        self.e.prefix = prefix;
        self.floats.insert(source, real);
        real
    }
}

/// `[rows, columns]` as `[columns, rows]`.
pub(crate) fn transposed(values: &[i32], rows: usize, columns: usize) -> Vec<i32> {
    let at = |column: usize| (0..rows).map(move |row| values[row * columns + column]);
    (0..columns).flat_map(at).collect()
}
