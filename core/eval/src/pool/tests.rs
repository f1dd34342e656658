use crate::testing::{assert_near, ints, reals, run, try_all, try_run};
use onnxd_ir::{Attr, Tensor};
use proptest::prelude::*;

#[test]
fn indices_of_the_largest() {
    let x = Tensor::from_vec(vec![1, 2, 2, 2], vec![1f32, 2.0, 4.0, 3.0, 8.0, 7.0, 6.0, 5.0]);
    let attrs = [("kernel_shape", ints(&[2, 2]))];
    let found = try_all("MaxPool", 12, &attrs, &[Some(x.clone())], 2).unwrap();
    assert_eq!((reals(&found[0]), found[1].to_i64s().unwrap()), (vec![4.0, 8.0], vec![2, 4]));
    let columns = [attrs[0].clone(), ("storage_order", Attr::Int(1))];
    let found = try_all("MaxPool", 12, &columns, &[Some(x)], 2).unwrap();
    assert_eq!(found[1].to_i64s().unwrap(), [1, 4]);
}

#[test]
fn rounding_up_adds_only_windows_that_start_inside() {
    let x = Tensor::from_vec(vec![1, 1, 4], vec![1f32, 2.0, 3.0, 4.0]);
    let attrs =
        [("kernel_shape", ints(&[3])), ("strides", ints(&[2])), ("ceil_mode", Attr::Int(1))];
    assert_eq!(reals(&run("MaxPool", 12, &attrs, &[&x])), [3.0, 4.0]);
    let attrs =
        [("kernel_shape", ints(&[1])), ("strides", ints(&[3])), ("ceil_mode", Attr::Int(1))];
    assert_eq!(reals(&run("MaxPool", 12, &attrs, &[&x])), [1.0, 4.0]);
}

#[test]
fn averages_count_padding_only_if_asked() {
    let x = Tensor::from_vec(vec![1, 1, 3], vec![3f32, 6.0, 9.0]);
    let attrs = [("kernel_shape", ints(&[2])), ("pads", ints(&[1, 0]))];
    assert_near(&run("AveragePool", 11, &attrs, &[&x]), &[3.0, 4.5, 7.5], 0.0);
    let counted = [attrs[0].clone(), attrs[1].clone(), ("count_include_pad", Attr::Int(1))];
    assert_near(&run("AveragePool", 11, &counted, &[&x]), &[1.5, 4.5, 7.5], 0.0);
    // What rounding up adds behind the padding never counts.
    let ceil = [
        ("kernel_shape", ints(&[2])),
        ("strides", ints(&[2])),
        ("ceil_mode", Attr::Int(1)),
        ("count_include_pad", Attr::Int(1)),
    ];
    assert_near(&run("AveragePool", 19, &ceil, &[&x]), &[4.5, 9.0], 0.0);
}

#[test]
fn global_pooling() {
    let x = Tensor::from_vec(vec![1, 2, 2], vec![1f32, 3.0, -5.0, -7.0]);
    let y = run("GlobalAveragePool", 1, &[], &[&x]);
    assert_eq!((y.dims(), reals(&y)), (&[1usize, 2, 1][..], vec![2.0, -6.0]));
    assert_eq!(reals(&run("GlobalMaxPool", 1, &[], &[&x])), [3.0, -5.0]);
}

#[test]
fn a_huge_kernel_costs_no_time() {
    let x = Tensor::from_vec(vec![1, 1, 2], vec![1f32, 2.0]);
    let big = i64::from(u32::MAX);
    let attrs =
        [("kernel_shape", ints(&[big])), ("pads", ints(&[big - 1, 0])), ("strides", ints(&[4]))];
    assert_eq!(reals(&run("MaxPool", 12, &attrs, &[&x])), [1.0]);
    let attrs = [("kernel_shape", ints(&[0]))];
    assert!(try_run("MaxPool", 12, &attrs, &[&x]).is_err());
}

#[test]
fn unpooling_restores_places() {
    let x = Tensor::from_vec(vec![1, 1, 1, 2], vec![5f32, 6.0]);
    let places = Tensor::from_vec(vec![1, 1, 1, 2], vec![1i64, 6]);
    let attrs = [("kernel_shape", ints(&[2, 2])), ("strides", ints(&[2, 2]))];
    let y = run("MaxUnpool", 11, &attrs, &[&x, &places]);
    assert_eq!(reals(&y), [0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0]);
}

proptest! {
    #[test]
    fn pooling_equals_the_definition(
        size in 1usize..10, kernel in 1usize..5, stride in 1usize..4, dilation in 1usize..3,
        before in 0usize..3, after in 0usize..3,
    ) {
        let reach = (kernel - 1) * dilation + 1;
        prop_assume!(size + before + after >= reach && before < kernel && after < kernel);
        let values: Vec<f32> = (0..size).map(|i| (i * 7 % 5) as f32 - 2.0).collect();
        let x = Tensor::from_vec(vec![1, 1, 1, size], values.clone());
        let attrs = [
            ("kernel_shape", ints(&[1, kernel as i64])),
            ("strides", ints(&[1, stride as i64])),
            ("dilations", ints(&[1, dilation as i64])),
            ("pads", ints(&[0, before as i64, 0, after as i64])),
        ];
        let windows: Vec<Vec<f64>> = (0..=(size + before + after - reach) / stride)
            .map(|o| {
                let at = |k: usize| (o * stride + k * dilation).wrapping_sub(before);
                (0..kernel).filter_map(|k| values.get(at(k)).map(|v| f64::from(*v))).collect()
            })
            .collect();
        let top = |w: &Vec<f64>| w.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let largest: Vec<f64> = windows.iter().map(top).collect();
        prop_assert_eq!(reals(&run("MaxPool", 12, &attrs, &[&x])), largest);
        let mean = |w: &Vec<f64>| w.iter().sum::<f64>() / w.len() as f64;
        let means: Vec<f64> = windows.iter().map(mean).collect();
        assert_near(&run("AveragePool", 19, &attrs, &[&x]), &means, 1e-6);
        let counted = [&attrs[..], &[("count_include_pad", Attr::Int(1))]].concat();
        let mean = |w: &Vec<f64>| w.iter().sum::<f64>() / kernel as f64;
        let means: Vec<f64> = windows.iter().map(mean).collect();
        assert_near(&run("AveragePool", 19, &counted, &[&x]), &means, 1e-6);
    }
}
