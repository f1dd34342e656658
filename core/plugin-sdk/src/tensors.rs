//! Tensors cross the plugin interface by handle: read where the host keeps them, written back by id where they lie in
//! memory that the host lent.

use crate::contract::contract;
use crate::diagnostics::Diagnostic;
use crate::host::{JobHandle, sizes};
use crate::ir::{Model, Tensor};
use onnxd_ir::{DataType, Derivation, row_major};
use onnxd_onnx::{Placement, TensorLoader, TensorSink, handle_of};

/// The tensors of the conversion in progress.
pub(crate) struct HostTensors<'j>(pub(crate) &'j JobHandle);

impl TensorLoader for HostTensors<'_> {
    fn load(
        &mut self,
        dtype: DataType,
        dims: &[usize],
        entries: &[(String, String)],
    ) -> Result<Tensor, Diagnostic> {
        let tensor = self.get(handle_of(entries)?)?;
        tensor.viewed_as(dtype, dims).map_err(|e| contract(e.to_string()))
    }
}

impl TensorSink for HostTensors<'_> {
    fn place(&mut self, tensor: &Tensor) -> Result<Placement, Diagnostic> {
        self.put(tensor).map(Placement::Handle)
    }
}

impl HostTensors<'_> {
    /// A tensor of the host; a derived one is built anew over what it is derived from.
    fn get(&self, id: u64) -> Result<Tensor, Diagnostic> {
        if let Some(reply) = self.0.derivation(id)? {
            let sources = reply.sources.iter().map(|id| self.get(*id)).collect::<Result<_, _>>()?;
            let tensor = reply.tensor(sources)?;
            self.0.note(&tensor, id);
            return Ok(tensor);
        }
        let (mapped, dtype, dims) = self.0.tensor(id)?;
        let sizes = dims.iter().map(|d| *d as usize).collect();
        let known = DataType::from_number(dtype);
        let known = known.ok_or_else(|| contract(format!("data type {dtype} is unknown")))?;
        self.0.remember(&mapped, Some((dtype, dims)));
        Tensor::new(known, sizes, mapped.bytes).map_err(|e| contract(e.to_string()))
    }

    /// The id of a tensor with the host, which is given what it does not have.
    fn put(&self, tensor: &Tensor) -> Result<u64, Diagnostic> {
        if let Some(id) = self.0.noted(tensor) {
            return Ok(id);
        }
        let dtype = tensor.dtype();
        let (Some(from), Some(dims)) = (tensor.derivation(), tensor.derivation_dims()) else {
            let (bytes, dims) = (tensor.bytes(), sizes(tensor.dims()));
            return match self.0.lent_tensor(dtype.number(), &dims, &bytes)? {
                Some(id) => Ok(id),
                None => self.0.new_tensor(dtype.number(), &dims, &bytes),
            };
        };
        if !self.0.derives(from) {
            return self.put(&tensor.held());
        }
        let id = if dims == tensor.dims() {
            let sources = from.sources().iter().map(|source| self.source(source));
            self.0.derive(from, &sources.collect::<Result<Vec<_>, _>>()?, dtype, dims)?
        } else {
            // Other sizes are a view of all elements.
            let source = tensor.reshaped(dims).map_err(|e| contract(e.to_string()))?;
            let sources = [self.put(&source)?];
            let strides = row_major(tensor.dims());
            let view = Derivation::Strided { source, offset: 0, strides };
            self.0.derive(&view, &sources, dtype, tensor.dims())?
        };
        self.0.note(tensor, id);
        Ok(id)
    }

    /// The id of what a tensor is derived from; others may be, too.
    fn source(&self, tensor: &Tensor) -> Result<u64, Diagnostic> {
        let id = self.put(tensor)?;
        if tensor.derivation().is_none() && !self.lends(tensor) {
            self.0.note(tensor, id);
        }
        Ok(id)
    }

    /// Whether the elements, or those they are derived from, lie with the host.
    fn lends(&self, tensor: &Tensor) -> bool {
        match tensor.derivation() {
            Some(from) => from.sources().iter().all(|source| self.lends(source)),
            None => self.0.lends(&tensor.bytes()),
        }
    }
}

/// Bytes from which on a constant is handed over by itself.
pub(crate) const LARGE_BYTES: usize = 1 << 16;

/// Moves constants that a plugin made into the memory of the host, one after the other, lest all of them are held twice
/// while the model is written.
pub(crate) fn hand_over(model: &mut Model, job: &JobHandle) -> Result<(), Diagnostic> {
    let graph = &mut model.graph;
    let host = HostTensors(job);
    for v in graph.value_ids().collect::<Vec<_>>() {
        let made = |t: &&Tensor| t.dtype() != DataType::String && t.byte_len() >= LARGE_BYTES;
        let Some(tensor) = graph[v].initializer().filter(made) else { continue };
        if host.lends(tensor) {
            continue;
        }
        let moved = host.get(host.put(tensor)?)?.viewed_as(tensor.dtype(), tensor.dims());
        let moved = moved.map_err(|e| contract(e.to_string()))?;
        graph.set_initializer(v, Some(moved));
    }
    Ok(())
}
