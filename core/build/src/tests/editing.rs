use super::{builder, float};
use crate::{GraphBuilder, Operand, Result};
use onnxd_diagnostics::Layer;
use onnxd_ir::text::{parse_graph, print_graph};
use onnxd_ir::{DataType, Dim, Graph, Opsets, Tensor, ValueId, ValueType, schema};

fn parsed(graph: &str) -> Graph {
    parse_graph(graph).unwrap()
}

fn opsets(opset: i64) -> Opsets {
    Opsets::from([(String::new(), opset)])
}

#[test]
fn a_graph_is_edited_in_place() {
    let mut graph = parsed("g (float[2] x) => (float[2] y) { [act] y = Relu(x) }");
    let (old, y) = (graph.node_ids()[0], graph.outputs()[0]);
    GraphBuilder::edit(&mut graph, &opsets(18), |b| -> Result<()> {
        let x = b.var(b.graph().inputs()[0]);
        let max = b.max([Operand::from(x), 0.0.into()])?;
        b.replace(old, &[Some(max)])?;
        Ok(())
    })
    .unwrap();
    assert_eq!(graph.node_count(), 1);
    let node = &graph[graph.producer(y).unwrap()];
    assert_eq!((node.op.as_str(), node.name.as_str()), ("Max", "act"));
    let b = GraphBuilder::new(Graph::new("g"), Opsets::new());
    assert_eq!(b.opset(), 0);
}

#[test]
fn a_value_keeps_its_element_type() {
    let mut graph = parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }");
    let old = graph.node_ids()[0];
    let found = GraphBuilder::edit(&mut graph, &opsets(18), |b| {
        let x = b.var(b.graph().inputs()[0]);
        b.replace(old, &[Some(b.cast(x, DataType::Int32)?)])
    });
    assert!(found.unwrap_err().message.contains("`y` is declared as float, not int32"));
    assert!(print_graph(&graph).contains("y = Relu(x)"));
}

#[test]
fn what_is_read_elsewhere_is_passed_on() {
    let mut graph =
        parsed("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z, m = Dropout(x) }");
    let ids = graph.node_ids();
    GraphBuilder::edit(&mut graph, &opsets(9), |b| {
        let x = b.var(b.graph().inputs()[0]);
        b.replace(ids[1], &[Some(x)]).map(|_| ())
    })
    .unwrap();
    assert!(print_graph(&graph).contains("z = Identity(x)"), "{}", print_graph(&graph));
}

/// Names of sizes that only inference understands must not stay in values that were there before.
#[test]
fn types_of_existing_values_are_for_readers() {
    let mut graph = parsed("g (float[?,3] x) => (float[?,3] y) { a = Relu(x) y = Neg(a) }");
    let (relu, a) = (graph.node_ids()[0], graph.value_named("a").unwrap());
    GraphBuilder::edit(&mut graph, &opsets(18), |b| {
        let inner = b.detach(a)?;
        b.settle(b.abs(inner)?, a)?;
        let x = b.var(b.graph().inputs()[0]);
        let twice = b.detach(a)?;
        b.settle(x, a)?;
        b.neg(twice).map(|_| ())
    })
    .unwrap();
    assert_eq!(graph[relu].op, "Relu");
    assert_eq!(graph[a].ty, Some(ValueType::tensor(DataType::Float, [Dim::Unknown, 3.into()])));
    for v in graph.value_ids() {
        let text = graph[v].ty.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
    }
}

