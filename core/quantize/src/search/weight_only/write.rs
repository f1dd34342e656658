//! The operators that read weights in blocks.

use super::BlockedWeight;
use super::blocks::{Blocks, offset};
use crate::graph::edit;
use crate::graph::quantized::MICROSOFT;
use crate::range::integers;
use crate::report::Form;
use onnxd_build::Operand;
use onnxd_ir::ops::{Gemm, Op};
use onnxd_ir::{Attr, DataType, Graph, Node, NodeId, Opsets, Tensor, ValueId};

/// What was written.
pub(crate) struct WrittenOperator {
    pub(crate) operator: &'static str,
    pub(crate) microsoft: bool,
}

/// Whether the form can say it.
pub(crate) fn possible(
    g: &Graph,
    id: NodeId,
    place: &BlockedWeight,
    form: Form,
) -> Result<(), String> {
    let rank = |v: ValueId| g[v].shape().map(<[_]>::len);
    let weights = g.constant(place.w).map_or(2, Tensor::rank);
    let Some(x) = place.x.filter(|_| form == Form::QLinear && g[id].is("MatMul")) else {
        return Ok(());
    };
    // MatMulNBits knows no axes of its weights but two.
    match rank(x) {
        Some(rank) if rank >= weights => Ok(()),
        None if weights == 2 => Ok(()),
        _ => Err("its weights have more axes than its input".to_owned()),
    }
}

/// Weights as integers in a graph: `weights` alone are what `DequantizeLinear` gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integers {
    weights: ValueId,
    scales: Option<ValueId>,
    zeros: Option<ValueId>,
    n: usize,
    k: usize,
    block: usize,
    bits: usize,
}

/// Puts the weights of a node into the graph as integers.
pub(crate) fn integers_of(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    place: &BlockedWeight,
    made: &Blocks,
    form: Form,
) -> Result<Integers, String> {
    let alone = |weights| Integers {
        weights,
        scales: None,
        zeros: None,
        n: made.n,
        k: made.k,
        block: made.block,
        bits: made.rule.levels.dtype.bits(),
    };
    if form == Form::Qdq {
        return dequantize(g, opsets, id, place, made).map(alone);
    }
    let name = g[id].output(0).map_or_else(String::new, |v| g[v].name.clone());
    let [weights, scales, zeros] = match place.x {
        Some(_) => for_product(place, made, alpha(&g[id]))?.map(|t| t.map(|t| ("weights", t))),
        None => for_gather(place, made)?.map(|t| t.map(|t| ("table", t))),
    };
    let mut add = |t: Option<(&str, Tensor)>, role: Option<&str>| {
        t.map(|(own, t)| g.add_initializer(&format!("{name}_{}", role.unwrap_or(own)), t))
    };
    let weights = add(weights, None).ok_or("it has no weights")?;
    let (scales, zeros) = (add(scales, Some("scales")), add(zeros, Some("zero_points")));
    Ok(Integers { scales, zeros, ..alone(weights) })
}

/// Makes the node read the weights as integers.
pub(crate) fn write(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    place: &BlockedWeight,
    made: &Integers,
    form: Form,
) -> Result<WrittenOperator, String> {
    let microsoft = form == Form::QLinear;
    let operator = match (form, place.x) {
        (Form::Qdq, _) => {
            g.set_input(id, place.slot, Some(made.weights));
            "DequantizeLinear"
        }
        (Form::QLinear, Some(x)) => {
            product(g, opsets, id, (x, place), made)?;
            "MatMulNBits"
        }
        (Form::QLinear, None) => {
            gather(g, opsets, id, made)?;
            "GatherBlockQuantized"
        }
    };
    Ok(WrittenOperator { operator, microsoft })
}

/// What a weighted operator is multiplied by.
pub(crate) fn alpha(node: &Node) -> f32 {
    Gemm::view(node).map_or(1.0, |op| op.alpha)
}

/// Scales in the type of the weights.
fn steps(dims: &[usize], scales: Vec<f32>, dtype: DataType) -> Result<Tensor, String> {
    let steps = Tensor::from_vec(dims.to_vec(), scales);
    let made = match dtype {
        DataType::Float => Some(steps),
        _ => steps.to_reals().and_then(|steps| steps.to_tensor(dtype)),
    };
    made.filter(Tensor::is_finite).ok_or_else(|| format!("its scales are beyond {dtype}"))
}

