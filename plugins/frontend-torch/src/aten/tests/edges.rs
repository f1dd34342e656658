//! Arguments at the edge of what operators take: integers for floats, infinities, poles, no axes.

use super::{assert_near, floats, ints, pair, run, run_at};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Value;

#[test]
fn negative_powers_of_integers_are_whole() {
    let pow =
        |x: Tensor, y: Tensor| run("aten::pow", [("input", x.into()), ("exponent", y.into())]);
    let x = ints([1, -1, -1, 2, -3, 0, 2]);
    assert_eq!(pow(x, ints([-5, -3, -2, -1, -2, -1, 3])), ints([1, -1, 1, 0, 0, 0, 8]));
}

#[test]
fn infinities_and_poles_are_torchs() {
    let low = f32::NEG_INFINITY;
    let sums = pair("aten::logaddexp", floats([low, f32::INFINITY, 0.0]), floats([low, 1.0, low]));
    assert_eq!(sums, floats([low, f32::INFINITY, 0.0]));
    let slopes = run("aten::digamma", [("input", floats([0.0, -0.0, -2.0]).into())]);
    let slopes = slopes.to_reals().unwrap().values;
    assert_eq!(slopes[..2], [f64::NEG_INFINITY, f64::INFINITY]);
    assert!(slopes[2].is_nan(), "{slopes:?}");
    let sums = run("aten::lgamma", [("input", floats([low, f32::INFINITY]).into())]);
    assert_eq!(sums, floats([f32::INFINITY; 2]));
    let signs = run("aten::signbit", [("input", floats([-0.0, 0.0, -1.0, low]).into())]);
    assert_eq!(signs, super::bools([true, false, true, true]));
    let signed = pair("aten::copysign", floats([1.0, 2.0]), floats([-0.0, 0.0]));
    assert_eq!(signed, floats([-1.0, 2.0]));
}

#[test]
fn integers_become_floats() {
    let all = || [("n", Value::None.into()), ("dim", (-1i64).into()), ("norm", Value::None.into())];
    let [n, dim, norm] = all();
    let signal = run("aten::fft_irfft", [("input", ints([2, 0, 0]).into()), n, dim, norm]);
    assert_near(&signal, &floats([0.5; 4]));
    let (x, y) = (("input1", ints([1, 5]).into()), ("input2", ints([3, 2]).into()));
    let (target, margin) = (("target", ints([1, 1]).into()), ("margin", 0.0.into()));
    let loss = run("aten::margin_ranking_loss", [x, y, target, margin, ("reduction", 1i64.into())]);
    assert_eq!(loss, Tensor::scalar(1.0f32));
    let (x, target) = (("input", ints([1, 0]).into()), ("target", ints([1, -1]).into()));
    let rest = [("margin", 1.5.into()), ("reduction", 2i64.into())];
    let [margin, reduction] = rest;
    let loss = run("aten::hinge_embedding_loss", [x, target, margin, reduction]);
    assert_eq!(loss, Tensor::scalar(2.5f32));
}

#[test]
fn small_numbers_are_not_rounded_away() {
    for op in ["aten::log1p", "aten::expm1"] {
        let found = run(op, [("input", floats([1e-10, -1e-12, 0.0]).into())]);
        assert_eq!(found, floats([1e-10, -1e-12, 0.0]), "{op}");
    }
}

#[test]
fn spectra_of_short_times_exist_before_their_operator() {
    let spectra = |opset: i64, onesided: bool| {
        let window = floats([0.5, 1.0, 0.25]);
        let arguments = [
            ("input", Tensor::from_vec(vec![2, 9], (0..18).map(|i| (i * i % 7) as f32).collect())),
            ("window", window),
        ];
        let [input, window] = arguments.map(|(name, x)| (name, x.into()));
        let sizes = [("n_fft", 5i64), ("hop_length", 2), ("win_length", 3)];
        let [n, hop, width] = sizes.map(|(name, n)| (name, n.into()));
        let words = [("center", true), ("normalized", true), ("onesided", onesided)];
        let [center, normalized, onesided] = words.map(|(name, x)| (name, Value::Bool(x).into()));
        let all = [input, n, hop, width, window, center, normalized, onesided];
        run_at(opset, "aten::stft", all).unwrap().remove(0)
    };
    for onesided in [true, false] {
        assert_near(&spectra(16, onesided), &spectra(17, onesided));
    }
}

