//! Cells of TensorFlow that are one operator each: LSTMBlockCell, BlockLSTM, GRUBlockCell.

use crate::ops::create::filled;
use crate::ops::join::parts;
use crate::ops::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "LSTMBlockCell" => |b, a: Single| {
            let cell = Lstm::new([a.w, a.b], [a.wci, a.wcf, a.wco], a.use_peephole, a.cell_clip);
            Lstm { forget_bias: a.forget_bias, ..cell }.step(b, a.x, [a.cs_prev, a.h_prev])
        };
        "BlockLSTM" => |b, a: Block| {
            let cell = Lstm::new([a.w, a.b], [a.wci, a.wcf, a.wco], a.use_peephole, a.cell_clip);
            let cell = Lstm { forget_bias: a.forget_bias, ..cell };
            cell.steps(b, a.seq_len_max, a.x, [a.cs_prev, a.h_prev])
        };
        "BlockLSTMV2" => |b, a: Block2| {
            let cell = Lstm::new([a.w, a.b], [a.wci, a.wcf, a.wco], a.use_peephole, a.cell_clip);
            let cell = Lstm { order: [0, 2, 1, 3], ..cell };
            cell.steps(b, a.seq_len_max, a.x, [a.cs_prev, a.h_prev])
        };
        "GRUBlockCell" => gru;
    }
}

arguments! {
    /// `LSTMBlockCell`
    struct Single {
        x: Var, cs_prev: Var, h_prev: Var, w: Var, wci: Var, wcf: Var, wco: Var, b: Var,
        forget_bias: f64, cell_clip: f64, use_peephole: bool,
    }
    /// `BlockLSTM`
    struct Block {
        seq_len_max: Var, x: Var, cs_prev: Var, h_prev: Var, w: Var, wci: Var, wcf: Var, wco: Var, b: Var,
        forget_bias: f64, cell_clip: f64, use_peephole: bool,
    }
    /// `BlockLSTMV2`
    struct Block2 {
        seq_len_max: Var, x: Var, cs_prev: Var, h_prev: Var, w: Var, wci: Var, wcf: Var, wco: Var, b: Var,
        cell_clip: f64, use_peephole: bool,
    }
    /// `GRUBlockCell`
    struct Gru { x: Var, h_prev: Var, w_ru: Var, w_c: Var, b_ru: Var, b_c: Var }
}

/// An LSTM cell of TensorFlow.
struct Lstm {
    weights: [Var; 2],
    /// Of the input, forget and output gate.
    peepholes: Option<[Var; 3]>,
    clip: f64,
    forget_bias: f64,
    /// Where the input gate, the new values, the forget gate and the output gate are.
    order: [usize; 4],
}

impl Lstm {
    fn new(weights: [Var; 2], peepholes: [Var; 3], use_peephole: bool, clip: f64) -> Lstm {
        let peepholes = use_peephole.then_some(peepholes);
        Lstm { weights, peepholes, clip, forget_bias: 0.0, order: [0, 1, 2, 3] }
    }

    /// One step: `i`, `cs`, `f`, `o`, `ci`, `co`, `h`.
    fn step(&self, b: &GraphBuilder, x: Var, [c, h]: [Var; 2]) -> Lowered<[Var; 7]> {
        let [w, bias] = self.weights;
        let width = width(b, bias, 4)?;
        let sum = b.add(b.mat_mul(b.concat([x, h]).axis(1).one()?, w)?, bias)?;
        let gates = vars(parts(b, sum, 1, &[width; 4])?.0);
        let [mut i, ci, mut f, mut o] = self.order.map(|at| gates[at]);
        if let Some([wci, wcf, _]) = self.peepholes {
            i = b.add(i, b.mul(c, wci)?)?;
            f = b.add(f, b.mul(c, wcf)?)?;
        }
        if self.forget_bias != 0.0 {
            f = b.add(f, self.forget_bias)?;
        }
        let [i, f, ci] = [b.sigmoid(i)?, b.sigmoid(f)?, b.tanh(ci)?];
        let mut cs = b.add(b.mul(ci, i)?, b.mul(c, f)?)?;
        if self.clip > 0.0 {
            cs = crate::ops::activation::clipped(b, cs, -self.clip, self.clip)?;
        }
        if let Some([_, _, wco]) = self.peepholes {
            o = b.add(o, b.mul(cs, wco)?)?;
        }
        let (o, co) = (b.sigmoid(o)?, b.tanh(cs)?);
        Ok([i, cs, f, o, ci, co, b.mul(co, o)?])
    }

