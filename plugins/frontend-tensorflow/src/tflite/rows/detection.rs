//! What object detectors do to boxes and scores in the end.

use super::size_of;
use crate::ops::sort::top_k;
use crate::ops::{Lower, RowContext, rank, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{Float, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "TFLite_Detection_PostProcess" => detections;
    }
}

arguments! {
    /// `TFLite_Detection_PostProcess(box_encodings, class_predictions, anchors)`
    struct Detect {
        box_encodings: Var, class_predictions: Var, anchors: Var, max_detections: i64,
        max_classes_per_detection: i64, detections_per_class: i64, use_regular_nms: bool,
        nms_score_threshold: f64, nms_iou_threshold: f64, num_classes: i64, y_scale: f64, x_scale: f64,
        h_scale: f64, w_scale: f64,
    }
}

/// Boxes, classes and scores of detections, filled up with zeros, and their number.
fn detections(b: &Lower, a: Detect) -> Lowered<[Var; 4]> {
    let boxes = boxes(b, &a)?;
    // A class before the others is the background.
    let last = rank(b, a.class_predictions)?.saturating_sub(1);
    let all = size_of(b, a.class_predictions, last).filter(|all| *all >= a.num_classes);
    let all = all.ok_or_else(|| b.wrong("The number of classes is not that of the scores."))?;
    let scores = b.slice(a.class_predictions, [all - a.num_classes], [i64::MAX]);
    let scores = scores.axes([last as i64]).one()?;
    let places = a.max_detections.saturating_mul(a.max_classes_per_detection);
    let (found, count) = match a.use_regular_nms {
        true => of_each_class(b, &a, boxes, scores)?,
        false => of_best_classes(b, &a, boxes, scores)?,
    };
    let [boxes, classes, scores] = found;
    let filled = |x: Var, n: i64| {
        let missing = b.sub(vector(b, places), b.shape(x).start(0).end(1).one()?)?;
        let pads = if n == 2 {
            b.concat([vector(b, 0), vector(b, 0), missing, vector(b, 0)])
        } else {
            b.concat([vector(b, 0), missing])
        };
        b.unsqueeze(b.pad(x, pads.axis(0).one()?).one()?, [0])
    };
    Ok([
        filled(boxes, 2)?,
        filled(b.cast(classes, Float)?, 1)?,
        filled(scores, 1)?,
        b.cast(count, Float)?,
    ])
}

fn vector(b: &GraphBuilder, n: i64) -> Var {
    b.constant(Tensor::vector(vec![n]))
}

/// Corners `[boxes, 4]` from distances to anchors, which are middle and size.
fn boxes(b: &GraphBuilder, a: &Detect) -> Lowered<Var> {
    let encodings = b.squeeze(a.box_encodings).axes([0]).one()?;
    let column = |x: Var, at: i64| b.slice(x, [at], [at + 2]).axes([1]).one();
    let scales = |y: f64, x: f64| b.constant(Tensor::vector(vec![y as f32, x as f32]));
    let size = column(a.anchors, 2)?;
    let apart = b.div(column(encodings, 0)?, scales(a.y_scale, a.x_scale))?;
    let middle = b.add(b.mul(apart, size)?, column(a.anchors, 0)?)?;
    let growth = b.exp(b.div(column(encodings, 2)?, scales(a.h_scale, a.w_scale))?)?;
    let half = b.mul(b.mul(growth, 0.5)?, size)?;
    b.concat([b.sub(middle, half)?, b.add(middle, half)?]).axis(1).one()
}

/// The places `[n, 3]` of boxes that no better one of their class overlaps: sample, class and box.
fn selected(b: &GraphBuilder, a: &Detect, boxes: Var, scores: Var, most: i64) -> Lowered<Var> {
    // ONNX wants scores above the threshold, TFLite at least the threshold.
    let threshold = (a.nms_score_threshold as f32).next_down();
    let call = b.non_max_suppression(b.unsqueeze(boxes, [0])?, scores);
    let call = call.max_output_boxes_per_class(vec![most]);
    let call = call.iou_threshold(vec![a.nms_iou_threshold as f32]);
    call.score_threshold(vec![threshold]).one()
}

/// Boxes, classes and scores, and how many there are.
type Detections = ([Var; 3], Var);

/// Boxes by the score of their best class; each counts with its best classes.
fn of_best_classes(b: &GraphBuilder, a: &Detect, boxes: Var, scores: Var) -> Lowered<Detections> {
    let best = b.reduce_max(scores).axes([2]).keepdims(1).one()?;
    let best = b.transpose(best).perm(vec![0i64, 2, 1]).one()?;
    let places = selected(b, a, boxes, best, a.max_detections)?;
    let place = b.gather(places, 2).axis(1).one()?;
    let count = b.shape(place).one()?;
    let scores = b.gather(b.squeeze(scores).axes([0]).one()?, place).axis(0).one()?;
    let classes = a.max_classes_per_detection.min(a.num_classes);
    let [scores, best] = top_k(b, scores, &Operand::Int(classes), 1, [true, true])?;
    let missing = a.max_classes_per_detection - classes;
    let flat = |x: Var| {
        let all = if missing > 0 { b.pad(x, [0, 0, 0, missing]).one()? } else { x };
        b.reshape(all, [-1]).one()
    };
    let own = b.gather(boxes, place).axis(0).one()?;
    let own = match a.max_classes_per_detection {
        1 => own,
        n => {
            let repeated = b.tile(b.unsqueeze(own, [1])?, [1, n, 1])?;
            b.reshape(repeated, [-1, 4]).one()?
        }
    };
    Ok(([own, flat(b.cast(best, Float)?)?, flat(scores)?], count))
}

/// The best boxes of all classes, each of which was looked at for itself.
fn of_each_class(b: &GraphBuilder, a: &Detect, boxes: Var, scores: Var) -> Lowered<Detections> {
    let by_class = b.transpose(scores).perm(vec![0i64, 2, 1]).one()?;
    let places = selected(b, a, boxes, by_class, a.detections_per_class)?;
    let scores = b.gather_nd(by_class, places).one()?;
    let count = b.min([b.shape(scores).one()?, vector(b, a.max_detections)])?;
    let [scores, order] = top_k(b, scores, &count.into(), 0, [true, true])?;
    let places = b.gather(places, b.cast(order, Int64)?).axis(0).one()?;
    let column = |at: i64| b.gather(places, at).axis(1).one();
    let own = b.gather(boxes, column(2)?).axis(0).one()?;
    Ok(([own, b.cast(column(1)?, Float)?, scores], count))
}
