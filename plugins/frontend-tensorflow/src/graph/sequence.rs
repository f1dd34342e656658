//! Lists as sequences of ONNX, whose elements may have different sizes.

use super::item::{ElementSizes, GraphItem, ListForm, TensorList};
use super::list::{first_size, merged, single};
use crate::ops::create::filled;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Result, Turn, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, ValueType};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The nodes that make lists which must be sequences of ONNX: something reads their elements one by one, and nothing
/// says that these have one size. They are found in one run and hold in the next one.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    held: BTreeSet<Rc<str>>,
    found: RefCell<BTreeSet<Rc<str>>>,
    runs: usize,
}

/// Runs after which all lists are sequences.
const RUNS_MAX: usize = 8;

impl Sequences {
    /// Takes what a run found; whether there is something new.
    pub(crate) fn take(&mut self) -> bool {
        let before = self.held.len();
        self.held.append(&mut self.found.take());
        self.runs += 1;
        self.held.len() > before
    }

    pub(crate) fn holds(&self, origin: &str) -> bool {
        self.runs >= RUNS_MAX || self.held.contains(origin)
    }

    /// Says that the lists which a node makes must be sequences.
    pub(crate) fn find(&self, origin: &Rc<str>) {
        self.found.borrow_mut().insert(origin.clone());
    }
}

impl TensorList {
    /// What stands for the list where it goes as one value: a tensor, or a sequence.
    ///
    /// # Errors
    /// As [`TensorList::stacked`].
    pub(crate) fn whole(&self, b: &GraphBuilder, element: ElementSizes) -> Result<Var> {
        if self.is_sequence { self.sequence(b, element) } else { self.stacked(b, element) }
    }

    /// The type of what stands for the list, if it is known.
    pub(crate) fn whole_type(&self, b: &GraphBuilder) -> Option<ValueType> {
        match self.is_sequence {
            true => self.element_sizes(b).map(|sizes| sequence_of(self.dtype, Some(sizes))),
            false => self.stacked_type(b),
        }
    }

    /// What is known of the sizes of all elements.
    fn element_sizes(&self, b: &GraphBuilder) -> ElementSizes {
        let of = |v: Var| Some(vec![Dim::Unknown; b.rank_of(v)?]);
        let found = match &self.form {
            ListForm::Unset(_) => None,
            ListForm::Stacked(v) => of(*v).map(|sizes| sizes[1.min(sizes.len())..].to_vec()),
            ListForm::Sequence(v) => match b.type_of(*v) {
                Some(ValueType::Sequence(element)) => element.shape().map(<[Dim]>::to_vec),
                _ => None,
            },
            ListForm::Items(items) => items.iter().flatten().find_map(|item| match item {
                GraphItem::Tensor(v) => of(*v),
                _ => None,
            }),
            ListForm::Written { item, .. } | ListForm::Pushed { item, .. } => of(*item),
        };
        merged(self.element.clone(), found)
    }

