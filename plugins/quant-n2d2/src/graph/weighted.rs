//! Weighted operators: convolutions, fully connected layers, and the sums of wide averages.
//!
//! ONNX multiplies bytes only. Where inputs or weights have more than eight bits, each is
//! `256 · high + low`, and the products of the parts are added in 64 bits. All these parts are
//! bytes without sign, the highs of signed numbers with a zero point, because ONNX Runtime adds
//! pairs of products of signed and unsigned bytes in 16 bits on processors without VNNI, and those
//! saturate.

use super::proof::accumulator_max;
use super::rescale::Accumulator;
use super::types::{Casting, Result};
use super::{Writer, transposed};
use crate::plan::{Blocks, Cell, CellKind, Integers};
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::ir::{Attr, DataType, Node, Tensor, ValueId, ValueType};
use std::borrow::Cow;

/// Zero point of weights without sign.
const ZERO: i32 = 128;
/// Values of a byte, and what makes signed numbers of 16 bits positive.
const BYTE: i64 = 256;
const OFFSET: i32 = 1 << 15;
/// Sums stay well below the bounds of 64 bits, so that halves and offsets can be added.
const SUM_MAX: i64 = 1 << 60;

/// A byte without sign of each of some integers: they are the sum of
/// `(value - zero) << shift` over the parts.
struct BytePart<T> {
    value: T,
    zero: bool,
    shift: u32,
    /// Largest magnitude of `value - zero`.
    max: i64,
}

/// What is multiplied by what.
struct Factors<'a> {
    /// `Conv` or `Gemm`, for its name and attributes.
    node: Node,
    fc: bool,
    /// As in the model; `[inputs, outputs]` of a fully connected layer.
    dims: Vec<usize>,
    weights: &'a [i32],
    input: Accumulator,
    /// Of the value that holds the sums.
    role: &'static str,
}

