use super::facts::architectures::all;
use super::fixture::{File, text};
use super::rows::{Rows, entry, grouped, halves_apart};
use super::{import, read};
use crate::HuggingFace;
use crate::architecture::Target;
use crate::diag::Diagnostic;
use crate::proof::tests as proof;
use onnxd_plugin_sdk::ir::{Model, Tensor, VerifyLevel, verify};
use onnxd_plugin_sdk::testing::{self, Dropped, run};
use onnxd_plugin_sdk::{Claim, lower};
use serde_json::Value;

const WORDS: usize = 11;

/// Architectures whose layers have no second implementation.
const UNPROVEN: [&str; 5] = ["falcon", "gpt-oss", "lfm2", "mpt", "starcoder"];

/// The metadata of a small model: 16 elements, 4 heads, 2 layers.
pub(super) fn small(name: &str) -> File {
    let key = |key: &str| format!("{name}.{key}");
    let shared = matches!(name, "gpt2" | "gptneox" | "bloom" | "mpt");
    let file = File::default()
        .text("general.architecture", name)
        .size(&key("context_length"), 64)
        .size(&key("embedding_length"), 16)
        .size(&key("block_count"), 2)
        .size(&key("feed_forward_length"), if name == "mpt" { 64 } else { 12 })
        .size(&key("attention.head_count"), 4)
        .size(&key("attention.head_count_kv"), if shared { 4 } else { 2 })
        .floats("token_embd.weight", &[WORDS, 16]);
    let epsilon = |kind: &str| key(&format!("attention.layer_norm_{kind}"));
    match name {
        "llama" | "gemma" | "gemma2" | "gemma3" => file.number(&epsilon("rms_epsilon"), 1e-5),
        "cohere2" | "gpt-oss" => file.number(&epsilon("rms_epsilon"), 1e-5),
        _ => file.number(&epsilon("epsilon"), 1e-5),
    }
}

/// What some architectures need beside.
fn whole(name: &str) -> File {
    let key = |key: &str| format!("{name}.{key}");
    let file = small(name);
    let experts = |file: File| {
        let file = file.size(&key("expert_count"), 4).size(&key("expert_used_count"), 2);
        (0..2).fold(file, |file, i| {
            let part = |part: &str| format!("blk.{i}.ffn_{part}_exps.weight");
            file.floats(&part("gate"), &[4, 12, 16])
                .floats(&part("up"), &[4, 12, 16])
                .floats(&part("down"), &[4, 16, 12])
        })
    };
    match name {
        "granitemoe" | "qwen3moe" | "olmoe" => experts(file),
        "qwen2moe" => experts(file).size(&key("expert_shared_feed_forward_length"), 12),
        "gpt-oss" => {
            let file = experts(file).size(&key("attention.sliding_window"), 3);
            (0..2).fold(file, |file, i| {
                let part = |part: &str| format!("blk.{i}.ffn_{part}_exps.bias");
                file.floats(&part("gate"), &[4, 12])
                    .floats(&part("up"), &[4, 12])
                    .floats(&part("down"), &[4, 16])
            })
        }
        "mpt" => file.number(&key("attention.max_alibi_bias"), 8.0),
        "falcon" => {
            (0..2).fold(file, |file, i| file.floats(&format!("blk.{i}.attn_norm_2.weight"), &[16]))
        }
        "gemma2" | "gemma3" | "cohere2" => {
            let file = file.size(&key("attention.sliding_window"), 3);
            file.size(&key("attention.sliding_window_pattern"), 2)
        }
        "stablelm" => (0..2).fold(file, |file, i| {
            file.floats(&format!("blk.{i}.attn_q_norm.weight"), &[4, 4])
                .floats(&format!("blk.{i}.attn_k_norm.weight"), &[2, 4])
        }),
        "lfm2" => {
            let heads = [0u32, 2].map(|count| count.to_le_bytes().to_vec());
            let file = file.without(&key("attention.head_count_kv"));
            let file = file.list(&key("attention.head_count_kv"), 4, &heads);
            file.size(&key("shortconv.l_cache"), 3).floats("blk.0.shortconv.conv.weight", &[16, 3])
        }
        _ => file,
    }
}

