//! Plugins through the built program: ours work, one in C works, and hostile ones cost one attempt and nothing else.

use onnxd_integration_tests::{
    command, library, outcome, root, with_plugins_of, write_small_model,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

struct PluginRun {
    status: i32,
    stderr: String,
    report: Value,
}

/// One conversion of a small model with `pass` from the libraries in a folder of their own.
fn convert(folder: &TempDir, plugin: &Path, pass: &str, settings: &[(&str, &str)]) -> PluginRun {
    let enable = format!("passes.enable=[\"{pass}\"]");
    converted(folder, plugin, &[("--set", &enable)], settings)
}

fn converted(
    folder: &TempDir,
    plugin: &Path,
    params: &[(&str, &str)],
    settings: &[(&str, &str)],
) -> PluginRun {
    let plugins = folder.path().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    for library in [plugin, &library("libonnxd_frontend_onnx.so")] {
        fs::copy(library, plugins.join(library.file_name().unwrap())).unwrap();
    }
    let model = folder.path().join("model.onnx");
    write_small_model(&model, "words to be dropped");
    let out = folder.path().join("out");
    let mut run = command(folder.path());
    with_plugins_of(&mut run, &plugins);
    run.envs(settings.iter().copied());
    run.arg("convert").arg(&model).arg("--out").arg(&out);
    run.args(["--set", "passes.profile=none"]);
    run.args(params.iter().flat_map(|(flag, value)| [flag, value]));
    let (status, stderr) = outcome(&run.output().unwrap());
    let report = fs::read(out.join("report.json")).unwrap_or_default();
    let report = serde_json::from_slice(&report).unwrap_or(Value::Null);
    PluginRun { status, stderr, report }
}

fn hostile(pass: &str, settings: &[(&str, &str)]) -> PluginRun {
    let folder = tempfile::tempdir().unwrap();
    let run = convert(&folder, &library("libhostile_plugins.so"), pass, settings);
    assert!(!folder.path().join("out/model.onnx").exists() || run.status <= 1);
    run
}

#[test]
fn crashes_name_the_plugin_and_the_cause() {
    let cases = [
        ("panic", "hostile-plugins/src/lib.rs:"),
        ("panic", ": hostile on purpose"),
        ("segfault", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("overflow-stack", "SIG"),
        ("exit", "without a result"),
        ("invalid-graph", "nothing"),
    ];
    for (pass, cause) in cases {
        let run = hostile(pass, &[]);
        assert_eq!(run.status, 4, "{pass}: {}", run.stderr);
        assert!(run.stderr.contains(cause), "{pass}: {}", run.stderr);
        assert!(
            run.stderr.contains("org.onnxd.hostile") || run.stderr.contains(pass),
            "{pass}: {}",
            run.stderr
        );
        assert_eq!(run.report["verdict"], "failed", "{pass}");
    }
}

#[test]
fn a_pass_that_never_returns_is_stopped() {
    let run = hostile("hang", &[("ONNXD_WORKER_TIMEOUT_S", "2")]);
    assert_eq!(run.status, 4, "{}", run.stderr);
    assert!(run.stderr.contains("N0405") && run.stderr.contains("hang"), "{}", run.stderr);
}

#[test]
fn a_pass_that_eats_memory_meets_its_limit() {
    let run = hostile("eat-memory", &[("ONNXD_WORKER_MEMORY_MIB_MAX", "512")]);
    assert!(matches!(run.status, 4 | 75), "{}: {}", run.status, run.stderr);
    assert!(run.stderr.contains("eat-memory"), "{}", run.stderr);
}

/// The hostile library's front-end panics in its probe; the model goes to the front-end that works.
#[test]
fn a_failing_probe_does_not_keep_a_model_from_another_front_end() {
    let run = hostile("read-passwd", &[]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.report["recognition"]["frontend"], "onnx");
    let declined = run.report["recognition"]["declined"].to_string();
    assert!(declined.contains("bad-probe") && declined.contains("panic"), "{declined}");
}

/// What must not be possible is refused by the system; the pass goes on and the job succeeds.
#[test]
fn the_outside_is_out_of_reach() {
    for pass in ["read-passwd", "write-outside", "connect", "fork"] {
        let run = hostile(pass, &[]);
        assert_eq!(run.status, 0, "{pass}: {}", run.stderr);
        let note = run.report["passes"][0]["notes"][0].as_str().unwrap_or_default().to_owned();
        assert!(note.contains("refused"), "{pass}: {note}");
    }
}

/// Both passes are of one library and run in one call; the one at fault is named.
#[test]
fn a_pass_that_changes_the_result_is_named() {
    let more = "keep-result\", \"wrong-result";
    let run = hostile(more, &[]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert_eq!(run.report["verdict"], "succeeded_with_findings");
    let told = "before wrong-result of plugin org.onnxd.hostile";
    assert!(run.stderr.contains("N0607") && run.stderr.contains(told), "{}", run.stderr);
    let row = &run.report["comparisons"][0];
    assert_eq!(row["passes"], serde_json::json!(["keep-result", "wrong-result"]));
    assert_eq!(row["different"], 1, "{row}");

    let run = hostile("keep-result", &[]);
    assert_eq!((run.status, &run.report["verdict"]), (0, &"succeeded".into()), "{}", run.stderr);
    let row = &run.report["comparisons"][0];
    assert_eq!((row["different"].as_u64(), row["not_compared"].as_u64()), (Some(0), Some(0)));
}

/// What a quantizer does not measure is measured for it, on random numbers.
#[test]
fn a_quantizer_that_spoils_the_outputs_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let format = [("--set", "quantization.format=negate")];
    let run = converted(&folder, &library("libhostile_plugins.so"), &format, &[]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let told = "on random numbers output `y` has -";
    assert!(run.stderr.contains("N0606") && run.stderr.contains(told), "{}", run.stderr);
}

#[test]
fn a_graph_that_changed_without_a_word_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let built =
        in_c(&folder, "  if (rewrites > 0) return og_host->graph_put(job, og_encoded(g));\n");
    let run = convert(&folder, &built, "strip-doc", &[]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(run.stderr.contains("N0406") && run.stderr.contains("did not say"), "{}", run.stderr);
}

/// The pass in C, with `more` before it says what it did.
fn in_c(folder: &TempDir, more: &str) -> PathBuf {
    let source = fs::read_to_string(root().join("plugins/example-c/strip_doc.c")).unwrap();
    let last = "  status = og_passed(";
    let changed = source.replace(last, &format!("{more}\n{last}"));
    assert!(changed.len() > source.len());
    let from = folder.path().join("strip_doc.c");
    fs::write(&from, changed).unwrap();
    compiled(folder, &from)
}

fn compiled(folder: &TempDir, source: &Path) -> PathBuf {
    let name = source.file_stem().unwrap().to_string_lossy();
    let built = folder.path().join(format!("lib{name}.so"));
    let status = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O2", "-I"])
        .arg(root().join("core/plugin-abi"))
        .arg("-o")
        .args([&built, source])
        .arg("-lm")
        .status();
    assert!(status.unwrap().success(), "the example in C does not compile");
    built
}

fn example_in_c(folder: &TempDir, name: &str) -> PathBuf {
    compiled(folder, &root().join("plugins/example-c").join(name))
}

#[test]
fn what_a_plugin_logs_is_shown_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let line = |level: i32, words: &str| {
        format!("  og_host->log(job, {level}, og_text(\"stripper\"), og_text(\"{words}\"));\n")
    };
    let lines = [line(2, "a hazard"), line(3, "some chatter"), line(4, "for the author")];
    let built = in_c(&folder, &lines.concat());
    let run = convert(&folder, &built, "strip-doc", &[]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stderr.contains("stripper: warning: a hazard"), "{}", run.stderr);
    assert!(!run.stderr.contains("chatter"), "{}", run.stderr);
    let kept: Vec<String> = run.report["plugin_log"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| format!("{} {} {}", l["plugin"], l["level"], l["text"]).replace('"', ""))
        .collect();
    assert_eq!(
        kept,
        ["org.onnxd.example-c warning a hazard", "org.onnxd.example-c info some chatter"]
    );
}

#[test]
fn a_plugin_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let built = in_c(&folder, "");
    let run = convert(&folder, &built, "strip-doc", &[]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.report["passes"][0]["name"], "strip-doc");
    assert_eq!(run.report["passes"][0]["rewrites"], 1);
}

#[test]
fn a_quantizer_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let built = example_in_c(&folder, "round.c");
    let run = converted(&folder, &built, &[("--set", "quantization.format=round")], &[]);
    // No samples, so what it costs is measured on random numbers.
    assert!(run.status <= 1, "{}", run.stderr);
    let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
    let weights = model.graph.value_ids().filter_map(|v| model.graph[v].initializer());
    let reals: Vec<Vec<f64>> = weights.filter_map(|w| Some(w.to_reals()?.values)).collect();
    assert!(!reals.is_empty());
    for values in reals.iter().filter(|values| values.len() > 1) {
        let step = values.iter().fold(0f64, |most, x| most.max(x.abs())) / 7.0;
        let off = |x: &f64| (x / step - (x / step).round()).abs();
        assert!(values.iter().all(|x| off(x) < 1e-5), "{values:?}");
    }
    assert_ne!(run.report["quantization"]["tensors"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn a_front_end_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    fs::copy(example_in_c(&folder, "gain.c"), plugins.join("libgain.so")).unwrap();
    let (network, out) = (folder.path().join("net.gain"), folder.path().join("out"));
    for (text, status, said) in [("2.5\n", 0, ""), ("two\n", 2, "does not hold one number")] {
        fs::write(&network, text).unwrap();
        let mut run = command(folder.path());
        with_plugins_of(&mut run, &plugins);
        run.arg("convert").arg(&network).arg("--out").arg(&out);
        run.args(["--set", "passes.profile=none"]);
        let (found, stderr) = outcome(&run.output().unwrap());
        assert_eq!(found, status, "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
    let model = onnxd_onnx::load(&out.join("model.onnx")).unwrap().model;
    let op = model.graph.nodes().next().map(|(_, node)| node.op.clone());
    assert_eq!(op.as_deref(), Some("Mul"));
    let gain = model.graph.value_ids().find_map(|v| model.graph[v].initializer());
    assert_eq!(gain.unwrap().to_reals().unwrap().values, [2.5]);
}

#[test]
fn the_example_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    let example = library("libexample_plugin.so");
    fs::copy(&example, plugins.join("libexample_plugin.so")).unwrap();
    let network = folder.path().join("net.line");
    fs::write(&network, "scale 1 2\nclip 0 5\n").unwrap();
    let out = folder.path().join("out");
    let mut run = command(folder.path());
    with_plugins_of(&mut run, &plugins);
    run.arg("convert").arg(&network).arg("--out").arg(&out);
    run.args(["--set", "passes.profile=none"]);
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 0, "{stderr}");
    let model = onnxd_onnx::load(&out.join("model.onnx")).unwrap().model;
    assert_eq!(model.graph.node_count(), 3);

    fs::write(&network, "scale 1 2\nbend 3\nfold 4\n").unwrap();
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 3, "{stderr}");
    assert!(stderr.contains("line2") && stderr.contains("line3"), "{stderr}");
    // The result of the run before stays.
    let failed = out.join("failed");
    assert!(failed.join("report.json").exists());
    assert!(!failed.join("model.onnx").exists(), "a failed run leaves no model");
}

/// `plugins check` of a library, with samples.
fn checked(folder: &TempDir, library: &Path, samples: &[(&str, &Path)]) -> (i32, Vec<Value>) {
    let mut run = command(folder.path());
    run.args(["plugins", "check", "--json"]).arg(library);
    for (flag, path) in samples {
        run.arg(flag).arg(path);
    }
    let output = run.output().unwrap();
    let (status, stderr) = outcome(&output);
    let answer: Value = serde_json::from_slice(&output.stdout).expect(&stderr);
    (status, answer["cases"].as_array().unwrap().clone())
}

fn text_of<'c>(cases: &'c [Value], case: &str) -> (bool, &'c str) {
    let row = cases.iter().find(|c| c["case"] == case).expect(case);
    (row["passed"].as_bool().unwrap(), row["text"].as_str().unwrap())
}

