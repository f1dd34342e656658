//! Operators with sub-graphs.

use crate::context::{Done, LowerContext, refuse};
use crate::row::{AdapterRow, both};
use onnxd_build::{Operand, Result, Var};
use onnxd_ir::{Attr, Dim};

pub(crate) const ROWS: &[AdapterRow] = &[both(&["Scan"], 9, scan_9_up, scan_9_down)];

/// Elements of a batch that are scanned one by one.
const BATCH_MAX: i64 = 64;

/// Up to opset 8 the first axis of everything is a batch. Its elements are scanned by nodes of
/// their own.
fn scan_9_up(s: &mut LowerContext<'_>) -> Done {
    if s.has(0) {
        return refuse("its sequences may have different lengths");
    }
    let b = s.b;
    let inputs: Vec<Var> = s.inputs().into_iter().flatten().collect();
    let sizes = inputs.iter().filter_map(|v| b.shape_of(*v)?.first().and_then(Dim::known));
    let batch = sizes.max().ok_or("the size of its batch is not known")?;
    if !(1..=BATCH_MAX).contains(&batch) {
        return refuse(format!("its batch has {batch} elements; 1 to {BATCH_MAX} can be unrolled"));
    }
    if let Some(directions) = s.ints("directions")? {
        s.drop("directions");
        s.set("scan_input_directions", Attr::Ints(directions));
    }
    let attrs = s.attrs();
    let mut parts: Vec<Vec<Var>> = vec![vec![]; s.output_count()];
    for element in 0..batch {
        let of = inputs.iter().map(|v| b.gather(*v, element).one().map(Operand::from));
        let scan = b.op("", "Scan", of.collect::<Result<Vec<_>>>()?);
        let scan = attrs.iter().fold(scan, |scan, (name, attr)| scan.set(name, attr.clone()));
        for (list, y) in parts.iter_mut().zip(scan.list(s.output_count())?) {
            list.push(b.unsqueeze(y, [0])?);
        }
    }
    let whole = parts.iter().map(|parts| b.concat(parts).axis(0).one().map(Some));
    s.becomes_all(&whole.collect::<Result<Vec<_>>>()?)
}

/// A batch of one.
fn scan_9_down(s: &mut LowerContext<'_>) -> Done {
    for name in ["scan_input_axes", "scan_output_axes", "scan_output_directions"] {
        if s.ints(name)?.is_some_and(|list| list.iter().any(|x| *x != 0)) {
            return refuse(format!("there is no `{name}`"));
        }
        s.drop(name);
    }
    if let Some(directions) = s.ints("scan_input_directions")? {
        s.drop("scan_input_directions");
        s.set("directions", Attr::Ints(directions));
    }
    let mut inputs = vec![None];
    for v in s.inputs().into_iter().flatten() {
        inputs.push(Some(s.b.unsqueeze(v, [0])?));
    }
    s.set_inputs(&inputs)?;
    (0..s.output_count()).try_for_each(|i| s.then(i, |b, y| b.squeeze(y).axes([0]).one()))
}
