use super::*;
use crate::text::{parse_graph, parse_model};

/// Types of all values after inference, by name, and the findings.
pub(super) fn inferred(opset: i64, text: &str) -> (HashMap<String, String>, Vec<String>) {
    let mut model = Model::new(parse_graph(text).unwrap(), 10, opset);
    let findings = infer(&mut model);
    let g = &model.graph;
    let types = g.value_ids().filter_map(|v| Some((g[v].name.clone(), g[v].ty.as_ref()?)));
    let types = types.map(|(name, ty)| (name, ty.to_string())).collect();
    (types, findings.0.iter().map(ToString::to_string).collect())
}

/// Each row: inputs and initializers, then a node; the type of its first output.
pub(super) fn check(opset: i64, rows: &[(&str, &str, &str)]) {
    for (inputs, node, expected) in rows {
        let (inputs, infos) = inputs.split_once('|').unwrap_or((inputs, ""));
        let text = format!("g ({inputs}) => (y) <{infos}> {{ {node} }}");
        let (types, findings) = inferred(opset, &text);
        assert_eq!(findings, Vec::<String>::new(), "{text}");
        let found = types.get("y").map_or("nothing", String::as_str);
        assert_eq!(found, *expected, "{text}");
    }
}

#[test]
fn convolution_and_pooling() {
    let x = "float[N,3,224,224] x, float[64,3,7,7] w";
    check(
        17,
        &[
            (x, "y = Conv(x, w)", "float[N,64,218,218]"),
            (x, "y = Conv<pads = [3,3,3,3], strides = [2,2]>(x, w)", "float[N,64,112,112]"),
            (x, "y = Conv<auto_pad = \"SAME_UPPER\", strides = [3,3]>(x, w)", "float[N,64,75,75]"),
            (x, "y = Conv<dilations = [2,3]>(x, w)", "float[N,64,212,206]"),
            (
                "float[1,4,H,9] x, float[8,2,3,3] w", "y = Conv<group = 2>(x, w)",
                "float[1,8,\"H-2\",7]",
            ),
            ("uint8[1,1,5,5] x, int8[2,1,3,3] w", "y = ConvInteger(x, w)", "int32[1,2,3,3]"),
            (
                "float[1,3,5,5] x, float[3,2,3,3] w",
                "y = ConvTranspose<strides=[2,2], output_padding=[1,1], pads=[1,1,1,1]>(x, w)",
                "float[1,2,10,10]",
            ),
            (
                "float[1,3,5,5] x, float[3,2,K,K] w",
                "y = ConvTranspose<strides=[2,2], auto_pad = \"SAME_UPPER\">(x, w)",
                "float[1,2,10,10]",
            ),
            (x, "y = MaxPool<kernel_shape = [3,3], strides = [2,2]>(x)", "float[N,3,111,111]"),
            (
                x,
                "y = MaxPool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>(x)",
                "float[N,3,112,112]",
            ),
            (x, "y = GlobalAveragePool(x)", "float[N,3,1,1]"),
        ],
    );
}

#[test]
fn products_and_elementwise() {
    check(
        17,
        &[
            ("float[N,4] a, float[5,4] b", "y = Gemm<transB = 1>(a, b)", "float[N,5]"),
            ("float[B,1,N,4] a, float[7,4,5] b", "y = MatMul(a, b)", "float[B,7,N,5]"),
            ("float[4] a, float[4] b", "y = MatMul(a, b)", "float"),
            ("float[4] a, float[2,4,5] b", "y = MatMul(a, b)", "float[2,5]"),
            ("uint8[2,3] a, int8[3,4] b", "y = MatMulInteger(a, b)", "int32[2,4]"),
            ("float[N,1,3] a, float[M,1] b", "y = Add(a, b)", "float[N,M,3]"),
            ("float[N,4] a, float[M,4] b", "y = Add(a, b)", "float[?,4]"),
            ("float[2] a, double[2] b", "y = Less(a, a)", "bool[2]"),
            ("bool[2,1] c, int64[3] a, int64 b", "y = Where(c, a, b)", "int64[2,3]"),
            ("float16[N] x", "y = Softmax(x)", "float16[N]"),
            ("float[] x", "y = Relu(x)", "float[]"),
            ("float[2,3] x", "y = QuantizeLinear(x, x)", "uint8[2,3]"),
            ("int8[2,3] x, float s", "y = DequantizeLinear(x, s)", "float[2,3]"),
            ("float[2,3] x, float s, int8 z", "y = QuantizeLinear(x, s, z)", "int8[2,3]"),
            ("float[2,3,4] x | int64[1] a = {-1}", "y = ReduceMean<axes = [1]>(x)", "float[2,1,4]"),
            ("float[2,3] x | int64[1] a = {-1}", "y = ReduceSum<keepdims = 0>(x, a)", "float[2]"),
            ("float[2,3] x", "y = ReduceMax<keepdims = 0>(x)", "float"),
            ("float[2,3] x", "y = ArgMax<axis = -1>(x)", "int64[2,1]"),
            ("float[2,3,4] x, float[4] s", "m, y = LayerNormalization(x, s)", "float[2,3,1]"),
        ],
    );
}

