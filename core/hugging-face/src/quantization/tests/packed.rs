//! compressed-tensors.

use super::{
    Tensors, changed, code, compare, floats_of_8_bits, parsed, random_scales, random_words,
    refused, rounded, scheme,
};
use crate::weight::tests::{e4m3, numbers};
use onnxd_plugin_sdk::ir::DataType;
use serde_json::{Value, json};

fn compressed(weights: &Value) -> Value {
    json!({
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
        "config_groups": { "group_0": { "targets": ["Linear"], "weights": weights } },
    })
}

fn integers(bits: usize, is_symmetric: bool) -> Value {
    let strategy =
        json!({ "strategy": "group", "group_size": 16, "actorder": null, "dynamic": false });
    let mut weights = json!({ "num_bits": bits, "type": "int", "symmetric": is_symmetric });
    for (key, value) in strategy.as_object().unwrap() {
        weights[key] = value.clone();
    }
    weights
}

fn packed_layer(bits: usize, [outputs, inputs]: [usize; 2], groups: usize) -> Tensors {
    let columns = (inputs * bits).div_ceil(32);
    let shape = [outputs, inputs].iter().flat_map(|size| (*size as u64).to_le_bytes()).collect();
    Tensors::default()
        .words("w.weight_packed", &[outputs, columns], &random_words(outputs * columns, 1))
        .halves("w.weight_scale", &[outputs, groups], &random_scales(outputs * groups, 3))
        .with("w.weight_shape", "I64", &[2], shape)
}

#[test]
fn packed_integers_of_compressed_tensors() {
    for bits in [4usize, 8] {
        for (sizes, form) in [
            ([10, 48], "symmetric"),
            ([7, 43], "words"),
            ([10, 48], "bytes"),
            ([5, 43], "channel"),
            ([6, 48], "order"),
        ] {
            let [outputs, inputs]: [usize; 2] = sizes;
            let size = if form == "channel" { inputs } else { 16 };
            let (groups, in_word, half) = (inputs.div_ceil(size), 32 / bits, 1i64 << (bits - 1));
            let mut layer = packed_layer(bits, sizes, groups);
            let mut weights = integers(bits, !matches!(form, "words" | "bytes"));
            let zeros = random_words(outputs.div_ceil(in_word) * groups, 2);
            let signed: Vec<i8> =
                zeros.iter().cycle().take(outputs * groups).map(|z| (z % 16) as i8 - 8).collect();
            let group = |input: usize| if form == "order" { input % groups } else { input / size };
            match form {
                "words" => {
                    let dims = [outputs.div_ceil(in_word), groups];
                    layer = layer.words("w.weight_zero_point", &dims, &zeros);
                }
                "bytes" => {
                    let bytes = signed.iter().map(|z| *z as u8).collect();
                    layer = layer.with("w.weight_zero_point", "I8", &[outputs, groups], bytes);
                }
                "channel" => weights["strategy"] = json!("channel"),
                "order" => {
                    let index: Vec<u32> = (0..inputs).map(|input| group(input) as u32).collect();
                    layer = layer.words("w.weight_g_idx", &[inputs], &index);
                    weights["actorder"] = json!("group");
                }
                _ => layer = layer.words("w.weight_g_idx", &[inputs], &vec![u32::MAX; inputs]),
            }
            let blocks = layer.read(&compressed(&weights), sizes).unwrap().unwrap();
            assert_eq!(blocks.zero_points.is_some(), matches!(form, "words" | "bytes"));
            let columns = inputs.div_ceil(in_word);
            let (words, scales) =
                (random_words(outputs * columns, 1), random_scales(outputs * groups, 3));
            compare(&blocks, sizes, |output, input| {
                let q =
                    code(words[output * columns + input / in_word], input % in_word, bits) - half;
                let z = match form {
                    "words" => {
                        let word = zeros[output / in_word * groups + group(input)];
                        code(word, output % in_word, bits) - half
                    }
                    "bytes" => signed[output * groups + group(input)].into(),
                    _ => 0,
                };
                (q - z) as f64 * f64::from(scales[output * groups + group(input)])
            });
        }
    }
}

