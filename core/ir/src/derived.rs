//! Tensors that are derived from others and not held: they say how their elements come about, and are computed block
//! by block where they are written, or on use. So a network whose every weight is transposed, cast, sliced and
//! concatenated takes no more memory than its largest block.
//!
//! Eight forms are enough. A view with strides permutes, slices with steps, reverses and expands; what it reads may
//! have been cast or concatenated. To reshape changes sizes alone. Fusions scale weights along an axis. A table says
//! what codes of 8 bits or less stand for, and packs elements of 4 bits. Slices come in any order. Checkpoints hold
//! numbers in blocks of small integers. Quantized weights are made real by a scale for each block, which the executor
//! does while it reads them. What is computed otherwise is held.

mod dequantized;
mod fill;
mod table;
mod taken;

use crate::blocks::{self, BlockFormat, BlockPart};
use crate::convert::is_convertible;
use crate::tensor::Data;
use crate::{DataType, Tensor, TensorError, element_count};
use bytes::Bytes;
use std::sync::Arc;

/// Derivations inside each other. Each level may take a block of memory, and a level of the stack.
pub const DERIVATIONS_MAX: usize = 16;

/// How the elements of a tensor come from those of others.
#[derive(Clone, Debug)]
pub enum Derivation {
    /// The element at the coordinates `i` is element `offset + Σ iₐ·strides[a]` of the source, in row-major order.
    Strided {
        /// What is looked at.
        source: Tensor,
        /// The element at the coordinates 0.
        offset: usize,
        /// Elements from one coordinate of an axis to the next: 0 repeats, a negative stride runs backwards.
        strides: Vec<isize>,
    },
    /// The elements of a tensor converted to another type, as `Cast` does.
    Cast {
        /// What is converted.
        source: Tensor,
    },
    /// Tensors one after the other along an axis.
    Concat {
        /// At least one.
        parts: Vec<Tensor>,
        /// Which axis.
        axis: usize,
    },
    /// The elements of a float tensor multiplied by a number for each coordinate of an axis, in `f64`, and rounded to
    /// their type.
    Scaled {
        /// What is scaled, and the numbers: a vector of `double`.
        sources: [Tensor; 2],
        /// Which axis.
        axis: usize,
    },
    /// What a table has for every 2, 4 or 8 bits of the bytes of a tensor, the low bits first: it unpacks, packs, and
    /// tells what codes stand for.
    Lookup {
        /// The tensor, and a vector with an element for each code: 4, 16 or 256. Both may have elements of less than a
        /// byte.
        sources: [Tensor; 2],
    },
    /// Slices along an axis, in an order.
    Taken {
        /// The tensor, and a vector of int64 that is held: slice `i` of the result is slice `indices[i]`.
        sources: [Tensor; 2],
        /// Which axis.
        axis: usize,
    },
    /// What blocks of small integers say, block after block in row-major order.
    Blocks {
        /// The bytes of whole blocks, as `uint8`.
        source: Tensor,
        /// How numbers lie in them.
        format: BlockFormat,
        /// What is taken of them.
        part: BlockPart,
    },
    /// Integers minus their zero points, times their scales. Plugins are not told of it.
    Dequantized {
        /// Integers of 4 or 8 bits, scales (`float`), and zero points if there are any.
        sources: Vec<Tensor>,
        /// Along which axis blocks lie.
        axis: usize,
        /// Elements that share a scale.
        block: usize,
    },
}

/// A derivation that was checked, and sizes in which it was.
#[derive(Debug)]
pub(crate) struct Derived {
    from: Derivation,
    dims: Vec<usize>,
    dtype: DataType,
    depth: usize,
    /// Of a concatenation: where each part ends along the axis.
    ends: Vec<usize>,
}

fn refused<T>(why: impl Into<String>) -> Result<T, TensorError> {
    Err(TensorError::Derivation(why.into()))
}

