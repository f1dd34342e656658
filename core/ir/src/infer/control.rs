//! Constants and control flow.

use super::Rules;
use super::merge::either;
use super::site::{Shapes, Site, axis, one, unknown};
use crate::{Attr, DataType, Dim, Graph, Node, Shape, Tensor, ValueId, ValueType};

pub(super) const RULES: Rules = &[("Constant", constant)];

fn constant(site: &Site<'_>) -> Shapes {
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
            let carried = node.inputs.iter().skip(2).map(|v| ty(v).map(|t| unshaped(&t)));
            [scalar(DataType::Int64), scalar(DataType::Bool)].into_iter().chain(carried).collect()
        }
        "Scan" if node.is_standard() => {
            let Some((states, scanned)) = scan_inputs(node, opset) else { return vec![] };
            let states = states.iter().map(ty);
            let slices = scanned.iter().enumerate().map(|(i, v)| {
                let axis = scan_axis(node, "scan_input_axes", i);
                ty(v).and_then(|t| without_axis(&t, axis))
            });
            states.chain(slices).collect()
        }
        _ => vec![],
    }
}

type Values<'n> = &'n [Option<ValueId>];

/// Initial states and scanned inputs of a Scan (since opset 9).
fn scan_inputs(node: &Node, opset: i64) -> Option<(Values<'_>, Values<'_>)> {
    let Some(Attr::Int(scanned)) = node.attr("num_scan_inputs") else { return None };
    if opset < 9 {
        return None; // has a batch axis and a leading input for its lengths
    }
    let states = node.inputs.len().checked_sub(usize::try_from(*scanned).ok()?)?;
    Some(node.inputs.split_at(states))
}

fn scan_axis(node: &Node, name: &str, i: usize) -> i64 {
    match node.attr(name) {
        Some(Attr::Ints(axes)) => axes.get(i).copied().unwrap_or(0),
        _ => 0,
    }
}

/// A value carried around a loop may change its shape.
fn unshaped(ty: &ValueType) -> ValueType {
    match ty {
        ValueType::Tensor { dtype, .. } => ValueType::Tensor { dtype: *dtype, shape: None },
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

/// Types of the outputs of operators that hold sub-graphs; nothing for others.
pub(super) fn output_types(site: &Site<'_>) -> Vec<Option<ValueType>> {
    let body = |name: &str| match site.node.attr(name) {
        Some(Attr::Graph(body)) => Some(&**body),
        _ => None,
    };
    let of = |g: &Graph| g.outputs().iter().map(|v| g[*v].ty.clone()).collect::<Vec<_>>();
    match site.node.op.as_str() {
        _ if !site.node.is_standard() => vec![],
        "If" => {
            let (Some(a), Some(b)) = (body("then_branch"), body("else_branch")) else {
                return vec![];
            };
            of(a).into_iter().zip(of(b)).map(|(a, b)| either(&a?, &b?)).collect()
        }
        "Loop" => {
            let Some(body) = body("body") else { return vec![] };
            let carried = site.node.inputs.len().saturating_sub(2);
            let types = of(body).into_iter().skip(1).enumerate();
            types
                .map(|(i, ty)| match i < carried {
                    true => ty.map(|t| unshaped(&t)),
                    false => ty.and_then(|t| with_axis(&t, 0, Dim::Unknown)),
                })
                .collect()
        }
        "Scan" => scan_outputs(site, body("body")).unwrap_or_default(),
        _ => vec![],
    }
}

fn scan_outputs(site: &Site<'_>, body: Option<&Graph>) -> Option<Vec<Option<ValueType>>> {
    let (states, scanned) = scan_inputs(site.node, site.opset)?;
    let body = body?;
    let first = states.len();
    let length = site.shape(first).and_then(|shape| {
        let at = axis(scan_axis(site.node, "scan_input_axes", 0), shape.len()).ok()?;
        shape.get(at).cloned()
    });
    let length = length.filter(|_| !scanned.is_empty()).unwrap_or(Dim::Unknown);
    let types = body.outputs().iter().enumerate().map(|(i, v)| {
        let ty = body[*v].ty.as_ref()?;
        match i.checked_sub(first) {
            None => Some(ty.clone()),
            Some(k) => with_axis(ty, scan_axis(site.node, "scan_output_axes", k), length.clone()),
        }
    });
    Some(types.collect())
}
