//! What the scheme decides, before any integer node is written: the float network as cells
//! ([`CellNetwork`]), and the integers and rescalings of every cell ([`IntegerPlan`]).
//!
//! The arithmetic of a cell in integers: `acc = Σ weights · inputs + bias`, then
//! `q = clip(rescale(acc))`. There is no zero point: a real value is `q · scale`, with the scale of
//! [`Output`].

use crate::floats::Floats;
use onnxd_plugin_sdk::ir::{Model, NodeId, ValueId};

/// The float network as cells, in an order in which a cell follows those that it reads.
#[derive(Clone, Debug)]
pub struct CellNetwork {
    /// The model that all ids below belong to: the given one, with `BatchNormalization` fused,
    /// weights equalized and clipped. Its inputs are those of the given model, not divided by
    /// [`IntegerPlan::range`].
    pub model: Model,
    /// The cells.
    pub cells: Vec<Cell>,
}

impl CellNetwork {
    /// Gives back the memory of the weights, which the model holds as well.
    pub(crate) fn forget_weights(&mut self) {
        let parameters = self.cells.iter_mut().filter_map(|cell| cell.parameters.as_mut());
        parameters.for_each(|p| p.weights = Floats::from(Vec::new()));
    }
}

/// A layer: what N2D2 calls a cell. Its activation is part of it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The source layer's name, or that of the node or value.
    pub name: String,
    /// What it computes.
    pub kind: CellKind,
    /// The node that computes it, apart from bias and activation.
    pub node: NodeId,
    /// All its nodes in order: `node`, the addition of a bias, the activation.
    pub nodes: Vec<NodeId>,
    /// What it reads, in the order of the node's data inputs (weights and the like left out).
    pub inputs: Vec<CellInput>,
    /// Float weights and biases, of `Conv` and `Fc` only.
    pub parameters: Option<Parameters>,
    /// Blocks whose accumulators are added, of `Conv` only: N2D2's `SubSample`.
    pub blocks: Option<Blocks>,
    /// What its last node does.
    pub activation: Activation,
    /// The value that holds its result in `CellNetwork::model`.
    pub output: ValueId,
    /// Size of the axis of channels of the result (axis 1; the last of one or two).
    pub channels: usize,
}

/// Blocks of a map that are added up, one after the other along each axis. Those at the end are cut
/// off where the map ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The node that adds them, a convolution with ones, and has the cell's bias.
    pub node: NodeId,
    /// Rows and columns of a block.
    pub sizes: [i64; 2],
    /// Rows and columns of the map.
    pub plane: [i64; 2],
}

impl Blocks {
    /// Rows and columns that the last blocks lack.
    pub fn missing(&self) -> [i64; 2] {
        [0, 1].map(|axis| (-self.plane[axis]).rem_euclid(self.sizes[axis].max(1)))
    }
}

/// Where a cell's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CellInput {
    /// Graph input `i` of `CellNetwork::model.graph.inputs()`.
    Input(usize),
    /// The result of `CellNetwork::cells[i]`.
    Cell(usize),
}

/// Kinds of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// `Conv`.
    Conv,
    /// `Gemm`, or `MatMul` by a constant, with or without a bias.
    Fc,
    /// `MaxPool`, `GlobalMaxPool`: the integers pass.
    MaxPool,
    /// `AveragePool`, `GlobalAveragePool`: the mean of the integers, rounded towards zero.
    AveragePool,
    /// `Add` or `Sum` of cells.
    Sum,
    /// `Max` of cells.
    Max,
    /// `Concat` of cells.
    Concat,
    /// The same values elsewhere: `Flatten`, `Reshape`, `Squeeze`, `Unsqueeze`, `Transpose`,
    /// `Identity`, `Dropout`, `Pad` with zeros. Integers pass through the node as it is.
    Layout,
    /// An activation of its own (`Relu`, `Clip`) on a cell that something else reads too.
    Activation,
    /// Computed in float on dequantized inputs: `Softmax`, `Sigmoid`, `Tanh` and the like. If a
    /// cell of integers reads it, [`CellPlan::output`] tells how its result is quantized.
    Float,
}

/// What a cell applies last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// Nothing.
    Linear,
    /// `max(x, 0)`, and the upper bound of a clip. In integers the unsigned saturation does it, or
    /// `max(q, 0)` where the output is signed nevertheless; `clipping` is never below the output's
    /// threshold unless the threshold is `max|x|`, so that saturation does that as well.
    Rectifier {
        /// Upper bound, of `Clip` only.
        clipping: Option<f32>,
    },
    /// `min(max(x, -t), t)`: the signed saturation does it.
    Saturation {
        /// `t`.
        threshold: f32,
    },
}

/// Float parameters of a cell, after the fusion of `BatchNormalization`, equalization and clipping.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Sizes of the weights: `[outputs, inputs / group, kernel...]`; `[outputs, inputs]` for `Fc`,
    /// whatever the layout in the model.
    pub dims: Vec<usize>,
    /// The weights in the order of `dims`.
    pub weights: Floats,
    /// One bias per output.
    pub bias: Option<Vec<f32>>,
}

