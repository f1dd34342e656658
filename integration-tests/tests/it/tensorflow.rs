//! TensorFlow's files through the watched folder, and quantized in one step with their conversion.

use crate::site::{self, SETTLE, Site, report};
use onnxd_arrays::Arrays;
use onnxd_integration_tests::{PLUGINS, command, converted, copied, folder_with, numbers, root};
use onnxd_ir::Tensor;
use std::fs;
use std::path::{Path, PathBuf};

/// One network of each format.
const FILES: [(&str, &str); 6] = [
    ("frozen-cnn", "net.pb"),
    ("keras-cnn", "net.keras"),
    ("h5-cnn", "net.h5"),
    ("tflite-cnn", "net.tflite"),
    ("tflite-int8", "net.tflite"),
    ("loops-zip", "net.zip"),
];

fn case(name: &str) -> PathBuf {
    root().join("integration-tests/corpus/tensorflow").join(name)
}

fn recorded(case: &Path, name: &str) -> Arrays {
    onnxd_arrays::read(&case.join(format!("expected.{name}.npz"))).unwrap()
}

/// What is wrong with what a model computes, beside what TensorFlow computed.
fn wrong(model: &Path, case: &Path) -> Option<String> {
    let model = onnxd_onnx::load(model).unwrap().model;
    let wanted: Vec<Tensor> = recorded(case, "outputs").into_iter().map(|(_, t)| t).collect();
    numbers::wrong(&numbers::outputs(&model, &recorded(case, "inputs")), &wanted, 1e-5)
}

fn assert_succeeded(site: &Site, name: &str, case: &Path) {
    site.wait_for(name, "succeeded");
    let result = site.outbox().join(name);
    let said = report(&result);
    assert_eq!(said["verdict"], "succeeded", "{name}: {said}");
    assert_eq!(wrong(&result.join("model.onnx"), case), None, "{name}");
}

#[test]
fn a_file_of_each_format_passes_through_the_watched_folder() {
    let site = Site::new();
    let daemon = site.start();
    let to = |name: &str, file: &str| {
        let ending = file.strip_prefix("net").unwrap();
        site.inbox().join(format!("{name}{ending}"))
    };
    for (name, file) in FILES {
        fs::copy(case(name).join(file), to(name, file)).unwrap();
    }
    for (name, _) in FILES {
        assert_succeeded(&site, name, &case(name));
    }
    assert_eq!(daemon.stop().code(), Some(0));
}

/// The parts of a SavedModel in each order: nothing is converted before the last is there.
#[test]
fn parts_of_a_saved_model_arrive_in_every_order() {
    const PARTS: [&str; 3] =
        ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"];
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let site = Site::new();
    let daemon = site.start();
    let case = case("saved-cnn");
    let put = |order: [usize; 3], parts: &[usize]| {
        let folder = site.inbox().join(named(order));
        fs::create_dir_all(folder.join("variables")).unwrap();
        for part in parts.iter().map(|i| PARTS[*i]) {
            fs::copy(case.join("net").join(part), folder.join(part)).unwrap();
        }
    };
    // Params that differ, because equal drops would be one job.
    for (rounds, order) in (10..).zip(ORDERS) {
        put(order, &[]);
        let params = format!("[passes]\nrounds = {rounds}\n");
        fs::write(site.inbox().join(named(order)).join("params.toml"), params).unwrap();
    }
    for step in 0..2 {
        ORDERS.iter().for_each(|order| put(*order, &order[step..=step]));
        std::thread::sleep(SETTLE * 3);
    }
    for order in ORDERS {
        let none: Vec<serde_json::Value> = site.jobs_named(&named(order));
        assert!(none.is_empty(), "{order:?}: {none:?}");
        put(order, &order[2..]);
    }
    for order in ORDERS {
        assert_succeeded(&site, &named(order), &case);
    }
    assert_eq!(daemon.stop().code(), Some(0));
}

fn named(order: [usize; 3]) -> String {
    format!("order-{}{}{}", order[0], order[1], order[2])
}

