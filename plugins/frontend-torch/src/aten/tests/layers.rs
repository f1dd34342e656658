//! Tests of the operators that layers of networks are made of. Expected numbers are torch's.

use super::{Arg, only, run, run_at};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Value;

const NONE: Value = Value::None;

fn floats<const N: usize>(dims: [usize; N], items: &[f32]) -> Tensor {
    Tensor::from_vec(dims, items.to_vec())
}

/// The numbers from `first` on.
fn counted<const N: usize>(dims: [usize; N], first: usize) -> Tensor {
    let n = dims.iter().product::<usize>();
    floats(dims, &(first..first + n).map(|x| x as f32).collect::<Vec<_>>())
}

#[track_caller]
fn assert_close(found: &Tensor, dims: &[usize], expected: &[f64]) {
    assert_eq!(found.dims(), dims);
    let found = found.to_reals().unwrap().values;
    let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-5);
    assert!(near && found.len() == expected.len(), "{found:?} is not {expected:?}");
}

fn pooled(op: &str, x: Tensor, kernel: i64, stride: i64, padding: i64) -> Tensor {
    let ints = |x: i64| Arg::from(vec![x]);
    let all = [("input", x.into()), ("kernel_size", ints(kernel)), ("stride", ints(stride))];
    let [x, k, s] = all;
    let (p, ceil) = (("padding", ints(padding)), ("ceil_mode", true.into()));
    match op {
        "aten::max_pool1d" => only(op, [x, k, s, p, ("dilation", ints(1)), ceil]),
        _ => only(op, [x, k, s, p, ceil, ("count_include_pad", true.into())]),
    }
}

#[test]
fn a_last_window_counts_if_it_starts_in_the_input() {
    let x = || counted([1, 1, 5], 0);
    assert_close(&pooled("aten::max_pool1d", x(), 2, 2, 0), &[1, 1, 3], &[1.0, 3.0, 4.0]);
    let x = counted([1, 1, 3], 0);
    assert_close(&pooled("aten::max_pool1d", x, 1, 3, 0), &[1, 1, 1], &[0.0]);
    // What a last window reads beyond the padding does not count.
    let x = counted([1, 1, 6], 1);
    let expected = [1.0, 3.0, 5.0, 3.0];
    assert_close(&pooled("aten::avg_pool1d", x, 3, 2, 1), &[1, 1, 4], &expected);
    let x = counted([1, 1, 5], 1);
    assert_close(&pooled("aten::avg_pool1d", x, 2, 3, 1), &[1, 1, 2], &[0.5, 3.5]);
    let arguments = [
        ("input", counted([1, 1, 1, 5], 1).into()),
        ("kernel_size", vec![1i64, 4].into()),
        ("stride", vec![1i64, 3].into()),
        ("padding", vec![0i64, 1].into()),
        ("ceil_mode", true.into()),
        ("count_include_pad", false.into()),
        ("divisor_override", 2i64.into()),
    ];
    assert_close(&only("aten::avg_pool2d", arguments), &[1, 1, 1, 2], &[3.0, 6.0]);
}

#[test]
fn windows_of_adaptive_pooling_overlap() {
    let size = || ("output_size", Arg::from(vec![3i64]));
    let y = run("aten::adaptive_avg_pool1d", [("input", counted([1, 1, 5], 0).into()), size()]);
    assert_close(&y, &[1, 1, 3], &[0.5, 2.0, 3.5]);
    let x = floats([1, 1, 2, 3], &[3.0, 1.0, 2.0, 0.0, 5.0, 4.0]);
    let size = ("output_size", Arg::from(vec![2i64, 2]));
    let both = run_at(18, "aten::adaptive_max_pool2d", [("input", x.into()), size]).unwrap();
    assert_close(&both[0], &[1, 1, 2, 2], &[3.0, 2.0, 5.0, 5.0]);
    assert_eq!(both[1].to_i64s().unwrap(), [0, 2, 4, 4]);
}

#[test]
fn convolutions_of_the_same_size_pad_the_end() {
    let weight = floats([1, 1, 2], &[1.0, 10.0]);
    let one = || Arg::from(vec![1i64]);
    let arguments = [
        ("input", counted([1, 1, 4], 1).into()),
        ("weight", weight.into()),
        ("bias", NONE.into()),
        ("stride", one()),
        ("padding", "same".into()),
        ("dilation", one()),
        ("groups", 1i64.into()),
    ];
    assert_close(&run("aten::conv1d", arguments), &[1, 1, 4], &[21.0, 32.0, 43.0, 4.0]);
}