#[test]
fn plain_integers_and_floats_of_compressed_tensors() {
    let sizes = [6, 20];
    let scales = rounded(&numbers(6, 3), DataType::Bfloat16);
    let layer = Tensors::default();
    let layer = layer.with("w.weight_scale", "BF16", &[6, 1], scales.bytes().to_vec());
    let scales = scales.cast(DataType::Float).unwrap().as_slice::<f32>().unwrap().into_owned();
    let codes = floats_of_8_bits(120);
    let weights = |kind: &str, is_symmetric: bool| {
        let strategy = "channel";
        json!({ "num_bits": 8, "type": kind, "symmetric": is_symmetric, "strategy": strategy })
    };
    let scale = |output: usize| f64::from(scales[output]);
    let floats = layer.clone().with("w.weight", "F8_E4M3", &sizes, codes.clone());
    let config_of_floats =
        changed(&compressed(&weights("float", true)), "format", json!("float-quantized"));
    let blocks = floats.read(&config_of_floats, sizes).unwrap().unwrap();
    compare(&blocks, sizes, |o, i| e4m3(codes[o * 20 + i]) * scale(o));
    let integers = layer.clone().with("w.weight", "I8", &sizes, codes.clone());
    let config = changed(&compressed(&weights("int", true)), "format", json!("int-quantized"));
    let blocks = integers.read(&config, sizes).unwrap().unwrap();
    compare(&blocks, sizes, |o, i| f64::from(codes[o * 20 + i] as i8) * scale(o));
    let asymmetric = compressed(&weights("int", false));
    assert!(integers.refused(&asymmetric, sizes).contains("`w.weight_zero_point` is missing"));
    let zeros: Vec<u8> = vec![250, 3, 0, 127, 128, 9];
    let blocks = integers.with("w.weight_zero_point", "I8", &[6, 1], zeros.clone());
    let blocks = blocks.read(&asymmetric, sizes).unwrap().unwrap();
    compare(&blocks, sizes, |o, i| {
        f64::from(i32::from(codes[o * 20 + i] as i8) - i32::from(zeros[o] as i8)) * scale(o)
    });
    // Of two groups the one whose scales fit counts, and inputs may have an order of their own.
    let blocks = json!({ "num_bits": 8, "type": "int", "strategy": "group", "group_size": 5 });
    let mut both = compressed(&weights("int", true));
    both["config_groups"]["group_1"] = json!({ "targets": ["w"], "weights": blocks });
    let random = random_scales(24, 3);
    let index: Vec<u32> = (0..20).map(|input| input % 4).collect();
    let ordered = Tensors::default().halves("w.weight_scale", &[6, 4], &random);
    let ordered = ordered.with("w.weight", "I8", &sizes, codes.clone());
    let blocks =
        ordered.words("w.weight_g_idx", &[20], &index).read(&both, sizes).unwrap().unwrap();
    compare(&blocks, sizes, |o, i| {
        f64::from(codes[o * 20 + i] as i8) * f64::from(random[o * 4 + i % 4])
    });
    let odd = floats.clone().with("w.weight_zero_point", "F8_E4M3", &[6, 1], vec![0; 6]);
    assert!(odd.refused(&config_of_floats, sizes).contains("`w.weight_zero_point` is there"));
    assert!(
        floats.refused(&asymmetric, sizes).contains("no group"),
        "floats where integers are described"
    );
}

#[test]
fn compressed_tensors_says_what_it_cannot_read() {
    let good = compressed(&integers(4, true));
    let weight = |key: &str, value: Value| {
        let mut weights = integers(4, true);
        weights[key] = value;
        compressed(&weights)
    };
    for (section, words) in [
        (
            changed(&good, "format", json!("marlin-24")),
            "`quantization_config.format` is `marlin-24`",
        ),
        (
            changed(&good, "config_groups", json!(null)),
            "`quantization_config.config_groups` is null",
        ),
        (changed(&good, "config_groups", json!({ "a": 1 })), "config_groups.a` is 1"),
        (
            changed(&good, "sparsity_config", json!({ "format": "sparse-24-bitmask" })),
            "is `sparse-24-bitmask`",
        ),
        (
            changed(&good, "transform_config", json!({ "x": 1 })),
            "`quantization_config.transform_config`",
        ),
        (weight("num_bits", json!(3)), "weights.num_bits` is 3"),
        (weight("type", json!("float")), "weights.num_bits` is 4"),
        (weight("type", json!("odd")), "weights.type` is `odd`"),
        (weight("strategy", json!("tensor_group")), "weights.strategy` is `tensor_group`"),
        (weight("dynamic", json!(true)), "weights.dynamic` is true"),
        (weight("actorder", json!("odd")), "weights.actorder` is `odd`"),
        (weight("group_size", json!(null)), "weights.group_size` is null"),
    ] {
        let found = refused(&section);
        assert!(found.contains(words), "{words}: {found}");
    }
    let layer = packed_layer(4, [10, 48], 3);
    let swapped = [48u64, 10].iter().flat_map(|size| size.to_le_bytes()).collect();
    for (layer, words) in [
        (layer.clone().without("w.weight_scale"), "`w.weight_scale` is missing"),
        (layer.clone().with("w.weight_shape", "I64", &[2], swapped), "is of the shape [48, 10]"),
        (layer.clone().with("w.weight_shape", "U8", &[6], vec![0; 6]), "elements of type uint8"),
        (layer.clone().with("w.weight_shape", "I64", &[1], vec![0; 8]), "has the shape [1]"),
        (
            layer.clone().words("w.weight_packed", &[10, 12], &[0; 120]),
            "[10, 12] with scales of the shape [10, 3]",
        ),
        (
            layer.clone().with("w.weight_packed", "U8", &[10, 6], vec![0; 60]),
            "elements of type uint8",
        ),
        (layer.clone().halves("w.weight_scale", &[10, 6], &[0.0; 60]), "no group"),
        (layer.clone().with("w.weight_scale", "I8", &[10, 3], vec![0; 30]), "which are no scales"),
    ] {
        let found = layer.refused(&good, [10, 48]);
        assert!(found.contains(words), "{words}: {found}");
    }
    // Of two groups the one that the sizes fit counts.
    let mut both = compressed(&integers(8, true));
    both["config_groups"]["group_1"] = json!({ "weights": integers(4, true) });
    assert!(layer.read(&both, [10, 48]).unwrap().is_some());
    // What is asked of activations is told.
    both["config_groups"]["group_1"]["input_activations"] = json!({ "num_bits": 8 });
    let config = parsed(&both);
    scheme(&config).unwrap();
    let told: Vec<String> = config.notes().iter().map(|note| note.message.clone()).collect();
    assert!(told.len() == 1 && told[0].contains("input_activations"), "{told:?}");
}

