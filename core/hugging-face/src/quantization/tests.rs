//! Each form against its formula, over numbers without a pattern: the tests unpack words by themselves.

mod floats;
mod packed;

use super::{Excepted, PATTERNS_MAX, scheme};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::safetensors;
use crate::weight::Blocks;
use crate::weight::tests::{bytes, check, numbers, plainly};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use serde_json::{Map, Value, json};

/// Tensors of a file: name, type, sizes, bytes.
#[derive(Clone, Default)]
struct Tensors(Vec<(String, &'static str, Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn with(mut self, name: &str, dtype: &'static str, dims: &[usize], bytes: Vec<u8>) -> Tensors {
        self.0.retain(|(other, ..)| other != name);
        self.0.push((name.to_owned(), dtype, dims.to_vec(), bytes));
        self
    }

    fn without(mut self, name: &str) -> Tensors {
        self.0.retain(|(other, ..)| other != name);
        self
    }

    fn words(self, name: &str, dims: &[usize], words: &[u32]) -> Tensors {
        self.with(name, "I32", dims, words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn halves(self, name: &str, dims: &[usize], values: &[f32]) -> Tensors {
        self.with(name, "F16", dims, rounded(values, DataType::Float16).bytes().to_vec())
    }

    fn checkpoint(&self, config: &Value) -> Result<Checkpoint, Diagnostic> {
        let (mut header, mut data) = (Map::new(), Vec::new());
        for (name, dtype, dims, bytes) in &self.0 {
            let offsets = [data.len(), data.len() + bytes.len()];
            header.insert(
                name.clone(),
                json!({ "dtype": dtype, "shape": dims, "data_offsets": offsets }),
            );
            data.extend(bytes);
        }
        let header = Value::Object(header).to_string();
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        let stored = safetensors::read("m.safetensors", &file.into())?;
        let mut checkpoint =
            Checkpoint::of(stored.into_iter().map(|t| (t.name.clone(), t)).collect());
        checkpoint.by(scheme(&parsed(config))?);
        Ok(checkpoint)
    }

    /// The layer `w` of this size.
    fn read(&self, config: &Value, sizes: [usize; 2]) -> Result<Option<Blocks>, Diagnostic> {
        self.checkpoint(config)?.quantized("w", sizes)
    }

    /// Why it is refused.
    fn refused(&self, config: &Value, sizes: [usize; 2]) -> String {
        self.read(config, sizes).unwrap_err().to_string()
    }
}

fn parsed(section: &Value) -> Config {
    let text = json!({ "quantization_config": section }).to_string();
    Config::parse(text.as_bytes()).unwrap()
}

fn refused(section: &Value) -> String {
    scheme(&parsed(section)).map(|_| ()).unwrap_err().to_string()
}

/// The section with a field changed.
fn changed(section: &Value, key: &str, value: Value) -> Value {
    let mut section = section.clone();
    section[key] = value;
    section
}

fn random_words(count: usize, seed: u32) -> Vec<u32> {
    bytes(4 * count, seed).as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

fn random_scales(count: usize, seed: u32) -> Vec<f32> {
    let rounded = rounded(&numbers(count, seed), DataType::Float16);
    rounded.cast(DataType::Float).unwrap().as_slice::<f32>().unwrap().into_owned()
}

fn rounded(values: &[f32], dtype: DataType) -> Tensor {
    Tensor::vector(values.to_vec()).cast(dtype).unwrap()
}

/// Code `i` of so many bits in a word.
fn code(word: u32, i: usize, bits: usize) -> i64 {
    i64::from(word >> (i * bits) & ((1u64 << bits) - 1) as u32)
}

/// Compares a layer with `value(output, input)`, as numbers and as a product.
fn compare(blocks: &Blocks, [outputs, inputs]: [usize; 2], value: impl Fn(usize, usize) -> f64) {
    let wanted: Vec<f64> =
        (0..outputs * inputs).map(|at| value(at / inputs, at % inputs)).collect();
    assert_eq!(plainly(blocks), wanted);
    check(&blocks.clone().into(), &wanted, [outputs, inputs]);
}

fn awq() -> Value {
    json!({ "quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": true, "version": "GEMM" })
}

fn awq_layer([outputs, inputs]: [usize; 2], groups: usize) -> Tensors {
    Tensors::default()
        .words("w.qweight", &[inputs, outputs / 8], &random_words(inputs * outputs / 8, 1))
        .words("w.qzeros", &[groups, outputs / 8], &random_words(groups * outputs / 8, 2))
        .halves("w.scales", &[groups, outputs], &random_scales(groups * outputs, 3))
}

#[test]
fn awq_has_outputs_in_an_order_of_its_own() {
    for (sizes, group, size) in [([24, 64], 32, 32), ([8, 40], 32, 32), ([16, 7], -1, 7)] {
        let [outputs, inputs]: [usize; 2] = sizes;
        let layer = awq_layer(sizes, inputs.div_ceil(size));
        let blocks =
            layer.read(&changed(&awq(), "group_size", json!(group)), sizes).unwrap().unwrap();
        let (words, zeros) = (random_words(inputs * outputs / 8, 1), random_words(64 * outputs, 2));
        let scales = random_scales(inputs.div_ceil(size) * outputs, 3);
        let place =
            |output: usize| [0, 2, 4, 6, 1, 3, 5, 7].iter().position(|o| *o == output % 8).unwrap();
        compare(&blocks, sizes, |output, input| {
            let q = code(words[input * outputs / 8 + output / 8], place(output), 4);
            let z = code(zeros[input / size * outputs / 8 + output / 8], place(output), 4);
            (q - z) as f64 * f64::from(scales[input / size * outputs + output])
        });
    }
}

#[test]
fn awq_says_what_it_cannot_read() {
    let layer = awq_layer([24, 64], 2);
    assert!(layer.clone().without("w.qweight").read(&awq(), [24, 64]).unwrap().is_none());
    for (key, value, words) in [
        ("bits", json!(3), "`quantization_config.bits` is 3"),
        ("bits", json!(null), "`quantization_config.bits` is null"),
        ("version", json!("gemv"), "`quantization_config.version` is `gemv`"),
        ("backend", json!("llm-awq"), "`quantization_config.backend` is `llm-awq`"),
        ("zero_point", json!(false), "`quantization_config.zero_point` is false"),
        ("group_size", json!(0), "`quantization_config.group_size` is 0"),
        ("group_size", json!(1e30), "`quantization_config.group_size` is 1e"),
        ("modules_to_not_convert", json!([1]), "`quantization_config.modules_to_not_convert`"),
    ] {
        assert!(refused(&changed(&awq(), key, value)).contains(words), "{words}");
    }
    for (layer, words) in [
        (layer.clone().without("w.qzeros"), "`w.qzeros` is missing"),
        (layer.clone().without("w.scales"), "`w.scales` is missing"),
        (
            layer.clone().words("w.qweight", &[8, 24], &[0; 192]),
            "shape [8, 24], and `config.json` asks for [64, 3]",
        ),
        (
            layer.clone().words("w.scales", &[2, 24], &[0; 48]),
            "`w.scales` has elements of type int32",
        ),
        (layer.clone().with("w.qweight", "I8", &[64, 3], vec![0; 192]), "elements of type int8"),
        (layer.clone().words("w.qzeros", &[0, 3], &[]), "`w.qzeros` has the shape [0, 3]"),
    ] {
        let found = layer.refused(&awq(), [24, 64]);
        assert!(found.contains(words), "{words}: {found}");
    }
    let listed = changed(&awq(), "modules_to_not_convert", json!(["w"]));
    assert!(layer.refused(&listed, [24, 64]).contains("lists `w`"));
}

fn gptq(bits: usize) -> Value {
    json!({
        "quant_method": "gptq", "bits": bits, "group_size": 16, "desc_act": true, "sym": false,
        "damp_percent": 0.01, "true_sequential": true,
    })
}

fn gptq_layer(bits: usize, [outputs, inputs]: [usize; 2], groups: usize) -> Tensors {
    let (rows, columns) = ((inputs * bits).div_ceil(32), (outputs * bits).div_ceil(32));
    Tensors::default()
        .words("w.qweight", &[rows, outputs], &random_words(rows * outputs, 1))
        .words("w.qzeros", &[groups, columns], &random_words(groups * columns, 2))
        .halves("w.scales", &[groups, outputs], &random_scales(groups * outputs, 3))
}

#[test]
fn gptq_of_each_width_with_and_without_order() {
    for bits in [2usize, 4, 8] {
        for (sizes, is_ordered, format) in
            [([16, 64], false, "gptq"), ([20, 48], true, "gptq"), ([16, 40], true, "gptq_v2")]
        {
            let [outputs, inputs]: [usize; 2] = sizes;
            let (groups, columns) = (inputs.div_ceil(16), (outputs * bits).div_ceil(32));
            // Inputs of the groups in turn, so that none lie together.
            let group = |input: usize| match is_ordered {
                true => (0..inputs).map(|i| i / 16).nth(input * 11 % inputs).unwrap(),
                false => input / 16,
            };
            let index: Vec<u32> = (0..inputs).map(|input| group(input) as u32).collect();
            let layer = gptq_layer(bits, sizes, groups).words("w.g_idx", &[inputs], &index);
            let config = changed(&gptq(bits), "checkpoint_format", json!(format));
            let blocks = layer.read(&config, sizes).unwrap().unwrap();
            assert_eq!(blocks.order.is_some(), is_ordered);
            let (words, zeros) =
                (random_words(inputs * outputs, 1), random_words(groups * columns, 2));
            let (scales, in_word) = (random_scales(groups * outputs, 3), 32 / bits);
            let more = i64::from(format == "gptq");
            compare(&blocks, sizes, |output, input| {
                let q = code(words[input / in_word * outputs + output], input % in_word, bits);
                let z =
                    code(zeros[group(input) * columns + output / in_word], output % in_word, bits);
                let z = (z + more) % (1 << bits);
                (q - z) as f64 * f64::from(scales[group(input) * outputs + output])
            });
        }
    }
}

#[test]
fn gptq_says_what_it_cannot_read() {
    for (key, value, words) in [
        ("bits", json!(3), "`quantization_config.bits` is 3"),
        (
            "checkpoint_format",
            json!("marlin"),
            "`quantization_config.checkpoint_format` is `marlin`",
        ),
        ("format", json!("bitblas"), "`quantization_config.format` is `bitblas`"),
        ("pack_dtype", json!("int8"), "`quantization_config.pack_dtype` is `int8`"),
        ("dynamic", json!({ "+:.*": {} }), "`quantization_config.dynamic`"),
        ("is_marlin_format", json!(true), "`quantization_config.is_marlin_format` is true"),
    ] {
        assert!(refused(&changed(&gptq(4), key, value)).contains(words), "{words}");
    }
    let layer = gptq_layer(4, [16, 64], 4);
    for (index, words) in [
        (vec![0; 64], "does not make groups of 16 inputs"),
        ((0..64).map(|i| i / 16 + 1).collect(), "does not make groups of 16 inputs"),
        (vec![u32::MAX; 64], "does not make groups of 16 inputs"),
        (vec![0; 63], "shape [63]"),
    ] {
        let found =
            layer.clone().words("w.g_idx", &[index.len()], &index).refused(&gptq(4), [16, 64]);
        assert!(found.contains(words), "{words}: {found}");
    }
    // Without a list, groups follow each other.
    assert!(layer.read(&gptq(4), [16, 64]).unwrap().unwrap().order.is_none());
}

/// Codes of which none stands for no number.
fn floats_of_8_bits(count: usize) -> Vec<u8> {
    bytes(count, 4).into_iter().map(|code| if code & 127 == 127 { 0 } else { code }).collect()
}

#[test]
fn other_methods_are_refused_by_name() {
    for method in [json!("bitsandbytes"), json!("hqq"), json!(3), json!(null)] {
        let found = refused(&json!({ "quant_method": method, "load_in_4bit": true }));
        assert!(found.contains("`quantization_config.quant_method`"), "{found}");
    }
    let older = json!({ "compression_config": { "quant_method": "odd" } }).to_string();
    let found = scheme(&Config::parse(older.as_bytes()).unwrap()).map(|_| ()).unwrap_err();
    assert!(found.message.contains("`compression_config.quant_method` is `odd`"));
    assert!(scheme(&Config::parse(b"{}").unwrap()).unwrap().is_none());
    // A field that nothing reads is told.
    let config = parsed(&changed(&awq(), "magic", json!(3)));
    scheme(&config).unwrap();
    let told = config.unread();
    assert!(told.len() == 1 && told[0].message.contains("`quantization_config.magic` is 3"));
}

#[test]
fn layers_are_listed_by_parts_of_their_names() {
    let name = "model.layers.3.mlp.gate_proj";
    let list =
        |names: Value| Config::parse(json!({ "ignore": names }).to_string().as_bytes()).unwrap();
    let lies_in = |name: &str, listed: &str| {
        Excepted::read(&list(json!([listed])), "ignore").unwrap().listed(name).is_some()
    };
    for listed in ["model.layers.*.mlp", "gate_proj", "mlp.gate_proj", "layers.3", name] {
        assert!(lies_in(name, listed), "{listed}");
    }
    for listed in
        ["gate", "model.layers.*.self_attn", "layers.30", "", "model.layers.3.mlp.gate_proj.weight"]
    {
        assert!(!lies_in(name, listed), "{listed}");
    }
    let many: Vec<String> = (0..=PATTERNS_MAX).map(|i| format!("layers.*.{i}")).collect();
    let found = Excepted::read(&list(json!(many)), "ignore").unwrap_err();
    assert!(found.message.contains("1025 names with a `*`"), "{found}");
}
