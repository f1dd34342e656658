//! Writes the integer graph: every cell's float nodes give way to nodes on integers that compute
//! the value of the same name.

mod branches;
mod emit;
mod proof;
mod rescale;
#[cfg(test)]
mod tests;

pub use emit::Casting;

use crate::plan::{
    Activation, Cell, CellPlan, Integers, Kind, Network, Output, Plan, Source, bounds,
};
use emit::Emit;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, Layer};
use onnxd_plugin_sdk::ir::{Attr, DataType, Graph, Model, Node, Tensor, ValueId, ValueType};
use proof::accumulator_max;
use rescale::{Accumulator, rescale, rounded, saturate, saturation, storage};
use std::collections::HashMap;

/// Bits that `ConvInteger` and `MatMulInteger` take.
const BITS_MAX: u32 = 8;
/// First version of the standard's operators with `Clip` and `MaxPool` on integers.
const OPSET_MIN: i64 = 12;
/// Zero point of weights without sign, which keeps matrix products exact everywhere: ONNX Runtime
/// adds pairs of products of unsigned and signed bytes in 16 bits on processors without VNNI, and
/// those saturate.
const WEIGHTS_ZERO: i32 = 128;
/// From here on `1 / (2 · window)` gets lost in the float32 mean of eight bits.
const WINDOW_MAX: i64 = 1 << 13;