/// Two groups whose sizes are the same: one without zero points, and one with them, which the tensors lack.
fn either(with: &Value, without: &Value) -> Value {
    let mut both = compressed(&integers(4, true));
    both["config_groups"]["group_0"]["targets"] = without.clone();
    both["config_groups"]["group_1"] = json!({ "targets": with, "weights": integers(4, false) });
    both
}

#[test]
fn groups_name_layers_by_name_pattern_and_class() {
    let sizes = [10, 48];
    let layer = packed_layer(4, sizes, 3);
    for (with, without) in [
        // A name goes before patterns, these before classes, and all before what cannot be told.
        (json!(["re:w", "Linear"]), json!(["w"])),
        (json!(["Linear"]), json!(["re:w$"])),
        (json!(["v", "re:w.+", "re:^model"]), json!(["Linear"])),
        (json!(["FusedMoE"]), json!(["Linear"])),
        (json!(["v"]), json!(["FusedMoE"])),
        (json!(["re:[a-v]|x"]), json!(["re:(?i)W"])),
    ] {
        let config = either(&with, &without);
        let blocks = layer.read(&config, sizes).unwrap().unwrap();
        assert!(blocks.zero_points.is_none(), "{config}");
        let found = layer.refused(&either(&without, &with), sizes);
        assert!(found.contains("`w.weight_zero_point` is missing"), "{found}");
    }
    for (one, other) in [
        (json!(["Linear"]), json!(["Linear"])),
        (json!(["re:w"]), json!(["v", "re:.*"])),
        (json!(["FusedMoE"]), json!(["LinearBase"])),
        (json!(["v"]), json!(null)),
    ] {
        let found = layer.refused(&either(&one, &other), sizes);
        assert!(found.contains("`targets` do not tell which one counts"), "{one} {other}: {found}");
        assert!(found.contains("the weights of `w`"), "{found}");
    }
    // Groups that say the same need not be told apart.
    let mut same = either(&json!(["Linear"]), &json!(["Linear"]));
    same["config_groups"]["group_1"]["weights"] = integers(4, true);
    assert!(layer.read(&same, sizes).unwrap().is_some());
}

#[test]
fn patterns_are_bounded_and_understood() {
    let with = |targets: Value| either(&targets, &json!(["Linear"]));
    for (targets, words) in [
        (json!(["re:("]), "the pattern `re:(` is not understood"),
        (json!(["re:(?!lm_head).*"]), "the pattern `re:(?!lm_head).*` is not understood"),
        (json!(["re:(a{999}){999}"]), "is not understood"),
        (json!(vec!["re:a"; 257]), "has 257 patterns, of 256 at most"),
        (json!([format!("re:{}", "a".repeat(4096))]), "has a pattern of 4099 bytes"),
    ] {
        let found = refused(&with(targets));
        assert!(found.contains(words), "{words}: {found}");
    }
    let ignored = |listed: &str| {
        let config = changed(&compressed(&integers(4, true)), "ignore", json!([listed]));
        packed_layer(4, [10, 48], 3).read(&config, [10, 48])
    };
    for other in ["re:.*lm_head", "re:.w", "lm_head", "Linear_"] {
        assert!(ignored(other).is_ok(), "{other}");
    }
    for listed in ["re:.*w$", "re:w", "w"] {
        let found = ignored(listed).unwrap_err().to_string();
        assert!(found.contains("`ignore` lists"), "{listed}: {found}");
    }
    let found = refused(&changed(&compressed(&integers(4, true)), "ignore", json!(["re:["])));
    assert!(found.contains("`quantization_config.ignore`"), "{found}");
}
