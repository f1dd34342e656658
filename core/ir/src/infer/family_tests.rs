//! One table per family: inputs and initializers, a node, the type of `y`.

use super::tests::{check, inferred};
use super::*;
use crate::text::parse_model;

#[test]
fn recurrent() {
    let x = "float[S,B,4] x, float[1,12,4] w, float[1,12,3] r";
    let two = "float[S,B,4] x, float[2,12,4] w, float[2,12,3] r";
    check(
        22,
        &[
            (x, "y = LSTM<hidden_size = 3>(x, w, r)", "float[S,1,B,3]"),
            (x, "a, b, y = LSTM<hidden_size = 3>(x, w, r)", "float[1,B,3]"),
            (two, "y = GRU<direction = \"bidirectional\">(x, w, r)", "float[S,2,B,3]"),
            (x, "y = RNN<layout = 1>(x, w, r)", "float[S,B,1,3]"),
            (x, "a, y = RNN<layout = 1>(x, w, r)", "float[S,1,3]"),
        ],
    );
}

#[test]
fn attention() {
    let four = "float[B,8,Q,64] q, float[B,2,K,64] k, float[B,2,K,32] v, float[B,2,P,64] pk, \
        float[B,2,P,32] pv";
    let three = "float[B,Q,512] q, float[B,K,128] k, float[B,K,64] v";
    let heads = "q_num_heads = 8, kv_num_heads = 2";
    check(
        24,
        &[
            (four, "y = Attention(q, k, v)", "float[B,8,Q,32]"),
            (four, "a, y = Attention(q, k, v, \"\", pk, pv)", "float[B,2,\"K+P\",64]"),
            (four, "a, b, y = Attention(q, k, v, \"\", pk, pv)", "float[B,2,\"K+P\",32]"),
            (four, "a, b, c, y = Attention(q, k, v)", "float[B,8,Q,K]"),
            (three, &format!("y = Attention<{heads}>(q, k, v)"), "float[B,Q,256]"),
            (three, &format!("a, y = Attention<{heads}>(q, k, v)"), "float[B,2,K,64]"),
            (four, "y = TensorScatter(pk, k)", "float[B,2,P,64]"),
        ],
    );
    check(
        28,
        &[
            (three, &format!("y, s = LinearAttention<{heads}>(q, k, v)"), "float[B,Q,256]"),
            (three, &format!("o, y = LinearAttention<{heads}>(q, k, v)"), "float[B,2,64,32]"),
            ("float[B,6,L] x, float[6,1,4] w", "o, y = CausalConvWithState(x, w)", "float[B,6,3]"),
            ("float[B,6] x, float[B,6] w", "y = SwiGLU(x, w)", "float[B,6]"),
        ],
    );
}

#[test]
fn einstein_sums() {
    let ab = "float[B,N,4] a, float[4,M] b";
    check(
        17,
        &[
            (ab, "y = Einsum<equation = \"bij, jk -> bik\">(a, b)", "float[B,N,M]"),
            (ab, "y = Einsum<equation = \"...j,jk\">(a, b)", "float[B,N,M]"),
            ("float[3,3] a", "y = Einsum<equation = \"ii\">(a)", "float"),
            ("float[7,3,3] a", "y = Einsum<equation = \"...ii->...i\">(a)", "float[7,3]"),
        ],
    );
}

#[test]
fn signals() {
    check(
        20,
        &[
            ("float[B,N,1] x", "y = DFT(x)", "float[B,N,2]"),
            ("float[B,10,1] x", "y = DFT<onesided = 1>(x)", "float[B,6,2]"),
            ("float[B,10,1] x | int64 n = {16}", "y = DFT<onesided = 1>(x, n)", "float[B,9,2]"),
            ("float[B,6,2] x", "y = DFT<onesided = 1, inverse = 1>(x)", "float[B,10,1]"),
            (
                "float[1,128,1] x | int64 s = {8}, int64 l = {16}", "y = STFT(x, s, \"\", l)",
                "float[1,15,9,2]",
            ),
            ("float x | int64 s = {8}", "y = HannWindow(s)", "float[8]"),
            (
                "float f | int64 m = {8}, int64 n = {16}, int64 r = {8192}",
                "y = MelWeightMatrix(m, n, r, f, f)", "float[9,8]",
            ),
        ],
    );
}