#[test]
fn layout() {
    let i64s = |values: &str| -> String {
        let n = values.split(',').count();
        format!("float[2,N,6] x | int64[{n}] s = {{{values}}}")
    };
    let texts = ["2,-1", "0,0,3,2", "-1,3", "1", "3,1,1"].map(i64s);
    let [flat, copy, split, ends, three] = texts.each_ref().map(String::as_str);
    check(
        17,
        &[
            (flat, "y = Reshape(x, s)", "float[2,\"6*N\"]"),
            (copy, "y = Reshape(x, s)", "float[2,N,3,2]"),
            ("float[N,3,4] x | int64[2] s = {-1,12}", "y = Reshape(x, s)", "float[N,12]"),
            ("float[2,3,4] x | int64[2] s = {-1,12}", "y = Reshape(x, s)", "float[2,12]"),
            ("float[] x, int64[3] s", "y = Reshape(x, s)", "float[?,?,?]"),
            (split, "y = Reshape(x, s)", "float[\"4*N\",3]"),
            (ends, "y = Transpose<perm = [2,0,1]>(x)", "float[6,2,N]"),
            (ends, "y = Flatten<axis = 3>(x)", "float[\"12*N\",1]"),
            (ends, "y = Concat<axis = -1>(x, x)", "float[2,N,12]"),
            (ends, "y = Unsqueeze(x, s)", "float[2,1,N,6]"),
            (ends, "a = Unsqueeze(x, s) y = Squeeze(a, s)", "float[2,N,6]"),
            ("float[2,N] x, int64[1] s", "y = Squeeze(x, s)", "float[?]"),
            ("float[2,N] x, int64[2] s", "y = Unsqueeze(x, s)", "float[?,?,?,?]"),
            (three, "y = Tile(x, s)", "float[6,N,6]"),
        ],
    );
    check(
        17,
        &[
            (
                "float[5,6] x | int64[1] a = {1}, int64[1] b = {-1}, int64[1] t = {2}",
                "y = Slice(x, a, b, a, t)",
                "float[5,2]",
            ),
            (
                "float[5,6] x | int64[1] a = {-1}, int64[1] b = {-9}, int64[1] z = {0}",
                "y = Slice(x, a, b, z, a)",
                "float[5,6]",
            ),
            (
                "float[N,6] x | int64[1] z = {0}, int64[1] e = {9223372036854775807}",
                "y = Slice(x, z, e, z)",
                "float[N,6]",
            ),
            (
                "float[5,6] x | int64[1] a = {-1}, int64[1] b = {2147483647}, int64[1] z = {0}",
                "y = Slice(x, a, b, z, a)",
                "float[?,6]",
            ),
            ("float[5,6] x, int64[2,3] i", "y = Gather<axis = 1>(x, i)", "float[5,2,3]"),
            ("float[5,6] x | int64[4] p = {0,1,0,2}", "y = Pad(x, p)", "float[5,9]"),
            ("float[5,7] x", "y, z = Split<axis = 1>(x)", "float[5,4]"),
            (
                "float[1,2,3,4] x | float[4] s = {1,1,2,2.5}", "y = Resize(x, \"\", s)",
                "float[1,2,6,10]",
            ),
            (
                "float[1,2,3,4] x | int64[4] s = {1,2,9,8}", "y = Resize(x, \"\", \"\", s)",
                "float[1,2,9,8]",
            ),
            ("float[1,8,3,4] x", "y = DepthToSpace<blocksize = 2>(x)", "float[1,2,6,8]"),
            ("float[3] x", "y = Cast<to = 11>(x)", "double[3]"),
            ("float[3] x | int64[2] s = {2,3}", "y = ConstantOfShape(s)", "float[2,3]"),
            ("float[3] x", "y = Constant<value_ints = [1,2]>()", "int64[2]"),
            ("float[4,9] x | int64[1] k = {3}", "v, y = TopK(x, k)", "int64[4,3]"),
        ],
    );
}

