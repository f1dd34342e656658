//! Every param in ten kinds of conversions: it counts, or a finding names it, or it is refused. And files that are
//! not read although their names say that they should be.

use onnxd_integration_tests::{PLUGINS, command, converted, copied, folder_with, root};
use onnxd_ir::{Model, Tensor, text};
use onnxd_onnx::{WriteOptions, write_model};
use rayon::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const TABLE: &str = include_str!("params/counts.txt");

const NETWORK: &str = "
net (float[N,2,6,6] x) => (float[N,5] y)
<float[4,2,3,3] w1, float[64,5] w2>
{
  c1 = Conv<kernel_shape = [3, 3]>(x, w1)
  r1 = Relu(c1)
  f1 = Flatten(r1)
  y = MatMul(f1, w2)
}";

const N2D2: &str = "DefaultModel=Frame
[sp]
SizeX=6
SizeY=6
NbChannels=2
[conv1]
Input=sp
Type=Conv
KernelSize=3
NbOutputs=4
ActivationFunction=Rectifier
[fc]
Input=conv1
Type=Fc
NbOutputs=5
ActivationFunction=Linear
[fc.Target]
";

/// A kind of conversion, in the order of the table's columns.
struct Way {
    files: &'static [&'static str],
    sets: &'static [&'static str],
    frontend: &'static str,
    output: &'static str,
    /// Shapes of the inputs.
    shapes: &'static str,
}

const SHAPES: &str = "[[1, 2, 6, 6]]";
const PICTURE: &str = "[[1, 16, 16, 3]]";

const WAYS: [Way; 10] = [
    Way { files: &["net.onnx"], sets: &[], frontend: "onnx", output: "y", shapes: SHAPES },
    Way {
        files: &["net.onnx", "calib.npz"],
        sets: &["quantization.format=QDQ"],
        frontend: "onnx",
        output: "y",
        shapes: SHAPES,
    },
    Way {
        files: &["net.onnx"],
        sets: &["quantization.format=QDQ", "quantization.mode=weight_only"],
        frontend: "onnx",
        output: "y",
        shapes: SHAPES,
    },
    Way {
        files: &["net.ini"],
        sets: &["source.random=true"],
        frontend: "n2d2",
        output: "fc",
        shapes: SHAPES,
    },
    Way {
        files: &["net.ini", "calib.npz"],
        sets: &["source.random=true", "nbbits=8"],
        frontend: "n2d2",
        output: "fc",
        shapes: SHAPES,
    },
    Way {
        files: &["torch/net.pt"],
        sets: &["export.input_shapes=[[2, 1, 8, 8]]"],
        frontend: "torch",
        output: "output",
        shapes: "[[1, 1, 8, 8]]",
    },
    Way {
        files: &["torch/net.pt2"],
        sets: &[],
        frontend: "torch",
        output: "softmax",
        shapes: "[[1, 1, 8, 8]]",
    },
    Way {
        files: &["tensorflow/net"],
        sets: &[],
        frontend: "tensorflow",
        output: "output_0",
        shapes: PICTURE,
    },
    Way {
        files: &["tensorflow/net.tflite"],
        sets: &[],
        frontend: "tensorflow",
        output: "output_0",
        shapes: PICTURE,
    },
    Way {
        files: &["tensorflow/net.keras"],
        sets: &[],
        frontend: "tensorflow",
        output: "scores",
        shapes: PICTURE,
    },
];

/// Params that make another conversion of it, or keep others from counting; each is set alone.
const ALONE: [&str; 9] = [
    "quantization.inc.dynamic_axes", "export.dynamic_axes", "passes.profile", "passes.compare",
    "quantization.format", "quantization.mode", "quantization.rounding", "calibration.random",
    "calibration.data",
];

/// Params that together ask for another form.
const OTHER_FORM: &str = "quantization.inc.";

struct ParamEffects {
    key: &'static str,
    value: &'static str,
    cells: Vec<&'static str>,
}

