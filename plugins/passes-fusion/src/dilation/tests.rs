use super::*;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::rewrite::check::{check_doc_example_of, check_pass_same, check_pass_skip};
use onnxd_plugin_sdk::rewrite::{Pass, rule_on_facts};
use std::fmt::Write;

fn pass() -> Box<dyn Pass> {
    rule_on_facts("fuse-dilation", fuse_dilation)
}

#[test]
fn doc_example() {
    check_doc_example_of(include_str!("mod.rs"), pass().as_ref());
}

/// Rows and columns in blocks of 2 by 3, as TensorFlow's front-end writes them. `between` makes `a` of `u`, which the
/// convolution gives, and what is cropped is `crops` for rows and columns.
fn network(blocks: &str, between: &str, crops: [i64; 4]) -> String {
    let [top, bottom, left, right] = crops;
    let (rows, columns) = (10 - top - bottom, 9 - left - right);
    format!(
        "g (float[N,7,9,1] x) => (float[?,{rows},{columns},1] y)
         <float[1,1,2,3] w = {{1.0, -2.0, 3.0, 0.5, 2.0, -1.0}}, float[1] bias = {{0.5}}, float six = {{6.0}},
          float none = {{0.0}}, float[3,1] ramp = {{1.0, 2.0, 3.0}}, int64[8] pads = {{0, 2, 3, 0, 0, 3, 3, 0}},
          int64[6] parted = {{-1, 6, 2, 5, 3, 1}}, int64[4] samples = {{-1, 6, 5, 1}},
          int64[6] cells = {{{blocks}, -1, 5, 3, 1}}, int64[4] whole = {{-1, 10, 9, 1}},
          int64[8] crops = {{0, -{top}, -{left}, 0, 0, -{bottom}, -{right}, 0}}>
         {{
           p = Pad(x, pads)
           q = Reshape(p, parted)
           r = Transpose<perm = [2, 4, 0, 1, 3, 5]>(q)
           s = Reshape(r, samples)
           t = Transpose<perm = [0, 3, 1, 2]>(s)
           c = Conv(t, w)
           u = Transpose<perm = [0, 2, 3, 1]>(c)
           {between}
           v = Reshape(a, cells)
           d = Transpose<perm = [2, 3, 0, 4, 1, 5]>(v)
           e = Reshape(d, whole)
           y = Pad(e, crops)
         }}"
    )
}

/// The dilations of the only convolution, and how many sides it pads.
fn dilated(model: &Model) -> (Vec<i64>, usize) {
    let ops: Vec<&str> = model.graph.nodes().map(|(_, node)| node.op.as_str()).collect();
    assert!(!ops.contains(&"Reshape") && !ops.contains(&"Pad"), "{ops:?}");
    let conv = model.graph.nodes().find(|(_, node)| node.is("Conv")).expect("it stays").1;
    let pads = blocks::ints(conv, "pads").unwrap_or_default();
    let count = pads.iter().filter(|n| **n != 0).count();
    (blocks::ints(conv, "dilations").unwrap_or_default(), count)
}

fn fused(graph: &str) -> (Vec<i64>, usize) {
    dilated(&check_pass_same(pass().as_ref(), graph))
}

fn stays(reason: &str, graph: &str) {
    check_pass_skip(pass().as_ref(), reason, graph);
}

#[test]
fn blocks_become_dilations() {
    let plain = "a = Relu(u)";
    assert_eq!(fused(&network("2, 3", plain, [0, 1, 1, 2])), (vec![2, 3], 4));
    // What was padded is cropped again.
    assert_eq!(fused(&network("2, 3", plain, [2, 3, 3, 3])), (vec![2, 3], 0));
}

#[test]
fn what_computes_each_element_lies_between() {
    let activation = "b = Add(u, bias) a = Clip(b, none, six)";
    assert_eq!(fused(&network("2, 3", activation, [0; 4])), (vec![2, 3], 4));
    // One number for each column of blocks would be another one for each cell.
    stays("", &network("2, 3", "a = Mul(u, ramp)", [0; 4]));
    stays("", &network("2, 3", "a = Add(u, u)", [0; 4]));
}

#[test]
fn other_convolutions_of_blocks_stay() {
    let plain = network("2, 3", "a = Relu(u)", [0; 4]);
    let others = plain.replace("{2, 3, -1, 5, 3, 1}", "{3, 2, -1, 5, 3, 1}");
    stays(
        "",
        &others.replace("{-1, 10, 9, 1}", "{-1, 15, 6, 1}").replace("[?,10,9,1]", "[?,15,6,1]"),
    );
    let padded = plain.replace(
        "Conv(t, w)",
        "Conv<pads = [0, 0, 0, 0], strides = [1, 1], auto_pad = \"SAME_UPPER\">(t, w)",
    );
    stays("", &padded);
    // A channel of the result is cropped, which is none of what is padded.
    let w = "[2,1,2,3] w = {1.0, -2.0, 3.0, 0.5, 2.0, -1.0, 2.0, 1.0, 0.5, -3.0, 1.0, 2.0}";
    let cropped = plain
        .replace("[1,1,2,3] w = {1.0, -2.0, 3.0, 0.5, 2.0, -1.0}", w)
        .replace("-1, 5, 3, 1}", "-1, 5, 3, 2}")
        .replace("{-1, 10, 9, 1}", "{-1, 10, 9, 2}")
        .replace("0, -0, -0, 0}", "0, -0, -0, -1}");
    assert!(cropped.contains("-1}") && cropped.contains("9, 2}"));
    stays("what is padded and cropped is not known", &cropped);
}