#[test]
fn an_author_checks_a_plugin_on_samples() {
    let folder = tempfile::tempdir().unwrap();
    let (net, model) = (folder.path().join("net.line"), folder.path().join("model.onnx"));
    fs::write(&net, "scale 1 2\nclip 0 5\n").unwrap();
    write_small_model(&model, "doc");
    let example = library("libexample_plugin.so");
    let (status, cases) = checked(&folder, &example, &[("--drop", &net), ("--model", &model)]);
    assert_eq!(status, 0, "{cases:#?}");
    assert_eq!(text_of(&cases, "converts net.line"), (true, "succeeded by line"));
    assert!(text_of(&cases, "rewrites net.line").1.starts_with("0 rewrites"), "{cases:#?}");
    let told = text_of(&cases, "quantizes model.onnx");
    assert!(told.0 && told.1.contains("on random numbers output `y` has"), "{told:?}");
    assert!(!cases.iter().any(|c| c["case"] == "converts model.onnx"), "{cases:#?}");

    let (status, cases) = checked(&folder, &example, &[("--drop", &model)]);
    let other = text_of(&cases, "converts model.onnx");
    assert!(!other.0 && other.1.contains("took the network, not this plugin"), "{other:?}");
    assert_eq!(status, 1, "{cases:#?}");
}

