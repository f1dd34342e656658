//! Transforms as sums of waves, by the operator and by a matrix.

use super::*;
use crate::testing::run;
use onnxd_ir::Tensor;

fn signal(parts: usize, n: usize) -> Tensor {
    let values = (0..n * parts).map(|i| ((i * i * 7 + 3 * i) % 11) as f64 - 5.0).collect();
    Tensor::from_vec(vec![n, parts], values)
}

/// The sum of waves for each frequency.
fn transform(x: &[[f64; 2]], sign: f64) -> Vec<[f64; 2]> {
    let n = x.len();
    let at = |k: usize| {
        x.iter().enumerate().fold([0.0; 2], |[re, im], (i, [x, y])| {
            let (sine, cosine) = (sign * TAU * (i * k) as f64 / n as f64).sin_cos();
            [re + x * cosine - y * sine, im + x * sine + y * cosine]
        })
    };
    (0..n).map(at).collect()
}

fn assert_near(found: &Tensor, wanted: &[f64]) {
    let found = found.to_reals().unwrap().values;
    assert_eq!(found.len(), wanted.len());
    for (x, y) in found.iter().zip(wanted) {
        assert!((x - y).abs() < 1e-9, "{found:?} for {wanted:?}");
    }
}

fn given(x: &Tensor, length: i64, kind: Fourier, power: i32) -> [Tensor; 2] {
    [13, 18].map(|opset| {
        run(opset, std::slice::from_ref(x), |b, x| {
            transformed(b, x[0], &[(-1, Some(Operand::Int(length)))], kind, power)
        })
    })
}

#[test]
fn the_operator_and_the_matrix_are_sums_of_waves() {
    for (n, length) in [(5, 5), (6, 4), (3, 7)] {
        let x = signal(2, n);
        let mut pairs = x.to_reals().unwrap().values.chunks(2).map(|x| [x[0], x[1]]).collect();
        Vec::resize(&mut pairs, length, [0.0; 2]);
        for (kind, sign, scale) in
            [(Fourier::Forward, -1.0, 1.0), (Fourier::Inverse, 1.0, 1.0 / length as f64)]
        {
            let wanted = transform(&pairs, sign).concat();
            let root = (length as f64).sqrt();
            let wanted: Vec<f64> = wanted.iter().map(|x| scale * x / root).collect();
            given(&x, length as i64, kind, 1).iter().for_each(|y| assert_near(y, &wanted));
        }
    }
}

#[test]
fn half_of_a_spectrum_leads_back_to_real_numbers() {
    for n in [1, 2, 5, 6] {
        let x = signal(1, n);
        let wanted = x.to_reals().unwrap().values;
        for half in given(&x, n as i64, Fourier::Real, 0) {
            assert_eq!(half.dims(), [n / 2 + 1, 2]);
            given(&half, n as i64, Fourier::ToReal, 0).iter().for_each(|y| assert_near(y, &wanted));
        }
    }
}

#[test]
fn pieces_have_the_spectra_of_their_own() {
    let x = Tensor::from_vec(vec![1, 1, 7], signal(1, 7).to_reals().unwrap().values);
    let found = run(13, std::slice::from_ref(&x), |b, x| {
        let waves = waves(b, x[0], [3, 4, 4], |_, i| i as f64)?;
        let [re, im] = spectra(b, x[0], waves, [3, 3])?;
        b.concat([re, im]).axis(0).one()
    });
    assert_eq!(found.dims(), [2, 3, 2]);
    let x = x.to_reals().unwrap().values;
    let piece = |from: usize| (0..4).map(|i| [x[from + i] * i as f64, 0.0]).collect::<Vec<_>>();
    let all = [0, 3].map(|from| transform(&piece(from), -1.0));
    let wanted = (0..2).flat_map(|part| {
        let all = &all;
        (0..3).flat_map(move |k| (0..2).map(move |i| all[i][k][part]))
    });
    assert_near(&found, &wanted.collect::<Vec<_>>());
}

/// A last axis of unknown size may hold imaginary parts.
#[test]
fn parts_of_unknown_number_are_not_left_out() {
    let x = signal(2, 4);
    let along = [(0, Some(Operand::Int(4)))];
    let known =
        run(13, std::slice::from_ref(&x), |b, x| transformed(b, x[0], &along, Fourier::Forward, 0));
    let hidden = run(13, &[x, Tensor::vector(vec![4i64, 2])], |b, x| {
        transformed(b, b.reshape(x[0], x[1]).one()?, &along, Fourier::Forward, 0)
    });
    assert_near(&hidden, &known.to_reals().unwrap().values);
}
