//! Layers that were trained with rounded weights and activations.

use super::*;

const W: &str = "weights/y_weights.syntxt";
const STEP: &str = "weights/y_alphaW_LSQ.syntxt";
const ALPHA: &str = "weights/y_QAct_SAT_Alpha.syntxt";

fn fc(outputs: usize, rest: &str) -> String {
    format!("Type=Fc\nNbOutputs={outputs}\nConfigSection=plain\n{rest}")
}

/// What weights `w` become: those of one output of a layer each, whose input is 1.
fn weights(keys: &str, w: &[f32], files: &[File]) -> Vec<f32> {
    let ini = around([1, 1, 1], &fc(w.len(), keys));
    let text: Vec<String> = w.iter().map(f32::to_string).collect();
    let text = text.join(" ");
    let all: Vec<File> = [(W, text.as_str())].into_iter().chain(files.iter().copied()).collect();
    let imported = import_with(&json!({}), &ini, &all).unwrap_or_else(|e| panic!("{keys}: {e}"));
    outputs(&imported, &[1.0])[0].2.clone()
}

#[test]
fn weights_of_learned_steps() {
    let w = [0.26, -0.24, 0.25, 10.0, -10.0, 0.0];
    let of = |range: &str| weights(&format!("QWeight=LSQ\n{range}"), &w, &[(STEP, "0.5")]);
    assert_eq!(of(""), [0.5, 0.0, 0.5, 10.0, -10.0, 0.0]);
    assert_eq!(of("QWeight.Range=15\n"), [0.5, 0.0, 0.5, 3.5, -4.0, 0.0]);
    assert_eq!(of("QWeight.Range=1\n"), [0.0, 0.0, 0.0, 0.0, -0.5, 0.0]);
}

/// The formulas written once more, in the order of the words.
fn sat(mode: &str, r: f64, w: &[f32]) -> Vec<f64> {
    let t: Vec<f64> = w.iter().map(|w| f64::from(*w).tanh()).collect();
    let m = t.iter().fold(0.0, |m: f64, t| m.max(t.abs()));
    let h = (r / 2.0).floor();
    let one = |t: f64| {
        let u = (t + 1.0) / 2.0;
        match mode {
            "Default" => 2.0 * (r * u).round_ties_even() / r - 1.0,
            "FullRange" => {
                let u = (1.0 + 0.9998 / r) * u - 0.4999 / r;
                2.0 * (r * u).round_ties_even() / r - 1.0
            }
            "Symmetric" => (t * h).round_ties_even() / h,
            _ => (((1.0 + 1.0 / (2.0 * h)) * t - 1.0 / (2.0 * h)) * h).round_ties_even() / h,
        }
    };
    t.into_iter().map(|t| one(t / m)).collect()
}

#[test]
fn weights_of_scale_adjusted_training() {
    let w = [0.9, -1.4, 0.01, -0.02, 0.5, 1.4, 0.333];
    for mode in ["Default", "FullRange", "Symmetric", "Asymmetric"] {
        for range in [3, 7, 15, 127, 255] {
            let keys = format!("QWeight=SAT\nQWeight.Range={range}\nQWeight.QuantMode={mode}\n");
            let found = weights(&keys, &w, &[]);
            let expected = sat(mode, f64::from(range), &w);
            let near = found.iter().zip(&expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-6);
            assert!(near, "{mode} {range}: {found:?}, expected {expected:?}");
            let scaled = weights(&format!("{keys}QWeight.ApplyScaling=1\n"), &w, &[]);
            let mean = expected.iter().sum::<f64>() / 7.0;
            let variance = expected.iter().map(|q| (q - mean).powi(2)).sum::<f64>() / 6.0;
            let by = (variance * 7.0).sqrt();
            let near =
                scaled.iter().zip(&expected).all(|(a, b)| (f64::from(*a) - b / by).abs() < 1e-6);
            assert!(near, "{mode} {range} scaled: {scaled:?}");
        }
    }
    let squeezed = weights("QWeight=SAT\nQWeight.ApplyQuantization=0\n", &[0.5, -1.0], &[]);
    assert!(close(&squeezed, &[0.5_f32.tanh() / 1.0_f32.tanh(), -1.0]), "{squeezed:?}");
}

