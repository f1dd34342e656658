//! Memory for the elements of a new tensor. A large one is the host's from the start, so that it is not held twice
//! while it is handed over.

use crate::Submission;
use crate::diagnostics::{Code, Diagnostic};
use crate::host::{JobHandle, sizes};
use crate::ir::{DataType, Element, Tensor};
use crate::tensors::LARGE_BYTES;
use bytes::Bytes;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory for the elements of a new tensor, all zero at first.
///
/// The host's memory is given back when the call ends, not when the room is dropped: ask for it where the tensor stays
/// in the model.
pub struct Room {
    dtype: DataType,
    dims: Vec<usize>,
    len: usize,
    place: RoomMemory,
}

enum RoomMemory {
    /// Words, so that elements of every type are aligned.
    Own(Vec<u64>),
    Host {
        job: Arc<JobHandle>,
        id: u64,
        first: NonNull<u8>,
        _counted: Arc<()>,
    },
}

impl Submission {
    /// Room for a tensor of the model that a front-end builds, in memory of the host if it is large.
    ///
    /// # Errors
    /// `N0305` if there is not that much memory.
    pub fn room(&self, dtype: DataType, dims: &[usize]) -> Result<Room, Diagnostic> {
        let len = byte_len(dtype, dims)?;
        if len < LARGE_BYTES {
            return Room::new(dtype, dims);
        }
        let job = self.job().clone();
        let (id, first) = job.open_tensor(dtype.number(), &sizes(dims), len)?;
        let first = NonNull::new(first).ok_or_else(|| out_of_memory(len))?;
        let place = RoomMemory::Host { id, first, _counted: job.views(), job };
        Ok(Room { dtype, dims: dims.to_vec(), len, place })
    }
}

impl Room {
    /// Room in memory of the plugin's own.
    ///
    /// # Errors
    /// As [`Submission::room`].
    pub fn new(dtype: DataType, dims: &[usize]) -> Result<Room, Diagnostic> {
        let len = byte_len(dtype, dims)?;
        let words = bytemuck::try_zeroed_vec(len.div_ceil(size_of::<u64>()));
        let place = RoomMemory::Own(words.map_err(|()| out_of_memory(len))?);
        Ok(Room { dtype, dims: dims.to_vec(), len, place })
    }

    /// The elements as the tensor holds them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.place {
            RoomMemory::Own(words) => &mut bytemuck::cast_slice_mut(words)[..self.len],
            // SAFETY: the host made `len` zeroed bytes for this room, and leaves them alone until `seal` takes the
            // room. `&mut self` is the only way to them. A room that outlives the call is found like a view
            // (`_counted`).
            RoomMemory::Host { first, .. } => unsafe {
                std::slice::from_raw_parts_mut(first.as_ptr(), self.len)
            },
        }
    }

    /// The elements.
    ///
    /// # Panics
    /// If they are of another type.
    pub fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        assert!(T::fits(self.dtype), "the room is for {}", self.dtype);
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    /// The tensor, which is not written to any more.
    ///
    /// # Errors
    /// The host's.
    pub fn seal(self) -> Result<Tensor, Diagnostic> {
        let bytes = match self.place {
            RoomMemory::Own(words) => Bytes::from_owner(Words(words)).slice(..self.len),
            RoomMemory::Host { job, id, .. } => {
                job.seal_tensor(id)?;
                let (mapped, ..) = job.tensor(id)?;
                job.remember(&mapped, Some((self.dtype.number(), sizes(&self.dims))));
                mapped.bytes
            }
        };
        let tensor = Tensor::new(self.dtype, self.dims, bytes);
        tensor.map_err(|e| Diagnostic::new(Code::PluginContract, e.to_string()))
    }
}

struct Words(Vec<u64>);

impl AsRef<[u8]> for Words {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn byte_len(dtype: DataType, dims: &[usize]) -> Result<usize, Diagnostic> {
    let elements = dims.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim));
    elements.and_then(|n| dtype.byte_len(n)).ok_or_else(|| out_of_memory(usize::MAX))
}

fn out_of_memory(bytes: usize) -> Diagnostic {
    Diagnostic::new(Code::OutOfMemory, format!("there is no room for a tensor of {bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_rooms_are_zeroed_aligned_and_of_the_right_size() {
        for count in [0usize, 1, 3, 100] {
            let mut room = Room::new(DataType::Double, &[count]).unwrap();
            assert_eq!(room.elements_mut::<f64>(), vec![0.0; count]);
            room.elements_mut::<f64>().fill(1.5);
            let tensor = room.seal().unwrap();
            assert_eq!(tensor.as_slice::<f64>().unwrap(), vec![1.5; count]);
        }
        let mut halves = Room::new(DataType::Float16, &[3]).unwrap();
        assert_eq!(halves.bytes_mut().len(), 6);
        assert_eq!(halves.seal().unwrap().byte_len(), 6);
    }

    #[test]
    fn sizes_beyond_the_address_space_are_no_memory() {
        for dims in [&[usize::MAX, 2][..], &[usize::MAX / 16]] {
            assert_eq!(Room::new(DataType::Double, dims).err().unwrap().code, "N0305");
        }
    }
}
