//! Operators of torchvision.

use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Float, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "torchvision::nms" => nms(dets, scores, iou_threshold);
        "torchvision::roi_align" => roi_align;
        "torchvision::roi_pool" => roi_pool;
        "torchvision::deform_conv2d" => deform_conv;
    }
    .refused("torchvision::ps_roi_align", POSITION)
    .refused("torchvision::ps_roi_pool", POSITION)
}

const POSITION: &str = "ONNX has no pooling of regions by position";

arguments! {
    /// `torchvision::roi_align`
    struct RoiAlign {
        input: Var, rois: Var, spatial_scale: f64, pooled_height: i64, pooled_width: i64,
        sampling_ratio: i64, aligned: bool,
    }
    /// `torchvision::roi_pool`
    struct RoiPool {
        input: Var, rois: Var, spatial_scale: f64, pooled_height: i64, pooled_width: i64,
    }
    /// `torchvision::deform_conv2d`
    struct DeformConv {
        input: Var, weight: Var, offset: Var, mask: Var, bias: Var, stride_h: i64, stride_w: i64,
        pad_h: i64, pad_w: i64, dilation_h: i64, dilation_w: i64, groups: i64, offset_groups: i64,
        use_mask: bool,
    }
}

/// Positions of the boxes that stay, the best first.
fn nms(b: &Lower, dets: Var, scores: Var, iou_threshold: f64) -> Lowered<Var> {
    let boxes = b.unsqueeze(b.cast(dets, Float)?, [0])?;
    let scores = b.unsqueeze(b.cast(scores, Float)?, [0, 1])?;
    let call = b.non_max_suppression(boxes, scores).max_output_boxes_per_class([i64::MAX]);
    let chosen = call.iou_threshold([iou_threshold as f32]).one()?;
    // Batch, class and box.
    b.gather(chosen, 2i64).axis(1).one()
}

fn roi_align(b: &Lower, a: RoiAlign) -> Lowered<Var> {
    let mode = match (a.aligned, b.opset() >= 16) {
        (true, true) => Some("half_pixel"),
        (false, true) => Some("output_half_pixel"),
        (false, false) => None,
        (true, false) => {
            let message = "Regions are aligned to the centres of pixels from opset 16 on.";
            return Err(b.diagnostic(Code::LayerUnsupported, message).until_opset(16));
        }
    };
    let images = b.cast(b.gather(a.rois, 0i64).axis(1).one()?, Int64)?;
    let boxes = b.slice(a.rois, [1], [5]).axes([1]).one()?;
    let call = b.roi_align(a.input, boxes, images).coordinate_transformation_mode(mode);
    let call = call.output_height(a.pooled_height).output_width(a.pooled_width);
    let call = call.sampling_ratio(a.sampling_ratio.max(0)).spatial_scale(a.spatial_scale);
    call.one()
}

fn roi_pool(b: &Lower, a: RoiPool) -> Lowered<Several> {
    let call = b.max_roi_pool(a.input, a.rois).pooled_shape([a.pooled_height, a.pooled_width]);
    Ok(Several(vec![call.spatial_scale(a.spatial_scale).one()?.into(), Value::None]))
}

fn deform_conv(b: &Lower, a: DeformConv) -> Lowered<Var> {
    if b.opset() < 19 {
        let message = "Deformable convolutions exist from opset 19 on.";
        return Err(b.diagnostic(Code::LayerUnsupported, message).until_opset(19));
    }
    let kernel = b.dims_of(a.weight).map(|dims| dims.into_iter().skip(2).collect::<Vec<_>>());
    let mask = a.use_mask.then_some(a.mask);
    let call = b.deform_conv(a.input, a.weight, a.offset).b(a.bias).mask(mask);
    let call = call.strides([a.stride_h, a.stride_w]).pads([a.pad_h, a.pad_w, a.pad_h, a.pad_w]);
    let call = call.dilations([a.dilation_h, a.dilation_w]).kernel_shape(kernel);
    call.group(a.groups).offset_group(a.offset_groups).one()
}
