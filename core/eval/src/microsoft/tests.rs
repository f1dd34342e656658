//! Small cases worked out by hand.

use crate::testing::{assert_near, reals, run, try_all, try_run};
use bytes::Bytes;
use onnxd_ir::{Attr, DataType, Tensor};

fn apply(op: &str, attrs: &[(&str, Attr)], inputs: &[&Tensor]) -> Tensor {
    run(&format!("com.microsoft.{op}"), 1, attrs, inputs)
}

fn integers(x: &Tensor) -> Vec<i64> {
    x.to_i64s().expect("a tensor of integers")
}

fn scale(value: f32) -> Tensor {
    Tensor::scalar(value)
}

#[test]
fn sums_and_products_round_once() {
    let a = Tensor::from_vec([2, 1], vec![10u8, 200]);
    let b = Tensor::vector(vec![4u8, 255]);
    let (za, zb, zc) = (Tensor::scalar(10u8), Tensor::scalar(5u8), Tensor::scalar(3u8));
    let (half, whole, two) = (scale(0.5), scale(1.0), scale(2.0));
    let inputs = [&a, &half, &za, &b, &whole, &zb, &two, &zc];
    // (0 | 95) + (-1 | 250), halved, plus 3: 2.5, 128, 50, 175.5; ties go to even.
    assert_eq!(integers(&apply("QLinearAdd", &[], &inputs)), [2, 128, 50, 176]);
    // 0 or 95 * (-1 | 250) / 2 + 3.
    assert_eq!(integers(&apply("QLinearMul", &[], &inputs)), [3, 3, 0, 255]);
    // Without zero points.
    let [a, b] = [-3i8, 100].map(|v| Tensor::vector(vec![v]));
    let none =
        [Some(a), Some(whole.clone()), None, Some(b), Some(whole.clone()), None, Some(whole)];
    let y = try_all("com.microsoft.QLinearAdd", 1, &[], &none, 1).unwrap();
    assert_eq!(integers(&y[0]), [97]);
}

#[test]
fn operands_must_have_eight_bits() {
    let x = Tensor::vector(vec![1i32]);
    let one = scale(1.0);
    let zero = Tensor::scalar(0i32);
    for op in ["QLinearSigmoid", "QLinearLeakyRelu"] {
        let op = format!("com.microsoft.{op}");
        assert!(try_run(&op, 1, &[], &[&x, &one, &zero, &one, &zero]).is_err());
    }
}

#[test]
fn tables() {
    let x = Tensor::vector(vec![-4i8, 0, 5]);
    let (s, z) = (scale(0.5), Tensor::scalar(0i8));
    let alpha = [("alpha", Attr::Float(0.25))];
    // -2 * 0.25 and 2.5, in steps of 0.25, plus 1.
    let y = apply("QLinearLeakyRelu", &alpha, &[&x, &s, &z, &scale(0.25), &Tensor::scalar(1i8)]);
    assert_eq!(integers(&y), [-1, 1, 11]);
    let y =
        apply("QLinearSigmoid", &[], &[&x, &s, &z, &scale(1.0 / 256.0), &Tensor::scalar(-128i8)]);
    // 256 / (1 + e^2) = 30.5, 128, 256 / (1 + e^-2.5) = 236.6.
    assert_eq!(integers(&y), [31 - 128, 0, 237 - 128]);
}

#[test]
fn softmax_in_integers() {
    let x = Tensor::from_vec([2, 2], vec![7u8, 7, 0, 255]);
    let to = (scale(1.0 / 256.0), Tensor::scalar(0u8));
    let attrs = [("opset", Attr::Int(13))];
    let y = apply("QLinearSoftmax", &attrs, &[&x, &scale(0.1), &Tensor::scalar(0u8), &to.0, &to.1]);
    assert_eq!(integers(&y), [128, 128, 0, 255]);
    let attrs = [("opset", Attr::Int(12)), ("axis", Attr::Int(0))];
    let x = Tensor::from_vec([2, 2], vec![9u8; 4]);
    let y = apply("QLinearSoftmax", &attrs, &[&x, &scale(0.1), &Tensor::scalar(0u8), &to.0, &to.1]);
    assert_eq!(integers(&y), [64; 4]);
}

