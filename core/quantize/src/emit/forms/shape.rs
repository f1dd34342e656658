//! Operators that move elements and do not change them: where input and output have the same
//! scale and zero point they move the integers. And those that join several tensors.

use super::FoldContext;
use super::{Float, UnfoldContext};
use super::{Folds, Unfolds};
use crate::graph::quantized::{MICROSOFT, QuantizedValue, Why, floats, name};
use crate::plan::propagation::LAYOUT;
use crate::range::{Scale, integers};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, Node, Tensor, ValueId, ValueType, schema};

/// What moves integers as well, besides the layout operators.
const CHOICES: &[&str] = &["MaxPool", "ReduceMax", "ReduceMin", "ReverseSequence"];

pub(crate) const FOLDS: Folds = &[
    (&["ArgMax", "ArgMin"], found),
    (&["Concat"], concat),
    (&["Pad"], pad),
    (&["Resize"], resize),
    (&["Where"], choice),
    (CHOICES, through),
    (LAYOUT, through),
];

pub(crate) const UNFOLDS: Unfolds = &[
    (&["ArgMax", "ArgMin"], found_back),
    (&["Concat"], joined_back),
    (&["Pad"], pad_back),
    (&["QLinearConcat"], concat_back),
    (&["QLinearWhere"], choice_back),
    (&["Resize"], through_back),
    (CHOICES, through_back),
    (LAYOUT, through_back),
];

/// How many outputs hold elements of the first input.
fn moving(node: &Node) -> usize {
    if node.op == "Split" { node.outputs.len() } else { 1 }
}

/// Demands that this version of the operator takes integers as its first input.
fn takes(site: &FoldContext, x: &QuantizedValue) -> Result<(), Why> {
    let schema = schema::find("", &site.node.op, site.opset);
    let types = schema.and_then(|s| s.types_of(s.input(0)?));
    match types.is_some_and(|types| types.allows(&ValueType::unranked(x.dtype))) {
        true => Ok(()),
        false => Err(format!("{} of opset {} takes no {}", site.node.op, site.opset, x.dtype)),
    }
}

/// The integers of the first input and output, which have the same scale and zero point.
pub(crate) fn moved(site: &FoldContext) -> Result<(QuantizedValue, QuantizedValue), Why> {
    let (x, y) = (site.input(0)?, site.output(0)?);
    same(site, &x, &y)?;
    Ok((x, y))
}

fn same(site: &FoldContext, x: &QuantizedValue, y: &QuantizedValue) -> Result<(), Why> {
    if x.same(y, site.graph) {
        return Ok(());
    }
    let (x, y) = (name(site.graph, x.q), name(site.graph, y.q));
    Err(format!("{x} and {y} differ in scale, zero point or type"))
}

/// The node itself, on integers.
fn through(site: &mut FoldContext) -> Result<Node, Why> {
    let x = site.input(0)?;
    takes(site, &x)?;
    let mut node = site.node.clone();
    for i in 0..moving(&node) {
        let y = site.output(i)?;
        same(site, &x, &y)?;
        node.outputs[i] = Some(y.q);
    }
    node.inputs[0] = Some(x.q);
    Ok(node)
}

fn through_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let x = site.quantized_value(0)?;
    let mut inputs = site.node.inputs.clone();
    inputs[0] = Some(site.real_of(x.q, x.scale, x.zero, None));
    let (op, count) = (site.node.op.clone(), moving(&site.node));
    site.moved(&op, inputs, &x, count)
}

/// Finds the same places among integers, which are in the order of what they stand for.
fn found(site: &mut FoldContext) -> Result<Node, Why> {
    let x = site.input(0)?;
    takes(site, &x)?;
    let mut node = site.node.clone();
    node.inputs[0] = Some(x.q);
    Ok(node)
}

fn found_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let x = site.quantized_value(0)?;
    let x = site.real_of(x.q, x.scale, x.zero, None);
    let op = site.node.op.clone();
    Ok(site.plain(&op, vec![Some(x)]))
}

fn resize(site: &mut FoldContext) -> Result<Node, Why> {
    let text = |name: &str, default: &str| match site.node.attr(name) {
        Some(Attr::Str(s)) => String::from_utf8_lossy(s).into_owned(),
        _ => default.to_owned(),
    };
    refuse!(text("mode", "nearest") != "nearest" => "it computes new values between the integers");
    refuse!(text("coordinate_transformation_mode", "") == "tf_crop_and_resize" =>
        "it fills in values from outside");
    through(site)
}

