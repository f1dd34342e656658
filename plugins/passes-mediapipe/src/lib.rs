//! The custom operators of MediaPipe's TFLite models, as its kernels compute them. A plugin of its own, as authors of
//! other custom operators write it: a function for each operator, and one pass of all of them.
//!
//! Source: <https://github.com/google-ai-edge/mediapipe/tree/master/mediapipe/util/tflite/operations>

// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

mod landmarks;
mod pool;
mod warp;

use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lower, Lowered};
use onnxd_plugin_sdk::{arguments, lowering};

arguments! {
    /// `Convolution2DTransposeBias(input, weights, bias)`: the weights are `[out, h, w, in]`, the options are
    /// `TfLiteTransposeConvParams`.
    struct Transpose { inputs: Vec<Var>, options: Vec<i64> }
}

lowering! {
    /// Custom operators of MediaPipe.
    struct MediaPipe {
        "tflite::Convolution2DTransposeBias" => transpose_conv,
        "tflite::MaxPoolingWithArgmax2D" => pool::max_pool,
        "tflite::MaxUnpooling2D" => pool::max_unpool,
        "tflite::TransformLandmarks" => landmarks::transformed,
        "tflite::TransformTensor" => warp::transformed,
        "tflite::TransformTensorBilinear" => warp::transformed_between,
    }
}

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.passes-mediapipe",
    summary: "Custom operators of MediaPipe's TFLite models",
    components: [
        pass(
            "mediapipe-operators",
            "Lowers custom operators of MediaPipe";
            declares [MediaPipe::ROWS] => |_| MediaPipe::pass("mediapipe-operators")
        ),
    ],
}

/// So many inputs, all of them there.
fn exactly<const N: usize>(b: &GraphBuilder, inputs: &[Var]) -> Lowered<[Var; N]> {
    inputs.try_into().map_err(|_| {
        let message = format!("The operator has {} inputs, not {N}.", inputs.len());
        b.diagnostic(Code::LayerParameter, message)
    })
}

/// The numbers of 32 bits that a struct of C begins with.
fn words<const N: usize>(b: &GraphBuilder, options: &[i64]) -> Lowered<[i64; N]> {
    let bytes: Option<Vec<u8>> = options.iter().map(|byte| u8::try_from(*byte).ok()).collect();
    let words = bytes.unwrap_or_default();
    let words = words.chunks_exact(4).map(|word| {
        let word: [u8; 4] = word.try_into().unwrap_or_default();
        i64::from(i32::from_le_bytes(word))
    });
    let words: Vec<i64> = words.take(N).collect();
    words.try_into().map_err(|_| {
        let message = "The options are no struct of the operator.";
        b.diagnostic(Code::LayerParameter, message)
    })
}

/// The size of an axis.
fn size(b: &GraphBuilder, x: Var, axis: usize) -> Lowered<i64> {
    let known = b.shape_of(x).and_then(|shape| shape.get(axis)?.known());
    known.ok_or_else(|| {
        let message = format!("The size of axis {axis} is not known.");
        b.diagnostic(Code::LayerUnsupported, message)
    })
}

/// Pixels of a picture along an axis.
const PIXELS_MAX: i64 = 1 << 16;

/// `TfLitePadding`
const SAME: i64 = 1;
const VALID: i64 = 2;

/// Sizes and steps of windows: larger ones are none.
const CELLS_MAX: i64 = 1 << 24;

fn check_window(b: &GraphBuilder, padding: i64, cells: &[i64]) -> Lowered<()> {
    if matches!(padding, SAME | VALID) && cells.iter().all(|n| (1..=CELLS_MAX).contains(n)) {
        return Ok(());
    }
    let message = "The options say a padding, size or step that no window has.";
    Err(b.diagnostic(Code::LayerParameter, message))
}

fn transpose_conv(b: &Lower, a: Transpose) -> Lowered<Var> {
    let [x, weights, bias] = exactly(b, &a.inputs)?;
    let [padding, stride_w, stride_h] = words(b, &a.options)?;
    let strides = [stride_h, stride_w];
    check_window(b, padding, &strides)?;
    let mut pads = [0; 4];
    for axis in 0..2 {
        let kernel = size(b, weights, axis + 1)?;
        if padding == SAME {
            let step = strides[axis];
            // Where the step is 1, the size does not matter.
            let over = if step == 1 { 0 } else { (size(b, x, axis + 1)? - 1).rem_euclid(step) };
            let all = (kernel - over - 1).max(0);
            (pads[axis], pads[axis + 2]) = (all / 2, all - all / 2);
        }
    }
    let x = b.transpose(x).perm([0, 3, 1, 2]).one()?;
    let filter = b.transpose(weights).perm([3, 0, 1, 2]).one()?;
    let y =
        b.conv_transpose(x, filter).b(bias).strides(strides.to_vec()).pads(pads.to_vec()).one()?;
    b.transpose(y).perm([0, 2, 3, 1]).one()
}

#[cfg(test)]
mod tests;
