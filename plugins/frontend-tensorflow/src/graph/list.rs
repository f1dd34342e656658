//! A list of tensors. As long as nothing needs it as one tensor, it stays what is known of it.

use super::extent::Extent;
use super::item::{ElementSizes, GraphItem, ListForm, TensorList};
use crate::ops::create::{filled, scalar};
use crate::ops::join;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Result, Var};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, ValueType};
use std::cell::Cell;
use std::rc::Rc;

/// Elements of a list that is held element by element.
const ITEMS_MAX: i64 = 1024;

impl TensorList {
    /// A list that the node `origin` makes.
    pub(crate) fn new(
        b: &GraphBuilder,
        form: ListForm,
        (dtype, element): (Option<DataType>, ElementSizes),
        origin: Rc<str>,
    ) -> TensorList {
        let (loose, extent) = (is_loose(&form, &element), extent(b, &form, &element));
        let (grows, is_sequence, one) = Default::default();
        TensorList { form, dtype, element, loose, grows, extent, origin, is_sequence, one }
    }

    /// A list like this one, with the elements of a tensor or sequence.
    pub(crate) fn with(&self, v: Var) -> TensorList {
        let form = if self.is_sequence { ListForm::Sequence(v) } else { ListForm::Stacked(v) };
        self.with_form(form)
    }

    /// This list, whose elements have another size.
    pub(crate) fn sized(&self, extent: Extent) -> TensorList {
        TensorList { extent, ..self.with_form(self.form.clone()) }
    }

    /// A list like this one, with the elements of a tensor, which are all set.
    pub(crate) fn set_all(&self, tensor: Var) -> TensorList {
        TensorList { loose: false, ..self.with_form(ListForm::Stacked(tensor)) }
    }

    /// A list like this one, of another form.
    pub(crate) fn like(&self, b: &GraphBuilder, form: ListForm) -> TensorList {
        let loose =
            is_loose(&form, &self.element) || self.loose && !matches!(form, ListForm::Items(_));
        let extent = extent(b, &form, &self.element);
        TensorList { loose, extent, ..self.with_form(form) }
    }

    /// A list that is either of two; `element` is what is known of the elements of both.
    pub(crate) fn or(&self, other: &TensorList, element: ElementSizes) -> TensorList {
        TensorList {
            loose: self.loose || other.loose,
            extent: self.extent.clone().and(other.extent.clone()),
            element: merged(self.element.clone(), element),
            is_sequence: self.is_sequence || other.is_sequence,
            ..self.with_form(self.form.clone())
        }
    }

    /// This list as a sequence.
    pub(crate) fn as_sequence(&self) -> TensorList {
        TensorList { is_sequence: true, ..self.with_form(self.form.clone()) }
    }

    fn with_form(&self, form: ListForm) -> TensorList {
        let (element, extent) = (self.element.clone(), self.extent.clone());
        let (origin, one) = (self.origin.clone(), Cell::default());
        TensorList { form, element, extent, origin, one, ..*self }
    }