/// A SavedModel and a TFLite model with calibration samples beside them become integers in each format.
#[test]
fn dropped_networks_are_quantized_in_one_step() {
    for (name, files) in [("saved-cnn", "net"), ("tflite-cnn", "net.tflite")] {
        let case = case(name);
        let folder = folder_with(&PLUGINS);
        let at = folder.path();
        copied(&case.join(files), &at.join(files));
        onnxd_arrays::write(&at.join("calib.npz"), &vec![("x".into(), samples())]).unwrap();
        let convert = |format: &str| {
            let set = format!("quantization.format={format}");
            let given = [files, "calib.npz"];
            let (status, stderr, report) = converted(at, format, &given, &[&set]);
            assert_eq!(status, 0, "{name}, {format}: {stderr}");
            (onnxd_onnx::load(&at.join(format).join("model.onnx")).unwrap().model, report)
        };
        let inputs = recorded(&case, "inputs");
        let float = numbers::outputs(&convert("none").0, &inputs);
        let formats =
            [("QDQ", "QuantizeLinear"), ("QLinear", "QLinearConv"), ("N2D2", "ConvInteger")];
        for (format, operator) in formats {
            let (model, report) = convert(format);
            let findings = onnxd_ir::verify(&model, onnxd_ir::VerifyLevel::Full);
            assert!(findings.0.is_empty(), "{name}, {format}: {findings}");
            let ops: Vec<&str> = model.graph.nodes().map(|(_, node)| node.op.as_str()).collect();
            assert!(ops.contains(&operator), "{name}, {format}: {ops:?}");
            if format != "N2D2" {
                let found = numbers::outputs(&model, &inputs);
                assert_eq!(numbers::wrong(&found, &float, 0.05), None, "{name}, {format}");
                let quantized = &report["quantization"]["quality"]["quantized"];
                assert_eq!(quantized, 3, "{name}, {format}: {report}");
            }
        }
    }
}

/// Numbers like those that the case was recorded with: normal ones, nearly.
fn samples() -> Tensor {
    let mut state = 7u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let values = (0..32 * 768).map(|_| (0..12).map(|_| next()).sum()).collect::<Vec<f32>>();
    Tensor::from_vec(vec![32, 16, 16, 3], values)
}

/// What no network of ONNX can do is refused by its name, with what to do.
#[test]
fn tables_and_texts_are_refused_by_name() {
    let folder = folder_with(&PLUGINS);
    let at = folder.path();
    copied(&case("refused-strings").join("net"), &at.join("net"));
    let set = ["source.signature=lookup"];
    let (status, stderr, report) = converted(at, "out", &["net"], &set);
    assert_eq!(status, 3, "{stderr}");
    let said = report["diagnostics"].to_string();
    assert!(said.contains("LookupTableFindV2"), "{said}");
}

/// Where a source has constants and no weights, nothing can be left out, and that is told.
#[test]
fn constants_are_written_without_weights_too() {
    for (name, file) in [("frozen-cnn", "net.pb"), ("tflite-cnn", "net.tflite")] {
        let folder = folder_with(&PLUGINS);
        let at = folder.path();
        copied(&case(name).join(file), &at.join(file));
        let (status, stderr, _) = converted(at, "out", &[file], &["export.export_params=false"]);
        assert_eq!((status, stderr.matches("N0111").count()), (1, 1), "{name}: {stderr}");
        let path = at.join("out/model.onnx");
        let graph = onnxd_onnx::load(&path).unwrap().model.graph;
        assert!(graph.value_ids().any(|v| graph[v].initializer().is_some()), "{name}");
        assert_eq!((graph.inputs().len(), wrong(&path, &case(name))), (1, None), "{name}");
    }
}

