//! The host's functions for tensors that are derived from others.

use super::{JobHandle, descriptor, refused, sizes};
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::{BlockFormat, BlockPart, DataType, Derivation, Tensor};
use onnxd_plugin_abi as abi;
use std::mem::size_of;

/// What the host says of a derived tensor.
pub(crate) struct DerivedReply {
    pub(crate) dtype: DataType,
    pub(crate) dims: Vec<usize>,
    pub(crate) sources: Vec<u64>,
    kind: u32,
    offset: usize,
    strides: Vec<isize>,
    axis: usize,
}

impl JobHandle {
    /// Whether the host can derive tensors so.
    pub(crate) fn derives(&self, from: &Derivation) -> bool {
        let is_newer = matches!(
            from,
            Derivation::Lookup { .. } | Derivation::Taken { .. } | Derivation::Blocks { .. }
        );
        let is_known = !matches!(from, Derivation::Dequantized { .. });
        is_known && self.host.tensor_derive.is_some() && (!is_newer || self.host.abi_minor >= 3)
    }

    /// Whether the host takes several models of a network.
    pub(crate) fn takes_further(&self) -> bool {
        self.host.abi_minor >= 3
    }

    /// Has the host derive a tensor from others.
    pub(crate) fn derive(
        &self,
        from: &Derivation,
        sources: &[u64],
        dtype: DataType,
        dims: &[usize],
    ) -> Result<u64, Diagnostic> {
        let f =
            self.host.tensor_derive.ok_or_else(|| refused("tensor_derive", abi::UNSUPPORTED))?;
        let (kind, offset, strides, axis) = match from {
            Derivation::Strided { offset, strides, .. } => {
                (abi::DERIVE_STRIDED, *offset, &strides[..], 0)
            }
            Derivation::Cast { .. } => (abi::DERIVE_CAST, 0, &[][..], 0),
            Derivation::Concat { axis, .. } => (abi::DERIVE_CONCAT, 0, &[][..], *axis),
            Derivation::Scaled { axis, .. } => (abi::DERIVE_SCALED, 0, &[][..], *axis),
            Derivation::Lookup { .. } => (abi::DERIVE_LOOKUP, 0, &[][..], 0),
            Derivation::Taken { axis, .. } => (abi::DERIVE_TAKEN, 0, &[][..], *axis),
            Derivation::Dequantized { .. } => {
                return Err(refused("tensor_derive", abi::UNSUPPORTED));
            }
            Derivation::Blocks { format, part, .. } => {
                (abi::DERIVE_BLOCKS, part.number(), &[][..], format.number() as usize)
            }
        };
        let strides: Vec<i64> = strides.iter().map(|s| *s as i64).collect();
        let from = abi::Derivation {
            struct_size: size_of::<abi::Derivation>() as u32,
            kind,
            sources: sources.as_ptr(),
            source_count: sources.len(),
            offset: offset as u64,
            strides: strides.as_ptr(),
            axis: axis as u32,
            reserved: 0,
        };
        let (dims, mut id) = (sizes(dims), 0);
        // SAFETY: the job is alive (`JobHandle::of`). Derivation, sources, strides, description and dims are
        // variables that outlive the call; the host checks ids and sizes. There are as many strides as dims where
        // the kind has any: `Tensor::derived` made sure.
        match unsafe { f(self.job, &from, &descriptor(dtype.number(), &dims), &mut id) } {
            abi::OK => Ok(id),
            status => Err(refused("tensor_derive", status)),
        }
    }

    /// How a tensor of the host is derived; `None` if it lies in memory.
    pub(crate) fn derivation(&self, id: u64) -> Result<Option<DerivedReply>, Diagnostic> {
        let Some(f) = self.host.tensor_derivation else { return Ok(None) };
        let mut from = abi::Derivation {
            struct_size: size_of::<abi::Derivation>() as u32,
            kind: 0,
            sources: std::ptr::null(),
            source_count: 0,
            offset: 0,
            strides: std::ptr::null(),
            axis: 0,
            reserved: 0,
        };
        let mut desc = descriptor(0, &[]);
        // SAFETY: the job is alive (`JobHandle::of`), and both structs are variables of the sizes that they name.
        match unsafe { f(self.job, id, &mut from, &mut desc) } {
            abi::OK => {}
            abi::DECLINED => return Ok(None),
            status => return Err(refused("tensor_derivation", status)),
        }
        let rank = desc.rank as usize;
        let strides = if from.kind == abi::DERIVE_STRIDED { rank } else { 0 };
        // SAFETY: with `OK` the host lends `rank` sizes, `source_count` ids, and as many strides as sizes if the
        // kind has any, until the call returns; they are copied here.
        let (dims, sources, strides) = unsafe {
            (
                lent(desc.dims, rank),
                lent(from.sources, from.source_count),
                lent(from.strides, strides),
            )
        };
        let dtype = DataType::from_number(desc.dtype as i32);
        let dtype = dtype.ok_or_else(|| refused("tensor_derivation", abi::INTERNAL))?;
        Ok(Some(DerivedReply {
            dtype,
            dims: dims.into_iter().map(|d| d as usize).collect(),
            sources,
            kind: from.kind,
            offset: from.offset as usize,
            strides: strides.into_iter().map(|s| s as isize).collect(),
            axis: from.axis as usize,
        }))
    }
}

/// # Safety
/// `first` points to `count` readable elements.
pub(super) unsafe fn lent<T: Copy>(first: *const T, count: usize) -> Vec<T> {
    if first.is_null() {
        return Vec::new();
    }
    // SAFETY: not null, so that `count` elements are readable as the caller promises; no alignment is assumed.
    (0..count).map(|i| unsafe { first.add(i).read_unaligned() }).collect()
}

impl DerivedReply {
    /// The tensor, derived from `sources`.
    pub(crate) fn tensor(self, mut sources: Vec<Tensor>) -> Result<Tensor, Diagnostic> {
        let from = match (self.kind, sources.len()) {
            (abi::DERIVE_CONCAT, _) => Derivation::Concat { parts: sources, axis: self.axis },
            (abi::DERIVE_SCALED | abi::DERIVE_LOOKUP | abi::DERIVE_TAKEN, 2) => {
                let second = sources.remove(1);
                let (sources, axis) = ([sources.remove(0), second], self.axis);
                match self.kind {
                    abi::DERIVE_SCALED => Derivation::Scaled { sources, axis },
                    abi::DERIVE_LOOKUP => Derivation::Lookup { sources },
                    _ => Derivation::Taken { sources, axis },
                }
            }
            (abi::DERIVE_BLOCKS, 1) => {
                let format = BlockFormat::from_number(self.axis as u32);
                let part = BlockPart::from_number(self.offset as u64);
                let (Some(format), Some(part)) = (format, part) else {
                    return Err(refused("tensor_derivation", abi::UNSUPPORTED));
                };
                Derivation::Blocks { source: sources.remove(0), format, part }
            }
            (abi::DERIVE_CAST, 1) => Derivation::Cast { source: sources.remove(0) },
            (abi::DERIVE_STRIDED, 1) => {
                let (offset, strides) = (self.offset, self.strides);
                Derivation::Strided { source: sources.remove(0), offset, strides }
            }
            _ => return Err(refused("tensor_derivation", abi::UNSUPPORTED)),
        };
        let tensor = Tensor::derived(self.dtype, self.dims, from);
        tensor.map_err(|e| Diagnostic::new(Code::PluginContract, e.to_string()))
    }
}
