//! The loss of connectionist temporal classification: how unlikely a labelling is, over all ways to stretch it along
//! the times. Sums over ways are taken in logarithms, one time after the other.

use super::dtype::{dtype_of, operand, to_float};
use super::sizes::{rank, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Turn, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Bool, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::ctc_loss" | "aten::ctc_loss.IntList" | "aten::ctc_loss.Tensor" => ctc_loss;
    }
}

arguments! {
    /// `ctc_loss.Tensor`
    struct Ctc {
        log_probs: Var, targets: Var, input_lengths: Value, target_lengths: Value, blank: i64,
        reduction: i64, zero_infinity: bool,
    }
}

/// Numbers of a list or tensor, along one axis.
fn lengths(b: &Lower, given: &Value) -> Lowered<Var> {
    match given {
        Value::Var(v) => b.reshape(b.cast(*v, Int64)?, [-1]).one(),
        Value::List(items) => b.add(vector(b, items)?, 0i64),
        Value::Int(n) => Ok(b.constant(Tensor::vector(vec![*n]))),
        _ => Err(b.diagnostic(Code::LayerParameter, "The lengths of sequences are no numbers.")),
    }
}

fn ctc_loss(b: &Lower, a: Ctc) -> Lowered<Var> {
    let single = rank(b, a.log_probs)? == 2;
    let chances = to_float(b, a.log_probs)?;
    let chances = if single { b.unsqueeze(chances, [1])? } else { chances };
    let (times, counts) = (lengths(b, &a.input_lengths)?, lengths(b, &a.target_lengths)?);
    let dtype = dtype_of(b, chances)?;
    let never = operand(b, &Value::Float(f64::NEG_INFINITY), dtype)?;
    // Between labels, before and behind them stand blanks.
    let labels = labels(b, b.cast(a.targets, Int64)?, counts)?;
    let blank = b.constant(Tensor::scalar(a.blank));
    let blanks = b.expand(blank, b.shape(labels).one()?)?;
    let pairs = b.concat([b.unsqueeze(blanks, [2])?, b.unsqueeze(labels, [2])?]).axis(2).one()?;
    let one_blank = b.expand(blank, b.shape(b.unsqueeze(counts, [1])?).one()?)?;
    let path = b.concat([b.reshape(pairs, [0, -1]).one()?, one_blank]).axis(1).one()?;
    let states = b.range(0i64, size_at(b, path, 1)?, 1i64).one()?;
    // A blank may be left out between labels that differ.
    let before = shifted(b, path, blank, 2)?;
    let skips = b.not(b.or(b.equal(path, blank)?, b.equal(path, before)?)?)?;
    let emitted = |b: &GraphBuilder, t: Var| {
        b.gather_elements(b.gather(chances, t).axis(0).one()?, path).axis(1).one()
    };
    let zero = b.constant(Tensor::scalar(0i64));
    let first = b.where_(b.less(states, 2i64)?, emitted(b, zero)?, never)?;
    let last = b.sub(size_at(b, chances, 0)?, 1i64)?;
    let go_on = b.constant(Tensor::new(Bool, vec![], vec![1].into()).expect("one truth value"));
    let ways = b.loop_(last, go_on, &[first], |b, turn, go_on, state| {
        let t = b.add(turn, 1i64)?;
        let [one, two] = [1, 2].map(|by| shifted(b, state[0], never, by));
        let two = b.where_(skips, two?, never)?;
        let sum = sum_of_exponentials(b, &[state[0], one?, two], never)?;
        let next = b.add(sum, emitted(b, t)?)?;
        let within = b.unsqueeze(b.less(t, times)?, [1])?;
        let next = b.where_(within, next, state[0])?;
        Ok(Turn { condition: go_on, carried: vec![next], scanned: vec![] })
    })?;
    // It ends with the last label, or with the blank behind it.
    let end = b.mul(b.unsqueeze(counts, [1])?, 2i64)?;
    let at = |place: Var| b.gather_elements(ways[0], place).axis(1).one();
    let label = at(b.max([b.sub(end, 1i64)?.into(), Operand::Int(0)])?)?;
    let label = b.where_(b.equal(end, 0i64)?, never, label)?;
    let loss = b.neg(sum_of_exponentials(b, &[at(end)?, label], never)?)?;
    let loss = b.squeeze(loss).axes([1]).one()?;
    let loss = match a.zero_infinity {
        true => b.where_(b.is_inf(loss).one()?, operand(b, &Value::Int(0), dtype)?, loss)?,
        false => loss,
    };
    match a.reduction {
        0 if single => b.squeeze(loss).axes([0]).one(),
        0 => Ok(loss),
        1 => {
            let counts = b.cast(b.max([counts.into(), Operand::Int(1)])?, dtype)?;
            b.reduce_mean(b.div(loss, counts)?).keepdims(0).one()
        }
        _ => b.reduce_sum(loss).keepdims(0).one(),
    }
}

