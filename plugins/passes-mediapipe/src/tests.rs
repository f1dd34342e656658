//! Each operator beside the loops of its kernel.

use super::*;
use onnxd_plugin_sdk::ir::{Model, Tensor, text};
use onnxd_plugin_sdk::testing;

/// What the pass makes of one node of these inputs and outputs, run on numbers.
fn run(io: [&str; 2], node: &str, feeds: &[(&str, Tensor)]) -> Vec<Vec<f32>> {
    let graph = format!("g ({}) => ({}) {{ {node} }}", io[0], io[1]);
    let model = Model::new(text::parse_graph(&graph).unwrap(), 8, 18);
    let model = testing::run_pass(MediaPipe::pass("mediapipe-operators"), &model).unwrap().model;
    assert_eq!(model.opsets.keys().collect::<Vec<_>>(), [""]);
    let found = testing::run(&model, feeds.iter().cloned()).unwrap();
    found.into_iter().map(|(_, y)| y.as_slice::<f32>().unwrap().to_vec()).collect()
}

/// Numbers that differ, of both signs.
fn numbers(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    let all = (0..count).map(|i| ((i * 37 + 11) % 23) as f32 / 4.0 - 2.5);
    Tensor::from_vec(dims, all.collect::<Vec<f32>>())
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.as_slice::<f32>().unwrap().to_vec()
}

/// The bytes of numbers of 32 bits, as a list of an attribute.
fn options(words: &[i32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ")
}

fn assert_near(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-4, "{found} and {wanted}");
    }
}

/// The loops of `TransposeConvBias` over one picture `[h, w, in]` and a filter `[out, kh, kw, in]`.
fn spread(x: &Tensor, filter: &Tensor, bias: &[f32], same: bool, stride: usize) -> Vec<f32> {
    let ([_, h, w, inputs], [outputs, kh, kw, _]) = (x.dims(), filter.dims()) else { panic!() };
    let pad = |k: usize, n: usize| if same { k.saturating_sub((n - 1) % stride + 1) } else { 0 };
    let (pad_h, pad_w) = (pad(*kh, *h), pad(*kw, *w));
    let (out_h, out_w) = (stride * (h - 1) + kh - pad_h, stride * (w - 1) + kw - pad_w);
    let mut y = vec![0f32; out_h * out_w * outputs];
    for (at, y) in y.iter_mut().enumerate() {
        *y = bias[at % outputs];
    }
    let (x, filter) = (floats(x), floats(filter));
    for (iy, ix) in (0..*h).flat_map(|iy| (0..*w).map(move |ix| (iy, ix))) {
        for (ky, kx) in (0..*kh).flat_map(|ky| (0..*kw).map(move |kx| (ky, kx))) {
            let (Some(oy), Some(ox)) = (
                (iy * stride + ky).checked_sub(pad_h / 2).filter(|oy| *oy < out_h),
                (ix * stride + kx).checked_sub(pad_w / 2).filter(|ox| *ox < out_w),
            ) else {
                continue;
            };
            for (o, i) in (0..*outputs).flat_map(|o| (0..*inputs).map(move |i| (o, i))) {
                y[(oy * out_w + ox) * outputs + o] +=
                    x[(iy * w + ix) * inputs + i] * filter[((o * kh + ky) * kw + kx) * inputs + i];
            }
        }
    }
    y
}

#[test]
fn transposed_convolutions_have_a_bias() {
    let (x, filter) = (numbers(&[1, 3, 4, 2]), numbers(&[3, 3, 2, 2]));
    let bias = Tensor::vector(vec![0.5f32, -1.0, 2.0]);
    for (padding, stride) in [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3)] {
        let node = format!(
            "y = tflite.Convolution2DTransposeBias<onnxd_inputs = [\"inputs[]\", \"inputs[]\", \"inputs[]\"],
               options = [{}]>(x, w, b)",
            options(&[padding, stride, stride])
        );
        let io = ["float[1,3,4,2] x, float[3,3,2,2] w, float[3] b", "float[a,b,c,d] y"];
        let feeds = [("x", x.clone()), ("w", filter.clone()), ("b", bias.clone())];
        let wanted = spread(&x, &filter, &floats(&bias), padding == 1, stride as usize);
        assert_near(&run(io, &node, &feeds)[0], &wanted);
    }
}