#[test]
fn transforms_exist_before_their_operator() {
    let half = |opset: i64, norm: &str| {
        let norm = ("norm", Value::Text(norm.into()).into());
        let rest = [("n", 4i64.into()), ("dim", 0i64.into()), norm];
        let [n, dim, norm] = rest;
        let input = ("input", floats([2.0, 1.0, -1.0, 3.0, 9.0]).into());
        run_at(opset, "aten::fft_irfft", [input, n, dim, norm]).unwrap().remove(0)
    };
    for norm in ["backward", "ortho", "forward"] {
        assert_near(&half(13, norm), &half(18, norm));
    }
    assert_near(&half(13, "backward"), &floats([0.75, 0.75, -0.25, 0.75]));
}

#[test]
fn a_transform_along_no_axes_is_none() {
    for opset in [13, 18] {
        let [s, dim, norm] =
            [("s", Value::None.into()), ("dim", vec![0i64; 0].into()), ("norm", "ortho".into())];
        let input = ("input", floats([2.0, 1.0]).into());
        let found = run_at(opset, "aten::fft_irfftn", [input, s, dim, norm]).unwrap();
        assert_eq!(found, [floats([2.0, 1.0])]);
    }
}

#[test]
fn halves_of_axes_change_places() {
    let shifted =
        |op| run(op, [("input", ints([0, 1, 2, 3, 4]).into()), ("dim", vec![0i64].into())]);
    assert_eq!(shifted("aten::fft_fftshift"), ints([3, 4, 0, 1, 2]));
    assert_eq!(shifted("aten::fft_ifftshift"), ints([2, 3, 4, 0, 1]));
}

#[test]
fn a_number_alone_has_one_window() {
    let windows = |size: i64, step: i64| {
        let sizes = [("dimension", 0i64.into()), ("size", size.into()), ("step", step.into())];
        let [dimension, size, step] = sizes;
        run_at(
            18,
            "aten::unfold",
            [("input", Tensor::scalar(3.0f32).into()), dimension, size, step],
        )
    };
    assert_eq!(windows(1, 1).unwrap()[0], floats([3.0]));
    assert_eq!(windows(0, 2).unwrap()[0], floats([]));
    for (size, step, said) in [(2, 1, "at most one element"), (1, 0, "a step of at least 1")] {
        let refused = windows(size, step).unwrap_err();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn statistics_of_the_batch_normalize_where_they_are_updated() {
    let x = Tensor::from_vec([2, 1], vec![1.0f32, 3.0]);
    let none = || Value::None.into();
    let given = [
        ("input", x.into()),
        ("weight", none()),
        ("bias", none()),
        ("running_mean", floats([100.0]).into()),
        ("running_var", floats([9.0]).into()),
        ("momentum", 0.1.into()),
        ("eps", 0.0.into()),
    ];
    let found = run_at(18, "aten::_batch_norm_with_update", given).unwrap();
    assert_near(&found[0], &Tensor::from_vec([2, 1], vec![-1.0f32, 1.0]));
}

#[test]
fn sizes_that_factors_do_not_give_are_refused() {
    let x = Tensor::new(DataType::Float, vec![1, 1, 4], vec![0; 16].into()).unwrap();
    let resize = |size: i64| {
        let given = [
            ("input", x.clone().into()),
            ("output_size", vec![size].into()),
            ("align_corners", false.into()),
            ("scales", 0.5.into()),
        ];
        run_at(18, "aten::upsample_linear1d", given)
    };
    let image = Tensor::new(DataType::Float, vec![1, 1, 4, 4], vec![0; 64].into()).unwrap();
    let aligned = [
        ("input", image.into()),
        ("output_size", vec![2i64, 2].into()),
        ("align_corners", true.into()),
    ];
    let found = run_at(18, "aten::_upsample_bilinear2d_aa", aligned).unwrap_err();
    assert!(found.contains("corners are aligned"), "{found}");
    assert_eq!(resize(2).unwrap()[0].dims(), [1, 1, 2]);
    assert!(resize(8).unwrap_err().contains("not those that the factors give"));
}
