//! Losses, and the decoding of what recognizes sequences.

use super::shape::unsqueezed;
use super::sparse::packed;
use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "SoftmaxCrossEntropyWithLogits" => |b, features: Var, labels: Var| {
            let likely = b.mul(b.log_softmax(features).axis(-1).one()?, labels)?;
            let loss = b.neg(b.reduce_sum(likely).axes([-1]).keepdims(0).one()?)?;
            Ok([loss, b.sub(b.softmax(features).axis(-1).one()?, labels)?])
        };
        "SparseSoftmaxCrossEntropyWithLogits" => sparse_entropy(features, labels);
        "CTCGreedyDecoder" => greedy_decoder;
    }
}

arguments! {
    /// `CTCGreedyDecoder`
    struct Greedy { inputs: Var, sequence_length: Var, merge_repeated: bool, blank_index: i64 }
}

/// Labels are numbers of classes.
fn sparse_entropy(b: &Lower, features: Var, labels: Var) -> Lowered<[Var; 2]> {
    let labels = b.unsqueeze(b.cast(labels, Int64)?, [1])?;
    let likely =
        b.gather_elements(b.log_softmax(features).axis(-1).one()?, labels).axis(1).one()?;
    let loss = b.neg(b.squeeze(likely).axes([1]).one()?)?;
    let count = b.squeeze(b.shape(features).start(1).one()?).axes([0]).one()?;
    let wanted = b.equal(labels, b.range(0, count, 1).one()?)?;
    let wanted = b.cast(wanted, dtype_of(b, features)?)?;
    Ok([loss, b.sub(b.softmax(features).axis(-1).one()?, wanted)?])
}

/// The best class of each step, without blanks and repetitions, as a sparse tensor.
fn greedy_decoder(b: &Lower, a: Greedy) -> Lowered<[Var; 4]> {
    rank(b, a.inputs)?;
    let x = b.transpose(a.inputs).perm([1, 0, 2]).one()?;
    let best = b.arg_max(x).axis(2).keepdims(0).one()?;
    let size = |axis: i64| b.squeeze(b.shape(x).start(axis).end(axis + 1).one()?).axes([0]).one();
    let length = unsqueezed(b, b.cast(a.sequence_length, Int64)?, &[1])?;
    let valid = b.less(b.range(0, size(1)?, 1).one()?, length)?;
    let blank = match a.blank_index {
        0.. => b.constant(Tensor::scalar(a.blank_index)),
        from_end => b.add(size(2)?, from_end)?,
    };
    let mut kept = b.and(b.not(b.equal(best, blank)?)?, valid)?;
    if a.merge_repeated {
        let shifted = b.pad(best, [0, 1, 0, 0]).constant_value(-1).one()?;
        let before = b.slice(shifted, [0], [-1]).axes([1]).one()?;
        kept = b.and(kept, b.not(b.equal(best, before)?)?)?;
    }
    let ([indices, shape], at) = packed(b, kept)?;
    let values = b.gather_nd(best, at).one()?;
    let most = b.where_(valid, b.reduce_max(x).axes([2]).keepdims(0).one()?, 0.0)?;
    let score = b.neg(b.reduce_sum(most).axes([1]).keepdims(1).one()?)?;
    Ok([indices, values, shape, score])
}
