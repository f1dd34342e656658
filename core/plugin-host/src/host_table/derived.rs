//! The functions for tensors that are derived from others.

use super::{described, put, serve, sized};
use crate::Refusal;
use crate::derive::{Recipe, SOURCES_MAX};
use onnxd_plugin_abi as abi;

/// What a plugin says a tensor of `rank` is derived from.
///
/// # Safety
/// `from` is null or readable, and so is what it points to.
unsafe fn recipe(from: *const abi::Derivation, rank: usize) -> Result<Recipe, Refusal> {
    // SAFETY: passed on.
    unsafe { sized(from, "derivation") }?;
    // SAFETY: not null and long enough.
    let from = unsafe { from.read_unaligned() };
    if from.source_count > SOURCES_MAX {
        let text = format!("{} sources are more than {SOURCES_MAX}", from.source_count);
        return Err(Refusal::invalid(text));
    }
    if from.sources.is_null() {
        return Err(Refusal::invalid("the sources are a null pointer"));
    }
    let strides = if from.kind == abi::DERIVE_STRIDED { rank } else { 0 };
    if from.strides.is_null() && strides > 0 {
        return Err(Refusal::invalid("the strides are a null pointer"));
    }
    // SAFETY: as many are readable as the caller promises; no alignment is assumed.
    let sources = (0..from.source_count).map(|i| unsafe { from.sources.add(i).read_unaligned() });
    // SAFETY: the same.
    let strides = (0..strides).map(|i| unsafe { from.strides.add(i).read_unaligned() });
    let (sources, strides) = (sources.collect(), strides.collect());
    Ok(Recipe { kind: from.kind, sources, offset: from.offset, strides, axis: from.axis })
}

pub(super) unsafe extern "C" fn tensor_derive(
    job: *const abi::Job,
    from: *const abi::Derivation,
    desc: *const abi::Tensor,
    id: *mut u64,
) -> abi::Status {
    serve(job, "tensor_derive", |call| {
        // SAFETY: null or a description as the ABI demands.
        let (dtype, dims) = unsafe { described(desc) }?;
        // SAFETY: null or a derivation as the ABI demands.
        let recipe = unsafe { recipe(from, dims.len()) }?;
        let new = call.tensors.derive(recipe, dtype, &dims)?;
        // SAFETY: the result's pointer as the ABI demands.
        unsafe { put(id, new) }
    })
}

pub(super) unsafe extern "C" fn tensor_derivation(
    job: *const abi::Job,
    id: u64,
    from: *mut abi::Derivation,
    desc: *mut abi::Tensor,
) -> abi::Status {
    serve(job, "tensor_derivation", |call| {
        // SAFETY: null or structs with their sizes set.
        let sizes = unsafe { (sized(from, "derivation")?, sized(desc, "result")?) };
        let Some(derived) = call.tensors.derived(id) else {
            let held = call.tensors.get(id).is_some();
            let unknown = || Refusal::invalid(format!("no sealed tensor has the id {id}"));
            return Err(if held { Refusal::new(abi::DECLINED, "") } else { unknown() });
        };
        let recipe = &derived.recipe;
        let said = abi::Derivation {
            struct_size: sizes.0,
            kind: recipe.kind,
            sources: recipe.sources.as_ptr(),
            source_count: recipe.sources.len(),
            offset: recipe.offset,
            strides: recipe.strides.as_ptr(),
            axis: recipe.axis,
            reserved: 0,
        };
        let described = abi::Tensor {
            struct_size: sizes.1,
            dtype: derived.tensor.dtype().number().unsigned_abs(),
            rank: derived.dims.len() as u32,
            flags: 0,
            dims: derived.dims.as_ptr(),
            data: std::ptr::null(),
            nbytes: derived.tensor.byte_len() as u64,
        };
        // SAFETY: long enough, see `sized`. The table keeps the tensor as long as the process lives.
        unsafe { put(from, said) }?;
        // SAFETY: the same.
        unsafe { put(desc, described) }
    })
}
