//! Models in files: external data, its alignment, and attempts to read what is not the model's.

use crate::build::*;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::{Attr, DataType, Function, Graph, Model, Node, Tensor};
use onnxd_onnx::{
    Decoded, External, MappedFile, NoExternalData, Placement, SharedData, WriteOptions, decode,
    encode_to_bytes, external_files, load, write_model, write_model_sharing,
};
use onnxd_proto::onnx::ModelProto;
use prost::Message;
use std::fs;
use std::path::Path;

fn options(external: External) -> WriteOptions {
    WriteOptions { external, ..WriteOptions::default() }
}

/// Three tensors: small enough to stay, aligned to 64, aligned to a page; and one shared memory.
fn weighty() -> Model {
    let mut g = Graph::new("weighty");
    let x = g.add_input("x", float(&[1]));
    let tensor = |n: usize| Tensor::vector((0..n).map(|i| i as f32).collect::<Vec<_>>());
    let shared = tensor(300);
    let parts = [("tiny", tensor(10)), ("odd", tensor(257)), ("large", tensor(20_000))];
    let parts = parts.into_iter().chain([("shared", shared.clone()), ("again", shared)]);
    let mut inputs = vec![x];
    inputs.extend(parts.map(|(name, data)| g.add_initializer(name, data)));
    let y = g.add_value("y", float(&[20_000]));
    g.add_node(Node::new("Custom", inputs, [y]));
    g.mark_output(y);
    Model::new(g, 8, 17)
}

#[test]
fn a_small_model_is_one_file_equal_to_its_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let written = write_model(&weighty(), &path, &WriteOptions::default()).unwrap();
    let bytes = encoded(&weighty());
    assert_eq!(written.files, [(path.clone(), bytes.len() as u64)]);
    assert!(fs::read(&path).unwrap() == bytes);
    assert_same(&weighty(), &load(&path).unwrap().model);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Derived tensors of several sizes, as initializers, in attributes, in a sub-graph and in a function.
fn derived_everywhere() -> Model {
    let turned = |n: usize, k: usize| {
        let counted = (0..n * k).map(|i| i as f32).collect::<Vec<_>>();
        Tensor::from_vec(vec![n, k], counted).permuted(&[1, 0]).unwrap()
    };
    let constant = |g: &mut Graph, tensor: Tensor| {
        let v = g.add_value("c", None);
        g.add_node(Node::new("Constant", [], [v]).with("value", Attr::Tensor(tensor)));
        v
    };
    let mut body = Graph::new("body");
    let inner = body.add_initializer("inner", turned(70, 90));
    let from_node = constant(&mut body, turned(80, 70));
    let z = body.add_value("z", None);
    body.add_node(Node::new("Other", [inner, from_node], [z]));
    body.mark_output(z);
    let mut g = Graph::new("derived");
    let sizes = [(3, 2), (60, 64), (64, 64), (512, 700)];
    let mut inputs: Vec<_> =
        sizes.iter().map(|(n, k)| g.add_initializer("w", turned(*n, *k))).collect();
    inputs.push(constant(&mut g, turned(4, 5)));
    inputs.push(constant(&mut g, turned(90, 50)));
    let y = g.add_value("y", float(&[1]));
    let node = Node::new("Custom", inputs, [y]).with("body", Attr::Graph(Box::new(body)));
    g.add_node(Node { domain: "local".into(), ..node });
    g.mark_output(y);
    let mut function = Graph::new("f");
    let out = constant(&mut function, turned(100, 80));
    function.mark_output(out);
    let mut model = Model::new(g, 8, 17);
    model.opsets.insert("local".into(), 1);
    let (name, domain) = ("Made".to_owned(), "local".to_owned());
    model.functions.push(Function { name, domain, graph: function, ..Function::default() });
    model
}

/// The same model with every tensor in memory.
fn all_held(model: &Model) -> Model {
    let mut sink = |_: &Tensor| Ok(Placement::Inline);
    decode(encode_to_bytes(model, &mut sink).unwrap(), &mut NoExternalData).unwrap().model
}

#[test]
fn derived_tensors_are_written_as_held_ones() {
    let folder = tempfile::tempdir().unwrap();
    for external in [External::Auto, External::Always, External::Never] {
        let model = derived_everywhere();
        let [one, other] =
            [("derived", &model), ("held", &all_held(&model))].map(|(name, model)| {
                let path = folder.path().join(name).join("model.onnx");
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let written = write_model(model, &path, &options(external)).unwrap();
                written
                    .files
                    .into_iter()
                    .map(|(path, _)| fs::read(path).unwrap())
                    .collect::<Vec<_>>()
            });
        assert_eq!(one.len(), if external == External::Always { 2 } else { 1 });
        assert!(one == other, "{external:?}");
        assert_same(
            &all_held(&model),
            &load(&folder.path().join("derived/model.onnx")).unwrap().model,
        );
    }
}

