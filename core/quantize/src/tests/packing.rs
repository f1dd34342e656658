//! How integers of weights lie in memory, read by what the operators' documentation says: of
//! `MatMulNBits` (<https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md>)
//! and of `DequantizeLinear` with blocks.

use super::model;
use crate::plan::{QuantizeRequest, Settings};
use crate::report::Form;
use crate::search::quantize_weights;
use crate::session::OwnMemory;
use onnxd_ir::{Attr, DataType, Model, Node, Tensor};
use proptest::prelude::*;

fn made(float: &Model, settings: Settings, form: Form) -> Model {
    let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
    let mut made = float.clone();
    quantize_weights(&mut made, &request, form, None, &OwnMemory).unwrap_or_else(|d| panic!("{d}"));
    made
}

fn node<'m>(model: &'m Model, op: &str) -> &'m Node {
    model.graph.nodes().find(|(_, n)| n.op == op).unwrap_or_else(|| panic!("no {op}")).1
}

fn input<'m>(model: &'m Model, node: &Node, slot: usize) -> Option<&'m Tensor> {
    Some(model.graph.constant(node.input(slot)?).expect("a constant"))
}

fn int(node: &Node, name: &str) -> usize {
    match node.attr(name) {
        Some(Attr::Int(n)) => *n as usize,
        other => panic!("{name} is {other:?}"),
    }
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.as_slice::<f32>().expect("floats").into_owned()
}

/// Integer, scale and zero point of every weight, by row and column of `[K, N]`.
type Weights = Vec<Vec<(i64, f32, i64)>>;

/// `B` is `[N, blocks, bytes of a block]`, scales `[N, blocks]`, zero points `[N, bytes]`, where
/// rows begin at a byte. Of 4 bits, the lower half of a byte comes first. Without zero points, zero
/// is the middle.
fn of_bits(model: &Model) -> Weights {
    let node = node(model, "MatMulNBits");
    let [k, n, bits, block] = ["K", "N", "bits", "block_size"].map(|name| int(node, name));
    let (b, scales) = (input(model, node, 1).unwrap(), floats(input(model, node, 2).unwrap()));
    let blocks = k.div_ceil(block);
    let blob = block * bits / 8;
    assert_eq!((b.dtype(), b.dims()), (DataType::Uint8, &[n, blocks, blob][..]));
    assert_eq!(scales.len(), n * blocks);
    let zeros = input(model, node, 3);
    let zero_row = (blocks * bits).div_ceil(8);
    assert!(zeros.is_none_or(|z| z.dtype() == DataType::Uint8 && z.len() == n * zero_row));
    let field = |bytes: &[u8], i: usize| match bits {
        8 => i64::from(bytes[i]),
        _ if i.is_multiple_of(2) => i64::from(bytes[i / 2] % 16),
        _ => i64::from(bytes[i / 2] / 16),
    };
    let one = |row: usize, column: usize| {
        let (at, within) = (row / block, row % block);
        let bytes = &b.bytes()[(column * blocks + at) * blob..][..blob];
        let zero = zeros
            .map_or(1 << (bits - 1), |z| field(&z.bytes()[column * zero_row..][..zero_row], at));
        (field(bytes, within), scales[column * blocks + at], zero)
    };
    (0..k).map(|row| (0..n).map(|column| one(row, column)).collect()).collect()
}

/// Element `i` of 4 bits lies in byte `i / 2`, the even ones in the lower half.
fn element(t: &Tensor, i: usize) -> i64 {
    let bytes = t.bytes();
    let half = if i.is_multiple_of(2) { bytes[i / 2] & 15 } else { bytes[i / 2] >> 4 };
    match t.dtype() {
        DataType::Uint8 => i64::from(bytes[i]),
        DataType::Int8 => i64::from(bytes[i] as i8),
        DataType::Uint4 => i64::from(half),
        DataType::Int4 if half > 7 => i64::from(half) - 16,
        DataType::Int4 => i64::from(half),
        other => panic!("{other} are no weights"),
    }
}

/// `y = (x - zero_point) * scale`, scale and zero point those of the block along `axis`.
fn of_blocks(model: &Model, (k, n): (usize, usize), turned: bool) -> Weights {
    let node = node(model, "DequantizeLinear");
    let (x, scales) = (input(model, node, 0).unwrap(), input(model, node, 1).unwrap());
    let axis = if node.attr("axis").is_some() { int(node, "axis") } else { 1 };
    let block = int(node, "block_size");
    let blocks = k.div_ceil(block);
    assert_eq!(axis, usize::from(turned));
    assert_eq!(x.dims(), if turned { [n, k] } else { [k, n] });
    assert_eq!(scales.dims(), if turned { [n, blocks] } else { [blocks, n] });
    let (zeros, steps) = (input(model, node, 2), floats(scales));
    assert!(zeros.is_none_or(|z| z.dims() == scales.dims() && z.dtype() == x.dtype()));
    let one = |row: usize, column: usize| {
        let (at, of) = match turned {
            true => (column * k + row, column * blocks + row / block),
            false => (row * n + column, row / block * n + column),
        };
        (element(x, at), steps[of], zeros.map_or(0, |z| element(z, of)))
    };
    (0..k).map(|row| (0..n).map(|column| one(row, column)).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every weight comes back to half a step, or lies at an end of what its block represents; and
    /// both forms hold the same.
    #[test]
    fn integers_lie_where_the_documentation_says(
        k in 1usize..80, n in prop_oneof![Just(1usize), 2usize..6], turned: bool, symmetric: bool,
        size in 4u32..7, seed: u64,
        weight in prop::sample::select(vec![
            DataType::Int4, DataType::Uint4, DataType::Int8, DataType::Uint8,
        ]),
    ) {
        let block = 1usize << size;
        let dims = if turned { [n, k] } else { [k, n] };
        let turn = usize::from(turned);
        let graph = format!(
            "g (float[2,{k}] x) => (float[2,{n}] y) <float{dims:?} w>
             {{ y = Gemm<transB = {turn}>(x, w) }}"
        );
        let mut float = model(&graph, seed);
        float.opsets.insert(String::new(), 21);
        let v = float.graph.value_named("w").unwrap();
        let w = floats(float.graph.constant(v).unwrap());
        let settings = Settings { weight, block_size: block, symmetric, ..Settings::default() };
        let bits = of_bits(&made(&float, settings, Form::QLinear));
        let blocks = of_blocks(&made(&float, settings, Form::Qdq), (k, n), turned);
        let up = match weight { DataType::Int4 => 8, DataType::Int8 => 128, _ => 0 };
        let most = if weight.bits() == 4 { 15 } else { 255 };
        for row in 0..k {
            for column in 0..n {
                let (q, scale, zero) = bits[row][column];
                let (p, other, origin) = blocks[row][column];
                prop_assert_eq!((q, scale, zero), (p + up, other, origin + up));
                let x = w[if turned { column * k + row } else { row * n + column }];
                let end = |q: i64| (q - zero) as f32 * scale;
                // Scales of symmetric ranges may be negative.
                let nearest = x.clamp(end(0).min(end(most)), end(0).max(end(most)));
                let error = (end(q) - nearest).abs();
                let bound = 0.5001 * scale.abs() + 1e-6;
                prop_assert!(error <= bound, "{x} is {} steps {scale}", end(q));
                prop_assert!(scale > 0.0 || symmetric);
            }
        }
    }
}
