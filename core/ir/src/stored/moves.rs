//! What operators that rearrange elements make of stored ones, and of the axis of their scales.

use super::{Linear, Reals, StoredConstant};
use crate::{Attr, Graph, Node, Tensor, ValueType};

/// What is stored of each result of a node that rearranges its inputs; `None` for other nodes, and where the scales do
/// not follow.
pub(super) fn moved(
    graph: &Graph,
    node: &Node,
    parts: &[StoredConstant],
) -> Option<Vec<StoredConstant>> {
    let [one, ..] = parts else { return None };
    match node.op.as_str() {
        "Transpose" => Some(vec![transposed(node, one)?]),
        "Reshape" | "Unsqueeze" | "Squeeze" | "Flatten" => {
            let dims = graph[node.output(0)?].ty.as_ref().and_then(ValueType::dims)?;
            Some(vec![reshaped(one, dims)?])
        }
        "Slice" => Some(vec![sliced(one, &ranges(graph, node, &one.tensor)?)?]),
        "Split" => split(graph, node, one),
        "Concat" => Some(vec![joined(node, parts)?]),
        _ => None,
    }
}

impl StoredConstant {
    fn scales_along(&self) -> Option<usize> {
        match &self.reals {
            Reals::Linear(linear) => linear.axis,
            Reals::Cast(_) => None,
        }
    }

    /// Other elements of which real numbers are made in the same way, with the scales along another axis.
    fn with(&self, tensor: Tensor, axis: Option<usize>) -> StoredConstant {
        let mut reals = self.reals.clone();
        if let Reals::Linear(linear) = &mut reals {
            linear.axis = axis;
        }
        StoredConstant { tensor, reals }
    }
}

fn transposed(node: &Node, one: &StoredConstant) -> Option<StoredConstant> {
    let rank = one.tensor.rank();
    let perm = match node.attr("perm") {
        Some(Attr::Ints(perm)) => perm.iter().map(|axis| usize::try_from(*axis).ok()).collect(),
        _ => Some((0..rank).rev().collect()),
    };
    let perm: Vec<usize> = perm?;
    let axis = match one.scales_along() {
        Some(axis) => Some(perm.iter().position(|from| *from == axis)?),
        None => None,
    };
    Some(one.with(one.tensor.permuted(&perm).ok()?, axis))
}

fn reshaped(one: &StoredConstant, dims: Vec<i64>) -> Option<StoredConstant> {
    let dims = dims.into_iter().map(|size| usize::try_from(size).ok());
    let dims = dims.collect::<Option<Vec<usize>>>()?;
    let axis = match one.scales_along() {
        Some(axis) => Some(same_axis(one.tensor.dims(), axis, &dims)?),
        None => None,
    };
    Some(one.with(one.tensor.reshaped(dims).ok()?, axis))
}

/// Where an axis is in other sizes of the same elements.
fn same_axis(from: &[usize], axis: usize, to: &[usize]) -> Option<usize> {
    let before = |dims: &[usize], axis: usize| dims[..axis].iter().product::<usize>();
    let size = *from.get(axis)?;
    (0..to.len()).find(|other| to[*other] == size && before(to, *other) == before(from, axis))
}

/// First element, count and step of each axis.
type Ranges = Vec<(usize, usize, isize)>;

fn whole(tensor: &Tensor) -> Ranges {
    tensor.dims().iter().map(|size| (0, *size, 1)).collect()
}

fn sliced(one: &StoredConstant, ranges: &Ranges) -> Option<StoredConstant> {
    let mut part = one.with(one.tensor.sliced(ranges).ok()?, one.scales_along());
    if let Reals::Linear(linear @ Linear { axis: Some(_), .. }) = &mut part.reals {
        let range = [ranges[linear.axis?]];
        linear.scale = linear.scale.sliced(&range).ok()?;
        if let Some(zero) = &mut linear.zero {
            *zero = zero.sliced(&range).ok()?;
        }
    }
    Some(part)
}