fn model(file: &File) -> Result<Model, Diagnostic> {
    let read = read("m.gguf", &file.bytes())?;
    let described = import::describe("m.gguf", &read)?;
    let checkpoint = import::checkpoint(&read.tensors, &described)?;
    let graph = import::graph(&described.decoder, &checkpoint, &Target::plain(21))?;
    let unread = described.config.unread();
    assert!(unread.is_empty(), "{unread:?}");
    Ok(lower::model(graph, 21))
}

/// The file with all tensors that it lacks: what is missing says its name and its shape.
fn complete(mut file: File) -> (File, Model) {
    loop {
        let found = match model(&file) {
            Ok(model) => return (file, model),
            Err(found) => found,
        };
        let words: Vec<&str> = found.message.split(['`', '[', ']']).collect();
        assert!(found.code == "N0209" && words.len() == 5, "{found}");
        let mut dims: Vec<usize> = words[3].split(", ").map(|size| size.parse().unwrap()).collect();
        if file.is("gpt2") && words[1].starts_with("blk.") {
            // The family has its inputs first.
            dims.reverse();
        }
        file = file.floats(words[1], &dims);
    }
}

fn logits(model: &Model) -> Vec<f32> {
    let words = Tensor::from_vec([1usize, 5], vec![3i64, 1, 4, 1, 5]);
    let mask = Tensor::from_vec([1usize, 5], vec![1i64; 5]);
    let mut feeds = vec![("input_ids", words), ("attention_mask", mask)];
    let graph = &model.graph;
    for input in &graph.inputs()[2..] {
        let dims = graph[*input].ty.as_ref().unwrap().shape().unwrap();
        let size = |dim: &onnxd_plugin_sdk::ir::Dim| dim.known().unwrap_or(0) as usize;
        let empty: Vec<usize> = [1].into_iter().chain(dims[1..].iter().map(size)).collect();
        let zeros = vec![0f32; empty.iter().product()];
        feeds.push((&graph[*input].name, Tensor::from_vec(empty, zeros)));
    }
    run(model, feeds).unwrap().remove(0).1.as_slice::<f32>().unwrap().into_owned()
}

/// Each architecture has names for all that its family asks for, and says nothing that the family does not read.
#[test]
fn each_architecture_is_a_model() {
    let manual = include_str!("../../../../docs/manual.md");
    for architecture in all() {
        let (file, model) = complete(whole(architecture.name));
        let read = read("m.gguf", &file.bytes()).unwrap();
        proof::check_gguf(&model, &read, UNPROVEN.contains(&architecture.name));
        let found = verify(&model, VerifyLevel::Full);
        assert!(found.0.is_empty(), "{}: {found}", architecture.name);
        let logits = logits(&model);
        assert!(logits.iter().all(|x| x.is_finite()), "{}", architecture.name);
        assert!(manual.contains(&format!("`{}`", architecture.name)), "{}", architecture.name);
    }
}