    /// How many elements it has: an int64 scalar.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn length(&self, b: &GraphBuilder) -> Result<Var> {
        match &self.form {
            ListForm::Items(items) => Ok(b.constant(Tensor::scalar(items.len() as i64))),
            ListForm::Unset(n) => Ok(*n),
            ListForm::Stacked(v) => first_size(b, *v),
            ListForm::Sequence(v) => b.sequence_length(*v),
            ListForm::Written { base, grows: false, .. } => base.length(b),
            ListForm::Written { base, index, .. } => {
                b.max([base.length(b)?, b.add(b.cast(*index, DataType::Int64)?, 1)?])
            }
            ListForm::Pushed { base, .. } => b.add(base.length(b)?, 1),
        }
    }

    /// The type that it has as one tensor, if that is known without building it.
    pub(crate) fn stacked_type(&self, b: &GraphBuilder) -> Option<ValueType> {
        let of = |n: Dim, element: &[Dim]| {
            let shape = [&[n], element].concat();
            Some(ValueType::Tensor { dtype: self.dtype, shape: Some(shape) })
        };
        match &self.form {
            ListForm::Stacked(v) => b.type_of(*v),
            ListForm::Sequence(_) => None,
            ListForm::Unset(n) => {
                let n = b.ints_of(*n).and_then(|n| n.first().copied());
                let n = n.map_or(Dim::Unknown, Dim::Known);
                of(n, self.element.as_deref()?)
            }
            ListForm::Items(items) => {
                let shapes: Option<Vec<Vec<Dim>>> = items
                    .iter()
                    .flatten()
                    .map(|item| if let GraphItem::Tensor(v) = item { b.shape_of(*v) } else { None })
                    .collect();
                let element = merged(self.element.clone(), shapes?.pop());
                of(Dim::Known(items.len() as i64), &element?)
            }
            ListForm::Written { base, item, grows, .. } => {
                let n = base.stacked_type(b).and_then(|ty| ty.shape()?.first().cloned());
                of(n.filter(|_| !grows).unwrap_or(Dim::Unknown), &b.shape_of(*item)?)
            }
            ListForm::Pushed { item, .. } => of(Dim::Unknown, &b.shape_of(*item)?),
        }
    }

    /// All elements in one tensor, with a first axis for them. `element` is what is known of an element beside what
    /// the list says.
    ///
    /// # Errors
    /// `N0203` if elements are not set whose number of axes is not known, and those of the builder.
    pub(crate) fn stacked(&self, b: &GraphBuilder, element: ElementSizes) -> Result<Var> {
        if let ListForm::Stacked(v) = self.form {
            return Ok(v);
        }
        if self.is_sequence {
            return b.concat_from_sequence(self.sequence(b, element)?).axis(0).new_axis(1).one();
        }
        self.once(b, || self.built(b, element))
    }

    /// What `build` gives, which is built once for this list.
    pub(super) fn once(
        &self,
        b: &GraphBuilder,
        build: impl FnOnce() -> Result<Var>,
    ) -> Result<Var> {
        if let Some(v) = self.one.get().filter(|v| b.id(*v).is_ok()) {
            return Ok(v);
        }
        let v = build()?;
        self.one.set(Some(v));
        Ok(v)
    }

    fn built(&self, b: &GraphBuilder, element: ElementSizes) -> Result<Var> {
        match &self.form {
            ListForm::Stacked(v) | ListForm::Sequence(v) => Ok(*v),
            ListForm::Unset(n) => self.zeros(b, *n, merged(self.element.clone(), element)),
            ListForm::Items(items) => self.joined(b, items, element),
            // The only element.
            ListForm::Written { base, item, grows: false, .. } if base.has_one(b) => {
                b.unsqueeze(*item, [0])
            }
            ListForm::Written { base, index, item, grows } => {
                let mut list = base.stacked(b, b.shape_of(*item))?;
                let index = b.reshape(b.cast(*index, DataType::Int64)?, [1, 1]).one()?;
                if *grows {
                    list = grown(b, list, b.add(b.reshape(index, [1]).one()?, 1)?)?;
                }
                let list = base.fitted(b, list, *item)?;
                b.scatter_nd(list, index, b.unsqueeze(*item, [0])?).one()
            }
            ListForm::Pushed { base, item } => {
                let one = b.unsqueeze(*item, [0])?;
                if is_zero(b, base.length(b)?) {
                    return Ok(one);
                }
                let list = base.stacked(b, b.shape_of(*item))?;
                b.concat([base.fitted(b, list, *item)?, one]).axis(0).one()
            }
        }
    }

    fn has_one(&self, b: &GraphBuilder) -> bool {
        let n = self.stacked_type(b).and_then(|ty| ty.shape()?.first()?.known());
        n == Some(1)
    }

    /// `list` with elements of the size of `item`, if elements that are not set may have another one.
    fn fitted(&self, b: &GraphBuilder, list: Var, item: Var) -> Result<Var> {
        let sizes = |v: Var| b.dims_of(v);
        let fits = sizes(list).is_some_and(|list| sizes(item).as_deref() == list.get(1..));
        if !self.loose || fits {
            return Ok(list);
        }
        let n = b.shape(list).start(0).end(1).one()?;
        b.expand(list, b.concat([n, b.shape(item).one()?]).axis(0).one()?)
    }

    /// Elements of zeros; sizes that are not known are 1.
    fn zeros(&self, b: &GraphBuilder, n: Var, element: ElementSizes) -> Result<Var> {
        let (Some(element), Some(dtype)) = (element, self.dtype) else { return Err(shapeless(b)) };
        let sizes: Vec<i64> = element.iter().map(|size| size.known().unwrap_or(1)).collect();
        let n = b.unsqueeze(n, [0])?;
        let shape = match sizes.is_empty() {
            true => n,
            false => b.concat([Operand::Var(n), Operand::Ints(sizes)]).axis(0).one()?,
        };
        filled(b, shape, 0, dtype)
    }

    fn joined(
        &self,
        b: &GraphBuilder,
        items: &[Option<GraphItem>],
        element: ElementSizes,
    ) -> Result<Var> {
        let tensor = |item: &GraphItem| match item {
            GraphItem::Tensor(v) => Ok(*v),
            _ => Err(b.unsupported("A list holds what is no tensor.")),
        };
        let set = items.iter().flatten().map(tensor).collect::<Result<Vec<Var>>>()?;
        let Some(first) = set.first() else {
            let n = b.constant(Tensor::scalar(items.len() as i64));
            return self.zeros(b, n, merged(self.element.clone(), element));
        };
        if set.len() == items.len() {
            return join::packed(b, set, 0);
        }
        let dtype = crate::ops::dtype_of(b, *first)?;
        let zero = filled(b, b.shape(*first).one()?, 0, dtype)?;
        let all = items.iter().map(|item| item.as_ref().map_or(Ok(zero), tensor));
        join::packed(b, all.collect::<Result<Vec<Var>>>()?, 0)
    }

    /// Whether the element with this index is held by itself.
    pub(crate) fn has(&self, b: &GraphBuilder, index: Var) -> bool {
        match &self.form {
            ListForm::Items(items) => single(b, index)
                .and_then(|at| usize::try_from(at).ok())
                .is_some_and(|at| at < items.len()),
            ListForm::Written { index: written, .. } => *written == index,
            _ => false,
        }
    }

    /// The element with this index.
    ///
    /// # Errors
    /// As [`TensorList::stacked`].
    pub(crate) fn get(
        &self,
        b: &GraphBuilder,
        index: Var,
        element: ElementSizes,
    ) -> Result<GraphItem> {
        match &self.form {
            ListForm::Items(items) => {
                let known = single(b, index).and_then(|at| items.get(usize::try_from(at).ok()?));
                match known {
                    Some(Some(item)) => return Ok(item.clone()),
                    Some(None) => {
                        let one = b.constant(Tensor::scalar(1i64));
                        let zeros = self.zeros(b, one, merged(self.element.clone(), element))?;
                        return b.squeeze(zeros).axes([0]).one().map(GraphItem::Tensor);
                    }
                    None => {}
                }
            }
            ListForm::Written { index: written, item, .. } if *written == index => {
                return Ok(GraphItem::Tensor(*item));
            }
            _ => {}
        }
        let index = match b.rank_of(index) {
            Some(0) => index,
            _ => b.reshape(index, Vec::<i64>::new()).one()?,
        };
        match self.is_sequence {
            true => b.sequence_at(self.sequence(b, element)?, index),
            false => b.gather(self.stacked(b, element)?, index).axis(0).one(),
        }
        .map(GraphItem::Tensor)
    }

    /// The list with one element replaced.
    pub(crate) fn set(
        self: &Rc<TensorList>,
        b: &GraphBuilder,
        index: Var,
        item: GraphItem,
        grows: bool,
    ) -> Result<TensorList> {
        let at = single(b, index).filter(|at| (0..ITEMS_MAX).contains(at)).map(|at| at as usize);
        let items = self.items(b).filter(|items| at.is_some_and(|at| grows || at < items.len()));
        if let (Some(mut items), Some(at)) = (items, at) {
            items.resize(items.len().max(at + 1), None);
            items[at] = Some(item);
            return Ok(self.like(b, ListForm::Items(items)));
        }
        let GraphItem::Tensor(item) = item else { return Err(shapeless(b)) };
        Ok(self.like(b, ListForm::Written { base: self.clone(), index, item, grows }))
    }

    /// Its elements, if they are held one by one.
    pub(crate) fn items(&self, b: &GraphBuilder) -> Option<Vec<Option<GraphItem>>> {
        match &self.form {
            ListForm::Items(items) => Some(items.clone()),
            ListForm::Unset(n) => {
                let n = single(b, *n).filter(|n| (0..=ITEMS_MAX).contains(n))?;
                Some(vec![None; n as usize])
            }
            _ => None,
        }
    }

    /// The list with one more element.
    pub(crate) fn pushed(
        self: &Rc<TensorList>,
        b: &GraphBuilder,
        item: GraphItem,
    ) -> Result<TensorList> {
        let items = self.items(b).filter(|items| (items.len() as i64) < ITEMS_MAX);
        if let Some(mut items) = items {
            items.push(Some(item));
            return Ok(self.like(b, ListForm::Items(items)));
        }
        let GraphItem::Tensor(item) = item else { return Err(shapeless(b)) };
        Ok(self.like(b, ListForm::Pushed { base: self.clone(), item }))
    }
}

