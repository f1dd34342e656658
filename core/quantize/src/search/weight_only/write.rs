//! The operators that read weights in blocks.

use super::BlockedWeight;
use super::blocks::offset;
use super::packed::{Order, Packed, packed, turned};
use crate::graph::edit;
use crate::graph::quantized::MICROSOFT;
use crate::range::integers;
use crate::report::Form;
use crate::session::ConstantMemory;
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

/// Weights as integers in a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integers {
    quantized: ValueId,
    scales: ValueId,
    zeros: Option<ValueId>,
    /// What `DequantizeLinear` makes of them, once something reads it.
    dequantized: Option<ValueId>,
    n: usize,
    k: usize,
    block: usize,
    bits: usize,
    /// Along which the standard's operator finds blocks.
    axis: usize,
}

/// Who reads integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    Products,
    Tables,
    /// Both, from the same bytes.
    Both,
}

/// In which order the operators that read weights take their integers.
pub(crate) fn order(place: &BlockedWeight, form: Form, readers: Readers, block: usize) -> Order {
    match (form, readers) {
        (Form::Qdq, _) if place.by_rows => Order::Close,
        (Form::Qdq, _) => Order::Columns(place.n),
        (Form::QLinear, Readers::Tables) => Order::Close,
        (Form::QLinear, _) => Order::Rows(place.k.div_ceil(block) * block),
    }
}

/// Puts the weights of a node into the graph as integers.
pub(crate) fn integers_of(
    g: &mut Graph,
    id: NodeId,
    place: &BlockedWeight,
    made: Packed,
    (form, readers): (Form, Readers),
    memory: &dyn ConstantMemory,
) -> Result<Integers, String> {
    let (n, k, block) = (made.n, made.k, made.block);
    let bits = made.rule.levels.dtype.bits();
    let rank = g.constant(place.w).map_or(2, Tensor::rank);
    let axis = if place.by_rows { rank - 1 } else { rank - 2 };
    let (name, roles, constants) = match form {
        Form::Qdq => {
            let roles = ["quantized", "scale", "zero_point"];
            (g[place.w].name.clone(), roles, for_dequantize(g, place, made, axis)?)
        }
        Form::QLinear => {
            let name = g[id].output(0).map_or_else(String::new, |v| g[v].name.clone());
            let own = if readers == Readers::Tables { "table" } else { "weights" };
            let constants = match readers {
                Readers::Tables => for_gather(place, made)?,
                _ => for_product(place, &made, (alpha(&g[id]), readers))?,
            };
            (name, [own, "scales", "zero_points"], constants)
        }
    };
    let (quantized, scales, zeros) = constants;
    let scales = moved(&scales, memory)?;
    let zeros = zeros.map(|zeros| moved(&zeros, memory)).transpose()?;
    let mut add = |t: Tensor, role: &str| g.add_initializer(&format!("{name}_{role}"), t);
    let (quantized, scales) = (add(quantized, roles[0]), add(scales, roles[1]));
    let zeros = zeros.map(|zeros| add(zeros, roles[2]));
    Ok(Integers { quantized, scales, zeros, dequantized: None, n, k, block, bits, axis })
}

/// The tensor in new memory.
fn moved(t: &Tensor, memory: &dyn ConstantMemory) -> Result<Tensor, String> {
    let bytes = memory.bytes(t.byte_len(), &mut |to| {
        to.copy_from_slice(&t.bytes());
        Ok(())
    })?;
    bytes.viewed_as(t.dtype(), t.dims()).map_err(|e| e.to_string())
}