/// A table `[n, columns]` by the axes of the weights.
fn arranged<T: Copy>(rows: &[T], n: usize, by_rows: bool) -> Vec<T> {
    let columns = rows.len() / n;
    match by_rows {
        true => rows.to_vec(),
        false => (0..rows.len()).map(|i| rows[i % n * columns + i / n]).collect(),
    }
}

/// `DequantizeLinear(integers, scales, zero points){axis, block_size}` in front of the operator.
fn dequantize(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    place: &BlockedWeight,
    made: &Blocks,
) -> Result<ValueId, String> {
    let dtype = made.rule.levels.dtype;
    let data = g.constant(place.w).ok_or("its weights are computed")?;
    let (dims, rank) = (data.dims().to_vec(), data.rank());
    let axis = if place.by_rows { rank - 1 } else { rank - 2 };
    let mut few = dims.clone();
    few[axis] = made.count();
    let tensor = |dims: &[usize], values: &[u8]| {
        let values = arranged(values, made.n, place.by_rows);
        // In parts whose integers fill whole bytes, so that they need not be held twice.
        let parts = values.chunks(1 << 14).map(|part| {
            let values: Vec<i64> = part.iter().map(|q| i64::from(*q) - offset(made.rule)).collect();
            integers(dtype, &[values.len()], &values).map(|t| t.bytes().clone())
        });
        let parts: Option<Vec<_>> = parts.collect();
        let bytes = parts.map(|parts| parts.concat());
        let made = bytes.and_then(|b| Tensor::new(dtype, dims.to_vec(), b.into()).ok());
        made.ok_or_else(|| format!("{dtype} is no type of weights"))
    };
    let quantized = tensor(&dims, &made.integers)?;
    let centered = made.zeros.iter().all(|z| i64::from(*z) == offset(made.rule));
    let zeros = if centered { None } else { Some(tensor(&few, &made.zeros)?) };
    let scales = steps(&few, arranged(&made.scales, made.n, place.by_rows), place.dtype)?;
    let (name, layers) = (g[place.w].name.clone(), g[id].layers.clone());
    let out = edit::edit(g, opsets, |b| {
        b.in_layers(layers, &name, |b| {
            let (x, scale) = (b.parameter("quantized", quantized), b.parameter("scale", scales));
            let reals = b.dequantize_linear(x, scale).axis(axis as i64);
            let reals = reals.block_size(made.block as i64).role("dequantized");
            let reals = reals.x_zero_point(zeros.map(|zeros| b.parameter("zero_point", zeros)));
            b.id(reals.called(format!("{name}_DequantizeLinear")).one()?)
        })
    });
    let out = out.map_err(|found| edit::why(&found))?;
    g[out].ty = g[place.w].ty.clone();
    Ok(out)
}

/// Rows of integers, each row filled up to `width`, several to a byte, the first lowest.
pub(crate) fn packed(rows: &[u8], columns: usize, width: usize, bits: usize) -> Vec<u8> {
    let per_byte = 8 / bits;
    let bytes = width.div_ceil(per_byte);
    let mut out = Vec::with_capacity(rows.len() / columns.max(1) * bytes);
    for row in rows.chunks(columns) {
        let byte = |i: usize| {
            let one =
                |slot: usize| row.get(i * per_byte + slot).copied().unwrap_or(0) << (bits * slot);
            (0..per_byte).map(one).fold(0, |byte, x| byte | x)
        };
        out.extend((0..bytes).map(byte));
    }
    out
}

fn int((name, value): (&str, usize)) -> (String, Attr) {
    (name.to_owned(), Attr::Int(value as i64))
}

/// Integers, scales and zero points, if those are not the middle.
type Constants = [Option<Tensor>; 3];