impl Tensor {
    /// The tensor of type `dtype` and sizes `dims` that `from` describes. Nothing is computed yet.
    ///
    /// # Errors
    /// If the derivation reads beyond its sources, its types or sizes do not fit, elements are no whole bytes where
    /// they must be, a size overflows, or it is the seventeenth inside each other.
    pub fn derived(
        dtype: DataType,
        dims: impl Into<Vec<usize>>,
        from: Derivation,
    ) -> Result<Tensor, TensorError> {
        let dims = dims.into();
        if let ([], Derivation::Strided { source, offset, .. }) = (&dims[..], &from) {
            // One element, whose place takes an axis to say.
            let (source, offset, strides) = (source.clone(), *offset, vec![0]);
            let from = Derivation::Strided { source, offset, strides };
            return Tensor::derived(dtype, [1], from)?.reshaped([]);
        }
        let count = element_count(&dims).ok_or(TensorError::TooLarge)?;
        let bytes = dtype.byte_len(count).filter(|bytes| *bytes <= isize::MAX as usize);
        bytes.ok_or(TensorError::TooLarge)?;
        let fits = |source: &Tensor| match source.dtype().bits() {
            1..8 if from.reads_bits() => Ok(()),
            0..8 => refused(format!("elements of {} are no whole bytes", source.dtype())),
            _ => Ok(()),
        };
        from.sources().iter().try_for_each(fits)?;
        let ends = from.check(dtype, &dims, count)?;
        if let Some(simpler) = from.simpler(dtype, &dims, count) {
            return simpler;
        }
        let depth = 1 + from.sources().iter().map(Tensor::depth).max().unwrap_or(0);
        if depth > DERIVATIONS_MAX {
            return refused(format!(
                "more than {DERIVATIONS_MAX} derivations are inside each other"
            ));
        }
        let derived = Derived { from, dims: dims.clone(), dtype, depth, ends };
        Ok(Tensor::with_data(dtype, dims, Data::Derived(Arc::new(derived))))
    }

    /// The same elements with the axes in another order: axis `a` of the result is axis `axes[a]`.
    ///
    /// # Errors
    /// As [`Tensor::derived`]; if `axes` does not name each axis once.
    pub fn permuted(&self, axes: &[usize]) -> Result<Tensor, TensorError> {
        let mut named = axes.to_vec();
        named.sort_unstable();
        if !named.into_iter().eq(0..self.rank()) {
            return refused(format!("{axes:?} is no order of {} axes", self.rank()));
        }
        let own = row_major(self.dims());
        let dims: Vec<usize> = axes.iter().map(|a| self.dims()[*a]).collect();
        let strides = axes.iter().map(|a| own[*a]).collect();
        let from = Derivation::Strided { source: self.clone(), offset: 0, strides };
        Tensor::derived(self.dtype(), dims, from)
    }

    /// Of each axis those elements that `(first, count, step)` names; a negative step runs backwards.
    ///
    /// # Errors
    /// As [`Tensor::derived`]; if an element that is named is not there.
    pub fn sliced(&self, axes: &[(usize, usize, isize)]) -> Result<Tensor, TensorError> {
        if axes.len() != self.rank() {
            return refused(format!("{} slices for {} axes", axes.len(), self.rank()));
        }
        let (mut offset, mut strides) = (0usize, Vec::new());
        for ((first, count, step), (size, own)) in
            axes.iter().zip(self.dims().iter().zip(row_major(self.dims())))
        {
            let last = *first as i128 + (*step as i128) * (*count as i128 - 1);
            let within = |at: i128| at >= 0 && at < *size as i128;
            if *count > 0 && !(within(*first as i128) && within(last)) {
                return refused(format!("a slice from {first} to {last} of {size} elements"));
            }
            // An axis of one element has no step, which might be of any size.
            strides.push(if *count > 1 { step.wrapping_mul(own) } else { 0 });
            offset = offset.wrapping_add(first.wrapping_mul(own as usize));
        }
        let dims: Vec<usize> = axes.iter().map(|(_, count, _)| *count).collect();
        let from = Derivation::Strided { source: self.clone(), offset, strides };
        Tensor::derived(self.dtype(), dims, from)
    }