#[test]
fn activations_are_rounded_within_their_range() {
    const LSQ: &str = "weights/y_QAct_LSQ_StepSize.syntxt";
    let x = [-1.0, 0.2, 0.3, 0.8, 100.0];
    let ini = |keys: &str| {
        around([5, 1, 1], &format!("Type=Activation\nActivationFunction=Linear\n{keys}"))
    };
    let files = [(LSQ, "0.5"), (ALPHA, "-2")];
    for (keys, expected) in [
        ("QAct=LSQ\n", [0.0, 0.0, 0.5, 1.0, 100.0]),
        ("QAct=LSQ\nQAct.Range=15\n", [0.0, 0.0, 0.5, 1.0, 7.5]),
        // A range of -2 is one of 2.
        ("QAct=SAT\nQAct.Range=1\n", [0.0, 0.0, 0.0, 0.0, 2.0]),
        ("QAct=SAT\nQAct.Range=3\n", [0.0, 0.0, 0.0, 2.0 / 3.0, 2.0]),
    ] {
        for word in ["float32", "float64"] {
            let params = json!({ "export": { "float_type": word } });
            let imported = import_with(&params, &ini(keys), &files).unwrap();
            let found = &outputs(&imported, &x)[0].2;
            assert!(close(found, &expected), "{keys} {word}: {found:?}");
            let has = operators(&imported).contains(&"QuantizeLinear".to_owned());
            assert_eq!(has, word == "float32");
        }
    }
}

#[test]
fn quantizers_can_be_left_out() {
    let ini = around([1, 1, 1], &fc(1, "QWeight=LSQ\nQAct=SAT\n"));
    let params = json!({ "source": { "quantizers": "ignored" } });
    let imported = import_with(&params, &ini, &[(W, "0.3")]).unwrap();
    assert_eq!(outputs(&imported, &[1.0])[0].2, [0.3]);
    assert_eq!(imported.notes.len(), 2);
    let params = json!({ "source": { "weights_ignore": true } });
    let imported = import_with(&params, &ini, &[(W, "0.3")]).unwrap();
    assert_eq!(outputs(&imported, &[1.0])[0].2, [0.3]);
    assert_eq!(operators(&random(&ini).unwrap()), ["Flatten", "Gemm"]);
}

#[test]
fn what_was_learned_must_make_sense() {
    let refused = |keys: &str, files: &[File]| {
        let all: Vec<File> = [(W, "0.3")].into_iter().chain(files.iter().copied()).collect();
        let ini = around([1, 1, 1], &fc(1, keys));
        import_with(&json!({}), &ini, &all).err().unwrap_or_else(|| panic!("{keys}")).to_string()
    };
    for (keys, files, expected) in [
        ("QWeight=LSQ\n", &[][..], "weights/y_alphaW_LSQ.syntxt"),
        ("QWeight=LSQ\n", &[(STEP, "0")], "must be positive"),
        ("QWeight=LSQ\n", &[(STEP, "1 2")], "holds 2"),
        ("QWeight=LSQ\nQWeight.Range=16\n", &[(STEP, "1")], "found 16"),
        ("QWeight=LSQ\nQWeight.Range=511\n", &[(STEP, "1")], "found 511"),
        ("QWeight=SAT\nQWeight.QuantMode=Half\n", &[], "`QWeight.QuantMode`"),
        ("QWeight=SAT\nQWeight.QuantMode=Symmetric\nQWeight.Range=1\n", &[], "three levels"),
        ("QAct=SAT\n", &[(ALPHA, "1e-40")], "too small"),
        ("QAct=Prune\n", &[], "`QAct`"),
    ] {
        let found = refused(keys, files);
        assert!(found.contains(expected), "{keys}: {found}");
    }
}