/// The loops of `MaxPoolArgmax` over one picture of two channels.
fn pooled(x: &Tensor, same: bool, [stride, kernel]: [usize; 2]) -> [Vec<f32>; 2] {
    let [_, h, w, channels] = x.dims() else { panic!() };
    let count = |n: usize| if same { n.div_ceil(stride) } else { (n - kernel + stride) / stride };
    let pad = |n: usize| (((count(n) - 1) * stride + kernel).saturating_sub(n)) / 2;
    let (mut y, mut at, all) = (vec![], vec![], floats(x));
    for (oy, ox) in (0..count(*h)).flat_map(|oy| (0..count(*w)).map(move |ox| (oy, ox))) {
        for channel in 0..*channels {
            let (mut most, mut place) = (f32::MIN, 0.0);
            for (ky, kx) in (0..kernel).flat_map(|ky| (0..kernel).map(move |kx| (ky, kx))) {
                let (Some(iy), Some(ix)) = (
                    (oy * stride + ky).checked_sub(pad(*h)).filter(|iy| iy < h),
                    (ox * stride + kx).checked_sub(pad(*w)).filter(|ix| ix < w),
                ) else {
                    continue;
                };
                let found = all[(iy * w + ix) * channels + channel];
                if found > most {
                    (most, place) = (found, (ky * kernel + kx) as f32 + 0.1);
                }
            }
            y.push(most);
            at.push(place);
        }
    }
    [y, at]
}

#[test]
fn pools_tell_where_the_largest_number_was() {
    let x = numbers(&[1, 5, 6, 2]);
    for (padding, stride, kernel) in [(1, 2, 2), (2, 2, 2), (1, 2, 3), (1, 1, 3), (2, 1, 2)] {
        let node = format!(
            "y, i = tflite.MaxPoolingWithArgmax2D<onnxd_inputs = [\"inputs[]\"], options = [{}]>(x)",
            options(&[padding, stride, stride, kernel, kernel, 0])
        );
        let io = ["float[1,5,6,2] x", "float[a,b,c,d] y, float[e,f,g,h] i"];
        let found = run(io, &node, &[("x", x.clone())]);
        let [y, at] = pooled(&x, padding == 1, [stride as usize, kernel as usize]);
        assert_near(&found[0], &y);
        assert_near(&found[1], &at);
    }
}

#[test]
fn numbers_go_back_to_where_they_were() {
    let (x, i) = (numbers(&[1, 2, 2, 1]), [0.1f32, 1.1, 2.1, 9.1]);
    let node = format!(
        "y = tflite.MaxUnpooling2D<onnxd_inputs = [\"inputs[]\", \"inputs[]\"], options = [{}]>(x, i)",
        options(&[1, 2, 2, 2, 2, 0])
    );
    let io = ["float[1,2,2,1] x, float[1,2,2,1] i", "float[a,b,c,d] y"];
    let feeds = [("x", x.clone()), ("i", Tensor::from_vec(vec![1, 2, 2, 1], i.to_vec()))];
    let x = floats(&x);
    // The last index is of no cell of its window, and outside of the picture.
    let wanted = [[x[0], 0.0, 0.0, x[1]], [0.0; 4], [0.0; 4], [x[2], 0.0, 0.0, 0.0]].concat();
    assert_near(&run(io, &node, &feeds)[0], &wanted);
}

const MATRIX: [f32; 16] =
    [0.5, -0.25, 9.0, 1.5, 0.75, 1.0, 9.0, -0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];