impl Writer<'_> {
    /// A convolution or matrix product with its bias.
    pub(super) fn weighted(
        &mut self,
        cell: &Cell,
        node: Node,
        input: Accumulator,
        integers: &Integers,
    ) -> Result<Accumulator> {
        let parameters = cell.parameters.as_ref().ok_or("it has no parameters")?;
        let dims = &parameters.dims;
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        refuse!(dims.len() < 2 || count != Some(integers.weights.len()) => "its integers do not fill {dims:?}");
        let fc = cell.kind == CellKind::Fc;
        let weights = match fc {
            true => Cow::Owned(transposed(&integers.weights, dims[0], dims[1])),
            false => Cow::Borrowed(integers.weights.as_slice()),
        };
        let terms = cell.blocks.as_ref().map_or(1, |blocks| blocks.sizes[0] * blocks.sizes[1]);
        let max = accumulator_max(integers, dims[0], terms, range(input));
        let axes = if fc { 0 } else { dims.len() - 2 };
        let dims = if fc { vec![dims[1], dims[0]] } else { dims.clone() };
        let role = if integers.bias.is_some() { "bias" } else { "act" };
        let factors = Factors { node, fc, dims, weights: &weights, input, role };
        let (mut value, dtype) = self.sum(&factors, max)?;
        if let Some(blocks) = &cell.blocks {
            value = self.block_sums(value, dtype, blocks)?;
        }
        if let Some(bias) = &integers.bias {
            let t = &self.t;
            let bias = t.integers(bias, t.held(dtype), axes, "b")?;
            value = t.b.named("act", t.b.add(value, bias)?);
        }
        Ok(Accumulator { value, dtype, max, axes: Some(axes) })
    }

    /// The sums of blocks of accumulators.
    fn block_sums(&self, x: Var, dtype: DataType, blocks: &Blocks) -> Result<Var> {
        let [rows, columns] = blocks.sizes;
        let (t, b) = (&self.t, self.t.b);
        let numbers =
            |role, of: &[i64]| b.parameter(role, Tensor::from_vec(vec![of.len()], of.to_vec()));
        let mut x = x;
        let [below, right] = blocks.missing();
        if below + right > 0 {
            let pads = numbers("pads", &[0, 0, 0, 0, 0, 0, below, right]);
            let zero = t.integers(&[0], t.held(dtype), 0, "zero")?;
            x = b.pad(x, pads).constant_value(zero).role("padded").one()?;
        }
        let [down, along] =
            [0, 1].map(|axis| (blocks.plane[axis] + blocks.missing()[axis]) / blocks.sizes[axis]);
        let shape = numbers("blocks", &[0, 0, down, rows, along, columns]);
        let parts = b.reshape(x, shape).role("parted").one()?;
        Ok(b.reduce_sum(parts).axes([3, 5]).keepdims(0).role("sums").one()?)
    }

    /// The sums over windows of images of `channels` channels, by the attributes of `node`.
    pub(super) fn window_sums(
        &mut self,
        node: Node,
        input: Accumulator,
        channels: usize,
        window: &[usize],
    ) -> Result<Accumulator> {
        let count = window.iter().try_fold(channels, |n, d| n.checked_mul(*d));
        let count = count.filter(|n| *n < 1 << 26).ok_or("its windows are too large")?;
        let ones = Integers { weights: vec![1; count], bias: None };
        let dims: Vec<usize> = [channels, 1].into_iter().chain(window.iter().copied()).collect();
        let max = accumulator_max(&ones, channels, 1, range(input));
        let weights = &ones.weights;
        let factors = Factors { node, fc: false, dims, weights, input, role: "windows" };
        let (value, dtype) = self.sum(&factors, max)?;
        Ok(Accumulator { value, dtype, max, axes: Some(window.len()) })
    }

    /// Accumulators, which with what is added to them have no larger magnitude than `max`, and
    /// their type.
    fn sum(&mut self, f: &Factors, max: i64) -> Result<(Var, DataType)> {
        let bytes = matches!(f.input.dtype, DataType::Uint8 | DataType::Int8)
            && f.weights.iter().all(|w| i8::try_from(*w).is_ok());
        if max <= i64::from(i32::MAX) && (bytes || self.t.fake()) {
            return Ok((self.weighted_bytes(f)?, DataType::Int32));
        }
        refuse!(max > SUM_MAX => "its accumulator may reach {max}, which takes more than 61 bits");
        if self.t.casting != Casting::Explicit {
            return Err(
                "it takes more than 8 bits, or an accumulator of more than 32, and those take the \
                        casts that `FakeQuantization` and `ImplicitCasting` leave out"
                    .into(),
            );
        }
        Ok((self.weighted_parts(f)?, DataType::Int64))
    }

    fn weighted_bytes(&mut self, f: &Factors) -> Result<Var> {
        let op = match (f.fc, self.t.fake()) {
            (false, false) => "ConvInteger",
            (false, true) => "Conv",
            (true, false) => "MatMulInteger",
            (true, true) => "MatMul",
        };
        let offset = f.fc && !self.t.fake() && f.input.dtype == DataType::Uint8;
        let (dims, w) = (f.dims.clone(), f.weights.iter());
        let weights = match (self.t.fake(), offset) {
            (true, _) => Tensor::from_vec(dims, w.map(|w| *w as f32).collect()),
            (_, true) => Tensor::from_vec(dims, w.map(|w| (w + ZERO) as u8).collect()),
            _ => Tensor::from_vec(dims, w.map(|w| *w as i8).collect()),
        };
        let weights = self.parameter(f.node.input(1), weights, "w");
        let b = self.t.b;
        let zero = offset.then(|| b.parameter("w_zero", Tensor::scalar(ZERO as u8)));
        let product = b.op("", op, [f.input.value, weights]).attrs(f.attrs());
        let product = match zero {
            Some(zero) => product.set("b_zero_point", zero),
            None => product,
        };
        Ok(product.called(f.node.name.as_str()).role(f.role).one()?)
    }

    fn weighted_parts(&mut self, f: &Factors) -> Result<Var> {
        let op = if f.fc { "MatMulInteger" } else { "ConvInteger" };
        let xs = self.input_parts(f.input)?;
        let ws = weight_parts(f.weights)?;
        let zero = self.t.b.parameter("zero", Tensor::scalar(ZERO as u8));
        let mut total: Option<Var> = None;
        for (at, w) in ws.into_iter().enumerate() {
            let terms = f.dims.iter().product::<usize>() / f.outputs().max(1);
            let data = Tensor::from_vec(f.dims.clone(), w.value);
            let old = f.node.input(1).filter(|_| at == 0);
            let weights = self.parameter(old, data, ["w", "w_low"][at]);
            for x in &xs {
                // Checked against what any weights of this size could make of it.
                let bound = i128::from(x.max) * i128::from(w.max) * terms as i128;
                refuse!(bound > i128::from(i32::MAX) =>
                    format!("it adds {terms} terms, too many for an accumulator of 32 bits").into());
                let (t, b) = (&self.t, self.t.b);
                let zero = |zeroed: bool| Operand::from(zeroed.then_some(zero));
                let inputs = [x.value.into(), weights.into(), zero(x.zero), zero(w.zero)];
                let product = b.op("", op, inputs).attrs(f.attrs()).role("part").one()?;
                let mut part = t.cast(product, DataType::Int32, DataType::Int64, "wide")?;
                let shift = x.shift + w.shift;
                if shift > 0 {
                    let by = t.integers(&[1 << shift], DataType::Int64, 0, "part_by")?;
                    part = b.named("part_wide", b.mul(part, by)?);
                }
                total = Some(match total {
                    None => part,
                    Some(sum) => b.named(f.role, b.add(sum, part)?),
                });
            }
        }
        total.ok_or_else(|| "it has no weights".into())
    }

    /// The bytes of what is multiplied.
    fn input_parts(&self, input: Accumulator) -> Result<Vec<BytePart<Var>>> {
        let (t, b) = (&self.t, self.t.b);
        let wide = matches!(input.dtype, DataType::Uint16 | DataType::Int16);
        let signed = matches!(input.dtype, DataType::Int8 | DataType::Int16);
        let part = |value, zero, shift, max| BytePart { value, zero, shift, max };
        if input.dtype == DataType::Uint8 {
            return Ok(vec![part(input.value, false, 0, BYTE - 1)]);
        }
        let mut x = t.cast(input.value, input.dtype, DataType::Int32, "x_icast")?;
        if signed {
            let offset = if wide { OFFSET } else { ZERO };
            let offset = t.integers(&[offset.into()], DataType::Int32, 0, "x_offset")?;
            x = b.named("x_raised", b.add(x, offset)?);
        }
        if !wide {
            let x = t.cast(x, DataType::Int32, DataType::Uint8, "x_ocast")?;
            return Ok(vec![part(x, true, 0, BYTE / 2)]);
        }
        let byte = t.integers(&[BYTE], DataType::Int32, 0, "x_byte")?;
        let low = b.mod_(x, byte).role("x_low").one()?;
        let high = b.named("x_high", b.div(x, byte)?);
        let low = t.cast(low, DataType::Int32, DataType::Uint8, "x_low_ocast")?;
        let high = t.cast(high, DataType::Int32, DataType::Uint8, "x_high_ocast")?;
        let highest = if signed { BYTE / 2 } else { BYTE - 1 };
        Ok(vec![part(high, signed, 8, highest), part(low, false, 0, BYTE - 1)])
    }

    /// Puts `data` in the place of a float parameter that nothing else reads, or beside it.
    fn parameter(&self, old: Option<ValueId>, data: Tensor, role: &str) -> Var {
        let mut graph = self.t.b.graph_mut();
        let free = |v: &ValueId| graph[*v].initializer().is_some() && graph.uses(*v) == 0;
        let Some(v) = old.filter(free).filter(|v| !graph.inputs().contains(v)) else {
            drop(graph);
            return self.t.b.parameter(role, data);
        };
        let dims = data.dims().iter().map(|d| *d as i64);
        graph[v].ty = Some(ValueType::tensor(data.dtype(), dims));
        graph.set_initializer(v, Some(data));
        drop(graph);
        self.t.b.var(v)
    }
}

