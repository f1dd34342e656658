//! Rotary embedding: pairs of elements turn by angles that grow with the position.

use super::OPERATORS;
use crate::config::rope::{Frequencies, Rope};
use onnxd_plugin_sdk::build::{Call, GraphBuilder, Result, Var, op};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// Cosines and sines of a call: [B, 1, S, R], or [B, 1, S, R / 2, 1] for neighbours; [B, S, R / 2] for the operator.
pub(crate) struct Turn {
    dims: usize,
    interleaved: bool,
    cos: Var,
    sin: Var,
}

impl Turn {
    /// Of tokens at `positions`: [B, S].
    pub(crate) fn new(b: &GraphBuilder, rope: &Rope, positions: Var) -> Result<Turn> {
        let Rope { dims, interleaved, gain, ref frequencies } = *rope;
        let at = b.unsqueeze(b.cast(positions, DataType::Float)?, vec![2])?;
        let half = b.mul(at, inverse(b, frequencies, positions)?)?;
        let is_operator = b.opset() >= OPERATORS;
        let is_whole = is_operator || interleaved;
        let angles = if is_whole { half } else { b.concat([half, half]).axis(-1).one()? };
        let axes = if interleaved { vec![1, 4] } else { vec![1] };
        let table = |x| {
            let x = if gain == 1.0 { x } else { b.mul(x, gain)? };
            if is_operator { Ok(x) } else { b.unsqueeze(x, axes.clone()) }
        };
        Ok(Turn { dims, interleaved, cos: table(b.cos(angles)?)?, sin: table(b.sin(angles)?)? })
    }

    /// Turns the first elements of heads [B, heads, S, D]; the others pass.
    pub(crate) fn apply(&self, b: &GraphBuilder, x: Var, head: usize) -> Result<Var> {
        if b.opset() >= OPERATORS {
            return self.operator(b, x, head).one();
        }
        if self.dims == head {
            return self.turned(b, x);
        }
        let parts = vec![self.dims as i64, (head - self.dims) as i64];
        let [x, rest] = b.split(x).split(parts).axis(-1).outputs()?;
        b.concat([self.turned(b, x)?, rest]).axis(-1).one()
    }

    /// The same of heads that lie together: [B, S, heads D].
    pub(crate) fn together(
        &self,
        b: &GraphBuilder,
        x: Var,
        [heads, head]: [usize; 2],
    ) -> Result<Var> {
        self.operator(b, x, head).num_heads(heads as i64).one()
    }

    fn operator<'b>(
        &self,
        b: &'b GraphBuilder,
        x: Var,
        head: usize,
    ) -> Call<'b, op::RotaryEmbedding> {
        let turn = b.rotary_embedding(x, self.cos, self.sin).interleaved(self.interleaved);
        if self.dims == head { turn } else { turn.rotary_embedding_dim(self.dims as i64) }
    }

    fn turned(&self, b: &GraphBuilder, x: Var) -> Result<Var> {
        let half = (self.dims / 2) as i64;
        if !self.interleaved {
            let [first, second] = b.split(x).split(vec![half, half]).axis(-1).outputs()?;
            let across = b.concat([b.neg(second)?, first]).axis(-1).one()?;
            return b.add(b.mul(x, self.cos)?, b.mul(across, self.sin)?);
        }
        let pairs = b.reshape(x, vec![0, 0, 0, half, 2]).one()?;
        let [first, second] = b.split(pairs).split(vec![1, 1]).axis(-1).outputs()?;
        let straight = b.sub(b.mul(first, self.cos)?, b.mul(second, self.sin)?)?;
        let across = b.add(b.mul(second, self.cos)?, b.mul(first, self.sin)?)?;
        let pairs = b.concat([straight, across]).axis(-1).one()?;
        b.reshape(pairs, vec![0, 0, 0, 2 * half]).one()
    }
}

/// Angles for each position.
fn inverse(b: &GraphBuilder, frequencies: &Frequencies, positions: Var) -> Result<Var> {
    let constant = |values: &[f64]| {
        b.constant(Tensor::vector(values.iter().map(|x| *x as f32).collect::<Vec<f32>>()))
    };
    match frequencies {
        Frequencies::Fixed(all) => Ok(constant(all)),
        Frequencies::Dynamic { base, exponents, factor, usual } => {
            let length = b.cast(length(b, positions)?, DataType::Float)?;
            let over =
                b.div(b.max([length, b.constant(Tensor::scalar(*usual as f32))])?, *usual)?;
            let stretch = b.sub(b.mul(over, *factor)?, factor - 1.0)?;
            b.mul(constant(base), b.pow(stretch, constant(exponents))?)
        }
        Frequencies::ByLength { short, long, usual } => {
            let is_long = b.greater(length(b, positions)?, *usual as i64)?;
            b.where_(is_long, constant(long), constant(short))
        }
    }
}

/// The length of the longest sequence: a number.
fn length(b: &GraphBuilder, positions: Var) -> Result<Var> {
    b.add(b.reduce_max(positions).keepdims(0).one()?, 1)
}