#[test]
fn attributes_and_inputs_change_places_with_the_version() {
    let old = "g (float[2,3,4] x) => (float[4] y, float[4,5,6] p, float[2,3,4] c) {
        y = Squeeze<axes = [0, 1]>(x)
        p = Pad<pads = [1, 1, 1, 1, 1, 1], value = 2.0>(x)
        c = Clip<max = 0.5>(x)
    }";
    let mut graph = parsed(old);
    let restated = |graph: &mut Graph, from, to| {
        GraphBuilder::edit(graph, &opsets(to), |b| {
            let all = b.graph().node_ids();
            for id in all {
                let op = b.graph()[id].op.clone();
                b.in_layer(Layer::new(&op, &op), |b| {
                    b.restate(id, schema::find("", &op, from).unwrap())
                })?;
            }
            Ok(())
        })
    };
    restated(&mut graph, 10, 13).unwrap();
    let new = print_graph(&graph);
    for part in [
        "Squeeze(x, Squeeze_axes)", "Pad(x, Pad_pads, Pad_constant_value)",
        "Clip(x, \"\", Clip_max)",
    ] {
        assert!(new.contains(part), "{part} in {new}");
    }
    restated(&mut graph, 13, 10).unwrap();
    let back = print_graph(&graph);
    for line in old.lines().filter(|line| line.contains(">(x)")) {
        assert!(back.contains(line.trim()), "{line} in {back}");
    }
    let mut computed = parsed("g (float[1,4] x, int64[1] a) => (float[4] y) { y = Squeeze(x, a) }");
    let found: Result<()> = restated(&mut computed, 13, 11);
    assert!(
        found.unwrap_err().message.contains("`axes` is an attribute at opset 11, `a` is computed")
    );
}

#[test]
fn subgraphs_see_constants_around_them() {
    let mut graph = parsed(
        "g (float[2] x, bool c) => (float[2] y) {
            k = Constant<value_ints = [7, 8]>()
            y = If(c) <then_branch = t () => (float[2] p) { p = Identity(x) i = Identity(k) },
                       else_branch = e () => (float[2] q) { q = Abs(x) }>
        }",
    );
    let last = *graph.node_ids().last().unwrap();
    let mut seen = vec![];
    GraphBuilder::edit(&mut graph, &opsets(13), |b| {
        b.in_subgraphs(last, |b| {
            let found = b.graph().value_named("i").map(|v| b.var(v));
            seen.push(found.and_then(|v| b.ints_of(v)));
            let out = b.graph().outputs()[0];
            let inner = b.detach(out).unwrap();
            b.settle(b.neg(inner).unwrap(), out).unwrap();
        });
    });
    assert_eq!(seen, [Some(vec![7, 8]), None]);
    let text = print_graph(&graph);
    assert_eq!(text.matches("Neg").count(), 2, "{text}");
    assert!(onnxd_ir::verify::verify_structure(&graph).0.is_empty(), "{text}");
}

#[test]
fn numbers_need_a_type() {
    let b = GraphBuilder::new(Graph::new("g"), opsets(13));
    let x = b.input("x", ValueType::Tensor { dtype: None, shape: None });
    let found = b.mul(x, 0.5).unwrap_err();
    assert!(found.message.contains("the element type of `x` is not known"), "{found}");
    assert!(b.mul(x, Tensor::scalar(0.5f32)).is_ok());
}

#[test]
fn contradictions_may_be_left_to_others() {
    let b = GraphBuilder::new(Graph::new("g"), opsets(13));
    let (x, y) = (b.input("x", float([3])), b.input("y", float([4])));
    assert_eq!(b.add(x, y).unwrap_err().code, "N0215");
    let b = b.lenient();
    assert!(b.add(x, y).is_ok());
    assert_eq!(b.graph().node_count(), 1);
}

