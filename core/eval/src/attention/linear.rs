//! Linear attention: a matrix per head that every position updates and reads.

use super::{merge_heads, split_heads};
use crate::call::KernelCall;
use crate::dims::size;
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, sized, stored};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// A gate with one value per position and head, or per position, head and element of the key.
struct Gate {
    values: Vec<f64>,
    /// Values per position.
    row: usize,
}

impl Gate {
    fn from_call(
        call: &KernelCall,
        i: usize,
        wanted: bool,
        rows: [usize; 2],
    ) -> Outcome<Option<Gate>> {
        let Some(x) = call.opt(i) else {
            let missing = || Fault::invalid(format!("this update rule needs input {i}"));
            return if wanted { Err(missing()) } else { Ok(None) };
        };
        match x.dims() {
            [b, t, row] if wanted && [*b, *t] == rows => {
                Ok(Some(Gate { values: reals(x)?, row: *row }))
            }
            _ => Err(Fault::invalid(format!("input {i}, {x:?}, does not fit the update rule"))),
        }
    }

    /// The value at a position for a head; `element` counts where there is one per element.
    fn at(&self, position: usize, heads: usize, head: usize, element: usize) -> f64 {
        let per_head = self.row / heads;
        let at = match per_head {
            0 => 0,
            1 => head,
            n => head * n + element,
        };
        self.values[position * self.row + at]
    }
}

/// `S = S + k v'`, where a rate first makes of the value its difference from what is known.
fn update(s: &mut [f64], key: &[f64], value: &mut [f64], rate: Option<f64>) {
    let width = value.len();
    if let Some(rate) = rate {
        for (m, v) in value.iter_mut().enumerate() {
            let known: f64 = key.iter().enumerate().map(|(d, k)| s[d * width + m] * k).sum();
            *v = rate * (*v - known);
        }
    }
    for (row, key) in s.chunks_mut(width.max(1)).zip(key) {
        row.iter_mut().zip(&*value).for_each(|(s, v)| *s += key * v);
    }
}

/// `S = exp(g) S; v = beta (v - S' k); S = S + k v'; o = scale S' q`, the steps that the rule has.
pub(super) fn linear_attention(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let heads = size(call.int("q_num_heads", 0)?)?;
    let shared = size(call.int("kv_num_heads", 0)?)?;
    let (gated, delta) = match call.string("update_rule", "gated_delta")? {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(Fault::invalid(format!("update rule `{other}` is not defined"))),
    };
    refuse!(shared == 0 || heads % shared != 0 => "{heads} heads cannot share {shared}");
    let (q, k) = (split_heads(call.x(0)?, heads)?, split_heads(call.x(1)?, shared)?);
    let v = split_heads(call.x(2)?, shared)?;
    let [batch, _, steps, size] = super::four(&q)?;
    let width = super::four(&v)?[3];
    refuse!(k.dims() != [batch, shared, steps, size] || v.dims() != [batch, shared, steps, width] =>
        "{q:?}, {k:?} and {v:?} do not fit each other");
    let decay = Gate::from_call(call, 4, gated, [batch, steps])?;
    let beta = Gate::from_call(call, 5, delta, [batch, steps])?;
    let decay_fits = decay.as_ref().is_none_or(|g| [shared, shared * size].contains(&g.row));
    refuse!(!decay_fits || beta.as_ref().is_some_and(|g| ![1, shared].contains(&g.row)) =>
        "decay or beta does not fit the heads");
    let (q, k, values) = (reals(&q)?, reals(&k)?, reals(&v)?);
    let state_dims = [batch, shared, size, width];
    let mut state = match call.opt(3) {
        Some(past) => sized(past, &state_dims, "the past state")?,
        None => vec![0f64; call.room(DataType::Double, &state_dims)?],
    };
    let scale = match call.float("scale", 0.0)? {
        0.0 => (size as f64).sqrt().recip(),
        given => f64::from(given),
    };
    let y_dims = [batch, heads, steps, width];
    let mut y = vec![0f64; call.room(DataType::Double, &y_dims)?];
    let group = heads / shared;
    for (at, s) in state.chunks_mut((size * width).max(1)).enumerate() {
        let (b, head) = (at / shared, at % shared);
        for t in 0..steps {
            let place = b * steps + t;
            let key = &k[(at * steps + t) * size..][..size];
            let mut value = values[(at * steps + t) * width..][..width].to_vec();
            if let Some(decay) = &decay {
                for (d, row) in s.chunks_mut(width.max(1)).enumerate() {
                    let factor = decay.at(place, shared, head, d).exp();
                    row.iter_mut().for_each(|v| *v *= factor);
                }
            }
            update(s, key, &mut value, beta.as_ref().map(|b| b.at(place, shared, head, 0)));
            for reader in at * group..(at + 1) * group {
                let query = &q[(reader * steps + t) * size..][..size];
                let out = &mut y[(reader * steps + t) * width..][..width];
                for (row, q) in s.chunks(width.max(1)).zip(query) {
                    out.iter_mut().zip(row).for_each(|(o, s)| *o += scale * q * s);
                }
            }
        }
    }
    let dtype = call.x(0)?.dtype();
    let kept = call.opt(3).map_or(dtype, Tensor::dtype);
    Ok(vec![merge_heads(&stored(dtype, &y_dims, y)?)?, stored(kept, &state_dims, state)?])
}