#[test]
fn images() {
    check(
        22,
        &[
            ("float[N,3,8,9] x, float[N,4,5,2] g", "y = GridSample(x, g)", "float[N,3,4,5]"),
            ("float[N,2,3] t | int64[4] s = {2,3,5,6}", "y = AffineGrid(t, s)", "float[2,5,6,2]"),
            ("float[N,2,3] t, int64[4] s", "y = AffineGrid(t, s)", "float[N,?,?,2]"),
            ("float[1,6,4] b, float[1,1,6] s", "y = NonMaxSuppression(b, s)", "int64[?,3]"),
            (
                "float[N,20,10] x | int64[2] s = {4,5}", "y = CenterCropPad<axes = [1,2]>(x, s)",
                "float[N,4,5]",
            ),
            (
                "float[N,15,L] x | int64[2] i = {5,5}, int64[2] b = {1,5}", "y = Col2Im(x, i, b)",
                "float[N,3,5,5]",
            ),
            (
                "float[N,15,L] x, int64[K] i, int64[K] b", "y = Col2Im<strides = [1,2]>(x, i, b)",
                "float[N,?,?,?]",
            ),
            (
                "float[N,2,5,6] x | int64[2] s = {10,10}",
                "y = Resize<keep_aspect_ratio_policy = \"not_larger\", axes = [2,3]> \
                 (x, \"\", \"\", s)",
                "float[N,2,8,10]",
            ),
            ("uint8[L] x", "y = ImageDecoder(x)", "uint8[?,?,3]"),
            (
                "float[1,1,2,2] x, int64[1,1,2,2] i",
                "y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i)", "float[1,1,4,4]",
            ),
            (
                "float[1,2,5,5] x, float[3,2,2,2] w, float[1,8,4,4] o", "y = DeformConv(x, w, o)",
                "float[1,3,4,4]",
            ),
        ],
    );
}

#[test]
fn losses_and_selections() {
    let x = "float[N,5,D] x, int64[N,D] t";
    check(
        22,
        &[
            (x, "y = SoftmaxCrossEntropyLoss(x, t)", "float"),
            (x, "y = SoftmaxCrossEntropyLoss<reduction = \"none\">(x, t)", "float[N,D]"),
            (x, "a, y = SoftmaxCrossEntropyLoss(x, t)", "float[N,5,D]"),
            (x, "y = NegativeLogLikelihoodLoss<reduction = \"none\">(x, t)", "float[N,D]"),
            (x, "y = Unique<axis = 1>(x)", "float[N,?,D]"),
            (x, "a, b, y = Unique<axis = 1>(x)", "int64[5]"),
            (x, "a, b, y = Unique(t)", "int64[\"D*N\"]"),
            (x, "y = Multinomial<sample_size = 3>(x)", "int32[N,3]"),
            (x, "y = Bernoulli<dtype = 7>(x)", "int64[N,5,D]"),
        ],
    );
}

