use super::*;

const DEFAULTS: Defaults = Defaults { theta: 10000.0, share: 1.0, interleaved: false };

fn rope_of(text: &str) -> Result<Rope, Diagnostic> {
    let c = Config::parse(text.as_bytes()).unwrap();
    rope(&c, 8, DEFAULTS)
}

fn fixed(rope: &Rope) -> Vec<f64> {
    match &rope.frequencies {
        Frequencies::Fixed(all) => all.clone(),
        other => panic!("{other:?}"),
    }
}

/// Both generations of files say the same.
#[test]
fn generations_agree() {
    let pairs = [
        (
            r#"{"rope_theta": 500}"#,
            r#"{"rope_parameters": {"rope_theta": 500, "rope_type": "default"}}"#,
        ),
        (
            r#"{"rope_theta": 500, "rope_scaling": {"type": "linear", "factor": 4}}"#,
            r#"{"rope_parameters": {"rope_theta": 500, "rope_type": "linear", "factor": 4}}"#,
        ),
        (
            r#"{"max_position_embeddings": 64, "rope_theta": 500, "rope_scaling": {"rope_type": "yarn", "factor": 4}}"#,
            r#"{"max_position_embeddings": 64,
                "rope_parameters": {"rope_theta": 500, "rope_type": "yarn", "factor": 4}}"#,
        ),
    ];
    for (old, new) in pairs {
        assert_eq!(rope_of(old).unwrap(), rope_of(new).unwrap(), "{old}");
    }
}

#[test]
fn angles() {
    let plain = rope_of("{}").unwrap();
    let expected = [1.0, 0.1, 0.01, 0.001];
    assert!(fixed(&plain).iter().zip(expected).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-12));
    let linear = rope_of(r#"{"rope_scaling": {"type": "linear", "factor": 2}}"#).unwrap();
    assert!((fixed(&linear)[1] - 0.05).abs() < 1e-12);
    // Wavelengths of 6.3, 63, 628 and 6283 positions; 16 / 4 and 16 / 1 are the bounds.
    let llama3 = r#"{"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
        "original_max_position_embeddings": 16}}"#;
    let slow = fixed(&rope_of(llama3).unwrap());
    let s = (16.0 / (2.0 * PI) - 1.0) / 3.0;
    assert!(
        (slow[0] - ((1.0 - s) / 8.0 + s)).abs() < 1e-12 && (slow[3] - 0.001 / 8.0).abs() < 1e-12
    );
    let long = r#"{"max_position_embeddings": 128, "original_max_position_embeddings": 32,
        "rope_scaling": {"type": "su", "short_factor": [1, 1, 1, 1], "long_factor": [2, 2, 2, 2]}}"#;
    let long = rope_of(long).unwrap();
    assert!((long.gain - (1.0 + 4f64.ln() / 32f64.ln()).sqrt()).abs() < 1e-12);
    assert!(matches!(long.frequencies, Frequencies::ByLength { usual: 32, .. }));
}

#[test]
fn refusals() {
    let cases = [
        (
            r#"{"rope_scaling": {"rope_type": "spiral"}}"#, "N0214",
            "`rope_scaling.rope_type` is `spiral`",
        ),
        (r#"{"rope_scaling": {"type": "linear"}}"#, "N0204", "`rope_scaling.factor` is absent"),
        (
            r#"{"rope_scaling": {"type": "su", "short_factor": [1]}, "max_position_embeddings": 8}"#,
            "N0204",
            "short_factor",
        ),
        (
            r#"{"rope_parameters": {"partial_rotary_factor": 0.1}}"#, "N0204",
            "partial_rotary_factor",
        ),
        (r#"{"rope_theta": 0}"#, "N0204", "`rope_theta` is 0"),
    ];
    for (text, code, words) in cases {
        let found = rope_of(text).unwrap_err();
        assert!(found.code == code && found.message.contains(words), "{text}: {found}");
    }
}

/// What stands inside counts; the same outside is read with it, and anything else is told.
#[test]
fn fields_inside_go_before_those_around_them() {
    for (around, told) in [(0.5, 0), (1.0, 1)] {
        let text = format!(
            r#"{{"partial_rotary_factor": {around}, "rope_theta": 10000,
                "rope_parameters": {{"partial_rotary_factor": 0.5, "rope_theta": 10000.0}}}}"#
        );
        let c = Config::parse(text.as_bytes()).unwrap();
        assert_eq!(rope(&c, 8, DEFAULTS).unwrap().dims, 4, "{around}");
        let unread = c.unread();
        assert_eq!(unread.len(), told, "{unread:?}");
    }
}
