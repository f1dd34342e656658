//! Constants and control flow.

use super::merge::{self, varying};
use super::site::{Data, InferContext, Shapes, axis, one, unknown};
use super::{Rules, TypeRules, Types, sequence};
use crate::{Attr, DataType, Dim, Graph, Node, Shape, Tensor, ValueId, ValueType};

pub(super) const RULES: Rules = &[("Constant", constant)];

pub(super) const TYPES: TypeRules = &[
    ("If", if_outputs),
    ("Loop", loop_outputs),
    ("Scan", |site| scan_outputs(site).unwrap_or_default()),
];

fn constant(site: &InferContext<'_>) -> Shapes {
    let vector = |n: usize| one(vec![Dim::Known(n as i64)]);
    match site.node.attrs.first() {
        Some((_, Attr::Tensor(tensor))) => one(dims(tensor)),
        Some((_, Attr::Sparse(sparse))) => {
            one(sparse.dims.iter().map(|d| Dim::Known(*d as i64)).collect())
        }
        Some((_, Attr::Int(_) | Attr::Float(_) | Attr::Str(_))) => one(vec![]),
        Some((_, Attr::Ints(xs))) => vector(xs.len()),
        Some((_, Attr::Floats(xs))) => vector(xs.len()),
        Some((_, Attr::Strs(xs))) => vector(xs.len()),
        _ => unknown(),
    }
}

fn dims(tensor: &Tensor) -> Shape {
    tensor.dims().iter().map(|d| Dim::Known(*d as i64)).collect()
}

/// Types that the inputs of the node's sub-graphs have.
pub(super) fn body_inputs(g: &Graph, node: &Node, opset: i64) -> Vec<Option<ValueType>> {
    let ty = |v: &Option<ValueId>| v.and_then(|v| g[v].ty.clone());
    match node.op.as_str() {
        "Loop" if node.is_standard() => {
            let scalar = |dtype| Some(ValueType::tensor(dtype, Vec::<Dim>::new()));
            let carried = node.inputs.iter().skip(CARRIED).map(ty);
            [scalar(DataType::Int64), scalar(DataType::Bool)].into_iter().chain(carried).collect()
        }
        "Scan" if node.is_standard() => {
            let Some((states, scanned)) = scan_inputs(node, opset) else { return vec![] };
            let batched = opset < 9;
            let single = |t: ValueType| if batched { without_axis(&t, 0) } else { Some(t) };
            let states = states.iter().map(|v| ty(v).and_then(single));
            let slices = scanned.iter().enumerate().map(|(i, v)| {
                let axis = scan_axis(node, "scan_input_axes", i);
                ty(v).and_then(single).and_then(|t| without_axis(&t, axis))
            });
            states.chain(slices).collect()
        }
        "SequenceMap" if node.is_standard() => sequence::body_inputs(node.inputs.iter().map(ty)),
        _ => vec![],
    }
}

type Values<'n> = &'n [Option<ValueId>];

/// Initial states and scanned inputs of a Scan. Before opset 9 all have a batch axis in front, and
/// the first input is one of lengths.
fn scan_inputs(node: &Node, opset: i64) -> Option<(Values<'_>, Values<'_>)> {
    let Some(Attr::Int(scanned)) = node.attr("num_scan_inputs") else { return None };
    let inputs = node.inputs.get(usize::from(opset < 9)..)?;
    let states = inputs.len().checked_sub(usize::try_from(*scanned).ok()?)?;
    Some(inputs.split_at(states))
}

fn scan_axis(node: &Node, name: &str, i: usize) -> i64 {
    match node.attr(name) {
        Some(Attr::Ints(axes)) => axes.get(i).copied().unwrap_or(0),
        _ => 0,
    }
}

/// Before what a Loop carries there are the most repetitions and the condition.
pub(super) const CARRIED: usize = 2;

/// What holds for what a Loop carries, whatever the repetition: `assumed` of what goes into its
/// body, made weaker where that does not hold for what comes out.
pub(super) fn carried(
    body: &Graph,
    assumed: &[Option<ValueType>],
    since: usize,
) -> Vec<Option<ValueType>> {
    let mut weaker = assumed.to_vec();
    let carried = weaker.iter_mut().skip(CARRIED);
    for (assumed, out) in carried.zip(body.outputs().iter().skip(1)) {
        let out = body[*out].ty.as_ref().map(|ty| varying(ty, since));
        let Some(ty) = assumed.take() else { continue };
        *assumed = match out {
            Some(out) => ty.either(&out),
            None => Some(unshaped(&ty)),
        };
    }
    weaker
}

/// The type without what may change.
pub(super) fn unshaped(ty: &ValueType) -> ValueType {
    match ty {
        ValueType::Tensor { dtype, .. } => ValueType::Tensor { dtype: *dtype, shape: None },
        ValueType::Sequence(of) => ValueType::Sequence(Box::new(unshaped(of))),
        ValueType::Optional(of) => ValueType::Optional(Box::new(unshaped(of))),
        other => other.clone(),
    }
}

