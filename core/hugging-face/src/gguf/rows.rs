//! Tensors by rows: an order of rows is the same in floats and in blocks, which lie within a row.

use super::tensors::{Kind, Stored};
use onnxd_plugin_sdk::ir::{BlockFormat, BlockPart, DataType, Tensor, TensorError};

pub(super) type Result<T> = std::result::Result<T, TensorError>;

/// A tensor whose rows may be put in another order, or apart.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// The rows as they are stored: elements, or the bytes of blocks.
    stored: Tensor,
    kind: Kind,
    /// Elements of a row.
    columns: usize,
    /// Of one axis, whose elements are rows of their own.
    is_vector: bool,
}

impl Rows {
    pub(super) fn of(tensor: &Stored) -> Result<Rows> {
        let Stored { kind, dims, bytes, .. } = tensor;
        let (dtype, is_vector) = match kind {
            Kind::Elements(dtype) => (*dtype, dims.len() < 2),
            Kind::Blocks(_) => (DataType::Uint8, false),
        };
        let (outer, columns) = match dims.split_last() {
            Some((columns, outer)) if !is_vector => (outer.to_vec(), *columns),
            _ => (vec![dims.iter().product()], 1),
        };
        let count: usize = outer.iter().product();
        let width = match kind {
            Kind::Elements(_) => columns,
            Kind::Blocks(_) => bytes.len().checked_div(count).unwrap_or(0),
        };
        let sizes = [outer, vec![width]].concat();
        let stored = Tensor::new(dtype, sizes, bytes.clone())?;
        Ok(Rows { stored, kind: *kind, columns, is_vector })
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> usize {
        let dims = self.stored.dims();
        dims[..dims.len() - 1].iter().product()
    }

    /// What `f` makes of the axes before the last one, which it keeps.
    pub(super) fn moved(&self, f: impl Fn(&Tensor, usize) -> Result<Tensor>) -> Result<Rows> {
        let width = self.stored.dims().last().copied().unwrap_or(0);
        Ok(Rows { stored: f(&self.stored, width)?, ..self.clone() })
    }

    /// Its format, if it lies in blocks.
    pub(super) fn format(&self) -> Option<BlockFormat> {
        match self.kind {
            Kind::Elements(_) => None,
            Kind::Blocks(format) => Some(format),
        }
    }

    /// Sizes of axes, with the elements of rows.
    pub(super) fn dims(&self) -> Vec<usize> {
        let outer = &self.stored.dims()[..self.stored.rank() - 1];
        [outer, &[self.columns]].concat()
    }

    /// What blocks say of each element, or of each run with one scale; elements by themselves have no parts.
    pub(super) fn part(&self, part: BlockPart) -> Result<Tensor> {
        let Some(format) = self.format() else { return self.tensor() };
        let mut dims = self.dims();
        if let (BlockPart::Scales | BlockPart::Minima, Some(last)) = (part, dims.last_mut()) {
            *last /= format.run();
        }
        self.stored.from_blocks(format, part, dims)
    }

    /// Whether rows lie alike, and are those of an axis of their own.
    fn is_like(&self, other: &Rows) -> bool {
        let is_same = self.kind == other.kind && self.stored.dims() == other.stored.dims();
        is_same && self.stored.rank() > 1
    }

    /// The rows of each matrix, and behind them those of another tensor, if both are stored alike.
    pub(super) fn behind(&self, other: &Rows) -> Result<Option<Rows>> {
        if !self.is_like(other) {
            return Ok(None);
        }
        let parts = [self.stored.clone(), other.stored.clone()];
        let both = Tensor::concat(&parts, self.stored.rank() - 2)?;
        Ok(Some(Rows { stored: both, ..self.clone() }))
    }

    /// Rows of two tensors in turn, if both are stored alike.
    pub(super) fn in_turn(&self, other: &Rows) -> Result<Option<Rows>> {
        if !self.is_like(other) {
            return Ok(None);
        }
        let axis = self.stored.rank() - 1;
        let apart = |rows: &Rows| {
            let mut dims = rows.stored.dims().to_vec();
            dims.insert(axis, 1);
            rows.stored.reshaped(dims)
        };
        let mut dims = self.stored.dims().to_vec();
        dims[axis - 1] = dims[axis - 1].saturating_mul(2);
        let both = Tensor::concat(&[apart(self)?, apart(other)?], axis)?.reshaped(dims)?;
        Ok(Some(Rows { stored: both, ..self.clone() }))
    }

    /// The tensor, whose elements stay where they are.
    pub(super) fn tensor(&self) -> Result<Tensor> {
        let mut dims = self.stored.dims().to_vec();
        dims.pop();
        if !self.is_vector {
            dims.push(self.columns);
        }
        match self.kind {
            Kind::Elements(_) => self.stored.reshaped(dims),
            Kind::Blocks(format) => self.stored.from_blocks(format, BlockPart::Values, dims),
        }
    }
}

/// Rows `[heads, pairs, 2]` as `[heads, 2, pairs]`: pairs that turn lie side by side in the file, and half a head apart
/// in the family's weights.
pub(super) fn halves_apart(rows: &Rows, heads: usize) -> Result<Rows> {
    let pairs = rows.count() / heads.max(1) / 2;
    rows.moved(|rows, width| {
        let dims = rows.dims();
        let pairs = rows.reshaped([heads, pairs, 2, width])?;
        pairs.permuted(&[0, 2, 1, 3])?.reshaped(dims)
    })
}

/// All queries, all keys and all values as groups of the queries of a key, this key, and its value.
pub(super) fn grouped(rows: &Rows, [heads, kv_heads, head]: [usize; 3]) -> Result<Rows> {
    rows.moved(|rows, width| {
        let part = |first: usize, count: usize| {
            let part = rows.sliced(&[(first * head, count * head, 1), (0, width, 1)])?;
            part.reshaped([kv_heads, count / kv_heads * head, width])
        };
        let parts = [part(0, heads)?, part(heads, kv_heads)?, part(heads + kv_heads, kv_heads)?];
        Tensor::concat(&parts, 1)?.reshaped(rows.dims())
    })
}

/// Entry `i` of the outermost axis.
pub(super) fn entry(rows: &Rows, i: usize) -> Result<Rows> {
    rows.moved(|rows, _| {
        let mut axes: Vec<_> = rows.dims().iter().map(|size| (0, *size, 1)).collect();
        axes[0] = (i, 1, 1);
        rows.sliced(&axes)?.reshaped(&rows.dims()[1..])
    })
}