#[test]
fn integers_are_kept_and_mean_the_same() {
    let wide = |name: &str, dims: &[usize]| {
        let rows = dims.iter().product::<usize>() / 32;
        let block = |i: usize| {
            let scale = [0x00, 0x20 + 4 * (i % 4) as u8];
            let codes = (0..32).map(|j| ((i * 37 + j * 11 + name.len()) % 255) as u8);
            scale.into_iter().chain(codes).collect::<Vec<u8>>()
        };
        (0..rows).flat_map(block).collect::<Vec<u8>>()
    };
    let file = |name: &str| {
        let key = |key: &str| format!("{name}.{key}");
        let file = File::default()
            .text("general.architecture", name)
            .size(&key("embedding_length"), 32)
            .size(&key("block_count"), 1)
            .size(&key("feed_forward_length"), 64)
            .size(&key("attention.head_count"), 4)
            .size(&key("attention.head_count_kv"), 2)
            .number(&key("attention.layer_norm_rms_epsilon"), 1e-5)
            .floats("token_embd.weight", &[WORDS, 32]);
        match name {
            "llama" => file,
            _ => file.size(&key("expert_count"), 2).size(&key("expert_used_count"), 1),
        }
    };
    let attention: [(&str, &[usize]); 4] = [
        ("attn_q", &[32, 32]),
        ("attn_k", &[16, 32]),
        ("attn_v", &[16, 32]),
        ("attn_output", &[32, 32]),
    ];
    let mlp: [(&str, &[usize]); 3] =
        [("ffn_gate", &[64, 32]), ("ffn_up", &[64, 32]), ("ffn_down", &[32, 64])];
    let experts: [(&str, &[usize]); 3] = [
        ("ffn_gate_exps", &[2, 64, 32]),
        ("ffn_up_exps", &[2, 64, 32]),
        ("ffn_down_exps", &[2, 32, 64]),
    ];
    let filled = |name: &str, real: bool| {
        let rest = if name == "llama" { &mlp } else { &experts };
        attention.iter().chain(rest).fold(file(name), |file, (part, dims)| {
            let name = format!("blk.0.{part}.weight");
            let bytes = wide(part, dims);
            if !real {
                return file.tensor(&name, dims, 8, bytes);
            }
            let number = |block: &[u8]| {
                let scale = f32::from(u16::from_le_bytes([block[0], block[1]]) >> 10);
                let scale = 2f32.powi(scale as i32 - 15);
                block[2..].iter().map(|q| f32::from(*q as i8) * scale).collect::<Vec<f32>>()
            };
            let numbers = bytes.chunks(34).flat_map(number);
            file.tensor(&name, dims, 0, numbers.flat_map(f32::to_le_bytes).collect())
        })
    };
    for name in ["llama", "granitemoe"] {
        let (_, kept) = complete(filled(name, false));
        let (_, real) = complete(filled(name, true));
        let count = |model: &Model| {
            let graph = &model.graph;
            graph.node_ids().into_iter().filter(|id| graph[*id].is("DequantizeLinear")).count()
        };
        assert_eq!((count(&kept), count(&real)), (7, 0), "{name}");
        let (kept, real) = (logits(&kept), logits(&real));
        let scale = real.iter().fold(0f32, |most, x| most.max(x.abs()));
        let is_same = kept.iter().zip(&real).all(|(a, b)| (a - b).abs() < 1e-5 * scale);
        assert!(is_same, "{name}: {kept:?} {real:?}");
    }
}

#[test]
fn rows_in_other_orders() {
    let file = File::default().text("general.architecture", "llama").tensor(
        "x",
        &[8, 1],
        0,
        (0..8).flat_map(|i| (i as f32).to_le_bytes()).collect(),
    );
    let read = read("m.gguf", &file.bytes()).unwrap();
    let rows = Rows::of(&read.tensors[0]).unwrap();
    let numbers = |rows: Rows| {
        rows.tensor()
            .unwrap()
            .as_slice::<f32>()
            .unwrap()
            .iter()
            .map(|x| *x as usize)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(halves_apart(&rows, 2).unwrap()), [0, 2, 1, 3, 4, 6, 5, 7]);
    // Two heads of two elements, one key and one value of two.
    assert_eq!(numbers(grouped(&rows, [2, 1, 2]).unwrap()), [0, 1, 2, 3, 4, 5, 6, 7]);
    // Four heads of one, and two keys and values.
    assert_eq!(numbers(grouped(&rows, [4, 2, 1]).unwrap()), [0, 1, 4, 6, 2, 3, 5, 7]);
    assert_eq!(numbers(entry(&rows, 5).unwrap()), [5]);
}

/// Factors divide angles, norms hold their 1, and a table of words gives logits where no other does.
#[test]
fn what_only_tensors_say() {
    let (file, model) = complete(small("llama"));
    let plain = logits(&model);
    let ones = |of: f32| [of, 1.0].into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    let with = |of| file.clone().tensor("rope_freqs.weight", &[2], 0, ones(of));
    assert_eq!(logits(&complete(with(1.0)).1), plain);
    assert_ne!(logits(&complete(with(4.0)).1), plain);
    let name = complete(file.clone().floats("output.weight", &[WORDS, 16])).1;
    assert_ne!(logits(&name), plain);
    for (tensor, words) in [
        ("rope_freqs.weight", "has not 2 numbers"),
        ("blk.0.attn_x.weight", "`blk.0.attn_x.weight`"),
        ("blk.2.attn_q.weight", "`blk.2.attn_q.weight`"),
        ("blk.0.attn_qkv.weight", "no tensor"),
    ] {
        let found = super::tests::model(&file.clone().floats(tensor, &[3])).unwrap_err();
        assert!(found.message.contains(words), "{found}");
    }
}

/// So many layers, with a flag for each.
fn many(name: &str, layers: u32) -> File {
    let count = format!("{name}.block_count");
    let flags = vec![vec![1]; layers as usize];
    let file = whole(name).without(&count).size(&count, layers);
    let pattern = format!("{name}.attention.sliding_window_pattern");
    file.without(&pattern).list(&pattern, 7, &flags)
}

