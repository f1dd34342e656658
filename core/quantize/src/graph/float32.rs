//! Models of `double` and `bfloat16` as models of `float32`, whose inputs and outputs keep their
//! types: `QuantizeLinear` takes no `double`, and ONNX Runtime has none of its kernels for `bfloat16`.

use crate::graph::subgraphs::captured_constants;
use crate::graph::weighted::{WeightedNode, is_weighted};
use onnxd_diagnostics::refuse;
use onnxd_ir::{
    Attr, DataType, Graph, Model, Node, NodeId, Origin, Reals, Tensor, ValueId, ValueType,
    VerifyLevel, infer, schema, verify,
};
use std::collections::{BTreeMap, BTreeSet};

/// Types that become `float32`.
const OTHERS: [DataType; 2] = [DataType::Bfloat16, DataType::Double];

/// Attributes that name an element type.
const TYPED: [&str; 5] = ["dtype", "output_datatype", "output_dtype", "softmax_precision", "to"];

/// Lets a model compute in `float32` that multiplies by constant weights of other types, and gives
/// these types.
///
/// # Errors
/// Why it cannot be; the model is then unchanged.
pub fn to_float32(model: &mut Model) -> Result<Vec<DataType>, String> {
    let mut types = BTreeSet::new();
    weights(&model.graph, &BTreeMap::new(), &mut types);
    if types.is_empty() {
        return Ok(Vec::new());
    }
    refuse!(!model.functions.is_empty() => "it has local functions");
    let known = verify(model, VerifyLevel::Full);
    let mut single = model.clone();
    // What contradicts itself is found below.
    let _ = infer(&mut single);
    check(&single, &single.graph)?;
    border(&mut single.graph)?;
    graph(&mut single.graph);
    let _ = infer(&mut single);
    remove_casts(&mut single.graph);
    let found = verify(&single, VerifyLevel::Full);
    match found.0.into_iter().find(|d| !known.0.contains(d)) {
        Some(new) => Err(new.into_finding().message),
        None => {
            *model = single;
            Ok(types.into_iter().collect())
        }
    }
}

/// Finds the other types that weighted operators compute in. `outer` are constants of the
/// graph around, by their ids there.
fn weights(g: &Graph, outer: &BTreeMap<ValueId, Tensor>, found: &mut BTreeSet<DataType>) {
    for (id, node) in g.nodes() {
        if node.subgraphs().next().is_some() {
            let constants = captured_constants(g, id, outer);
            node.subgraphs().for_each(|inner| weights(inner, &constants, found));
        }
        let w = node.input(WeightedNode::W).filter(|_| is_weighted(node));
        let w = w.and_then(|w| match g[w].origin() {
            Origin::Captured(from) => outer.get(&from),
            _ => g.constant(w),
        });
        found.extend(w.map(Tensor::dtype).filter(|dtype| is_other(*dtype)));
    }
}

fn dtype(graph: &Graph, v: ValueId) -> Option<DataType> {
    let data = graph.constant(v).or_else(|| graph[v].initializer()).map(Tensor::dtype);
    data.or_else(|| graph[v].dtype())
}

fn is_other(dtype: DataType) -> bool {
    OTHERS.contains(&dtype)
}

/// Whether everything has a form in `float32`, as far as the operators' table tells.
fn check(model: &Model, graph: &Graph) -> Result<(), String> {
    refuse!(graph.sparse.values().any(|sparse| is_other(sparse.values.dtype())) => "it has sparse initializers");
    for (_, node) in graph.nodes() {
        let domain = if node.is_standard() { "" } else { node.domain.as_str() };
        let version = if domain.is_empty() {
            model.opset()
        } else {
            model.opsets.get(domain).copied().unwrap_or(1)
        };
        refuse!(schema::find(domain, &node.op, version).is_none() => "`{}` is no operator that is known", node.op);
        node.subgraphs().try_for_each(|inner| check(model, inner))?;
    }
    Ok(())
}

/// Puts a `Cast` behind each input and in front of each output of another type.
fn border(graph: &mut Graph) -> Result<(), String> {
    let outputs = graph.outputs().to_vec();
    for v in graph.inputs().to_vec() {
        let name = graph[v].name.clone();
        let Some(dtype) = tensor_of(graph, v, "input")? else { continue };
        if !is_other(dtype) || graph.uses(v) == 0 {
            continue;
        }
        let single = graph.add_value(&format!("{name}_float32"), None);
        graph.replace_uses(v, single);
        cast(graph, v, single, DataType::Float);
    }
    let mut done = BTreeSet::new();
    for v in &outputs {
        let Some(dtype) = tensor_of(graph, *v, "output")? else { continue };
        if !is_other(dtype) || !done.insert(*v) {
            continue;
        }
        let name = format!("{}_float32", graph[*v].name);
        match graph[*v].origin() {
            Origin::Node(id, slot) => {
                let single = graph.add_value(&name, graph[*v].ty.clone());
                graph.replace_uses(*v, single);
                graph.set_output(id, slot, single);
                cast(graph, single, *v, dtype);
            }
            // A constant stays what it was for whoever looks at the output.
            Origin::None if graph.uses(*v) > 1 => {
                let data = graph[*v].initializer().cloned().ok_or("an output has no source")?;
                let copy = graph.add_initializer(&name, data);
                graph.replace_uses(*v, copy);
            }
            _ => {}
        }
    }
    graph.set_outputs(outputs);
    Ok(())
}