#[test]
fn what_stands_in_has_names_and_layers_of_the_node() {
    let mut graph =
        parsed("g (float[2] x) => (float[2] y, float[2] z) { [fc] y = Relu(x) z = Abs(x) }");
    let ids = graph.node_ids();
    graph.node_mut(ids[0]).layers = Layer::new("a", "Scale").into();
    GraphBuilder::edit(&mut graph, &opsets(18), |b| {
        for id in &ids {
            b.stand_in(*id, |b, node| {
                let x = node.input(0).unwrap();
                let scaled =
                    b.named("scaled", b.mul(x, b.parameter("scale", Tensor::scalar(2f32)))?);
                Ok([b.named("last", b.neg(scaled)?)])
            })?;
        }
        Ok::<_, onnxd_diagnostics::Diagnostic>(())
    })
    .unwrap();
    let text = print_graph(&graph);
    for line in [
        "[fc_scaled] y_scaled = Mul(x, y_scale)", "[fc] y = Neg(y_scaled)",
        "  z_scaled = Mul(x, z_scale)", "  z = Neg(z_scaled)",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let layers = graph.nodes().map(|(_, node)| node.layers.len());
    assert_eq!(layers.collect::<Vec<_>>(), [1, 1, 0, 0]);
}

#[test]
fn what_cannot_stand_in_leaves_no_trace() {
    let before = parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }");
    let mut graph = before.clone();
    let id = graph.node_ids()[0];
    GraphBuilder::edit(&mut graph, &opsets(18), |b| {
        let found = b.stand_in(id, |b, node| {
            let x = b.var(node.input(0).unwrap());
            let sum = b.add(b.mul(x, 2.0)?, Tensor::vector(vec![1f32, 2.0]))?;
            Ok([b.add(sum, Tensor::vector(vec![1f32, 2.0, 3.0]))?])
        });
        assert_eq!(found.unwrap_err().code, "N0215");
        // A constant that went is made again.
        b.stand_in(id, |b, node| Ok([b.mul(b.var(node.input(0).unwrap()), 2.0)?])).unwrap();
    });
    let text = print_graph(&graph);
    assert_eq!(text.matches(" = {").count(), 1, "{text}");
    assert_eq!(graph.node_count(), 1, "{text}");
}

#[test]
fn outputs_and_attributes_are_taken_over() {
    let mut graph = parsed(
        "g (float[1,3,8] x) => (float[1,3,8] y, float[1,1,3,4] c) {
            y, \"\", c = LSTM<hidden_size = 4>(x, w, r)
        }",
    );
    let id = graph.node_ids()[0];
    let opsets = Opsets::from([(String::new(), 18), ("com.microsoft".to_owned(), 1)]);
    GraphBuilder::edit(&mut graph, &opsets, |b| {
        b.stand_in(id, |b, node| {
            let [x, w, r] = [0, 1, 2].map(|slot| b.var(node.input(slot).unwrap()));
            let lstm = b.op("com.microsoft", "DynamicQuantizeLSTM", [x, w, r]);
            let lstm = lstm.attrs(node.attrs.iter().cloned()).set("input_forget", 1);
            let zero = b.parameter("zero", Tensor::vector(vec![1u8]));
            let lstm = lstm.set("W_scale", x).set("W_zero_point", zero);
            lstm.set("R_scale", x).set("R_zero_point", zero).outputs_of(node)
        })
        .unwrap();
    });
    let text = print_graph(&graph);
    let inputs = "(x, w, r, \"\", \"\", \"\", \"\", \"\", x, y_zero, x, y_zero)";
    let line = format!(
        "y, \"\", c = com.microsoft.DynamicQuantizeLSTM<hidden_size = 4, input_forget = 1>{inputs}"
    );
    assert!(text.contains(&line), "{text}");
}

#[test]
fn nodes_are_named_like_their_outputs() {
    let b = GraphBuilder::new(Graph::new("g"), opsets(13)).with_node_names();
    let x = b.input("x", float([3]));
    let y = b.in_layer(Layer::new("a", "Act"), |b| {
        let first = b.named("act", b.abs(x).unwrap());
        b.named("act", b.neg(first).unwrap())
    });
    b.output(y, "y").unwrap();
    let text = print_graph(&b.finish());
    assert!(
        text.contains("[a_act] a_act = Abs(x)") && text.contains("[y] y = Neg(a_act)"),
        "{text}"
    );
}