#[test]
fn parts_take_the_scale_of_the_result() {
    let (a, b) = (Tensor::vector(vec![2u8, 4]), Tensor::vector(vec![10u8]));
    let (one, two, z) = (scale(1.0), scale(2.0), Tensor::scalar(0u8));
    let axis = [("axis", Attr::Int(0))];
    let y =
        apply("QLinearConcat", &axis, &[&two, &z, &a, &one, &z, &b, &two, &Tensor::scalar(4u8)]);
    assert_eq!(integers(&y), [1, 2, 6]);
    let condition = Tensor::from_vec_as(DataType::Bool, [2], vec![1u8, 0]);
    let y = apply("QLinearWhere", &[], &[&condition, &a, &one, &z, &b, &two, &z, &two, &z]);
    assert_eq!(integers(&y), [1, 10]);
}

#[test]
fn pooling_with_channels_behind() {
    let x = Tensor::from_vec([1, 2, 2, 2], vec![1u8, 10, 2, 20, 3, 30, 4, 40]);
    let (one, z) = (scale(1.0), Tensor::scalar(0u8));
    let last = ("channels_last", Attr::Int(1));
    let y = apply(
        "QLinearGlobalAveragePool",
        std::slice::from_ref(&last),
        &[&x, &one, &z, &scale(0.5), &z],
    );
    assert_eq!((y.dims(), integers(&y)), (&[1, 1, 1, 2][..], vec![5, 50]));
    let attrs = [last, ("kernel_shape", Attr::Ints(vec![1, 2]))];
    let y = apply("QLinearAveragePool", &attrs, &[&x, &one, &z, &scale(0.5), &z]);
    assert_eq!((y.dims(), integers(&y)), (&[1, 2, 1, 2][..], vec![3, 30, 7, 70]));
    let attrs = [("kernel_shape", Attr::Ints(vec![2, 1]))];
    let y = apply("NhwcMaxPool", &attrs, &[&x]);
    assert_eq!((y.dims(), integers(&y)), (&[1, 1, 2, 2][..], vec![3, 30, 4, 40]));
    let attrs = [("axes", Attr::Ints(vec![1, 2])), ("keepdims", Attr::Int(0))];
    let y = apply("QLinearReduceMean", &attrs, &[&x, &one, &z, &scale(0.5), &z]);
    assert_eq!((y.dims(), integers(&y)), (&[1, 2][..], vec![5, 50]));
}

#[test]
fn products_of_integers() {
    let a = Tensor::from_vec([1, 2], vec![3u8, 5]);
    let b = Tensor::from_vec([2, 2], vec![1i8, 2, 3, -4]);
    let (za, zb) = (Tensor::scalar(1u8), Tensor::scalar(0i8));
    let columns = Tensor::vector(vec![1f32, 0.5]);
    // 2 * (1, 3) + 4 * (2, -4): 10 and -10 where B is transposed.
    let attrs = [("transB", Attr::Int(1)), ("alpha", Attr::Float(2.0))];
    let c = Tensor::vector(vec![1i32, 0]);
    let inputs = [&a, &scale(0.5), &za, &b, &columns, &zb, &c];
    assert_eq!(reals(&apply("QGemm", &attrs, &inputs)), [11.0, -5.0]);
    let (two, four) = (scale(2.0), Tensor::scalar(4u8));
    let inputs = [&inputs[..], &[&two, &four]].concat();
    assert_eq!(integers(&apply("QGemm", &attrs, &inputs)), [10, 2]);
    // 2 * (1, 2) + 4 * (3, -4).
    let bias = Tensor::vector(vec![0f32, 1.0]);
    let inputs = [&a, &b, &scale(0.5), &columns, &za, &zb, &bias];
    assert_eq!(reals(&apply("MatMulIntegerToFloat", &[], &inputs)), [7.0, -2.0]);
    let x = Tensor::from_vec([1, 2], vec![0f32, 255.0]);
    let y = apply("DynamicQuantizeMatMul", &[], &[&x, &b, &columns, &zb, &bias]);
    assert_eq!(reals(&y), [765.0, -509.0]);
    let x = Tensor::from_vec([1, 2], vec![1000i16, -3]);
    let y = apply("MatMulInteger16", &[], &[&x, &Tensor::from_vec([2, 1], vec![-2i16, 7])]);
    assert_eq!((y.dtype(), integers(&y)), (DataType::Int32, vec![-2021]));
}

