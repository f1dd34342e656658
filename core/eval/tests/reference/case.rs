//! A node with its inputs, what the reference says about its outputs, and the comparison.

use crate::nd::{Nd, codes, from_reals, reals};
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Attr, DataType, Graph, Model, Node, Tensor};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes that outputs may take.
const BYTES_MAX: usize = 1 << 26;

pub const FLOATS: &[DataType] =
    &[DataType::Float, DataType::Double, DataType::Float16, DataType::Bfloat16];
pub const INTEGERS: &[DataType] = &[
    DataType::Int32,
    DataType::Int64,
    DataType::Int8,
    DataType::Uint8,
    DataType::Int16,
    DataType::Uint16,
    DataType::Uint32,
    DataType::Uint64,
];

/// One application of an operator and what it must give.
pub struct Case {
    pub op: String,
    pub opset: i64,
    attrs: Vec<(String, Attr)>,
    inputs: Vec<Option<Tensor>>,
    wants: Vec<Option<Want>>,
}

/// What an output must be.
enum Want {
    /// These bits.
    Same(Tensor),
    /// Of this type, each value within its bound (or the nearest of the type to it).
    Near(DataType, Nd, Vec<f64>),
}

pub fn case(op: &str, opset: i64) -> Case {
    Case { op: op.into(), opset, attrs: vec![], inputs: vec![], wants: vec![] }
}

impl Case {
    pub fn attr(mut self, name: &str, value: impl Into<Value>) -> Case {
        self.attrs.push((name.into(), value.into().0));
        self
    }

    /// An attribute that is not always written.
    pub fn attr_if(self, given: bool, name: &str, value: impl Into<Value>) -> Case {
        if given { self.attr(name, value) } else { self }
    }

    pub fn input(mut self, x: &Tensor) -> Case {
        self.inputs.push(Some(x.clone()));
        self
    }

    /// An optional input.
    pub fn maybe(mut self, x: Option<&Tensor>) -> Case {
        self.inputs.push(x.cloned());
        self
    }

    /// The next output must be exactly this.
    pub fn same(mut self, y: Tensor) -> Case {
        self.wants.push(Some(Want::Same(y)));
        self
    }

    /// The next output must be near this; `sums` are the magnitudes that went into each value.
    pub fn near(mut self, dtype: DataType, y: Nd, sums: &[f64]) -> Case {
        let slack = y.v.iter().zip(sums).map(|(v, sum)| slack(dtype, *v, *sum)).collect();
        self.wants.push(Some(Want::Near(dtype, y, slack)));
        self
    }

    /// The next output must be this, rounded to the type.
    pub fn rounded(self, dtype: DataType, y: Nd) -> Case {
        let sums: Vec<f64> = y.v.iter().map(|v| v.abs()).collect();
        self.near(dtype, y, &sums)
    }

    /// The next output must be an integer nearest to this; within the error of a computation in
    /// `float` either neighbour of what lies halfway.
    pub fn nearest(mut self, dtype: DataType, y: Nd) -> Case {
        let slack = y.v.iter().map(|v| 0.501 + 1e-5 * v.abs()).collect();
        self.wants.push(Some(Want::Near(dtype, y, slack)));
        self
    }

    /// Runs the node and compares.
    pub fn check(&self) -> Result<(), String> {
        let found = self.run()?;
        for (i, want) in self.wants.iter().enumerate() {
            let Some(want) = want else { continue };
            let y = found.get(i).ok_or_else(|| format!("output {i} is missing"))?;
            want.check(y).map_err(|e| format!("output {i}: {e}"))?;
        }
        Ok(())
    }

    /// The outputs of the node: on its own, with sub-graphs as the only node of a model.
    fn run(&self) -> Result<Vec<Tensor>, String> {
        let mut g = Graph::new("g");
        let (domain, op) = self.op.rsplit_once('.').unwrap_or(("", &self.op));
        let mut node = Node { domain: domain.into(), ..Node::new(op, [], []) };
        node.attrs.clone_from(&self.attrs);
        let mut fed = BTreeMap::new();
        for (i, x) in self.inputs.iter().enumerate() {
            node.inputs.push(x.as_ref().map(|_| g.add_input(&format!("x{i}"), None)));
            fed.extend(x.iter().map(|x| (format!("x{i}"), x.clone())));
        }
        for (i, want) in self.wants.iter().enumerate() {
            node.outputs.push(want.as_ref().map(|_| g.add_value(&format!("y{i}"), None)));
        }
        let refused = |e: &dyn fmt::Display| format!("refused: {e}");
        if node.subgraphs().next().is_none() {
            let found = onnxd_eval::eval_node(&node, self.opset, &self.inputs, BYTES_MAX);
            return found.map_err(|d| refused(&d));
        }
        let outputs = node.outputs.clone();
        g.add_node(node);
        outputs.into_iter().flatten().for_each(|y| g.mark_output(y));
        let model = Model::new(g, 10, self.opset);
        let executor = Executor::new(&model).map_err(|d| refused(&d))?;
        let found = executor.run(&fed, RunOptions::default()).map_err(|d| refused(&d))?;
        Ok(found.into_iter().map(|(_, y)| y).collect())
    }
}

