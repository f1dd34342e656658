use super::{Proof, cut, of_fields};
use crate::architecture::Target;
use crate::families::tests::{CASES, config};
use crate::fixture::{self, complete};
use crate::gguf::{self, Read};
use crate::pickled;
use crate::raw::{Find, Raw};
use crate::safetensors::{self, Stored};
use crate::testing::cases;
use bytes::Bytes;
use onnxd_plugin_sdk::ir::{Model, Tensor};
use serde_json::Value;

/// Families that have no second implementation.
const UNKNOWN: &[&str] =
    &["bamba", "falcon_mamba", "gpt_oss", "granitemoehybrid", "lfm2", "mamba", "mamba2"];

/// The tensors of a file by name.
fn finding(tensors: &Bytes) -> impl Fn(&str) -> Option<Raw> + use<> {
    let all = safetensors::read("m.safetensors", tensors).unwrap();
    among(all)
}

fn among(all: Vec<Stored>) -> impl Fn(&str) -> Option<Raw> {
    move |name: &str| all.iter().find(|stored| stored.name == name).map(Stored::raw)
}

fn proof(config: &Value, model: &Model, find: &Find<'_>) -> Proof {
    of_fields(model, config.as_object().unwrap(), (find, Some(16)))
}

/// Checks that layers of a file agree, or that they are told not to be compared.
pub(crate) fn check_gguf(model: &Model, read: &Read, is_unknown: bool) {
    let found = gguf::proof(model, read);
    let name = read.metadata.text("general.architecture");
    assert_eq!(found.fact.is_none(), is_unknown, "{name:?}: {found:?}");
    assert_eq!(found.unknown.is_some(), is_unknown, "{name:?}: {found:?}");
    assert!(found.findings.is_empty(), "{name:?}: {found:?}");
}

/// Checks that both layers of a file are told to be wrong.
pub(crate) fn check_wrong(model: &Model, read: &Read) {
    let found = gguf::proof(model, read);
    assert!(are_wrong(&found), "{found:?}");
}

/// All families that have formulas agree with the graph, in both forms of it; others say so.
#[test]
fn families_agree() {
    for case in cases(CASES) {
        let config = config(case);
        let text = config.to_string();
        let (tensors, model) = complete(&text, &[]);
        let newer = fixture::model(&text, &tensors, 24).unwrap();
        for model in [&model, &newer] {
            let found = proof(&config, model, &finding(&tensors));
            if UNKNOWN.contains(&case.split(' ').next().unwrap()) {
                assert!(found.fact.is_none() && found.agreement.is_empty(), "{case}: {found:?}");
                let why = found.unknown.as_deref().unwrap_or_default();
                assert!(why.contains("has no second"), "{found:?}");
                continue;
            }
            // Experts of DeepSeek, which its second layer has, have no formulas.
            let (layers, others) = match case.starts_with("deepseek") {
                true => (
                    "layer 0 of 2 agrees",
                    "; layer 1 was not compared: experts of this family have no second implementation",
                ),
                false => ("layers 0, 1 of 2 agree", ""),
            };
            let fact =
                format!("{layers} with a second implementation: least SQNR 100 dB or more{others}");
            assert_eq!(found.fact.as_ref(), Some(&fact), "{case}: {found:?}");
            let least = found.agreement.iter().fold(f64::MAX, |least, (_, db)| least.min(*db));
            assert!(least > 115.0 && found.findings.is_empty(), "{case}: {found:?}");
        }
    }
}

fn case(line: &str) -> (Value, Bytes, Model) {
    let config = config(line);
    let (tensors, model) = complete(&config.to_string(), &[]);
    (config, tensors, model)
}

/// The rows of a matrix of float32, each of which `from` says the place of.
fn moved(raw: Raw, from: impl Fn(usize) -> usize) -> Raw {
    let width = raw.dims[1..].iter().product::<usize>() * size_of::<f32>();
    let all = raw.bytes.unwrap();
    let row = |i: usize| &all[from(i) * width..][..width];
    let bytes = (0..raw.dims[0]).flat_map(row).copied().collect::<Vec<u8>>();
    Raw { bytes: Some(bytes.into()), ..raw }
}

