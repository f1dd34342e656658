//! Boxes: which of many stay, and what lies inside.

use super::create::number;
use super::sample::{Pixels, SampleMode};
use super::{Lower, RowContext, soft_nms};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Float, Int32, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "NonMaxSuppression" => |b, boxes: Var, scores: Var, max_output_size: Var, iou_threshold: f64| {
            let iou = b.constant(Tensor::scalar(iou_threshold as f32));
            whole(b, suppressed(b, [boxes, scores, max_output_size, iou], None)?)
        };
        "NonMaxSuppressionV2" => |b, boxes: Var, scores: Var, max_output_size: Var, iou_threshold: Var| {
            whole(b, suppressed(b, [boxes, scores, max_output_size, iou_threshold], None)?)
        };
        "NonMaxSuppressionV3"
            => |b, boxes: Var, scores: Var, max_output_size: Var, iou_threshold: Var, score_threshold: Var| {
            let operands = [boxes, scores, max_output_size, iou_threshold];
            whole(b, suppressed(b, operands, Some(score_threshold))?)
        };
        "NonMaxSuppressionV4" => |b, a: Suppress4| {
            let operands = [a.boxes, a.scores, a.max_output_size, a.iou_threshold];
            let selected = suppressed(b, operands, Some(a.score_threshold))?;
            let count = b.cast(b.size(selected)?, Int32)?;
            let most = a.pad_to_max_output_size.then_some(a.max_output_size);
            Ok([whole(b, padded(b, selected, most)?)?, count])
        };
        "NonMaxSuppressionV5" => suppress_scored;
        "CombinedNonMaxSuppression" => combined;
        "CropAndResize" => crop_and_resize;
    }
}

arguments! {
    /// `NonMaxSuppressionV4`
    struct Suppress4 {
        boxes: Var, scores: Var, max_output_size: Var, iou_threshold: Var, score_threshold: Var,
        pad_to_max_output_size: bool,
    }
    /// `NonMaxSuppressionV5`
    struct Suppress5 {
        boxes: Var, scores: Var, max_output_size: Var, iou_threshold: Var, score_threshold: Var,
        soft_nms_sigma: Var, pad_to_max_output_size: bool, drops: bool = false,
    }
    /// `CombinedNonMaxSuppression`
    struct Combined {
        boxes: Var, scores: Var, max_output_size_per_class: Var, max_total_size: i64, iou_threshold: Var,
        score_threshold: Var, pad_per_class: bool, clip_boxes: bool,
    }
    /// `CropAndResize`
    struct Crop {
        image: Var, boxes: Var, box_ind: Var, crop_size: Vec<i64>, method: String, extrapolation_value: f64,
    }
}

fn whole(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.cast(x, Int32)
}

/// Numbers of the boxes that stay, the best first.
fn suppressed(
    b: &GraphBuilder,
    [boxes, scores, most, iou]: [Var; 4],
    least: Option<Var>,
) -> Lowered<Var> {
    let float = |x: Var| b.cast(x, Float);
    let boxes = b.unsqueeze(float(boxes)?, [0])?;
    let scores = b.unsqueeze(float(scores)?, [0, 1])?;
    let least = least.map(|least| one(b, float(least)?)).transpose()?;
    let call = b.non_max_suppression(boxes, scores);
    let call = call.max_output_boxes_per_class(one(b, b.cast(most, Int64)?)?);
    let all = call.iou_threshold(one(b, float(iou)?)?).score_threshold(least).one()?;
    b.gather(all, 2).axis(1).one()
}

/// A number as a vector of one element.
fn one(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.reshape(x, [1]).one()
}

/// `x` with zeros behind its elements, if there is a number that they must reach.
fn padded(b: &GraphBuilder, x: Var, most: Option<Var>) -> Lowered<Var> {
    let Some(most) = most else { return Ok(x) };
    let lacking = b.sub(one(b, b.cast(most, Int64)?)?, b.shape(x).one()?)?;
    let zero = b.constant(Tensor::vector(vec![0i64]));
    b.pad(x, b.concat([zero, lacking]).axis(0).one()?).one()
}

fn suppress_scored(b: &Lower, a: Suppress5) -> Lowered<[Var; 3]> {
    let given = [a.boxes, a.scores, a.max_output_size, a.iou_threshold];
    let sigma = b.constant_of(a.soft_nms_sigma).and_then(|sigma| sigma.to_reals());
    let is_hard = sigma.is_some_and(|sigma| sigma.values.iter().all(|sigma| *sigma == 0.0));
    let (found, scores) = match is_hard {
        false => soft_nms::kept(b, given, a.score_threshold, (a.soft_nms_sigma, a.drops))?,
        true => {
            let found = suppressed(b, given, Some(a.score_threshold))?;
            (found, b.gather(a.scores, found).axis(0).one()?)
        }
    };
    let most = a.pad_to_max_output_size.then_some(a.max_output_size);
    let count = b.cast(b.size(found)?, Int32)?;
    let scores = padded(b, scores, most)?;
    Ok([whole(b, padded(b, found, most)?)?, scores, count])
}

