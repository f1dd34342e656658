//! Control flow, constants, and what passes values on.

use crate::call::{KernelCall, KernelRow, RunBody, control, one, raw, scalar};
use crate::cells::joined;
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::item::{RunValue, items, tensors};
use crate::shape::densified;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Graph, Tensor, ValueType};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("Constant", constant),
    control("If", if_),
    control("Loop", loop_),
    control("Scan", scan_8).until(8),
    control("Scan", scan).since(9),
];

/// Any of the forms: tensor, sparse tensor, numbers, strings.
fn constant(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let form = call.node.attrs.iter().find(|(name, _)| name.contains("value"));
    let (name, _) = form.ok_or_else(|| Fault::invalid("it has no value"))?;
    one(match call.attr(name) {
        Some(Attr::Tensor(x)) => x.clone(),
        Some(Attr::Sparse(x)) => densified(x, call.bytes_max)?,
        Some(Attr::Int(x)) => Tensor::scalar(*x),
        Some(Attr::Float(x)) => Tensor::scalar(*x),
        Some(Attr::Str(x)) => Tensor::strings(vec![], vec![x.clone()])?,
        Some(Attr::Ints(x)) => Tensor::vector(x.clone()),
        Some(Attr::Floats(x)) => Tensor::vector(x.clone()),
        Some(Attr::Strs(x)) => Tensor::strings(vec![x.len()], x.clone())?,
        _ => return Err(Fault::invalid(format!("attribute `{name}` has no constant form"))),
    })
}

fn truth(x: &Tensor) -> Outcome<bool> {
    refuse!(x.dtype() != DataType::Bool => "condition {x:?} is not a boolean");
    Ok(scalar(x)? != 0.0)
}

fn if_(call: &KernelCall, _: &[Option<RunValue>], run: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let branch = if truth(call.x(0)?)? { "then_branch" } else { "else_branch" };
    run(call.graph(branch)?, vec![])
}

/// What a body gave in every iteration for one scanned output.
struct Scanned {
    parts: Vec<Tensor>,
    bytes: usize,
}

/// Collects scanned outputs within the limit of the call.
fn collect(call: &KernelCall, all: &mut [Scanned], parts: Vec<Tensor>) -> Outcome<()> {
    for (scanned, part) in all.iter_mut().zip(parts) {
        // Parts without elements also take some.
        scanned.bytes += part.byte_len() + size_of::<Tensor>();
        scanned.parts.push(part);
    }
    let total: usize = all.iter().map(|s| s.bytes).sum();
    refuse!(total > call.bytes_max => Fault::memory(format!("scanned outputs exceed {} bytes", call.bytes_max)));
    Ok(())
}

/// Stacks the parts along a new axis; without any part the body's declared type gives the other
/// sizes.
fn stacked(scanned: &Scanned, body: &Graph, output: usize, axis: i64) -> Outcome<Tensor> {
    let Some(first) = scanned.parts.first() else {
        let ty = body.outputs().get(output).and_then(|v| body[*v].ty.as_ref());
        let dtype = ty.and_then(ValueType::dtype).unwrap_or(DataType::Float);
        let shape = ty.and_then(ValueType::shape).unwrap_or_default();
        let mut sizes: Vec<usize> = shape
            .iter()
            .map(|d| d.known().and_then(|n| usize::try_from(n).ok()).unwrap_or(0))
            .collect();
        let axis = dims::axis(axis, sizes.len() + 1)?;
        sizes.insert(axis, 0);
        return match dtype {
            DataType::String => Ok(Tensor::strings(sizes, vec![])?),
            dtype => Ok(Tensor::new(dtype, sizes, bytes::Bytes::new())?),
        };
    };
    let axis = dims::axis(axis, first.rank() + 1)?;
    let parts: Vec<Tensor> = scanned
        .parts
        .iter()
        .map(|p| Ok(p.reshaped([&p.dims()[..axis], &[1], &p.dims()[axis..]].concat())?))
        .collect::<Outcome<_>>()?;
    joined(&parts.iter().collect::<Vec<_>>(), axis)
}

/// `body(iteration, condition, carried...) -> (condition, carried..., scanned...)`.
fn loop_(
    call: &KernelCall,
    carried_inputs: &[Option<RunValue>],
    run: &mut RunBody,
) -> Outcome<Vec<RunValue>> {
    let body = call.graph("body")?;
    let trips = call.opt(0).map(scalar).transpose()?.map(|n| n as i64);
    let mut condition = call.opt(1).map(truth).transpose()?.unwrap_or(true);
    let carried_inputs = carried_inputs.iter().skip(2);
    let missing = || Fault::invalid("a carried input is missing");
    let mut carried: Vec<RunValue> =
        carried_inputs.map(|x| x.clone().ok_or_else(missing)).collect::<Outcome<_>>()?;
    let count = carried.len();
    let fits = body.inputs().len() == count + 2 && body.outputs().len() > count;
    refuse!(!fits => "the body does not fit {count} carried values");
    let scans = body.outputs().len() - 1 - count;
    let mut scanned: Vec<Scanned> =
        (0..scans).map(|_| Scanned { parts: vec![], bytes: 0 }).collect();
    let mut iteration = 0i64;
    while condition && trips.is_none_or(|n| iteration < n) {
        let keep = Tensor::from_vec_as(DataType::Bool, vec![], vec![1u8]);
        let mut inputs = items(vec![Tensor::scalar(iteration), keep]);
        inputs.append(&mut carried);
        let mut outputs = run(body, inputs)?;
        let parts = tensors(outputs.split_off(count + 1))?;
        carried = outputs.split_off(1);
        condition = truth(&tensors(outputs)?[0])?;
        collect(call, &mut scanned, parts)?;
        iteration += 1;
    }
    for (i, s) in scanned.iter().enumerate() {
        carried.push(RunValue::Tensor(stacked(s, body, 1 + count + i, 0)?));
    }
    Ok(carried)
}

