//! Layers that architectures have in common: weights as constants of the graph, and what is linear in them. No weight
//! is copied: sliced ones are derived from those of the file.

use crate::blocks::Weight;
use crate::checkpoint::Checkpoint;
use crate::diag::{Diagnostic, shown};
use crate::problem::damaged;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::formulas::activation::silu;
use onnxd_plugin_sdk::ir::{Graph, Opsets, Tensor, TensorError};

/// The opset from which on norms, rotations and attention are operators.
pub(crate) const OPERATORS: i64 = 23;

/// The graph that layers are written into, and the weights that they take.
pub(crate) struct Layers<'a> {
    pub(crate) b: &'a GraphBuilder,
    pub(crate) w: &'a Checkpoint,
}

/// The graph of what `write` adds, in this version of the standard's operators.
pub(crate) fn graph(
    weights: &Checkpoint,
    opset: i64,
    write: impl FnOnce(Layers<'_>) -> Result<()>,
) -> Result<Graph> {
    let opsets = Opsets::from([(String::new(), opset)]);
    let b = GraphBuilder::new(Graph::new("main"), opsets).with_node_names();
    write(Layers { b: &b, w: weights })?;
    Ok(b.finish())
}

/// A linear layer: weights with their outputs first.
pub(crate) struct Linear {
    name: String,
    weight: Weight,
    bias: Option<Tensor>,
}

impl Layers<'_> {
    /// A constant under the name that it has in the checkpoint.
    pub(crate) fn constant(&self, name: &str, tensor: Tensor) -> Var {
        self.b.under("", |b| b.parameter(name, tensor))
    }

    /// The linear layer `name`, whose weights have their outputs first.
    pub(crate) fn plain(&self, name: &str, [inputs, outputs]: [usize; 2]) -> Result<Linear> {
        let weight = self.weight(name, [inputs, outputs])?;
        let bias = self.w.optional(&format!("{name}.bias"), &[outputs])?;
        Ok(Linear { name: name.to_owned(), weight, bias })
    }

    /// The linear layer `name`, whose weights have their inputs first (Conv1D), unless they come quantized.
    pub(crate) fn inputs_first(&self, name: &str, [inputs, outputs]: [usize; 2]) -> Result<Linear> {
        let weight = match self.w.quantized(name, [outputs, inputs])? {
            Some(blocks) => blocks.into(),
            None => {
                let weight = self.w.tensor(&format!("{name}.weight"), &[inputs, outputs])?;
                Weight::Float(checked(name, weight.permuted(&[1, 0]))?)
            }
        };
        let bias = self.w.optional(&format!("{name}.bias"), &[outputs])?;
        Ok(Linear { name: name.to_owned(), weight, bias })
    }

    /// `x W^T + b`
    pub(crate) fn apply(&self, x: Var, linear: &Linear) -> Result<Var> {
        let Linear { name, weight, bias } = linear;
        let y = self.product(x, &format!("{name}.weight"), weight)?;
        match bias {
            Some(bias) => self.b.add(y, self.constant(&format!("{name}.bias"), bias.clone())),
            None => Ok(y),
        }
    }

    /// `x W^T + b` by a table `[outputs, inputs]` as it lies, for each of `ids`: to turn it would make a second
    /// constant of a table that gives embeddings, too.
    pub(crate) fn by_table(
        &self,
        x: Var,
        table: Var,
        (bias, ids): (Option<Var>, Var),
        [inputs, outputs]: [usize; 2],
    ) -> Result<Var> {
        let b = self.b;
        let flat = b.reshape(x, vec![-1, inputs as i64]).one()?;
        let product = b.gemm(flat, table).trans_b(1);
        let words = match bias {
            Some(bias) => product.c(bias).one()?,
            None => product.one()?,
        };
        let outputs = b.constant(Tensor::vector(vec![outputs as i64]));
        let sizes = b.concat([b.shape(ids).one()?, outputs]).axis(0).one()?;
        b.reshape(words, sizes).one()
    }

    /// `x / sqrt(mean(x^2) + epsilon) * weight`
    pub(crate) fn rms(&self, x: Var, weight: Var, epsilon: f64) -> Result<Var> {
        let b = self.b;
        if b.opset() >= OPERATORS {
            return b.rms_normalization(x, weight).axis(-1).epsilon(epsilon).one();
        }
        let square = b.reduce_mean(b.mul(x, x)?).axes(vec![-1]).keepdims(1).one()?;
        let root = b.sqrt(b.add(square, epsilon)?)?;
        b.mul(b.div(x, root)?, weight)
    }

    /// The layer norm `name` of the last axis, which has `size` elements; a bias may be absent.
    pub(crate) fn layer_norm(&self, x: Var, name: &str, size: usize, epsilon: f64) -> Result<Var> {
        let weight = self.w.tensor(&format!("{name}.weight"), &[size])?;
        let weight = self.constant(&format!("{name}.weight"), weight);
        let call = self.b.layer_normalization(x, weight).axis(-1).epsilon(epsilon);
        match self.w.optional(&format!("{name}.bias"), &[size])? {
            Some(bias) => call.b(self.constant(&format!("{name}.bias"), bias)).one(),
            None => call.one(),
        }
    }
}