#[test]
fn a_check_on_samples_finds_a_pass_that_changes_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.onnx");
    write_small_model(&model, "doc");
    let strip = example_in_c(&folder, "strip_doc.c");
    let (status, cases) = checked(&folder, &strip, &[("--model", &model)]);
    assert_eq!(status, 0, "{cases:#?}");
    assert!(text_of(&cases, "rewrites model.onnx").1.starts_with("1 rewrites"), "{cases:#?}");
    let source = fs::read_to_string(root().join("plugins/example-c/strip_doc.c")).unwrap();
    let wrong = "  og_msg *node = og_node(g, 0);\n  \
                 if (node) og_get(node, OG_NODE_OP, 0)->bytes = og_text(\"Sub\");\n";
    let changed = source.replace("  status = og_passed(", &format!("{wrong}  status = og_passed("));
    let path = folder.path().join("wrong.c");
    fs::write(&path, changed).unwrap();
    let (status, cases) = checked(&folder, &compiled(&folder, &path), &[("--model", &model)]);
    assert_eq!(status, 1, "{cases:#?}");
    let told = text_of(&cases, "rewrites model.onnx");
    assert!(!told.0 && told.1.contains("N0607"), "{told:?}");
}

#[test]
fn a_conversion_takes_a_plugin_by_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (folder.path().join("model.onnx"), folder.path().join("out"));
    write_small_model(&model, "doc");
    let mut run = command(folder.path());
    run.arg("convert").arg(&model).arg("--out").arg(&out);
    run.arg("--plugin").arg(example_in_c(&folder, "strip_doc.c"));
    run.args(["--set", "passes.enable=[\"org.onnxd.example-c/strip-doc\"]"]);
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 0, "{stderr}");
    let report: Value =
        serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    let passes = report["passes"].as_array().unwrap();
    assert!(passes.iter().any(|p| p["name"] == "strip-doc" && p["rewrites"] == 1), "{passes:?}");
}

