use crate::testing::{ints, reals, run, try_run, word};
use onnxd_ir::{Attr, Tensor};
use proptest::prelude::*;

fn ramp(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    Tensor::from_vec(dims, (0..count).map(|i| (i * 5 % 13) as f32 - 6.0).collect())
}

fn as_i8(x: &Tensor) -> Tensor {
    Tensor::from_vec(x.dims(), reals(x).iter().map(|v| *v as i8).collect())
}

/// A random two-dimensional convolution.
#[derive(Debug, Clone)]
struct Case {
    batch: usize,
    group: usize,
    channels: usize,
    filters: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    pads: [usize; 4],
}

fn cases() -> impl Strategy<Value = Case> {
    let pair = |range: std::ops::Range<usize>| [range.clone(), range];
    (
        (1usize..3, 1usize..4, 1usize..4, 1usize..4),
        (pair(1..9), pair(1..4), pair(1..4), pair(1..3), [0usize..3, 0..3, 0..3, 0..3]),
    )
        .prop_map(
            |((batch, group, channels, filters), (size, kernel, strides, dilations, pads))| Case {
                batch,
                group,
                channels,
                filters,
                size,
                kernel,
                strides,
                dilations,
                pads,
            },
        )
        .prop_filter("the window fits", |c| (0..2).all(|i| c.outputs(i).is_some()))
}

impl Case {
    fn outputs(&self, i: usize) -> Option<usize> {
        let padded = self.size[i] + self.pads[i] + self.pads[i + 2];
        let reach = (self.kernel[i] - 1) * self.dilations[i] + 1;
        Some(padded.checked_sub(reach)? / self.strides[i] + 1)
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let list = |l: &[usize]| Attr::Ints(l.iter().map(|n| *n as i64).collect());
        vec![
            ("strides", list(&self.strides)),
            ("dilations", list(&self.dilations)),
            ("pads", list(&self.pads)),
            ("group", Attr::Int(self.group as i64)),
        ]
    }

