//! Pooling to a given size.
//!
//! Window `i` of an axis of `n` elements that is to have `m` reads from `floor(i n / m)` to `ceil((i + 1) n / m)`.

use super::conv::batched;
use super::dtype::dtype_of;
use super::pool::plane;
use super::sizes::{known, known_size, rank, scalar, size, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::DataType::{Double, Float};
use onnxd_plugin_sdk::ir::Reals;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::adaptive_avg_pool1d" => |b, a: Adaptive| average(b, a, 1);
        "aten::adaptive_avg_pool2d" => |b, a: Adaptive| average(b, a, 2);
        "aten::adaptive_avg_pool3d" => |b, a: Adaptive| average(b, a, 3);
        "aten::_adaptive_avg_pool2d" => |b, a: Adaptive| average(b, a, 2);
        "aten::_adaptive_avg_pool3d" => |b, a: Adaptive| average(b, a, 3);
        "aten::mkldnn_adaptive_avg_pool2d" => |b, a: Adaptive| average(b, a, 2);
        "aten::adaptive_max_pool1d" => |b, a: Adaptive| maximum(b, a, 1);
        "aten::adaptive_max_pool2d" => |b, a: Adaptive| maximum(b, a, 2);
        "aten::adaptive_max_pool3d" => |b, a: Adaptive| maximum(b, a, 3);
    }
}

arguments! {
    /// `adaptive_avg_pool2d`
    struct Adaptive { input: Var, output_size: Vec<Value> }
}

/// The sizes that the spatial axes are to have, by number and as they were given.
fn targets(b: &Lower, a: &Adaptive, n: usize) -> Lowered<Vec<Value>> {
    let all = match a.output_size.as_slice() {
        [one] => vec![one.clone(); n],
        all => all.to_vec(),
    };
    let first = rank(b, a.input)?.saturating_sub(n);
    if all.len() != n {
        return Err(b.diagnostic(Code::LayerParameter, "An output size for each axis is needed."));
    }
    let kept = |(i, target): (usize, Value)| match target {
        Value::None => size(b, a.input, first + i),
        other => Ok(other),
    };
    all.into_iter().enumerate().map(kept).collect()
}

/// How an axis of `size` elements becomes one of `target`.
enum Windows {
    Same,
    One,
    /// All windows have this size, and do not overlap.
    Even(i64),
    Uneven,
}

fn windows(b: &Lower, size: Option<i64>, target: &Value, unchanged: bool) -> Windows {
    match (size, known(b, target)) {
        _ if unchanged => Windows::Same,
        (_, Some(1)) => Windows::One,
        (Some(n), Some(m)) if n == m => Windows::Same,
        (Some(n), Some(m)) if m > 0 && n % m == 0 => Windows::Even(n / m),
        _ => Windows::Uneven,
    }
}

/// Averages over the last axes, to given sizes.
pub(super) fn averaged(b: &Lower, input: Var, output_size: Vec<Value>, n: usize) -> Lowered<Var> {
    average(b, Adaptive { input, output_size }, n)
}

fn average(b: &Lower, a: Adaptive, n: usize) -> Lowered<Var> {
    let targets = targets(b, &a, n)?;
    let [y] = batched(b, a.input, n, |x| {
        let rank = rank(b, x)?;
        let kinds = axes_of(b, x, &targets, &a);
        if kinds.iter().all(|kind| matches!(kind, Windows::One)) && rank == n + 2 {
            return Ok([b.global_average_pool(x)?]);
        }
        let mut y = x;
        let kernel: Vec<i64> =
            kinds.iter().map(|kind| if let Windows::Even(k) = kind { *k } else { 1 }).collect();
        if kernel.iter().any(|k| *k != 1) {
            y = b.average_pool(y).kernel_shape(&kernel).strides(&kernel).one()?;
        }
        let first = rank - n;
        let ones = (0..n).filter(|i| matches!(kinds[*i], Windows::One));
        let ones: Vec<i64> = ones.map(|i| (first + i) as i64).collect();
        if !ones.is_empty() {
            y = b.reduce_mean(y).axes(ones).one()?;
        }
        for (i, target) in targets.iter().enumerate() {
            if matches!(kinds[i], Windows::Uneven) {
                y = averaged_axis(b, y, first + i, target)?;
            }
        }
        Ok([y])
    })?;
    Ok(y)
}

