//! Runs parts of models on random numbers.

use super::work::sizes;
use super::{Effort, TIME_IS_OVER};
use onnxd_eval::{Executor, RandomSource, RunOptions};
use onnxd_ir::{DataType, Function, Graph, GraphPart, Model, Reals, Tensor, ValueType};
use std::collections::{BTreeMap, HashSet};

/// Random numbers by the names of values, the same for both models.
#[derive(Default)]
pub(super) struct Feeds {
    drawn: BTreeMap<String, Tensor>,
}

impl Feeds {
    /// The outputs of a part, by name.
    pub(super) fn outputs(
        &mut self,
        whole_model: &Model,
        part: &GraphPart,
        effort: Effort,
    ) -> Result<Vec<(String, Tensor)>, String> {
        if effort.stop.is_some_and(|stop| stop()) {
            return Err(TIME_IS_OVER.into());
        }
        let graph = &part.graph;
        let mut inputs = BTreeMap::new();
        let mut bytes = 0;
        for (v, own) in &part.inputs {
            if graph.inputs().contains(own) {
                let drawn =
                    self.draw(&whole_model.graph[*v].name, whole_model.graph[*v].ty.as_ref())?;
                bytes += drawn.byte_len();
                inputs.insert(graph[*own].name.clone(), drawn);
            }
        }
        if bytes > effort.bytes_max {
            return Err("what it reads is too large".into());
        }
        let model = Model {
            opsets: whole_model.opsets.clone(),
            functions: applied(whole_model, graph),
            ..Model::new(graph.clone(), whole_model.ir_version, whole_model.opset())
        };
        let options =
            RunOptions { bytes_max: effort.bytes_max, stop: effort.stop, ..RunOptions::default() };
        let first = |errors: onnxd_diagnostics::Diagnostics| {
            errors.0.into_iter().next().map(|d| d.into_finding().message).unwrap_or_default()
        };
        let executor = Executor::new(&model).map_err(first)?;
        let errors = executor.run(&inputs, options).map_err(first)?;
        match errors.len() == graph.outputs().len() {
            true => Ok(errors),
            false => Err("it is no tensor".into()),
        }
    }

    fn draw(&mut self, name: &str, ty: Option<&ValueType>) -> Result<Tensor, String> {
        if let Some(drawn) = self.drawn.get(name) {
            return Ok(drawn.clone());
        }
        let unknown = || format!("the type of `{name}` is not known");
        let dims = ty.and_then(sizes).ok_or_else(unknown)?;
        let dtype = ty.and_then(ValueType::dtype).ok_or_else(unknown)?;
        // Equal names get equal numbers, whatever else is drawn.
        let seed =
            name.bytes().fold(1, |hash: u64, b| hash.wrapping_mul(31).wrapping_add(b.into()));
        let mut random = RandomSource::new(seed);
        let count = dims.iter().product::<usize>();
        let values = (0..count).map(|_| number(&mut random, dtype)).collect();
        let drawn = match dtype {
            DataType::Bool => {
                let values: Vec<f64> = values;
                let bits = values.iter().map(|x| u8::from(*x > 0.0)).collect();
                Tensor::from_vec_as(dtype, dims, bits)
            }
            _ => stored(&Reals { dims, values }, dtype)
                .ok_or_else(|| format!("no random numbers of type {dtype}"))?,
        };
        self.drawn.insert(name.to_owned(), drawn.clone());
        Ok(drawn)
    }
}

/// The functions of a model that `graph` applies. A model may have thousands, and parts of it few.
fn applied(whole: &Model, graph: &Graph) -> Vec<Function> {
    let mut names: HashSet<(&str, &str, &str)> = HashSet::new();
    let mut found: Vec<&Function> = vec![];
    let mut pending = vec![graph];
    while let Some(graph) = pending.pop() {
        for (_, node) in graph.nodes() {
            pending.extend(node.subgraphs());
            if !names.insert((&node.domain, &node.op, &node.overload)) {
                continue;
            }
            let function = whole.functions.iter().find(|f| f.is_of(node));
            pending.extend(function.map(|f| &f.graph));
            found.extend(function);
        }
    }
    found.into_iter().cloned().collect()
}

/// A number that most operators take: indices and sizes are small.
fn number(random: &mut RandomSource, dtype: DataType) -> f64 {
    let x = random.fraction();
    match dtype {
        DataType::Uint8 => (x * 256.0).floor(),
        DataType::Int8 => (x * 256.0).floor() - 128.0,
        dtype if dtype.is_integer() => (x * 2.0).floor(),
        _ => x * 2.0 - 1.0,
    }
}

fn stored(reals: &Reals, dtype: DataType) -> Option<Tensor> {
    fn integers<T: onnxd_ir::Element>(reals: &Reals, of: fn(f64) -> T) -> Tensor {
        Tensor::from_vec(reals.dims.clone(), reals.values.iter().map(|x| of(*x)).collect())
    }
    match dtype {
        DataType::Int64 => Some(integers(reals, |x| x as i64)),
        DataType::Int32 => Some(integers(reals, |x| x as i32)),
        DataType::Uint8 => Some(integers(reals, |x| x as u8)),
        DataType::Int8 => Some(integers(reals, |x| x as i8)),
        _ => reals.to_tensor(dtype),
    }
}