/// A constant may differ for each sample, which cells are, too.
#[test]
fn constants_for_each_cell_stay() {
    let between = |dims: &str| {
        let graph = network("2, 3", "a = Mul(u, each)", [0; 4]).replace("float[N,7", "float[1,7");
        let each = format!("<float{dims} each = {{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}}, ");
        graph.replacen('<', &each, 1)
    };
    stays("", &between("[6,1,1,1]"));
}

/// Pads and crops that are computed differ by the convolution's own pads. `more` is added to what is cropped.
fn computed(more: i64) -> String {
    format!(
        "g (float[N,H,6,1] x, float[E] z) => (float[?,?,?,1] y)
         <float[1,1,2,3] w = {{1.0, -2.0, 3.0, 0.5, 2.0, -1.0}}, int64[1] none = {{0}}, int64[1] one = {{1}},
          int64[1] two = {{2}}, int64[1] three = {{3}}, int64[1] six = {{6}}, int64[1] open = {{-1}},
          int64[1] more = {{{more}}}, int64[2] square = {{2, 2}}, int64[2,1] zeros = {{0, 0}}>
         {{
           e = Shape(z) end = Add(two, e) pads0 = Concat<axis = 0>(two, end, three, three)
           pads1 = Reshape(pads0, square) pads2 = Transpose<perm = [1, 0]>(pads1)
           pads3 = Concat<axis = 1>(zeros, pads2, zeros) pads = Reshape(pads3, open) p = Pad(x, pads)
           sizes = Shape(p) n = Gather(sizes, none) f = Gather(sizes, three)
           rows = Gather(sizes, one) columns = Gather(sizes, two)
           m = Mul(n, six) h = Div(rows, two) k = Div(columns, three)
           parted = Concat<axis = 0>(n, h, two, k, three, f) q = Reshape(p, parted)
           r = Transpose<perm = [2, 4, 0, 1, 3, 5]>(q)
           samples = Concat<axis = 0>(m, h, k, f) s = Reshape(r, samples)
           t = Transpose<perm = [0, 3, 1, 2]>(s) c = Conv(t, w) u = Transpose<perm = [0, 2, 3, 1]>(c)
           left = Shape(u) h1 = Gather(left, one) k1 = Gather(left, two)
           cells = Concat<axis = 0>(two, three, n, h1, k1, one) v = Reshape(u, cells)
           d = Transpose<perm = [2, 3, 0, 4, 1, 5]>(v) h2 = Mul(h1, two) k2 = Mul(k1, three)
           whole = Concat<axis = 0>(n, h2, k2, one) o = Reshape(d, whole)
           far = Add(e, more) crops0 = Concat<axis = 0>(none, far, none, none)
           crops1 = Reshape(crops0, square) crops2 = Transpose<perm = [1, 0]>(crops1)
           crops3 = Concat<axis = 1>(zeros, crops2, zeros) crops4 = Reshape(crops3, open)
           crops = Neg(crops4) y = Pad(o, crops)
         }}"
    )
}

#[test]
fn pads_may_depend_on_sizes() {
    assert_eq!(fused(&computed(0)), (vec![2, 3], 4));
    // What is cropped beyond the pads of the end is padded less.
    assert_eq!(fused(&computed(2)), (vec![2, 3], 3));
    let other = computed(0).replace("far = Add(e, more)", "far = Mul(e, more)");
    stays("what is padded and cropped is not known", &other);
    let kept =
        computed(0).replace("pads2 = Transpose<perm = [1, 0]>", "pads2 = Transpose<perm = [0, 1]>");
    stays("what is padded and cropped is not known", &kept);
}

/// Each node reads the one before twice: to follow all ways would take for ever.
#[test]
fn pads_that_are_computed_in_many_ways() {
    let mut way = "e0 = Shape(z)".to_owned();
    for i in 0..64 {
        write!(way, " d{i} = Add(e{i}, e{i}) e{} = Sub(d{i}, e{i})", i + 1).unwrap();
    }
    let graph = computed(0).replace("e = Shape(z)", &format!("{way} e = Identity(e64)"));
    assert_eq!(fused(&graph), (vec![2, 3], 4));
}
