//! Points that a matrix moves.

use super::exactly;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lower, Lowered};

arguments! {
    /// `TransformLandmarks(landmarks, matrix)`: version 1 has points of `dimensions` numbers in the last axis of four,
    /// version 2 one point in the last axis of three.
    pub(super) struct Landmarks { inputs: Vec<Var>, dimensions: Option<i64>, scale: f64 = 1.0 }
}

/// The first eight numbers of a matrix of four columns: how the first two rows move a point. Each is a tensor of one
/// number.
pub(super) fn rows(b: &GraphBuilder, matrix: Var) -> Lowered<[[Var; 4]; 2]> {
    let flat = b.reshape(matrix, [-1]).one()?;
    let at = |i: i64| b.slice(flat, [i], [i + 1]).axes([0]).one();
    Ok([[at(0)?, at(1)?, at(2)?, at(3)?], [at(4)?, at(5)?, at(6)?, at(7)?]])
}

/// A third number of a point stays as it is.
pub(super) fn transformed(b: &Lower, a: Landmarks) -> Lowered<Var> {
    let [points, matrix] = exactly(b, &a.inputs)?;
    let last = b.shape_of(points).and_then(|shape| shape.last()?.known());
    let Some(count) = a.dimensions.or(last).filter(|count| matches!(count, 2 | 3)) else {
        let message = "The points have other than two or three numbers.";
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    let shape = b.shape(points).one()?;
    let each = b.reshape(points, [-1, count]).one()?;
    let part = |i: i64| b.slice(each, [i], [i + 1]).axes([1]).one();
    let (x, y) = (part(0)?, part(1)?);
    let moved = |row: [Var; 4]| {
        let shift = if a.scale == 1.0 { row[3] } else { b.mul(row[3], a.scale)? };
        b.add(b.add(b.mul(x, row[0])?, b.mul(y, row[1])?)?, shift)
    };
    let [first, second] = rows(b, matrix)?;
    let mut all = vec![moved(first)?, moved(second)?];
    if count == 3 {
        all.push(part(2)?);
    }
    b.reshape(b.concat(all).axis(1).one()?, shape).one()
}