#[test]
fn weights_in_blocks() {
    // Two rows of two blocks of two; the second block of each is half full.
    let b = Tensor::from_vec([2, 2, 1], vec![0x21u8, 0xf3, 0x98, 0x0a]);
    let scales = Tensor::from_vec([2, 2], vec![1f32, 2.0, 0.5, 1.0]);
    let a = Tensor::from_vec([1, 3], vec![1f32, 10.0, 100.0]);
    let attrs = [("K", 3), ("N", 2), ("block_size", 2)].map(|(n, v)| (n, Attr::Int(v)));
    // (1, 2, 3) - 8 and (8, 9, 10) - 8, scaled.
    let y = apply("MatMulNBits", &attrs, &[&a, &b, &scales]);
    assert_eq!(reals(&y), [-7.0 - 60.0 - 1000.0, 5.0 + 200.0]);
    let zeros = Tensor::from_vec([2, 1], vec![0x31u8, 0xa8]);
    let y = apply("MatMulNBits", &attrs, &[&a, &b, &scales, &zeros]);
    assert_eq!(reals(&y), [10.0, 5.0]);
    let groups = Some(Tensor::vector(vec![1i32, 0, 0]));
    let bias = Some(Tensor::vector(vec![1f32, 0.0]));
    let inputs = [Some(a.clone()), Some(b.clone()), Some(scales), Some(zeros), groups, bias];
    let y = try_all("com.microsoft.MatMulNBits", 1, &attrs, &inputs, 1).unwrap();
    // (1 - 3) * 2, (2 - 1) * 1, (3 - 1) * 1; (8 - 10) * 1, (9 - 8) / 2, (10 - 8) / 2.
    assert_eq!(reals(&y[0]), [-4.0 + 10.0 + 200.0 + 1.0, -2.0 + 5.0 + 100.0]);
    // Sizes that nothing has are refused before there is room for them.
    for (k, n, block) in [(1i64 << 40, 1, 1i64 << 40), (1 << 62, 2, 1 << 62), (3, 1 << 62, 2)] {
        let attrs = [("K", k), ("N", n), ("block_size", block)].map(|(n, v)| (n, Attr::Int(v)));
        assert!(try_run("com.microsoft.MatMulNBits", 1, &attrs, &[&a, &b, &scale(1.0)]).is_err());
    }
    let short = Tensor::vector(vec![1f32]);
    assert!(try_run("com.microsoft.MatMulNBits", 1, &attrs, &[&a, &b, &short]).is_err());
}

#[test]
fn rows_of_a_table_in_blocks() {
    let data = Tensor::from_vec([2, 1], vec![0x21u8, 0xf8]);
    let scales = Tensor::from_vec([2, 1], vec![1f32, 2.0]);
    let ids = Tensor::vector(vec![1i64, 0]);
    let attrs = [("block_size", Attr::Int(16))];
    let y = apply("GatherBlockQuantized", &attrs, &[&data, &ids, &scales]);
    assert_eq!((y.dims(), reals(&y)), (&[2, 2][..], vec![0.0, 14.0, -7.0, -6.0]));
    let signed =
        Tensor::new(DataType::Int4, vec![2, 2], Bytes::from_static(&[0x21, 0xf8])).unwrap();
    let y = apply("GatherBlockQuantized", &attrs, &[&signed, &ids, &scales]);
    assert_eq!(reals(&y), [-16.0, -2.0, 1.0, 2.0]);
}

#[test]
fn fused_operators() {
    let x = Tensor::from_vec([1, 2], vec![-1f32, 2.0]);
    let attrs = [("alpha", Attr::Float(2.0)), ("transA", Attr::Int(1))];
    let y = apply("FusedMatMul", &attrs, &[&x, &x]);
    assert_eq!((y.dims(), reals(&y)), (&[2, 2][..], vec![2.0, -4.0, -4.0, 8.0]));
    let relu = Attr::Str("Relu".into());
    let y = apply("FusedGemm", &[("activation", relu), ("transB", Attr::Int(1))], &[&x, &x]);
    assert_eq!(reals(&y), [5.0]);
    let image = Tensor::from_vec([1, 1, 3], vec![1f32, -2.0, 3.0]);
    let weights = Tensor::from_vec([1, 1, 1], vec![2f32]);
    let leaky = ("activation", Attr::Str("LeakyRelu".into()));
    let attrs = [leaky, ("activation_params", Attr::Floats(vec![0.5]))];
    assert_eq!(reals(&apply("FusedConv", &attrs, &[&image, &weights])), [2.0, -2.0, 6.0]);
    let y = apply("BiasGelu", &[], &[&x, &Tensor::vector(vec![1f32, -1.0])]);
    assert_near(&y, &[0.0, 0.841_344_7], 1e-6);
    assert_near(&apply("QuickGelu", &[], &[&x]), &[-0.154_213, 1.935_650], 1e-5);
    assert_near(&apply("FastGelu", &[], &[&x]), &[-0.158_808, 1.954_598], 1e-5);
}