/// The best boxes of all classes, for each picture: `boxes` is `[batch, n, 1 or classes, 4]`.
fn combined(b: &Lower, a: Combined) -> Lowered<[Var; 4]> {
    let dims = |x: Var, axis: usize| b.shape_of(x).and_then(|dims| dims.get(axis)?.known());
    let (Some(shared), Some(classes)) = (dims(a.boxes, 2), dims(a.scores, 2)) else {
        let message = "The numbers of classes and of boxes for each of them must be known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let shared = shared == 1;
    let count = b.shape(a.scores).start(1).end(2).one()?;
    let scores = b.transpose(a.scores).perm([0, 2, 1]).one()?;
    // Boxes of each class are like those of a picture of its own.
    let (boxes, scores_of) = match shared {
        true => (b.squeeze(a.boxes).axes([2]).one()?, scores),
        false => {
            let boxes = b.transpose(a.boxes).perm([0, 2, 1, 3]).one()?;
            let to =
                |last: Var| b.concat([b.constant(Tensor::vector(vec![-1i64])), last]).axis(0).one();
            let four = b.constant(Tensor::vector(vec![4i64]));
            let single = b.constant(Tensor::vector(vec![1i64]));
            let boxes_of = b.reshape(boxes, to(b.concat([count, four]).axis(0).one()?)?).one()?;
            (boxes_of, b.reshape(scores, to(b.concat([single, count]).axis(0).one()?)?).one()?)
        }
    };
    let per_class = one(b, b.cast(a.max_output_size_per_class, Int64)?)?;
    let call = b.non_max_suppression(boxes, scores_of).max_output_boxes_per_class(per_class);
    let call =
        call.iou_threshold(one(b, a.iou_threshold)?).score_threshold(one(b, a.score_threshold)?);
    let kept = call.one()?;
    // Scores of the boxes that stay, and least ones elsewhere; then the best of all classes.
    let lowest = number(f64::from(f32::MIN), Float);
    let none = b.expand(b.constant(lowest.clone()), b.shape(scores_of).one()?)?;
    let dense = b.scatter_nd(none, kept, b.gather_nd(scores_of, kept).one()?).one()?;
    let flat = b.concat([
        b.shape(a.scores).start(0).end(1).one()?,
        b.constant(Tensor::vector(vec![-1i64])),
    ]);
    let dense = b.reshape(dense, flat.axis(0).one()?).one()?;
    let most = match (a.pad_per_class, b.ints_of(a.max_output_size_per_class).as_deref()) {
        (false, _) => a.max_total_size,
        (true, Some([per_class])) => a.max_total_size.min(per_class.saturating_mul(classes)),
        (true, _) => {
            let message = "The number of boxes of a class must be known to pad to it.";
            return Err(b.diagnostic(Code::LayerUnsupported, message));
        }
    };
    let padding = b.pad(dense, [0, 0, 0, most]).constant_value(lowest).one()?;
    let [best, at] = b.top_k(padding, [most]).axis(1).outputs()?;
    let stays = b.greater(best, f64::from(f32::MIN))?;
    let at = b.where_(stays, at, 0)?;
    let (class, place) = (b.div(at, count)?, b.mod_(at, count).one()?);
    let place = b.unsqueeze(if shared { place } else { at }, [2])?;
    let boxes = match shared {
        true => boxes,
        false => {
            let boxes = b.transpose(a.boxes).perm([0, 2, 1, 3]).one()?;
            b.reshape(
                boxes,
                b.concat([
                    b.shape(a.scores).start(0).end(1).one()?,
                    b.constant(Tensor::vector(vec![-1i64, 4])),
                ])
                .axis(0)
                .one()?,
            )
            .one()?
        }
    };
    let chosen_boxes = b.gather_nd(boxes, place).batch_dims(1).one()?;
    let chosen_boxes =
        if a.clip_boxes { b.clip(chosen_boxes).min(0.0).max(1.0).one()? } else { chosen_boxes };
    let boxes = b.where_(b.unsqueeze(stays, [2])?, chosen_boxes, 0.0)?;
    let valid = b.reduce_sum(b.cast(stays, Int32)?).axes([1]).keepdims(0).one()?;
    let classes = b.where_(stays, b.cast(class, Float)?, 0.0)?;
    Ok([boxes, b.where_(stays, best, 0.0)?, classes, valid])
}

/// Boxes of pictures (with corners as shares of their sizes) as pictures of one size.
fn crop_and_resize(b: &Lower, a: Crop) -> Lowered<Var> {
    let &[height, width] = &a.crop_size[..] else {
        let message = "The height and width of crops must be known.";
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    let mode = match a.method.as_str() {
        "bilinear" => SampleMode::Inside,
        "nearest" => SampleMode::Nearest,
        _ => return Err(b.diagnostic(Code::LayerParameter, "The method of cropping is not known.")),
    };
    let pixels = Pixels::from_var(b, b.cast(a.image, Float)?)?;
    let corner = |i: i64| b.unsqueeze(b.gather(a.boxes, i).axis(1).one()?, [1]);
    // Places of pixels along one axis, one row for each box.
    let places = |from: Var, to: Var, size: Var, count: i64| {
        let last = b.sub(size, 1.0)?;
        if count <= 1 {
            return b.mul(b.mul(b.add(from, to)?, 0.5)?, last);
        }
        let steps = b.constant(Tensor::vector((0..count).map(|i| i as f32).collect::<Vec<_>>()));
        let step = b.div(b.mul(b.sub(to, from)?, last)?, (count - 1) as f64)?;
        b.add(b.mul(from, last)?, b.mul(steps, step)?)
    };
    let y = b.unsqueeze(places(corner(0)?, corner(2)?, pixels.height, height)?, [2])?;
    let x = b.unsqueeze(places(corner(1)?, corner(3)?, pixels.width, width)?, [1])?;
    let outside = |at: Var, size: Var| b.or(b.less(at, 0.0)?, b.greater(at, b.sub(size, 1.0)?)?);
    let outside = b.or(outside(y, pixels.height)?, outside(x, pixels.width)?)?;
    let batch = b.unsqueeze(b.cast(a.box_ind, Int64)?, [1, 2])?;
    let found = pixels.sampled(b, [batch, y, x], mode, None)?;
    b.where_(b.unsqueeze(outside, [3])?, a.extrapolation_value, found)
}