#[test]
fn landmarks_are_moved() {
    let matrix = Tensor::from_vec(vec![1, 4, 4], MATRIX.to_vec());
    let moved = |points: &[f32], count: usize, scale: f32| -> Vec<f32> {
        let each = points.chunks_exact(count).flat_map(|point| {
            let x = 0.5 * point[0] - 0.25 * point[1] + 1.5 * scale;
            let y = 0.75 * point[0] + point[1] - 0.5 * scale;
            [vec![x, y], point[2..].to_vec()].concat()
        });
        each.collect()
    };
    for (io, dims, more, count, scale) in [
        ("float[1,5,3] p", vec![1, 5, 3], "", 3, 1.0),
        ("float[1,4,2] p", vec![1, 4, 2], "", 2, 1.0),
        ("float[1,1,1,6] p", vec![1, 1, 1, 6], ", dimensions = 3, scale = 2.0", 3, 2.0),
    ] {
        let points = numbers(&dims);
        let input = format!("{io}, float[1,4,4] m");
        let node = format!(
            "y = tflite.TransformLandmarks<onnxd_inputs = [\"inputs[]\", \"inputs[]\"]{more}>(p, m)"
        );
        let feeds = [("p", points.clone()), ("m", matrix.clone())];
        let output = format!("float[{}] y", ["a", "b", "c", "d"][..dims.len()].join(","));
        let found = run([&input, &output], &node, &feeds);
        assert_near(&found[0], &moved(&floats(&points), count, scale));
    }
}

/// The loops of `TransformTensorBilinearV2` over a picture of two channels.
fn warped(x: &Tensor, [height, width]: [usize; 2], by_middle: bool) -> Vec<f32> {
    let [_, h, w, channels] = x.dims() else { panic!() };
    let (all, mut m) = (floats(x), MATRIX);
    if by_middle {
        m[3] += m[0] * 0.5 + m[1] * 0.5 - 0.5;
        m[7] += m[4] * 0.5 + m[5] * 0.5 - 0.5;
    }
    let mut y = vec![];
    for (oy, ox) in (0..height).flat_map(|oy| (0..width).map(move |ox| (oy as f32, ox as f32))) {
        let (tx, ty) = (m[0] * ox + m[1] * oy + m[3], m[4] * ox + m[5] * oy + m[7]);
        let outside = tx < 0.0 || tx > (w - 1) as f32 || ty < 0.0 || ty > (h - 1) as f32;
        for channel in 0..*channels {
            let at = |y: f32, x: f32| {
                let (y, x) = (y as usize, x as usize);
                if y < *h && x < *w { all[(y * w + x) * channels + channel] } else { 0.0 }
            };
            let between = |low: f32, high: f32, share: f32| low * (1.0 - share) + high * share;
            let (fx, fy) = (tx.floor(), ty.floor());
            y.push(match outside {
                true => 0.0,
                false => {
                    let upper = between(at(fy, fx), at(fy, fx + 1.0), tx - fx);
                    let lower = between(at(fy + 1.0, fx), at(fy + 1.0, fx + 1.0), tx - fx);
                    between(upper, lower, ty - fy)
                }
            });
        }
    }
    y
}

#[test]
fn pictures_are_moved() {
    let x = numbers(&[1, 5, 6, 2]);
    let matrix = Tensor::from_vec(vec![1, 16], MATRIX.to_vec());
    for (op, by_middle) in [("TransformTensor", false), ("TransformTensorBilinear", true)] {
        let node = format!(
            "y = tflite.{op}<onnxd_inputs = [\"inputs[]\", \"inputs[]\"], output_size = [4, 7],
               mode = \"bilinear\">(x, m)"
        );
        let io = ["float[1,5,6,2] x, float[1,16] m", "float[a,b,c,d] y"];
        let found = run(io, &node, &[("x", x.clone()), ("m", matrix.clone())]);
        let wanted = warped(&x, [4, 7], by_middle);
        assert!(wanted.iter().any(|y| *y != 0.0) && wanted.contains(&0.0));
        assert_near(&found[0], &wanted);
    }
}

#[test]
fn options_that_are_none_are_refused() {
    for bytes in ["1, 2, 3".to_owned(), options(&[7, 1, 1]), options(&[1, 0, 1])] {
        let graph = format!(
            "g (float[1,3,4,2] x, float[3,3,2,2] w, float[3] b) => (float[a,b,c,d] y) {{
               y = tflite.Convolution2DTransposeBias<onnxd_inputs = [\"inputs[]\", \"inputs[]\", \"inputs[]\"],
                 options = [{bytes}]>(x, w, b) }}"
        );
        let model = Model::new(text::parse_graph(&graph).unwrap(), 8, 18);
        let found = testing::run_pass(MediaPipe::pass("mediapipe-operators"), &model);
        assert!(found.map(|_| ()).unwrap_err().to_string().contains("N0204"), "{bytes}");
    }
}
