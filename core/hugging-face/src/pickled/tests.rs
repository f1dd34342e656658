use super::*;
use crate::fixture;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::pickle::testing::{archive, dict as items, floats, object, pickle, tensor};
use onnxd_plugin_sdk::testing::{Dropped, import, probe};
use serde_json::json;

const SIX: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

/// The tensors of a dict over a storage of six numbers.
fn read_dict(of: &[(&str, Vec<u8>)]) -> Result<Vec<Stored>, Diagnostic> {
    dict(&archive(&[("data.pkl", &pickle(&items(of))), ("data/0", &floats(&SIX))]))
}

fn values(of: &Stored) -> Vec<f32> {
    of.tensor().unwrap().as_slice::<f32>().unwrap().into_owned()
}

#[test]
fn views_share_their_storage() {
    let view = |place: (u8, &[u8], &[u8])| tensor("Float", "0", 6, place);
    let found = read_dict(&[
        ("a", view((0, &[2, 3], &[3, 1]))),
        ("rows", view((3, &[1, 3], &[3, 1]))),
        ("turned", view((0, &[3, 2], &[1, 3]))),
        ("tied", view((0, &[2, 3], &[3, 1]))),
        ("step", b"K\x07".to_vec()),
    ])
    .unwrap();
    let names: Vec<_> = found.iter().map(|stored| stored.name.as_str()).collect();
    assert_eq!(names, ["a", "rows", "turned", "tied"]);
    assert_eq!(values(&found[1]), [3.0, 4.0, 5.0]);
    assert_eq!(values(&found[2]), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let tensors: Vec<Tensor> = found.iter().map(|stored| stored.tensor().unwrap()).collect();
    let is_derived: Vec<bool> = tensors.iter().map(|t| t.derivation().is_some()).collect();
    assert_eq!(is_derived, [false, false, true, false], "row-major ones are slices of the file");
    assert_eq!(tensors[0].identity(), tensors[3].identity());
}

#[test]
fn what_is_no_dict_of_tensors_is_refused_by_its_name() {
    let plain = || tensor("Float", "0", 6, (0, &[6], &[1]));
    let cases = [
        (vec![("w", object("torchao", "Int8", &[]))], "tensor `w` is an object of a class"),
        (vec![("state_dict", items(&[("w", plain())]))], "no tensors by their names"),
        (vec![], "no tensors by their names"),
        (vec![("w", tensor("Float", "0", 7, (0, &[7], &[1])))], "has 24 bytes for 7 elements"),
    ];
    for (of, why) in cases {
        let found = read_dict(&of).unwrap_err();
        assert!(found.message.contains(why), "{found}");
    }
    let module = pickle(&object("__main__", "Net", &[]));
    let found = dict(&archive(&[("data.pkl", &module)])).unwrap_err();
    assert!(found.code == "N0214" && found.message.contains("an object, and no dict"), "{found}");
    assert!(found.to_string().contains("`save_pretrained`"), "{found}");
}

#[test]
fn other_files_are_told_by_their_first_bytes() {
    let legacy = [LEGACY, b".\x80\x02M\xe9\x03."].concat();
    let lfs = b"version https://git-lfs.github.com/spec/v1\n".to_vec();
    for (bytes, code, why) in [
        (legacy, "N0214", "torch before 1.6"),
        (lfs, "N0201", "pointer of Git LFS"),
        (b"PK\x03\x04".to_vec(), "N0202", "`m.bin`: "),
        (b"{}".to_vec(), "N0201", "no archive that `torch.save` writes"),
    ] {
        let found = read("m.bin", &bytes.into()).unwrap_err();
        assert!(found.code == code && found.to_string().contains(why), "{found}");
    }
}

fn llama() -> String {
    json!({ "model_type": "llama", "vocab_size": 11, "hidden_size": 8, "num_attention_heads": 2,
        "num_hidden_layers": 1, "intermediate_size": 6, "max_position_embeddings": 8 })
    .to_string()
}

/// One file or shards with an index give the model that safetensors give; with both, these are read.
#[test]
fn a_checkpoint_of_pickles_is_the_same_model() {
    let (weights, _) = fixture::complete(&llama(), &[]);
    let all = crate::safetensors::read("m", &weights).unwrap();
    let (first, second) = all.split_at(3);
    let config = Dropped::file("m/config.json", llama());
    let made = |dropped: &Dropped| {
        let done = import(&crate::HuggingFace, dropped).unwrap();
        let notes: Vec<_> = done.log.notes.iter().map(|note| note.message.clone()).collect();
        let model = done.model;
        let graph = &model.graph;
        let weights = graph.value_ids().filter_map(|id| {
            let tensor = graph.constant(id)?;
            let reals = tensor.to_reals()?.values;
            Some((graph[id].name.clone(), reals))
        });
        (weights.collect::<Vec<_>>(), notes)
    };
    let (wanted, _) = made(&config.clone().and("m/model.safetensors", &weights));
    assert!(wanted.len() > 5);
    let single = config.clone().and("m/pytorch_model.bin", fixture::pickled(&all));
    assert_eq!(made(&single), (wanted.clone(), vec![]));
    let home = |shard: usize| move |t: &Stored| (t.name.clone(), json!(names(shard)));
    let map = first.iter().map(home(1)).chain(second.iter().map(home(2)));
    let index = json!({ "weight_map": map.collect::<serde_json::Map<_, _>>() }).to_string();
    let shards = config
        .and("m/pytorch_model.bin.index.json", index)
        .and(format!("m/{}", names(1)), fixture::pickled(first))
        .and(format!("m/{}", names(2)), fixture::pickled(second));
    assert_eq!(made(&shards), (wanted.clone(), vec![]));
    let (found, notes) = made(&single.and("m/model.safetensors", &weights));
    assert_eq!(found, wanted);
    let words = "read from its safetensors; `pytorch_model.bin` were not read";
    assert!(notes.len() == 1 && notes[0].contains(words), "{notes:?}");
}

/// Shards are waited for as those of safetensors are.
#[test]
fn files_that_are_missing_are_named() {
    let missing = |dropped: &Dropped| -> Vec<String> {
        let needs = probe(&crate::HuggingFace, dropped).unwrap().needs;
        let lacking = needs.into_iter().filter(|need| need.found_as.is_empty() && !need.optional);
        lacking.map(|need| need.path).collect()
    };
    const INDEX: &str = "m/pytorch_model.bin.index.json";
    let config = Dropped::file("m/config.json", llama());
    assert_eq!(missing(&config), ["m/model.safetensors"]);
    let [first, second] = [1, 2].map(|shard| format!("m/{}", names(shard)));
    assert_eq!(missing(&config.clone().and(&first, "")), [INDEX]);
    let map = json!({ "weight_map": { "a": names(1), "b": names(2) } });
    let listed = config.clone().and(INDEX, map.to_string());
    assert_eq!(missing(&listed), [&first, &second].map(String::clone));
    let listed = listed.and(&second, "");
    assert_eq!(missing(&listed), [first.as_str()]);
    assert!(missing(&listed.and(&first, "")).is_empty());
    assert!(missing(&config.and("m/pytorch_model.bin", "")).is_empty());
}

fn names(shard: usize) -> String {
    format!("pytorch_model-0000{shard}-of-00002.bin")
}

/// A file that torch wrote.
#[test]
fn a_file_of_torch_is_read() {
    let file = include_bytes!("../../../../fuzz/corpus-seeds/hf_pickle/state-dict");
    let found = read("m.bin", &Bytes::from_static(file)).unwrap();
    let all: Vec<_> = found.iter().map(|t| (t.name.as_str(), t.shape.clone())).collect();
    assert_eq!(all, [("weight", vec![2, 2]), ("bias", vec![2])]);
}
