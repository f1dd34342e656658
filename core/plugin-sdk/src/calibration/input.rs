//! What of a model has to be fed.

use crate::ir::{DataType, Dim, Model, ValueId};

/// An input of a model that has to be fed.
pub(super) struct Input<'m> {
    pub(super) name: &'m str,
    pub(super) dtype: DataType,
    pub(super) shape: Option<&'m [Dim]>,
}

impl Input<'_> {
    /// The size of the first axis, if it is fixed.
    pub(super) fn batch_size(&self) -> Option<u64> {
        match self.shape.and_then(<[Dim]>::first) {
            Some(Dim::Known(n)) => u64::try_from(*n).ok(),
            _ => None,
        }
    }
}

/// What has to be fed.
pub(super) fn inputs(model: &Model) -> Vec<(ValueId, Input<'_>)> {
    let graph = &model.graph;
    let fed = graph.inputs().iter().filter(|v| graph[**v].initializer().is_none());
    let input = |v: &ValueId| {
        let (id, v) = (*v, &graph[*v]);
        let dtype = v.dtype().unwrap_or(DataType::Float);
        (id, Input { name: &v.name, dtype, shape: v.shape() })
    };
    fed.map(input).collect()
}