impl Factors<'_> {
    /// Attributes of the product.
    fn attrs(&self) -> impl Iterator<Item = (String, Attr)> {
        self.node.attrs.iter().filter(|_| !self.fc).cloned()
    }

    fn outputs(&self) -> usize {
        if self.fc { self.dims[1] } else { self.dims[0] }
    }
}

/// What integers can be; one below the lowest is counted too, so that the range is symmetric.
fn range(input: Accumulator) -> (i64, i64) {
    match input.dtype {
        DataType::Uint8 | DataType::Uint16 => (0, input.max),
        _ => (-input.max, input.max),
    }
}

fn weight_parts(weights: &[i32]) -> Result<Vec<BytePart<Vec<u8>>>> {
    let all = |f: fn(i32) -> u8| weights.iter().map(|w| f(*w)).collect();
    if weights.iter().all(|w| i8::try_from(*w).is_ok()) {
        let value = all(|w| (w + ZERO) as u8);
        return Ok(vec![BytePart { value, zero: true, shift: 0, max: BYTE / 2 }]);
    }
    refuse!(let Some(wide) = weights.iter().find(|w| i16::try_from(**w).is_err()) =>
        "a weight is {wide}, which takes more than 16 bits");
    let most = |f: &dyn Fn(i32) -> i32| weights.iter().map(|w| f(*w).abs()).max().unwrap_or(0);
    Ok(vec![
        BytePart {
            value: all(|w| ((w + OFFSET) >> 8) as u8),
            zero: true,
            shift: 8,
            max: most(&|w| w >> 8).into(),
        },
        BytePart { value: all(|w| (w & 255) as u8), zero: false, shift: 0, max: BYTE - 1 },
    ])
}
