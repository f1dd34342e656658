//! The graph of the written model as text for people: a line for each value that is given and for each node.
//!
//! ```text
//! input x: float[1,3,8,8]
//! weight conv.weight: float[8,3,3,3]
//! y: float[1,8,6,6] = Conv(x, conv.weight) kernel_shape = [3, 3]  # conv, Conv2d, net.py:12
//! output y: float[1,8,6,6]
//! ```

use onnxd_diagnostics::{Layer, shown};
use onnxd_ir::{Attr, Graph, Model, Node, Origin, ValueId, infer};
/// Name of the file.
pub(super) const LISTING: &str = "graph.txt";

/// Numbers of an attribute that are shown.
const ITEMS_MAX: usize = 16;

pub(super) fn listing(model: &Model) -> String {
    let mut typed = model.clone();
    // What contradicts itself is the check's to report.
    let _ = infer::infer(&mut typed);
    let mut out = String::new();
    graph(&typed.graph, 0, &mut out);
    out
}

fn graph(g: &Graph, depth: usize, out: &mut String) {
    let mut line = |text: String| {
        out.push_str(&"    ".repeat(depth));
        out.push_str(&text);
        out.push('\n');
    };
    g.inputs().iter().for_each(|v| line(format!("input {}", typed(g, *v))));
    let weights = g.value_ids().filter(|v| g[*v].origin() == Origin::None && g.uses(*v) > 0);
    weights.for_each(|v| line(format!("weight {}", typed(g, v))));
    let order = g.topological().unwrap_or_else(|_| g.node_ids());
    for node in order.into_iter().map(|id| &g[id]) {
        line(of_node(g, node));
        for (name, attr) in &node.attrs {
            if let Attr::Graph(inner) = attr {
                line(format!("  {}:", shown(name)));
                let mut text = String::new();
                graph(inner, 1, &mut text);
                text.lines().for_each(|text| line(text.to_owned()));
            }
        }
    }
    g.outputs().iter().for_each(|v| line(format!("output {}", typed(g, *v))));
}

fn of_node(g: &Graph, node: &Node) -> String {
    let outputs: Vec<String> = node.outputs.iter().flatten().map(|v| typed(g, *v)).collect();
    let input = |v: &Option<ValueId>| v.map_or_else(String::new, |v| shown(&g[v].name));
    let inputs: Vec<String> = node.inputs.iter().map(input).collect();
    let domain = if node.is_standard() { String::new() } else { format!("{}.", node.domain) };
    let op = format!("{domain}{}", node.op);
    let (op, outputs, inputs) = (shown(&op), outputs.join(", "), inputs.join(", "));
    let attrs = node.attrs.iter().filter(|(_, attr)| !matches!(attr, Attr::Graph(_)));
    let attrs = attrs.map(|(name, attr)| format!(" {} = {}", shown(name), value(attr)));
    let attrs: Vec<String> = attrs.collect();
    let layers: Vec<String> = node.layers.iter().map(scope).collect();
    let scope =
        if layers.is_empty() { String::new() } else { format!("  # {}", layers.join("; ")) };
    format!("{outputs} = {op}({inputs}){}{scope}", attrs.join(","))
}

fn typed(g: &Graph, v: ValueId) -> String {
    let ty = g[v].ty.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
    format!("{}: {}", shown(&g[v].name), shown(&ty))
}

fn scope(layer: &Layer) -> String {
    let parts = [&layer.name, &layer.kind, &layer.place];
    let parts: Vec<String> =
        parts.iter().filter(|part| !part.is_empty()).map(|part| shown(part)).collect();
    parts.join(", ")
}

fn value(attr: &Attr) -> String {
    fn list<T: ToString>(items: &[T]) -> String {
        let first: Vec<String> = items.iter().take(ITEMS_MAX).map(ToString::to_string).collect();
        let more = if items.len() > ITEMS_MAX { ", ..." } else { "" };
        format!("[{}{more}]", first.join(", "))
    }
    let text = |bytes: &[u8]| format!("\"{}\"", shown(&String::from_utf8_lossy(bytes)));
    match attr {
        Attr::Int(x) => x.to_string(),
        Attr::Float(x) => x.to_string(),
        Attr::Str(x) => text(x),
        Attr::Ints(x) => list(x),
        Attr::Floats(x) => list(x),
        Attr::Strs(x) => list(&x.iter().map(|x| text(x)).collect::<Vec<_>>()),
        Attr::Tensor(x) => format!("{}{:?}", x.dtype(), x.dims()),
        _ => "...".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::text;

    #[test]
    fn a_graph_is_a_line_for_each_node() {
        let graph = "g (float[2,4] x, bool c) => (float[2,3] y) <float[4,3] w> {
            h = Gemm<alpha = 0.5>(x, w)
            y = If<then_branch = t () => (p) { p = Relu(h) }, else_branch = e () => (q) { q = my.op<k = \"a\">(h) }>(c)
        }";
        let mut model = Model::new(text::parse_graph(graph).unwrap(), 8, 18);
        let first = model.graph.node_ids()[0];
        let layer = Layer { name: "fc".into(), kind: "Linear".into(), place: "net.py:3".into() };
        model.graph.node_mut(first).layers.push(layer);
        let text = listing(&model);
        for wanted in [
            "input x: float[2,4]\n",
            "weight w: float[4,3]\n",
            "h: float[2,3] = Gemm(x, w) alpha = 0.5  # fc, Linear, net.py:3\n",
            "y: float[2,3] = If(c)\n",
            "  then_branch:\n",
            "    p: float[2,3] = Relu(h)\n",
            "my.op(h) k = \"a\"\n",
            "output y: float[2,3]\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} of {text}");
        }
    }
}