/// What the integer network is made of. Lists run in the order of [`CellNetwork`].
#[derive(Clone, Debug)]
pub struct IntegerPlan {
    /// Bits of weights and activations, 2 to 16.
    pub bits: u32,
    /// Largest magnitude of the network's inputs over the calibration samples.
    pub range: f64,
    /// How inputs are quantized, by position in `CellNetwork::model.graph.inputs()`:
    /// `q = clip(trunc(x / range · levels))`, with the `levels` of [`Output`].
    pub inputs: Vec<Output>,
    /// Per cell.
    pub cells: Vec<CellPlan>,
    /// What the user should know: a cell that fell back to another mode of rescaling, and so on.
    pub remarks: Vec<String>,
}

impl IntegerPlan {
    /// Gives back the memory of the weights, once they are written.
    pub(crate) fn forget_weights(&mut self) {
        let integers = self.cells.iter_mut().filter_map(|cell| cell.integers.as_mut());
        integers.for_each(|i| i.weights = Vec::new());
    }
}

/// How a tensor is represented: `real value = q · scale`, `q` in `bits` with or without sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// Whether `q` can be negative.
    pub signed: bool,
    /// Bits of `q`.
    pub bits: u32,
    /// Real value of one step, in the units of the given model.
    pub scale: f64,
}

impl Output {
    /// Bounds of `q`: `(0, 2^n - 1)` or `(-2^(n-1), 2^(n-1) - 1)`.
    pub fn bounds(&self) -> (i64, i64) {
        bounds(self.bits, self.signed)
    }

    /// The upper bound, which stands for the threshold.
    pub fn levels(&self) -> i64 {
        self.bounds().1
    }
}

/// Bounds of integers of `bits` bits.
pub fn bounds(bits: u32, signed: bool) -> (i64, i64) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// A cell in integers.
#[derive(Clone, Debug)]
pub struct CellPlan {
    /// Its integers, of `Conv` and `Fc` only.
    pub integers: Option<Integers>,
    /// Per input: a requantization of that branch, before this cell only. The rescaled value is
    /// saturated to `signed` of the input's own output and the plan's bits.
    pub branches: Vec<Option<Rescale>>,
    /// Rescaling of the accumulator; `None` where integers pass (pools, layout operators, concatenations) and
    /// for sums whose inputs are rescaled already: the sum is saturated, no more. Without an output,
    /// the result of a `Conv` or `Fc` is real, and the factors give it.
    pub rescale: Option<Rescale>,
    /// How the result is represented; `None` if it is real.
    pub output: Option<Output>,
    /// For the report.
    pub threshold: Threshold,
}

/// Weights and biases in integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integers {
    /// Weights in the order of [`Parameters::dims`], within `±(2^(bits-1) - 1)`.
    pub weights: Vec<i32>,
    /// Biases; there may be none.
    pub bias: Option<Vec<i64>>,
}

/// Where the scale of a cell's output comes from, in units of the network's input divided by
/// [`IntegerPlan::range`], for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Threshold {
    /// Smallest value seen.
    pub min: f64,
    /// Largest value seen.
    pub max: f64,
    /// The value that the largest integer stands for.
    pub threshold: f64,
}

/// From an accumulator to the integers of the next cell, before saturation. Lists have one element
/// for all outputs, or one per output. All shifts of signed numbers are arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub struct Rescale {
    /// The real factors that `how` stands for, before approximation.
    pub factors: Vec<f64>,
    /// How it is computed.
    pub how: How,
}

/// The arithmetic of a rescaling.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// `round(acc · f)`, halves away from zero, in float32.
    FloatingPoint(Vec<f32>),
    /// `(acc · m + 2^(p-1)) >> p` in 64 bits; no addition if `p` is 0.
    FixedPoint {
        /// `p`.
        fraction_bits: u32,
        /// `m`, at most 2^15 - 1 or 2^31 - 1.
        multipliers: Vec<i64>,
    },
    /// `(acc + 2^(e-1)) >> e`; no addition if `e` is 0.
    SingleShift(Vec<u32>),
    /// `(acc + (acc << d) + 2^(e-1)) >> e`, as pairs `(d, e)`; no addition of a half if `e` is 0.
    DoubleShift(Vec<(u32, u32)>),
}

impl Rescale {
    /// The value of accumulator `acc` of output `output`, before saturation.
    pub fn apply(&self, acc: i64, output: usize) -> i64 {
        let half = |e: u32| if e == 0 { 0 } else { 1i128 << (e - 1) };
        let acc128 = i128::from(acc);
        let shifted = match &self.how {
            How::FloatingPoint(f) => return (acc as f32 * *pick(f, output)).round() as i64,
            How::FixedPoint { fraction_bits, multipliers } => {
                let m = i128::from(*pick(multipliers, output));
                (acc128 * m + half(*fraction_bits)) >> fraction_bits
            }
            How::SingleShift(e) => (acc128 + half(*pick(e, output))) >> pick(e, output),
            How::DoubleShift(pairs) => {
                let (d, e) = *pick(pairs, output);
                (acc128 + (acc128 << d) + half(e)) >> e
            }
        };
        shifted.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// Element `output` of a list, or the one for all outputs.
fn pick<T>(list: &[T], output: usize) -> &T {
    if list.len() == 1 { &list[0] } else { &list[output] }
}
