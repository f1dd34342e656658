//! The first layer of BERT: the sum of word, position and segment embeddings, normalized.

use super::{ScaleAndZero, first};
use crate::call::{KernelCall, integers};
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Tensor};

/// Where a table of embeddings stands among the inputs, and how it is quantized.
type EmbeddingTable<'a> = (&'a Tensor, Option<ScaleAndZero>);

/// The operands, whatever inputs they come from.
struct EmbedOperands<'a> {
    word: EmbeddingTable<'a>,
    position: EmbeddingTable<'a>,
    segment: Option<EmbeddingTable<'a>>,
    gamma: EmbeddingTable<'a>,
    beta: EmbeddingTable<'a>,
}

fn real(call: &KernelCall, x: &Tensor, affine: Option<ScaleAndZero>) -> Outcome<Tensor> {
    let Some(affine) = affine else { return Ok(x.clone()) };
    call.room(DataType::Int64, x.dims())?;
    let values = super::eight_bits(x)?.into_iter().map(|q| affine.real(q)).collect();
    Ok(Tensor::from_vec(x.dims(), values))
}

/// The rows of a table, as real numbers.
fn rows(call: &KernelCall, (table, affine): EmbeddingTable, ids: &Tensor) -> Outcome<Tensor> {
    real(call, &first(call, "Gather", &[], &[Some(table), Some(ids)])?, affine)
}

/// Per sentence, the number of words that the mask keeps; zeros without a mask.
fn mask_index(call: &KernelCall, sentences: usize, words: usize) -> Outcome<Tensor> {
    let Some(mask) = call.opt(7) else {
        return Ok(Tensor::vector(vec![0i32; sentences]));
    };
    refuse!(mask.dims() != [sentences, words] => "{mask:?} does not fit the input");
    let kept = integers(mask)?;
    let count = |row: &[i64]| row.iter().filter(|v| **v == 1).count() as i32;
    Ok(Tensor::vector((0..sentences).map(|b| count(&kept[b * words..][..words])).collect()))
}

fn embedded(
    call: &KernelCall,
    o: &EmbedOperands,
    positions: Option<&Tensor>,
) -> Outcome<Vec<Tensor>> {
    let ids = call.x(0)?;
    let [sentences, words] = *ids.dims() else {
        return Err(Fault::invalid(format!("{ids:?} does not have two axes")));
    };
    let in_order = || Tensor::from_vec([1, words], (0..words as i64).collect());
    let positions = positions.cloned().unwrap_or_else(in_order);
    let mut sum = rows(call, o.word, ids)?;
    let position = rows(call, o.position, &positions)?;
    sum = first(call, "Add", &[], &[Some(&sum), Some(&position)])?;
    if let (Some(table), Some(segments)) = (o.segment, call.opt(1)) {
        let segment = rows(call, table, segments)?;
        sum = first(call, "Add", &[], &[Some(&sum), Some(&segment)])?;
    }
    let (gamma, beta) = (real(call, o.gamma.0, o.gamma.1)?, real(call, o.beta.0, o.beta.1)?);
    let attrs = [("epsilon", Attr::Float(call.float("epsilon", 1e-12)?))];
    let y = first(call, "LayerNormalization", &attrs, &[Some(&sum), Some(&gamma), Some(&beta)])?;
    Ok(vec![y, mask_index(call, sentences, words)?, sum])
}

pub(super) fn embed_layer_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let table = |i: usize| call.x(i).map(|x| (x, None));
    let operands = EmbedOperands {
        word: table(2)?,
        position: table(3)?,
        segment: call.opt(4).map(|x| (x, None)),
        gamma: table(5)?,
        beta: table(6)?,
    };
    embedded(call, &operands, call.opt(8))
}

/// Scales follow the mask, zero points the scales, in the order of the tables.
pub(super) fn q_embed_layer_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let affine = |i: usize| ScaleAndZero::read(call, 6 + i, 11 + i).map(Some);
    let table = |i: usize| call.x(i).and_then(|x| Ok((x, affine(i)?)));
    let operands = EmbedOperands {
        word: table(2)?,
        position: table(3)?,
        segment: if call.opt(4).is_some() { Some(table(4)?) } else { None },
        gamma: table(5)?,
        beta: table(6)?,
    };
    embedded(call, &operands, None)
}