/// What a `Slice` with constant operands takes of each axis.
fn ranges(graph: &Graph, node: &Node, tensor: &Tensor) -> Option<Ranges> {
    let list = |at: usize| match node.input(at) {
        Some(v) => graph.constant(v)?.to_i64s().map(Some),
        None => Some(None),
    };
    let (starts, ends) = (list(1)??, list(2)??);
    let axes = list(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()].iter().any(|n| *n != starts.len()) {
        return None;
    }
    let mut all = whole(tensor);
    for (((start, end), axis), step) in starts.iter().zip(ends).zip(axes).zip(steps) {
        let axis = if axis < 0 { axis + tensor.rank() as i64 } else { axis };
        let range = all.get_mut(usize::try_from(axis).ok()?)?;
        let size = range.1 as i64;
        let within = |at: i64| (if at < 0 { at.saturating_add(size) } else { at }).clamp(0, size);
        let (first, end) = (within(*start), within(end));
        // Those that run backwards are rare.
        if step <= 0 {
            return None;
        }
        let count =
            (end - first).max(0).div_euclid(step) + i64::from((end - first).max(0) % step > 0);
        let first = usize::try_from(first).ok()?;
        *range = (first, usize::try_from(count).ok()?, isize::try_from(step).ok()?);
    }
    Some(all)
}

/// The parts of a `Split`, as the types of its results say them.
fn split(graph: &Graph, node: &Node, one: &StoredConstant) -> Option<Vec<StoredConstant>> {
    let axis = node.int("axis", 0);
    let axis = if axis < 0 { axis + one.tensor.rank() as i64 } else { axis };
    let axis = usize::try_from(axis).ok().filter(|axis| *axis < one.tensor.rank())?;
    let mut first = 0;
    let mut parts = vec![];
    for out in &node.outputs {
        let dims = graph[(*out)?].ty.as_ref().and_then(ValueType::dims)?;
        let count = usize::try_from(*dims.get(axis)?).ok()?;
        let mut ranges = whole(&one.tensor);
        ranges[axis] = (first, count, 1);
        parts.push(sliced(one, &ranges)?);
        first += count;
    }
    (first == one.tensor.dims()[axis]).then_some(parts)
}

fn joined(node: &Node, parts: &[StoredConstant]) -> Option<StoredConstant> {
    let [first, ..] = parts else { return None };
    let (rank, dtype) = (first.tensor.rank(), first.tensor.dtype());
    let axis = node.int("axis", 0);
    let axis = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok()?;
    if axis >= rank || parts.iter().any(|part| part.tensor.dtype() != dtype) {
        return None;
    }
    let tensors: Vec<Tensor> = parts.iter().map(|part| part.tensor.clone()).collect();
    let tensor = Tensor::concat(&tensors, axis).ok()?;
    match &first.reals {
        Reals::Cast(to) => {
            let alike =
                |part: &StoredConstant| matches!(part.reals, Reals::Cast(other) if other == *to);
            parts.iter().all(alike).then(|| first.with(tensor, None))
        }
        Reals::Linear(_) => {
            Some(StoredConstant { tensor, reals: Reals::Linear(scales(parts, axis)?) })
        }
    }
}

/// The scales of tensors that are joined along an axis: those of all if they are equal, else along that axis.
fn scales(parts: &[StoredConstant], axis: usize) -> Option<Linear> {
    let linear = |part: &'_ StoredConstant| match &part.reals {
        Reals::Linear(linear) => Some(linear.clone()),
        Reals::Cast(_) => None,
    };
    let all = parts.iter().map(linear).collect::<Option<Vec<Linear>>>()?;
    let first = &all[0];
    let alike = all.iter().all(|other| {
        (other.axis, &other.scale, &other.zero) == (first.axis, &first.scale, &first.zero)
    });
    if alike && first.axis != Some(axis) {
        return Some(first.clone());
    }
    let is_along = |linear: &Linear| linear.axis.is_none_or(|found| found == axis);
    let has_zeros = first.zero.is_some();
    if !all.iter().all(|linear| is_along(linear) && linear.zero.is_some() == has_zeros) {
        return None;
    }
    let along = |of: &dyn Fn(&Linear) -> Option<Tensor>| {
        let each = all.iter().zip(parts).map(|(linear, part)| {
            let (found, size) = (of(linear)?, part.tensor.dims()[axis]);
            match linear.axis {
                Some(_) => Some(found),
                // One scale for all of a part is the same for each of its slices.
                None => found.reshaped([1]).ok()?.repeated(size),
            }
        });
        Tensor::concat(&each.collect::<Option<Vec<Tensor>>>()?, 0).ok()
    };
    let zero = if has_zeros { Some(along(&|linear| linear.zero.clone())?) } else { None };
    Some(Linear { scale: along(&|linear| Some(linear.scale.clone()))?, zero, axis: Some(axis) })
}

impl Tensor {
    /// A vector of `count` times the only element.
    fn repeated(&self, count: usize) -> Option<Tensor> {
        let strides = vec![0];
        let from = crate::Derivation::Strided { source: self.clone(), offset: 0, strides };
        Tensor::derived(self.dtype(), [count], from).ok()
    }
}