/// The element type of a tensor; `None` for what is none and has no elements of another type.
fn tensor_of(graph: &Graph, v: ValueId, what: &str) -> Result<Option<DataType>, String> {
    match &graph[v].ty {
        Some(ValueType::Tensor { dtype, .. }) => Ok(*dtype),
        Some(ty) if single_type(ty.clone()) != *ty => {
            Err(format!("its {what} `{}` is {ty}", graph[v].name))
        }
        _ => Ok(None),
    }
}

fn cast(graph: &mut Graph, from: ValueId, to: ValueId, dtype: DataType) -> NodeId {
    let number = Attr::Int(i64::from(dtype.number()));
    graph.add_node(Node::new("Cast", [from], [to]).with("to", number))
}

/// Makes the constants, attributes and types of a graph and its sub-graphs those of `float32`, but
/// for those of inputs and outputs.
fn graph(g: &mut Graph) {
    let ends: BTreeSet<ValueId> = g.inputs().iter().chain(g.outputs()).copied().collect();
    inside(g, &ends);
}

fn inside(g: &mut Graph, ends: &BTreeSet<ValueId>) {
    for v in g.value_ids().filter(|v| !ends.contains(v)) {
        g[v].ty = g[v].ty.take().map(single_type);
        if let Some(data) = g[v].initializer().filter(|data| is_other(data.dtype())) {
            let single = single_tensor(data);
            g.set_initializer(v, Some(single));
        }
    }
    let border = |g: &Graph, node: &Node| {
        let mut both = node.inputs.iter().chain(&node.outputs).flatten();
        node.is("Cast") && both.any(|v| ends.contains(v) && dtype(g, *v).is_some_and(is_other))
    };
    for id in g.node_ids() {
        if border(g, &g[id]) {
            continue;
        }
        if g[id].subgraphs().next().is_some() {
            g.edit_subgraphs(id, |inner| inside(inner, &BTreeSet::new()));
        }
        for (name, attr) in &mut g.node_mut(id).attrs {
            single_attr(name, attr);
        }
    }
}

fn single_attr(name: &str, attr: &mut Attr) {
    let other = |number: i64| OTHERS.iter().any(|o| i64::from(o.number()) == number);
    match attr {
        Attr::Int(number) if TYPED.contains(&name) && other(*number) => {
            *number = i64::from(DataType::Float.number());
        }
        Attr::Tensor(data) if is_other(data.dtype()) => *data = single_tensor(data),
        Attr::Tensors(all) => {
            let others = all.iter_mut().filter(|data| is_other(data.dtype()));
            others.for_each(|data| *data = single_tensor(data));
        }
        Attr::Type(ty) => **ty = single_type(ty.as_ref().clone()),
        Attr::Types(all) => all.iter_mut().for_each(|ty| *ty = single_type(ty.clone())),
        _ => {}
    }
}

fn single_type(ty: ValueType) -> ValueType {
    let single = |dtype: Option<DataType>| match dtype {
        Some(dtype) if is_other(dtype) => Some(DataType::Float),
        dtype => dtype,
    };
    match ty {
        ValueType::Tensor { dtype, shape } => ValueType::Tensor { dtype: single(dtype), shape },
        ValueType::Sparse { dtype, shape } => ValueType::Sparse { dtype: single(dtype), shape },
        ValueType::Sequence(of) => ValueType::Sequence(Box::new(single_type(*of))),
        ValueType::Optional(of) => ValueType::Optional(Box::new(single_type(*of))),
        ValueType::Map(key, of) => ValueType::Map(key, Box::new(single_type(*of))),
        opaque => opaque,
    }
}

/// Nothing finite becomes infinite, and nothing but zero becomes zero: limits of clamps, masks and
/// what keeps a divisor from zero stay what they are for.
fn single_tensor(data: &Tensor) -> Tensor {
    let near = |x: f64| {
        let least = f64::from(f32::MIN_POSITIVE);
        let finite = x.clamp(f64::from(f32::MIN), f64::from(f32::MAX));
        match x {
            _ if !x.is_finite() || x == 0.0 => x,
            _ if x.abs() < least => least.copysign(x),
            _ => finite,
        }
    };
    let single =
        data.to_reals().and_then(|reals: Reals| reals.map(near).to_tensor(DataType::Float));
    single.unwrap_or_else(|| data.clone())
}

/// Removes what cast between types that are one now.
fn remove_casts(g: &mut Graph) {
    for id in g.node_ids() {
        if g[id].subgraphs().next().is_some() {
            g.edit_subgraphs(id, remove_casts);
        }
        let node = &g[id];
        let to = matches!(node.attr("to"), Some(Attr::Int(1)));
        let Some((x, y)) = node.input(0).zip(node.output(0)).filter(|_| node.is("Cast") && to)
        else {
            continue;
        };
        if dtype(g, x) == Some(DataType::Float) && !g.is_output(y) {
            g.replace_uses(y, x);
            g.remove_node(id);
        }
    }
}