#[test]
fn normalization_of_a_sum() {
    let x = Tensor::from_vec([1, 1, 2], vec![1f32, 0.0]);
    let gamma = Tensor::vector(vec![2f32, 2.0]);
    let inputs =
        [Some(x.clone()), Some(x), Some(gamma), None, Some(Tensor::vector(vec![1f32, 1.0]))];
    let y = try_all("com.microsoft.SkipLayerNormalization", 1, &[], &inputs, 4).unwrap();
    assert_near(&y[0], &[2.0, -2.0], 1e-5);
    assert_eq!(reals(&y[3]), [3.0, 1.0]);
    let [x, skip, gamma, ..] = inputs;
    let inputs = [x, skip, gamma];
    let y = try_all("com.microsoft.SkipSimplifiedLayerNormalization", 1, &[], &inputs, 1).unwrap();
    assert_near(&y[0], &[8f64.sqrt(), 0.0], 1e-5);
}

#[test]
fn embeddings_and_the_length_of_sentences() {
    let ids = Tensor::from_vec([1, 2], vec![1i32, 0]);
    let word = Tensor::from_vec([2, 2], vec![0f32, 0.0, 1.0, 3.0]);
    let position = Tensor::from_vec([2, 2], vec![1f32, 1.0, 5.0, 1.0]);
    let (gamma, beta) = (Tensor::vector(vec![1f32, 1.0]), Tensor::vector(vec![0f32, 10.0]));
    let mask = Tensor::from_vec([1, 2], vec![1i32, 0]);
    let tables = [Some(word), Some(position), None, Some(gamma), Some(beta)];
    let inputs = [&[Some(ids), None][..], &tables, &[Some(mask)]].concat();
    let y = try_all("com.microsoft.EmbedLayerNormalization", 1, &[], &inputs, 3).unwrap();
    assert_near(&y[0], &[-1.0, 11.0, 1.0, 9.0], 1e-5);
    assert_eq!((integers(&y[1]), reals(&y[2])), (vec![1], vec![2.0, 4.0, 5.0, 1.0]));
}

#[test]
fn attention_sees_what_the_mask_leaves() {
    // One head of one element; queries and keys are zero, so that seen values are averaged.
    let x = Tensor::from_vec([1, 2, 1], vec![2f32, 4.0]);
    let w = Tensor::from_vec([1, 3], vec![0f32, 0.0, 1.0]);
    let bias = Tensor::vector(vec![0f32; 3]);
    let heads = ("num_heads", Attr::Int(1));
    assert_eq!(
        reals(&apply("Attention", std::slice::from_ref(&heads), &[&x, &w, &bias])),
        [3.0, 3.0]
    );
    let causal = [heads.clone(), ("unidirectional", Attr::Int(1))];
    assert_eq!(reals(&apply("Attention", &causal, &[&x, &w, &bias])), [2.0, 3.0]);
    let length = Tensor::vector(vec![1i32]);
    let y = apply("Attention", std::slice::from_ref(&heads), &[&x, &w, &bias, &length]);
    assert_eq!(reals(&y), [2.0, 2.0]);
    let packed = Tensor::from_vec([1, 2, 1, 3, 1], vec![0f32, 0.0, 2.0, 0.0, 0.0, 4.0]);
    let y = apply("MultiHeadAttention", std::slice::from_ref(&heads), &[&packed]);
    assert_eq!((y.dims(), reals(&y)), (&[1, 2, 1][..], vec![3.0, 3.0]));
    let (x, w) =
        (Tensor::from_vec([1, 2, 1], vec![2u8, 4]), Tensor::from_vec([1, 3], vec![0i8, 0, 2]));
    let y = apply("QAttention", &[heads], &[&x, &w, &bias, &scale(0.5), &scale(1.0)]);
    assert_eq!(reals(&y), [3.0, 3.0]);
}

