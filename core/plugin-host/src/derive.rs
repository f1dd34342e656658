//! How the table makes and computes tensors that plugins derive from others: checked when made, computed on use.

use crate::Refusal;
use crate::recipe::{DerivationRecipe, Derived};
use crate::tensors::{Array, TensorEntry, TensorTable, unknown};
use bytes::Bytes;
use memmap2::MmapMut;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DERIVATIONS_MAX, DataType, Tensor};
use std::sync::{Arc, PoisonError};

/// Recipes inside each other. They may be more than the derivations that they come to, as views of views are one.
const RECIPES_MAX: usize = 4 * DERIVATIONS_MAX;
impl TensorTable {
    /// A tensor for the graph, which takes no copy and may be derived.
    #[must_use]
    pub fn tensor(&self, id: u64) -> Option<Tensor> {
        self.sealed(id).ok().map(|(tensor, _)| tensor)
    }

    /// The tensor, and how many recipes inside each other it has.
    fn sealed(&self, id: u64) -> Result<(Tensor, usize), Refusal> {
        if let Some(derived) = self.derived(id) {
            return Ok((derived.tensor.clone(), derived.depth));
        }
        let Array { dtype, dims, bytes } = self.get(id).ok_or_else(|| unknown(id))?;
        let tensor = Tensor::new(element_type(dtype)?, sizes(&dims)?, bytes);
        tensor.map(|tensor| (tensor, 0)).map_err(|e| Refusal::invalid(e.to_string()))
    }

    /// Makes a tensor that is derived from others.
    pub(crate) fn derive(
        &self,
        recipe: DerivationRecipe,
        dtype: i32,
        dims: &[i64],
    ) -> Result<u64, Refusal> {
        let mut sources = Vec::new();
        let mut depth = 0;
        for id in &recipe.sources {
            let (tensor, inner) = self.sealed(*id)?;
            sources.push(tensor);
            depth = depth.max(1 + inner);
        }
        refuse!(depth > RECIPES_MAX =>
            Refusal::invalid(format!("more than {RECIPES_MAX} derivations are inside each other")));
        let derivation = recipe.derivation(sources)?;
        let tensor = Tensor::derived(element_type(dtype)?, sizes(dims)?, derivation);
        let tensor = tensor.map_err(|e| Refusal::invalid(e.to_string()))?;
        let dims = dims.into();
        self.add(match tensor.derivation() {
            Some(_) => TensorEntry::Derived(Arc::new(Derived { recipe, tensor, dims, depth })),
            None => TensorEntry::Sealed(Array { dtype, dims, bytes: tensor.bytes() }),
        })
    }

    /// A derived tensor in memory, which is kept until no plugin runs.
    pub(crate) fn computed(&self, id: u64, derived: &Derived) -> Result<Array, Refusal> {
        let mut computed = self.computed.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match computed.get(&id) {
            Some(bytes) => bytes.clone(),
            None => {
                let len = derived.tensor.byte_len();
                let pages = MmapMut::map_anon(len);
                let mut pages = pages.map_err(|_| Refusal::out_of_memory(len as u64))?;
                derived.tensor.copy_into(&mut pages);
                let pages = pages.make_read_only();
                let pages = pages.map_err(|_| Refusal::out_of_memory(len as u64))?;
                let bytes = Bytes::from_owner(pages);
                computed.insert(id, bytes.clone());
                bytes
            }
        };
        let dtype = derived.tensor.dtype().number();
        Ok(Array { dtype, dims: derived.dims.clone(), bytes })
    }
}

fn element_type(number: i32) -> Result<DataType, Refusal> {
    let found = DataType::from_number(number);
    found.ok_or_else(|| Refusal::invalid(format!("data type {number} cannot be derived")))
}

fn sizes(dims: &[i64]) -> Result<Vec<usize>, Refusal> {
    let size = |d: &i64| usize::try_from(*d).map_err(|_| Refusal::invalid("a dimension overflows"));
    dims.iter().map(size).collect()
}