/// Before opset 22 the checker counts a window that runtimes leave out: what is declared stays.
#[test]
fn a_window_beyond_the_input_counts_by_opset() {
    let text = |declared: &str| {
        let node = "y = MaxPool<kernel_shape=[1], strides=[2], ceil_mode=1>(x)";
        format!("g (float[1,1,4] x) => ({declared} y) {{ {node} }}")
    };
    for (opset, declared, expected, found) in [
        (17, "", "float[1,1,?]", 0),
        (17, "float[1,1,3]", "float[1,1,3]", 0),
        (17, "float[1,1,2]", "float[1,1,2]", 0),
        (22, "", "float[1,1,2]", 0),
        (22, "float[1,1,3]", "float[1,1,2]", 1),
    ] {
        let (types, findings) = inferred(opset, &text(declared));
        assert_eq!((types["y"].as_str(), findings.len()), (expected, found), "{opset} {declared}");
    }
}

#[test]
fn computed_shapes_are_followed() {
    let text = "g (float[N,3,8,8] x) => (y, z, e)
        <int64 zero = {0}, int64[1] axis = {0}, int64[1] minus = {-1}, int64[1] two = {2}>
        {
          s = Shape(x)
          n = Gather(s, zero)
          n1 = Unsqueeze(n, axis)
          target = Concat<axis = 0>(n1, minus)
          y = Reshape(x, target)
          h = Slice(s, two, minus)
          h2 = Mul(h, two)
          c = Cast<to = 7>(h2)
          both = Concat<axis = 0>(n1, c)
          z = ConstantOfShape(both)
          e = Expand(z, both)
        }";
    let (types, findings) = inferred(17, text);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(
        [&types["y"], &types["z"], &types["e"]],
        ["float[N,192]", "float[N,16]", "float[N,16]"]
    );
}

#[test]
fn control_flow() {
    let text = "g (float[N,3] x, bool c, int64 m) => (y, last, all, st, sc)
        {
          y = If(c)<then_branch = t () => (a) { a = Relu(x) },
                    else_branch = e () => (b) {
                      k = Constant<value = float[3] {1, 2, 3}>()
                      b = Add(x, k) }>
          last, all = Loop<body = b (i, go, v) => (go, w, v2) {
              w = Identity(v) v2 = Cast<to = 6>(x) }>(m, c, x)
          st, sc = Scan<num_scan_inputs = 1, body = b (s, e) => (s2, e2) {
              s2 = Add(s, e) e2 = Exp(e) }>(x, all)
        }";
    let (types, findings) = inferred(17, text);
    assert!(findings.is_empty(), "{findings:?}");
    let found = ["y", "last", "all", "st", "sc"].map(|n| types[n].as_str());
    assert_eq!(found, ["float[N,3]", "float[N,3]", "int32[?,N,3]", "float[N,3]", "int32[?,N,3]"]);
}

#[test]
fn contradictions_name_both_shapes() {
    let cases = [
        (
            "g (float[2,3] x) => (float[2,4] y) { y = Relu(x) }",
            "N0511 input: `y` is declared as float[2,4], Relu gives float[2,3]. [layer Relu -> y",
        ),
        (
            "g (float[2,3] x) => (int64[2,3] y) { y = Relu(x) }",
            "N0502 input: `y` is declared as int64[2,3], Relu gives float[2,3].",
        ),
        (
            "g (float[2,3] x, float[4] b) => (y) { y = Add(x, b) }",
            "Add: the shapes [2,3] and [4] do not broadcast.",
        ),
        (
            "g (float[2,3] a, float[4,5] b) => (y) { y = MatMul(a, b) }",
            "MatMul: [2,3] and [4,5] cannot be multiplied.",
        ),
        (
            "g (float[1,3,9,9] x, float[8,4,3,3] w) => (y) { y = Conv(x, w) }",
            "Conv: the input [1,3,9,9] has not the channels of the weight [8,4,3,3] in 1 groups.",
        ),
        (
            "g (float[1,3,2,2] x) => (y) { y = MaxPool<kernel_shape = [3,3]>(x) }",
            "MaxPool: the kernel of 3 does not fit the padded input of 2.",
        ),
        (
            "g (float[2,3] x) => (y) <int64[1] s = {4}> { y = Reshape(x, s) }",
            "Reshape: [2,3] cannot become [4].",
        ),
        (
            "g (float[2,3] x) => (y) { y = Concat<axis = 2>(x, x) }",
            "Concat: axis 2 does not exist at rank 2.",
        ),
    ];
    for (text, expected) in cases {
        let (_, findings) = inferred(17, text);
        assert_eq!(findings.len(), 1, "{text}: {findings:?}");
        assert!(findings[0].contains(expected), "{text}: {findings:?}");
    }
}

