//! Tensors cross the plugin interface by handle: read where the host keeps them, written back by id where they lie in
//! memory that the host lent.

use crate::diagnostics::{Code, Diagnostic};
use crate::host::JobHandle;
use crate::ir::{Model, Tensor};
use bytes::Bytes;
use onnxd_ir::DataType;
use onnxd_onnx::{Placement, TensorLoader, TensorSink, handle_of};

/// The tensors of the conversion in progress.
pub(crate) struct HostTensors<'j>(pub(crate) &'j JobHandle);

impl TensorLoader for HostTensors<'_> {
    fn load(
        &mut self,
        dtype: DataType,
        dims: &[usize],
        entries: &[(String, String)],
    ) -> Result<Bytes, Diagnostic> {
        let mapped = self.0.tensor(handle_of(entries)?)?;
        self.0.remember(&mapped, Some((dtype.number(), sizes(dims))));
        Ok(mapped.bytes)
    }
}

impl TensorSink for HostTensors<'_> {
    fn place(&mut self, tensor: &Tensor) -> Result<Placement, Diagnostic> {
        let bytes = tensor.bytes();
        let (dtype, dims) = (tensor.dtype().number(), sizes(tensor.dims()));
        let id = match self.0.lent_tensor(dtype, &dims, bytes)? {
            Some(id) => id,
            None => self.0.new_tensor(dtype, &dims, bytes)?,
        };
        Ok(Placement::Handle(id))
    }
}

/// Bytes from which on a constant is handed over by itself.
pub(crate) const LARGE_BYTES: usize = 1 << 16;

/// Moves constants that a plugin made into the memory of the host, one after the other, lest all of them are held twice
/// while the model is written.
pub(crate) fn hand_over(model: &mut Model, job: &JobHandle) -> Result<(), Diagnostic> {
    let graph = &mut model.graph;
    for v in graph.value_ids().collect::<Vec<_>>() {
        let made = |t: &&Tensor| t.dtype() != DataType::String && t.byte_len() >= LARGE_BYTES;
        let Some(tensor) = graph[v].initializer().filter(made) else { continue };
        if job.lends(tensor.bytes()) {
            continue;
        }
        let shape = (tensor.dtype().number(), sizes(tensor.dims()));
        let id = job.new_tensor(shape.0, &shape.1, tensor.bytes())?;
        let mapped = job.tensor(id)?;
        job.remember(&mapped, Some(shape));
        let moved = Tensor::new(tensor.dtype(), tensor.dims().to_vec(), mapped.bytes);
        let moved = moved.map_err(|e| Diagnostic::new(Code::PluginContract, e.to_string()))?;
        graph.set_initializer(v, Some(moved));
    }
    Ok(())
}

pub(crate) fn sizes(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|d| *d as i64).collect()
}