fn without_axis(ty: &ValueType, at: i64) -> Option<ValueType> {
    let mut shape = ty.shape()?.to_vec();
    shape.remove(axis(at, shape.len()).ok()?);
    Some(ValueType::Tensor { dtype: ty.dtype(), shape: Some(shape) })
}

fn with_axis(ty: &ValueType, at: i64, size: Dim) -> Option<ValueType> {
    let ValueType::Tensor { dtype, shape } = ty else { return None };
    let shape = shape.as_ref().and_then(|s| {
        let mut shape = s.clone();
        shape.insert(axis(at, s.len() + 1).ok()?, size);
        Some(shape)
    });
    Some(ValueType::Tensor { dtype: *dtype, shape })
}

fn body<'a>(site: &InferContext<'a>, name: &str) -> Option<&'a Graph> {
    match site.node.attr(name) {
        Some(Attr::Graph(body)) => Some(body),
        _ => None,
    }
}

/// Which branch of an If is never taken.
pub(super) fn dead_branch(condition: Option<&Data>) -> Option<&'static str> {
    match condition?.items[..] {
        [Dim::Known(0)] => Some("then_branch"),
        [Dim::Known(_)] => Some("else_branch"),
        _ => None,
    }
}

fn if_outputs(site: &InferContext<'_>) -> Types {
    let dead = dead_branch(site.data(0).as_ref());
    let live = ["then_branch", "else_branch"].into_iter().filter(|name| Some(*name) != dead);
    let of = |g: &Graph| g.outputs().iter().map(|v| g[*v].ty.clone()).collect::<Types>();
    let types = live.map(|name| body(site, name).map_or(vec![], of));
    let common = |a: Types, b: Types| a.into_iter().zip(b).map(|(a, b)| a?.either(&b?)).collect();
    types.reduce(common).unwrap_or_default()
}

fn loop_outputs(site: &InferContext<'_>) -> Types {
    let Some(body) = body(site, "body") else { return vec![] };
    let ty = |v: &ValueId| body[*v].ty.as_ref().map(|ty| varying(ty, site.fresh));
    let carried = site.node.inputs.len().saturating_sub(CARRIED);
    let count = repetitions(site, body);
    let kept = body.inputs().iter().skip(CARRIED).map(ty);
    let scanned = body.outputs().iter().skip(1 + carried).map(ty);
    kept.take(carried).chain(scanned.map(|t| with_axis(&t?, 0, count.clone()))).collect()
}

/// How often a Loop runs, if only its first input says so.
fn repetitions(site: &InferContext<'_>, body: &Graph) -> Dim {
    let starts = !site.has(1) || site.data(1).is_some_and(|d| d.items == [Dim::Known(1)]);
    let (Some(given), Some(goes_on)) = (body.inputs().get(1), body.outputs().first()) else {
        return Dim::Unknown;
    };
    let source = body.producer(*goes_on).map(|id| &body[id]).filter(|n| n.is("Identity"));
    let source = source.and_then(|n| n.input(0)).unwrap_or(*goes_on);
    let constant = body.constant(source).and_then(Tensor::to_i64s);
    let always = source == *given || constant.is_some_and(|c| c == [1]);
    let count = site.sizes(0).and_then(|d| d.into_iter().next());
    count.filter(|_| starts && always).unwrap_or(Dim::Unknown)
}

fn scan_outputs(site: &InferContext<'_>) -> Option<Types> {
    let (states, scanned) = scan_inputs(site.node, site.opset)?;
    let body = body(site, "body")?;
    let (batched, first) = (usize::from(site.opset < 9), states.len());
    let of = |v: &Option<ValueId>| site.graph[(*v)?].ty.as_ref();
    let first_scanned = scanned.first().and_then(of).and_then(ValueType::shape);
    let length = first_scanned.and_then(|shape| {
        let rank = shape.len().checked_sub(batched)?;
        let at = axis(scan_axis(site.node, "scan_input_axes", 0), rank).ok()?;
        shape.get(at + batched).cloned()
    });
    let length = length.unwrap_or(Dim::Unknown);
    let batch = first_scanned.and_then(|s| s.first()).cloned().unwrap_or(Dim::Unknown);
    let all = |ty: ValueType| match batched {
        0 => Some(ty),
        _ => with_axis(&ty, 0, batch.clone()),
    };
    let types = body.outputs().iter().enumerate().map(|(i, v)| {
        let ty = varying(body[*v].ty.as_ref()?, site.fresh);
        match i.checked_sub(first) {
            // A state has one shape throughout.
            None => {
                let ty = all(ty)?;
                let initial = of(&states[i]);
                initial.and_then(|t| merge::types(Some(&ty), t, false)).or(Some(ty))
            }
            Some(k) => {
                let at = scan_axis(site.node, "scan_output_axes", k);
                all(with_axis(&ty, at, length.clone())?)
            }
        }
    });
    Some(types.collect())
}
