//! Selection of boxes.

use crate::call::{KernelCall, KernelRow, one, row};
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

pub(crate) const ROWS: &[KernelRow] = &[row("NonMaxSuppression", non_max_suppression)];

/// Two corners, low and high, of a box.
#[derive(Clone, Copy)]
struct Area {
    low: [f32; 2],
    high: [f32; 2],
}

impl Area {
    /// From two opposite corners in any order (y before x), or from centre and size (x before y).
    fn from_corners(b: &[f32], centered: bool) -> Area {
        let (mut low, mut high) = ([0.0; 2], [0.0; 2]);
        for k in 0..2 {
            let (p, q) = match centered {
                true => (b[k] - b[k + 2] / 2.0, b[k] + b[k + 2] / 2.0),
                false => (b[k].min(b[k + 2]), b[k].max(b[k + 2])),
            };
            (low[k], high[k]) = (p, q);
        }
        Area { low, high }
    }

    fn size(&self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Intersection over union.
    fn overlap(&self, other: &Area) -> f32 {
        let side =
            |k: usize| (self.high[k].min(other.high[k]) - self.low[k].max(other.low[k])).max(0.0);
        let common = side(0) * side(1);
        let union = self.size() + other.size() - common;
        if common > 0.0 && union > 0.0 { common / union } else { 0.0 }
    }
}

/// Per class, boxes by falling score, leaving out those that overlap one already chosen too much.
fn non_max_suppression(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (boxes, scores) = (call.x(0)?, call.x(1)?);
    let ([batch, count, 4], [b, classes, n]) = (boxes.dims(), scores.dims()) else {
        return Err(Fault::invalid(format!("{boxes:?} and {scores:?} are not boxes and scores")));
    };
    refuse!((b, n) != (batch, count) => "{boxes:?} and {scores:?} do not fit each other");
    let (count, classes) = (*count, *classes);
    let chosen_max = call.scalar_opt(2)?.unwrap_or(0.0).max(0.0) as usize;
    let overlap_max = call.scalar_opt(3)?.unwrap_or(0.0) as f32;
    let score_min = call.scalar_opt(4)?.map(|s| s as f32);
    let centered = call.flag("center_point_box", false)?;
    let values = call.slice::<f32>(0)?;
    let areas: Vec<Area> = values.chunks(4).map(|b| Area::from_corners(b, centered)).collect();
    let mut selected_boxes = Vec::new();
    for (at, row) in call.slice::<f32>(1)?.chunks(count.max(1)).enumerate() {
        let (image, class) = (at / classes, at % classes);
        let areas = &areas[image * count..(image + 1) * count];
        let mut order: Vec<usize> =
            (0..count).filter(|i| score_min.is_none_or(|min| row[*i] > min)).collect();
        // Of equal scores, zeros of both signs among them, the first box comes first.
        let score = |i: &usize| row[*i] + 0.0;
        order.sort_by(|i, j| score(j).total_cmp(&score(i)));
        let mut chosen: Vec<usize> = Vec::new();
        for i in order {
            if chosen.len() >= chosen_max {
                break;
            }
            if chosen.iter().all(|j| areas[i].overlap(&areas[*j]) <= overlap_max) {
                chosen.push(i);
                selected_boxes.extend([image as i64, class as i64, i as i64]);
            }
        }
    }
    one(Tensor::from_vec(vec![selected_boxes.len() / 3, 3], selected_boxes))
}

#[cfg(test)]
mod tests {
    use crate::testing::run;
    use onnxd_ir::{Attr, Tensor};

    #[test]
    fn overlapping_boxes_are_left_out() {
        let corners = vec![
            0f32, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, -0.1, 1.0, 0.9, 0.0, 10.0, 1.0,
            11.0, //
            1.0, 10.1, 0.0, 11.1, 0.0, 100.0, 1.0, 101.0,
        ];
        let boxes = Tensor::from_vec(vec![1, 6, 4], corners);
        let scores = Tensor::from_vec(vec![1, 1, 6], vec![0.9f32, 0.75, 0.6, 0.95, 0.5, 0.3]);
        let chosen = |max: i64, score: f32| {
            let max = Tensor::vector(vec![max]);
            let (overlap, score) = (Tensor::vector(vec![0.5f32]), Tensor::vector(vec![score]));
            let inputs = [&boxes, &scores, &max, &overlap, &score];
            run("NonMaxSuppression", 11, &[], &inputs).to_i64s().unwrap()
        };
        assert_eq!(chosen(3, 0.0), [0, 0, 3, 0, 0, 0, 0, 0, 5]);
        assert_eq!(chosen(3, 0.4), [0, 0, 3, 0, 0, 0]);
        assert_eq!(chosen(1, 0.0), [0, 0, 3]);
        assert!(chosen(0, 0.0).is_empty());
    }

    /// As in ONNX Runtime.
    #[test]
    fn of_equal_scores_the_first_box_wins() {
        let boxes: Vec<f32> = (0..4).flat_map(|i| [0.0, i as f32, 1.0, i as f32 + 0.9]).collect();
        let boxes = Tensor::from_vec(vec![1, 4, 4], boxes);
        let scores = Tensor::from_vec(vec![1, 1, 4], vec![-0.0f32, 0.0, 0.5, 0.5]);
        let found = run("NonMaxSuppression", 11, &[], &[&boxes, &scores, &Tensor::scalar(4i64)]);
        let chosen: Vec<i64> = found.to_i64s().unwrap().chunks(3).map(|c| c[2]).collect();
        assert_eq!(chosen, [2, 3, 0, 1]);
    }

    #[test]
    fn boxes_by_their_centre() {
        let boxes = Tensor::from_vec(vec![1, 2, 4], vec![0f32, 0.0, 2.0, 2.0, 0.5, 0.0, 2.0, 2.0]);
        let scores = Tensor::from_vec(vec![1, 1, 2], vec![0.5f32, 0.5]);
        let attrs = [("center_point_box", Attr::Int(1))];
        let (max, overlap) = (Tensor::scalar(9i64), Tensor::scalar(0.59f32));
        let found = run("NonMaxSuppression", 10, &attrs, &[&boxes, &scores, &max, &overlap]);
        assert_eq!(found.to_i64s().unwrap(), [0, 0, 0]);
    }
}
