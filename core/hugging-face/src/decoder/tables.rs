//! What GroupQueryAttention reads beside queries, keys and values: how many tokens rows have, and tables of angles.

use super::weights::Net;
use crate::config::rope::{Frequencies, Rope};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Tensor};

/// Angles in the tables of a model: heads turn outside by those that are beyond it.
const ANGLES_MAX: usize = 1 << 23;

/// How many tokens rows have: the number of the last one, and that of the cache with the new ones.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    pub(super) last: Var,
    pub(super) total: Var,
}

impl Lengths {
    pub(super) fn new(b: &GraphBuilder, mask: Var) -> Result<Lengths> {
        let tokens = b.reduce_sum(mask).axes(vec![1]).keepdims(0).one()?;
        let last = b.cast(b.sub(tokens, 1)?, DataType::Int32)?;
        let total = b.cast(b.shape(mask).start(1).end(2).one()?, DataType::Int32)?;
        Ok(Lengths { last, total })
    }
}

/// Cosines and sines of all positions that a sequence may have: [positions, R / 2].
#[derive(Clone, Copy)]
pub(super) struct Table {
    pub(super) cos: Var,
    pub(super) sin: Var,
}

impl Table {
    /// The tables of all rotations; those of equal ones are the same.
    pub(super) fn all(net: &Net<'_>) -> Vec<Option<Table>> {
        let ropes = &net.d.ropes;
        let mut left = ANGLES_MAX;
        let mut tables: Vec<Option<Table>> = vec![];
        for (i, rope) in ropes.iter().enumerate() {
            let known = ropes[..i].iter().position(|known| known == rope);
            let table = match known {
                Some(known) => tables[known],
                None => Table::new(net, rope, &mut left),
            };
            tables.push(table);
        }
        tables
    }

    /// The tables of a rotation that the operator computes; `None` where heads must turn before it.
    fn new(net: &Net<'_>, rope: &Rope, left: &mut usize) -> Option<Table> {
        let Rope { dims, gain, ref frequencies, .. } = *rope;
        let Frequencies::Fixed(inverse) = frequencies else { return None };
        let positions = net.target.context?;
        let elements = positions.checked_mul(inverse.len())?;
        // What kernels of ONNX Runtime demand (seen in 1.31 and 1.32).
        let is_even = net.d.head.is_multiple_of(16) && (dims / 2).is_multiple_of(8);
        if !is_even {
            return None;
        }
        *left = left.checked_sub(elements)?;
        let table = |turn: fn(f64) -> f64| {
            let row = |at: usize| inverse.iter().map(move |w| (turn(at as f64 * w) * gain) as f32);
            let all: Vec<f32> = (0..positions).flat_map(row).collect();
            net.b.constant(Tensor::from_vec([positions, inverse.len()], all))
        };
        Some(Table { cos: table(f64::cos), sin: table(f64::sin) })
    }
}