#[test]
fn declared_symbols_of_outputs_stay() {
    let text =
        "g (float[2,3] x) => (float[rows,?] y) <float[inner,3] a> { a = Relu(x) y = Relu(a) }";
    let (types, findings) = inferred(17, text);
    assert!(findings.is_empty());
    assert_eq!([&types["a"], &types["y"]], ["float[2,3]", "float[rows,3]"]);
}

#[test]
fn a_declared_size_of_minus_one_is_unknown() {
    let text = "g (float[-1,4] x) => (float[-1,2] y) <int64[1] z = {0}, int64[1] two = {2}>
        { y = Slice(x, z, two, two_less) two_less = Sub(two, one) one = Div(two, two) }";
    let (types, findings) = inferred(17, text);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!([&types["x"], &types["y"]], ["float[?,4]", "float[?,2]"]);
}

#[test]
fn absurd_ranks_are_passed_over() {
    let dims = vec!["1"; 5000].join(",");
    let axes = (0..5000).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    for node in [
        format!("y = ReduceMean<axes = [{axes}]>(x)"),
        format!("y = Unsqueeze<axes = [{axes}]>(z)"),
        "y = Add(x, x)".to_owned(),
    ] {
        let (types, _) = inferred(11, &format!("g (float[{dims}] x, float z) => (y) {{ {node} }}"));
        assert_eq!(types["y"], "float[]", "{node}");
    }
}

#[test]
fn absurd_sizes_do_not_overflow() {
    let max = i64::MAX;
    let x = format!("float[{max},{max},{max}] x");
    let p = format!("pads = [{max},{max}], strides = [{max}], dilations = [{max}]");
    let nodes = [
        format!("y = Conv<{p}>(x, x)"),
        format!("y = ConvTranspose<{p}>(x, x)"),
        format!("y = MaxPool<kernel_shape = [{max}], {p}, ceil_mode = 1>(x)"),
        "y = Flatten(x)".to_owned(),
        "y = Concat<axis = 0>(x, x)".to_owned(),
        "y = Reshape(x, i)".to_owned(),
        "y = Tile(x, i)".to_owned(),
        "y = Pad(x, i)".to_owned(),
        "y = Slice(x, i, i, j, i)".to_owned(),
        "a = Mul(i, i) b = Add(i, i) c = Sub(j, i) d = Div(i, j) y = Concat<axis=0>(a, b, c, d)"
            .to_owned(),
        "y = Range(k, l, m)".to_owned(),
        "y = Split<axis = 0>(x)".to_owned(),
        format!("y = SpaceToDepth<blocksize = {max}>(x)"),
    ];
    let min = i64::MIN;
    for node in nodes {
        let infos = format!(
            "int64[3] i = {{{max},{max},{min}}}, int64[3] j = {{0,-1,2}}, \
             int64 k = {{{min}}}, int64 l = {{{max}}}, int64 m = {{-1}}"
        );
        inferred(17, &format!("g ({x}) => (y) <{infos}> {{ {node} }}"));
    }
}

