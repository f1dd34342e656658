//! Items, slices and updates.

use super::elementwise::any;
use super::shapes::in_line;
use crate::keras::layer::SLICE;
use crate::ops::create::{filled, scalar, steps};
use crate::ops::scatter::scattered;
use crate::ops::shape::{squeezed, unsqueezed};
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::shown;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.GetItem" => get_item(x, key);
        "ops.Slice" => |b, a: Slice| {
            let begin = places(b, &a.start_indices)?;
            let end = ends(b, begin, &a.shape)?;
            let axes: Vec<i64> = (0..a.shape.len() as i64).collect();
            b.slice(a.inputs, begin, end).axes(axes).one()
        };
        "ops.SliceUpdate" => slice_update(inputs, start_indices, updates);
        "ops.Scatter" => |b, indices: Value, values: Var, shape: Vec<i64>| {
            let shape = Operand::from(shape).to_tensor(Some(Int64)).map(|t| b.constant(t));
            let shape = shape.ok_or_else(|| b.wrong("The shape is not known."))?;
            let zeros = filled(b, shape, 0, dtype_of(b, values)?)?;
            scattered(b, [zeros, any(b, &indices)?, values], Some("add"))
        };
        "ops.ScatterUpdate" => |b, inputs: Var, indices: Value, updates: Value, reduction: Option<String>| {
            let known = |word: &String| {
                let how = ["add", "max", "min", "mul"].into_iter().find(|how| how == word);
                how.ok_or_else(|| b.unsupported(format!("The reduction `{}` is not known.", shown(word))))
            };
            let how = reduction.as_ref().map(known).transpose()?;
            let updates = super::promote::tensor(b, &updates, dtype_of(b, inputs)?)?;
            scattered(b, [inputs, any(b, &indices)?, updates], how)
        };
        "ops.Take" => |b, x: Var, indices: Value, axis: Option<i64>| {
            let (flat, axis) = in_line(b, x, axis)?;
            let indices = b.cast(any(b, &indices)?, Int64)?;
            b.gather(flat, indices).axis(axis).one()
        };
        "ops.TakeAlongAxis" => take_along(x, indices, axis);
    }
}

arguments! {
    /// `Slice(inputs, start_indices; shape)`
    struct Slice { inputs: Var, start_indices: Value, shape: Vec<i64> }
}

/// Places as a vector of 64-bit integers.
fn places(b: &GraphBuilder, all: &Value) -> Lowered<Var> {
    let x = super::promote::tensor(b, all, Int64)?;
    b.reshape(x, [-1]).one()
}

/// Where slices of these sizes end; -1 is the rest.
fn ends(b: &GraphBuilder, begin: Var, sizes: &[i64]) -> Lowered<Var> {
    if let Some(begin) = b.ints_of(begin) {
        let end =
            |(begin, n): (&i64, &i64)| if *n < 0 { i64::MAX } else { begin.saturating_add(*n) };
        let all: Vec<i64> = begin.iter().zip(sizes).map(end).collect();
        return Ok(b.constant(onnxd_plugin_sdk::ir::Tensor::vector(all)));
    }
    let rest: Vec<i64> = sizes.iter().map(|n| if *n < 0 { i64::MAX / 2 } else { *n }).collect();
    b.add(begin, rest)
}

fn slice_update(b: &Lower, inputs: Var, start_indices: Value, updates: Var) -> Lowered<Var> {
    let n = rank(b, inputs)?;
    let begin = places(b, &start_indices)?;
    // TensorFlow's XLA operator moves slices that leave the tensor back into it.
    let most = b.sub(b.shape(inputs).one()?, b.shape(updates).one()?)?;
    let zero = b.constant(scalar(0, Int64));
    let begin = b.max([b.min([begin, most])?, zero])?;
    let mut grid: Option<Var> = None;
    for axis in 0..n as i64 {
        let steps = steps(b, updates, axis)?;
        let line = b.add(steps, b.gather(begin, axis).axis(0).one()?)?;
        let wide: Vec<i64> = (0..n as i64).filter(|other| *other != axis).collect();
        let line = unsqueezed(b, line, &wide)?;
        let line = b.expand(line, b.shape(updates).one()?)?;
        let line = b.unsqueeze(line, [-1])?;
        grid = Some(match grid {
            Some(grid) => b.concat([grid, line]).axis(-1).one()?,
            None => line,
        });
    }
    match grid {
        Some(grid) => scattered(b, [inputs, grid, updates], None),
        None => Ok(updates),
    }
}

/// Both meet in all axes but the one that is taken along.
fn take_along(b: &Lower, x: Var, indices: Value, axis: Option<i64>) -> Lowered<Var> {
    let (flat, axis) = in_line(b, x, axis)?;
    let n = rank(b, flat)?;
    let indices = super::promote::tensor(b, &indices, Int64)?;
    let like = |v: Var, other: Var| -> Lowered<Var> {
        let sizes = b.shape(other).one()?;
        let own = b.constant(onnxd_plugin_sdk::ir::Tensor::vector(vec![1i64]));
        let sizes = b.scatter_elements(sizes, [axis], own).axis(0).one()?;
        b.expand(v, sizes)
    };
    let same = |i: usize| {
        let size = |v: Var| b.shape_of(v)?.get(i)?.known();
        i as i64 == axis || (size(flat).is_some() && size(flat) == size(indices)) || {
            let dim = |v: Var| b.shape_of(v)?.get(i).cloned();
            dim(flat).is_some() && dim(flat) == dim(indices) && i == 0
        }
    };
    let (x, at) = match (0..n).all(same) {
        true => (flat, indices),
        false => (like(flat, indices)?, like(indices, flat)?),
    };
    b.gather_elements(x, at).axis(axis).one()
}