/// The model in integers, and what is known about it.
#[derive(Debug)]
pub struct Written {
    /// The model.
    pub model: Model,
    /// Largest magnitude that an accumulator can reach, per cell; 32 bits hold them all.
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
    for (problem, text) in [
        (plan.bits > BITS_MAX, format!("the operators on integers take at most {BITS_MAX} bits")),
        (
            model.opset() < OPSET_MIN,
            format!("opset {} has no clipping of integers; it takes {OPSET_MIN}", model.opset()),
        ),
    ] {
        if problem {
            return Err(Diagnostic::new(Code::FeatureUnsupported, text).into());
        }
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
            let dtype = self.e.held(storage(output.signed));
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
        let output = plan.output.ok_or("nothing says how its result is represented")?;
        let inputs = self.operands(cell, plan)?;
        let node = self.take(cell);
        let to = storage(output.signed);
        let accumulator = match cell.kind {
            Kind::Conv | Kind::Fc => {
                let integers = plan.integers.as_ref().ok_or("it has no integer weights")?;
                self.product(cell, node, inputs[0], integers)?
            }
            Kind::AveragePool => self.average(node, inputs[0])?,
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

    /// A convolution or matrix product with its bias.
    fn product(
        &mut self,
        cell: &Cell,
        node: Node,
        input: Accumulator,
        integers: &Integers,
    ) -> Result<Accumulator, String> {
        let parameters = cell.parameters.as_ref().ok_or("it has no parameters")?;
        let dims = &parameters.dims;
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if dims.len() < 2 || count != Some(integers.weights.len()) {
            return Err(format!("its integers do not fill {dims:?}"));
        }
        let range = match input.dtype {
            DataType::Uint8 => (0, input.max),
            _ => (-input.max, input.max),
        };
        let max = accumulator_max(integers, dims[0], range);
        if max > i64::from(i32::MAX) {
            return Err(format!("its sums may reach {max}, which takes more than 32 bits"));
        }
        let fc = cell.kind == Kind::Fc;
        let weights = if fc {
            transposed(&integers.weights, dims[0], dims[1])
        } else {
            integers.weights.clone()
        };
        let dims = if fc { vec![dims[1], dims[0]] } else { dims.clone() };
        let axes = if fc { 0 } else { dims.len() - 2 };
        let op = match (fc, self.e.fake()) {
            (false, false) => "ConvInteger",
            (false, true) => "Conv",
            (true, false) => "MatMulInteger",
            (true, true) => "MatMul",
        };
        let offset = fc && !self.e.fake() && input.dtype == DataType::Uint8;
        let weights = self.weights(dims, &weights, offset);
        let weights = self.parameter(node.input(1), weights, "w");
        let attrs = if fc { vec![] } else { node.attrs };
        let mut node = Node { attrs, name: node.name, ..Node::new(op, [input.value, weights], []) };
        if offset {
            let zero = self.e.constant(Tensor::scalar(WEIGHTS_ZERO as u8), "w_zero");
            node.inputs.extend([None, Some(zero)]);
        }
        let has_bias = integers.bias.is_some();
        let mut value = self.e.node(node, if has_bias { "bias" } else { "act" });
        if let Some(bias) = &integers.bias {
            let dtype = self.e.held(DataType::Int32);
            let bias = self.e.integers(bias, dtype, axes, "b");
            value = self.e.op("Add", &[value, bias], "act");
        }
        Ok(Accumulator { value, dtype: DataType::Int32, max, axes: Some(axes) })
    }

    fn weights(&self, dims: Vec<usize>, weights: &[i32], offset: bool) -> Tensor {
        if self.e.fake() {
            return Tensor::from_vec(dims, weights.iter().map(|w| *w as f32).collect());
        }
        if offset {
            return Tensor::from_vec(
                dims,
                weights.iter().map(|w| (w + WEIGHTS_ZERO) as u8).collect(),
            );
        }
        Tensor::from_vec(dims, weights.iter().map(|w| *w as i8).collect())
    }

    /// Puts `data` in the place of a float parameter that nothing else reads, or beside it.
    fn parameter(&mut self, old: Option<ValueId>, data: Tensor, role: &str) -> ValueId {
        let graph = &mut self.e.graph;
        let free = |v: &ValueId| graph[*v].initializer().is_some() && graph.uses(*v) == 0;
        match old.filter(free).filter(|v| !graph.inputs().contains(v)) {
            Some(v) => {
                let dims = data.dims().iter().map(|d| *d as i64);
                let ty = ValueType::tensor(data.dtype(), dims);
                graph[v].ty = Some(ty);
                graph.set_initializer(v, Some(data));
                v
            }
            None => self.e.constant(data, role),
        }
    }

    /// The mean of a window, rounded down. It is a multiple of `1 / window`; raised by half of that
    /// it stays below the next integer, and float32 cannot get it wrong.
    fn average(&mut self, node: Node, input: Accumulator) -> Result<Accumulator, String> {
        let window = match node.attr("kernel_shape") {
            Some(Attr::Ints(sizes)) => sizes.iter().try_fold(1i64, |n, s| n.checked_mul(*s)),
            _ => self.plane(input.value),
        };
        let window = window.ok_or("the size of its window is not known")?;
        if !(1..WINDOW_MAX).contains(&window) {
            return Err(format!("its window has {window} values, at most {WINDOW_MAX} are exact"));
        }
        let e = &mut self.e;
        let x = e.cast(input.value, input.dtype, DataType::Float, "icast");
        let mean = e.node(Node { inputs: vec![Some(x)], outputs: vec![], ..node }, "mean");
        let raise = e.reals(&[0.5 / window as f32], 0, "raise");
        let mean = e.op("Add", &[mean, raise], "raised");
        let mean = e.op("Floor", &[mean], "floor");
        let value = e.cast(mean, DataType::Float, input.dtype, "integer");
        Ok(Accumulator { value, ..input })
    }

    /// Product of the sizes of all axes of `v` behind the channels.
    fn plane(&self, v: ValueId) -> Option<i64> {
        let shape = self.e.graph[v].ty.as_ref()?.shape()?;
        shape.get(2..)?.iter().try_fold(1i64, |n, d| n.checked_mul(d.known()?))
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
        match node.inputs.first_mut() {
            Some(slot) => *slot = Some(input.value),
            None => node.inputs.push(Some(input.value)),
        }
        Accumulator { value: self.e.node(node, "moved"), axes: None, ..input }
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
        let to = storage(output.signed);
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
        let float = self.e.cast(value, storage(output.signed), DataType::Float, "float");
        let scale = self.e.reals(&[output.scale as f32], 0, "scale");
        let real = self.e.op("Mul", &[float, scale], "real");
        self.e.prefix = prefix;
        self.floats.insert(source, real);
        real
    }
}

/// `[rows, columns]` as `[columns, rows]`.
fn transposed(values: &[i32], rows: usize, columns: usize) -> Vec<i32> {
    let at = |column: usize| (0..rows).map(move |row| values[row * columns + column]);
    (0..columns).flat_map(at).collect()
}