/// Each row: inputs, then a node of ONNX Runtime; the type of its first output.
#[test]
fn operators_of_onnx_runtime() {
    let x = "uint8[N,5,5,3] x, float s, uint8 z, int8[4,3,3,3] w, int8 v";
    let last = "kernel_shape = [3,3], channels_last = 1";
    let pool = format!("QLinearAveragePool<{last}>(x, s, z, s, z)");
    let rows = [
        (x, "QLinearConv<channels_last = 1>(x, s, z, w, s, v, s, z)", "uint8[N,3,3,4]"),
        (x, pool.as_str(), "uint8[N,3,3,3]"),
        (x, "QLinearGlobalAveragePool<channels_last = 1>(x, s, z, s, z)", "uint8[N,1,1,3]"),
        (x, "QLinearConcat<axis = -1>(s, z, x, s, z, x, s, z)", "uint8[N,5,5,6]"),
        (x, "QLinearReduceMean<axes = [1,2], keepdims = 0>(x, s, z, s, z)", "uint8[N,3]"),
        ("int8[3,1] a, int8[2] b, float s", r#"QLinearMul(a, s, "", b, s, "", s)"#, "int8[3,2]"),
        (
            "uint8[2,3] a, int8[4,3] b, float s, uint8 z, int8 v",
            "QGemm<transB = 1>(a, s, z, b, s, v)", "float[2,4]",
        ),
        (
            "float[B,S,64] a, uint8[9,2,16] b, float[18] s",
            "MatMulNBits<K = 64, N = 9, block_size = 32>(a, b, s)", "float[B,S,9]",
        ),
        (
            "uint8[9,16] t, int64[B,S] i, float[9,1] s", "GatherBlockQuantized(t, i, s)",
            "float[B,S,32]",
        ),
        (
            "float[B,S,64] q, float[B,2,P,8] k, float[B,2,P,8] v, int32[B] n, int32 t",
            r#"GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, "", "", k, v, n, t)"#,
            "float[B,S,32]",
        ),
        (
            "float[B,S,64] q, int32[B] n, int32 t",
            r#"GroupQueryAttention<num_heads = 2, kv_num_heads = 9223372036854775807>(q, "", "", "", "", n, t)"#,
            "float[B,S,?]",
        ),
        ("float[5,2,3] a, float[2,5,4] b", "FusedMatMul<transBatchA = 1>(a, b)", "float[]"),
        ("float[3,2,5] a, float[2,5,4] b", "FusedMatMul<transBatchA = 1>(a, b)", "float[2,3,4]"),
        ("float[B,S,8] a, float[8,12] w", "Attention<num_heads = 2>(a, w)", "float[B,S,4]"),
        (
            "float[B,S,8] a, float[1,S,8] b, float[8] c", "SkipLayerNormalization(a, b, c)",
            "float[B,S,8]",
        ),
        ("int16[2,3] a, int16[3,4] b", "MatMulInteger16(a, b)", "int32[2,4]"),
        ("float[2] a, float s", "QuantizeLinear(a, s)", "uint8[2]"),
    ];
    for (inputs, node, expected) in rows {
        let text = format!(
            r#"<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
            g ({inputs}) => (y) {{ y = com.microsoft.{node} }}"#
        );
        let mut model = parse_model(&text).unwrap();
        let findings = infer(&mut model);
        let ty = model.graph[model.graph.value_named("y").unwrap()].ty.as_ref();
        let found = ty.map(ToString::to_string).unwrap_or_default();
        assert_eq!(found, expected, "{node} {findings:?}");
        assert_eq!(findings.0.is_empty(), expected != "float[]", "{node}");
    }
}

#[test]
fn functions_hide_operators_and_foreign_domains_are_left_alone() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17, "local" : 1, "com.microsoft" : 1]>
        g (float[2] x) => (y) { a = local.Relu(x) b = com.microsoft.Unheard(x) y = Add(a, b) }
        <domain: "local", opset_import: ["" : 17]> Relu (v) => (u) { u = Neg(v) }"#;
    let mut model = parse_model(text).unwrap();
    assert!(infer(&mut model).0.is_empty());
    let g = &model.graph;
    let ty = |name: &str| g[g.value_named(name).unwrap()].ty.as_ref().map(ToString::to_string);
    assert_eq!(
        [ty("a"), ty("b"), ty("y")],
        [Some("float[2]".into()), None, Some("float[]".into())]
    );
}

#[test]
fn every_operator_has_a_rule_and_every_rule_an_operator() {
    for (domain, op) in rules().keys().chain(type_rules().keys()) {
        assert!(!schema::history(domain, op).is_empty(), "{op}");
    }
    let rows: usize = FAMILIES.iter().map(|(_, _, family)| family.len()).sum();
    assert_eq!(rules().len(), rows, "an operator has one rule");
    let without: Vec<&str> =
        ["", ML, microsoft::DOMAIN, "ai.onnx.preview", "ai.onnx.preview.training"]
            .into_iter()
            .flat_map(|domain| schema::operators(domain).map(move |op| (domain, op)))
            .filter(|key| !rules().contains_key(key) && !type_rules().contains_key(key))
            .map(|(_, op)| op)
            .collect();
    // What Gradient gives depends on the graph around it.
    let mut without = without;
    without.sort_unstable();
    assert_eq!(without, ["Gradient"]);
}
