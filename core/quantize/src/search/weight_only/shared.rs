//! What of weights several nodes read: products that share theirs, tables, and tied ones that are both.

use super::BLOCK_MIN;
use super::place::BlockedWeight;
use super::table::HalfTable;
use super::write::{Integers, Readers};
use crate::plan::Settings;
use crate::range::weights::Rule;
use onnxd_ir::ops::{Gemm, Op};
use onnxd_ir::{DataType, Graph, NodeId, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What was found of weights, and made of them, before all who read them were written.
#[derive(Default)]
pub(crate) struct SharedWeights {
    pub(crate) made: Vec<(IntegersKey, Integers, Option<f64>)>,
    pub(crate) tables: BTreeSet<ValueId>,
    /// Tables, and the same with 16 bits.
    pub(crate) halves: BTreeMap<ValueId, HalfTable>,
    /// Weights that products and tables read from the same bytes.
    by_both: BTreeSet<ValueId>,
}

/// What becomes the same integers for several nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct IntegersKey {
    pub(crate) w: ValueId,
    pub(crate) by_rows: bool,
    pub(crate) table: bool,
    pub(crate) block: usize,
    pub(crate) rule: Rule,
    pub(crate) alpha: f32,
}

/// Whether a node reads rows of a table.
pub(crate) fn is_table(g: &Graph, id: NodeId, w: ValueId) -> bool {
    g[id].is("Gather") && g[id].input(0) == Some(w)
}

/// Tables get 8 bits, and finer blocks where all weights have these: what an entry is off by reaches all layers, and no
/// sum over many inputs evens it out.
pub(crate) fn table_settings(all: Settings) -> Settings {
    let finer = |block: usize| match block.is_multiple_of(2) && block > BLOCK_MIN {
        true => block / 2,
        false => block,
    };
    match all.weight {
        DataType::Int4 => Settings { weight: DataType::Int8, ..all },
        DataType::Uint4 => Settings { weight: DataType::Uint8, ..all },
        _ => Settings { block_size: finer(all.block_size), ..all },
    }
}

impl SharedWeights {
    /// Who reads the weights that lie at `place`, as far as they can read the same bytes.
    pub(crate) fn readers(&mut self, g: &Graph, place: &BlockedWeight, block: usize) -> Readers {
        let (tables, products): (Vec<NodeId>, Vec<NodeId>) =
            g.readers(place.w).iter().partition(|id| is_table(g, **id, place.w));
        let by_row = |id: &NodeId| {
            let gemm = Gemm::view(&g[*id]).filter(|op| op.b == place.w);
            gemm.is_some_and(|op| op.transB != 0 && op.alpha == 1.0)
        };
        if !tables.is_empty() {
            self.tables.insert(place.w);
            let both = !products.is_empty() && products.iter().all(by_row);
            if both && place.k.is_multiple_of(block) {
                self.by_both.insert(place.w);
            }
        }
        match place.x {
            _ if self.by_both.contains(&place.w) => Readers::Both,
            None => Readers::Tables,
            Some(_) => Readers::Products,
        }
    }
}