/// Whether elements that are not set may have other sizes than the source says.
fn is_loose(form: &ListForm, element: &ElementSizes) -> bool {
    let open = |sizes: &Vec<Dim>| sizes.iter().any(|size| size.known().is_none());
    let unset = match form {
        ListForm::Unset(_) => true,
        ListForm::Items(items) => items.iter().any(Option::is_none),
        _ => false,
    };
    unset && element.as_ref().is_none_or(open)
}

/// The size of the elements of a list of this form.
fn extent(b: &GraphBuilder, form: &ListForm, element: &ElementSizes) -> Extent {
    if let Some(sizes) = element.as_ref().filter(|e| e.iter().all(|n| n.known().is_some())) {
        return Extent::One(sizes.clone());
    }
    let of = |item: &GraphItem| match item {
        GraphItem::Tensor(v) => Extent::from_var(b, *v),
        _ => Extent::Varying,
    };
    match form {
        ListForm::Unset(_) => Extent::Nothing,
        ListForm::Stacked(v) => Extent::within(b, *v),
        ListForm::Sequence(_) => Extent::Varying,
        ListForm::Items(items) => items.iter().flatten().map(of).fold(Extent::Nothing, Extent::and),
        ListForm::Written { base, item, .. } | ListForm::Pushed { base, item } => {
            base.extent.clone().and(Extent::from_var(b, *item))
        }
    }
}