#[test]
fn models_share_a_data_file_and_the_tensors_that_both_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut data = SharedData::named("both.data");
    let options = options(External::Always);
    let first = weighty();
    let written = write_model_sharing(&first, &path("a.onnx"), &options, &mut data).unwrap();
    let bytes = fs::metadata(path("both.data")).unwrap().len();
    assert_eq!(written.files[1], (path("both.data"), bytes));
    let again = write_model_sharing(&first, &path("b.onnx"), &options, &mut data).unwrap();
    assert_eq!(again.files[1].1, bytes, "all of it was there");
    let other = all_held(&first);
    let more = write_model_sharing(&other, &path("c.onnx"), &options, &mut data).unwrap();
    assert!(more.files[1].1 > bytes && fs::read_dir(folder.path()).unwrap().count() == 4);
    for (name, model) in [("a.onnx", &first), ("b.onnx", &first), ("c.onnx", &other)] {
        assert_same(model, &load(&path(name)).unwrap().model);
    }
}

/// Zeros that are left as holes stay where they stand, also in the file that a second model goes on with.
#[test]
fn models_share_a_data_file_with_holes() {
    let folder = tempfile::tempdir().unwrap();
    let with_zeros = |seed: f32| {
        let mut model = weighty();
        let numbers: Vec<f64> =
            (0..300_000).map(|i| f64::from(seed) * f64::from((i - 250_000).max(0))).collect();
        let zeros = Tensor::vector(numbers).cast(DataType::Float).unwrap();
        let shared = model.graph.value_named("shared").unwrap();
        model.graph.set_initializer(shared, Some(Tensor::vector(vec![seed; 300])));
        let large = model.graph.value_named("large").unwrap();
        model.graph.set_initializer(large, Some(zeros));
        model
    };
    let mut data = SharedData::named("both.data");
    for (name, model) in [("a.onnx", with_zeros(1.0)), ("b.onnx", with_zeros(2.0))] {
        let (path, options) = (folder.path().join(name), options(External::Always));
        let written = write_model_sharing(&model, &path, &options, &mut data).unwrap();
        let (file, bytes) = &written.files[1];
        assert_eq!(fs::metadata(file).unwrap().len(), *bytes);
        assert_same(&all_held(&model), &load(&path).unwrap().model);
    }
}

#[test]
fn external_tensors_are_aligned_and_shared_ones_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let written = write_model(&weighty(), &path, &options(External::Always)).unwrap();
    let data = folder.path().join("model.onnx.data");
    assert_eq!(written.files.len(), 2);
    for (file, bytes) in &written.files {
        assert_eq!(fs::metadata(file).unwrap().len(), *bytes);
    }
    assert_eq!(written.files[1].0, data);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(external_files(bytes.clone().into()).unwrap(), ["model.onnx.data"]);
    let proto = ModelProto::decode(&bytes[..]).unwrap();
    let offset = |name: &str| -> Option<u64> {
        let graph = proto.graph.as_ref().unwrap();
        let tensor = graph.initializer.iter().find(|t| t.name() == name).unwrap();
        let entry = tensor.external_data.iter().find(|e| e.key() == "offset")?;
        Some(entry.value().parse().unwrap())
    };
    assert_eq!(offset("tiny"), None);
    assert_eq!(offset("odd"), Some(0));
    assert_eq!(offset("large"), Some(4096));
    assert_eq!(offset("shared"), Some(4096 + 80_000u64.next_multiple_of(64)));
    assert_eq!(offset("shared"), offset("again"));
    assert_same(&weighty(), &load(&path).unwrap().model);
}

#[test]
fn the_threshold_decides() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let size = encoded(&weighty()).len() as u64;
    for (threshold_bytes, files) in [(size, 1), (size - 1, 2)] {
        let options = WriteOptions { threshold_bytes, ..WriteOptions::default() };
        assert_eq!(write_model(&weighty(), &path, &options).unwrap().files.len(), files);
    }
    let one = write_model(&simple(), &path, &options(External::Always)).unwrap();
    assert_eq!(one.files.len(), 1, "no tensor is large enough for a file of its own");
}

