//! Params as they are resolved with the plugins of this repository: their rows, spellings and what they imply.

use onnxd_config::{Declared, DefaultValue, PARAMS_BYTES_MAX, Params, toml_text};
use onnxd_diagnostics::Diagnostics;
use onnxd_integration_tests::declared;
use serde_json::{Value, json};
use std::sync::LazyLock;

static DECLARED: LazyLock<Declared> = LazyLock::new(declared);

fn resolve(files: &[(&str, &str)], overrides: &[String]) -> Result<Params, Diagnostics> {
    Params::resolve(&DECLARED, files, overrides)
}

fn toml(text: &str) -> Result<Params, Diagnostics> {
    resolve(&[("params.toml", text)], &[])
}

fn ini(text: &str) -> Result<Params, Diagnostics> {
    resolve(&[("params.ini", text)], &[])
}

fn set(overrides: &[&str]) -> Result<Params, Diagnostics> {
    resolve(&[], &overrides.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
}

fn messages(result: Result<Params, Diagnostics>) -> Vec<String> {
    let found = result.unwrap_err();
    found.0.iter().map(|d| format!("{} {}", d.code, d.message)).collect()
}

#[test]
fn defaults_are_complete() {
    let params = resolve(&[], &[]).unwrap();
    assert_eq!(params.entries().len(), DECLARED.rows().len() + 1);
    assert!(params.entries().iter().all(|e| e.origin == "default" || e.key == "passes.order"));
    let json = params.resolved().peek("");
    assert_eq!(json["export"]["opset"], Value::Null);
    assert_eq!(json["export"]["constant_folding"], true);
    assert_eq!(json["quantization"]["format"], "none");
    assert_eq!(json["quantization"]["n2d2"]["nbbits"], 8);
    assert_eq!(json["quantization"]["n2d2"]["calib"], -1);
    assert_eq!(json["check"]["tolerance_abs"], 1e-4);
    assert_eq!(params.get("export.opset"), None);
    assert_eq!(params.get("quantization.n2d2.act_rescaling_mode"), Some(&json!("Single-shift")));
    assert_eq!(params.get("check.tolerance_rel"), Some(&json!(1e-3)));
    assert_eq!(params.get("quantization.per_channel"), Some(&json!(true)));
    assert_eq!(
        json["passes"]["order"],
        json!(passes_without(&[
            "inline-functions", "fuse-rms-norm", "fuse-rotary-embedding", "fuse-attention",
            "fuse-genai-skip-norm",
        ]))
    );
}

/// The passes of the default profile without some.
fn passes_without(left_out: &[&str]) -> Vec<String> {
    let mut passes = onnxd_config::profile("default").unwrap();
    let all = passes.len();
    passes.retain(|id| !left_out.contains(&id.as_str()));
    assert_eq!(passes.len() + left_out.len(), all);
    passes
}

#[test]
fn every_row_round_trips() {
    let mut keys = std::collections::BTreeSet::new();
    for row in DECLARED.rows() {
        assert!(keys.insert(row.key.clone()), "{} is there twice", row.key);
        assert!(row.help.ends_with('.'), "{}", row.key);
        assert!(row.key.contains('.'), "{}", row.key);
        assert!(
            !DECLARED.rows().iter().any(|r| r.section() == row.key),
            "{} is a section",
            row.key
        );
        let DefaultValue::Value(value) = row.default.clone() else { continue };
        let text = format!("[{}]\n{} = {}\n", row.section(), row.name(), toml_text(&value));
        let from_toml = toml(&text).unwrap();
        assert_eq!(from_toml.get(&row.key), Some(&value), "{text}");
        assert_eq!(from_toml.origin(&row.key), "params.toml:2");
        let pair = format!("{}={}", row.key, toml_text(&value));
        assert_eq!(ini(&pair).unwrap().get(&row.key), Some(&value), "{pair}");
        assert_eq!(set(&[&pair]).unwrap().get(&row.key), Some(&value), "{pair}");
    }
}

#[test]
fn every_mistyped_key_suggests_the_right_one() {
    for row in DECLARED.rows() {
        let name = row.name();
        let mistyped = format!("{}x{}", &name[..name.len() / 2], &name[name.len() / 2..]);
        let found = messages(toml(&format!("{}.{mistyped} = 1", row.section())));
        let expected = format!("did you mean `{}`?", row.key);
        assert!(found[0].contains(&expected), "{mistyped}: {found:?}");
        assert!(found[0].starts_with("N0104 params.toml:1: "), "{found:?}");
    }
}

#[test]
fn n2d2_spelling_of_the_command_line() {
    let text = "; as on the command line\nnbbits=8\n-calib=16 # samples\n\
                act-rescaling-mode=Fixed-point\nact-rescale-per-output=1\nno-cle\n\
                no-unsigned=\nact-clipping-mode=\"KL-Divergence\"\nw=my \\\nweights\nseed=7\n\
                ImplicitCasting=1\nFakeQuantization=0\nexport=ONNX\nexport.opset=18\n\
                fuse=1\n[calibration]\nbatch_size=4\n";
    let params = ini(text).unwrap();
    let expected = [
        ("quantization.format", json!("N2D2"), "nbbits in params.ini:2"),
        ("quantization.n2d2.nbbits", json!(8), "nbbits in params.ini:2"),
        ("quantization.n2d2.calib", json!(16), "params.ini:3"),
        ("quantization.n2d2.act_rescaling_mode", json!("Fixed-point"), "params.ini:4"),
        ("quantization.n2d2.act_rescale_per_output", json!(true), "params.ini:5"),
        ("quantization.n2d2.no_cle", json!(true), "params.ini:6"),
        ("quantization.n2d2.no_unsigned", json!(true), "params.ini:7"),
        ("quantization.n2d2.act_clipping_mode", json!("KL-Divergence"), "params.ini:8"),
        ("source.weights", json!("my weights"), "w in params.ini:9"),
        ("source.seed", json!(7), "params.ini:11"),
        ("quantization.n2d2.implicit_casting", json!(true), "params.ini:12"),
        ("quantization.n2d2.fake_quantization", json!(false), "params.ini:13"),
        ("export.opset", json!(18), "params.ini:15"),
        ("calibration.batch_size", json!(4), "params.ini:18"),
    ];
    for (key, value, origin) in expected {
        assert_eq!((params.get(key), params.origin(key)), (Some(&value), origin), "{key}");
    }
    let other = [
        "fuse-recurrent", "merge-splits", "fuse-clip", "fuse-rms-norm", "fuse-rotary-embedding",
        "fuse-attention", "fuse-scale", "fuse-affine", "fuse-rms-division", "fuse-transpose",
        "unsigned-weights", "fuse-gemm", "fuse-genai-skip-norm",
    ];
    assert_eq!(params.resolved().peek("passes.order"), &json!(passes_without(&other)));
}

#[test]
fn options_of_neural_compressor_are_those_of_all_conversions() {
    let text = "[quantization.inc]\nquant_format = \"qoperator\"\nopset_version = 12\n\
                recipe = \"QDQ_OP_INT32_BIAS\"\ninput_names = [\"x\"]\n\
                output_names = [\"y\"]\ndynamic_axes = { x = { 0 = \"batch_size\" } }\n";
    let params = toml(text).unwrap();
    let expected = [
        (
            "quantization.format",
            json!("inc-qlinear"),
            "quantization.inc.quant_format in params.toml:2",
        ),
        ("export.opset", json!(12), "quantization.inc.opset_version in params.toml:3"),
        (
            "quantization.recipe",
            json!("QDQ_OP_INT32_BIAS"),
            "quantization.inc.recipe in params.toml:4",
        ),
        ("export.input_names", json!(["x"]), "quantization.inc.input_names in params.toml:5"),
        ("export.output_names", json!(["y"]), "quantization.inc.output_names in params.toml:6"),
        (
            "export.dynamic_axes",
            json!({"x": {"0": "batch_size"}}),
            "quantization.inc.dynamic_axes in params.toml:7",
        ),
    ];
    for (key, value, origin) in expected {
        assert_eq!((params.get(key), params.origin(key)), (Some(&value), origin), "{key}");
    }
    assert!(params.notes().is_empty());
    let key = |pairs: &[&str], key: &str| {
        let pairs: Vec<String> = pairs.iter().map(|p| format!("quantization.{p}")).collect();
        let found = resolve(&[], &pairs).unwrap();
        (found.get(key).cloned(), found.notes().len())
    };
    let format = "quantization.format";
    assert_eq!(key(&["inc.dtype=int8"], format).0, Some(json!("inc-qdq")));
    assert_eq!(key(&["inc.quant_format=QLinear", "inc.dtype=fp32"], format).0, Some(json!("none")));
    // What is stated wins; QDQ needs scales for channels, and says so.
    assert_eq!(key(&["inc.dtype=int8", "format=QDQ"], format).0, Some(json!("QDQ")));
    assert_eq!(key(&["inc.opset_version=11"], "export.opset"), (Some(json!(13)), 1));
    assert_eq!(key(&["inc.opset_version=14"], "export.opset"), (Some(json!(14)), 0));
    let wrong = messages(toml("[quantization.inc]\nopset_versoin = 14\ndtype = \"int4\"\n"));
    assert!(wrong[0].contains("did you mean `quantization.inc.opset_version`?"), "{wrong:?}");
    assert!(wrong[1].contains("dtype") && wrong[1].contains("fp32"), "{wrong:?}");
}

#[test]
fn negative_widths_ask_for_floats() {
    let widths = [("-16", "float16"), ("-32", "float32"), ("-64", "float64")];
    for (nbbits, float) in widths {
        let params = ini(&format!("nbbits={nbbits}")).unwrap();
        assert_eq!(params.get("quantization.format"), Some(&json!("none")));
        assert_eq!(params.get("export.float_type"), Some(&json!(float)));
    }
    for nbbits in (1..=16).chain([32, 64]) {
        let params = set(&[&format!("nbbits={nbbits}")]).unwrap();
        assert_eq!(params.get("quantization.format"), Some(&json!("N2D2")));
        assert_eq!(params.get("quantization.n2d2.nbbits"), Some(&json!(nbbits)));
    }
    for nbbits in ["0", "17", "-8", "8.0", "eight", ""] {
        let found = messages(ini(&format!("nbbits={nbbits}")));
        assert!(found[0].starts_with("N0105 params.ini:1: `nbbits` "), "{found:?}");
        let lists_all = found[0].contains("from 1 to 16 | 32 | 64 | -16 | -32 | -64");
        assert!(lists_all || nbbits.is_empty(), "{found:?}");
    }
}

#[test]
fn a_stated_format_wins_over_an_implied_one_of_the_same_file_only() {
    let both = "quantization.format=QDQ\nnbbits=8\n";
    assert_eq!(ini(both).unwrap().get("quantization.format"), Some(&json!("QDQ")));
    let files = [("params.toml", "[quantization]\nformat = \"QDQ\"\n"), ("params.ini", "nbbits=8")];
    let params = resolve(&files, &[]).unwrap();
    assert_eq!(params.get("quantization.format"), Some(&json!("N2D2")));
    let params = resolve(&files, &["nbbits=-32".to_owned()]).unwrap();
    assert_eq!(params.get("quantization.format"), Some(&json!("none")));
    assert_eq!(params.origin("quantization.format"), "nbbits in --set");
}

#[test]
fn weights_of_dev_null_are_random() {
    let params = ini("w=/dev/null\nw-ignore=1\n").unwrap();
    assert_eq!(params.get("source.random"), Some(&json!(true)));
    assert_eq!(params.get("source.weights_ignore"), Some(&json!(true)));
    assert_eq!(params.get("source.weights"), None);
}

#[test]
fn options_without_effect_are_noted() {
    let params = ini("dev=1\nnbbits=4\nnbbits=8\n").unwrap();
    let notes: Vec<_> = params.notes().iter().map(|n| n.message.as_str()).collect();
    let expected = [
        "params.ini:1: `dev` has no effect: onnxd computes on the processor.",
        "params.ini:3: `nbbits` replaces the value at params.ini:2.",
    ];
    assert_eq!(notes, expected);
    assert_eq!(params.get("quantization.n2d2.nbbits"), Some(&json!(8)));
}

#[test]
fn files_of_params_are_named_by_an_option() {
    let named = |text: &str, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        Params::files_named(&DECLARED, &[("params.ini", text)], &sets)
    };
    assert_eq!(named("export-parameters=\"a b.ini\" ; N2D2's\n", &[]), ["a b.ini"]);
    assert_eq!(named("-export-parameters=a.ini\nexport-parameters=b.ini\n", &[]), ["b.ini"]);
    assert_eq!(named("export-parameters=a.ini\n", &["-export-parameters=c.ini"]), ["c.ini"]);
    assert!(named("[other]\nexport-parameters=a.ini\n", &[]).is_empty());
    assert!(named("nbbits=8\n", &["seed=1"]).is_empty());
    for text in ["export-parameters\n", "export-parameters=\n"] {
        assert!(messages(ini(text))[0].contains("`export-parameters` needs a value"), "{text}");
    }
}