fn axes_of(b: &Lower, x: Var, targets: &[Value], a: &Adaptive) -> Vec<Windows> {
    let first = b.rank_of(x).unwrap_or(0).saturating_sub(targets.len());
    let axes = targets.iter().enumerate();
    axes.map(|(i, target)| {
        let unchanged = matches!(a.output_size.get(i), Some(Value::None));
        windows(b, known_size(b, x, first + i), target, unchanged)
    })
    .collect()
}

/// Averages over windows of one axis: the product with a matrix of their weights.
fn averaged_axis(b: &Lower, x: Var, axis: usize, target: &Value) -> Lowered<Var> {
    let rank = rank(b, x)?;
    let weights = b.cast(weights(b, &size(b, x, axis)?, target)?, dtype_of(b, x)?)?;
    if axis + 1 == rank {
        return b.mat_mul(x, b.transpose(weights).perm([1, 0]).one()?);
    }
    if axis + 2 == rank {
        return b.mat_mul(weights, x);
    }
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.swap(axis, rank - 2);
    let y = b.mat_mul(weights, b.transpose(x).perm(&perm).one()?)?;
    b.transpose(y).perm(&perm).one()
}

/// A row for each window, with its weights.
fn weights(b: &Lower, size: &Value, target: &Value) -> Lowered<Var> {
    if let (Some(n), Some(m)) = (known(b, size), known(b, target)) {
        let mut all = vec![];
        for (start, end) in bounds(b, n, m)? {
            all.extend((0..n).map(|j| match (start..end).contains(&j) {
                true => 1.0 / (end - start) as f64,
                false => 0.0,
            }));
        }
        let dims = vec![m as usize, n as usize];
        let weights = Reals { dims, values: all }.to_tensor(Double);
        return Ok(b.constant(weights.expect("a float type holds numbers")));
    }
    let (n, m) = (scalar(b, size)?, scalar(b, target)?);
    let i = b.unsqueeze(b.range(0i64, m.clone(), 1i64).one()?, [1])?;
    let j = b.range(0i64, n.clone(), 1i64).one()?;
    let start = b.div(b.mul(i, n.clone())?, m.clone())?;
    let reach = b.mul(b.add(i, 1i64)?, n)?;
    let end = b.div(b.add(reach, b.sub(m.clone(), 1i64)?)?, m)?;
    let inside = b.not(b.or(b.less(j, start)?, b.not(b.less(j, end)?)?)?)?;
    b.div(b.cast(inside, Float)?, b.cast(b.sub(end, start)?, Float)?)
}

