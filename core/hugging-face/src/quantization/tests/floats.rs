//! FP8 and MXFP4.

use super::{Tensors, changed, compare, floats_of_8_bits, refused};
use crate::weight::tests::{bytes, check, e4m3, numbers, plainly};
use serde_json::{Value, json};

fn fp8() -> Value {
    json!({ "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [4, 6] })
}

#[test]
fn fp8_has_scales_of_blocks_outputs_or_all() {
    let (sizes, codes) = ([10, 15], floats_of_8_bits(150));
    let scales = numbers(150, 5);
    let of = |scales: &[f32]| scales.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    type Place = fn(usize, usize) -> usize;
    let cases: [(&str, &[usize], Value, Place); 6] = [
        ("w.weight_scale_inv", &[3, 3], json!([4, 6]), |o, i| o / 4 * 3 + i / 6),
        ("w.weight_scale_inv", &[1, 1], json!([128, 128]), |_, _| 0),
        ("w.weight_scale", &[10, 1], json!(null), |o, _| o),
        ("w.weight_scale", &[10], json!(null), |o, _| o),
        ("w.weight_scale", &[], json!(null), |_, _| 0),
        ("w.weight_scale", &[1], json!([4, 6]), |_, _| 0),
    ];
    for (name, dims, block, place) in cases {
        let count = dims.iter().product();
        let layer = Tensors::default().with("w.weight", "F8_E4M3", &[10, 15], codes.clone());
        let layer = layer.with(name, "F32", dims, of(&scales[..count]));
        let config = changed(&fp8(), "weight_block_size", block);
        let blocks = layer.read(&config, sizes).unwrap().unwrap();
        compare(&blocks, sizes, |output, input| {
            e4m3(codes[output * 15 + input]) * f64::from(scales[place(output, input)])
        });
    }
    // Powers of two, and weights that are no floats of 8 bits.
    let layer = Tensors::default().with("w.weight", "F8_E4M3", &[10, 15], codes.clone());
    let layer = layer.with("w.weight_scale_inv", "F8_E8M0", &[1, 1], vec![125]);
    let blocks = layer.read(&changed(&fp8(), "weight_block_size", json!([128, 128])), sizes);
    compare(&blocks.unwrap().unwrap(), sizes, |o, i| e4m3(codes[o * 15 + i]) / 4.0);
    let layer = layer.with("w.weight", "BF16", &[10, 15], vec![0; 300]);
    assert!(layer.read(&fp8(), sizes).unwrap().is_none());
}

#[test]
fn fp8_says_what_it_cannot_read() {
    for (key, value, words) in [
        ("fmt", json!("e5m2"), "`quantization_config.fmt` is `e5m2`"),
        ("scale_fmt", json!("odd"), "`quantization_config.scale_fmt` is `odd`"),
        ("activation_scheme", json!("odd"), "`quantization_config.activation_scheme` is `odd`"),
        (
            "weight_block_size",
            json!([0, 128]),
            "`quantization_config.weight_block_size` is [0,128]",
        ),
        ("weight_block_size", json!([128]), "`quantization_config.weight_block_size` is [128]"),
    ] {
        let found = refused(&changed(&fp8(), key, value));
        assert!(found.contains(words), "{words}: {found}");
    }
    let layer = Tensors::default().with("w.weight", "F8_E4M3", &[10, 15], vec![0; 150]);
    assert!(layer.refused(&fp8(), [10, 15]).contains("`w.weight_scale` is missing"));
    let short = layer.clone().with("w.weight_scale_inv", "F32", &[2, 3], vec![0; 24]);
    assert!(short.refused(&fp8(), [10, 15]).contains("asks for [3, 3]"));
    assert!(short.refused(&fp8(), [15, 10]).contains("`w.weight` has the shape [10, 15]"));
    let listed = changed(&fp8(), "ignored_layers", json!(["w"]));
    assert!(layer.refused(&listed, [10, 15]).contains("`ignored_layers` lists `w`"));
}

#[test]
fn experts_of_mxfp4() {
    let (count, outputs, inputs) = (2, 3, 64);
    let (codes, powers) = (
        bytes(count * outputs * inputs / 2, 1),
        vec![127, 120, 130, 0, 254, 126, 127, 1, 125, 99, 140, 128],
    );
    let layer = Tensors::default()
        .with("w_blocks", "U8", &[count, outputs, 2, 16], codes.clone())
        .with("w_scales", "U8", &[count, outputs, 2], powers.clone());
    let config =
        json!({ "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"] });
    let read = |layer: &Tensors| {
        layer.checkpoint(&config).unwrap().quantized_experts("w", [count, outputs, inputs])
    };
    let blocks = read(&layer).unwrap().unwrap();
    let table = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let wanted = (0..count * outputs * inputs).map(|at| {
        let code = codes[at / 2] >> (at % 2 * 4) & 15;
        let sign = if code > 7 { -1.0 } else { 1.0 };
        sign * table[usize::from(code & 7)] * 2f64.powi(i32::from(powers[at / 32]) - 127)
    });
    let wanted: Vec<f64> = wanted.collect();
    assert_eq!(plainly(&blocks), wanted);
    let milder = layer.clone().with("w_scales", "U8", &[count, outputs, 2], vec![128; 12]);
    let milder = read(&milder).unwrap().unwrap();
    check(&milder.clone().into(), &plainly(&milder), [outputs, inputs]);
    let short = layer.clone().with("w_scales", "U8", &[count, outputs, 1], vec![0; 6]);
    assert!(read(&short).unwrap_err().message.contains("`w_scales` has the shape [2, 3, 1]"));
    assert!(
        read(&layer.clone().without("w_scales"))
            .unwrap_err()
            .message
            .contains("`w_scales` is missing")
    );
    assert!(read(&layer.without("w_blocks")).unwrap().is_none());
}