#[test]
fn a_model_may_replace_the_files_it_is_mapped_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    for external in [External::Always, External::Always, External::Never, External::Always] {
        let model = if path.exists() { load(&path).unwrap().model } else { weighty() };
        write_model(&model, &path, &options(external)).unwrap();
        assert_same(&weighty(), &load(&path).unwrap().model);
    }
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    fs::create_dir(&path).unwrap();
    let error = write_model(&weighty(), &path, &options(External::Always)).unwrap_err();
    assert_eq!(error.code, "N0304");
    let left = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("partial")));
    let nowhere = folder.path().join("missing/model.onnx");
    let error = write_model(&simple(), &nowhere, &WriteOptions::default()).unwrap_err();
    assert!(error.message.contains("missing/model.onnx"), "{error}");
}

/// Loads a model whose one external tensor `w` of 4 bytes is at `location`.
fn load_from(folder: &Path, location: &str, offset: u64) -> Result<Decoded, Diagnostics> {
    let mut g = Graph::new("g");
    let w = g.add_initializer("w", Tensor::vector(vec![1.0f32]));
    g.mark_output(w);
    let place =
        |_: &Tensor| Ok(Placement::External { location: location.to_owned(), offset, length: 4 });
    let bytes = encode_to_bytes(&Model::new(g, 8, 17), &mut { place }).unwrap();
    let path = folder.join("model.onnx");
    fs::write(&path, bytes).unwrap();
    load(&path)
}

#[track_caller]
fn refused(result: Result<Decoded, Diagnostics>, code: &str, word: &str) {
    let findings = result.unwrap_err();
    assert_eq!(findings.0.len(), 1);
    assert_eq!(findings.0[0].code, code, "{findings}");
    assert!(findings.0[0].message.contains("initializer `w`"), "{findings}");
    assert!(findings.0[0].message.contains(word), "{findings}");
}

#[test]
fn external_data_is_read_from_the_models_folder_only() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, [0; 8]).unwrap();
    let folder = outside.path().join("model");
    fs::create_dir_all(folder.join("sub")).unwrap();
    fs::write(folder.join("weights"), [7; 8]).unwrap();
    fs::write(folder.join("sub/weights"), [7; 8]).unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.join("up")).unwrap();
    std::os::unix::fs::symlink("weights", folder.join("inner")).unwrap();

    for location in ["weights", "./weights", "sub/weights", "inner"] {
        let model = load_from(&folder, location, 4).unwrap_or_else(|e| panic!("{e}")).model;
        let w = model.graph.value_named("w").unwrap();
        assert_eq!(model.graph[w].initializer().unwrap().bytes().as_ref(), [7; 4]);
    }
    for location in ["../secret", "sub/../../secret", secret.to_str().unwrap(), "", ".", "a\0b"] {
        refused(load_from(&folder, location, 0), "N0503", "is refused");
    }
    for location in ["link", "up/secret"] {
        refused(load_from(&folder, location, 0), "N0108", "symbolic link");
    }
    refused(load_from(&folder, "nothing", 0), "N0503", "`nothing`: No such file");
    refused(load_from(&folder, "sub", 0), "N0503", "not a regular file");
    refused(load_from(&folder, "weights", 5), "N0503", "which has 8");
    refused(load_from(&folder, "weights", u64::MAX), "N0503", "which has 8");
}

#[test]
fn a_location_that_leaves_the_folder_is_refused_by_the_listing_too() {
    let folder = tempfile::tempdir().unwrap();
    load_from(folder.path(), "../secret", 0).unwrap_err();
    let bytes = MappedFile::open(&folder.path().join("model.onnx")).unwrap();
    assert_eq!(external_files(bytes).unwrap_err().0[0].code, "N0503");
}

#[test]
fn one_missing_file_is_one_finding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    write_model(&weighty(), &path, &options(External::Always)).unwrap();
    fs::remove_file(folder.path().join("model.onnx.data")).unwrap();
    let findings = load(&path).unwrap_err();
    assert_eq!(findings.0.len(), 1, "{findings}");
    assert!(findings.0[0].message.contains("initializer `odd`"), "{findings}");
    assert!(findings.0[0].message.contains("and 3 more tensors"), "{findings}");
}

#[test]
fn pipes_and_missing_files_are_errors_at_once() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(load(folder.path()).unwrap_err().0[0].code, "N0107");
    assert_eq!(load(&folder.path().join("none")).unwrap_err().0[0].code, "N0107");
    let empty = folder.path().join("empty.onnx");
    fs::write(&empty, []).unwrap();
    assert_eq!(load(&empty).unwrap_err().0[0].code, "N0501");
}