/// `explain` and the list of the inbox name the file that is missing, and `convert` does.
#[test]
fn a_missing_file_is_named() {
    const INDEX: &str = "variables/variables.index";
    const DATA: &str = "variables/variables.data-00000-of-00001";
    let net = case("saved-cnn").join("net");
    let site = Site::new();
    let daemon = site.start();
    let folder = folder_with(&PLUGINS);
    let at = folder.path();
    let cases = [
        ("data", DATA, "waiting for variables/variables.data-00000-of-00001 (data"),
        ("index", INDEX, "waiting for variables/variables.index (index"),
        ("graph", "saved_model.pb", "TensorFlow SavedModel: `saved_model.pb` is missing"),
    ];
    for (name, missing, _) in cases {
        for to in [at, &site.inbox()] {
            copied(&net, &to.join(name));
            fs::remove_file(to.join(name).join(missing)).unwrap();
        }
        let explained = command(at).arg("explain").arg(at.join(name)).output().unwrap();
        let said = String::from_utf8_lossy(&explained.stderr);
        assert!(said.contains(&format!("`{missing}` is missing")), "{name}: {said}");
        let (status, stderr, _) = converted(at, &format!("out-{name}"), &[name], &[]);
        assert_eq!(status, 2, "{name}: {stderr}");
        assert!(stderr.contains(&format!("`{missing}` is missing")), "{name}: {stderr}");
    }
    for (name, _, said) in cases {
        site::wait(said, || {
            let (_, listed, _) = site.run(&["ctl", "inbox"]);
            let is_its = |line: &&str| line.trim().starts_with(name) && line.contains(said);
            listed.lines().find(is_its).map(str::to_owned)
        });
    }
    assert_eq!(daemon.stop().code(), Some(0));
}

/// Bytes of files that were not copied whole: what to do is said, and of which file.
#[test]
fn files_that_end_early_are_named() {
    let folder = folder_with(&PLUGINS);
    let at = folder.path();
    let files = [
        ("saved_model.pb", 700, "N0201", "The file is no SavedModel"),
        ("saved_model.pb", 0, "N0101", "the file is empty"),
        ("variables/variables.index", 60, "N0201", "The checkpoint's index is damaged"),
        (
            "variables/variables.data-00000-of-00001", 10, "N0202",
            "`variables/variables.data-00000-of-00001` ends before",
        ),
    ];
    for (i, (file, length, code, said)) in files.into_iter().enumerate() {
        let (net, out) = (format!("net-{i}"), format!("out-{i}"));
        copied(&case("saved-cnn").join("net"), &at.join(&net));
        let cut = fs::File::options().write(true).open(at.join(&net).join(file)).unwrap();
        cut.set_len(length).unwrap();
        let (status, stderr, _) = converted(at, &out, &[&net], &[]);
        assert_eq!(status, 2, "{file}: {stderr}");
        assert!(stderr.contains(code) && stderr.contains(said), "{file}: {stderr}");
        if code != "N0101" {
            assert!(stderr.to_lowercase().contains("copy"), "{file}: {stderr}");
        }
    }
}

/// What a network keeps between calls goes from call to call, beginning with the file beside the model.
#[test]
fn ten_calls_with_their_state_give_what_tensorflow_gave() {
    for (name, net, count) in
        [("stream", "net", 4), ("stream-tflite", "net.tflite", 2), ("stream-keras", "net.keras", 5)]
    {
        let case = case(name);
        let folder = folder_with(&PLUGINS);
        let at = folder.path();
        copied(&case.join(net), &at.join(net));
        let (status, stderr, _) = converted(at, "no", &[net], &["export.mutations=error"]);
        assert_eq!(status, 3, "{name}: {stderr}");
        assert_eq!(
            stderr.matches("keeps nothing between calls").count(),
            count,
            "{name}: {stderr}"
        );
        let (status, stderr, report) = converted(at, "out", &[net], &["export.mutations=outputs"]);
        assert_eq!(status, 0, "{name}: {stderr}");

        let model = onnxd_onnx::load(&at.join("out/model.onnx")).unwrap().model;
        let states = numbers::states(&report);
        let kept = onnxd_arrays::read(&at.join("out/model.state.npz")).unwrap();
        assert_eq!((kept.len(), states.len()), (count, count), "{name}");
        let wrong = numbers::wrong_call(&model, &states, kept, &case.join("calls.npz"));
        assert_eq!(wrong, None, "{name}");
    }
}
