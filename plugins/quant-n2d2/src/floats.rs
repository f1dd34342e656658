//! Weights of a cell, which lie where the model has them until they change.

use onnxd_plugin_sdk::ir::Tensor;
use std::borrow::Cow;
use std::ops::Deref;

/// Numbers that are shared with a tensor until they change.
#[derive(Clone, Debug)]
pub struct Floats(Held);

#[derive(Clone, Debug)]
enum Held {
    /// Of `float32`, and aligned.
    Shared(Tensor),
    Own(Vec<f32>),
}

impl Floats {
    /// The numbers of a tensor of `float32`; `None` of another type.
    pub(crate) fn from_tensor(tensor: &Tensor) -> Option<Floats> {
        Some(Floats(match tensor.as_slice::<f32>()? {
            Cow::Borrowed(_) => Held::Shared(tensor.clone()),
            Cow::Owned(values) => Held::Own(values),
        }))
    }

    /// The numbers, to be changed: from now on they are held apart from the tensor.
    pub(crate) fn to_mut(&mut self) -> &mut Vec<f32> {
        if let Held::Shared(_) = self.0 {
            self.0 = Held::Own(self.to_vec());
        }
        match &mut self.0 {
            Held::Own(values) => values,
            Held::Shared(_) => unreachable!("made its own above"),
        }
    }

    /// A tensor of `dims` that shares the numbers.
    ///
    /// # Panics
    /// If there are not as many as `dims` say.
    pub(crate) fn tensor(&mut self, dims: &[usize]) -> Tensor {
        let tensor = match std::mem::replace(&mut self.0, Held::Own(Vec::new())) {
            Held::Shared(tensor) => tensor,
            Held::Own(values) => Tensor::from_vec(dims, values),
        };
        assert_eq!(tensor.dims(), dims, "weights keep their sizes");
        self.0 = Held::Shared(tensor.clone());
        tensor
    }
}

impl From<Vec<f32>> for Floats {
    fn from(values: Vec<f32>) -> Floats {
        Floats(Held::Own(values))
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &self.0 {
            Held::Own(values) => values,
            Held::Shared(tensor) => match tensor.as_slice() {
                Some(Cow::Borrowed(values)) => values,
                _ => unreachable!("such tensors are not shared"),
            },
        }
    }
}

impl PartialEq for Floats {
    fn eq(&self, other: &Floats) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_copied_when_they_change_and_not_before() {
        let tensor = Tensor::from_vec([2, 2], vec![1.0f32, 2.0, 3.0, 4.0]);
        let at = |floats: &Floats| floats.as_ptr().cast::<u8>();
        let mut floats = Floats::from_tensor(&tensor).unwrap();
        assert_eq!(at(&floats), tensor.bytes().as_ptr());
        assert_eq!(floats.tensor(&[2, 2]).bytes().as_ptr(), tensor.bytes().as_ptr());
        floats.to_mut()[0] = 5.0;
        assert_eq!(tensor.as_slice::<f32>().unwrap()[0], 1.0);
        let own = at(&floats);
        let changed = floats.tensor(&[2, 2]);
        assert_eq!(changed.as_slice::<f32>().unwrap()[..], [5.0, 2.0, 3.0, 4.0]);
        assert!(changed.bytes().as_ptr() == own && at(&floats) == own, "moved, not copied");
        assert!(Floats::from_tensor(&Tensor::scalar(1i32)).is_none());
    }
}
