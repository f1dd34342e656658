//! What quantizers say of their work: each part has a text of its own, and nothing seems to run back.

use onnxd_config::Params;
use onnxd_integration_tests::{declared, library};
use onnxd_ir::{Model, Tensor, text};
use onnxd_onnx::{WriteOptions, write_model};
use onnxd_plugin_host::{HostEvent, JobContext, Library, Submission, TensorTable, call};
use onnxd_proto::onnxd::InputFile;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

const SAMPLES: usize = 64;

/// Two convolutions and a product, with one channel that outweighs the others.
fn write_network(folder: &Path) {
    let graph = text::parse_graph(
        "net (float[n,2,4,4] x) => (float[n,4] y)
         <float[3,2,3,3] a, float[3] p, float[4,3,3,3] b, float[64,4] c>
         {
           h = Conv<pads = [1, 1, 1, 1]>(x, a, p)
           r = Relu(h)
           k = Conv<pads = [1, 1, 1, 1]>(r, b)
           s = Relu(k)
           f = Flatten(s)
           y = MatMul(f, c)
         }",
    );
    let mut model = Model::new(graph.unwrap(), 8, 21);
    let weights: [(&str, &[usize]); 4] =
        [("a", &[3, 2, 3, 3]), ("p", &[3]), ("b", &[4, 3, 3, 3]), ("c", &[64, 4])];
    for (name, dims) in weights {
        let count: usize = dims.iter().product();
        let value = |i: usize| (i * 7919 % 2003) as f32 / 1e3 - 1.0;
        let uneven = |i: usize| if name == "a" && i < 18 { 40.0 * value(i) } else { value(i) };
        let v = model.graph.value_named(name).unwrap();
        let values: Vec<f32> = (0..count).map(uneven).collect();
        model.graph.set_initializer(v, Some(Tensor::from_vec(dims.to_vec(), values)));
    }
    write_model(&model, &folder.join("net.onnx"), &WriteOptions::default()).unwrap();
    let values = (0..SAMPLES * 32).map(|i| (i * 7919 % 997) as f32 / 500.0 - 1.0).collect();
    let samples = Tensor::from_vec(vec![SAMPLES, 2, 4, 4], values);
    onnxd_arrays::write(&folder.join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
}

/// What is counted, and how far.
type Told = (String, u64, u64);

/// What a quantizer tells of its work.
fn told(folder: &Path, plugin: &str, quantizer: &str, sets: &[&str]) -> Vec<Told> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let params = Params::resolve(&declared(), &[], &sets).unwrap();
    let names = ["net.onnx", "calib.npz"];
    let bytes = |name: &str| std::fs::metadata(folder.join(name)).unwrap().len();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let file = |name: &str| InputFile {
        path: path(name),
        name: name.into(),
        bytes: bytes(name),
        ..InputFile::default()
    };
    let (files, params) = (names.map(file), params.resolved());
    let submission = Submission { files: &files, network: "net.onnx", params, lowered: &[] };
    let events: Arc<Mutex<Vec<HostEvent>>> = Arc::default();
    let seen = Arc::clone(&events);
    let sink = move |event| seen.lock().unwrap().push(event);
    let table = TensorTable::new();
    let mut context = JobContext::new(submission, table, 2, Arc::default(), sink)
        .with_outputs(folder.join("out"));
    let frontend = Library::open(&library("libonnxd_frontend_onnx.so")).unwrap();
    let imported = call::import(&frontend, "onnx", &mut context).unwrap();
    context.set_graph(imported.model);
    events.lock().unwrap().clear();
    let plugin = Library::open(&library(&format!("libonnxd_quant_{plugin}.so"))).unwrap();
    call::quantize(&plugin, quantizer, &mut context)
        .unwrap_or_else(|e| panic!("{quantizer} {sets:?}: {e:?}"));
    let events = events.lock().unwrap();
    let progress = |event: &HostEvent| match event {
        HostEvent::Progress { done, total, about } => Some((about.clone(), *done, *total)),
        HostEvent::Log { .. } => None,
    };
    // Without a text it is a question whether to go on.
    events.iter().filter_map(progress).filter(|(about, ..)| !about.is_empty()).collect()
}

