//! Types of integers in the graph: what holds them, where they change, and constants of them.

use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Result as Built, Var};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use onnxd_plugin_sdk::ir::{DataType, Tensor, ValueId, ValueType};
use std::cell::RefCell;

/// Where types change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Casting {
    /// With `Cast`, as the standard demands.
    Explicit,
    /// Without, as N2D2 does on demand: no runtime accepts such a graph (`ImplicitCasting`).
    Implicit,
    /// All integers are held in float32, so that there is nothing to cast (`FakeQuantization`).
    Fake,
}

/// Why a cell cannot be written in integers.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) String);

/// What is written, or why it cannot be.
pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl From<&str> for Refusal {
    fn from(why: &str) -> Refusal {
        Refusal(why.to_owned())
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal(why)
    }
}

impl From<Diagnostic> for Refusal {
    fn from(found: Diagnostic) -> Refusal {
        Refusal(found.message.trim_end_matches('.').to_owned())
    }
}

/// The graph that integers are written into.
pub(crate) struct Types<'b> {
    pub(crate) b: &'b GraphBuilder,
    pub(crate) casting: Casting,
    /// What the user should know.
    pub(crate) remarks: RefCell<Vec<String>>,
}

impl Types<'_> {
    pub(crate) fn fake(&self) -> bool {
        self.casting == Casting::Fake
    }

    /// The type in which integers of type `dtype` are held.
    pub(crate) fn held(&self, dtype: DataType) -> DataType {
        if self.fake() { DataType::Float } else { dtype }
    }

    /// `v` as `to`, where casts are written.
    pub(crate) fn cast(&self, v: Var, from: DataType, to: DataType, role: &str) -> Built<Var> {
        if self.casting != Casting::Explicit || from == to {
            return Ok(v);
        }
        Ok(self.b.named(role, self.b.cast(v, to)?))
    }

    /// Integers as a constant of type `dtype`: a scalar if all are equal, else one per channel of a
    /// value with `axes` axes behind the channels.
    pub(crate) fn integers(
        &self,
        values: &[i64],
        dtype: DataType,
        axes: usize,
        role: &str,
    ) -> Result<Var> {
        let (dims, values) = spread(values, axes);
        let tensor = Operand::Ints(values).to_tensor(Some(dtype));
        let tensor = tensor.and_then(|tensor| tensor.reshaped(dims).ok());
        let tensor = tensor.ok_or_else(|| format!("its constant `{role}` goes beyond {dtype}"))?;
        Ok(self.b.parameter(role, tensor))
    }

    /// As [`Types::integers`], of float32.
    pub(crate) fn reals(&self, values: &[f32], axes: usize, role: &str) -> Var {
        let (dims, values) = spread(values, axes);
        self.b.parameter(role, Tensor::from_vec(dims, values))
    }

    /// `v`, of type `dtype`, kept within `(lo, hi)`.
    pub(crate) fn clip(&self, v: Var, dtype: DataType, (lo, hi): (i64, i64)) -> Result<Var> {
        let lo = self.integers(&[lo], dtype, 0, "clip_min")?;
        let hi = self.integers(&[hi], dtype, 0, "clip_max")?;
        Ok(self.b.clip(v).min(lo).max(hi).role("clip").one()?)
    }

    /// `v` is the existing value `out` from now on, and the node that computes it is called so, but
    /// for products, which keep their names.
    pub(crate) fn settle(&self, v: Var, out: ValueId) -> Built<()> {
        self.b.settle(v, out)?;
        let mut graph = self.b.graph_mut();
        let name = graph[out].name.clone();
        if let Some(id) = graph.producer(out)
            && !matches!(graph[id].op.as_str(), "ConvInteger" | "MatMulInteger")
        {
            graph.node_mut(id).name = name;
        }
        Ok(())
    }

    /// Declares that `v` holds integers of type `dtype`; its shape stays.
    pub(crate) fn retype(&self, v: ValueId, dtype: DataType) {
        let mut graph = self.b.graph_mut();
        let shape = graph[v].shape().map(<[_]>::to_vec);
        graph[v].ty = Some(ValueType::Tensor { dtype: Some(self.held(dtype)), shape });
    }

    /// Number of axes behind the channels of `v`, which are axis 1, or the last of one or two.
    pub(crate) fn axes(&self, v: Var) -> Option<usize> {
        Some(self.b.rank_of(v)?.saturating_sub(2))
    }
}

fn spread<T: Copy + PartialEq>(values: &[T], axes: usize) -> (Vec<usize>, Vec<T>) {
    if values.iter().all(|x| *x == values[0]) {
        return (vec![], vec![values[0]]);
    }
    let dims = std::iter::once(values.len()).chain(std::iter::repeat_n(1, axes)).collect();
    (dims, values.to_vec())
}