#[test]
fn sequences_and_optionals() {
    let x = "float[N,6] a, float[M,6] b";
    let pair = "s = SequenceConstruct(a, b)";
    let cases = [
        (pair.to_owned() + " y = Identity(s)", "seq(float[?,6])"),
        (pair.to_owned() + " i = Shape(s2) s2 = SequenceAt(s, z) y = Relu(s2)", "float[?,6]"),
        (pair.to_owned() + " y = SequenceInsert(s, a)", "seq(float[?,6])"),
        (pair.to_owned() + " y = SequenceErase(s)", "seq(float[?,6])"),
        (pair.to_owned() + " y = SequenceLength(s)", "int64"),
        (pair.to_owned() + " y = ConcatFromSequence<axis = 0>(s)", "float[?,6]"),
        (pair.to_owned() + " y = ConcatFromSequence<axis = 0, new_axis = 1>(s)", "float[?,?,6]"),
        ("y = SequenceEmpty<dtype = 7>()".to_owned(), "seq(int64[])"),
        ("y = SplitToSequence<axis = 1>(a, two)".to_owned(), "seq(float[N,2])"),
        ("y = SplitToSequence<axis = 1, keepdims = 0>(a)".to_owned(), "seq(float[N])"),
        ("y = SplitToSequence<axis = 0>(a, two)".to_owned(), "seq(float[?,6])"),
        (
            pair.to_owned()
                + " y = SequenceMap<body = m (float[?,6] e) => (f) { f = Transpose(e) }>(s)",
            "seq(float[6,?])",
        ),
        ("o = Optional(a) y = OptionalGetElement(o)".to_owned(), "float[N,6]"),
        ("o = Optional(a) y = OptionalHasElement(o)".to_owned(), "bool"),
        ("y = Optional<type = seq(float[3])>()".to_owned(), "optional(seq(float[3]))"),
    ];
    let inputs = format!("{x}, int64 z | int64 two = {{2}}");
    for (nodes, expected) in &cases {
        check(22, &[(&inputs, nodes, expected)]);
    }
}

#[test]
fn strings() {
    check(
        21,
        &[
            ("string[N,1] a, string[3] b", "y = StringConcat(a, b)", "string[N,3]"),
            ("string[N] a", "y, n = StringSplit(a)", "string[N,?]"),
            ("string[N] a", "t, y = StringSplit(a)", "int64[N]"),
            ("string[N] a", "y = RegexFullMatch<pattern = \"x\">(a)", "bool[N]"),
            ("string[1,N] a", "y = StringNormalizer<stopwords = [\"x\"]>(a)", "string[1,?]"),
        ],
    );
}

#[test]
fn classical_learning() {
    let rows = [
        (
            "l, y = ai.onnx.ml.LinearClassifier<classlabels_ints=[0,1,2], coefficients=[1.0]>(x)",
            "float[N,3]",
        ),
        (
            "y, s = ai.onnx.ml.LinearClassifier<classlabels_strings=[\"a\",\"b\"], \
             coefficients=[1.0]>(x)",
            "string[N]",
        ),
        ("y = ai.onnx.ml.LinearRegressor<targets=2>(x)", "float[N,2]"),
        ("y = ai.onnx.ml.Normalizer(x)", "float[N,4]"),
        ("y = ai.onnx.ml.OneHotEncoder<cats_int64s=[1,2,3]>(i)", "float[N,3]"),
        ("y = ai.onnx.ml.LabelEncoder<keys_int64s=[1], values_strings=[\"a\"]>(i)", "string[N]"),
        ("y = ai.onnx.ml.FeatureVectorizer<inputdimensions=[4,4]>(x, x)", "float[N,8]"),
        ("y = ai.onnx.ml.ArrayFeatureExtractor(x, i)", "float[N,N]"),
        ("y = ai.onnx.ml.ZipMap<classlabels_int64s=[1]>(x)", "seq(map(int64, float))"),
    ];
    for (node, expected) in rows {
        let text = format!(
            "<ir_version: 9, opset_import: [\"\" : 21, \"ai.onnx.ml\" : 4]>
             g (float[N,4] x, int64[N] i) => (y) {{ {node} }}"
        );
        let mut model = parse_model(&text).unwrap();
        assert!(infer(&mut model).0.is_empty(), "{node}");
        let y = model.graph.value_named("y").unwrap();
        assert_eq!(model.graph[y].ty.as_ref().unwrap().to_string(), expected, "{node}");
    }
}

