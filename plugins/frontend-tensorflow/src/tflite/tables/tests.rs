use super::*;
use crate::tflite::fixture::{INT16, quantized, single, tensor};
use crate::tflite::network::{Asked, import};
use onnxd_plugin_sdk::ExportOptions;
use onnxd_plugin_sdk::testing;

/// The results of the kernel for stored numbers.
fn found(scale: f32, stored: &[i16]) -> Vec<i64> {
    let count = stored.len() as i32;
    let of = |name: &str, scale| quantized(tensor(name, INT16, &[count], 0), &[scale], &[0], 0);
    let lite = single(28, vec![of("x", scale), of("y", STEP)], vec![], vec![]);
    let mut options = ExportOptions::of_shapes(21, vec![]);
    let done = import(&lite.bytes(), Asked::default(), &mut options).unwrap();
    let given = testing::run(&done.model, [("x", Tensor::vector(stored.to_vec()))]).unwrap();
    given[0].1.to_i64s().unwrap()
}

#[test]
fn tanh_of_integers_lies_between_the_elements_of_a_table() {
    // Some scale, at which the kernel takes x * 12288 for 256 steps between elements.
    let scale = 0.000_3;
    let stored: Vec<i16> = vec![-32768, -20000, -3500, -100, -1, 0, 1, 100, 3500, 20000, 32767];
    let exact = |x: i16| (f64::from(x) * f64::from(scale)).tanh() * 32768.0;
    let found = found(scale, &stored);
    for (x, y) in stored.iter().zip(&found) {
        assert!((*y as f64 - exact(*x)).abs() < 3.0, "{x}: {y}, not {}", exact(*x));
    }
    // The middle between two elements is the mean of both, which is less than `tanh` there.
    let all = results(Multiplier { by: 128, shift: 0 });
    let at = |x: i64| all[(x + 32768) as usize];
    let sigmoid = |x: f64| 65536.0 / (1.0 + (-x).exp());
    let mean = (sigmoid(31.0 / 24.0) + sigmoid(32.0 / 24.0)) / 2.0 - 32768.0;
    assert!((f64::from(at(63)) - mean).abs() <= 1.0, "{} and {mean}", at(63));
    assert!(f64::from(at(63)) < (63.0 / 96f64).tanh() * 32768.0 - 0.5, "{}", at(63));
    assert_eq!((at(0), at(32767), at(-32768)), (0, 32767, -32767));
}

#[test]
fn powers_of_two_have_other_code() {
    assert_eq!(Multiplier::of(1.0 / 4096.0), None);
    assert_eq!(Multiplier::of(1.0 / 2048.0), None);
    assert_eq!(Multiplier::of(0.000_3), Some(Multiplier { by: 30198, shift: 13 }));
    let real = super::super::fixture::converted(
        &single(
            28,
            vec![
                quantized(tensor("x", INT16, &[1], 0), &[1.0 / 4096.0], &[0], 0),
                quantized(tensor("y", INT16, &[1], 0), &[STEP], &[0], 0),
            ],
            vec![],
            vec![],
        )
        .bytes(),
        21,
    );
    assert!(real.unwrap().contains("Tanh("));
}
