//! A model beside one in coarse steps: the figures by their definitions.

use onnxd_eval::Builtin;
use onnxd_ir::Tensor;
use onnxd_ir::text::parse_model;
use onnxd_quantize::accuracy::{Pair, agreements, selected};
use onnxd_quantize::observe::{Feeds, Limits};
use std::collections::BTreeMap;

const FLOAT: &str = r#"<ir_version: 8, opset_import: ["" : 17]>
    main (float[N] x) => (float[N] y) {
        a = Neg (x)
        y = Relu (a)
    }"#;

/// The steps of `a` mean 0.5 with a zero at 3; `y` is real.
const STEPS: &str = r#"<ir_version: 8, opset_import: ["" : 17]>
    main (float[N] x) => (float[N] y)
    <float half = {0.5}, float three = {3.0}> {
        b = Neg (x)
        c = Div (b, half)
        d = Round (c)
        e = Add (d, three)
        a = Cast <to = 2> (e)
        y = Relu (b)
    }"#;

fn pair(name: &str, scale: f64, zero_point: f64, range: Option<(f64, f64)>) -> Pair {
    Pair { reference: name.into(), found: name.into(), scale, zero_point, range }
}

fn feeds(values: &[f32]) -> Feeds {
    BTreeMap::from([("x".to_owned(), Tensor::vector(values.to_vec()))])
}

#[test]
fn differences_are_summed_over_all_samples() {
    let (float, steps) = (parse_model(FLOAT).unwrap(), parse_model(STEPS).unwrap());
    let pairs = [pair("a", 0.5, 3.0, Some((-1.5, 1.0))), pair("y", 1.0, 0.0, None)];
    let samples = [vec![1.0f32, -0.25, -0.6], vec![-1.3, -1.24]];
    let mut both = samples.iter().map(|x| Ok((feeds(x), feeds(x))));
    let models = (&float, &steps);
    let found = agreements(&Builtin, models, &pairs, &mut both, (&[], Limits::default())).unwrap();
    // -1 stays, 0.25 becomes 0 (halves to even), 0.6 0.5, 1.3 1.5, 1.24 1.0.
    let gaps = [0.0, 0.25, 0.1, 0.2, 0.24];
    let values = [1.0, 0.25, 0.6, 1.3, 1.24];
    let squares = |of: &[f64]| of.iter().map(|x| x * x).sum::<f64>();
    let a = &found[0];
    assert_eq!(a.elements, 5);
    assert!((a.noise - squares(&gaps)).abs() < 1e-6, "{a:?}");
    assert!((a.signal - squares(&values)).abs() < 1e-6, "{a:?}");
    assert!((a.max_abs - 0.25).abs() < 1e-6, "{a:?}");
    let db = 10.0 * (squares(&values) / squares(&gaps)).log10();
    assert!((a.sqnr_db().unwrap() - db).abs() < 1e-5, "{a:?}");
    // Beyond 1.0 by more than half a step is 1.3; 1.24 is not.
    assert_eq!((a.beyond, a.clipped()), (1, Some(0.2)));
    assert_eq!((found[1].sqnr_db(), found[1].elements), (Some(f64::INFINITY), 5));
}

#[test]
fn without_samples_nothing_is_said() {
    let (float, steps) = (parse_model(FLOAT).unwrap(), parse_model(STEPS).unwrap());
    let pairs = [pair("y", 1.0, 0.0, None)];
    let none = &mut std::iter::empty();
    let found =
        agreements(&Builtin, (&float, &steps), &pairs, none, (&[], Limits::default())).unwrap();
    assert_eq!((found[0].sqnr_db(), found[0].clipped()), (None, None));
}

#[test]
fn what_is_not_finite_on_one_side_is_infinitely_far() {
    let float = parse_model(FLOAT).unwrap();
    let pairs = [pair("y", 1.0, 0.0, None)];
    let mut both = [Ok((feeds(&[-1.0]), feeds(&[f32::NEG_INFINITY])))].into_iter();
    let models = (&float, &float);
    let found = agreements(&Builtin, models, &pairs, &mut both, (&[], Limits::default())).unwrap();
    assert_eq!(found[0].sqnr_db(), Some(f64::NEG_INFINITY));
}

#[test]
fn other_shapes_are_refused() {
    let float = parse_model(FLOAT).unwrap();
    let pairs = [pair("y", 1.0, 0.0, None)];
    let mut both = [Ok((feeds(&[1.0, 2.0]), feeds(&[1.0])))].into_iter();
    let models = (&float, &float);
    let found = agreements(&Builtin, models, &pairs, &mut both, (&[], Limits::default()));
    let text = found.unwrap_err().to_string();
    assert!(text.contains("`y` cannot be compared: its shape is [2], quantized [1]"), "{text}");
}

/// Every channel has its share, wherever the channels lie.
#[test]
fn a_selection_is_spread_over_all_channels() {
    let (rows, columns, most) = (96, 192, 2048);
    let x: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let x = Tensor::from_vec(vec![rows, columns], x);
    let found = selected(&x, most);
    let y = found.as_slice::<f32>().unwrap();
    assert!(y.len() == most && y.is_sorted_by(|a, b| a < b));
    let mut counts = (vec![0; rows], vec![0; columns]);
    for v in y.iter().map(|v| *v as usize) {
        counts.0[v / columns] += 1;
        counts.1[v % columns] += 1;
    }
    assert!(counts.0.iter().all(|n| (20..=23).contains(n)), "{:?}", counts.0);
    assert!(counts.1.iter().all(|n| (4..=20).contains(n)), "{:?}", counts.1);
    assert_eq!(selected(&x, rows * columns), x);
    // Integers are taken from the same places.
    let values = x.as_slice::<f32>().unwrap();
    let bytes: Vec<u8> = values.iter().map(|v| *v as i64 as u8).collect();
    let of_bytes = selected(&Tensor::from_vec(vec![rows, columns], bytes), most);
    let wanted: Vec<u8> = y.iter().map(|v| *v as i64 as u8).collect();
    assert_eq!(&*of_bytes.as_slice::<u8>().unwrap(), wanted.as_slice());
}
