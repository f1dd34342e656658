//! What operators on floats between quantized values become, and back: a function and a row for
//! each operator and direction, by family.

mod activation;
pub(crate) mod attention;
pub(crate) mod bias;
mod conv;
mod folding;
mod linear;
mod math;
mod pool;
mod reduce;
mod shape;
mod unfolding;

use crate::graph::quantized::{MICROSOFT, QuantizedValue, Why};
use onnxd_ir::{Node, ValueId};

pub(crate) use activation::drop_needless;
pub use folding::Folded;
pub(crate) use folding::{FoldContext, SUFFIX};
pub(crate) use unfolding::{Float, UnfoldContext, made_of};

/// Makes the node on integers that stands for one on floats.
pub(crate) type Fold = fn(&mut FoldContext) -> Result<Node, Why>;

/// Makes the node on floats that one on integers stands for.
pub(crate) type Unfold = fn(&mut UnfoldContext) -> Result<Float, Why>;

/// By operator of the standard.
type Folds = &'static [(&'static [&'static str], Fold)];

/// By operator of the standard or of ONNX Runtime.
type Unfolds = &'static [(&'static [&'static str], Unfold)];

const FOLDS: &[Folds] = &[
    activation::FOLDS,
    conv::FOLDS,
    linear::FOLDS,
    math::FOLDS,
    pool::FOLDS,
    reduce::FOLDS,
    shape::FOLDS,
];

const UNFOLDS: &[Unfolds] = &[
    activation::UNFOLDS,
    attention::UNFOLDS,
    conv::UNFOLDS,
    linear::UNFOLDS,
    math::UNFOLDS,
    pool::UNFOLDS,
    reduce::UNFOLDS,
    shape::UNFOLDS,
];

pub(crate) fn fold_of(node: &Node) -> Option<Fold> {
    let standard = FOLDS.iter().copied().flatten().filter(|_| node.is_standard());
    let own = attention::FOLDS.iter().filter(|_| node.domain == MICROSOFT);
    let mut rows = standard.chain(own);
    rows.find(|(ops, _)| ops.contains(&node.op.as_str())).map(|(_, rule)| *rule)
}

pub(crate) fn unfold_of(node: &Node) -> Option<Unfold> {
    let known = node.is_standard() || node.domain == MICROSOFT;
    let mut rows = UNFOLDS.iter().copied().flatten().filter(|_| known);
    rows.find(|(ops, _)| ops.contains(&node.op.as_str())).map(|(_, rule)| *rule)
}

/// An operator of ONNX Runtime that takes integers, scale and zero point of each input, then scale
/// and zero point of the result.
fn elementwise(
    site: &mut FoldContext,
    op: &str,
    count: usize,
    attrs: &[(&str, i64)],
) -> Result<Node, Why> {
    let y = site.output(0)?;
    let xs: Vec<QuantizedValue> = (0..count).map(|i| site.input(i)).collect::<Result<_, _>>()?;
    site.alike(&[&xs[..], &[y]].concat())?;
    let mut inputs: Vec<Option<ValueId>> = xs.iter().flat_map(|x| site.triple(x)).collect();
    inputs.extend(site.pair(&y));
    Ok(site.microsoft(op, inputs, y.q, attrs))
}

/// Back from [`elementwise`].
fn elementwise_back(
    site: &mut UnfoldContext,
    op: &str,
    count: usize,
    drop: &[&str],
) -> Result<Float, Why> {
    let reals = (0..count).map(|i| site.real([3 * i, 3 * i + 1, 3 * i + 2], None));
    let reals = reals.collect::<Result<Vec<ValueId>, Why>>()?;
    site.float(op, reals.into_iter().map(Some).collect(), drop, [3 * count, 3 * count + 1])
}