    /// All steps of `x`, whose first axis is time; zeros behind the longest sequence.
    fn steps(&self, b: &Lower, longest: Var, x: Var, states: [Var; 2]) -> Lowered<[Var; 7]> {
        let size = b.shape_of(x).and_then(|shape| shape.first()?.known());
        let all = size.is_some() && b.ints_of(longest).as_deref() == size.as_slice().into();
        let n = b.reshape(b.cast(longest, Int64)?, [1]).one()?;
        let used = if all { x } else { b.slice(x, [0], n).axes([0]).one()? };
        let given = b.scan(&states, &[used], |b, states, slices| -> Lowered<Vec<Var>> {
            let step = self.step(b, slices[0], [states[0], states[1]])?;
            Ok([step[1], step[6]].into_iter().chain(step).collect())
        })?;
        let mut steps: Vec<Var> = given.into_iter().skip(2).collect();
        if self.clip <= 0.0 && self.peepholes.is_none() {
            steps[6] = self.operator(b, used, states)?;
        }
        if !all {
            let time = b.shape(x).start(0).end(1).one()?;
            let rest = b.sub(time, n)?;
            let dtype = dtype_of(b, x)?;
            for step in &mut steps {
                let one = b.shape(*step).start(1).one()?;
                let shape = b.concat([rest, one]).axis(0).one()?;
                *step = b.concat([*step, filled(b, shape, 0, dtype)?]).axis(0).one()?;
            }
        }
        let [i, cs, f, o, ci, co, h] = steps[..] else {
            return Err(b.diagnostic(Code::InvariantBroken, "Scan gives another number of values."));
        };
        Ok([i, cs, f, o, ci, co, h])
    }

    /// The hidden states of all steps by the operator of ONNX, whose gates are in the order i, o, f, c.
    fn operator(&self, b: &GraphBuilder, x: Var, [c, h]: [Var; 2]) -> Lowered<Var> {
        let [w, bias] = self.weights;
        let width = width(b, bias, 4)?;
        let gates = [self.order[0], self.order[3], self.order[2], self.order[1]];
        let sorted = |v: Var, axis: i64| -> Lowered<Var> {
            let all = vars(parts(b, v, axis, &[width; 4])?.0);
            b.concat(gates.map(|at| all[at]).to_vec()).axis(axis).one()
        };
        let w = b.transpose(sorted(w, 1)?).perm([1, 0]).one()?;
        let w = b.unsqueeze(w, [0])?;
        let features = b.slice(w, [0], [-width]).axes([2]).one()?;
        let states = b.slice(w, [-width], [i64::MAX]).axes([2]).one()?;
        let mut forget = vec![0f32; 4 * width as usize];
        forget[2 * width as usize..3 * width as usize].fill(self.forget_bias as f32);
        let dtype = dtype_of(b, bias)?;
        let forget = Operand::from(forget.as_slice()).to_tensor(Some(dtype));
        let mut first = sorted(bias, 0)?;
        if let Some(forget) = forget.filter(|_| self.forget_bias != 0.0) {
            first = b.add(first, forget)?;
        }
        let zeros =
            filled(b, b.constant(onnxd_plugin_sdk::ir::Tensor::vector(vec![4 * width])), 0, dtype)?;
        let bias = b.unsqueeze(b.concat([first, zeros]).axis(0).one()?, [0])?;
        let [h, c] = [b.unsqueeze(h, [0])?, b.unsqueeze(c, [0])?];
        let call = b.lstm(x, features, states).b(bias).initial_h(h).initial_c(c);
        b.squeeze(call.hidden_size(width).one()?).axes([1]).one()
    }
}

/// How many elements a gate has, of the biases of `count` gates.
fn width(b: &GraphBuilder, bias: Var, count: i64) -> Lowered<i64> {
    match b.dims_of(bias).as_deref() {
        Some([n]) if *n > 0 && n % count == 0 => Ok(n / count),
        _ => {
            let message = "The number of the cell's elements is not known.";
            Err(b.diagnostic(Code::LayerParameter, message))
        }
    }
}

fn vars(values: Vec<Value>) -> Vec<Var> {
    let var = |value| if let Value::Var(v) = value { Some(v) } else { None };
    values.into_iter().filter_map(var).collect()
}

/// One step of a GRU: `r`, `u`, `c`, `h`.
fn gru(b: &Lower, a: Gru) -> Lowered<[Var; 4]> {
    let width = width(b, a.b_ru, 2)?;
    let product =
        |h: Var, w: Var, bias: Var| b.add(b.mat_mul(b.concat([a.x, h]).axis(1).one()?, w)?, bias);
    let gates = b.sigmoid(product(a.h_prev, a.w_ru, a.b_ru)?)?;
    let gates = vars(parts(b, gates, 1, &[width; 2])?.0);
    let (r, u) = (gates[0], gates[1]);
    let c = b.tanh(product(b.mul(r, a.h_prev)?, a.w_c, a.b_c)?)?;
    let h = b.add(b.mul(u, a.h_prev)?, b.mul(b.sub(1.0, u)?, c)?)?;
    Ok([r, u, c, h])
}
