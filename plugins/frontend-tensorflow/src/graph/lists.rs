//! Lists of tensors: TensorList and TensorArray. A TensorArray is a list that goes along its `flow`; its handle tells
//! nothing.

use super::extent::Extent;
use super::item::{ElementSizes, GraphItem, ListForm, TensorList};
use super::list::{first_size, grown, single};
use super::node;
use super::scope::{GraphRunner, Scope};
use super::sequence::Sequences;
use crate::wire::dtype::dtype_of_number;
use crate::wire::proto::{Attr, NodeDef};
use crate::wire::tensor::dims_of;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse};
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor};
use std::rc::Rc;

/// What an operator does to a list. TensorList and TensorArray have different words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Reserve,
    Empty,
    FromTensor,
    Stack,
    Get,
    Set,
    Push,
    Pop,
    Length,
    Resize,
    ElementShape,
    Gather,
    Scatter,
    ScatterInto,
    Concat,
    Split,
    Join,
    Close,
}

/// Operators, what they do, and where they have the list, an index or sizes, and a tensor among their inputs.
const OPERATORS: [(&str, Act, [usize; 3]); 34] = [
    ("EmptyTensorList", Act::Empty, [0, 0, 0]),
    ("TensorListReserve", Act::Reserve, [0, 1, 0]),
    ("TensorListFromTensor", Act::FromTensor, [0, 1, 0]),
    ("TensorListStack", Act::Stack, [0, 1, 0]),
    ("TensorListGetItem", Act::Get, [0, 1, 0]),
    ("TensorListSetItem", Act::Set, [0, 1, 2]),
    ("TensorListPushBack", Act::Push, [0, 0, 1]),
    ("TensorListPopBack", Act::Pop, [0, 1, 0]),
    ("TensorListLength", Act::Length, [0, 0, 0]),
    ("TensorListResize", Act::Resize, [0, 1, 0]),
    ("TensorListElementShape", Act::ElementShape, [0, 0, 0]),
    ("TensorListGather", Act::Gather, [0, 1, 0]),
    ("TensorListScatter", Act::Scatter, [2, 1, 0]),
    ("TensorListScatterV2", Act::Scatter, [2, 1, 0]),
    ("TensorListScatterIntoExistingList", Act::ScatterInto, [0, 2, 1]),
    ("TensorListConcat", Act::Concat, [0, 0, 0]),
    ("TensorListConcatV2", Act::Concat, [0, 1, 0]),
    ("TensorListSplit", Act::Split, [1, 2, 0]),
    ("TensorListConcatLists", Act::Join, [0, 1, 0]),
    ("TensorArrayV2", Act::Reserve, [1, 0, 0]),
    ("TensorArrayV3", Act::Reserve, [1, 0, 0]),
    ("TensorArrayReadV2", Act::Get, [2, 1, 0]),
    ("TensorArrayReadV3", Act::Get, [2, 1, 0]),
    ("TensorArrayWriteV2", Act::Set, [3, 1, 2]),
    ("TensorArrayWriteV3", Act::Set, [3, 1, 2]),
    ("TensorArraySizeV2", Act::Length, [1, 0, 0]),
    ("TensorArraySizeV3", Act::Length, [1, 0, 0]),
    ("TensorArrayGatherV2", Act::Gather, [2, 1, 0]),
    ("TensorArrayGatherV3", Act::Gather, [2, 1, 0]),
    ("TensorArrayScatterV3", Act::ScatterInto, [3, 1, 2]),
    ("TensorArrayConcatV3", Act::Concat, [1, 0, 0]),
    ("TensorArraySplitV3", Act::Split, [3, 2, 1]),
    ("TensorArrayCloseV2", Act::Close, [0, 0, 0]),
    ("TensorArrayCloseV3", Act::Close, [0, 0, 0]),
];