/// One entry per scanned tensor, `default` where the attribute is absent.
fn per_scan(call: &KernelCall, name: &str, count: usize, default: i64) -> Outcome<Vec<i64>> {
    let list = call.ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec);
    refuse!(list.len() != count => "attribute `{name}` needs {count} entries");
    Ok(list)
}

/// `body(states..., slices...) -> (states..., scanned...)`.
fn scan(call: &KernelCall, _: &[Option<RunValue>], run: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let body = call.graph("body")?;
    let all = call.all()?;
    let scans = dims::size(call.int("num_scan_inputs", 0)?)?;
    let split = all.len().checked_sub(scans).filter(|_| scans > 0);
    let states = split.ok_or_else(|| Fault::invalid("num_scan_inputs does not fit the inputs"))?;
    refuse!(body.inputs().len() != all.len() || body.outputs().len() < states => "the body does not fit the inputs");
    let outputs = body.outputs().len() - states;
    let in_axes = per_scan(call, "scan_input_axes", scans, 0)?;
    let directions = if call.opset < 9 { "directions" } else { "scan_input_directions" };
    let in_back = per_scan(call, directions, scans, 0)?;
    let out_axes = per_scan(call, "scan_output_axes", outputs, 0)?;
    let out_back = per_scan(call, "scan_output_directions", outputs, 0)?;
    let mut steps = None;
    let mut axes = Vec::new();
    for (x, axis) in all[states..].iter().zip(&in_axes) {
        let axis = dims::axis(*axis, x.rank())?;
        let size = x.dims()[axis];
        refuse!(*steps.get_or_insert(size) != size => "the scanned inputs differ in length");
        axes.push(axis);
    }
    let steps = steps.unwrap_or(0);
    let mut state: Vec<Tensor> = all[..states].iter().map(|x| (*x).clone()).collect();
    let mut scanned: Vec<Scanned> =
        (0..outputs).map(|_| Scanned { parts: vec![], bytes: 0 }).collect();
    for step in 0..steps {
        let mut inputs = std::mem::take(&mut state);
        for ((x, axis), back) in all[states..].iter().zip(&axes).zip(&in_back) {
            inputs.push(slice_at(x, *axis, if *back != 0 { steps - 1 - step } else { step })?);
        }
        state = tensors(run(body, items(inputs))?)?;
        let parts = state.split_off(states);
        collect(call, &mut scanned, parts)?;
    }
    for (i, s) in scanned.iter_mut().enumerate() {
        if out_back[i] != 0 {
            s.parts.reverse();
        }
        state.push(stacked(s, body, states + i, out_axes[i])?);
    }
    Ok(items(state))
}

/// Opset 8: an input of lengths comes first, all others have a batch axis before the scanned one.
fn scan_8(call: &KernelCall, _: &[Option<RunValue>], run: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let body = call.graph("body")?;
    refuse!(call.opt(0).is_some() => Fault::unsupported("sequences of different lengths are not computed"));
    let given = KernelCall { inputs: call.inputs.get(1..).unwrap_or_default(), ..*call };
    let all = given.all()?;
    let batch = all[0].dims().first().copied().unwrap_or(0);
    refuse!(batch == 0 || all.iter().any(|x| x.dims().first() != Some(&batch)) =>
        "the inputs do not share a batch axis");
    let mut found: Vec<Scanned> =
        body.outputs().iter().map(|_| Scanned { parts: vec![], bytes: 0 }).collect();
    for b in 0..batch {
        let inputs = all
            .iter()
            .map(|x| slice_at(x, 0, b).map(Some))
            .collect::<Outcome<Vec<Option<Tensor>>>>()?;
        let outputs = tensors(scan(&KernelCall { inputs: &inputs, ..*call }, &[], run)?)?;
        collect(call, &mut found, outputs)?;
    }
    let whole = found.iter().enumerate().map(|(i, s)| stacked(s, body, i, 0));
    Ok(items(whole.collect::<Outcome<Vec<Tensor>>>()?))
}

/// The slice at one index of an axis, without that axis.
fn slice_at(x: &Tensor, axis: usize, index: usize) -> Outcome<Tensor> {
    let mut tables: Vec<Vec<usize>> = x.dims().iter().map(|d| (0..*d).collect()).collect();
    tables[axis] = vec![index];
    let mut sizes = x.dims().to_vec();
    sizes.remove(axis);
    Ok(crate::cells::take(x, &tables, None)?.reshaped(sizes)?)
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