/// First element of each window, and the one behind its last.
fn bounds(b: &Lower, n: i64, m: i64) -> Lowered<Vec<(i64, i64)>> {
    const ELEMENTS_MAX: i64 = 1 << 24;
    let few = m >= 0 && n >= 0 && n.checked_mul(m.max(1)).is_some_and(|all| all <= ELEMENTS_MAX);
    if !few {
        let message = format!("An axis of {n} elements cannot be pooled to {m}.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    Ok((0..m).map(|i| (i * n / m, ((i + 1) * n + m - 1) / m)).collect())
}

fn maximum(b: &Lower, a: Adaptive, n: usize) -> Lowered<[Var; 2]> {
    let targets = targets(b, &a, n)?;
    batched(b, a.input, n, |x| {
        let rank = rank(b, x)?;
        let kinds = axes_of(b, x, &targets, &a);
        if kinds.iter().all(|kind| matches!(kind, Windows::One)) && rank == n + 2 {
            let rows = b.reshape(x, [0, 0, -1]).one()?;
            let at = b.arg_max(rows).axis(2).one()?;
            let ones: Vec<i64> = (3..rank as i64).collect();
            let at = if ones.is_empty() { at } else { b.unsqueeze(at, ones)? };
            return Ok([b.global_max_pool(x)?, at]);
        }
        let even = |kind: &Windows| match kind {
            Windows::Same => Some(1),
            Windows::Even(k) => Some(*k),
            _ => None,
        };
        if let Some(kernel) = kinds.iter().map(even).collect::<Option<Vec<i64>>>() {
            let [y, at] = b.max_pool(x).kernel_shape(&kernel).strides(&kernel).outputs()?;
            return Ok([y, b.mod_(at, plane(b, x, n)?).one()?]);
        }
        uneven_maximum(b, x, &targets)
    })
}

/// Gathers what each window reads, filled up with its last element, and looks for the maximum there.
fn uneven_maximum(b: &Lower, x: Var, targets: &[Value]) -> Lowered<[Var; 2]> {
    let n = targets.len();
    let first = rank(b, x)? - n;
    let mut axes = vec![];
    for (i, target) in targets.iter().enumerate() {
        let (Some(size), Some(m)) = (known_size(b, x, first + i), known(b, target)) else {
            return Err(unknown(b));
        };
        axes.push((size, bounds(b, size, m)?));
    }
    // Elements of each window by axis, all windows of an axis as long as its longest.
    let reads = |(_, bounds): &(i64, Vec<(i64, i64)>)| {
        let longest = bounds.iter().map(|(s, e)| e - s).max().unwrap_or(0);
        let window =
            |(s, e): &(i64, i64)| (0..longest).map(|k| (s + k).min(e - 1)).collect::<Vec<i64>>();
        bounds.iter().map(window).collect::<Vec<_>>()
    };
    let reads: Vec<Vec<Vec<i64>>> = axes.iter().map(reads).collect();
    // Positions within a channel: for each window, for each element that it reads.
    let mut positions: Vec<Vec<i64>> = vec![vec![0]];
    for (windows, (size, _)) in reads.iter().zip(&axes) {
        let mut next = vec![];
        for before in &positions {
            for window in windows {
                next.push(
                    before.iter().flat_map(|p| window.iter().map(move |j| p * size + j)).collect(),
                );
            }
        }
        positions = next;
    }
    let (count, elements) = (positions.len(), positions.first().map_or(0, Vec::len));
    let flat: Vec<i64> = positions.into_iter().flatten().collect();
    let table = b.constant(Tensor::from_vec(vec![count, elements], flat.clone()));
    let leading = (0..first).map(|axis| size(b, x, axis)).collect::<Lowered<Vec<_>>>()?;
    let rows = b.reshape(x, [vec![0; first], vec![-1]].concat()).one()?;
    let read = b.gather(rows, table).axis(first as i64).one()?;
    let last = (first + 1) as i64;
    let best = b.reduce_max(read).axes([last]).keepdims(0).one()?;
    let slot = b.arg_max(read).axis(last).keepdims(0).one()?;
    let base: Vec<i64> = (0..count as i64).map(|i| i * elements as i64).collect();
    let slot = b.add(slot, b.constant(Tensor::vector(base)))?;
    let at = b.gather(b.constant(Tensor::vector(flat)), slot).one()?;
    let shape = vector(b, &leading.into_iter().chain(targets.iter().cloned()).collect::<Vec<_>>())?;
    Ok([b.reshape(best, shape.clone()).one()?, b.reshape(at, shape).one()?])
}

fn unknown(b: &Lower) -> Diagnostic {
    let message = "The sizes of the axes that are pooled must be known.";
    b.diagnostic(Code::LayerParameter, message)
        .help("Give the shapes of the inputs: `export.input_shapes`.")
}
