//! Which boxes stay where those that overlap lose a part of their scores: each turn of a loop takes the best one, and
//! lowers the scores of the others by how much they overlap with it.

use super::create::number;
use super::dtype_of;
use onnxd_plugin_sdk::build::{GraphBuilder, Turn, Var};
use onnxd_plugin_sdk::ir::DataType::{Float, Int64};
use onnxd_plugin_sdk::lower::Lowered;

/// The numbers of the boxes that stay, the best first, and their scores as they were then. `drops` tells whether boxes
/// that overlap as much as the threshold says are dropped all the same, as TFLite's kernel does. With a sigma of zero
/// those that overlap more are dropped, and no score is lowered.
pub(crate) fn kept(
    b: &GraphBuilder,
    [boxes, scores, most, iou]: [Var; 4],
    least: Var,
    (sigma, drops): (Var, bool),
) -> Lowered<(Var, Var)> {
    let float = |x: Var| b.cast(x, Float);
    let (boxes, least, dtype) = (float(boxes)?, float(least)?, dtype_of(b, scores)?);
    let scores = float(scores)?;
    let corners = corners(b, boxes)?;
    let scalar = |x: Var| b.squeeze(b.reshape(float(x)?, [1]).one()?).axes([0]).one();
    let (sigma, iou) = (scalar(sigma)?, scalar(iou)?);
    let is_soft = b.greater(sigma, 0.0)?;
    let factor = b.div(-0.5, b.where_(is_soft, sigma, 1.0)?)?;
    let none = || b.constant(number(f64::from(f32::NEG_INFINITY), Float));
    let first = b.where_(b.greater(scores, least)?, scores, none())?;
    // There may be no boxes at all.
    let top = |b: &GraphBuilder, scores: Var| {
        let all = b.concat([b.reshape(none(), [1]).one()?, scores]).axis(0).one()?;
        b.reduce_max(all).keepdims(0).one()
    };
    let goes_on = |b: &GraphBuilder, scores: Var| b.greater(top(b, scores)?, least);
    let trips = b.squeeze(b.reshape(b.cast(most, Int64)?, [1]).one()?).axes([0]).one()?;
    let begins = goes_on(b, first)?;
    let loop_results = b.loop_(trips, begins, &[first], |b, _, _, state| {
        let scores = state[0];
        let best = b.arg_max(scores).axis(0).keepdims(0).one()?;
        let score = b.gather(scores, best).axis(0).one()?;
        let overlap = overlap(b, corners, best)?;
        let weight = b.exp(b.mul(b.mul(overlap, overlap)?, factor)?)?;
        let weight = b.where_(is_soft, weight, 1.0)?;
        let places = b.range(0, b.squeeze(b.shape(scores).one()?).axes([0]).one()?, 1).one()?;
        let is_best = b.equal(places, best)?;
        let none = b.constant(number(f64::from(f32::NEG_INFINITY), Float));
        let rest = b.mul(scores, weight)?;
        let stays = b.and(b.greater(rest, least)?, b.not(is_best)?)?;
        let is_apart = match drops {
            true => b.less(overlap, iou)?,
            false => b.or(is_soft, b.less_or_equal(overlap, iou)?)?,
        };
        let stays = b.and(stays, is_apart)?;
        let rest = b.where_(stays, rest, none)?;
        let condition = goes_on(b, rest)?;
        Ok(Turn { condition, carried: vec![rest], scanned: vec![best, score] })
    })?;
    Ok((loop_results[1], b.cast(loop_results[2], dtype)?))
}

/// The lowest and highest places of boxes `[n, 4]` along both axes, whichever corner comes first, and their areas.
fn corners(b: &GraphBuilder, boxes: Var) -> Lowered<[Var; 5]> {
    let at = |i: i64| b.gather(boxes, i).axis(1).one();
    let (y, x) = ([at(0)?, at(2)?], [at(1)?, at(3)?]);
    let (top, bottom, left, right) = (b.min(y)?, b.max(y)?, b.min(x)?, b.max(x)?);
    let area = b.mul(b.sub(bottom, top)?, b.sub(right, left)?)?;
    Ok([top, left, bottom, right, area])
}

/// What boxes have in common with the one of number `best`, as a share of both; zero for boxes without an area.
fn overlap(b: &GraphBuilder, all: [Var; 5], best: Var) -> Lowered<Var> {
    let one = |x: Var| b.gather(x, best).axis(0).one();
    let [top, left, bottom, right, area] = all;
    let side = |low: Var, high: Var| {
        let common = b.sub(b.min([high, one(high)?])?, b.max([low, one(low)?])?)?;
        b.relu(common)
    };
    let common = b.mul(side(top, bottom)?, side(left, right)?)?;
    let both = b.sub(b.add(area, one(area)?)?, common)?;
    let is_empty = b.or(b.less_or_equal(area, 0.0)?, b.less_or_equal(one(area)?, 0.0)?)?;
    let both = b.where_(is_empty, 1.0, both)?;
    b.where_(is_empty, 0.0, b.div(common, both)?)
}
