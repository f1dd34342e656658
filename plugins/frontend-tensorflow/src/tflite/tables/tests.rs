use super::*;
use crate::tflite::fixture::{INT16, quantized, single, tensor};
use crate::tflite::network::{Asked, import};
use onnxd_plugin_sdk::ExportOptions;
use onnxd_plugin_sdk::testing;

const TANH: i32 = 28;
const LOGISTIC: i32 = 14;
/// The scale of results.
const SCALE: f32 = 1.0 / 32768.0;

/// The results of a kernel for stored numbers.
fn found(code: i32, scales: [f32; 2], stored: &[i16]) -> Vec<i64> {
    let count = stored.len() as i32;
    let of = |name: &str, scale| quantized(tensor(name, INT16, &[count], 0), &[scale], &[0], 0);
    let lite = single(code, vec![of("x", scales[0]), of("y", scales[1])], vec![], vec![]);
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
    let found = found(TANH, [scale, SCALE], &stored);
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
    assert_eq!(ActivationKernel::find(true, [1.0 / 4096.0, SCALE]), None);
    assert_eq!(ActivationKernel::find(true, [1.0 / 2048.0, SCALE]), None);
    assert_eq!(ActivationKernel::find(false, [1.0 / 4096.0, SCALE]), None);
    assert_eq!(ActivationKernel::find(false, [0.000_3, SCALE]), None);
    let multiplier = Multiplier { by: 30198, shift: 13 };
    assert_eq!(
        ActivationKernel::find(true, [0.000_3, SCALE]),
        Some(ActivationKernel::Table(multiplier))
    );
    let real = super::super::fixture::converted(
        &single(
            TANH,
            vec![
                quantized(tensor("x", INT16, &[1], 0), &[1.0 / 4096.0], &[0], 0),
                quantized(tensor("y", INT16, &[1], 0), &[SCALE], &[0], 0),
            ],
            vec![],
            vec![],
        )
        .bytes(),
        21,
    );
    assert!(real.unwrap().contains("Tanh("));
}

#[test]
fn scales_close_to_powers_of_two_are_taken_for_them() {
    // 2^0.0009 and 2^-0.0009, and just beyond.
    let [more, less, beyond] = [1.000_624f32, 0.999_376, 1.000_8];
    let given = [more / 4096.0, less / 2048.0, beyond / 4096.0];
    assert_eq!(ActivationKernel::find(true, [given[0], SCALE]), Some(ActivationKernel::Real(-12)));
    assert_eq!(ActivationKernel::find(true, [given[1], SCALE]), Some(ActivationKernel::Real(-11)));
    assert!(matches!(
        ActivationKernel::find(true, [given[2], SCALE]),
        Some(ActivationKernel::Table(_))
    ));
    assert_eq!(
        ActivationKernel::find(true, [1.0 / 4096.0, SCALE * less]),
        Some(ActivationKernel::Real(-12))
    );
    assert_eq!(ActivationKernel::find(true, [1.0 / 4096.0, SCALE * beyond]), None);
    assert_eq!(ActivationKernel::find(false, [given[0], SCALE]), Some(ActivationKernel::Real(-12)));
    assert_eq!(ActivationKernel::find(false, [given[1], SCALE]), None);
    let stored = [-32768, -6000, -1, 0, 1, 3500, 6000, 32767];
    let real = |f: fn(f64) -> f64| stored.map(|x| (f(f64::from(x) / 4096.0) * 32768.0).round());
    let same = |found: Vec<i64>, real: [f64; 8]| {
        let pairs = found.iter().zip(real);
        assert!(pairs.clone().all(|(y, exact)| *y == exact.min(32767.0) as i64), "{pairs:?}");
    };
    same(found(TANH, [given[0], SCALE * less], &stored), real(f64::tanh));
    same(found(LOGISTIC, [given[0], SCALE], &stored), real(|x| 1.0 / (1.0 + (-x).exp())));
}