/// Where a slice begins or ends.
#[derive(Clone, Copy)]
enum Bound {
    Open,
    At(i64),
    Computed(Var),
}

impl Bound {
    fn from_value(b: &GraphBuilder, x: &Value) -> Lowered<Bound> {
        Ok(match x {
            Value::None => Bound::Open,
            Value::Int(x) => Bound::At(*x),
            Value::Var(v) => match b.ints_of(*v).as_deref() {
                Some([x]) => Bound::At(*x),
                _ => Bound::Computed(*v),
            },
            _ => return Err(unknown(b)),
        })
    }

    /// As a vector of one number.
    fn vector(self, b: &GraphBuilder, open: i64) -> Lowered<Operand> {
        Ok(match self {
            Bound::Open => Operand::Ints(vec![open]),
            Bound::At(x) => Operand::Ints(vec![x]),
            Bound::Computed(v) => b.reshape(b.cast(v, Int64)?, [1]).one()?.into(),
        })
    }
}

/// What one part of a key says.
enum IndexPart {
    Slice([Bound; 2], i64),
    Rest,
    New,
    At(i64),
    Computed(Var),
}

/// Whether a list is a slice, not a list of keys.
fn is_slice(items: &[Value]) -> bool {
    matches!(items, [Value::Text(word), _, _, _] if word == SLICE)
}

fn part(b: &GraphBuilder, key: &Value) -> Lowered<IndexPart> {
    Ok(match key {
        Value::None => IndexPart::New,
        Value::Int(at) => IndexPart::At(*at),
        Value::Var(v) => match b.ints_of(*v) {
            Some(at) if at.len() == 1 && b.rank_of(*v) == Some(0) => IndexPart::At(at[0]),
            _ => IndexPart::Computed(*v),
        },
        Value::List(items) if is_slice(items) => {
            let step = match Bound::from_value(b, &items[3])? {
                Bound::Open => 1,
                Bound::At(step) if step != 0 => step,
                _ => return Err(unknown(b)),
            };
            IndexPart::Slice(
                [Bound::from_value(b, &items[1])?, Bound::from_value(b, &items[2])?],
                step,
            )
        }
        Value::Text(text) if text == "..." => IndexPart::Rest,
        Value::Text(text) => {
            let json: serde_json::Value = serde_json::from_str(text).map_err(|_| unknown(b))?;
            match json.get("class_name").and_then(|name| name.as_str()) {
                Some("__ellipsis__") => IndexPart::Rest,
                _ => return Err(unknown(b)),
            }
        }
        _ => return Err(unknown(b)),
    })
}

fn unknown(b: &GraphBuilder) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    b.unsupported("A part of the key is neither a slice nor a place.")
}

fn get_item(b: &Lower, x: Var, key: Value) -> Lowered<Var> {
    let keys = match key {
        Value::List(keys) if !is_slice(&keys) => keys,
        other => vec![other],
    };
    let parts = keys.iter().map(|key| part(b, key)).collect::<Lowered<Vec<_>>>()?;
    let taken = |part: &&IndexPart| !matches!(part, IndexPart::New | IndexPart::Rest);
    let n = rank(b, x)?;
    let rest = n.saturating_sub(parts.iter().filter(taken).count());
    let (mut axis, mut out) = (0i64, 0i64);
    let (mut cuts, mut gone, mut new): (Vec<[i64; 4]>, Vec<i64>, Vec<i64>) = Default::default();
    let mut x = x;
    for part in &parts {
        match part {
            IndexPart::Rest => (axis, out) = (axis + rest as i64, out + rest as i64),
            IndexPart::New => {
                new.push(out);
                out += 1;
            }
            IndexPart::Slice([begin, end], step) => {
                let (first, last) =
                    if *step < 0 { (i64::MAX, i64::MIN + 1) } else { (0, i64::MAX) };
                match (begin.vector(b, first)?, end.vector(b, last)?) {
                    (Operand::Ints(begin), Operand::Ints(end)) => {
                        let cut = [axis, begin[0], end[0], *step];
                        if cut[1..] != [0, i64::MAX, 1] {
                            cuts.push(cut);
                        }
                    }
                    (begin, end) => x = b.slice(x, begin, end).axes([axis]).steps([*step]).one()?,
                }
                (axis, out) = (axis + 1, out + 1);
            }
            IndexPart::At(at) => {
                cuts.push([axis, *at, if *at == -1 { i64::MAX } else { at.saturating_add(1) }, 1]);
                gone.push(axis);
                axis += 1;
            }
            IndexPart::Computed(at) if b.rank_of(*at) == Some(0) => {
                // The axis stays until all others are cut.
                x = b.gather(x, b.unsqueeze(b.cast(*at, Int64)?, [0])?).axis(axis).one()?;
                gone.push(axis);
                axis += 1;
            }
            IndexPart::Computed(_) => return Err(unknown(b)),
        }
    }
    if !cuts.is_empty() {
        let each = |i: usize| cuts.iter().map(|cut| cut[i]).collect::<Vec<i64>>();
        let steps = cuts.iter().any(|cut| cut[3] != 1).then(|| each(3));
        x = b.slice(x, each(1), each(2)).axes(each(0)).steps(steps).one()?;
    }
    let x = if gone.is_empty() { x } else { squeezed(b, x, &gone)? };
    unsqueezed(b, x, &new)
}