    /// The elements as another type, as `Cast` converts them.
    ///
    /// # Errors
    /// As [`Tensor::derived`]; if one of the types is none of the real types from 8 bits on, or a float of 8 bits.
    pub fn cast(&self, to: DataType) -> Result<Tensor, TensorError> {
        Tensor::derived(to, self.dims(), Derivation::Cast { source: self.clone() })
    }

    /// The tensors one after the other along an axis.
    ///
    /// # Errors
    /// As [`Tensor::derived`].
    pub fn concat(parts: &[Tensor], axis: usize) -> Result<Tensor, TensorError> {
        let Some(first) = parts.first().filter(|first| axis < first.rank()) else {
            return refused(format!("{} tensors along axis {axis}", parts.len()));
        };
        let mut dims = first.dims().to_vec();
        let sizes = parts.iter().map(|part| part.dims().get(axis).copied().unwrap_or(0));
        dims[axis] = sizes.fold(0, usize::saturating_add);
        let from = Derivation::Concat { parts: parts.to_vec(), axis };
        Tensor::derived(first.dtype(), dims, from)
    }

    /// The elements of slice `i` along `axis` multiplied by `gain[i]`, in `f64`, and rounded to their type.
    ///
    /// # Errors
    /// As [`Tensor::derived`]; if the type is no float type of 16 bits or more, or there are not as many gains as the
    /// axis has elements.
    pub fn scaled(&self, axis: usize, gain: &[f64]) -> Result<Tensor, TensorError> {
        let sources = [self.clone(), Tensor::vector(gain.to_vec())];
        Tensor::derived(self.dtype(), self.dims(), Derivation::Scaled { sources, axis })
    }

    /// How the elements come about; `None` if they are held.
    pub fn derivation(&self) -> Option<&Derivation> {
        self.derived_data().map(|derived| &derived.from)
    }

    /// The sizes in which [`Tensor::derivation`] was said, which need not be the tensor's own.
    pub fn derivation_dims(&self) -> Option<&[usize]> {
        self.derived_data().map(|derived| derived.dims.as_slice())
    }

    /// The same tensor with its elements in memory.
    #[must_use]
    pub fn held(&self) -> Tensor {
        match self.derived_data() {
            None => self.clone(),
            Some(_) => {
                Tensor::with_data(self.dtype(), self.dims().to_vec(), Data::Raw(self.bytes()))
            }
        }
    }

    fn depth(&self) -> usize {
        self.derived_data().map_or(0, |derived| derived.depth)
    }
}

/// The strides of a tensor in row-major order: elements from one coordinate to the next, for each axis.
pub fn row_major(dims: &[usize]) -> Vec<isize> {
    let mut step = 1usize;
    let mut steps: Vec<isize> = Vec::with_capacity(dims.len());
    for dim in dims.iter().rev() {
        steps.push(step as isize);
        step = step.saturating_mul(*dim);
    }
    steps.reverse();
    steps
}

impl Derivation {
    /// What it reads.
    pub fn sources(&self) -> &[Tensor] {
        match self {
            Derivation::Strided { source, .. }
            | Derivation::Cast { source }
            | Derivation::Blocks { source, .. } => std::slice::from_ref(source),
            Derivation::Concat { parts: sources, .. } | Derivation::Dequantized { sources, .. } => {
                sources
            }
            Derivation::Scaled { sources, .. }
            | Derivation::Lookup { sources }
            | Derivation::Taken { sources, .. } => sources,
        }
    }

    /// Whether its sources may have elements of less than a byte.
    fn reads_bits(&self) -> bool {
        matches!(self, Derivation::Lookup { .. } | Derivation::Dequantized { .. })
    }