/// As exporters compute the sizes of an interpolation, in floating point.
#[test]
fn shapes_computed_in_floating_point() {
    let text = "g (float[H,W] x) => (y, z, w)
        <float by={32}, float half={0.5}, float third={0.3}, int64[1] first={0}, int64[1] last={1}>
        {
          s = Shape(x)
          h = Gather(s, first)
          hf = Cast<to = 1>(h)
          q = Div(hf, by)
          low = Floor(q)
          low_i = Cast<to = 7>(low)
          up = Ceil(q)
          up_i = Cast<to = 7>(up)
          sizes = Concat<axis = 0>(low_i, up_i)
          y = ConstantOfShape(sizes)
          v = Gather(s, last)
          vf = Cast<to = 1>(v)
          p = Mul(half, vf)
          pi = Cast<to = 7>(p)
          sum = Add(p, p)
          sum_i = Cast<to = 7>(sum)
          others = Concat<axis = 0>(pi, sum_i)
          z = ConstantOfShape(others)
          t = Mul(third, vf)
          ti = Cast<to = 7>(t)
          w = ConstantOfShape(ti)
        }";
    let (types, findings) = inferred(18, text);
    assert!(findings.is_empty(), "{findings:?}");
    let found = ["y", "z", "w"].map(|n| types[n].as_str());
    let rounded = "float[\"floor((H)/(32))\",\"floor((H+31)/(32))\"]";
    assert_eq!(found, [rounded, "float[\"floor((W)/(2))\",?]", "float[?]"]);
}

#[test]
fn shapes_computed_from_symbols() {
    let text = "g (float[N,C,H,W] x, int64[?] free) => (flat, back, up, m, n, low, same, e)
        <int64 zero={0}, int64 two={2}, int64 three={3}, int64[1] axis={0}, int64[1] minus={-1},
         int64[4] ones={1,1,1,1}, int64[4] wanted={-1,-1,7,-1}>
        {
          s = Shape(x)
          b, c, h, w = Split<axis = 0, num_outputs = 4>(s)
          hw = Mul(h, w)
          target = Concat<axis = 0>(b, minus, hw)
          flat = Reshape(x, target)
          back = Reshape(flat, s)
          double = Mul(hw, two)
          sizes = Concat<axis = 0>(double, c)
          up = ConstantOfShape(sizes)
          m = Add(up, up)
          half = Div(double, two)
          only = Concat<axis = 0>(half)
          n = ConstantOfShape(only)
          count = Squeeze(h)
          low = Range(zero, count, one)
          one = Constant<value_int = 1>()
          nz = NonZero(low)
          nz2 = Relu(nz)
          same = Add(nz, nz2)
          eq = Equal(wanted, none)
          none = Mul(ones, minus)
          es = Where(eq, ones, wanted)
          e = Expand(x7, es)
          x7 = Slice(x, zeros, sevens, last)
          zeros = Constant<value_ints = [0]>()
          sevens = Constant<value_ints = [1]>()
          last = Constant<value_ints = [2]>()
        }";
    let (types, findings) = inferred(18, text);
    assert!(findings.is_empty(), "{findings:?}");
    let found = ["flat", "back", "up", "n", "low", "same"].map(|n| types[n].as_str());
    assert_eq!(
        found,
        [
            "float[N,C,\"H*W\"]", "float[N,C,H,W]", "float[\"2*H*W\",C]", "float[\"H*W\"]",
            "int64[H]", "int64[1,?]"
        ]
    );
    assert_eq!(types["e"], "float[N,C,7,W]");
}