#[test]
fn transposed_convolutions_pad_their_output() {
    let ints = |x: i64| Arg::from(vec![x]);
    let arguments = [
        ("input", counted([1, 1, 2], 1).into()),
        ("weight", floats([1, 1, 3], &[1.0, 10.0, 100.0]).into()),
        ("bias", NONE.into()),
        ("stride", ints(2)),
        ("padding", ints(1)),
        ("output_padding", ints(1)),
        ("groups", 1i64.into()),
        ("dilation", ints(1)),
    ];
    let expected = [10.0, 102.0, 20.0, 200.0];
    assert_close(&run("aten::conv_transpose1d", arguments), &[1, 1, 4], &expected);
}

#[test]
fn batches_are_normalized_by_themselves_without_statistics() {
    let mut arguments = vec![("input", Arg::from(floats([2, 2], &[1.0, 2.0, 3.0, 6.0])))];
    for name in ["weight", "bias", "running_mean", "running_var"] {
        arguments.push((name, NONE.into()));
    }
    arguments.push(("training", true.into()));
    arguments.push(("momentum", 0.1.into()));
    arguments.push(("eps", 1e-5.into()));
    let arguments: [_; 8] = arguments.try_into().ok().unwrap();
    let expected = [-0.999_995, -0.999_999, 0.999_995, 0.999_999];
    assert_close(&run("aten::batch_norm", arguments), &[2, 2], &expected);
}

fn recurrent(op: &str, gates: usize, hx: Arg) -> Vec<Tensor> {
    let column = |from: f32| {
        let items: Vec<f32> = (0..gates).map(|i| from + 0.1 * i as f32).collect();
        Arg::from(floats([gates, 1], &items))
    };
    let bias = || Arg::from(floats([gates], &[0.1, -0.1, 0.2, -0.2][..gates]));
    let params = Arg::List(vec![column(0.1), column(0.5), bias(), bias()]);
    let arguments = [
        ("input", counted([2, 1, 1], 1).into()),
        ("hx", hx),
        ("params", params),
        ("has_biases", true.into()),
        ("num_layers", 1i64.into()),
        ("dropout", 0.0.into()),
        ("train", false.into()),
        ("bidirectional", false.into()),
        ("batch_first", false.into()),
    ];
    run_at(18, op, arguments).unwrap()
}

#[test]
fn gates_of_cells_are_in_their_order() {
    let state = |x: f32| Arg::from(floats([1, 1, 1], &[x]));
    let given = recurrent("aten::lstm.input", 4, Arg::List(vec![state(0.5), state(-0.5)]));
    assert_close(&given[0], &[2, 1, 1], &[0.123_08, 0.336_92]);
    assert_close(&given[2], &[1, 1, 1], &[0.606_39]);
    let given = recurrent("aten::gru.input", 3, state(0.5));
    assert_close(&given[0], &[2, 1, 1], &[0.581_04, 0.674]);
    assert_close(&given[1], &[1, 1, 1], &[0.674]);
}

#[test]
fn a_query_without_keys_gives_zeros() {
    let q = || Arg::from(floats([1, 2, 2], &[1.0, 0.0, 0.0, 1.0]));
    let bytes = vec![0u8, 0, 1, 1];
    let mask = Tensor::new(onnxd_plugin_sdk::ir::DataType::Bool, vec![2, 2], bytes.into()).unwrap();
    let arguments = [
        ("query", q()),
        ("key", q()),
        ("value", q()),
        ("attn_mask", mask.into()),
        ("dropout_p", 0.0.into()),
        ("is_causal", false.into()),
        ("scale", NONE.into()),
        ("enable_gqa", false.into()),
    ];
    let y = run("aten::scaled_dot_product_attention", arguments);
    assert_close(&y, &[1, 2, 2], &[0.0, 0.0, 0.330_24, 0.669_76]);
}

#[test]
fn pads_that_are_negative_crop() {
    let pad = |pad: Vec<i64>, mode: &str, x: Tensor| {
        run(
            "aten::pad",
            [
                ("input", x.into()),
                ("pad", pad.into()),
                ("mode", mode.into()),
                ("value", NONE.into()),
            ],
        )
    };
    let y = pad(vec![-1, 2], "constant", counted([1, 4], 0));
    assert_close(&y, &[1, 5], &[1.0, 2.0, 3.0, 0.0, 0.0]);
    let y = pad(vec![1, 2], "circular", counted([1, 1, 3], 0));
    assert_close(&y, &[1, 1, 6], &[2.0, 0.0, 1.0, 2.0, 0.0, 1.0]);
}

