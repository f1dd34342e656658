//! Checkpoints of Hugging Face on the command line and through the watched folder.

use crate::site::Site;
use onnxd_arrays::Arrays;
use onnxd_integration_tests::{PLUGINS, converted, copied, folder_with, numbers, root};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) fn case_of(name: &str) -> PathBuf {
    root().join("integration-tests/corpus/hf").join(name)
}

/// What is wrong with the logits and the cache of a model, beside those of NumPy.
fn wrong(model: &Path) -> Option<String> {
    wrong_of("llama", model)
}

/// The same of another case.
pub(crate) fn wrong_of(name: &str, model: &Path) -> Option<String> {
    let recorded = |what: &str| -> Arrays {
        onnxd_arrays::read(&case_of(name).join(format!("expected.{what}.npz"))).unwrap()
    };
    let model = onnxd_onnx::load(model).unwrap().model;
    let wanted: Vec<_> = recorded("outputs").into_iter().map(|(_, t)| t).collect();
    numbers::wrong(&numbers::outputs(&model, &recorded("inputs")), &wanted, 1e-5)
}

/// A folder with the checkpoint as `model`.
fn checkpoint() -> TempDir {
    checkpoint_of("llama")
}

fn checkpoint_of(name: &str) -> TempDir {
    let folder = folder_with(&PLUGINS);
    copied(&case_of(name).join("model"), &folder.path().join("model"));
    folder
}

