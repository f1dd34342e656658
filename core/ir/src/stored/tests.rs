use super::readers::Readers;
use super::{TWICE_BYTES_MAX, settle, settle_stored};
use crate::text::{parse_graph, print_graph};
use crate::{DataType, Graph, Tensor, ValueType};

/// The nodes, where `w` are integers, and `v` is a float matrix of 16 bits that may not be there twice.
fn graph(nodes: &str) -> Graph {
    let text = format!(
        "g (float[1] x, int64[5] ids) => (float[a,b,c] y) <
           int8[2,1,3] w = {{1, 2, 3, 4, 5, 6}}, float[2] s = {{0.5, 2.0}}, int8[2] z = {{0, 0}},
           float one = {{0.5}}, float two = {{0.25}}, int8 zero = {{1}}, int64[2] flat = {{2, 3}},
           int64[2] back = {{3, 2}}, int64[1] at = {{1}}, int64[1] end = {{2}}, int64[1] first = {{0}},
           float16[64,64] v, int8[128,64] large
         > {{ {nodes} }}"
    );
    let mut graph = parse_graph(&text).unwrap();
    if let Some(v) = graph.value_named("v") {
        let large = Tensor::from_vec(vec![64, 64], (0..4096i64).collect::<Vec<_>>());
        graph.unmark_input(v);
        graph.set_initializer(v, Some(large.cast(DataType::Float16).unwrap().held()));
    }
    if let Some(large) = graph.value_named("large") {
        graph.unmark_input(large);
        graph.set_initializer(large, Some(Tensor::from_vec(vec![128, 64], vec![1i8; 128 * 64])));
    }
    const { assert!(64 * 64 * 2 > TWICE_BYTES_MAX) };
    for id in graph.node_ids() {
        let Some(out) = graph[id].output(0) else { continue };
        let dims = match graph[id].op.as_str() {
            "Reshape" => graph.constant(graph[id].input(1).unwrap()).unwrap().to_i64s().unwrap(),
            "Cast" => vec![64, 64],
            "Gather" => vec![5, 64],
            "Transpose" if nodes.contains("Gather") => vec![64, 5],
            _ => continue,
        };
        graph[out].ty = Some(ValueType::tensor(DataType::Float, dims));
    }
    graph
}