#[test]
fn everything_wrong_in_an_ini_file_is_named_at_once() {
    let text = "implicitcasting=1\nact-rescaling-mode=Fixed-point8\nno-cle=yes\nlearn=1\n\
                export=CPP\nw=/abs/weights\ncalib=\"1\nopset=17\nexport.opset=six\nbogus\n[x\n\
                act-quantil-value=0.5\nact-quantile-value=1.5\nexport.bogus\n";
    let found = messages(ini(text));
    let expected = [
        // The lexical findings come first.
        "N0106 params.ini:7: a `\"` is not closed",
        "N0106 params.ini:11: a section is written `[name]`",
        "N0104 params.ini:1: unknown key `implicitcasting`; did you mean `ImplicitCasting`?",
        "N0105 params.ini:2: `act-rescaling-mode` must be \"Floating-point\" | ",
        "N0105 params.ini:3: `no-cle` must be true | false, not \"yes\"",
        "N0105 params.ini:4: `learn` is not supported: onnxd converts trained networks",
        "N0105 params.ini:5: `export` must be \"ONNX\", not \"CPP\"",
        "N0105 params.ini:6: `w` must be \"/dev/null\" | a path inside the submission",
        "N0104 params.ini:8: unknown key `opset`; did you mean `export.opset`?",
        "N0105 params.ini:9: `export.opset` must be an integer from 7 to 30",
        "N0104 params.ini:10: unknown key `bogus`",
        "N0104 params.ini:12: unknown key `act-quantil-value`; did you mean `act-quantile-value`?",
        "N0105 params.ini:13: `act-quantile-value` must be a number from 0 to 1",
        "N0106 params.ini:14: `export.bogus` is not of the form KEY=VALUE",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (message, start) in found.iter().zip(expected) {
        assert!(message.starts_with(start), "{message}\n{start}");
    }
}

#[test]
fn values_in_toml_are_checked() {
    let cases = [
        ("export.opset = 6", "an integer from 7 to 30"),
        ("export.opset = 99999999999999999999", "an integer of 64 bits"),
        ("check.tolerance_abs = inf", "a finite number"),
        ("job.name = 1979-05-27", "must not be a date"),
        ("job.name = \"../x\"", "a file name without folders"),
        ("job.name = \"\"", "a file name without folders"),
        ("source.weights = \"../x\"", "stays inside the submission"),
        ("source.weights = \"/x\"", "stays inside the submission"),
        ("source.weights = \".\"", "stays inside the submission"),
        ("export.input_shapes = [1, 2]", "a list of shapes"),
        ("export.input_shapes = [[1, -2]]", "a list of shapes"),
        ("export.input_shapes = [[1, 2.0]]", "a list of shapes"),
        ("export.input_dtypes = [\"flota32\"]", "did you mean `float32`?"),
        ("export.dynamic_axes = [0]", "a table such as"),
        ("export.dynamic_axes.x = [-1]", "a list of axes or a table"),
        ("export.dynamic_axes.x = [0, 0]", "names axis 0 of `x` twice"),
        ("export.dynamic_axes.x = { 0 = \"a\", 00 = \"b\" }", "names axis 0 of `x` twice"),
        ("export.dynamic_axes.x = { batch = 0 }", "a list of axes or a table"),
        ("export.dynamic_axes.x = { 0 = 1 }", "a list of axes or a table"),
        ("quantization.overrides.conv1 = 1", "for node `conv1` must be a table"),
        ("quantization.overrides.conv1.per_chanel = true", "did you mean `per_channel`?"),
        ("quantization.overrides.conv1.per_channel = 1", "must be true | false"),
        ("quantization.n2d2.nbbits = -32", "an integer from 1 to 16 | 32 | 64"),
        ("passes.profile = \"fast\"", "\"default\" | \"onnxruntime\" | \"none\""),
        ("[[export]]\nopset = 17", "`export` is a section, not a key"),
    ];
    for (text, why) in cases {
        let found = messages(toml(text));
        assert!(found.len() == 1 && found[0].contains(why), "{text}: {found:?}");
        assert!(found[0].starts_with("N0105 params.toml:1: "), "{text}: {found:?}");
    }
}

#[test]
fn dynamic_axes_in_three_notations() {
    let mixed = toml("[export.dynamic_axes]\nx = [0, 2]\ny = { 0 = \"batch\", 3 = \"w\" }\n");
    let expected = json!({
        "x": { "0": "x_dynamic_axes_1", "2": "x_dynamic_axes_2" },
        "y": { "0": "batch", "3": "w" },
    });
    assert_eq!(mixed.unwrap().get("export.dynamic_axes"), Some(&expected));
}

#[test]
fn overrides_reach_into_tables_and_lists() {
    let params = set(&[
        "export.dynamic_axes.x=[0]", "export.dynamic_axes.y={ 1 = \"n\" }",
        "quantization.overrides.\"conv1.1\".weight_type=uint8",
        "quantization.overrides.\"conv1.1\".per_channel=true",
        "quantization.overrides.\"conv1.1\".per_channel=false", "export.input_names=a,b",
        "export.input_shapes=[[1, \"h\"], []]", "job.name=2024", "quantization.format=QDQ",
    ])
    .unwrap();
    let axes = json!({ "x": { "0": "x_dynamic_axes_1" }, "y": { "1": "n" } });
    assert_eq!(params.get("export.dynamic_axes"), Some(&axes));
    let nodes = json!({ "conv1.1": { "weight_type": "uint8", "per_channel": false } });
    assert_eq!(params.get("quantization.overrides"), Some(&nodes));
    assert_eq!(params.get("export.input_names"), Some(&json!(["a", "b"])));
    assert_eq!(params.get("export.input_shapes"), Some(&json!([[1, "h"], []])));
    assert_eq!(params.get("job.name"), Some(&json!("2024")));
    let found = messages(set(&["export.opest=17", "opset", "nbits=8"]));
    assert_eq!(found[0], "N0104 --set: unknown key `export.opest`; did you mean `export.opset`?");
    assert!(found[1].starts_with("N0704 `--set opset` is not"), "{found:?}");
    assert_eq!(found[2], "N0104 --set: unknown key `nbits`; did you mean `nbbits`?");
}

#[test]
fn values_that_contradict_each_other() {
    let found = messages(ini("nbbits=8\ncalib=0\n"));
    assert!(found[0].starts_with("N0105 params.ini:2: `quantization.n2d2.calib` = 0"), "{found:?}");
    ini("nbbits=-32\ncalib=0\n").unwrap();
    let found =
        messages(toml("[export]\ninput_shapes = [[1]]\ninput_dtypes = [\"float32\", \"int64\"]\n"));
    assert!(found[0].starts_with("N0105 params.toml:3: `export.input_dtypes` has 2"), "{found:?}");
}

fn order_of(params: &Params) -> Vec<&str> {
    let order = params.get("passes.order").and_then(Value::as_array).unwrap();
    order.iter().filter_map(Value::as_str).collect()
}

#[test]
fn passes_follow_profile_enable_and_disable() {
    let text = "[passes]\nenable = [\"equalize-weights\", \"fuse-pad\"]\n\
                disable = [\"remove-dropout\", \"fuse-batch-norm\"]\n";
    let params = toml(text).unwrap();
    let order = order_of(&params);
    let left_out = [
        "inline-functions", "fuse-rms-norm", "fuse-rotary-embedding", "fuse-attention",
        "remove-dropout", "fuse-batch-norm", "fuse-genai-skip-norm",
    ];
    let mut expected = passes_without(&left_out);
    expected.push("equalize-weights".to_owned());
    assert_eq!(order, expected);
    let newest = toml("export.opset = 23\n").unwrap();
    assert!(order_of(&newest).contains(&"fuse-rms-norm"));
    let none = toml("[passes]\nprofile = \"none\"\nenable = [\"fuse-pad\"]\n").unwrap();
    assert_eq!(order_of(&none), ["fuse-pad"]);
    let quantized = toml("quantization.format = \"QDQ\"\n").unwrap();
    let quantized = order_of(&quantized);
    assert_eq!(
        quantized[..2],
        ["inline-functions", "remove-dropout"],
        "functions stay in float only"
    );
    let direct = messages(toml("passes.order = []"));
    assert!(direct[0].starts_with("N0104 "), "{direct:?}");
}

#[test]
fn files_are_bounded_and_named_by_kind() {
    let large = "#".repeat(PARAMS_BYTES_MAX + 1);
    for name in ["params.toml", "params.ini"] {
        let found = messages(resolve(&[(name, &large)], &[]));
        assert!(found[0].starts_with(&format!("N0106 {name}: the file has 1048577")), "{found:?}");
    }
    assert!(messages(resolve(&[("params.txt", "")], &[]))[0].starts_with("N0106 "));
    let deep = format!("export.input_shapes = {}", "[".repeat(200_000));
    assert!(messages(toml(&deep))[0].starts_with("N0106 params.toml:1: "));
    let found = messages(toml(&format!("{} = 1", "k".repeat(500_000))));
    assert!(found[0].len() < 300, "{}", found[0].len());
}

#[test]
fn windows_lines_and_a_byte_order_mark_are_read() {
    let params = ini("\u{feff}nbbits=8\r\ncalib=4\r\n").unwrap();
    assert_eq!(params.get("quantization.n2d2.calib"), Some(&json!(4)));
    let params = toml("\u{feff}[export]\r\nopset = 18\r\n").unwrap();
    assert_eq!(params.get("export.opset"), Some(&json!(18)));
}

#[test]
fn the_range_of_stimuli_is_a_word_or_a_number() {
    let of = |set: &str| resolve(&[], &[set.to_owned()]);
    let range = |set: &str| of(set).unwrap().get("quantization.n2d2.stimuli_range").cloned();
    assert_eq!(range("nbbits=8"), Some(json!("declared")));
    assert_eq!(range("stimuli-range=data"), Some(json!("data")));
    assert_eq!(range("quantization.n2d2.stimuli_range=2"), Some(json!(2.0)));
    for wrong in ["stimuli-range=0", "stimuli-range=-1", "stimuli-range=most", "stimuli-range="] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_negative_width_takes_back_a_positive_one() {
    let both = set(&["nbbits=4", "nbbits=-64"]).unwrap();
    assert_eq!(both.get("quantization.format"), Some(&json!("none")));
    assert_eq!(both.get("quantization.n2d2.nbbits"), Some(&json!(8)));
    assert_eq!(both.origin("quantization.n2d2.nbbits"), "default");
}