#[test]
fn an_lstm_on_eight_bits() {
    // One step of one element: the input is its own range and survives, the state is zero.
    let x = Tensor::from_vec([1, 1, 1], vec![1f32]);
    let (w, r) =
        (Tensor::from_vec([1, 1, 4], vec![50i8; 4]), Tensor::from_vec([1, 1, 4], vec![9i8; 4]));
    let (s, z) = (Tensor::vector(vec![0.02f32]), Tensor::vector(vec![0i8]));
    let weights = [Some(s.clone()), Some(z.clone()), Some(s), Some(z)];
    let inputs = [&[Some(x), Some(w), Some(r)][..], &[const { None }; 5], &weights].concat();
    let hidden = [("hidden_size", Attr::Int(1))];
    let y = try_all("com.microsoft.DynamicQuantizeLSTM", 1, &hidden, &inputs, 3).unwrap();
    let gate = 1.0 / (1.0 + (-1f64).exp());
    let cell = gate * 1f64.tanh();
    assert_near(&y[2], &[cell], 1e-6);
    assert_near(&y[1], &[gate * cell.tanh()], 1e-6);
}

#[test]
fn every_listed_operator_has_a_kernel() {
    for op in onnxd_ir::schema::operators(super::DOMAIN) {
        let known = super::ROWS.iter().any(|row| row.op == op && row.domain == super::DOMAIN);
        assert!(known, "{op} is listed but has no kernel");
    }
}

#[test]
fn grouped_queries_see_the_cache_and_their_window() {
    // One head of one element; keys are zero, so that seen values are averaged.
    let row = |values: Vec<f32>| Some(Tensor::from_vec([1, values.len(), 1], values));
    let cache = |values: Vec<f32>| Some(Tensor::from_vec([1, 1, values.len(), 1], values));
    let number = |n: i32| Some(Tensor::vector(vec![n]));
    let inputs = [
        row(vec![1.0, 1.0]),
        row(vec![0.0, 0.0]),
        row(vec![6.0, 8.0]),
        cache(vec![0.0, 0.0]),
        cache(vec![2.0, 4.0]),
        number(3),
        number(4),
    ];
    let heads = [("num_heads", Attr::Int(1)), ("kv_num_heads", Attr::Int(1))];
    let run = |window: i64, inputs: &[Option<Tensor>]| {
        let attrs = [&heads[..], &[("local_window_size", Attr::Int(window))]].concat();
        try_all("com.microsoft.GroupQueryAttention", 1, &attrs, inputs, 3)
    };
    let y = run(-1, &inputs).unwrap();
    assert_near(&y[0], &[4.0, 5.0], 1e-6);
    assert_eq!((y[1].dims(), reals(&y[2])), (&[1, 1, 4, 1][..], vec![2.0, 4.0, 6.0, 8.0]));
    assert_near(&run(2, &inputs).unwrap()[0], &[5.0, 7.0], 1e-6);
    let mut shorter = inputs.clone();
    shorter[5] = number(2);
    assert!(run(-1, &shorter).is_err(), "a new token that lies before the end of the cache");
    // Numbers of heads whose sum is 0 where it is cut off.
    let many = [("num_heads", Attr::Int(2)), ("kv_num_heads", Attr::Int(i64::MAX))];
    let mut packed = inputs.clone();
    (packed[1], packed[2]) = (None, None);
    assert!(try_all("com.microsoft.GroupQueryAttention", 1, &many, &packed, 3).is_err());
}

#[test]
fn grouped_queries_in_one_tensor_turn_by_their_positions() {
    // Heads of two elements: a query, a key and a value in each row; at position 1 a pair turns by a right angle.
    let packed = Tensor::from_vec(
        [1, 2, 6],
        vec![1f32, 0.0, 4.0, 0.0, 1.0, 2.0, 1.0, 0.0, 4.0, 0.0, 3.0, 4.0],
    );
    let table = |values: [f32; 2]| Some(Tensor::from_vec([2, 1], values.to_vec()));
    let number = |n: i32| Some(Tensor::vector(vec![n]));
    let (cos, sin) = (table([1.0, 0.0]), table([0.0, 1.0]));
    let inputs = [Some(packed), None, None, None, None, number(1), number(2), cos, sin];
    let attrs = ["num_heads", "kv_num_heads", "do_rotary"].map(|name| (name, Attr::Int(1)));
    let attrs = [&attrs[..], &[("scale", Attr::Float(1.0))]].concat();
    let y = try_all("com.microsoft.GroupQueryAttention", 1, &attrs, &inputs, 3).unwrap();
    assert_eq!(reals(&y[1]), [4.0, 0.0, 0.0, 4.0]);
    // Scores of the second query are 0 and 4.
    let share = 1.0 / (1.0 + 4f64.exp());
    assert_near(&y[0], &[1.0, 2.0, 3.0 - 2.0 * share, 4.0 - 2.0 * share], 1e-5);
}
