//! Where weights stand.

use crate::graph::weighted::FLOATS;
use crate::range::vectors;
use crate::range::weights::finite;
use onnxd_diagnostics::refuse;
use onnxd_ir::ops::{Gemm, MatMul, Op};
use onnxd_ir::{Attr, DataType, Graph, NodeId, Tensor, ValueId};
use std::ops::Range;

/// Elements of a table below which integers save nothing that counts.
const TABLE_MIN: usize = 4096;

/// Weights of a node as the rows that blocks run along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedWeight {
    /// The input of a weighted operator; `None` for a table.
    pub(crate) x: Option<ValueId>,
    /// The weights.
    pub(crate) w: ValueId,
    /// Their input of the node.
    pub(crate) slot: usize,
    /// Matrices that lie one after the other: experts.
    pub(crate) matrices: usize,
    /// Rows of a matrix.
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Whether the weights are stored by rows already.
    pub(crate) by_rows: bool,
    /// Whether the weighted operator reads its input with axes exchanged.
    pub(crate) turned: bool,
    /// The type of the weights.
    pub(crate) dtype: DataType,
}

impl BlockedWeight {
    /// `None` for what has no weights; else why they stay in floating point.
    pub(crate) fn find(g: &Graph, id: NodeId) -> Result<Option<BlockedWeight>, String> {
        let node = &g[id];
        let (x, w, slot, by_rows, turned) = if let Some(op) = MatMul::view(node) {
            (Some(op.a), op.b, 1, false, false)
        } else if let Some(op) = Gemm::view(node) {
            (Some(op.a), op.b, 1, op.transB != 0, op.transA != 0)
        } else if let (true, Some(table)) = (node.is("Gather"), node.input(0)) {
            (None, table, 0, true, false)
        } else {
            return Ok(None);
        };
        let Some(data) = g.constant(w) else {
            return if x.is_some() {
                Err("both factors are computed".to_owned())
            } else {
                Ok(None)
            };
        };
        let dims = data.dims();
        let by_axis = matches!(node.attr("axis"), None | Some(Attr::Int(0)));
        if x.is_none() && !(dims.len() == 2 && by_axis && data.len() >= TABLE_MIN) {
            return Ok(None);
        }
        let dtype = data.dtype();
        if !FLOATS.contains(&dtype) {
            let table = x.is_none() && !dtype.is_float();
            return if table {
                Ok(None)
            } else {
                Err(format!("ONNX Runtime makes no weights of {dtype} from integers"))
            };
        }
        let rank = dims.len();
        refuse!(rank < 2 || data.is_empty() => "its weights are no matrix");
        let matrices = dims[..rank - 2].iter().product();
        let (n, k) = match by_rows {
            true => (dims[rank - 2], dims[rank - 1]),
            false => (dims[rank - 1], dims[rank - 2]),
        };
        Ok(Some(BlockedWeight { x, w, slot, matrices, n, k, by_rows, turned, dtype }))
    }

    /// Rows of all matrices.
    pub(crate) fn rows(&self) -> usize {
        self.matrices * self.n
    }

    /// The weights by rows, as a look at them: nothing is copied.
    pub(crate) fn by_row(&self, data: &Tensor) -> Result<Tensor, String> {
        let view = || {
            let [first, second] = if self.by_rows { [self.n, self.k] } else { [self.k, self.n] };
            let stacked = data.reshaped([self.matrices, first, second])?;
            let turned = if self.by_rows { stacked } else { stacked.permuted(&[0, 2, 1])? };
            turned.reshaped([self.rows(), self.k])
        };
        view().map_err(|e| e.to_string())
    }

    /// The weights by rows, all of them.
    pub(crate) fn values(&self, data: &Tensor) -> Result<Vec<f32>, String> {
        floats(&self.by_row(data)?, 0..self.rows() * self.k)
    }
}

/// Elements of a float tensor at these places.
pub(crate) fn floats(data: &Tensor, places: Range<usize>) -> Result<Vec<f32>, String> {
    let bytes = data.part(places);
    if data.dtype() == DataType::Float {
        return match vectors::finite(&bytes) {
            true => Ok(bytes.as_chunks().0.iter().map(|b| f32::from_ne_bytes(*b)).collect()),
            false => Err("weights are not all finite".to_owned()),
        };
    }
    let count = bytes.len() / (data.dtype().bits() / 8).max(1);
    let part = Tensor::new(data.dtype(), vec![count], bytes.into_owned().into());
    Ok(finite(&part.map_err(|e| e.to_string())?)?.into_owned())
}