/// The pass in C under another name, with a param of that default.
fn declaring(folder: &TempDir, name: &str, default: u32) -> PathBuf {
    let source = fs::read_to_string(root().join("plugins/example-c/strip_doc.c")).unwrap();
    let summary = "\"summary = \\\"Drops the model's doc_string\\\"\\n\"";
    let param = format!(
        "{summary}\n\"[[components.params]]\\nkey = 'passes.strip.limit'\\ntype = '0..9'\\ndefault = {default}\\n\"\n\
         \"help = 'A limit.'\\n\""
    );
    let changed = source.replace(summary, &param);
    let changed = changed.replace("strip-doc", &format!("strip-{name}"));
    let changed = changed.replace("org.onnxd.example-c", &format!("org.example.{name}"));
    let path = folder.path().join(format!("strip_{name}.c"));
    fs::write(&path, changed).unwrap();
    compiled(folder, &path)
}

#[test]
fn plugins_that_declare_a_param_differently_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    let model = folder.path().join("model.onnx");
    write_small_model(&model, "doc");
    let same = "`org.example.one` and `org.example.two` declare the param `passes.strip.limit`";
    let out = folder.path().join("out");
    for (second, clash) in [(3, false), (4, true)] {
        for library in [declaring(&folder, "one", 3), declaring(&folder, "two", second)] {
            fs::copy(&library, plugins.join(library.file_name().unwrap())).unwrap();
        }
        let front = library("libonnxd_frontend_onnx.so");
        fs::copy(&front, plugins.join("libonnxd_frontend_onnx.so")).unwrap();
        let run = |args: &[&str]| {
            let mut run = command(folder.path());
            with_plugins_of(&mut run, &plugins);
            let output = run.args(args).output().unwrap();
            let (status, stderr) = outcome(&output);
            (status, stderr + &String::from_utf8(output.stdout).unwrap())
        };
        for args in [&["plugins", "list"][..], &["plugins", "check", "org.example.two"]] {
            let (status, said) = run(args);
            assert_eq!(status, i32::from(clash), "{args:?}: {said}");
            assert_eq!(said.matches(same).count(), usize::from(clash), "{args:?}: {said}");
        }
        let (model, out) = (model.display().to_string(), out.display().to_string());
        let profile = "passes.profile=none";
        let with = "passes.enable=[\"strip-two\"]";
        let args = ["convert", &model, "--out", &out, "--set", profile, "--set", with];
        let (status, said) = run(&args);
        assert_eq!(status, i32::from(clash), "{said}");
        assert_eq!(said.contains("N0408") && said.contains(same), clash, "{said}");
        let (status, said) = run(&args[..6]);
        assert_eq!(status, 0, "nothing reads it: {said}");
    }
}