/// What is filled in becomes an integer like the rest.
fn pad(site: &mut FoldContext) -> Result<Node, Why> {
    let (x, _) = moved(site)?;
    let constant = match site.node.attr("mode") {
        Some(Attr::Str(mode)) => mode.as_ref() == b"constant",
        _ => true,
    };
    let mut node = through(site)?;
    if !constant {
        // Nothing is filled in: a number that is given all the same would be of another type.
        if let Some(fill) = node.inputs.get_mut(2) {
            *fill = None;
        }
        while node.inputs.last() == Some(&None) {
            node.inputs.pop();
        }
        return Ok(node);
    }
    let fill = match site.node.input(2) {
        Some(v) => floats(site.graph, v)?.first().copied().unwrap_or(0.0),
        None => 0.0,
    };
    let (scale, zero_point) = (f64::from(x.scale_value(site.graph)?), x.zero_point(site.graph)?);
    let fill = Scale { dtype: x.dtype, scale, zero_point }.quantize(fill);
    refuse!(site.opset < 11 => "Pad takes integers from opset 11 on");
    let fill = integers(x.dtype, &[], &[fill]).ok_or("its type is not packed")?;
    let out = node.output(0).map_or(String::new(), |v| site.graph[v].name.clone());
    let fill = site.shared(&format!("{out}_pad"), fill);
    node.inputs.resize(node.inputs.len().max(3), None);
    node.inputs[2] = Some(fill);
    Ok(node)
}

fn pad_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let x = site.quantized_value(0)?;
    let (step, zero) = (x.scale_value(site.graph)?, x.zero_point(site.graph)?);
    let fill = match site.node.input(2) {
        Some(v) => site.graph.constant(v).and_then(Tensor::to_i64s),
        None => Some(vec![0]),
    };
    let fill = fill.and_then(|n| n.first().copied()).ok_or("what it fills in is not constant")?;
    let mut inputs = site.node.inputs.clone();
    inputs.resize(inputs.len().max(3), None);
    let name = format!("{}_pad_float", site.out());
    let fill = Tensor::scalar((fill - zero) as f32 * step);
    inputs[2] = Some(site.graph.add_initializer(&name, fill));
    inputs[0] = Some(site.real_of(x.q, x.scale, x.zero, None));
    site.moved("Pad", inputs, &x, 1)
}

fn concat(site: &mut FoldContext) -> Result<Node, Why> {
    let y = site.output(0)?;
    let count = site.node.inputs.len();
    let parts: Vec<QuantizedValue> = (0..count).map(|i| site.input(i)).collect::<Result<_, _>>()?;
    site.alike(&[&[y], &parts[..]].concat())?;
    if parts.iter().all(|x| x.same(&y, site.graph)) {
        let inputs = parts.iter().map(|x| Some(x.q)).collect();
        return Ok(site.made(("", "Concat"), inputs, y.q, &[]));
    }
    let mut inputs: Vec<Option<ValueId>> = site.pair(&y).to_vec();
    inputs.extend(parts.iter().flat_map(|x| site.triple(x)));
    Ok(site.made((MICROSOFT, "QLinearConcat"), inputs, y.q, &[]))
}

fn concat_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let places = (2..site.node.inputs.len()).step_by(3);
    let parts = places.map(|i| Ok(Some(site.real([i, i + 1, i + 2], None)?)));
    let parts = parts.collect::<Result<Vec<Option<ValueId>>, Why>>()?;
    site.float("Concat", parts, &[], [0, 1])
}

/// Integers that were put one behind the other have one scale.
fn joined_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let count = site.node.inputs.len();
    let parts: Vec<QuantizedValue> =
        (0..count).map(|i| site.quantized_value(i)).collect::<Result<_, _>>()?;
    refuse!(parts.iter().any(|x| !x.same(&parts[0], site.graph)) => "its parts differ in scale");
    let real = |x: &QuantizedValue| Some(site.real_of(x.q, x.scale, x.zero, None));
    let inputs = parts.iter().map(real).collect();
    site.moved("Concat", inputs, &parts[0], 1)
}

fn choice(site: &mut FoldContext) -> Result<Node, Why> {
    let (a, b, y) = (site.input(1)?, site.input(2)?, site.output(0)?);
    site.alike(&[a, b, y])?;
    let mut inputs = vec![site.node.input(0)];
    inputs.extend([site.triple(&a), site.triple(&b)].concat());
    inputs.extend(site.pair(&y));
    Ok(site.made((MICROSOFT, "QLinearWhere"), inputs, y.q, &[]))
}

fn choice_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let (a, b) = (site.real([1, 2, 3], None)?, site.real([4, 5, 6], None)?);
    let inputs = vec![site.node.input(0), Some(a), Some(b)];
    site.float("Where", inputs, &[], [7, 8])
}