impl Want {
    fn check(&self, y: &Tensor) -> Result<(), String> {
        let (dtype, dims) = match self {
            Want::Same(x) => (x.dtype(), x.dims()),
            Want::Near(dtype, x, _) => (*dtype, x.dims.as_slice()),
        };
        if (y.dtype(), y.dims()) != (dtype, dims) {
            return Err(format!("found {y:?}, expected {dtype}{dims:?}"));
        }
        match self {
            Want::Same(x) if x == y => Ok(()),
            Want::Same(x) => Err(format!("found {}, expected {}", show(y), show(x))),
            Want::Near(dtype, x, slack) => {
                let nearest = reals(&from_reals(*dtype, dims, x.v.clone()));
                let near = |(i, found): (usize, &f64)| {
                    let same = *found == nearest.v[i] || (found.is_nan() && x.v[i].is_nan());
                    same || (found - x.v[i]).abs() <= slack[i]
                };
                match reals(y).v.iter().enumerate().find(|e| !near(*e)) {
                    None => Ok(()),
                    Some((i, found)) => Err(format!(
                        "element {i} is {found}, expected {} within {:e}\n found {}\n expected {:?}",
                        x.v[i],
                        slack[i],
                        show(y),
                        x.v
                    )),
                }
            }
        }
    }
}

/// Unit roundoff of the result's type on the value, and that of the type it is computed in on the
/// magnitudes that were summed.
fn slack(dtype: DataType, value: f64, sum: f64) -> f64 {
    match dtype {
        DataType::Double => 1e-12 * sum,
        DataType::Float16 => 1e-5 * sum + 6e-4 * value.abs() + 6e-8,
        DataType::Bfloat16 => 1e-5 * sum + 5e-3 * value.abs(),
        _ => 1e-5 * sum,
    }
}

/// An attribute's value.
pub struct Value(Attr);

impl From<i64> for Value {
    fn from(x: i64) -> Value {
        Value(Attr::Int(x))
    }
}

impl From<bool> for Value {
    fn from(x: bool) -> Value {
        Value(Attr::Int(x.into()))
    }
}

impl From<f32> for Value {
    fn from(x: f32) -> Value {
        Value(Attr::Float(x))
    }
}

impl From<&str> for Value {
    fn from(x: &str) -> Value {
        Value(Attr::Str(x.to_owned().into()))
    }
}

impl From<&[i64]> for Value {
    fn from(x: &[i64]) -> Value {
        Value(Attr::Ints(x.to_vec()))
    }
}

impl From<&Vec<i64>> for Value {
    fn from(x: &Vec<i64>) -> Value {
        Value(Attr::Ints(x.clone()))
    }
}

impl From<&Vec<usize>> for Value {
    fn from(x: &Vec<usize>) -> Value {
        Value(Attr::Ints(x.iter().map(|v| *v as i64).collect()))
    }
}

impl From<&Vec<f32>> for Value {
    fn from(x: &Vec<f32>) -> Value {
        Value(Attr::Floats(x.clone()))
    }
}

impl From<&Vec<&str>> for Value {
    fn from(x: &Vec<&str>) -> Value {
        Value(Attr::Strs(x.iter().map(|s| s.to_string().into()).collect()))
    }
}

impl From<Graph> for Value {
    fn from(x: Graph) -> Value {
        Value(Attr::Graph(Box::new(x)))
    }
}

impl From<&Tensor> for Value {
    fn from(x: &Tensor) -> Value {
        Value(Attr::Tensor(x.clone()))
    }
}

fn show(x: &Tensor) -> String {
    match x.to_reals() {
        Some(found) => format!("{x:?} {:?}", found.values),
        None => format!("{x:?} of bits {:?}", codes(x).v),
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of opset {}", self.op, self.opset)?;
        for (name, attr) in &self.attrs {
            match attr {
                Attr::Tensor(x) => write!(f, "\n  {name} = {}", show(x))?,
                _ => write!(f, "\n  {name} = {attr:?}")?,
            }
        }
        for (i, x) in self.inputs.iter().enumerate() {
            let x = x.as_ref().map_or_else(|| "absent".to_owned(), show);
            write!(f, "\n  input {i}: {x}")?;
        }
        Ok(())
    }
}