fn rows() -> Vec<ParamEffects> {
    let lines = TABLE.lines().filter(|l| !l.starts_with('#'));
    let row = |line: &'static str| {
        let (set, cells) = line.split_once(" | ").expect("a row has cells");
        let (key, value) = set.split_once(" = ").expect("a row has a value");
        let cells: Vec<_> = cells.split_whitespace().collect();
        assert_eq!(cells.len(), WAYS.len(), "{line}");
        ParamEffects { key, value: value.trim(), cells }
    };
    lines.map(row).collect()
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 7919 % 2003) as f32 / 1001.0 - 1.0).collect()
}

fn prepared() -> TempDir {
    let folder = folder_with(&PLUGINS);
    let mut graph = text::parse_graph(NETWORK).unwrap();
    for (name, dims) in [("w1", vec![4, 2, 3, 3]), ("w2", vec![64, 5])] {
        let v = graph.value_named(name).unwrap();
        let data = values(dims.iter().product());
        graph.set_initializer(v, Some(Tensor::from_vec(dims, data)));
    }
    let at = folder.path();
    write_model(&Model::new(graph, 8, 17), &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    fs::write(at.join("net.ini"), N2D2).unwrap();
    let corpus = root().join("integration-tests/corpus/torch");
    let torch = at.join("torch");
    fs::create_dir(&torch).unwrap();
    for (case, file) in [("scripted-cnn", "net.pt"), ("exported-cnn", "net.pt2")] {
        fs::copy(corpus.join(case).join(file), torch.join(file)).unwrap();
    }
    let tensorflow = at.join("tensorflow");
    let corpus = root().join("integration-tests/corpus/tensorflow");
    for (from, to) in [
        ("saved-cnn/net", "net"),
        ("tflite-cnn/net.tflite", "net.tflite"),
        ("keras-cnn/net.keras", "net.keras"),
    ] {
        copied(&corpus.join(from), &tensorflow.join(to));
    }
    let pictures = || vec![8, 16, 16, 3];
    let calibrated = [
        (at, vec![8, 2, 6, 6]),
        (&torch, vec![8, 1, 8, 8]),
        (&tensorflow, pictures()),
        (&tensorflow.join("net"), pictures()),
    ];
    for (at, dims) in calibrated {
        let values = values(dims.iter().product());
        let samples = Tensor::from_vec(dims, values);
        onnxd_arrays::write(&at.join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    }
    folder
}

/// Exit status, standard error and report of a conversion with these params beside the way's own.
fn with(folder: &Path, out: &str, way: &Way, params: &[&ParamEffects]) -> (i32, String, Value) {
    let set = |row: &&ParamEffects| {
        let value = row.value.replace("@frontend", way.frontend).replace("@output", way.output);
        let value = value.replace("@shapes", way.shapes);
        format!("{}={value}", row.key)
    };
    let sets: Vec<String> = params.iter().map(set).collect();
    let sets: Vec<&str> = way.sets.iter().copied().chain(sets.iter().map(String::as_str)).collect();
    converted(folder, out, way.files, &sets)
}

/// The params that are told to have no effect.
fn idle(report: &Value) -> BTreeSet<String> {
    let found = report["diagnostics"].as_array().into_iter().flatten();
    let found = found.filter(|d| d["code"] == "N0111" && d["severity"] == "error");
    let key = |d: &Value| d["message"].as_str().unwrap().split('`').nth(1).unwrap().to_owned();
    found.map(key).collect()
}

#[test]
fn every_param_counts_or_is_told() {
    let folder = prepared();
    let (folder, rows) = (folder.path(), rows());
    let (_, stderr, report) = with(folder, "all", &WAYS[0], &[]);
    let known = report["params"].as_array().expect(&stderr).iter();
    let known: Vec<&str> = known.map(|p| p["key"].as_str().unwrap()).collect();
    let listed: BTreeSet<&str> = rows.iter().map(|r| r.key).collect();
    let missing: Vec<_> =
        known.iter().filter(|k| **k != "passes.order" && !listed.contains(**k)).collect();
    assert!(missing.is_empty(), "counts.txt lacks {missing:?}");
    let wrong: Vec<String> =
        (0..WAYS.len()).into_par_iter().flat_map_iter(|at| wrong(folder, at, &rows)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The code of the first line that begins with one; lines about progress come before it.
fn first_code(stderr: &str) -> &str {
    let line = stderr.lines().find(|l| l.starts_with("N0") && l.get(5..6) == Some(" "));
    line.map_or("", |line| &line[..5])
}

/// Cells of a column that are not what the program does.
fn wrong(folder: &Path, at: usize, rows: &[ParamEffects]) -> Vec<String> {
    let way = &WAYS[at];
    let alone = |row: &&ParamEffects| ALONE.iter().any(|key| row.key.starts_with(key));
    let all = |cell: &str, other: bool| -> Vec<&ParamEffects> {
        let rows = rows.iter().filter(|r| r.cells[at] == cell && !alone(r));
        rows.filter(|r| r.key.starts_with(OTHER_FORM) == other).collect()
    };
    let mut groups: Vec<Vec<&ParamEffects>> =
        vec![all("x", false), all("x", true), all("-", false)];
    assert!(all("-", true).is_empty());
    let refused = |row: &&ParamEffects| !["x", "-"].contains(&row.cells[at]);
    groups.extend(rows.iter().filter(|r| alone(r) || refused(r)).map(|row| vec![row]));
    let done = groups.par_iter().enumerate().flat_map_iter(|(i, group)| {
        let (status, stderr, report) = with(folder, &format!("out-{at}-{i}"), way, group);
        let idle = idle(&report);
        group.iter().filter_map(move |row| {
            let is = match (status, idle.contains(row.key)) {
                (0 | 1, true) => "-",
                (0 | 1, false) => "x",
                _ => first_code(&stderr),
            };
            let cell = row.cells[at];
            (is != cell).then(|| format!("{} in column {at}: {is}, not {cell}\n{stderr}", row.key))
        })
    });
    done.collect()
}

#[test]
fn names_that_match_nothing_are_told_with_the_nearest() {
    let folder = prepared();
    let sets = [
        "quantization.format=QDQ", "quantization.exclude=[\"c1\", \"c2\"]",
        "quantization.op_types=Conv,MatMull", "passes.disable=fuse-pads",
    ];
    let files = ["net.onnx", "calib.npz"];
    let (status, stderr, _) = converted(folder.path(), "out", &files, &sets);
    assert_eq!(status, 1, "{stderr}");
    for words in [
        "names `c2`, and the model has no such node; nodes that it has: `c1`",
        "names `MatMull`, and the model has no such operator; operators that it has: `MatMul`",
        "names `fuse-pads`, which does not run in the profile default; did you mean `fuse-pad`?",
    ] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(!stderr.contains("names `c1`") && !stderr.contains("names `Conv`"), "{stderr}");
}

#[test]
fn keys_of_single_nodes_that_do_nothing_are_told() {
    let folder = prepared();
    let files = ["net.onnx", "calib.npz"];
    let keys = ["block_size=16", "activation_type=uint16", "per_channel=false"];
    let keys = keys.map(|key| format!("quantization.overrides.\"*\".{key}"));
    for (mode, idle) in [
        ("static", &["block_size"][..]),
        ("dynamic", &["block_size", "activation_type"]),
        ("weight_only", &["activation_type", "per_channel"]),
    ] {
        let mode = format!("quantization.mode={mode}");
        let mut sets = vec!["quantization.format=QDQ", &mode];
        sets.extend(keys.iter().map(String::as_str));
        let (status, stderr, _) = converted(folder.path(), "out", &files, &sets);
        assert_eq!(status, 1, "{mode}: {stderr}");
        for key in ["block_size", "activation_type", "per_channel"] {
            let told = stderr.contains(&format!("sets `{key}` of `*`, which has no effect"));
            assert_eq!(told, idle.contains(&key), "{mode}: {key}: {stderr}");
        }
    }
}

#[test]
fn params_beside_a_network_that_is_named_alone_are_told() {
    let folder = prepared();
    let at = folder.path();
    fs::write(at.join("params.toml"), "[export]\nopset = 18\n").unwrap();
    let beside = "N0112 input: `params.toml` lies beside the network and was not read";
    let (status, stderr, report) = converted(at, "alone", &["net.onnx"], &[]);
    assert_eq!((status, stderr.matches(beside).count()), (0, 1), "{stderr}");
    assert_eq!(report["verdict"], "succeeded");
    assert!(fs::read_to_string(at.join("alone/report.txt")).unwrap().contains("was not read"));
    let explained = command(at).arg("explain").arg(at.join("net.onnx")).output().unwrap();
    assert!(String::from_utf8_lossy(&explained.stdout).contains("`params.toml` lies beside"));
    let (status, stderr, report) = converted(at, "both", &["net.onnx", "params.toml"], &[]);
    assert_eq!((status, stderr.contains("N0112")), (0, false), "{stderr}");
    let opset = report["params"].as_array().unwrap().iter().find(|p| p["key"] == "export.opset");
    assert_eq!(opset.unwrap()["value"], "18", "{report}");
    // Those of another network are not meant, and the network's own displace those of the folder.
    fs::write(at.join("other.params.toml"), "").unwrap();
    fs::write(at.join("net.params.ini"), "").unwrap();
    let (_, stderr, _) = converted(at, "own", &["net.onnx"], &[]);
    assert!(stderr.contains("`net.params.ini` lies beside"), "{stderr}");
    assert_eq!(stderr.matches("N0112").count(), 1, "{stderr}");
}

#[test]
fn files_that_nearly_have_a_name_that_is_read_are_told() {
    let folder = prepared();
    let drop = folder.path().join("drop");
    fs::create_dir(&drop).unwrap();
    fs::copy(folder.path().join("net.onnx"), drop.join("net.onnx")).unwrap();
    let misses =
        ["params.txt", "param.toml", "params.yaml", "calib.npy", "input.npz", "output.npz"];
    for name in misses.iter().chain(&["README.md", "params.toml"]) {
        fs::write(drop.join(name), "").unwrap();
    }
    let (status, stderr, _) = converted(folder.path(), "out", &["drop"], &[]);
    assert_eq!(status, 1, "{stderr}");
    for name in misses {
        assert!(
            stderr.contains(&format!("N0112 input: `{name}` was not read")),
            "{name}: {stderr}"
        );
    }
    assert_eq!(stderr.matches("N0112").count(), misses.len(), "{stderr}");
}

#[test]
fn where_weights_go_is_decided_by_their_size() {
    let folder = prepared();
    let sizes = ["100000", "1000", "16"].map(|bytes| {
        let threshold = format!("export.external_data_threshold_bytes={bytes}");
        let sets = ["export.external_data=always", &threshold];
        let (status, stderr, _) = converted(folder.path(), bytes, &["net.onnx"], &sets);
        assert_eq!(status, 0, "{stderr}");
        let data = folder.path().join(bytes).join("model.onnx.data");
        fs::metadata(data).map_or(0, |m| m.len())
    });
    assert!(sizes[0] == 0 && 0 < sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
}

#[test]
fn a_file_of_params_that_an_option_names_is_read_or_refused() {
    let folder = folder_with(&PLUGINS);
    let drop = folder.path().join("drop");
    fs::create_dir(&drop).unwrap();
    fs::write(drop.join("net.ini"), N2D2).unwrap();
    let convert = |(name, text): (&str, &str)| {
        fs::write(drop.join(name), text).unwrap();
        converted(folder.path(), "out", &["drop"], &[]).1
    };
    let params = "source.random=true\nexport-parameters=more.ini\n";
    let missing = convert(("params.ini", params));
    assert!(
        missing.contains("N0105") && missing.contains("`more.ini`, which is not there"),
        "{missing}"
    );
    let wrong = convert(("more.ini", "ImplicitCasting=perhaps\n"));
    assert!(wrong.contains("N0105") && wrong.contains("more.ini:1"), "{wrong}");
    let further = convert(("more.ini", "export-parameters=params.ini\n"));
    assert!(further.contains("`more.ini` names a further file"), "{further}");
}