/// What is found where the graph is that of a checkpoint, and rows of the tensors that end so lie otherwise.
fn with_rows(line: &str, endings: &[&str], from: impl Fn(usize) -> usize) -> Proof {
    let (config, tensors, model) = case(line);
    let find = finding(&tensors);
    let other = |name: &str| {
        let is_moved = endings.iter().any(|ending| name.ends_with(ending));
        find(name).map(|raw| if is_moved { moved(raw, &from) } else { raw })
    };
    proof(&config, &model, &other)
}

/// Whether both layers are told to be wrong.
fn are_wrong(proof: &Proof) -> bool {
    let told = proof.findings.iter().filter(|found| {
        found.code == "N0608"
            && found.message.contains("SQNR")
            && found.layer.as_ref().is_some_and(|layer| layer.kind == "decoder layer")
    });
    told.count() == 2 && proof.fact.is_none()
}

/// Rows of heads of four elements, whose pairs lie side by side and not half a head apart.
fn side_by_side(i: usize) -> usize {
    i / 4 * 4 + [0, 2, 1, 3][i % 4]
}

#[test]
fn a_swapped_layout_is_caught() {
    let (q, k) = ("q_proj.weight", "k_proj.weight");
    let llama = "llama {\"rope_theta\": 500000.0}";
    assert!(!are_wrong(&with_rows(llama, &[q, k], |i| i)));
    for endings in [&[q, k][..], &[q], &[k]] {
        let found = with_rows(llama, endings, side_by_side);
        assert!(are_wrong(&found), "{endings:?}: {found:?}");
    }
    // Heads of queries in another order.
    assert!(are_wrong(&with_rows(llama, &[q], |i| (i + 4) % 16)));
}

/// Queries, keys and values of one weight: keys before values, and groups or all in turn.
#[test]
fn parts_of_one_weight_in_another_order_are_caught() {
    // Sixteen rows of queries, then eight each of keys and of values.
    let exchanged = |i: usize| if i < 16 { i } else { 16 + (i - 16 + 8) % 16 };
    assert!(are_wrong(&with_rows("phi3 {}", &["qkv_proj.weight"], exchanged)));
    // Four groups of a query, a key and a value; and all queries, all keys, all values.
    let in_turn = |i: usize| i % 4 + 4 * (i / 4 % 4 * 3 + i / 16);
    let found = with_rows("gpt_neox {\"rotary_pct\": 0.5}", &["query_key_value.weight"], in_turn);
    assert!(are_wrong(&found), "{found:?}");
    let found = with_rows("phi3 {}", &["gate_up_proj.weight"], |i| (i + 12) % 24);
    assert!(are_wrong(&found), "{found:?}");
}

/// Weights of `torch.save` are read as others are, unless their rows lie apart.
#[test]
fn pickled_weights_agree() {
    let (config, tensors, model) = case("llama {}");
    let stored = safetensors::read("m.safetensors", &tensors).unwrap();
    let mut stored = pickled::read("m.bin", &fixture::pickled(&stored).into()).unwrap();
    let found = proof(&config, &model, &among(stored.clone()));
    assert!(found.fact.is_some_and(|fact| fact.starts_with("layers 0, 1 of 2 agree")));
    for weight in stored.iter_mut().filter(|weight| weight.name.ends_with("up_proj.weight")) {
        let turned = weight.tensor().unwrap().permuted(&[1, 0]).unwrap();
        *weight = Stored::held(weight.name.clone(), turned);
    }
    let why = proof(&config, &model, &among(stored)).unknown.unwrap_or_default();
    assert!(why.contains(".up_proj.weight` does not lie row by row"), "{why}");
}