/// Replaces a part of a file of the checkpoint.
fn edit(folder: &TempDir, file: &str, from: &str, to: &str) {
    let path = folder.path().join("model").join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn convert(folder: &TempDir, sets: &[&str]) -> (i32, String, Value) {
    converted(folder.path(), "out", &["model"], sets)
}

#[test]
fn a_folder_becomes_a_decoder_with_its_files_beside_it() {
    for sets in [&[][..], &["export.opset=23"]] {
        let folder = checkpoint();
        let (status, stderr, _) = convert(&folder, sets);
        assert_eq!(status, 0, "{stderr}");
        let out = folder.path().join("out");
        assert_eq!(wrong(&out.join("model.onnx")), None, "{sets:?}");
        for file in ["tokenizer.json", "config.json"] {
            let [from, to] =
                ["model", "out"].map(|at| fs::read(folder.path().join(at).join(file)).unwrap());
            assert_eq!(from, to, "{file}");
        }
    }
}

/// Smaller tensors than by default lie outside.
const SMALL: &str = "export.external_data_threshold_bytes=64";

/// An encoder, and its decoder in a first call and a step, beside NumPy.
#[test]
fn an_encoder_and_its_decoder_become_two_models() {
    let case = root().join("integration-tests/corpus/hf/t5");
    let calls = [("encoder_model", "encoder"), ("decoder_model_merged", "first")];
    let calls = calls.into_iter().chain([("decoder_model_merged", "step")]);
    for sets in [&[][..], &["export.opset=23", "export.external_data=always", SMALL]] {
        let folder = folder_with(&PLUGINS);
        copied(&case.join("model"), &folder.path().join("model"));
        let (status, stderr, said) = convert(&folder, sets);
        assert_eq!(status, 0, "{stderr}");
        for (file, call) in calls.clone() {
            let model = folder.path().join(format!("out/{file}.onnx"));
            let model = onnxd_onnx::load(&model).unwrap().model;
            let of = |kind: &str| {
                onnxd_arrays::read(&case.join(format!("expected.{call}.{kind}.npz"))).unwrap()
            };
            let wanted: Vec<_> = of("outputs").into_iter().map(|(_, t)| t).collect();
            let found = numbers::outputs(&model, &of("inputs"));
            assert_eq!(numbers::wrong(&found, &wanted, 1e-5), None, "{call} {sets:?}");
        }
        let data = folder.path().join("out/model.onnx.data");
        assert_eq!(data.exists(), !sets.is_empty(), "both models have one file of weights");
        assert_eq!(said["model"]["file"], "encoder_model.onnx");
        let further = said["further"].as_array().unwrap();
        assert_eq!(further.len(), 1);
        assert_eq!(further[0]["model"]["file"], "decoder_model_merged.onnx");
        assert!(
            further[0]["model"]["op_counts"].as_array().unwrap().iter().any(|c| c["op"] == "If")
        );
        let text = fs::read_to_string(folder.path().join("out/report.txt")).unwrap();
        assert!(text.contains("model  file           decoder_model_merged.onnx"), "{text}");
        let sizes = said["outputs"].as_array().unwrap().iter().map(|o| &o["role"]);
        assert_eq!(sizes.filter(|role| *role == "model").count(), 2);
    }
    let folder = folder_with(&PLUGINS);
    copied(&case.join("model"), &folder.path().join("model"));
    let (status, stderr, _) = convert(&folder, &["export.input_names=[\"a\"]"]);
    assert_eq!(status, 3, "{stderr}");
    let told = "export.input_names is about one model, and the network makes `encoder_model.onnx`, `decoder_";
    assert!(stderr.contains(told), "{stderr}");
    // What would be replaced is found before any work on the models, whichever of them it is.
    let folder = folder_with(&PLUGINS);
    copied(&case.join("model"), &folder.path().join("model"));
    let other = folder.path().join("out/decoder_model_merged.onnx");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::write(&other, "mine").unwrap();
    let (status, stderr, _) = convert(&folder, &[]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("N0705") && stderr.contains("`decoder_model_merged.onnx`"), "{stderr}");
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    assert_eq!(
        fs::read_dir(folder.path().join("out")).unwrap().count(),
        1,
        "nothing lies beside it"
    );
}

/// A classifier of pictures, in both forms of the graph; other classes are refused by their name.
#[test]
fn pictures_are_classified_as_by_the_formulas() {
    let case = root().join("integration-tests/corpus/hf/vit");
    let recorded =
        |name: &str| onnxd_arrays::read(&case.join(format!("expected.{name}.npz"))).unwrap();
    for (out, sets) in [("21", &[][..]), ("23", &["export.opset=23"])] {
        let folder = folder_with(&PLUGINS);
        copied(&case.join("model"), &folder.path().join("model"));
        let (status, stderr, _) = converted(folder.path(), out, &["model"], sets);
        assert_eq!(status, 0, "{stderr}");
        let model = onnxd_onnx::load(&folder.path().join(out).join("model.onnx")).unwrap().model;
        let wanted: Vec<_> = recorded("outputs").into_iter().map(|(_, t)| t).collect();
        let outputs = numbers::outputs(&model, &recorded("inputs"));
        assert_eq!(numbers::wrong(&outputs, &wanted, 1e-5), None, "{sets:?}");
        assert!(folder.path().join(out).join("preprocessor_config.json").exists());
        edit(&folder, "config.json", "ViTForImageClassification", "ViTForMaskedImageModeling");
        let (status, stderr, _) = converted(folder.path(), "refused", &["model"], sets);
        assert_eq!(status, 3, "{stderr}");
        assert!(stderr.contains("`architectures` is [\"ViTForMaskedImageModeling\"]"), "{stderr}");
    }
}

#[test]
fn what_is_not_read_is_told() {
    let folder = checkpoint();
    edit(&folder, "config.json", "{", "{\"magic\": 3,");
    fs::create_dir(folder.path().join("model/onnx")).unwrap();
    fs::write(folder.path().join("model/onnx/model.onnx"), "another copy").unwrap();
    fs::write(folder.path().join("model/model.gguf"), "GGUF").unwrap();
    let (status, stderr, said) = convert(&folder, &[]);
    assert_eq!(status, 1, "{stderr}");
    assert_eq!(said["verdict"], "succeeded_with_findings");
    for words in ["`magic` is 3", "which nothing reads", "`onnx/model.onnx`", "`model.gguf`"] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert_eq!(wrong(&folder.path().join("out/model.onnx")), None);
    let (status, stderr, _) =
        converted(folder.path(), "strict", &["model"], &["source.strict=true"]);
    assert_eq!(status, 2, "{stderr}");
    let adapter = r#"{"peft_type": "LORA", "base_model_name_or_path": "org/base"}"#;
    fs::write(folder.path().join("model/adapter_config.json"), adapter).unwrap();
    let (_, stderr, _) = converted(folder.path(), "beside", &["model"], &[]);
    assert!(stderr.contains("`adapter_config.json`) was not applied"), "{stderr}");
}

/// A download that broke off, and files that Git LFS did not fetch.
#[test]
fn what_was_not_fetched_is_told() {
    const HIDDEN: &str = ".cache/huggingface/download";
    let folder = checkpoint();
    let model = folder.path().join("model");
    fs::create_dir_all(model.join(HIDDEN)).unwrap();
    fs::write(model.join("model-00001-of-00002.safetensors.lock"), "").unwrap();
    let (status, stderr, _) = convert(&folder, &[]);
    assert_eq!(status, 0, "a lock is nothing: {stderr}");
    for file in [&format!("{HIDDEN}/x.etag.incomplete"), "tokenizer.model.incomplete"] {
        fs::write(model.join(file), "half").unwrap();
        let (status, stderr, _) = convert(&folder, &[]);
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains("N0114") && stderr.contains(file), "{stderr}");
        assert!(stderr.contains("a download is not finished"), "{stderr}");
        fs::remove_file(model.join(file)).unwrap();
    }
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let shard = "model-00002-of-00002.safetensors";
    fs::write(model.join(shard), pointer).unwrap();
    fs::write(folder.path().join("model.gguf"), pointer).unwrap();
    for (path, file) in [("model", shard), ("model.gguf", "model.gguf")] {
        let (status, stderr, _) = converted(folder.path(), "pointer", &[path], &[]);
        assert_eq!(status, 2, "{stderr}");
        for words in ["N0201", &format!("`{file}` is a pointer of Git LFS"), "git lfs pull"] {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
    }
}

/// Hugging Face's cache has links: commands follow those of their user, and the daemon none.
#[test]
fn a_snapshot_of_the_cache_is_converted_where_it_lies() {
    let site = Site::new();
    let cache = |root: &Path| {
        let repository = root.join("models--org--name");
        let snapshot = repository.join("snapshots/0123");
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir(repository.join("blobs")).unwrap();
        for (number, file) in fs::read_dir(case_of("llama").join("model")).unwrap().enumerate() {
            let file = file.unwrap();
            fs::copy(file.path(), repository.join(format!("blobs/{number}"))).unwrap();
            let link = snapshot.join(file.file_name());
            std::os::unix::fs::symlink(format!("../../blobs/{number}"), link).unwrap();
        }
        snapshot
    };
    let folder = folder_with(&PLUGINS);
    let snapshot = cache(folder.path());
    let (status, stderr, _) =
        converted(folder.path(), "out", &["models--org--name/snapshots/0123"], &[]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(wrong(&folder.path().join("out/model.onnx")), None);
    assert!(folder.path().join("out/tokenizer.json").symlink_metadata().unwrap().is_file());
    fs::remove_file(snapshot.join("model-00001-of-00002.safetensors")).unwrap();
    let (status, stderr, _) =
        converted(folder.path(), "lacks", &["models--org--name/snapshots/0123"], &[]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("`model-00001-of-00002.safetensors` is missing"), "{stderr}");

    let daemon = site.start();
    cache(&site.inbox());
    let why = site.wait_for_drop("models--org--name", "refused");
    assert!(why.contains("N0108") && why.contains("cp -rL"), "{why}");
    assert!(site.jobs().is_empty());
    assert_eq!(daemon.stop().code(), Some(0));
}

/// Folders that hold something else than a whole model that continues texts.
#[test]
fn other_folders_are_refused_by_what_they_hold() {
    let refused = |change: &dyn Fn(&Path), words: &str| {
        let folder = checkpoint();
        change(&folder.path().join("model"));
        let (status, stderr, _) = convert(&folder, &[]);
        assert!(status != 0 && stderr.contains(words), "{words}: {status} {stderr}");
    };
    refused(&|model| fs::write(model.join("modules.json"), "[]").unwrap(), "`modules.json`");
    refused(
        &|model| fs::write(model.join("sentence_bert_config.json"), "{}").unwrap(),
        "`modules.json` is missing",
    );
    let without_weights = |model: &Path| {
        for file in [
            "model.safetensors.index.json", "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ] {
            fs::remove_file(model.join(file)).unwrap();
        }
    };
    let pickled = |model: &Path| {
        without_weights(model);
        fs::write(model.join("pytorch_model.bin"), "PK").unwrap();
    };
    refused(&pickled, "`pytorch_model.bin` is no archive that `torch.save` writes");
    let adapter = |model: &Path| {
        without_weights(model);
        fs::remove_file(model.join("config.json")).unwrap();
        let text = r#"{"peft_type": "LORA", "base_model_name_or_path": "org/base"}"#;
        fs::write(model.join("adapter_config.json"), text).unwrap();
    };
    refused(&adapter, "an adapter of `org/base`");
    let waiting = |model: &Path| {
        without_weights(model);
        fs::write(model.join("training_args.bin"), "PK").unwrap();
    };
    refused(&waiting, "`model.safetensors` is missing");
    let no_index =
        |model: &Path| fs::remove_file(model.join("model.safetensors.index.json")).unwrap();
    refused(&no_index, "`model.safetensors.index.json` is missing");
    let onnx = |model: &Path| {
        without_weights(model);
        fs::write(model.join("model.onnx"), "").unwrap();
    };
    let folder = checkpoint();
    onnx(&folder.path().join("model"));
    let (_, stderr, _) = convert(&folder, &[]);
    assert!(!stderr.contains("model.safetensors` is missing"), "{stderr}");
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    let cases = [
        ("config.json", "\"llama\"", "\"strange\"", 3, "`model_type` is `strange`"),
        ("config.json", "{", "{\"hidden_act\": \"odd\",", 3, "`hidden_act` is `odd`"),
        (
            "config.json", "{", "{\"quantization_config\": {\"quant_method\": \"x\"},", 3,
            "`quantization_config.quant_method` is `x`",
        ),
        ("config.json", "LlamaForCausalLM", "LlamaForTokenClassification", 3, "`architectures` is"),
        (
            "config.json",
            "\"head_dim\": 4",
            "\"head_dim\": 6",
            2,
            "`model.layers.0.self_attn.q_proj.weight` has the shape [8, 8]",
        ),
        (
            "model.safetensors.index.json", "model-00001-of", "../model-00001-of", 2,
            "no name of a file beside it",
        ),
        (
            "model.safetensors.index.json", "model-00001-of", "model-00003-of", 2,
            "`model-00003-of-00002.safetensors` is missing",
        ),
    ];
    for (file, from, to, wanted, words) in cases {
        let folder = checkpoint();
        edit(&folder, file, from, to);
        let (status, stderr, _) = convert(&folder, &[]);
        assert_eq!(status, wanted, "{to}: {stderr}");
        assert!(stderr.contains(words), "{to}: {stderr}");
    }
}

/// Both files come out of the watched folder, and the receipt names them.
#[test]
fn two_models_go_through_the_watched_folder() {
    let site = Site::new();
    let daemon = site.start();
    copied(&root().join("integration-tests/corpus/hf/t5/model"), &site.inbox().join("small-t5"));
    site.wait_for("small-t5", "succeeded");
    let result = site.outbox().join("small-t5");
    for file in ["encoder_model.onnx", "decoder_model_merged.onnx", "config.json"] {
        assert!(result.join(file).exists(), "{file}");
    }
    let receipt = fs::read_to_string(result.join("receipt.txt")).unwrap();
    assert!(receipt.contains("model: encoder_model.onnx, "), "{receipt}");
    assert!(receipt.contains(", and decoder_model_merged.onnx"), "{receipt}");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn a_folder_of_sentence_transformers_gives_vectors_of_texts() {
    for sets in [&[][..], &["export.opset=23"]] {
        let folder = checkpoint_of("sentence");
        let (status, stderr, _) = convert(&folder, sets);
        assert_eq!(status, 0, "{stderr}");
        assert_eq!(wrong_of("sentence", &folder.path().join("out/model.onnx")), None, "{sets:?}");
    }
}

/// Another head than the class says, and steps that are not known.
#[test]
fn the_task_of_a_model_can_be_said() {
    let folder = checkpoint_of("sentence");
    let task = |out: &str, task: &str| {
        converted(folder.path(), out, &["model"], &[&format!("source.task={task}")])
    };
    let (status, stderr, _) = task("alone", "feature-extraction");
    assert_eq!(status, 0, "{stderr}");
    let model = onnxd_onnx::load(&folder.path().join("alone/model.onnx")).unwrap().model;
    assert_eq!(model.graph.outputs().len(), 1, "the hidden states alone");
    let (status, stderr, _) = task("masked", "fill-mask");
    assert!(
        status == 2 && stderr.contains("`cls.predictions.transform.dense.weight`"),
        "{status} {stderr}"
    );
    let (status, stderr, _) = task("none", "dance");
    assert!(status == 2 && stderr.contains("`source.task` is `dance`"), "{status} {stderr}");
    edit(&folder, "modules.json", "sentence_transformers.models.Normalize", "custom.Rotate");
    let (status, stderr, _) = convert(&folder, &[]);
    assert!(status == 3 && stderr.contains("`type` is `custom.Rotate`"), "{status} {stderr}");
}

/// Vectors of texts point where they did, with integers too.
#[test]
fn an_encoder_is_quantized_as_other_models_are() {
    let folder = checkpoint_of("sentence");
    for mode in ["dynamic", "weight_only"] {
        let mode = format!("quantization.mode={mode}");
        let (status, stderr, _) = convert(&folder, &["quantization.format=QDQ", &mode]);
        assert!(status <= 1, "{stderr}");
        let read = |what: &str| {
            onnxd_arrays::read(&case_of("sentence").join(format!("expected.{what}.npz"))).unwrap()
        };
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let found = numbers::outputs(&model, &read("inputs"));
        let (_, wanted) = read("outputs").into_iter().next_back().unwrap();
        let both = [&found[1], &wanted].map(|t| t.as_slice::<f32>().unwrap().to_vec());
        for (a, b) in both[0].chunks(4).zip(both[1].chunks(4)) {
            let cosine: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            assert!(cosine > 0.98, "{mode}: {a:?} {b:?}");
        }
    }
}

/// A model of GGUF in two files is converted by the first, and brings its tokenizer along.
#[test]
fn a_file_of_gguf_becomes_a_decoder_with_its_tokenizer() {
    let folder = folder_with(&PLUGINS);
    let case = root().join("integration-tests/corpus/hf/gguf");
    let name = |number: u32| format!("model-0000{number}-of-00002.gguf");
    fs::copy(case.join(name(1)), folder.path().join(name(1))).unwrap();
    let convert = || converted(folder.path(), "out", &[&name(1)], &[]);
    let (status, stderr, _) = convert();
    assert_ne!(status, 0);
    assert!(stderr.contains(&name(2)), "{stderr}");
    fs::create_dir(folder.path().join("model")).unwrap();
    for number in [1, 2] {
        fs::copy(case.join(name(number)), folder.path().join("model").join(name(number))).unwrap();
    }
    let (status, stderr, _) = converted(folder.path(), "whole", &["model"], &[]);
    assert_eq!(status, 0, "{stderr}");
    let text = |file: &str| fs::read_to_string(folder.path().join("whole").join(file)).unwrap();
    let tokenizer: Value = serde_json::from_str(&text("tokenizer.json")).unwrap();
    assert_eq!(tokenizer["model"]["merges"][0], "a b");
    let config: Value = serde_json::from_str(&text("config.json")).unwrap();
    assert_eq!((&config["model_type"], &config["hidden_size"]), (&"llama".into(), &32.into()));
}