fn refusal(file: &File) -> String {
    let found = model(file).unwrap_err();
    format!("{} {}", found.code, found.message)
}

/// What the metadata ask for, and no architecture knows, is refused by the key and its value.
#[test]
fn metadata_that_are_refused() {
    let file = small("llama");
    for (file, words) in [
        (file.clone().without("general.architecture"), "no key `general.architecture`"),
        (small("wonder"), "`general.architecture` is `wonder`"),
        (file.clone().without("llama.block_count"), "no key `llama.block_count`"),
        (file.clone().number("llama.attn_logit_softcapping", 50.0), "softcapping` is 50"),
        (file.clone().size("llama.rope.dimension_count", 2), "dimension_count` is 2"),
        (file.clone().text("llama.rope.scaling.type", "wild"), "scaling.type` is `wild`"),
        (file.clone().flag("llama.attention.causal", false), "causal` is false"),
        (file.clone().text("general.type", "adapter"), "`general.type` is `adapter`"),
        (file.clone().size("llama.attention.value_length", 3), "value_length` is 3"),
        (file.clone().size("general.alignment", 33), "`general.alignment` is 33"),
        (file.clone().size("llama.vocab_size", 12), "`token_embd.weight` has the shape [11, 16]"),
        (small("qwen2").size("qwen2.attention.sliding_window", 4), "sliding_window` is 4"),
        (small("cohere2"), "no key `cohere2.attention.sliding_window`"),
        (
            file.clone().without("llama.attention.layer_norm_rms_epsilon"),
            "rms_epsilon`; it must be",
        ),
        (file.clone().number("llama.rope.freq_base", f32::NAN), "freq_base` is NaN"),
        (many("gemma2", 1 << 14), "`gemma2.block_count` is 16384, of 8192 layers"),
        (
            small("stablelm").floats("blk.0.attn_q_norm.weight", &[5, 4]),
            "it has 5 rows, and there are 4 heads",
        ),
        (
            whole("granitemoe").floats("blk.0.ffn_up_exps.bias", &[3, 12]),
            "shape is [3, 12], and there are 4 experts",
        ),
        (
            whole("gpt-oss").tensor("blk.0.ffn_x_exps.weight", &[32], 39, vec![0; 17]),
            "shape is [32], and",
        ),
    ] {
        let found = refusal(&file);
        assert!(found.contains(words), "{found}: {words}");
    }
    assert!(model(&complete(file.clone().size("llama.expert_count", 0)).0).is_ok());
    // A bias of one half of what the family has in one.
    let half = complete(whole("granitemoe")).0.floats("blk.0.ffn_up_exps.bias", &[4, 12]);
    let found = refusal(&half);
    assert!(found.contains("`blk.0.ffn_up_exps.bias`"), "{found}");
}