/// Fields that the graph was not written with.
#[test]
fn other_fields_are_caught() {
    for (line, other) in [
        ("llama {}", "llama {\"rms_norm_eps\": 1e-5}"),
        ("llama {}", "llama {\"rope_theta\": 20000}"),
        ("llama {}", "ernie4_5 {\"rms_norm_eps\": 1e-6, \"rope_theta\": 10000}"),
        ("mistral {\"sliding_window\": 3}", "mistral {\"sliding_window\": 4}"),
        ("gemma2 {\"sliding_window\": 3}", "gemma2 {\"attn_logit_softcapping\": null}"),
        ("granite {}", "granite {\"residual_multiplier\": 0.99}"),
    ] {
        let (_, tensors, model) = case(line);
        let found = proof(&config(other), &model, &finding(&tensors));
        assert!(!found.findings.is_empty(), "{line} as {other}: {found:?}");
    }
}

/// Products with large matrices are computed by columns; which ones are large is another size in tests.
#[test]
fn large_products_are_cut() {
    let (_, _, model) = case("llama {}");
    let cut = cut::layer(&model, 0, 16).unwrap();
    assert!(cut.graph.nodes().any(|(_, node)| node.op == "Concat"));
    let products = cut.graph.nodes().filter(|(_, node)| node.op == "MatMul");
    let read = products.filter_map(|(_, node)| cut.graph.constant(node.input(1)?));
    assert_eq!(read.map(Tensor::len).max(), Some(128));
}

/// The same file, where the numbers of tensors that end so are multiplied.
fn multiplied(file: &Bytes, ending: &str, factor: f32) -> Bytes {
    let begin = 8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&file[8..begin]).unwrap();
    let mut bytes = file.to_vec();
    for (_, entry) in header.as_object().unwrap().iter().filter(|(name, _)| name.ends_with(ending))
    {
        let [from, to] = [0, 1].map(|i| entry["data_offsets"][i].as_u64().unwrap() as usize);
        for number in bytes[begin + from..begin + to].as_chunks_mut::<4>().0 {
            *number = (f32::from_le_bytes(*number) * factor).to_le_bytes();
        }
    }
    bytes.into()
}

/// Large scores make much of rounding, and layers that add little to hidden states lose most of it.
#[test]
fn rounding_is_no_difference() {
    let more: Vec<(String, Vec<usize>)> = ["q_proj", "k_proj"]
        .iter()
        .flat_map(|part| (0..2).map(move |i| format!("model.layers.{i}.self_attn.{part}.bias")))
        .map(|name| (name.clone(), vec![if name.contains("q_proj") { 16 } else { 8 }]))
        .collect();
    let more: Vec<(&str, &[usize])> = more.iter().map(|(n, dims)| (&**n, &**dims)).collect();
    let config = config("qwen2 {}");
    let text = config.to_string();
    let (tensors, _) = complete(&text, &more);
    for (ending, factor) in [
        ("q_proj.bias", 300.0),
        ("k_proj.bias", 3000.0),
        ("q_proj.weight", 1e3),
        ("_proj.weight", 1e-5),
    ] {
        let tensors = multiplied(&tensors, ending, factor);
        let model = fixture::model(&text, &tensors, 21).unwrap();
        let found = proof(&config, &model, &finding(&tensors));
        assert!(found.fact.is_some(), "{ending}: {found:?}");
    }
}

/// Models for ONNX Runtime GenAI, and those without a cache.
#[test]
fn targets_agree() {
    for line in ["llama {}", "phi3 {}", "gemma2 {\"sliding_window\": 3}", "qwen3 {}", "gpt2 {}"] {
        let mut config = config(line);
        config["head_dim"] = 16.into();
        let text = config.to_string();
        let (tensors, _) = complete(&text, &[]);
        for target in [
            Target { is_genai: true, context: Some(16), ..Target::plain(23) },
            Target { has_cache: false, ..Target::plain(21) },
        ] {
            let model = fixture::model_for(&text, &tensors, &target).unwrap();
            let found = proof(&config, &model, &finding(&tensors));
            assert!(found.fact.is_some(), "{line} {target:?}: {found:?}");
        }
    }
}
