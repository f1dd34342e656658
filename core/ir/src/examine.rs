//! Everything that can be said against a model without running it: what commands, imports and the check of a written
//! model all ask, so that none finds less than another.

use crate::{Dim, Graph, Model, ValueType, VerifyLevel, infer, verify};
use onnxd_diagnostics::{Code, Diagnostics};

/// What [`verify()`] finds in `model` and, at [`VerifyLevel::Full`], what [`infer()`] does, which also fills in types.
pub fn examine(model: &mut Model, level: VerifyLevel) -> Diagnostics {
    let mut found = verify(model, level);
    if level == VerifyLevel::Full {
        // A wrong type of a value may be found both ways.
        let named: Vec<_> = found.0.iter().map(|d| d.layer.clone()).collect();
        let types = Code::OnnxInvalid.as_str();
        let inferred = infer(model).0.into_iter();
        found.0.extend(inferred.filter(|d| d.code != types || !named.contains(&d.layer)));
    }
    found
}

/// Parts `found` into what no runtime can run, and declared shapes that are not the computed ones.
#[must_use]
pub fn by_gravity(found: Diagnostics) -> (Diagnostics, Diagnostics) {
    let declared = Code::ShapeDeclared.as_str();
    let (lenient, grave) = found.0.into_iter().partition(|d| d.code == declared);
    (Diagnostics(grave), Diagnostics(lenient))
}

/// Gives declared shapes that are not the computed ones up for these, as runtimes do; says which.
pub fn settle_shapes(model: &mut Model) -> Diagnostics {
    let mut inferred = model.clone();
    let (_, lenient) = by_gravity(infer(&mut inferred));
    if !lenient.0.is_empty() {
        settle_graph(&mut model.graph, &inferred.graph);
        for (function, inferred) in model.functions.iter_mut().zip(&inferred.functions) {
            settle_graph(&mut function.graph, &inferred.graph);
        }
    }
    lenient
}

fn settle_graph(graph: &mut Graph, inferred: &Graph) {
    for v in graph.value_ids() {
        if let (Some(declared), Some(found)) = (&graph[v].ty, &inferred[v].ty)
            && contradict(declared, found)
        {
            graph[v].ty = Some(found.clone());
        }
    }
    for id in graph.node_ids() {
        let inner = graph.node_mut(id).attrs.iter_mut().flat_map(|(_, a)| a.graphs_mut());
        inner.zip(inferred[id].subgraphs()).for_each(|(g, inferred)| settle_graph(g, inferred));
    }
}

/// Whether no value has both types, for its shape.
fn contradict(declared: &ValueType, found: &ValueType) -> bool {
    use ValueType::{Optional, Sequence, Tensor};
    match (declared, found) {
        (Tensor { shape: Some(a), .. }, Tensor { shape: Some(b), .. }) => {
            let differ = |(a, b): (&Dim, &Dim)| match (a, b) {
                (Dim::Known(a @ 0..), Dim::Known(b)) => a != b,
                _ => false,
            };
            a.len() != b.len() || a.iter().zip(b).any(differ)
        }
        (Sequence(a), Sequence(b)) | (Optional(a), Optional(b)) => contradict(a, b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_model;

    const WRONG: &str = r#"<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, float[4] z, bool c) => (float[9] y) <float[3] a, float[5] b>
        {
            a = Relu(z)
            s = Add(x, a)
            y = If(c) <then_branch = t () => (float[4] p) { b = Neg(s) p = Exp(b) },
                else_branch = e () => (float[7] q) { q = Abs(s) }>
        }"#;

    #[test]
    fn computed_shapes_take_the_place_of_declared_ones() {
        let mut model = parse_model(WRONG).unwrap();
        let (grave, lenient) = by_gravity(examine(&mut model.clone(), VerifyLevel::Full));
        assert!(grave.0.is_empty(), "{grave}");
        assert!(lenient.0.len() >= 3, "{lenient}");
        assert!(lenient.0.iter().all(|d| d.code == "N0511" && d.layer.is_some()), "{lenient}");
        assert_eq!(settle_shapes(&mut model), lenient);
        assert!(settle_shapes(&mut model).0.is_empty());
        let y = model.graph.outputs()[0];
        assert_eq!(model.graph[y].ty.as_ref().unwrap().to_string(), "float[4]");
        assert!(examine(&mut model, VerifyLevel::Full).0.is_empty());
    }

    #[test]
    fn what_no_runtime_runs_is_grave() {
        for (body, code) in [
            ("g (float[4] x, float[3] z) => (float[4] y) { y = Add(x, z) }", "N0215"),
            ("g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }", "N0215"),
            ("g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis = 5>(x) }", "N0215"),
            ("g (float[2] x) => (int64[2] y) { y = Relu(x) }", "N0502"),
            ("g (float[2] x) => () { y = Relu(x) }", "N0502"),
        ] {
            let text = format!(r#"<ir_version: 8, opset_import: ["" : 17]> {body}"#);
            let (grave, _) =
                by_gravity(examine(&mut parse_model(&text).unwrap(), VerifyLevel::Full));
            assert!(grave.0.iter().any(|d| d.code == code), "{body}: {grave}");
        }
    }
}