impl Linear {
    /// All outputs of several layers with the same inputs in one; nothing where some have a bias and others lack
    /// it, or weights are integers.
    pub(crate) fn joined(name: &str, parts: &[Linear]) -> Result<Option<Linear>> {
        let biases: Vec<Tensor> = parts.iter().filter_map(|part| part.bias.clone()).collect();
        if !biases.is_empty() && biases.len() != parts.len() {
            return Ok(None);
        }
        let reals = parts.iter().map(|part| match &part.weight {
            Weight::Float(weight) => Some(weight.clone()),
            Weight::Blocks(_) => None,
        });
        let Some(reals) = reals.collect::<Option<Vec<Tensor>>>() else { return Ok(None) };
        let weight = Weight::Float(checked(name, Tensor::concat(&reals, 0))?);
        let bias = match biases.is_empty() {
            true => None,
            false => Some(checked(name, Tensor::concat(&biases, 0))?),
        };
        Ok(Some(Linear { name: name.to_owned(), weight, bias }))
    }

    /// Some of the outputs, as a layer of their own.
    pub(crate) fn rows(&self, role: &str, first: usize, count: usize) -> Result<Linear> {
        let cut = |tensor: &Tensor| {
            let mut axes: Vec<_> = tensor.dims().iter().map(|size| (0, *size, 1)).collect();
            axes[0] = (first, count, 1);
            tensor.sliced(&axes)
        };
        self.with(role, cut)
    }

    /// Of outputs in so many groups, `count` of each from `first` on.
    pub(crate) fn grouped(
        &self,
        role: &str,
        groups: usize,
        [first, count]: [usize; 2],
    ) -> Result<Linear> {
        let cut = |tensor: &Tensor| {
            let each = tensor.dims()[0] / groups;
            let inputs = tensor.dims()[1..].iter().product();
            let apart = tensor.reshaped([groups, each, inputs])?;
            let cut = apart.sliced(&[(0, groups, 1), (first, count, 1), (0, inputs, 1)])?;
            let mut dims = tensor.dims().to_vec();
            dims[0] = groups * count;
            cut.reshaped(dims)
        };
        self.with(role, cut)
    }

    fn with(
        &self,
        role: &str,
        cut: impl Fn(&Tensor) -> std::result::Result<Tensor, TensorError>,
    ) -> Result<Linear> {
        let name = format!("{}.{role}", self.name);
        let weight = checked(&name, self.weight.cut(&cut))?;
        let bias = self.bias.as_ref().map(|bias| checked(&name, cut(bias))).transpose()?;
        Ok(Linear { name, weight, bias })
    }
}

/// A derivation that sizes were checked for.
pub(crate) fn checked<T>(
    name: &str,
    derived: std::result::Result<T, TensorError>,
) -> std::result::Result<T, Diagnostic> {
    derived.map_err(|e| damaged(format!("tensor `{}`: {e}", shown(name))))
}

/// What a layer does to each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x sigmoid(x)`
    Silu,
    /// By the distribution function.
    Gelu,
    /// By its approximation with a tangent.
    GeluTanh,
    /// `x sigmoid(1.702 x)`
    QuickGelu,
    /// `max(x, 0)`
    Relu,
    /// `max(x, 0)^2`
    SquaredRelu,
    /// The hyperbolic tangent.
    Tanh,
    /// The logistic function.
    Sigmoid,
    /// Nothing.
    Identity,
}

impl Activation {
    /// That of this name in `config.json`.
    pub(crate) fn named(word: &str) -> Option<Activation> {
        Some(match word {
            "silu" | "swish" => Activation::Silu,
            "gelu" | "gelu_python" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_accurate" => {
                Activation::GeluTanh
            }
            "quick_gelu" => Activation::QuickGelu,
            "relu" => Activation::Relu,
            "relu2" => Activation::SquaredRelu,
            "tanh" => Activation::Tanh,
            "sigmoid" => Activation::Sigmoid,
            "linear" => Activation::Identity,
            _ => return None,
        })
    }
}

pub(crate) fn activate(b: &GraphBuilder, x: Var, activation: Activation) -> Result<Var> {
    match activation {
        Activation::Silu => silu(b, x),
        Activation::Gelu => b.gelu(x).one(),
        Activation::GeluTanh => b.gelu(x).approximate("tanh").one(),
        Activation::QuickGelu => b.mul(x, b.sigmoid(b.mul(x, 1.702)?)?),
        Activation::Relu => b.relu(x),
        Activation::SquaredRelu => {
            let x = b.relu(x)?;
            b.mul(x, x)
        }
        Activation::Tanh => b.tanh(x),
        Activation::Sigmoid => b.sigmoid(x),
        Activation::Identity => Ok(x),
    }
}
