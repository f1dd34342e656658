use super::members::in_directory;
use super::*;

/// An archive whose members are empty; only its directory is looked at.
fn archive(names: &[&str]) -> Vec<u8> {
    let mut bytes = b"PK\x03\x04 members".to_vec();
    let offset = u32::try_from(bytes.len()).unwrap();
    for name in names {
        let mut entry = [0; 46];
        entry[..4].copy_from_slice(b"PK\x01\x02");
        entry[28..30].copy_from_slice(&u16::try_from(name.len()).unwrap().to_le_bytes());
        bytes.extend(entry);
        bytes.extend(name.bytes());
    }
    let mut end = [0; 22];
    end[..4].copy_from_slice(b"PK\x05\x06");
    end[16..20].copy_from_slice(&offset.to_le_bytes());
    bytes.extend(end);
    bytes
}

fn length_delimited(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut value in [number << 3 | 2, payload.len() as u64] {
        while value > 0x7f {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }
    [bytes, payload.to_vec()].concat()
}

fn safetensors() -> Vec<u8> {
    let head = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    [&(head.len() as u64).to_le_bytes()[..], head, &[0; 4]].concat()
}

fn graph_def() -> Vec<u8> {
    let node = [length_delimited(1, b"input"), length_delimited(2, b"Placeholder")].concat();
    length_delimited(1, &node)
}

/// MetaGraphDef, with a version of TensorFlow or with a list of operators.
fn meta_graph(has_operators: bool) -> Vec<u8> {
    let operators = length_delimited(1, &length_delimited(1, &length_delimited(1, b"VariableV2")));
    let info = if has_operators { operators } else { length_delimited(4, b"2.21.0") };
    [length_delimited(1, &info), length_delimited(2, &graph_def())].concat()
}

/// Heads of a tar archive before members of some bytes.
fn tar(names: &[&str]) -> Vec<u8> {
    let member = |name: &&str| {
        let mut blocks = vec![0; 1024];
        blocks[..name.len()].copy_from_slice(name.as_bytes());
        blocks[124..135].copy_from_slice(b"00000000007");
        blocks[257..262].copy_from_slice(b"ustar");
        blocks
    };
    [names.iter().flat_map(member).collect(), vec![0; 1024]].concat()
}

#[test]
fn files_of_frameworks_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let onnx =
        [vec![8, 8], length_delimited(2, b"pytorch"), length_delimited(7, b"graph")].concat();
    let caffe = [length_delimited(1, b"net"), length_delimited(100, b"layer")].concat();
    let coreml = [vec![8, 4], length_delimited(2, b"d"), length_delimited(500, b"n")].concat();
    let saved = [vec![8, 1], length_delimited(2, b"..VarHandleOp..")].concat();
    for (bytes, what) in [
        (
            archive(&["net/data.pkl", "net/code/__torch__.py", "net/constants.pkl"]),
            "a TorchScript archive",
        ),
        (archive(&["m/data.pkl", "m/data/0", "m/version"]), "a file of `torch.save` (pickled"),
        (archive(&["serialized_exported_program.json", "version"]), "an exported PyTorch program"),
        (archive(&["m/archive_format", "m/models/model.json"]), "an exported PyTorch program"),
        (archive(&["metadata.json", "config.json", "model.weights.h5"]), "a Keras model (.keras)"),
        (
            archive(&["m/saved_model.pb", "m/variables/variables.index"]),
            "a TensorFlow SavedModel in",
        ),
        (b"\x1c\0\0\0TFL3....".to_vec(), "a TensorFlow Lite model"),
        (b"\x89HDF\r\n\x1a\n..model_weights".to_vec(), "a Keras model or its weights (HDF5)"),
        (b"\x89HDF\r\n\x1a\n..".to_vec(), "an HDF5 file"),
        (b"GGUF\x03\0\0\0".to_vec(), "a GGUF file"),
        (safetensors(), "a safetensors file"),
        (b"\x80\x04\x95\x8c\x08builtins".to_vec(), "a file of pickled Python objects"),
        ([&b"\x80\x04\x95"[..], b"\x8c\x14sklearn.svm"].concat(), "a pickled scikit-learn model"),
        (
            [&b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."[..]].concat(),
            "a file of `torch.save` in its old",
        ),
        (
            b"<?xml version=\"1.0\"?>\n<net name=\"a\" version=\"11\">\n<layers>".to_vec(),
            "an OpenVINO network",
        ),
        (
            b"name: \"n\"\nlayer {\n type: \"Data\"\n top: \"data\"\n}".to_vec(),
            "a Caffe network (prototxt)",
        ),
        (caffe, "weights of a Caffe network"),
        (coreml, "a Core ML model"),
        (saved, "a TensorFlow SavedModel (saved_model.pb"),
        (graph_def(), "a TensorFlow graph (GraphDef, frozen"),
        (b"node {\n  name: \"x\"\n  op: \"Const\"\n}".to_vec(), "a TensorFlow graph (GraphDef as"),
        (
            b"saved_model_schema_version: 1\nmeta_graphs {\n  meta_info_def {".to_vec(),
            "a TensorFlow SavedModel as text",
        ),
        (meta_graph(true), "the graph of a TensorFlow checkpoint"),
        (meta_graph(false), "the graph of a TensorFlow checkpoint"),
        (
            [vec![8, 1], length_delimited(2, &meta_graph(false))].concat(),
            "a TensorFlow SavedModel (saved_model.pb",
        ),
        (
            b"# made\nversions {\n}\nnode {\n op: \"Add\" }".to_vec(),
            "a TensorFlow graph (GraphDef as",
        ),
        (tar(&["a.txt", "m/saved_model.pbtxt"]), "a TensorFlow SavedModel in a tar"),
        (archive(&["m/saved_model.pbtxt"]), "a TensorFlow SavedModel in a zip"),
        (b"\x1f\x8b\x08\0....".to_vec(), "a file that gzip compressed"),
        (onnx, "an ONNX model"),
        (b"tree\nversion=v4\nnum_class=1".to_vec(), "a LightGBM model"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let found = recognise(&path).unwrap_or("nothing");
        assert!(found.starts_with(what), "{what}: {found}");
    }
}

#[test]
fn other_files_are_not_guessed_at() {
    let others: [&[u8]; 12] = [
        b"", b"\0", b"PK", b"dear reader", b"\x89PNG\r\n\x1a\n", b"[net]\nname=x", b"{\"a\": 1}",
        b"\x08\x01", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\xff\xd8\xff\xe0",
        b"<html>", b"\x0a\x03abc",
    ];
    for bytes in others {
        assert_eq!(of_content(bytes, bytes.len() as u64), None, "{bytes:?}");
    }
    assert!(in_directory(&archive(&["a", "b"]), 0).len() == 2);
    assert_eq!(
        of_archive(&in_directory(&archive(&["word/document.xml", "a.npy"]), 0), SAVED_ZIP),
        None
    );
    // A directory that begins before what was read.
    let long = archive(&["first", "second", "net/constants.pkl"]);
    let cut = long.len() / 2;
    let tail = in_directory(&long[cut..], cut as u64);
    assert_eq!(of_archive(&tail, SAVED_ZIP), Some("a TorchScript archive"), "{tail:?}");
}

/// A network of a format that is read has the wrong name, or something else is wrong with it.
#[test]
fn networks_that_are_read_are_told_their_ending() {
    let dir = tempfile::tempdir().unwrap();
    let onnx = [vec![8, 8], length_delimited(2, b"pytorch"), length_delimited(7, b"g")].concat();
    let script = archive(&["net/data.pkl", "net/code/__torch__.py", "net/constants.pkl"]);
    let program = archive(&["m/archive_format", "m/models/model.json"]);
    let packed = archive(&["read me.txt", "nets/net.Onnx"]);
    let lite = b"\x1c\0\0\0TFL3....".to_vec();
    let hdf5 = b"\x89HDF\r\n\x1a\n..model_weights".to_vec();
    let keras = archive(&["metadata.json", "config.json", "model.weights.h5"]);
    let saved = [vec![8, 1], length_delimited(2, b"..VarHandleOp..")].concat();
    let saved_zip = archive(&["m/saved_model.pb", "m/variables/variables.index"]);
    for (name, bytes, said) in [
        ("net.bin", &onnx, Some("an ONNX model under another name: give it the ending `.onnx`")),
        ("net.ONNX", &onnx, None),
        (
            "a.zip",
            &script,
            Some("a TorchScript archive under another name: give it the ending `.pt`"),
        ),
        ("net.pth", &script, None),
        ("net.zip", &program, Some("under another name: give it the ending `.pt2`")),
        ("net.pt2", &program, None),
        ("drop/net.pt", &script, None),
        ("nets.zip", &packed, Some("it is an archive with a network in it: unpack it")),
        ("texts.zip", &archive(&["a.txt", "onnx", "pt", "b.zip"]), None),
        (
            "m.bin",
            &lite,
            Some("a TensorFlow Lite model under another name: give it the ending `.tflite`"),
        ),
        ("m.TFLite", &lite, None),
        ("m.data", &hdf5, Some("give it the ending `.h5`")),
        ("m.hdf5", &hdf5, None),
        ("keras.zip", &keras, Some("give it the ending `.keras`")),
        ("model.pb", &saved, Some("under another name: call it `saved_model.pb`")),
        (
            "packed",
            &saved_zip,
            Some("in a zip archive under another name: give it the ending `.zip`"),
        ),
        ("packed.zip", &saved_zip, None),
        ("saved.TAR", &saved_zip, None),
        ("Saved_Model.PB", &saved, Some("under another name: call it `saved_model.pb`")),
        ("saved", &tar(&["saved_model.pb"]), Some("give it the ending `.tar`")),
        ("saved.tar", &tar(&["m/saved_model.pb"]), None),
        ("model.safetensors", &safetensors(), Some("`config.json` beside it is missing")),
        ("nets.tar", &tar(&["a/net.tflite"]), Some("with a network in it: unpack it")),
        ("texts.tar", &tar(&["a.txt"]), None),
        ("net.onnx.gz", &b"\x1f\x8b\x08\0".to_vec(), Some("gzip compressed: unpack it")),
        ("model.ckpt-7", &meta_graph(true), Some("give it the ending `.meta`")),
        ("model.ckpt-7.meta", &meta_graph(true), None),
        ("graph.bin", &graph_def(), Some("give it the ending `.pb`")),
        ("graph.pb", &graph_def(), None),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let found = sentence(&path);
        assert_eq!(found.is_some(), said.is_some(), "{name}: {found:?}");
        assert!(found.is_none_or(|found| found.ends_with(said.unwrap())), "{name}");
    }
    assert_eq!(sentence(&dir.path().join("drop")), None);
    // Nobody looked into this file.
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    let found = sentence(&dir.path().join("model.safetensors")).unwrap();
    assert!(found.ends_with("name the folder that it lies in"), "{found}");
}

#[test]
fn folders_are_named_by_what_they_hold() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("saved/variables")).unwrap();
    fs::write(at("saved/saved_model.pb"), "").unwrap();
    assert_eq!(recognise(&at("saved")), Some("a TensorFlow SavedModel"));
    assert_eq!(sentence(&at("saved")), None);
    fs::create_dir_all(at("drop/inner")).unwrap();
    fs::write(at("drop/a.txt"), "hello").unwrap();
    fs::write(at("drop/inner/x.bin"), b"\x1c\0\0\0TFL3").unwrap();
    assert_eq!(recognise(&at("drop")), Some("a TensorFlow Lite model"));
    assert_eq!(
        sentence(&at("drop")).unwrap(),
        "it is a TensorFlow Lite model under another name: give it the ending `.tflite`"
    );
    fs::write(at("drop/inner/x.bin"), b"GGUF\x03\0\0\0").unwrap();
    assert_eq!(
        sentence(&at("drop")).unwrap(),
        "it is a GGUF file (llama.cpp) under another name: give it the ending `.gguf`"
    );
    fs::write(at("drop/inner/x.bin"), b"7767517\n").unwrap();
    assert_eq!(
        sentence(&at("drop")).unwrap(),
        "it is an ncnn network (param); not read by this version"
    );
    assert_eq!(recognise(&at("nothing")), None);
}

#[test]
fn checkpoints_are_told_what_they_lack() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let write = |name: &str| {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), "..").unwrap();
    };
    write("saved/fingerprint.pb");
    write("saved/variables/variables.index");
    assert_eq!(sentence(&at("saved")), None);
    write("saved/variables/variables.data-00000-of-00002");
    assert_eq!(
        sentence(&at("saved")).unwrap(),
        "it is the checkpoint of a TensorFlow SavedModel: `saved_model.pb` is missing"
    );
    write("old/model.ckpt-7.index");
    write("old/model.ckpt-7.data-00000-of-00001");
    assert_eq!(
        sentence(&at("old")).unwrap(),
        "it is a TensorFlow checkpoint, weights without a network: its graph `model.ckpt-7.meta` is missing"
    );
    write("old/model.ckpt-7.meta");
    assert_eq!(sentence(&at("old")), None);
}

#[test]
fn a_pointer_of_git_lfs_is_no_network() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.onnx");
    std::fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        .unwrap();
    let told = sentence(&path).unwrap();
    assert!(told.contains("a pointer of Git LFS") && told.contains("`git lfs pull`"), "{told}");
}