    /// All elements in one sequence. `element` is what is known of an element beside what the list says.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn sequence(&self, b: &GraphBuilder, element: ElementSizes) -> Result<Var> {
        let sizes = merged(self.element_sizes(b), element).unwrap_or_default();
        match &self.form {
            ListForm::Sequence(v) => Ok(*v),
            _ => self.once(b, || self.sequenced(b, &sizes)),
        }
    }

    fn sequenced(&self, b: &GraphBuilder, sizes: &[Dim]) -> Result<Var> {
        match &self.form {
            ListForm::Sequence(v) => Ok(*v),
            ListForm::Stacked(v) => b.split_to_sequence(*v).axis(0).keepdims(0).one(),
            ListForm::Unset(n) if single(b, *n) == Some(0) => self.empty(b),
            ListForm::Unset(n) => {
                let all = self.blank(b, Some(*n), sizes)?;
                b.split_to_sequence(all).axis(0).keepdims(0).one()
            }
            ListForm::Items(items) if items.is_empty() => self.empty(b),
            ListForm::Items(items) => {
                let one = |item: &Option<GraphItem>| match item {
                    Some(GraphItem::Tensor(v)) => Ok(*v),
                    Some(_) => Err(b.unsupported("A list holds what is no tensor.")),
                    None => self.blank(b, None, sizes),
                };
                b.sequence_construct(items.iter().map(one).collect::<Result<Vec<Var>>>()?)
            }
            ListForm::Written { base, index, item, grows } => {
                let mut list = base.sequence(b, b.shape_of(*item))?;
                let index = b.reshape(b.cast(*index, DataType::Int64)?, Vec::<i64>::new()).one()?;
                if *grows {
                    if is_length(b, base, index)? {
                        return b.sequence_insert(list, *item).one();
                    }
                    list = self.padded(b, list, b.add(index, 1)?, sizes)?;
                }
                let without = b.sequence_erase(list).position(index).one()?;
                b.sequence_insert(without, *item).position(index).one()
            }
            ListForm::Pushed { base, item } => {
                let list = base.sequence(b, b.shape_of(*item))?;
                b.sequence_insert(list, *item).one()
            }
        }
    }

    fn empty(&self, b: &GraphBuilder) -> Result<Var> {
        b.sequence_empty().dtype(self.dtype.unwrap_or(DataType::Float)).one()
    }

    /// An element that is not set, or `n` of them in one tensor; sizes that are not known are 0.
    fn blank(&self, b: &GraphBuilder, n: Option<Var>, sizes: &[Dim]) -> Result<Var> {
        let sizes: Vec<i64> = sizes.iter().map(|size| size.known().unwrap_or(0)).collect();
        let shape = match n {
            None => b.constant(Operand::Ints(sizes).to_tensor(None).expect("numbers")),
            Some(n) if sizes.is_empty() => b.unsqueeze(n, [0])?,
            Some(n) => b
                .concat([Operand::Var(b.unsqueeze(n, [0])?), Operand::Ints(sizes)])
                .axis(0)
                .one()?,
        };
        filled(b, shape, 0, self.dtype.unwrap_or(DataType::Float))
    }

    /// `list` with elements that are not set behind it, so that there are `n` or more.
    fn padded(&self, b: &GraphBuilder, list: Var, n: Var, sizes: &[Dim]) -> Result<Var> {
        let missing = b.sub(n, b.sequence_length(list)?)?;
        repeated(b, missing, list, |list, _| {
            b.sequence_insert(list, self.blank(b, None, sizes)?).one()
        })
    }

    /// The list with `n` elements.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn resized_sequence(&self, b: &GraphBuilder, n: Var) -> Result<TensorList> {
        let list = self.sequence(b, None)?;
        let more = b.sub(b.sequence_length(list)?, n)?;
        let head = repeated(b, more, list, |list, _| b.sequence_erase(list).one())?;
        let sizes = self.element_sizes(b).unwrap_or_default();
        Ok(self.with(self.padded(b, head, n, &sizes)?))
    }

    /// The list and behind it the elements of another one.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn followed_by(&self, b: &GraphBuilder, other: &TensorList) -> Result<TensorList> {
        let (list, other) = (self.sequence(b, None)?, other.sequence(b, None)?);
        let n = b.sequence_length(other)?;
        let all = repeated(b, n, list, |list, i| {
            b.sequence_insert(list, b.sequence_at(other, i)?).one()
        })?;
        Ok(self.with(all))
    }

    /// The elements with these indices in one tensor.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn gathered(&self, b: &GraphBuilder, indices: Var) -> Result<Var> {
        let list = self.sequence(b, None)?;
        let n = first_size(b, indices)?;
        self.each(b, n, |i| b.sequence_at(list, b.gather(indices, i).axis(0).one()?))
    }

    /// The elements one behind the other, and the first size of each.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn joined_sequence(&self, b: &GraphBuilder) -> Result<[Var; 2]> {
        let list = self.sequence(b, None)?;
        let lengths =
            self.each(b, b.sequence_length(list)?, |i| first_size(b, b.sequence_at(list, i)?))?;
        let rest = self.element_sizes(b).and_then(|sizes| {
            sizes
                .get(1..)?
                .iter()
                .map(|size| size.known().map(Dim::Known))
                .collect::<ElementSizes>()
        });
        // ONNX joins no empty sequence: an element without rows is in front.
        let list = match rest {
            Some(rest) => {
                let blank = self.blank(b, None, &[&[Dim::Known(0)], &rest[..]].concat())?;
                b.sequence_insert(list, blank).position(0).one()?
            }
            None => list,
        };
        Ok([b.concat_from_sequence(list).axis(0).one()?, lengths])
    }

    /// What `f` gives for the numbers below `n`, in one tensor.
    fn each(&self, b: &GraphBuilder, n: Var, f: impl FnOnce(Var) -> Result<Var>) -> Result<Var> {
        let always = b.constant(crate::ops::create::scalar(1, DataType::Bool));
        let given = b.loop_(n, always, &[], |_, i, condition, _| {
            Ok(Turn { condition, carried: vec![], scanned: vec![f(i)?] })
        })?;
        Ok(given[0])
    }
}

/// Whether `index` is that of the element behind all of a list.
fn is_length(b: &GraphBuilder, list: &TensorList, index: Var) -> Result<bool> {
    Ok(super::turns::same(b, list.length(b)?, index))
}

fn sequence_of(dtype: Option<DataType>, shape: ElementSizes) -> ValueType {
    ValueType::Sequence(Box::new(ValueType::Tensor { dtype, shape }))
}

/// A sequence that `turn` changes `n` times; it gets the sequence and the number of the turn.
fn repeated(
    b: &GraphBuilder,
    n: Var,
    list: Var,
    turn: impl FnOnce(Var, Var) -> Result<Var>,
) -> Result<Var> {
    let ty = match b.type_of(list) {
        Some(ValueType::Sequence(element)) => {
            let sizes = element.shape().map(|shape| vec![Dim::Unknown; shape.len()]);
            sequence_of(element.dtype(), sizes)
        }
        _ => sequence_of(None, None),
    };
    let scalar = |dtype| ValueType::tensor(dtype, Vec::<Dim>::new());
    b.begin("body");
    let i = b.input("iteration", scalar(DataType::Int64));
    let go_on = b.input("condition", scalar(DataType::Bool));
    let state = b.input("list", ty.clone());
    let next = turn(state, i).inspect_err(|_| b.discard())?;
    let body = b.close(&[go_on, next])?;
    let given = b.loop_graph(n, Operand::Absent, &[list], body)?;
    b.declare(given[0], ty);
    Ok(given[0])
}