#[test]
fn functions_are_looked_at_where_they_are_applied() {
    let text = r#"<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
        g (float[N,4] x, float[N,6] z) => (y, u, t)
        { y = local.flat <keep = 0> (x) u = local.flat <keep = 1> (z) t = local.twice(x) }
        <domain: "local", opset_import: ["" : 17]> flat <keep> (v) => (w)
        { r = Relu(v) w = ReduceSum<keepdims: int = @keep>(r) }
        <domain: "local", opset_import: ["" : 17, "local" : 1]> twice (v) => (w)
        { a = local.flat <keep = 1> (v) w = Concat<axis = 1>(v, v) }"#;
    let mut model = parse_model(text).unwrap();
    let findings = infer(&mut model);
    assert!(findings.0.is_empty(), "{findings:?}");
    let ty =
        |g: &Graph, name: &str| g[g.value_named(name).unwrap()].ty.clone().unwrap().to_string();
    let found = ["y", "u", "t"].map(|name| ty(&model.graph, name));
    assert_eq!(found, ["float", "float[1,1]", "float[N,8]"]);
    assert_eq!(ty(&model.functions[0].graph, "r"), "float[N,?]");
    assert_eq!(ty(&model.functions[1].graph, "w"), "float[N,8]");
}

#[test]
fn what_a_loop_carries_may_change() {
    let text = "g (float[N,3] x, int64 m, bool c) => (grown, kept, all, counted)
        <bool yes = {1}, int64 seven = {7}>
        {
          grown, kept, all = Loop(m, c, x, x) <body = b (i, go, v, k) => (go, w, l, o) {
              w = Concat<axis = 0>(v, k) l = Relu(k) o = Relu(v) }>
          counted = Loop(seven, yes) <body = b (i, go) => (on, o) { on = Identity(go) o = Relu(x) }>
        }";
    let (types, findings) = inferred(17, text);
    assert!(findings.is_empty(), "{findings:?}");
    let found = ["grown", "kept", "all", "counted"].map(|n| types[n].as_str());
    assert_eq!(found, ["float[?,3]", "float[N,3]", "float[?,?,3]", "float[7,N,3]"]);
}

#[test]
fn branches_that_are_never_taken_do_not_count() {
    let text = "g (float[2,3] x, bool c) => (y, z)
        {
          s = Shape(x)
          three = Constant<value_ints = [2,1]>()
          eq = Equal(s, three)
          one = ReduceMin<keepdims = 0>(low)
          low = Cast<to = 7>(eq)
          cond = Cast<to = 9>(one)
          y = If(cond) <then_branch = t () => (a) { a = Squeeze<axes = [1]>(x) },
                        else_branch = e () => (b) { b = Identity(x) }>
          z = If(c) <then_branch = t () => (d) { d = Relu(x) },
                     else_branch = e () => (f) { f = Concat<axis = 0>(x, x) }>
        }";
    let (types, findings) = inferred(12, text);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!([&types["y"], &types["z"]], ["float[2,3]", "float[?,3]"]);
}

#[test]
fn a_scan_of_opset_8_goes_through_each_batch() {
    let text = "g (float[B,3] init, float[B,S,3] x) => (last, all)
        { last, all = Scan<num_scan_inputs = 1, body = b (s, e) => (s2, e2) {
            s2 = Add(s, e) e2 = Concat<axis = 0>(s, e) }>(\"\", init, x) }";
    let (types, findings) = inferred(8, text);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!([&types["last"], &types["all"]], ["float[B,3]", "float[B,S,6]"]);
}

#[test]
fn every_contradiction_is_reported_once() {
    let text = r#"<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
        g (float[2,3] x, float[4] b) => (y, z)
        <float[2,9] r>
        { r = Relu(x) a = Add(x, b) y = local.bad(x, b) z = local.bad(x, b) }
        <domain: "local", opset_import: ["" : 17]> bad (v, w) => (u)
        { u = MatMul(v, w) }"#;
    let findings = infer(&mut parse_model(text).unwrap());
    let found: Vec<String> = findings.0.iter().map(|d| d.message.clone()).collect();
    assert_eq!(
        found,
        [
            "`r` is declared as float[2,9], Relu gives float[2,3].",
            "Add: the shapes [2,3] and [4] do not broadcast. `x` is float[2,3], `b` is float[4].",
            "MatMul: [2,3] and [4] cannot be multiplied. `v` is float[2,3], `w` is float[4].",
        ]
    );
}
