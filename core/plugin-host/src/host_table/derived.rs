//! The functions for tensors that are derived from others.

use super::{described, put, serve, sized};
use crate::Refusal;
use crate::recipe::{DerivationRecipe, SOURCES_MAX};
use onnxd_diagnostics::refuse;
use onnxd_plugin_abi as abi;

/// What a plugin says a tensor of `rank` is derived from.
///
/// # Safety
/// `from` is null or readable, and so is what it points to.
unsafe fn recipe(from: *const abi::Derivation, rank: usize) -> Result<DerivationRecipe, Refusal> {
    // SAFETY: null, or a derivation that begins with its size, as the caller promises.
    unsafe { sized(from, "derivation") }?;
    // SAFETY: `sized` saw that it is not null and at least as long as ours; readable as the caller
    // promises. Any bits are numbers and pointers.
    let from = unsafe { from.read_unaligned() };
    refuse!(from.source_count > SOURCES_MAX =>
        Refusal::invalid(format!("{} sources are more than {SOURCES_MAX}", from.source_count)));
    refuse!(from.sources.is_null() => Refusal::invalid("the sources are a null pointer"));
    let strides = if from.kind == abi::DERIVE_STRIDED { rank } else { 0 };
    refuse!(from.strides.is_null() && strides > 0 => Refusal::invalid("the strides are a null pointer"));
    // SAFETY: not null, and `source_count` ids are readable as the caller promises; no alignment is
    // assumed.
    let sources = (0..from.source_count).map(|i| unsafe { from.sources.add(i).read_unaligned() });
    // SAFETY: not null where there are any, and as many as the rank are readable as the caller
    // promises; no alignment is assumed.
    let strides = (0..strides).map(|i| unsafe { from.strides.add(i).read_unaligned() });
    let (sources, strides) = (sources.collect(), strides.collect());
    Ok(DerivationRecipe { kind: from.kind, sources, offset: from.offset, strides, axis: from.axis })
}

pub(super) unsafe extern "C" fn tensor_derive(
    job: *const abi::Job,
    from: *const abi::Derivation,
    desc: *const abi::Tensor,
    id: *mut u64,
) -> abi::Status {
    serve(job, "tensor_derive", |call| {
        // SAFETY: the plugin lends the description and its dims until this function returns.
        let (dtype, dims) = unsafe { described(desc) }?;
        // SAFETY: the plugin lends the derivation, its sources and as many strides as the rank as long.
        let recipe = unsafe { recipe(from, dims.len()) }?;
        let new = call.tensors.derive(recipe, dtype, &dims)?;
        // SAFETY: `id` is null or a place of the plugin's for an id.
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
        // SAFETY: both are null or structs of the plugin's with their sizes set.
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
        // SAFETY: `sized` saw that there is room. The table keeps the tensor, and so what the views
        // show, as long as the worker lives.
        unsafe { put(from, said) }?;
        // SAFETY: there is room, and the views stay valid, as for `from`.
        unsafe { put(desc, described) }
    })
}
