//! Tensors cross the plugin interface by handle: read where the host keeps them, written back by id where they lie in
//! memory that the host lent.

use crate::diagnostics::Diagnostic;
use crate::host::JobHandle;
use crate::ir::Tensor;
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

fn sizes(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|d| *d as i64).collect()
}