/// Makes the node read the weights as integers.
pub(crate) fn write(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    place: &BlockedWeight,
    (made, form, readers): (&mut Integers, Form, Readers),
) -> Result<WrittenOperator, String> {
    let written = |operator, microsoft| Ok(WrittenOperator { operator, microsoft });
    match (form, place.x) {
        // Few rows are read, and only these are made reals.
        (Form::Qdq, None) if made.bits == 8 => {
            gather_and_dequantize(g, opsets, id, made)?;
            written("DequantizeLinear", false)
        }
        (Form::Qdq, _) => {
            let reals = match made.dequantized {
                Some(reals) => reals,
                None => dequantize(g, opsets, id, place, made)?,
            };
            made.dequantized = Some(reals);
            g.set_input(id, place.slot, Some(reals));
            written("DequantizeLinear", false)
        }
        (Form::QLinear, Some(x)) => {
            product(g, opsets, id, (x, place), made)?;
            written("MatMulNBits", true)
        }
        (Form::QLinear, None) => {
            gather(g, opsets, id, (made, readers))?;
            written("GatherBlockQuantized", true)
        }
    }
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
fn arranged<T: Copy>(rows: Vec<T>, place: &BlockedWeight, columns: usize) -> Vec<T> {
    if place.by_rows { rows } else { turned(&rows, (place.n, columns)) }
}

/// As `DequantizeLinear` takes them.
fn for_dequantize(
    g: &Graph,
    place: &BlockedWeight,
    made: Packed,
    axis: usize,
) -> Result<Constants, String> {
    let dtype = made.rule.levels.dtype;
    let data = g.constant(place.w).ok_or("its weights are computed")?;
    let (dims, count, moved) = (data.dims().to_vec(), made.count(), offset(made.rule));
    let mut few = dims.clone();
    few[axis] = count;
    let centered = made.is_centered(moved as u8);
    let quantized = made.bytes.viewed_as(dtype, &dims).map_err(|e| e.to_string())?;
    let zeros = (!centered).then(|| {
        let zeros = arranged(made.zeros, place, count);
        let zeros: Vec<i64> = zeros.into_iter().map(|q| i64::from(q) - moved).collect();
        integers(dtype, &few, &zeros).ok_or_else(|| format!("{dtype} is no type of weights"))
    });
    let scales = steps(&few, arranged(made.scales, place, count), place.dtype)?;
    Ok((quantized, scales, zeros.transpose()?))
}

/// `DequantizeLinear(integers, scales, zero points){axis, block_size}` in front of the operator.
fn dequantize(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    place: &BlockedWeight,
    made: &Integers,
) -> Result<ValueId, String> {
    let (name, layers) = (g[place.w].name.clone(), g[id].layers.clone());
    let out = edit::edit(g, opsets, |b| {
        b.in_layers(layers, &name, |b| {
            let reals = b.dequantize_linear(made.quantized, made.scales).axis(made.axis as i64);
            let reals = reals.block_size(made.block as i64).role("dequantized");
            let reals = reals.x_zero_point(made.zeros);
            b.id(reals.called(format!("{name}_DequantizeLinear")).one()?)
        })
    });
    let out = out.map_err(|found| edit::why(&found))?;
    g[out].ty = g[place.w].ty.clone();
    Ok(out)
}

/// The rows of a table that indices name, which are made reals then.
fn gather_and_dequantize(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    made: &Integers,
) -> Result<(), String> {
    let indices = g[id].input(1).ok_or("it has no indices")?;
    edit::stand_in(g, opsets, id, |b, _| {
        let rows = |table: ValueId, role: &str| b.gather(table, indices).axis(0).role(role).one();
        let (q, scales) = (rows(made.quantized, "quantized")?, rows(made.scales, "scale")?);
        let zeros = made.zeros.map(|zeros| rows(zeros, "zero_point")).transpose()?;
        let reals = b.dequantize_linear(q, scales).axis(-1).block_size(made.block as i64);
        Ok([reals.x_zero_point(zeros).one()?])
    })
}

fn int((name, value): (&str, usize)) -> (String, Attr) {
    (name.to_owned(), Attr::Int(value as i64))
}

/// Integers, scales and zero points, if those are not the middle.
type Constants = (Tensor, Tensor, Option<Tensor>);

/// As `MatMulNBits` takes them; a table that reads the same bytes wants its rows told apart.
fn for_product(
    place: &BlockedWeight,
    made: &Packed,
    (alpha, readers): (f32, Readers),
) -> Result<Constants, String> {
    let bits = made.rule.levels.dtype.bits();
    let (n, count) = (made.n, made.count());
    let zeros = packed(&made.zeros, count, count, bits);
    let zeros = (!made.is_centered(1 << (bits - 1))).then_some(zeros);
    let dims = |all: usize| if readers == Readers::Both { vec![n, all / n] } else { vec![all] };
    let scales: Vec<f32> = made.scales.iter().map(|s| s * alpha).collect();
    let scales = steps(&dims(n * count), scales, place.dtype)?;
    let zeros = zeros.map(|zeros| Tensor::from_vec(dims(zeros.len()), zeros));
    let weights = made.bytes.reshaped([n, count, made.block * bits / 8]);
    let weights = weights.map_err(|e| e.to_string())?;
    Ok((weights, scales, zeros))
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
        let inputs = [Operand::from(x), made.quantized.into(), made.scales.into()];
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
fn for_gather(place: &BlockedWeight, made: Packed) -> Result<Constants, String> {
    let bits = made.rule.levels.dtype.bits();
    let (n, count) = (made.n, made.count());
    let dtype = match bits {
        4 => DataType::Uint4,
        8 => DataType::Uint8,
        _ => return Err(format!("tables of {bits} bits are not supported")),
    };
    let tensor = |columns: usize, bytes: Tensor| {
        bytes.viewed_as(dtype, &[n, columns]).map_err(|e| e.to_string())
    };
    let zeros = packed(&made.zeros, made.zeros.len(), made.zeros.len(), bits);
    let zeros = tensor(count, Tensor::vector(zeros))?;
    let scales = steps(&[n, count], made.scales, place.dtype)?;
    Ok((tensor(made.k, made.bytes)?, scales, Some(zeros)))
}

/// `GatherBlockQuantized(integers, indices, scales, zero points)`: rows of a table.
fn gather(
    g: &mut Graph,
    opsets: &Opsets,
    id: NodeId,
    (made, readers): (&Integers, Readers),
) -> Result<(), String> {
    let indices = g[id].input(1).ok_or("it has no indices")?;
    let wide = [made.n as i64, (made.k * made.bits / 8) as i64];
    edit::stand_in(g, opsets, id, |b, _| {
        let table = match readers {
            Readers::Both => b.reshape(made.quantized, wide.to_vec()).role("table").one()?,
            _ => b.var(made.quantized),
        };
        let inputs = [Operand::from(table), indices.into(), made.scales.into()];
        let axes = [("gather_axis", 0), ("quantize_axis", 1)];
        let sizes = [("bits", made.bits), ("block_size", made.block)].into_iter().chain(axes);
        let rows = b.op(MICROSOFT, "GatherBlockQuantized", inputs).set("zero_points", made.zeros);
        Ok([rows.attrs(sizes.map(int)).one()?])
    })
}