fn shapeless(b: &GraphBuilder) -> Diagnostic {
    let message = "The number of axes of a list's elements is not known, or they are no tensors.";
    b.unsupported(message)
}

/// An integer, if it is known.
pub(crate) fn single(b: &GraphBuilder, v: Var) -> Option<i64> {
    match b.ints_of(v)?[..] {
        [known] => Some(known),
        _ => None,
    }
}

fn is_zero(b: &GraphBuilder, v: Var) -> bool {
    single(b, v) == Some(0)
}

/// The size of the first axis: an int64 scalar.
pub(crate) fn first_size(b: &GraphBuilder, v: Var) -> Result<Var> {
    match b.shape_of(v).and_then(|shape| shape.first()?.known()) {
        Some(known) => Ok(b.constant(Tensor::scalar(known))),
        None => b.squeeze(b.shape(v).start(0).end(1).one()?).axes([0]).one(),
    }
}

/// `list` with zeros behind its elements, so that there are `n` or more; `n` has one element.
pub(crate) fn grown(b: &GraphBuilder, list: Var, n: Var) -> Result<Var> {
    let missing = b.sub(n, b.shape(list).start(0).end(1).one()?)?;
    let missing = b.max([missing, b.constant(scalar(0, DataType::Int64))])?;
    padded(b, list, None, missing)
}

/// `list` with zeros before and behind its elements; the numbers of them have one element.
pub(crate) fn padded(b: &GraphBuilder, list: Var, before: Option<Var>, behind: Var) -> Result<Var> {
    let dtype = crate::ops::dtype_of(b, list)?;
    let element = b.shape(list).start(1).one()?;
    let zeros = |n: Var| filled(b, b.concat([n, element]).axis(0).one()?, 0, dtype);
    let mut parts = before.map(zeros).transpose()?.into_iter().collect::<Vec<Var>>();
    parts.extend([list, zeros(behind)?]);
    b.concat(parts).axis(0).one()
}

/// What two shapes say together.
pub(crate) fn merged(a: ElementSizes, b: ElementSizes) -> ElementSizes {
    match (a, b) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            let both = a.into_iter().zip(b);
            Some(both.map(|(a, b)| if a.known().is_some() { a } else { b }).collect())
        }
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}