    /// Calls `f(output, input, weight)` for every product that the definition sums.
    fn products(&self, mut f: impl FnMut(usize, usize, usize)) {
        let [oh, ow] = [0, 1].map(|i| self.outputs(i).unwrap());
        let [h, w] = self.size;
        let all = self.group * self.filters;
        for n in 0..self.batch {
            for m in 0..all {
                for (oy, ox) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
                    for c in 0..self.channels {
                        for (ky, kx) in (0..self.kernel[0])
                            .flat_map(|y| (0..self.kernel[1]).map(move |x| (y, x)))
                        {
                            let y = oy * self.strides[0] + ky * self.dilations[0];
                            let x = ox * self.strides[1] + kx * self.dilations[1];
                            let (y, x) =
                                (y.wrapping_sub(self.pads[0]), x.wrapping_sub(self.pads[1]));
                            if y >= h || x >= w {
                                continue;
                            }
                            let channel = (n * self.group + m / self.filters) * self.channels + c;
                            f(
                                ((n * all + m) * oh + oy) * ow + ox,
                                (channel * h + y) * w + x,
                                ((m * self.channels + c) * self.kernel[0] + ky) * self.kernel[1]
                                    + kx,
                            );
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn conv_equals_the_definition(case in cases()) {
        let [h, w] = case.size;
        let x = ramp(&[case.batch, case.group * case.channels, h, w]);
        let all = case.group * case.filters;
        let k = ramp(&[all, case.channels, case.kernel[0], case.kernel[1]]);
        let bias = ramp(&[all]);
        let (xs, ks, bs) = (reals(&x), reals(&k), reals(&bias));
        let y = run("Conv", 11, &case.attrs(), &[&x, &k, &bias]);
        let area: usize = y.dims()[2..].iter().product();
        let mut expected: Vec<f64> = (0..y.len()).map(|i| bs[i / area % all]).collect();
        case.products(|o, i, j| expected[o] += xs[i] * ks[j]);
        prop_assert_eq!(reals(&y), expected);
    }

    #[test]
    fn conv_integer_equals_the_definition(case in cases(), zero in -3i8..4) {
        let [h, w] = case.size;
        let x = as_i8(&ramp(&[case.batch, case.group * case.channels, h, w]));
        let all = case.group * case.filters;
        let k = as_i8(&ramp(&[all, case.channels, case.kernel[0], case.kernel[1]]));
        let w_zero: Vec<i8> = (0..all).map(|i| i as i8 - 1).collect();
        let (xs, ks) = (x.to_i64s().unwrap(), k.to_i64s().unwrap());
        let per = ks.len() / all;
        let inputs = [&x, &k, &Tensor::scalar(zero), &Tensor::vector(w_zero.clone())];
        let y = run("ConvInteger", 10, &case.attrs(), &inputs);
        let mut expected = vec![0i64; y.len()];
        case.products(|o, i, j| {
            expected[o] += (xs[i] - i64::from(zero)) * (ks[j] - i64::from(w_zero[j / per]));
        });
        prop_assert_eq!(y.to_i64s().unwrap(), expected);
    }

    #[test]
    fn conv_transpose_is_the_adjoint(case in cases()) {
        // Inner products agree: <conv(x), y> = <x, conv_transpose(y)>, element by element through
        // unit sums.
        let [oh, ow] = [0, 1].map(|i| case.outputs(i).unwrap());
        let all = case.group * case.filters;
        let y = ramp(&[case.batch, all, oh, ow]);
        let k = ramp(&[all, case.channels, case.kernel[0], case.kernel[1]]);
        let rest: Vec<i64> = (0..2)
            .map(|i| {
                let reach = (case.kernel[i] - 1) * case.dilations[i] + 1;
                let padded = case.size[i] + case.pads[i] + case.pads[i + 2];
                ((padded - reach) % case.strides[i]) as i64
            })
            .collect();
        let mut attrs = case.attrs();
        attrs.push(("output_padding", ints(&rest)));
        let x = run("ConvTranspose", 11, &attrs, &[&y, &k]);
        let (ys, ks) = (reals(&y), reals(&k));
        let mut expected = vec![0f64; x.len()];
        case.products(|o, i, j| expected[i] += ys[o] * ks[j]);
        prop_assert_eq!(reals(&x), expected);
    }
}

#[test]
fn one_and_three_axes() {
    let x = Tensor::from_vec(vec![1, 1, 4], vec![1f32, 2.0, 3.0, 4.0]);
    let w = Tensor::from_vec(vec![1, 1, 2], vec![1f32, 10.0]);
    assert_eq!(reals(&run("Conv", 11, &[], &[&x, &w])), [21.0, 32.0, 43.0]);
    let x = Tensor::from_vec(vec![1, 2, 2, 1, 2], vec![1f32; 8]);
    let w = Tensor::from_vec(vec![1, 2, 2, 1, 1], vec![1f32; 4]);
    let y = run("Conv", 11, &[], &[&x, &w]);
    assert_eq!((y.dims(), reals(&y)), (&[1usize, 1, 1, 1, 2][..], vec![4.0, 4.0]));
}

#[test]
fn automatic_padding() {
    let x = Tensor::from_vec(vec![1, 1, 3], vec![1f32, 2.0, 3.0]);
    let w = Tensor::from_vec(vec![1, 1, 2], vec![1f32, 10.0]);
    let pad = |mode| run("Conv", 11, &[("auto_pad", word(mode))], &[&x, &w]);
    assert_eq!(reals(&pad("SAME_UPPER")), [21.0, 32.0, 3.0]);
    assert_eq!(reals(&pad("SAME_LOWER")), [10.0, 21.0, 32.0]);
    assert_eq!(reals(&pad("VALID")), [21.0, 32.0]);
}

#[test]
fn misfits_are_errors() {
    let x = ramp(&[1, 2, 3, 3]);
    let w = ramp(&[1, 2, 5, 5]);
    assert!(try_run("Conv", 11, &[], &[&x, &w]).is_err());
    let w = ramp(&[1, 3, 1, 1]);
    assert!(try_run("Conv", 11, &[], &[&x, &w]).is_err());
    let w = ramp(&[1, 2, 1, 1]);
    assert!(try_run("Conv", 11, &[("group", Attr::Int(0))], &[&x, &w]).is_err());
    assert!(try_run("Conv", 11, &[("strides", ints(&[0, 1]))], &[&x, &w]).is_err());
    let huge = [("pads", ints(&[u32::MAX.into(); 4]))];
    assert_eq!(try_run("Conv", 11, &huge, &[&x, &w]).unwrap_err().code, "N0305");
}

#[test]
fn an_empty_batch_gives_an_empty_result() {
    let y = run("Conv", 11, &[], &[&ramp(&[0, 2, 3, 3]), &ramp(&[4, 2, 2, 2])]);
    assert_eq!(y.dims(), [0, 4, 2, 2]);
}

/// Memory is used again, and what an earlier convolution left in it does not count.
#[test]
fn where_there_is_no_input_the_bias_is_left() {
    let bias = Tensor::from_vec(vec![3], vec![1.0f32, 2.0, 3.0]);
    let w = ramp(&[3, 2, 3, 3]);
    let pads = |n: i64| [("pads", ints(&[n; 4]))];
    run("Conv", 11, &pads(1), &[&ramp(&[1, 2, 6, 6]), &w, &bias]);
    for size in [[0, 6], [6, 0]] {
        let y = run("Conv", 11, &pads(2), &[&ramp(&[&[1, 2][..], &size].concat()), &w, &bias]);
        let plane: usize = y.dims()[2..].iter().product();
        assert!(plane > 0, "{size:?}");
        let wanted: Vec<f64> = [1.0, 2.0, 3.0].iter().flat_map(|b| vec![*b; plane]).collect();
        assert_eq!(reals(&y), wanted, "{size:?}");
    }
    // No channels, and more positions than one tile has.
    let none = [Tensor::from_vec(vec![1, 0, 600, 600], Vec::<f32>::new()), ramp(&[3, 0, 1, 1])];
    let y = run("Conv", 11, &[], &[&none[0], &none[1], &bias]);
    assert_eq!((reals(&y)[0], reals(&y)[3 * 600 * 600 - 1]), (1.0, 3.0));
}