fn settled(nodes: &str) -> String {
    let mut graph = graph(nodes);
    settle_stored(&mut graph, &mut || true);
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
fn what_is_small_may_be_there_twice() {
    let text = settled(
        "a = DequantizeLinear(w, one, zero) b = Transpose<perm = [2, 1, 0]>(a) c = Neg(a) y = Add(b, c)",
    );
    assert_eq!(text.matches("DequantizeLinear").count(), 2, "{text}");
}

#[test]
fn what_is_large_is_there_once() {
    let text = settled("a = Cast<to = 1>(v) b = Transpose(a) c = Neg(a) y = Add(b, c)");
    assert!(text.contains("Transpose"), "{text}");
    // Those that do the same become one.
    let text = settled("a = Cast<to = 1>(v) b = Transpose(a) c = Transpose(a) y = MatMul(b, c)");
    assert!(!text.contains("Transpose"), "{text}");
    assert_eq!(text.matches("Cast").count(), 1, "{text}");
}

#[test]
fn casts_come_behind_what_is_moved() {
    let text = settled("a = Cast<to = 1>(v) b = Transpose(a) y = Neg(b)");
    assert!(text.contains("b = Cast<to = 1>(v_1)"), "{text}");
    // One to fewer bits is computed, which takes less room.
    let text = settled("d = Cast<to = 11>(w) e = Cast<to = 3>(s) y = Transpose(e)");
    assert!(text.contains("Transpose"), "{text}");
}

#[test]
fn parts_take_their_scales_along() {
    let text =
        settled("a = DequantizeLinear<axis = 0>(w, s, z) b = Slice(a, at, end, first) y = Neg(b)");
    assert!(text.contains("int8[1,1,3] w_1 = {4, 5, 6}"), "{text}");
    assert!(text.contains("float[1] s_1 = {2.0}"), "{text}");
}

#[test]
fn joined_parts_keep_their_scales() {
    let text = settled(
        "a = DequantizeLinear(w, one, zero) b = DequantizeLinear(w, two, zero)
         c = Concat<axis = 0>(a, b) y = Neg(c)",
    );
    assert!(text.contains("float[4] one_1 = {0.5, 0.5, 0.25, 0.25}"), "{text}");
    assert!(text.contains("DequantizeLinear<axis = 0>(w_1"), "{text}");
    let text = settled(
        "a = DequantizeLinear<axis = 0>(w, s, z) b = DequantizeLinear<axis = 0>(w, s, z)
         c = Concat<axis = 2>(a, b) y = Neg(c)",
    );
    assert!(text.contains("DequantizeLinear<axis = 0>(w_1, s, z)"), "{text}");
}

#[test]
fn only_what_is_looked_up_becomes_real() {
    let text = settled("a = Cast<to = 1>(v) b = Gather(a, ids) y = Neg(b)");
    assert!(text.contains("Gather(v, ids)"), "{text}");
    assert!(text.contains("b = Cast<to = 1>(b_stored)"), "{text}");
}

#[test]
fn rows_are_rearranged_before_they_become_real() {
    let rows = "a = DequantizeLinear(large, one, zero) b = Gather(a, ids)";
    let text = settled(&format!("{rows} c = Transpose(b) y = Neg(c)"));
    assert!(text.contains("c = DequantizeLinear(c_stored, one, zero)"), "{text}");
    assert!(text.contains("c_stored = Transpose(b_stored)"), "{text}");
    let text = settled(&format!("{rows} c = Transpose(b) y = MatMul(c, b)"));
    assert!(text.contains("c = Transpose(b)"), "{text}");
}

#[test]
fn nothing_moves_that_may_not() {
    let mut graph = graph("a = Cast<to = 1>(v) b = Transpose(a) y = Neg(b)");
    settle_stored(&mut graph, &mut || false);
    assert!(print_graph(&graph).contains("Transpose"));
}

#[test]
fn repeated_joints_and_overlapping_parts_are_bounded() {
    let mut joints = "c0 = DequantizeLinear(large, one, zero) ".to_owned();
    for k in 1..30 {
        joints += &format!("c{k} = Concat<axis = 0>(c{0}, c{0}) ", k - 1);
    }
    let mut parts = "a = DequantizeLinear(large, one, zero) ".to_owned();
    for k in 0..100 {
        parts += &format!("p{k} = Slice(a, first, end, first) ");
    }
    for nodes in [joints + "y = Neg(c29)", parts + "y = Neg(p99)"] {
        let mut graph = graph(&nodes);
        let bytes = |graph: &Graph| -> usize {
            graph.value_ids().filter_map(|v| graph[v].initializer()).map(Tensor::byte_len).sum()
        };
        let before = bytes(&graph);
        settle_stored(&mut graph, &mut || true);
        assert!(bytes(&graph) <= 3 * before + TWICE_BYTES_MAX, "{} of {before}", bytes(&graph));
    }
}

#[test]
fn one_scale_in_a_vector_stays_as_it_is() {
    let nodes =
        "a = DequantizeLinear<axis = 0>(w, at_scale, z1) y = Transpose<perm = [2, 1, 0]>(a)";
    let text = nodes.replace("at_scale", "single").replace(", z1", "");
    let mut graph = parse_graph(&format!(
        "g () => (float[a,b,c] y) <int8[2,1,3] w = {{1, 2, 3, 4, 5, 6}}, float[1] single = {{0.5}}> {{ {text} }}"
    ))
    .unwrap();
    settle_stored(&mut graph, &mut || true);
    assert!(print_graph(&graph).contains("Transpose"), "{}", print_graph(&graph));
}

/// Readers are looked at a few times, not once for each other one.
#[test]
fn work_grows_with_the_readers_of_a_value() {
    let looks = |count: usize, node: &dyn Fn(usize) -> String, end: &str| {
        let nodes: String = (0..count).map(|i| format!("y{i} = {} ", node(i))).collect();
        let mut graph = graph(&format!("b = Cast<to = 1>(v) {nodes} {end} y = Neg(y0)"));
        for id in graph.node_ids() {
            let Some(out) = graph[id].output(0) else { continue };
            graph[out].ty = Some(ValueType::tensor(DataType::Float, vec![64, 64]));
        }
        let mut readers = Readers::default();
        settle(&mut graph, &mut readers, &mut || true);
        readers.looks
    };
    let grows = |node: &dyn Fn(usize) -> String, end: &str| {
        let (few, many) = (looks(50, node, end), looks(500, node, end));
        assert!(few > 0 && many < 12 * few, "{few} and {many} for {}", node(0));
    };
    // Readers that are different, that are the same, and that are the same but for one.
    grows(&|i| format!("Gather<axis = {}, tag = {i}>(b, at)", i % 2), "");
    grows(&|_| "Transpose<perm = [1, 0]>(b)".to_owned(), "");
    grows(&|_| "Transpose<perm = [1, 0]>(b)".to_owned(), "other = Neg(b)");
}