/// `candidate 3 of 7` -> (`candidate`, 3, 7)
fn numbered(part: &str) -> Option<(&str, u64, u64)> {
    let (head, total) = part.rsplit_once(" of ")?;
    let (noun, at) = head.rsplit_once(' ')?;
    Some((noun, at.parse().ok()?, total.parse().ok()?))
}

/// Nothing that was left comes back, nothing is counted down, and no number is beyond its total.
fn goes_on(told: &[Told], what: &str) {
    let (mut over, mut last): (BTreeSet<&str>, Option<&Told>) = (BTreeSet::new(), None);
    let mut parts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for now in told {
        let (about, done, total) = now;
        if let Some((before, done_before, total_before)) = last {
            if before == about {
                assert!(done >= done_before && total == total_before, "{what}: {last:?} {now:?}");
            } else {
                over.insert(before);
            }
        }
        assert!(!over.contains(about.as_str()), "{what}: `{about}` comes back");
        assert!(done <= total, "{what}: {now:?}");
        let mut path = String::new();
        for part in about.split(", ") {
            if let Some((noun, at, of)) = numbered(part) {
                let known = parts.entry(format!("{path}{noun}")).or_insert((0, of));
                assert!(
                    (1..=of).contains(&at) && at >= known.0,
                    "{what}: `{about}` after {known:?}"
                );
                assert_eq!(known.1, of, "{what}: `{about}`");
                known.0 = at;
            }
            let nouns = about.split(", ").filter_map(numbered).map(|(noun, ..)| noun);
            let known: BTreeSet<&str> = nouns.clone().collect();
            assert_eq!(nouns.count(), known.len(), "{what}: `{about}` names something twice");
            path += part;
        }
        last = Some(now);
    }
}

#[test]
fn every_quantizer_says_what_it_works_on_and_never_runs_back() {
    let folder = tempfile::tempdir().unwrap();
    write_network(folder.path());
    let [onnx, inc, n2d2] = ["onnx", "inc", "n2d2"];
    let cases: [(&str, &str, &[&str], &[&str]); 11] = [
        (
            onnx,
            "qdq",
            &[],
            &["calibration, sample", "comparison of layers, sample", "quality, sample"],
        ),
        (
            onnx,
            "qdq",
            &["quantization.accuracy=auto"],
            &[
                "candidate 1 of ", "fold 2 of 4, comparison, sample",
                "rounding, layer 3 of 3, sample",
            ],
        ),
        (onnx, "qlinear", &["quantization.rounding=adaround"], &["rounding, layer 1 of 3, sample"]),
        (
            onnx,
            "qdq",
            &["quantization.sqnr_db_min=60"],
            &["operation 2 of 3", "try 2, comparison, sample"],
        ),
        (
            onnx,
            "qdq",
            &["quantization.sqnr_db_floor=80"],
            &["what ruins outputs, operation 1 of 3"],
        ),
        (
            onnx,
            "qdq",
            &["quantization.mode=dynamic", "quantization.accuracy=auto"],
            &["candidate 2 of ", "rounding, layer 2 of 3, sample"],
        ),
        (onnx, "qdq", &["quantization.mode=dynamic"], &["rounding, layers 1 to 3 of 3, sample"]),
        (
            onnx,
            "qdq",
            &["quantization.mode=weight_only"],
            &["calibration, sample", "weighted operator"],
        ),
        (inc, "inc-qdq", &[], &["calibration, sample", "quality, sample"]),
        (
            n2d2,
            "n2d2",
            &["quantization.n2d2.wt_clipping_mode=MSE"],
            &["calibration, sample", "comparison of layers, sample", "quality, sample"],
        ),
        (n2d2, "n2d2", &["quantization.n2d2.db_export=5"], &["stimulus"]),
    ];
    for (plugin, quantizer, sets, wanted) in cases {
        let told = told(folder.path(), plugin, quantizer, sets);
        let what = format!("{quantizer} {sets:?}");
        goes_on(&told, &what);
        for wanted in wanted {
            let found = told.iter().any(|(about, ..)| about.contains(wanted));
            let all: BTreeSet<&str> = told.iter().map(|(about, ..)| about.as_str()).collect();
            assert!(found, "{what}: no `{wanted}` in {all:#?}");
        }
    }
}