#[test]
fn windows_become_columns() {
    let ints = |x: i64| Arg::from(vec![x]);
    let arguments = [
        ("input", counted([1, 1, 2, 3], 0).into()),
        ("kernel_size", ints(2)),
        ("dilation", ints(1)),
        ("padding", ints(0)),
        ("stride", ints(1)),
    ];
    let expected = [0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 4.0, 5.0];
    assert_close(&run("aten::im2col", arguments), &[1, 4, 2], &expected);
}

#[test]
fn labels_are_smoothed() {
    let arguments = [
        ("input", floats([2, 3], &[1.0, 2.0, 3.0, 1.0, 1.0, 1.0]).into()),
        ("target", Tensor::vector(vec![2i64, 0]).into()),
        ("weight", NONE.into()),
        ("reduction", 1i64.into()),
        ("ignore_index", (-100i64).into()),
        ("label_smoothing", 0.3.into()),
    ];
    assert_close(&run("aten::cross_entropy_loss", arguments), &[], &[0.903_11]);
}

#[test]
fn fake_quantization_stays_between_its_bounds() {
    let arguments = [
        ("input", floats([3], &[-1.0, 0.26, 9.0]).into()),
        ("scale", 0.1.into()),
        ("zero_point", 3i64.into()),
        ("quant_min", 0i64.into()),
        ("quant_max", 15i64.into()),
    ];
    let y = run("aten::fake_quantize_per_tensor_affine", arguments);
    assert_close(&y, &[3], &[-0.3, 0.3, 1.2]);
}

#[test]
fn axes_of_a_cosine_are_those_of_both_operands() {
    let arguments = [
        ("x1", floats([2, 2], &[1.0, 2.0, 3.0, 4.0]).into()),
        ("x2", floats([2], &[2.0, 1.0]).into()),
        ("dim", 0i64.into()),
        ("eps", 1e-8.into()),
    ];
    assert_close(&run("aten::cosine_similarity", arguments), &[2], &[0.894_43, 0.948_68]);
    // One number stands for all along the axis, before lengths are taken.
    let arguments = [
        ("x1", floats([1, 2, 1], &[3.0, 4.0]).into()),
        ("x2", floats([1, 1, 1], &[1.0]).into()),
        ("dim", 1i64.into()),
        ("eps", 1e-8.into()),
    ];
    assert_close(&only("aten::cosine_similarity", arguments), &[1, 1], &[0.989_95]);
}

#[test]
fn slices_are_as_long_as_their_largest_item_says() {
    let arguments = [
        ("input", floats([2, 2], &[1.0, -4.0, 2.0, 2.0]).into()),
        ("p", f64::INFINITY.into()),
        ("dim", 0i64.into()),
        ("maxnorm", 2.0.into()),
    ];
    assert_close(&only("aten::renorm", arguments), &[2, 2], &[0.5, -2.0, 2.0, 2.0]);
}

#[test]
fn no_differences_leave_what_is_put_around_out() {
    let x = || floats([2], &[1.0, 3.0]);
    let arguments = |n: i64| {
        let around = [("prepend", x().into()), ("append", x().into())];
        let [before, after] = around;
        [("input", x().into()), ("n", n.into()), ("dim", 0i64.into()), before, after]
    };
    assert_close(&run("aten::diff", arguments(0)), &[2], &[1.0, 3.0]);
    assert_close(&run("aten::diff", arguments(2)), &[4], &[-4.0, 4.0, -4.0, 4.0]);
}

#[test]
fn sizes_that_no_factor_gives_are_refused() {
    let resize = |open: bool| {
        let arguments = [
            ("input", counted([1, 1, 4, 4], 0).into()),
            ("output_size", vec![3i64, 3].into()),
            ("align_corners", false.into()),
            ("scales_h", 1.7.into()),
            ("scales_w", 0.9.into()),
        ];
        super::run_in(18, "aten::upsample_bilinear2d", &arguments, open, None)
    };
    for open in [false, true] {
        assert!(resize(open).unwrap_err().contains("not those that the factors give"));
    }
}

#[test]
fn diagonals_are_filled() {
    let fill = |dims: [usize; 2], wrap: bool| {
        let arguments = [
            ("input", counted(dims, 0).into()),
            ("fill_value", 9i64.into()),
            ("wrap", wrap.into()),
        ];
        run_at(18, "aten::fill_diagonal", arguments)
    };
    let tall = fill([3, 2], false).unwrap().remove(0);
    assert_close(&tall, &[3, 2], &[9.0, 1.0, 2.0, 9.0, 4.0, 5.0]);
    assert_close(&fill([1, 2], true).unwrap()[0], &[1, 2], &[9.0, 1.0]);
    assert!(fill([3, 2], true).unwrap_err().contains("begins anew"));
}