    /// Checks it against the result's type and sizes. Of a concatenation: where each part ends.
    fn check(
        &self,
        dtype: DataType,
        dims: &[usize],
        count: usize,
    ) -> Result<Vec<usize>, TensorError> {
        match self {
            Derivation::Strided { source, offset, strides } => {
                check_strided(source, dtype, dims, (*offset, strides)).map(|()| Vec::new())
            }
            Derivation::Cast { source } => {
                let from = source.dtype();
                if !is_convertible(from) || !is_convertible(dtype) {
                    return refused(format!("a cast from {from} to {dtype}"));
                }
                match source.len() == count {
                    true => Ok(Vec::new()),
                    false => refused(format!("a cast of {} elements to {count}", source.len())),
                }
            }
            Derivation::Concat { parts, axis } => check_concat(parts, dtype, dims, *axis),
            Derivation::Blocks { source, format, part } => {
                blocks::check(source, dtype, count, (*format, *part)).map(|()| Vec::new())
            }
            Derivation::Scaled { sources: [source, gain], axis } => {
                if !dtype.is_float() || source.dtype() != dtype || gain.dtype() != DataType::Double
                {
                    return refused(format!("{source:?} times {gain:?} as {dtype}"));
                }
                match source.dims() == dims && dims.get(*axis) == Some(&gain.len()) {
                    true => Ok(Vec::new()),
                    false => refused(format!("{source:?} times {gain:?} along axis {axis}")),
                }
            }
            Derivation::Lookup { sources: [codes, table] } => {
                let len = table::width_of(table).and_then(|bits| count.checked_mul(bits));
                let fits = len.is_some_and(|bits| bits.div_ceil(8) == codes.byte_len());
                match fits && table.dtype() == dtype {
                    true => Ok(Vec::new()),
                    false => refused(format!("{codes:?} in {table:?} as {count} of {dtype}")),
                }
            }
            Derivation::Taken { sources: [source, indices], axis } => {
                taken::check(source, indices, *axis, (dtype, dims)).map(|()| Vec::new())
            }
            Derivation::Dequantized { sources, axis, block } => {
                dequantized::check(sources, (dtype, dims), (*axis, *block)).map(|()| Vec::new())
            }
        }
    }

    /// The same tensor said without this derivation, if that can be.
    fn simpler(
        &self,
        dtype: DataType,
        dims: &[usize],
        count: usize,
    ) -> Option<Result<Tensor, TensorError>> {
        if count == 0 {
            return Some(Tensor::new(dtype, dims.to_vec(), Bytes::new()));
        }
        match self {
            Derivation::Cast { source } if source.dtype() == dtype => Some(source.reshaped(dims)),
            Derivation::Concat { parts, .. } if parts.len() == 1 => Some(parts[0].reshaped(dims)),
            Derivation::Strided { source, offset, strides: own } => {
                let plain = dims.iter().zip(own.iter().zip(row_major(dims)));
                let plain = plain.clone().all(|(dim, (own, full))| *dim == 1 || *own == full);
                if plain && *offset == 0 && source.len() == count {
                    return Some(source.reshaped(dims));
                }
                match source.derived_data() {
                    None if plain => {
                        let size = dtype.bits() / 8;
                        let bytes =
                            source.held_bytes().slice(offset * size..(offset + count) * size);
                        Some(Tensor::new(dtype, dims.to_vec(), bytes))
                    }
                    None => None,
                    Some(inner) => through(inner, dtype, dims, (*offset, own)),
                }
            }
            Derivation::Lookup { sources: [codes, table] } => {
                table::simpler(codes, table, dims, count)
            }
            _ => None,
        }
    }
}

/// A view of a derived tensor said as a view of what that one reads.
fn through(
    inner: &Derived,
    dtype: DataType,
    dims: &[usize],
    (offset, strides): (usize, &[isize]),
) -> Option<Result<Tensor, TensorError>> {
    match &inner.from {
        // Elements keep their order, so the view may come first.
        Derivation::Cast { source } => {
            let from =
                Derivation::Strided { source: source.clone(), offset, strides: strides.to_vec() };
            let view = Tensor::derived(source.dtype(), dims, from);
            Some(view.and_then(|view| view.cast(dtype)))
        }
        Derivation::Strided { source, offset: first, strides: steps } => {
            let (at, strides) = composed(&inner.dims, steps, dims, (offset, strides))?;
            let offset = first.checked_add_signed(at)?;
            let from = Derivation::Strided { source: source.clone(), offset, strides };
            Some(Tensor::derived(dtype, dims, from))
        }
        // So do those of a table.
        Derivation::Lookup { sources: [codes, table] }
            if codes.len() == inner.dims.iter().product() =>
        {
            let from =
                Derivation::Strided { source: codes.clone(), offset, strides: strides.to_vec() };
            let view = Tensor::derived(codes.dtype(), dims, from).ok()?;
            Some(view.looked_up(table))
        }
        _ => None,
    }
}