/// What is wrong with a file is told with the tensor, the key or the offset.
#[test]
fn files_that_are_refused() {
    let good = File::default().text("general.name", "x").floats("t", &[2, 3]);
    let whole = good.bytes();
    let damage = |f: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.to_vec();
        f(&mut bytes);
        let found = read("m.gguf", &bytes.into()).err().expect("refused");
        format!("{} {}", found.code, found.message)
    };
    let put = |at: usize, with: &'static [u8]| {
        move |bytes: &mut Vec<u8>| bytes[at..at + with.len()].copy_from_slice(with)
    };
    let tensor = whole.windows(9).position(|w| w == [1, 0, 0, 0, 0, 0, 0, 0, b't']).unwrap();
    for (found, words) in [
        (damage(&put(0, b"GGUX")), "N0201 `m.gguf` begins with `GGUX`"),
        (damage(&put(4, &[1])), "N0214 `m.gguf` has version 1"),
        (damage(&put(4, &[9])), "N0201 `m.gguf` has version 9 at offset 4"),
        (damage(&put(4, &[0, 0, 0, 3])), "N0214 `m.gguf` is big-endian"),
        (damage(&put(15, &[16])), "N0213 `m.gguf` has 1152921504606846977 tensors (offset 8)"),
        (damage(&put(8, &[100])), "N0202 `m.gguf` has 100 tensors"),
        (damage(&put(31, &[16])), "N0202 `m.gguf`: a key at offset 24 has 1152"),
        (
            damage(&put(44, &[77])),
            "N0201 `m.gguf`: key `general.name` has a value of the unknown type 77",
        ),
        (damage(&put(tensor + 9, &[9])), "N0213 `m.gguf`: tensor `t` has 9 axes"),
        (damage(&put(tensor + 13, &[255; 16])), "N0201 `m.gguf`: tensor `t` has more elements"),
        (
            damage(&put(tensor + 29, &[0xe7, 3])),
            "N0214 `m.gguf`: tensor `t` has elements of the unknown type 999",
        ),
        (
            damage(&put(tensor + 29, &[16])),
            "N0214 `m.gguf`: tensor `t` has elements of type IQ2_XXS",
        ),
        (damage(&put(tensor + 13, &[0])), "N0201 `m.gguf`: tensor `t` has no elements"),
        (damage(&put(tensor + 29, &[2])), "N0201 `m.gguf`: tensor `t` has rows of 3 elements"),
        (damage(&put(tensor + 33, &[8])), "N0201 `m.gguf`: tensor `t` begins at offset 8"),
        (damage(&put(tensor + 33, &[64])), "N0202 `m.gguf`: tensor `t` ends at offset 88"),
        (damage(&|bytes| bytes.truncate(30)), "N0202 `m.gguf` has 1 tensors"),
        (damage(&|bytes| bytes.truncate(2)), "N0202 `m.gguf` ends at byte 2"),
        (
            damage(&|bytes| *bytes = b"version https://git-lfs.github.com/spec/v1".to_vec()),
            "Git LFS",
        ),
    ] {
        assert!(found.contains(words), "{found}: {words}");
    }
    let twice = good.clone().floats("t", &[1]);
    let again = good.clone().text("general.name", "y");
    let nested = (0..6).fold(text("x"), |inner, i| {
        let kind: u32 = if i == 0 { 8 } else { 9 };
        [&kind.to_le_bytes()[..], &1u64.to_le_bytes(), &inner].concat()
    });
    let nested = good.clone().raw("deep", 9, &nested);
    for (file, words) in [
        (twice, "tensor `t` is there twice"),
        (again, "key `general.name` is there twice"),
        (nested, "key `deep` has more than 4 lists"),
    ] {
        let found = read("m.gguf", &file.bytes()).err().expect("refused");
        assert!(found.message.contains(words), "{found}");
    }
}

/// A model in several files is one model, which waits for all of them.
#[test]
fn parts_belong_together() {
    let (file, _) = complete(small("llama"));
    let count = file.tensors.len() as u32;
    let part = |file: File, number: u16| {
        file.raw("split.no", 2, &number.to_le_bytes())
            .raw("split.count", 2, &2u16.to_le_bytes())
            .size("split.tensors.count", count)
    };
    let mut first = part(file.clone(), 0);
    let mut second = part(File::default(), 1);
    second.tensors = first.tensors.split_off(5);
    let name = |number: u32| format!("d/m-{number:05}-of-00002.gguf");
    let alone = Dropped::file(name(1), first.bytes());
    let probe = testing::probe(&HuggingFace, &alone).unwrap();
    let missing = probe.needs.iter().find(|need| need.found_as.is_empty()).unwrap();
    assert_eq!((probe.claim, missing.path.as_str()), (Claim::ByContent, name(2).as_str()));
    let both = alone.and(name(2), second.bytes());
    assert!(
        testing::probe(&HuggingFace, &both).unwrap().needs.iter().all(|n| !n.found_as.is_empty())
    );
    let found = testing::import(&HuggingFace, &both).unwrap();
    assert_eq!(logits(&found.model), logits(&model(&file).unwrap()));
    let other = Dropped::file(name(2), second.bytes()).and(name(1), first.bytes());
    assert_eq!(testing::probe(&HuggingFace, &other).unwrap().claim, Claim::No);
    // Parts that wait for the first one name it alone.
    let last = Dropped::file("m-00009-of-00009.gguf", second.bytes());
    let needs = testing::probe(&HuggingFace, &last).unwrap().needs;
    assert!(needs.len() == 1 && needs[0].path == "m-00001-of-00009.gguf", "{needs:?}");
    let wrong = Dropped::file(name(1), first.bytes()).and(name(2), first.bytes());
    let found = testing::import(&HuggingFace, &wrong).unwrap_err().to_string();
    assert!(found.contains("`split.no` is 0"), "{found}");
}

