//! Calibration through the built program: where samples come from, and what is kept of them.

use onnxd_integration_tests::{converted, folder_with};
use onnxd_ir::{DataType, Dim, Model, Tensor, ValueType, text};
use onnxd_onnx::{WriteOptions, write_model};
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Consecutive convolutions, and a normalization whose gains may differ, before a product.
const NETWORK: &str = "
net (float[N,2,6,6] x) => (float[N,5] y)
<float[4,2,3,3] w1, float[4,4,1,1] w2, float[64] g, float[64] h, float[64,5] w3>
{
  c1 = Conv<kernel_shape = [3, 3]>(x, w1)
  r1 = Relu(c1)
  c2 = Conv<kernel_shape = [1, 1]>(r1, w2)
  r2 = Relu(c2)
  f1 = Flatten(r2)
  n1 = LayerNormalization(f1, g, h)
  y = MatMul(n1, w3)
}";

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i + seed) * 7919 % 2003) as f32 / 1001.0 - 1.0).collect()
}

/// A folder with a network whose first channel and whose first gain are so many times as large as
/// the others (the weights that read the channel are as much smaller), and the plugins that it takes.
fn network(channel: f32, gain: f32) -> TempDir {
    let folder = folder_with(&[
        "libonnxd_frontend_onnx.so", "libonnxd_quant_onnx.so", "libonnxd_quant_inc.so",
    ]);
    let mut graph = text::parse_graph(NETWORK).unwrap();
    for (name, dims, large, factor) in [
        ("w1", vec![4, 2, 3, 3], 18, channel),
        ("w2", vec![4, 4, 1, 1], 0, 1.0),
        ("g", vec![64], 1, gain),
        ("h", vec![64], 0, 1.0),
        ("w3", vec![64, 5], 0, 1.0),
    ] {
        let v = graph.value_named(name).unwrap();
        let mut data = values(dims.iter().product(), dims.len());
        data[..large].iter_mut().for_each(|w| *w *= factor);
        if name == "w2" {
            data.iter_mut().step_by(4).for_each(|w| *w /= channel);
        }
        graph.set_initializer(v, Some(Tensor::from_vec(dims, data)));
    }
    let at = folder.path();
    write_model(&Model::new(graph, 8, 17), &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    let samples = Tensor::from_vec(vec![24, 2, 6, 6], values(24 * 72, 3));
    onnxd_arrays::write(&at.join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    folder
}

/// Exit status, standard error and report of a conversion into `out`.
fn convert(folder: &Path, out: &str, files: &[&str], sets: &[&str]) -> (i32, String, Value) {
    let sets = [&["passes.profile=none"][..], sets].concat();
    converted(folder, out, files, &sets)
}

#[test]
fn samples_that_nothing_reads_are_a_finding() {
    let folder = network(1.0, 1.0);
    let files = ["net.onnx", "calib.npz"];
    let (status, stderr, report) = convert(folder.path(), "float", &files, &[]);
    assert_eq!(status, 1, "{stderr}");
    let found = report["diagnostics"].to_string();
    assert!(found.contains("`calib.npz` was not read: the network was not quantized"), "{found}");
    assert!(found.contains("Add `quantization.format = \\\"QDQ\\\"`"), "{found}");
    // Whoever says that nothing is to be quantized knows of the samples.
    for (out, format) in [("integers", "QDQ"), ("asked", "none")] {
        let sets = [&*format!("quantization.format={format}")];
        let (_, stderr, report) = convert(folder.path(), out, &files, &sets);
        assert!(!report["diagnostics"].to_string().contains("was not read"), "{stderr}");
    }
}

#[test]
fn saved_statistics_make_the_same_model_without_samples() {
    let (even, uneven, outlier) = (network(1.0, 1.0), network(60.0, 1.0), network(1.0, 80.0));
    for (folder, sets, change) in [
        (&even, &["format=QDQ"][..], ""),
        (&even, &["format=QLinear", "calibration.method=entropy"], ""),
        (&even, &["format=QDQ", "calibration.method=percentile", "calibration.percentile=99"], ""),
        (&even, &["format=QDQ", "calibration.method=mse"], ""),
        (&even, &["format=QDQ", "calibration.method=moving_average"], ""),
        (&even, &["format=QDQ", "sqnr_db_min=45"], ""),
        (&even, &["format=inc-qdq"], ""),
        (&even, &["format=inc-qlinear"], ""),
        (&uneven, &["format=QDQ"], "equalized weights"),
        (&outlier, &["format=QDQ", "per_channel=false"], "smoothed activations"),
    ] {
        let section = |set: &&str| match set.contains('.') {
            true => (*set).to_owned(),
            false => format!("quantization.{set}"),
        };
        let sets: Vec<String> = sets.iter().map(section).collect();
        let mut sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let at = folder.path();
        let (status, stderr, _) = convert(at, "out", &["net.onnx", "calib.npz"], &sets);
        assert!(status <= 1, "{sets:?}: {stderr}");
        let saved = fs::read(at.join("out/calibration.json")).unwrap();
        let found: Value = serde_json::from_slice(&saved).unwrap();
        assert_eq!(found["choice"]["change"], change, "{sets:?}: {}", found["choice"]);
        fs::write(at.join("calibration.json"), &saved).unwrap();
        sets.push("calibration.reload=true");
        let (status, stderr, report) =
            convert(at, "again", &["net.onnx", "calibration.json"], &sets);
        assert!(status <= 1, "{sets:?}: {stderr}");
        let model = |out: &str| fs::read(at.join(out).join("model.onnx")).unwrap();
        assert!(model("out") == model("again"), "{sets:?}");
        let said = report["quantization"]["statistics"].as_str().unwrap();
        assert!(said.contains("of 24 samples, reloaded") && said.contains("not known"), "{said}");
    }
}

#[test]
fn statistics_of_another_model_or_for_another_method_are_refused() {
    let folder = network(1.0, 1.0);
    let (at, files) = (folder.path(), ["net.onnx", "calibration.json"]);
    let (status, stderr, _) =
        convert(at, "out", &["net.onnx", "calib.npz"], &["quantization.format=QDQ"]);
    assert!(status <= 1, "{stderr}");
    fs::copy(at.join("out/calibration.json"), at.join("calibration.json")).unwrap();
    let reload = |sets: &[&str]| {
        let sets = [&["quantization.format=QDQ", "calibration.reload=true"], sets].concat();
        let (status, stderr, _) = convert(at, "again", &files, &sets);
        (status, stderr)
    };
    assert!(reload(&[]).0 <= 1);
    assert!(reload(&["quantization.weight_type=uint8", "quantization.format=QLinear"]).0 <= 1);
    for (set, why) in [
        ("calibration.method=entropy", "no usable counts of `"),
        ("quantization.accuracy=auto", "accuracy: unknown, now auto"),
        ("quantization.sqnr_db_min=40", "sqnr_db_min: unknown, now 40"),
    ] {
        let (status, stderr) = reload(&[set]);
        assert_eq!(status, 2, "{set}: {stderr}");
        assert!(stderr.contains("N0603") && stderr.contains(why), "{set}: {stderr}");
    }
    let other = network(1.0, 2.0);
    fs::copy(other.path().join("net.onnx"), at.join("net.onnx")).unwrap();
    let (status, stderr) = reload(&[]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("N0603") && stderr.contains("another network"), "{stderr}");
    fs::write(at.join("calibration.json"), "{").unwrap();
    assert!(reload(&[]).1.contains("N0603"));
}

/// Only what takes samples differs.
#[test]
fn what_takes_samples_is_left_out_and_said() {
    let folder = network(1.0, 1.0);
    let at = folder.path();
    let sets = ["quantization.format=QDQ", "quantization.accuracy=auto"];
    let (status, stderr, _) = convert(at, "out", &["net.onnx", "calib.npz"], &sets);
    assert!(status <= 1, "{stderr}");
    let saved = fs::read_to_string(at.join("out/calibration.json")).unwrap();
    let mut saved: Value = serde_json::from_str(&saved).unwrap();
    saved["choice"]["correct_biases"] = true.into();
    fs::write(at.join("calibration.json"), saved.to_string()).unwrap();
    let sets = [sets[0], sets[1], "calibration.reload=true"];
    let (status, stderr, report) = convert(at, "again", &["net.onnx", "calibration.json"], &sets);
    assert!(status <= 1, "{stderr}");
    let said = report["diagnostics"].to_string();
    assert!(said.contains("N0604") && said.contains("biases were not corrected"), "{said}");
    let both = ["net.onnx", "calibration.json", "calib.npz"];
    let (status, stderr, report) = convert(at, "both", &both, &sets);
    assert!(status <= 1, "{stderr}");
    assert!(!report["diagnostics"].to_string().contains("N0604"), "{report}");
    assert!(report["quantization"]["layers"][0]["sqnr_db"].is_number(), "{report}");
}

/// The scale of the input in the report.
fn input_scale(report: &Value) -> f64 {
    let tensors = report["quantization"]["tensors"].as_array().unwrap();
    tensors.iter().find(|t| t["name"] == "x").unwrap()["scales"][0].as_f64().unwrap()
}

/// A network of pictures, with the sizes of its input, and a folder of colour pictures.
fn pictures(sizes: &str, weights: &[usize], tail: &str) -> TempDir {
    let folder = network(1.0, 1.0);
    let dims = weights.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let net = format!("net (float[N,{sizes}] x) => (float y) <float[{dims}] w> {{ {tail} }}");
    let mut graph = text::parse_graph(&net).unwrap();
    let w = graph.value_named("w").unwrap();
    let data = Tensor::from_vec(weights.to_vec(), values(weights.iter().product(), 2));
    graph.set_initializer(w, Some(data));
    let at = folder.path();
    write_model(&Model::new(graph, 8, 17), &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    fs::create_dir(at.join("calib")).unwrap();
    for n in 0..4u32 {
        let mut file = b"P6\n4 4\n255\n".to_vec();
        file.extend((0..48).map(|i| (i * (n + 1) % 200) as u8));
        fs::write(at.join(format!("calib/{n}.ppm")), file).unwrap();
    }
    folder
}

/// The largest magnitude decides the scale where ranges are symmetric.
#[test]
fn pictures_become_samples_as_params_say() {
    let conv = "y = Conv<kernel_shape = [3, 3]>(x, w)";
    let nchw = pictures("3,4,4", &[2, 3, 3, 3], conv);
    let nhwc = pictures("4,4,3", &[3, 5], "y = MatMul(x, w)");
    let grey = pictures("1,4,4", &[2, 1, 3, 3], conv);
    let sets = ["quantization.format=QDQ", "quantization.symmetric=true"];
    let mean_std = ["calibration.mean=[0.1, 0.2, 0.3]", "calibration.std=[0.5, 0.25, 0.125]"];
    let steps = 255.0 / 2.0;
    // The largest byte is the last one of the last picture.
    let largest = f64::from(47 * 4);
    let whitened = (largest / 255.0 - 0.3) / 0.125;
    for (folder, given, wanted) in [
        (&nchw, &["calibration.color=rgb"][..], largest / 255.0),
        (&nchw, &["calibration.scale=1"], largest),
        (&nchw, &mean_std, whitened),
        (&nhwc, &mean_std, whitened),
        (&nhwc, &["calibration.layout=nhwc", "calibration.scale=2"], 2.0 * largest),
    ] {
        let sets = [&sets, given].concat();
        let (status, stderr, report) = convert(folder.path(), "out", &["net.onnx", "calib"], &sets);
        // The pictures differ so much that one tells little of the others.
        assert!(status <= 1, "{given:?}: {stderr}");
        let scale = input_scale(&report);
        let wanted = wanted / steps;
        assert!((scale / wanted - 1.0).abs() < 1e-3, "{given:?}: {scale}, wanted {wanted}");
        assert_eq!(report["quantization"]["samples"], 4, "{report}");
        assert!(!report["diagnostics"].to_string().contains("N0507"), "{report}");
    }
    let (status, stderr, report) = convert(grey.path(), "out", &["net.onnx", "calib"], &sets);
    assert_eq!(status, 0, "{stderr}");
    let said = report["diagnostics"].to_string();
    assert!(
        said.contains("nothing says how pictures") && said.contains("grey from 0 to 1"),
        "{said}"
    );
    for (set, why) in [
        ("calibration.std=[1, 0, 1]", "is 0"),
        ("calibration.mean=[1, 2]", "2 numbers for 3 channels"),
        ("calibration.resize=3", "less than its sides"),
        ("calibration.layout=nhwc", "4 channels"),
    ] {
        let sets = [&sets[..], &[set]].concat();
        let (status, stderr, _) = convert(nchw.path(), "bad", &["net.onnx", "calib"], &sets);
        assert_eq!(status, 2, "{set}: {stderr}");
        assert!(stderr.contains("N0507") && stderr.contains(why), "{set}: {stderr}");
    }
}

/// A step of a recurrent network: what it remembers has no axis of samples first.
#[test]
fn inputs_of_different_first_sizes_are_filled_together() {
    let folder = network(1.0, 1.0);
    let step = "
step (float[1,4] x, float[2,1,3] h) => (float[2,1,5] y)
<float[4,3] w, float[3,5] v>
{
  p = MatMul(x, w)
  s = Add(h, p)
  y = MatMul(s, v)
}";
    let mut graph = text::parse_graph(step).unwrap();
    for (name, dims) in [("w", vec![4, 3]), ("v", vec![3, 5])] {
        let v = graph.value_named(name).unwrap();
        let data = values(dims.iter().product(), 5);
        graph.set_initializer(v, Some(Tensor::from_vec(dims, data)));
    }
    let at = folder.path();
    write_model(&Model::new(graph, 8, 17), &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    let (x, h) = (values(7 * 4, 1), values(14 * 3, 2));
    let arrays = vec![
        ("x".into(), Tensor::from_vec(vec![7, 4], x)),
        ("h".into(), Tensor::from_vec(vec![14, 1, 3], h)),
    ];
    onnxd_arrays::write(&at.join("calib.npz"), &arrays).unwrap();
    let sets = ["quantization.format=QLinear"];
    let (status, stderr, report) = convert(at, "out", &["net.onnx", "calib.npz"], &sets);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(report["quantization"]["samples"], 7);
}

/// Rows that fill no input, or as many for each as for the others only without regard to what is fixed.
#[test]
fn rows_that_do_not_belong_together_are_refused() {
    let folder = network(1.0, 1.0);
    let at = folder.path();
    let refused = |[a, b]: [usize; 2], [rows_a, rows_b]: [usize; 2], said: &str| {
        let net = format!(
            "net (float[{a},3] a, float[{b},3] b) => (float[{a},5] y, float[{b},5] z)
             <float[3,5] w> {{ y = MatMul(a, w) z = MatMul(b, w) }}"
        );
        let mut graph = text::parse_graph(&net).unwrap();
        let w = graph.value_named("w").unwrap();
        graph.set_initializer(w, Some(Tensor::from_vec(vec![3, 5], values(15, 5))));
        let model = Model::new(graph, 8, 17);
        write_model(&model, &at.join("net.onnx"), &WriteOptions::default()).unwrap();
        let rows = |n: usize| Tensor::from_vec(vec![n, 3], values(n * 3, n));
        let arrays = vec![("a".into(), rows(rows_a)), ("b".into(), rows(rows_b))];
        onnxd_arrays::write(&at.join("calib.npz"), &arrays).unwrap();
        let sets = ["quantization.format=QDQ"];
        let (status, stderr, _) = convert(at, "out", &["net.onnx", "calib.npz"], &sets);
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains("N0507") && stderr.contains(said), "{stderr}");
    };
    refused([2, 4], [8, 8], "samples: `a` 4, `b` 2");
    refused([4, 4], [8, 10], "samples: `a` 8, `b` 10");
}

/// A file for each run of a recurrent network: the batch is the second axis of its state, and a rate has no axis.
#[test]
fn files_of_whole_inputs_are_samples() {
    let folder = network(1.0, 1.0);
    let step = "
step (float[N,4] x, float[2,N,3] h, float r) => (float[2,N,5] y)
<float[4,3] w, float[3,5] v>
{
  p = MatMul(x, w)
  q = Mul(p, r)
  s = Add(h, q)
  y = MatMul(s, v)
}";
    let mut graph = text::parse_graph(step).unwrap();
    for (name, dims) in [("w", vec![4, 3]), ("v", vec![3, 5])] {
        let v = graph.value_named(name).unwrap();
        let data = values(dims.iter().product(), 5);
        graph.set_initializer(v, Some(Tensor::from_vec(dims, data)));
    }
    let at = folder.path();
    write_model(&Model::new(graph, 8, 17), &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    fs::create_dir(at.join("calib")).unwrap();
    let write = |n: usize, rate: Tensor| {
        let arrays = vec![
            ("x".into(), Tensor::from_vec(vec![1, 4], values(4, n))),
            ("h".into(), Tensor::from_vec(vec![2, 1, 3], values(6, n + 1))),
            ("r".into(), rate),
        ];
        onnxd_arrays::write(&at.join(format!("calib/{n}.npz")), &arrays).unwrap();
    };
    (0..9).for_each(|n| write(n, Tensor::scalar(1.0 + n as f32 / 8.0)));
    let sets = ["quantization.format=QDQ"];
    let (status, stderr, report) = convert(at, "out", &["net.onnx", "calib"], &sets);
    assert!(status <= 1, "{stderr}");
    assert_eq!(report["quantization"]["samples"], 9, "{report}");
    // As many as the state has rows: whose samples they are cannot be told.
    write(0, Tensor::from_vec(vec![3], vec![1f32; 3]));
    (1..9).for_each(|n| fs::remove_file(at.join(format!("calib/{n}.npz"))).unwrap());
    let (status, stderr, _) = convert(at, "bad", &["net.onnx", "calib"], &sets);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("numbers of samples: `x` 1, `r` 3"), "{stderr}");
}

#[test]
fn random_samples_are_a_loud_finding() {
    let folder = network(1.0, 1.0);
    let at = folder.path();
    let sets = ["quantization.format=QDQ", "quantization.symmetric=true", "calibration.random=32"];
    let run = |more: &[&str]| {
        let sets = [&sets[..], more].concat();
        let (status, stderr, report) = convert(at, "out", &["net.onnx"], &sets);
        assert_eq!(status, 1, "{more:?}: {stderr}");
        report
    };
    let normal = run(&[]);
    assert_eq!(normal["verdict"], "succeeded_with_findings");
    let said = normal["diagnostics"].to_string();
    assert!(said.contains("N0605") && said.contains("32 samples of random numbers"), "{said}");
    assert!(said.contains("`x` normal with mean 0"), "{said}");
    assert_eq!(normal["quantization"]["random_samples"], 32);
    let scale = input_scale(&normal);
    assert!((3.0..6.0).contains(&(scale * 127.5)), "{scale}");
    assert_eq!(scale, input_scale(&run(&["calibration.batch_size=5"])), "whatever the batch");
    assert_ne!(scale, input_scale(&run(&["calibration.random_seed=1"])));
    let even = input_scale(&run(&["calibration.random_range=[-20, 10]"]));
    assert!((19.0..=20.0).contains(&(even * 127.5)), "{even}");
}

/// Token ids that are looked up stay within the table; other integers are small.
#[test]
fn random_integers_fit_what_reads_them() {
    let folder = network(1.0, 1.0);
    let at = folder.path();
    let net = "net (int64[N,L] ids, int64[N] k) => (float y) <float[3,4] t, float[4,2] w> {
        u = Unsqueeze(ids, a)
        s = Squeeze(u, a)
        e = Gather(t, s)
        f = Cast<to = 1>(k)
        g = Unsqueeze(f, a2)
        h = Add(e, g)
        y = MatMul(h, w)
    }";
    let net = net.replace("<float", "<int64[1] a, int64[2] a2, float");
    let mut graph = text::parse_graph(&net).unwrap();
    for (name, data) in [
        ("a", Tensor::vector(vec![2i64])),
        ("a2", Tensor::vector(vec![1i64, 2])),
        ("t", Tensor::from_vec(vec![3, 4], values(12, 1))),
        ("w", Tensor::from_vec(vec![4, 2], values(8, 1))),
    ] {
        let v = graph.value_named(name).unwrap();
        graph.set_initializer(v, Some(data));
    }
    write_model(&Model::new(graph, 8, 17), &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    let sets = ["quantization.format=QDQ", "calibration.random=20"];
    let (status, stderr, _) = convert(at, "out", &["net.onnx"], &sets);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("calibration.random_size") && stderr.contains("`ids`"), "{stderr}");
    let sets = [sets[0], sets[1], "calibration.random_size=6"];
    let (status, stderr, report) = convert(at, "out", &["net.onnx"], &sets);
    assert_eq!(status, 1, "{stderr}");
    let said = report["diagnostics"].to_string();
    assert!(said.contains("`ids` integers below 3, `k` integers below 10"), "{said}");
}

#[test]
fn reports_draw_what_was_counted_and_list_what_was_tried() {
    let folder = network(1.0, 1.0);
    let at = folder.path();
    let files = ["net.onnx", "calib.npz"];
    let counts = |sets: &[&str]| {
        let sets = [&["quantization.format=QDQ"], sets].concat();
        let (status, stderr, report) = convert(at, "out", &files, &sets);
        assert!(status <= 1, "{stderr}");
        let tensors = report["quantization"]["tensors"].as_array().unwrap().clone();
        let x = tensors.into_iter().find(|t| t["name"] == "x").unwrap();
        (x["counts"].clone(), report, fs::read_to_string(at.join("out/report.html")).unwrap())
    };
    let (none, report, page) = counts(&[]);
    assert!(none.is_null() && !page.contains("<path"), "{none}");
    assert!(report["quantization"]["tensors"][0]["seen_min"].is_number(), "{report}");
    for set in ["calibration.histograms=true", "calibration.method=percentile"] {
        let (x, _, page) = counts(&[set]);
        let seen: Vec<u64> = serde_json::from_value(x["counts"].clone()).unwrap();
        assert_eq!(seen.iter().sum::<u64>(), 24 * 72, "{set}: {x}");
        assert!(seen.len() <= 64 && page.contains("<path d=\"M0 40V"), "{set}: {seen:?}");
    }
    let (_, report, page) = counts(&["quantization.accuracy=auto"]);
    let tried = report["quantization"]["tried"].as_array().unwrap();
    assert!(tried.len() >= 4, "{tried:?}");
    let chosen: Vec<_> = tried.iter().filter(|t| t["chosen"] == true).collect();
    let best = tried.iter().map(|t| t["sqnr_db"].as_f64().unwrap()).fold(0.0, f64::max);
    assert_eq!(chosen.len(), 1, "{tried:?}");
    assert_eq!(chosen[0]["sqnr_db"].as_f64(), Some(best));
    assert!(page.contains("<h2 id=\"tried\">Tried</h2>"), "{page}");
    assert!(!report["metadata"].to_string().contains("tried"), "{report}");
}

/// Largest memory of the process that quantized, in bytes.
fn peak(folder: &Path, sets: &[&str]) -> u64 {
    let (status, stderr, report) = convert(folder, "out", &["net.onnx", "calib.npz"], sets);
    assert!(status <= 1, "{sets:?}: {stderr}");
    let stages = report["stages"].as_array().unwrap();
    let stage = stages.iter().find(|s| s["name"] == "quantize").unwrap();
    stage["peak_rss_bytes"].as_u64().unwrap()
}

/// A hundred times as many samples take no more, beside the pages of their file, which the system
/// takes back when other programs want them.
#[test]
fn memory_does_not_grow_with_the_samples() {
    const SLACK: u64 = 16 << 20;
    let conv = "c = Conv<kernel_shape = [1, 1], strides = [4, 4]>(x, w) y = Relu(c)";
    let folder = pictures("3,64,64", &[8, 3, 1, 1], conv);
    let at = folder.path();
    let write = |samples: usize| {
        let data = Tensor::from_vec(vec![samples, 3, 64, 64], values(samples * 12288, 5));
        onnxd_arrays::write(&at.join("calib.npz"), &vec![("x".into(), data)]).unwrap();
        fs::metadata(at.join("calib.npz")).unwrap().len()
    };
    let ways =
        ["calibration.method=minmax", "calibration.method=entropy", "quantization.accuracy=auto"];
    let peaks = || ways.map(|way| peak(at, &["quantization.format=QDQ", way]));
    write(10);
    let few = peaks();
    let bytes = write(1000);
    assert!(bytes > 2 * SLACK, "{bytes}");
    for ((few, many), way) in few.into_iter().zip(peaks()).zip(ways) {
        assert!(many <= few + bytes + SLACK, "{way}: {few} and {many} bytes, {bytes} in the file");
    }
}

/// A network that takes bytes and scales them itself.
#[test]
fn inputs_of_bytes_take_pictures_as_they_are() {
    let tail = "f = Cast<to = 1>(x) y = MatMul(f, w)";
    let folder = pictures("4,4,3", &[3, 5], tail);
    let at = folder.path();
    let mut model = onnxd_onnx::load(&at.join("net.onnx")).unwrap().model;
    let x = model.graph.inputs()[0];
    let sizes = [Dim::Symbol("N".into()), Dim::Known(4), Dim::Known(4), Dim::Known(3)];
    model.graph[x].ty = Some(ValueType::tensor(DataType::Uint8, sizes));
    write_model(&model, &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    let sets = ["quantization.format=QDQ", "quantization.symmetric=true", "calibration.color=rgb"];
    let (status, stderr, report) = convert(at, "out", &["net.onnx", "calib"], &sets);
    assert_eq!(status, 0, "{stderr}");
    let tensor = &report["quantization"]["tensors"][0];
    assert_eq!(
        (&tensor["seen_min"], &tensor["seen_max"]),
        (&0.0.into(), &188.0.into()),
        "{tensor}"
    );
}
