use super::settle;
use onnxd_plugin_sdk::ir::text::{parse_graph, print_graph};
use onnxd_plugin_sdk::ir::{DataType, ValueType};

fn settled(nodes: &str) -> String {
    let graph = format!(
        "g (float[1] x) => (float[a,b,c] y) <
           int8[2,1,3] w = {{1, 2, 3, 4, 5, 6}}, float[2] s = {{0.5, 2.0}}, int8[2] z = {{0, 0}},
           float one = {{0.5}}, int8 zero = {{1}}, int64[2] flat = {{2, 3}}, int64[2] back = {{3, 2}}
         > {{ {nodes} }}"
    );
    let mut graph = parse_graph(&graph).unwrap();
    let reshaped = graph.node_ids().into_iter().find(|id| graph[*id].is("Reshape"));
    if let Some(node) = reshaped {
        let (sizes, out) = graph[node].input(1).zip(graph[node].output(0)).unwrap();
        let sizes = graph.constant(sizes).unwrap().to_i64s().unwrap();
        graph[out].ty = Some(ValueType::tensor(DataType::Float, sizes));
    }
    settle(&mut graph);
    print_graph(&graph)
}

#[test]
fn scales_go_with_their_axis() {
    let text =
        settled("a = DequantizeLinear<axis = 0>(w, s, z) y = Transpose<perm = [2, 1, 0]>(a)");
    assert!(text.contains("int8[3,1,2] w_1 = {1, 4, 2, 5, 3, 6}"), "{text}");
    assert!(text.contains("y = DequantizeLinear<axis = 2>(w_1, s, z)"), "{text}");
    assert!(!text.contains("Transpose"), "{text}");
}

#[test]
fn sizes_change_where_the_axis_stays() {
    let kept = "a = DequantizeLinear<axis = 0>(w, s, z) b = Reshape(a, flat) y = Neg(b)";
    assert!(settled(kept).contains("DequantizeLinear<axis = 0>(w_1"), "{}", settled(kept));
    let lost = "a = DequantizeLinear<axis = 0>(w, s, z) b = Reshape(a, back) y = Neg(b)";
    assert!(settled(lost).contains("Reshape"), "{}", settled(lost));
    let one = "a = DequantizeLinear(w, one, zero) b = Reshape(a, back) y = Neg(b)";
    assert!(!settled(one).contains("Reshape"), "{}", settled(one));
}

#[test]
fn what_is_read_twice_stays() {
    let text = settled(
        "a = DequantizeLinear(w, one, zero) b = Transpose<perm = [2, 1, 0]>(a) c = Neg(a) y = Add(b, c)",
    );
    assert_eq!(text.matches("DequantizeLinear").count(), 2, "{text}");
}