#[test]
fn a_name_that_fits_stays() {
    let b = builder(13);
    let x = b.input("x", float([3]));
    b.in_layer(Layer::new("a", "Act"), |b| {
        for name in ["a_abs", "a_abs_1"] {
            let v = b.abs(x).unwrap();
            assert_eq!(b.name_of(b.named("abs", v)), name);
        }
        let v = b.neg(x).unwrap();
        assert_eq!(b.name_of(b.named("ne", v)), "a_ne");
    });
}

#[test]
fn types_can_be_left_to_readers() {
    let mut graph = parsed("g (float[3] x) => (float[3] y) { y = Relu(x) }");
    let id = graph.node_ids()[0];
    let b = GraphBuilder::new(graph, opsets(13)).untyped();
    b.stand_in(id, |b, node| {
        let twice = b.mul(node.input(0).unwrap(), 2.0)?;
        assert_eq!(b.dims_of(twice), Some(vec![3]));
        Ok([b.neg(twice)?])
    })
    .unwrap();
    graph = b.finish();
    let read = |v: &ValueId| graph.uses(*v) > 0 || graph.producer(*v).is_some();
    let typed = graph.value_ids().filter(read).filter(|v| graph[*v].ty.is_some());
    let names: Vec<&str> = typed.map(|v| graph[v].name.as_str()).collect();
    assert_eq!(names, ["x", "y", "y_constant"]);
}

#[test]
fn graphs_without_casts_are_added_as_they_are_told() {
    let b = GraphBuilder::new(Graph::new("g"), opsets(13));
    let (x, y) = (b.input("x", float([3])), b.input("y", ValueType::tensor(DataType::Int8, [4])));
    assert!(b.and(x, y).is_err());
    let b = b.unchecked();
    let before = b.graph().node_count();
    let (both, sum) = (b.and(x, y).unwrap(), b.add(x, y).unwrap());
    assert_eq!([both, sum].map(|v| b.type_of(v)), [None, None]);
    assert_eq!(b.graph().node_count(), before + 2);
}

#[test]
fn values_are_given_by_their_ids_and_outputs_by_their_roles() {
    let mut graph = parsed("g (float[3] x) => (float[3] y) { y = Relu(x) }");
    let x = graph.inputs()[0];
    GraphBuilder::edit(&mut graph, &opsets(13), |b| {
        b.in_layer(Layer::new("a", "Act"), |b| {
            let call =
                b.dynamic_quantize_linear(x).roles(["quantized", "scale"]).called("quantize");
            let [q, scale, _] = call.outputs()?;
            b.dequantize_linear(q, scale).one()
        })
    })
    .unwrap();
    let text = print_graph(&graph);
    let first =
        "[quantize] a_quantized, a_scale, a_dynamic_quantize_linear = DynamicQuantizeLinear(x)";
    assert!(text.contains(first) && text.contains("Linear(a_quantized, a_scale)"), "{text}");
}

#[test]
fn an_operator_is_applied_again() {
    let mut graph =
        parsed("g (float[4] x, float[2,2] z) => (float[4] y) { [soft] y = Softmax<axis = -1>(x) }");
    let (id, z) = (graph.node_ids()[0], graph.inputs()[1]);
    graph.node_mut(id).doc = "old".into();
    let node = graph[id].clone();
    GraphBuilder::edit(&mut graph, &opsets(13), |b| {
        b.in_layer(Layer::new("a", "Act"), |b| {
            assert_eq!(b.under("b", GraphBuilder::prefix), "b");
            let again = b.under("b", |b| b.again(&node, [z]).role("again").one()).unwrap();
            assert_eq!((b.name_of(again).as_str(), b.prefix().as_str()), ("b_again", "a"));
        });
    });
    let (_, again) = graph.nodes().last().unwrap();
    assert_eq!((again.doc.as_str(), again.layers.len()), ("old", 1));
    let text = print_graph(&graph);
    assert!(text.contains("[soft] b_again = Softmax<axis = -1>(z)"), "{text}");
}
