//! What stands for a tensor of TensorFlow's graph while it runs: a tensor of ONNX, a handle or a list.

use super::extent::Extent;
use super::variables::Variable;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim};
use std::cell::Cell;
use std::rc::Rc;

/// What stands for a tensor of TensorFlow's graph.
#[derive(Clone, Debug)]
pub(crate) enum GraphItem {
    Tensor(Var),
    /// A handle of a variable or table.
    Resource(Rc<Variable>),
    /// A list of tensors (`variant`).
    List(Rc<TensorList>),
    /// What could not be converted; it was reported.
    Hole,
}

/// Sizes of an element, as far as known; `None` if not even the number of axes is.
pub(crate) type ElementSizes = Option<Vec<Dim>>;

/// A list of tensors.
#[derive(Debug)]
pub(crate) struct TensorList {
    pub(crate) form: ListForm,
    /// `None` if its elements are no tensors.
    pub(crate) dtype: Option<DataType>,
    /// What the source says of each element.
    pub(crate) element: ElementSizes,
    /// Whether elements that are not set may have the size 1 where the source does not say one.
    pub(crate) loose: bool,
    /// Whether it is a TensorArray that may grow.
    pub(crate) grows: bool,
    /// The size of its elements.
    pub(crate) extent: Extent,
    /// The node that made it.
    pub(crate) origin: Rc<str>,
    /// Whether it is a sequence of ONNX where it goes as one value, as its elements have different sizes.
    pub(crate) is_sequence: bool,
    /// What was built of it.
    pub(super) one: Cell<Option<Var>>,
}

/// What is known of the elements of a list.
#[derive(Clone, Debug)]
pub(crate) enum ListForm {
    /// One by one, as far as they are set.
    Items(Vec<Option<GraphItem>>),
    /// None is set; the value is their number, an int64 scalar.
    Unset(Var),
    /// One tensor with a first axis for the elements.
    Stacked(Var),
    /// A sequence of ONNX.
    Sequence(Var),
    /// Another list with one element replaced; it `grows` if there is none with this index.
    Written { base: Rc<TensorList>, index: Var, item: Var, grows: bool },
    /// Another list and one more element.
    Pushed { base: Rc<TensorList>, item: Var },
}