/// Numbers of tokens go to the file of GenAI, and elements that are no numbers are told.
#[test]
fn what_the_import_tells_beside_the_graph() {
    let (file, _) = complete(small("llama"));
    let ids = [("bos", 3), ("eos", 4), ("padding", 5)];
    let file = ids
        .iter()
        .fold(file, |file, (key, id)| file.size(&format!("tokenizer.ggml.{key}_token_id"), *id));
    let dropped = Dropped::file("m.gguf", file.bytes());
    let genai = dropped.clone().param("export.runtime", "onnxruntime-genai");
    let done = testing::import(&HuggingFace, &genai).unwrap();
    let config: Value = serde_json::from_slice(&done.files["genai_config.json"]).unwrap();
    let said = |key: &str| config["model"][key].as_u64();
    assert_eq!(
        ["bos", "eos", "pad"].map(|key| said(&format!("{key}_token_id"))),
        [3, 4, 5].map(Some)
    );
    let mut odd = file;
    let norm = odd.tensors.iter_mut().find(|(name, ..)| name == "blk.1.attn_norm.weight").unwrap();
    norm.3[12..16].copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
    let log = testing::import(&HuggingFace, &Dropped::file("m.gguf", odd.bytes())).unwrap().log;
    let notes = &log.notes;
    let words = "element 3 of tensor `blk.1.attn_norm.weight` is -inf";
    assert!(notes.len() == 1 && notes[0].message.contains(words), "{notes:?}");
    let told = &log.metadata["hf.proof"];
    assert!(told.contains("layer 1 was not compared: "), "{told}");
}

/// Beside a checkpoint in files of safetensors, a file of GGUF is another copy.
#[test]
fn other_copies_are_left_alone() {
    let (file, _) = complete(small("llama"));
    let alone = Dropped::file("m.gguf", file.bytes());
    assert_eq!(testing::probe(&HuggingFace, &alone).unwrap().claim, Claim::ByContent);
    let beside = alone.clone().and("config.json", "{}").and("model.safetensors", "");
    assert_eq!(testing::probe(&HuggingFace, &beside).unwrap().claim, Claim::No);
    let config =
        Dropped::file("config.json", r#"{"model_type": "llama"}"#).and("m.gguf", file.bytes());
    assert_eq!(testing::probe(&HuggingFace, &config).unwrap().claim, Claim::No);
    let shard = alone.clone().and("config.json", "{}").and("model-00001-of-00002.safetensors", "");
    assert_eq!(testing::probe(&HuggingFace, &shard).unwrap().claim, Claim::No);
    let pickled = config.clone().and("pytorch_model.bin", "");
    assert_eq!(testing::probe(&HuggingFace, &pickled).unwrap().claim, Claim::No);
    let loud = Dropped::file("M.GGUF", file.bytes());
    assert_eq!(testing::probe(&HuggingFace, &loud).unwrap().claim, Claim::ByContent);
    assert_eq!(testing::import(&HuggingFace, &loud).unwrap().log.notes.len(), 0);
    let odd = (0..9).fold(file, |file, i| file.size(&format!("odd.{i}"), i));
    let notes =
        testing::import(&HuggingFace, &Dropped::file("m.gguf", odd.bytes())).unwrap().log.notes;
    assert!(notes.len() == 6 && notes[5].message.contains("4 more keys"), "{notes:?}");
    let with = testing::import(&HuggingFace, &alone.and("README.md", "x")).unwrap();
    assert_eq!(with.files["README.md"], b"x");
}

/// Rows of queries as Hugging Face has them, which the graph takes for those of the file.
#[test]
fn queries_in_the_order_of_the_family_are_caught() {
    let (file, model) = complete(whole("llama"));
    let mut other = file.clone();
    let is_query = |name: &str| name.ends_with("attn_q.weight");
    for (_, dims, _, bytes) in other.tensors.iter_mut().filter(|tensor| is_query(&tensor.0)) {
        let rows: Vec<&[u8]> = bytes.chunks_exact(4 * dims[1]).collect();
        let from = |i: usize| rows[i / 4 * 4 + [0, 2, 1, 3][i % 4]];
        *bytes = (0..rows.len()).flat_map(from).copied().collect();
    }
    proof::check_wrong(&model, &read("m.gguf", &other.bytes()).unwrap());
}