/// Labels by row, also where those of all rows stand one after the other.
fn labels(b: &Lower, targets: Var, counts: Var) -> Lowered<Var> {
    if rank(b, targets)? == 2 {
        return Ok(targets);
    }
    let starts = b.cum_sum(counts, 0i64).exclusive(1).one()?;
    let longest = b.reduce_max(counts).keepdims(0).one()?;
    let places = b.range(0i64, longest, 1i64).one()?;
    let places = b.add(b.unsqueeze(starts, [1])?, places)?;
    let last = b.sub(size_at(b, targets, 0)?, 1i64)?;
    b.gather(targets, b.min([places, last])?).axis(0).one()
}

fn size_at(b: &GraphBuilder, x: Var, axis: i64) -> Lowered<Var> {
    b.squeeze(b.shape(x).start(axis).end(axis + 1).one()?).axes([0]).one()
}

/// Rows moved to the right, with `fill` at their beginning.
fn shifted(b: &GraphBuilder, x: Var, fill: Var, by: i64) -> Lowered<Var> {
    let moved = b.pad(x, [0, by, 0, 0]).constant_value(fill).one()?;
    b.slice(moved, [0], [-by]).axes([1]).one()
}

/// The logarithm of a sum of exponentials, all of which may be zero.
fn sum_of_exponentials(b: &GraphBuilder, all: &[Var], never: Var) -> Lowered<Var> {
    let most = b.max(all.iter().copied())?;
    let most = b.where_(b.equal(most, never)?, 0.0, most)?;
    let parts = all.iter().map(|x| b.exp(b.sub(*x, most)?)).collect::<Lowered<Vec<_>>>()?;
    let sum = parts.iter().skip(1).try_fold(parts[0], |sum, part| b.add(sum, *part))?;
    b.add(b.log(sum)?, most)
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{Arg, assert_near, only};
    use onnxd_plugin_sdk::ir::Tensor;
    use onnxd_plugin_sdk::lower::Value;

    /// Torch's numbers.
    #[test]
    fn labels_are_stretched_in_all_ways() {
        let chances = [0.1f32, 0.6, 0.3, 0.2, 0.3, 0.5, 0.5, 0.4, 0.1].map(f32::ln);
        let loss = |labels: [i64; 2], lengths: Arg, reduction: i64| {
            let chances = Tensor::from_vec([3, 1, 3], chances.to_vec());
            only(
                "aten::ctc_loss.IntList",
                [
                    ("log_probs", chances.into()),
                    ("targets", Tensor::from_vec([1, 2], labels.to_vec()).into()),
                    ("input_lengths", lengths),
                    ("target_lengths", vec![2].into()),
                    ("blank", 0i64.into()),
                    ("reduction", reduction.into()),
                    ("zero_infinity", false.into()),
                ],
            )
        };
        let found = loss([1, 2], vec![3].into(), 0);
        assert_near(&found, &Tensor::vector(vec![1.546_463_3f32]));
        // Equal labels need a blank between them.
        let times = Arg::Value(Value::List(vec![Value::Int(3)]));
        assert_near(&loss([1, 1], times, 1), &Tensor::scalar(1.518_277_2f32));
    }
}