/// As `MatMulNBits` takes them.
fn for_product(place: &BlockedWeight, made: &Blocks, alpha: f32) -> Result<Constants, String> {
    let bits = made.rule.levels.dtype.bits();
    let (n, count) = (made.n, made.count());
    let bytes = packed(&made.integers, made.k, count * made.block, bits);
    let scales = steps(&[n * count], made.scales.iter().map(|s| s * alpha).collect(), place.dtype)?;
    let zeros = packed(&made.zeros, count, count, bits);
    let zeros = (!made.is_centered()).then(|| Tensor::from_vec([zeros.len()], zeros));
    let weights = Tensor::from_vec([n, count, made.block * bits / 8], bytes);
    Ok([Some(weights), Some(scales), zeros])
}

/// `MatMulNBits(x, integers, scales, zero points?, , bias?)`.
fn product(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    (x, place): (ValueId, &BlockedWeight),
    made: &Integers,
) -> Result<(), String> {
    let gemm = Gemm::view(&g[id]);
    let constant = |v: ValueId| g.constant(v).cloned();
    let bias = gemm.as_ref().filter(|op| op.beta != 0.0).and_then(|op| op.c);
    // A row that is added can be so by the operator itself.
    let row = bias.and_then(constant).filter(|c| c.dims() == [made.n]);
    let beta = gemm.as_ref().map_or(1.0, |op| op.beta);
    let real = |t: Tensor| t.to_reals()?.map(|x| x * f64::from(beta)).to_tensor(place.dtype);
    let row = row.and_then(real);
    edit::stand_in(g, opsets, id, |b, _| {
        let x = match gemm.as_ref().is_some_and(|op| op.transA != 0) {
            true => b.transpose(x).role("transposed").one()?,
            false => b.var(x),
        };
        let row = row.map(|row| b.parameter("bias", row));
        let inputs = [Operand::from(x), made.weights.into(), made.scales.into()];
        let product = b.op(MICROSOFT, "MatMulNBits", inputs).set("zero_points", made.zeros);
        let sizes = [("K", made.k), ("N", made.n), ("bits", made.bits), ("block_size", made.block)];
        let product = product.set("bias", row).attrs(sizes.map(int)).role("product").one()?;
        let Some(bias) = bias.filter(|_| row.is_none()) else { return Ok([product]) };
        let bias = match beta == 1.0 {
            true => b.var(bias),
            false => {
                let beta = Tensor::scalar(beta);
                let beta = beta.to_reals().and_then(|b| b.to_tensor(place.dtype)).unwrap_or(beta);
                b.named("bias", b.mul(bias, b.parameter("beta", beta))?)
            }
        };
        Ok([b.add(product, bias)?])
    })
}

/// As `GatherBlockQuantized` takes them.
fn for_gather(place: &BlockedWeight, made: &Blocks) -> Result<Constants, String> {
    let bits = made.rule.levels.dtype.bits();
    let (n, count) = (made.n, made.count());
    let dtype = match bits {
        4 => DataType::Uint4,
        8 => DataType::Uint8,
        _ => return Err(format!("tables of {bits} bits are not supported")),
    };
    let tensor = |columns: usize, values: &[u8]| {
        let bytes = packed(values, values.len(), values.len(), bits);
        Tensor::new(dtype, vec![n, columns], bytes.into()).map_err(|e| e.to_string())
    };
    let (data, zeros) = (tensor(made.k, &made.integers)?, tensor(count, &made.zeros)?);
    let scales = steps(&[n, count], made.scales.clone(), place.dtype)?;
    Ok([Some(data), Some(scales), Some(zeros)])
}

/// `GatherBlockQuantized(integers, indices, scales, zero points)`: rows of a table.
fn gather(g: &mut Graph, opsets: &Opsets, id: NodeId, made: &Integers) -> Result<(), String> {
    let indices = g[id].input(1).ok_or("it has no indices")?;
    edit::stand_in(g, opsets, id, |b, _| {
        let inputs = [Some(made.weights), Some(indices), made.scales, made.zeros];
        let axes = [("gather_axis", 0), ("quantize_axis", 1)];
        let sizes = [("bits", made.bits), ("block_size", made.block)].into_iter().chain(axes);
        Ok([b.op(MICROSOFT, "GatherBlockQuantized", inputs).attrs(sizes.map(int)).one()?])
    })
}