/// A view of sizes `dims` of a view of sizes `inner`: offset and strides in what that one looks at. `None` if an
/// axis of the outer view runs along several of the inner one's.
fn composed(
    inner: &[usize],
    steps: &[isize],
    dims: &[usize],
    (offset, outer): (usize, &[isize]),
) -> Option<(isize, Vec<isize>)> {
    let own = row_major(inner);
    let mut rest = offset;
    let mut at: Vec<usize> = Vec::new();
    for stride in &own {
        at.push(rest / *stride as usize);
        rest %= *stride as usize;
    }
    let start = at.iter().zip(steps).map(|(at, step)| *at as isize * step).sum();
    // Where the view may come to along each axis.
    let mut reach: Vec<(i128, i128)> = at.iter().map(|at| (*at as i128, *at as i128)).collect();
    let mut strides = Vec::new();
    for (dim, stride) in dims.iter().zip(outer) {
        if *dim <= 1 || *stride == 0 {
            strides.push(0);
            continue;
        }
        let runs = |a: &usize| inner[*a] > 1 && stride % own[*a] == 0;
        let axis = (0..inner.len()).find(runs)?;
        let step = stride / own[axis];
        let far = step as i128 * (*dim as i128 - 1);
        let (low, high) = &mut reach[axis];
        *low += far.min(0);
        *high += far.max(0);
        strides.push(step.checked_mul(steps[axis])?);
    }
    let within =
        reach.iter().zip(inner).all(|((low, high), dim)| *low >= 0 && *high < *dim as i128);
    within.then_some((start, strides))
}

fn check_strided(
    source: &Tensor,
    dtype: DataType,
    dims: &[usize],
    (offset, strides): (usize, &[isize]),
) -> Result<(), TensorError> {
    if source.dtype() != dtype {
        return refused(format!("a view of {} as {dtype}", source.dtype()));
    }
    if strides.len() != dims.len() {
        return refused(format!("{} strides for {} axes", strides.len(), dims.len()));
    }
    if dims.contains(&0) {
        return Ok(());
    }
    let (mut low, mut high) = (offset as i128, offset as i128);
    for (dim, stride) in dims.iter().zip(strides) {
        // Both factors fit 64 bits, and there are no more axes than bytes of memory.
        let far = (*dim as i128 - 1) * *stride as i128;
        low = low.saturating_add(far.min(0));
        high = high.saturating_add(far.max(0));
    }
    match low >= 0 && high < source.len() as i128 {
        true => Ok(()),
        false => refused(format!("a view from {low} to {high} of {} elements", source.len())),
    }
}

fn check_concat(
    parts: &[Tensor],
    dtype: DataType,
    dims: &[usize],
    axis: usize,
) -> Result<Vec<usize>, TensorError> {
    if parts.is_empty() || axis >= dims.len() {
        return refused(format!("{} tensors along axis {axis} of {}", parts.len(), dims.len()));
    }
    let (mut end, mut ends) = (0usize, Vec::with_capacity(parts.len()));
    for part in parts {
        let same = |a: usize| a == axis || part.dims()[a] == dims[a];
        if part.dtype() != dtype || part.rank() != dims.len() || !(0..dims.len()).all(same) {
            return refused(format!("{part:?} as a part of {dtype}{dims:?} along axis {axis}"));
        }
        end = end.checked_add(part.dims()[axis]).ok_or(TensorError::TooLarge)?;
        ends.push(end);
    }
    match end == dims[axis] {
        true => Ok(ends),
        false => refused(format!("parts of {end} elements along an axis of {}", dims[axis])),
    }
}

#[cfg(test)]
mod tests;