/// Runs a node of this family; `None` if it is of another one.
///
/// # Errors
/// What makes the graph unusable. What merely cannot be converted is reported, and holes stand for it.
pub(crate) fn run<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    inputs: &[GraphItem],
) -> Result<Option<Vec<GraphItem>>> {
    let Some((_, act, places)) = OPERATORS.iter().find(|(op, ..)| *op == node.op) else {
        return Ok(None);
    };
    let holes = || vec![GraphItem::Hole; node::output_count(node, None)];
    if inputs.iter().any(|item| matches!(item, GraphItem::Hole)) {
        return Ok(Some(holes()));
    }
    let layer = scope.layer(node);
    let (name, sequences) = (layer.name.as_str().into(), runner.sequences);
    let one = One { b: runner.builder(), node, name, inputs, places: *places, sequences };
    let given = one.b.in_layer(layer, |_| one.run(*act));
    Ok(Some(given.unwrap_or_else(|found| {
        runner.driver.report(found);
        holes()
    })))
}

/// One operator and what it gets.
struct One<'r> {
    b: &'r GraphBuilder,
    node: &'r NodeDef,
    /// The name of its layer.
    name: Rc<str>,
    inputs: &'r [GraphItem],
    places: [usize; 3],
    sequences: &'r Sequences,
}

impl One<'_> {
    fn is_array(&self) -> bool {
        self.node.op.starts_with("TensorArray")
    }

    fn at(&self, place: usize) -> Result<&GraphItem> {
        self.inputs
            .get(place)
            .ok_or_else(|| self.b.diagnostic(Code::SourceSyntax, "The node has too few inputs."))
    }

    fn tensor_at(&self, place: usize) -> Result<Var> {
        match self.at(place)? {
            GraphItem::Tensor(v) => Ok(*v),
            _ => Err(self.b.unsupported("The input is no tensor.")),
        }
    }

    fn list_at(&self, place: usize) -> Result<Rc<TensorList>> {
        match self.at(place)? {
            GraphItem::List(list) => Ok(list.clone()),
            _ => Err(self.b.unsupported("The input is no list that the graph made.")),
        }
    }

    fn list(&self) -> Result<Rc<TensorList>> {
        self.list_at(self.places[0])
    }

    /// The index, numbers of indices, or sizes.
    fn second(&self) -> Result<Var> {
        self.tensor_at(self.places[1])
    }

    fn third(&self) -> Result<Var> {
        self.tensor_at(self.places[2])
    }

    /// The element type that the node says.
    fn dtype(&self) -> Option<DataType> {
        let names = ["element_dtype", "dtype", "T"];
        let attr = names.iter().find_map(|name| self.node.attr.get(*name))?;
        match attr.value {
            Some(Attr::Type(number)) => dtype_of_number(number),
            _ => None,
        }
    }

    /// The shape of an element that the node says.
    fn element(&self) -> ElementSizes {
        if self.is_array() {
            let attr = self.node.attr.get("element_shape")?;
            let Some(Attr::Shape(shape)) = &attr.value else { return None };
            return dims_of(shape);
        }
        let at = self.inputs.iter().zip(crate::schema::find(&self.node.op)?.inputs.iter());
        let shape = at.into_iter().find(|(_, arg)| arg.name == "element_shape");
        let (GraphItem::Tensor(shape), _) = shape? else { return None };
        let sizes = self.b.ints_of(*shape).filter(|_| self.b.rank_of(*shape) != Some(0))?;
        let size = |n: &i64| if *n < 0 { Dim::Unknown } else { Dim::Known(*n) };
        Some(sizes.iter().map(size).collect())
    }

    fn made(&self, form: ListForm) -> TensorList {
        let mut list =
            TensorList::new(self.b, form, (self.dtype(), self.element()), self.name.clone());
        list.is_sequence = self.sequences.holds(&self.name);
        list
    }

    /// The list, of which elements are read that need not have the size of all others.
    fn list_of_any(&self) -> Result<Rc<TensorList>> {
        let list = self.list()?;
        if list.extent == Extent::Varying && !list.is_sequence {
            self.sequences.find(&list.origin);
        }
        Ok(list)
    }

    fn run(&self, act: Act) -> Result<Vec<GraphItem>> {
        let b = self.b;
        let list = |list: TensorList| vec![GraphItem::List(Rc::new(list))];
        Ok(match act {
            Act::Reserve => {
                let n = if self.is_array() { self.tensor_at(0)? } else { self.second()? };
                let mut made = self.made(ListForm::Unset(self.scalar(n)?));
                made.grows = flag(self.node, "dynamic_size");
                let flow = GraphItem::List(Rc::new(made));
                if self.is_array() { vec![flow.clone(), flow] } else { vec![flow] }
            }
            Act::Empty => list(self.made(ListForm::Unset(b.constant(Tensor::scalar(0i64))))),
            Act::FromTensor => list(self.made(ListForm::Stacked(self.tensor_at(0)?))),
            Act::Stack => self.tensor(self.list()?.stacked(b, self.element())?),
            Act::Get => {
                let (list, index) = (self.list()?, self.second()?);
                let list = if list.has(b, index) { list } else { self.list_of_any()? };
                vec![list.get(b, index, self.element())?]
            }
            Act::Set => {
                let grows = flag(self.node, "resize_if_index_out_of_bounds") || self.is_array();
                let item = self.at(self.places[2])?.clone();
                list(self.list()?.set(b, self.second()?, item, grows && !self.is_fixed()?)?)
            }
            Act::Push => list(self.list()?.pushed(b, self.at(self.places[2])?.clone())?),
            Act::Pop => self.popped()?,
            Act::Length => self.tensor(b.cast(self.list()?.length(b)?, DataType::Int32)?),
            Act::Resize => list(self.resized()?),
            Act::ElementShape => self.tensor(self.element_shape()?),
            Act::Gather => {
                let (list, indices) = (self.list_of_any()?, self.second()?);
                self.tensor(match list.is_sequence {
                    true => list.gathered(b, indices)?,
                    false => b.gather(list.stacked(b, self.element())?, indices).axis(0).one()?,
                })
            }
            Act::Scatter => list(self.scattered()?),
            Act::ScatterInto => list(self.scattered_into()?),
            Act::Concat => self.concatenated()?,
            Act::Split => list(self.split()?),
            Act::Join => {
                let [x, y] = [self.list_at(0)?, self.list_at(1)?];
                let mut joined = match x.is_sequence || y.is_sequence {
                    true => x.as_sequence().followed_by(b, &y)?,
                    false => {
                        let parts = [x.stacked(b, None)?, y.stacked(b, None)?];
                        x.with(b.concat(parts).axis(0).one()?)
                    }
                };
                joined.extent = x.extent.clone().and(y.extent.clone());
                list(joined)
            }
            Act::Close => vec![],
        })
    }

    fn tensor(&self, v: Var) -> Vec<GraphItem> {
        vec![GraphItem::Tensor(v)]
    }

    fn scalar(&self, n: Var) -> Result<Var> {
        let n = self.b.cast(n, DataType::Int64)?;
        match self.b.rank_of(n) {
            Some(0) => Ok(n),
            _ => self.b.reshape(n, Vec::<i64>::new()).one(),
        }
    }

    /// Whether the list is a TensorArray that does not grow.
    fn is_fixed(&self) -> Result<bool> {
        Ok(self.is_array() && !self.list()?.grows)
    }

    fn popped(&self) -> Result<Vec<GraphItem>> {
        let (b, list) = (self.b, self.list()?);
        if let Some(mut items) = list.items(b)
            && let Some(last) = items.pop()
        {
            let index = b.constant(Tensor::scalar(items.len() as i64));
            let last = last.map_or_else(|| list.get(b, index, self.element()), Ok)?;
            return Ok(vec![GraphItem::List(Rc::new(list.like(b, ListForm::Items(items)))), last]);
        }
        let list = self.list_of_any()?;
        if list.is_sequence {
            let sequence = list.sequence(b, self.element())?;
            let last = b.sequence_at(sequence, -1)?;
            let rest = b.sequence_erase(sequence).one()?;
            return Ok(vec![GraphItem::List(Rc::new(list.with(rest))), GraphItem::Tensor(last)]);
        }
        let tensor = list.stacked(b, self.element())?;
        let last = b.gather(tensor, -1).axis(0).one()?;
        let rest = b.slice(tensor, [0], [-1]).axes([0]).one()?;
        Ok(vec![GraphItem::List(Rc::new(list.with(rest))), GraphItem::Tensor(last)])
    }

    fn resized(&self) -> Result<TensorList> {
        let (b, list) = (self.b, self.list()?);
        let n = self.scalar(self.second()?)?;
        if let ListForm::Unset(_) = list.form {
            return Ok(list.like(b, ListForm::Unset(n)));
        }
        let known = single(b, n).and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= 1024);
        if let (ListForm::Items(items), Some(n)) = (&list.form, known) {
            let mut items = items.clone();
            items.resize(n, None);
            return Ok(list.like(b, ListForm::Items(items)));
        }
        if list.is_sequence {
            return list.resized_sequence(b, n);
        }
        let tensor = list.stacked(b, None)?;
        let n = b.unsqueeze(n, [0])?;
        let head = b.slice(tensor, [0], n).axes([0]).one()?;
        Ok(list.with(grown(b, head, n)?))
    }

    /// The shape of an element as far as the list says it, with -1 for sizes that it does not.
    fn element_shape(&self) -> Result<Var> {
        let list = self.list()?;
        let dtype = node::dtype(self.node, "shape_type").unwrap_or(DataType::Int32);
        let sizes = match &list.element {
            Some(sizes) => {
                let sizes: Vec<i64> = sizes.iter().map(|n| n.known().unwrap_or(-1)).collect();
                Operand::Ints(sizes)
            }
            None => (-1).into(),
        };
        self.b.cast(sizes, dtype)
    }

    /// How many elements a list must have for these indices: one element.
    fn needed(&self, indices: Var) -> Result<Var> {
        let most = self.b.reduce_max(indices).axes([0]).keepdims(1).one()?;
        self.b.add(most, 1)
    }

    fn indices(&self) -> Result<Var> {
        let indices = self.b.cast(self.second()?, DataType::Int64)?;
        self.b.reshape(indices, [-1]).one()
    }

    fn scattered(&self) -> Result<TensorList> {
        let (b, indices, tensor) = (self.b, self.indices()?, self.tensor_at(0)?);
        let n = match self.inputs.get(3) {
            Some(GraphItem::Tensor(n)) if single(b, *n) != Some(-1) => {
                b.reshape(b.cast(*n, DataType::Int64)?, [1]).one()?
            }
            _ => self.needed(indices)?,
        };
        let element = b.shape(tensor).start(1).one()?;
        let shape = b.concat([n, element]).axis(0).one()?;
        let zeros = crate::ops::create::filled(b, shape, 0, crate::ops::dtype_of(b, tensor)?)?;
        let places = b.unsqueeze(indices, [1])?;
        Ok(self.made(ListForm::Stacked(b.scatter_nd(zeros, places, tensor).one()?)))
    }

    fn scattered_into(&self) -> Result<TensorList> {
        let (b, list, indices, tensor) = (self.b, self.list()?, self.indices()?, self.third()?);
        let all = self.is_range(&list, indices, tensor)?;
        let extent = list.extent.clone().and(Extent::within(b, tensor));
        if all {
            return Ok(list.set_all(tensor).sized(Extent::within(b, tensor)));
        }
        refuse!(list.is_sequence =>
            b.unsupported("Elements are scattered into a list whose elements have different sizes."));
        let element = b.shape_of(tensor).map(|shape| shape[1.min(shape.len())..].to_vec());
        let mut before = list.stacked(b, element)?;
        if !self.is_fixed()? {
            before = grown(b, before, self.needed(indices)?)?;
        }
        if list.loose {
            let n = b.shape(before).start(0).end(1).one()?;
            let element = b.shape(tensor).start(1).one()?;
            before = b.expand(before, b.concat([n, element]).axis(0).one()?)?;
        }
        let places = b.unsqueeze(indices, [1])?;
        Ok(list.set_all(b.scatter_nd(before, places, tensor).one()?).sized(extent))
    }

    /// Whether indices are all of a list, in their order.
    fn is_range(&self, list: &TensorList, indices: Var, tensor: Var) -> Result<bool> {
        let b = self.b;
        let (n, size) = (list.length(b)?, first_size(b, tensor)?);
        let grows = list.grows && single(b, n) == Some(0);
        if !grows && !super::turns::same(b, n, size) {
            return Ok(false);
        }
        if let Some(known) = b.ints_of(indices) {
            return Ok(known.iter().enumerate().all(|(i, at)| i as i64 == *at));
        }
        let Some((op, inputs)) = super::turns::node_of(b, indices) else { return Ok(false) };
        let [start, limit, delta] = inputs[..] else { return Ok(false) };
        let counts = single(b, start) == Some(0) && single(b, delta) == Some(1);
        Ok(op == "Range" && counts && super::turns::same(b, limit, size))
    }

    /// The elements one behind the other, and the first size of each.
    fn concatenated(&self) -> Result<Vec<GraphItem>> {
        let (b, list) = (self.b, self.list()?);
        let items: Option<Vec<Var>> = match &list.form {
            ListForm::Items(items) => {
                let tensor = |item: &Option<GraphItem>| match item {
                    Some(GraphItem::Tensor(v)) => Some(*v),
                    _ => None,
                };
                items.iter().map(tensor).collect()
            }
            _ => None,
        };
        if let Some(items) = items.filter(|items| !items.is_empty()) {
            let sizes = items.iter().map(|v| b.shape(*v).start(0).end(1).one());
            let sizes = sizes.collect::<Result<Vec<Var>>>()?;
            let joined = b.concat(items).axis(0).one()?;
            return Ok(vec![
                GraphItem::Tensor(joined),
                GraphItem::Tensor(b.concat(sizes).axis(0).one()?),
            ]);
        }
        let list = self.list_of_any()?;
        if list.is_sequence {
            return Ok(list.joined_sequence(b)?.map(GraphItem::Tensor).to_vec());
        }
        let tensor = list.stacked(b, None)?;
        let Some(rank) = b.rank_of(tensor).filter(|rank| *rank >= 2) else {
            return Err(b.unsupported("The elements of the list have no axis to be joined along."));
        };
        let sizes = b.shape(tensor).one()?;
        let [n, size] = [[0], [1]].map(|at| b.gather(sizes, at).axis(0).one());
        let lengths = b.expand(size?, n?)?;
        let rest = b.shape(tensor).start(2).one()?;
        let shape = match rank {
            2 => b.constant(Operand::Ints(vec![-1]).to_tensor(None).expect("a number")),
            _ => {
                let first = Operand::Ints(vec![-1]);
                b.concat([first, rest.into()]).axis(0).one()?
            }
        };
        let joined = b.reshape(tensor, shape).one()?;
        Ok(vec![GraphItem::Tensor(joined), GraphItem::Tensor(lengths)])
    }

    /// A list of parts of a tensor, of known lengths.
    fn split(&self) -> Result<TensorList> {
        let b = self.b;
        let tensor = if self.is_array() { self.third()? } else { self.tensor_at(0)? };
        let Some(lengths) = b.ints_of(self.second()?).filter(|lengths| lengths.len() <= 1024)
        else {
            return Err(b.unsupported("The lengths that a tensor is split into are not known."));
        };
        let mut items = vec![];
        let mut start = 0i64;
        for length in lengths {
            let end = start.saturating_add(length.max(0));
            let part = b.slice(tensor, [start], [end]).axes([0]).one()?;
            items.push(Some(GraphItem::Tensor(part)));
            start = end;
        }
        Ok(self.made(ListForm::Items(items)))
    }
}

fn flag(node: &NodeDef, name: &str) -> bool {
    matches!(node::attr(node, name), Some(Attr::B(true)))
}

#[cfg(test)]
mod tests;
