//! The params of one conversion, one row each, in the order of help and report.

use crate::kind::Kind;
use crate::table::{Row, default_value};
use Kind::{Bool, Float, Int, List, OneOf, Special, Text};

use super::special::{
    check_dynamic_axes, check_file_name, check_format, check_inc_format, check_inner_path,
    check_nbbits, check_overrides, check_range, check_shapes, check_stimuli_range,
};

macro_rules! params {
    ($($(#[doc = $help:literal])+ $key:literal: $kind:expr, $default:tt $($more:literal)?;)+) => {
        /// All rows.
        pub(crate) static ROWS: &[Row] = &[
            $(Row::new($key, $kind, default_value!($default $($more)?), concat!($($help,)+)),)+
        ];
    };
}

const INNER_PATH: Kind = Special("a path inside the submission", check_inner_path);
const FILE_NAME: Kind = Special("a file name without folders", check_file_name);
const TEXTS: Kind = List(&Text);
const SHAPES: Kind =
    Special("a list of shapes, each a list of sizes and names of sizes", check_shapes);
const DYNAMIC_AXES: Kind = Special(
    "a table of tensors, each a list of axes or a table of axis = \"name\"",
    check_dynamic_axes,
);
const OVERRIDES: Kind = Special("a table of nodes, each a table of keys", check_overrides);
const FORMAT: Kind =
    Special("\"none\" | \"QDQ\" | \"QLinear\" | \"N2D2\" | id of a quantizer", check_format);
const INC_FORMAT: Kind = Special("\"QDQ\" | \"QLinear\" | \"QOperator\"", check_inc_format);
const RECIPE: Kind = OneOf(&["QDQ_OP_FP32_BIAS", "QDQ_OP_INT32_BIAS", "QDQ_OP_FP32_BIAS_QDQ"]);
const NBBITS: Kind = Special("1 to 16, 32 or 64", check_nbbits);
const STIMULI_RANGE: Kind =
    Special("\"declared\" | \"data\" | a positive number", check_stimuli_range);
const NUMBERS: Kind = List(&Float(f64::MIN, f64::MAX));
const RANGE: Kind = Special("a list of two numbers, the smaller first", check_range);
const ROUND_MODES: Kind = OneOf(&["NONE", "RINTF"]);
const DTYPE: Kind = OneOf(&[
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "string",
    "complex64",
    "complex128",
]);

pub(crate) const ACTIVATION_TYPE: Kind = OneOf(&["uint8", "int8", "uint16", "int16"]);
pub(crate) const WEIGHT_TYPE: Kind = OneOf(&["int8", "uint8", "int4", "uint4", "int16", "uint16"]);
pub(crate) const BLOCK_SIZE: Kind = Int(1, 1_048_576);

params! {
    /// Name of the result's folder; unset takes the name of what was dropped.
    "job.name": FILE_NAME, unset;
    /// Jobs of higher priority start first.
    "job.priority": Int(-100, 100), 0;
    /// The conversion is stopped after this long; unset takes `worker.timeout_s`.
    "job.timeout_s": Int(1, 2_592_000), unset;
    /// Memory of the conversion; unset takes `worker.memory_mib_max`, which is also the limit.
    "job.memory_mib_max": Int(64, 1_048_576), unset;
    /// Tries after failures of the machine; unset takes `jobs.attempts_max`.
    "job.attempts_max": Int(1, 100), unset;
    /// The front-end that reads the network, as `ID` or `PLUGIN/ID`; unset lets the front-ends decide.
    "job.frontend": Text, unset;

    /// Weights folder; unset looks where the front-end's conventions say.
    "source.weights": INNER_PATH, unset;
    /// Use deterministic random weights instead of weights files (`-w /dev/null` of N2D2).
    "source.random": Bool, false;
    /// A missing weights file leaves deterministic random values instead of being an error.
    "source.weights_ignore": Bool, false;
    /// Seed of random weights.
    "source.seed": Int(0, 4_294_967_295), 1;
    /// Quantizers that the layers of a network were trained with (`QWeight`, `QAct` of N2D2): computed with what they
    /// learned, or ignored, which leaves the plain weights.
    "source.quantizers": OneOf(&["learned", "ignored"]), "learned";
    /// Settings of the source network that have no effect are errors instead of findings.
    "source.strict": Bool, false;

    /// Opset of the model; unset is 17, and a dropped ONNX model's own, but at most 21 where newer
    /// ones can be converted. The model is converted to it, or every node named that prevents it.
    "export.opset": Int(7, 30), unset;
    /// IR version of the model; unset keeps a dropped ONNX model's own, from 4 to 10, else 8.
    "export.ir_version": Int(3, 20), unset;
    /// Names of the model's inputs, in their order; empty keeps the source's.
    "export.input_names": TEXTS, [];
    /// Names of the model's outputs, in their order; empty keeps the source's.
    "export.output_names": TEXTS, [];
    /// Shapes of the inputs, in their order, where the source does not state them.
    "export.input_shapes": SHAPES, [];
    /// Element types of the inputs, in their order, where the source does not state them.
    "export.input_dtypes": List(&DTYPE), [];
    /// Axes of inputs and outputs whose size is left open, in the notations of torch.onnx:
    /// `x = [0, 2]`, `x = { 0 = "batch" }`, or both mixed.
    "export.dynamic_axes": DYNAMIC_AXES, {};
    /// Floating-point type of an N2D2 model; unset is float32.
    "export.float_type": OneOf(&["float32", "float64", "float16"]), unset;
    /// Compute what depends on constants only.
    "export.constant_folding": Bool, true;
    /// Write the weights; without them they become inputs of the model.
    "export.export_params": Bool, true;
    /// List the weights among the inputs, so that a runtime can replace them.
    "export.keep_initializers_as_inputs": Bool, false;
    /// Leave out the texts that tell where in the source a node comes from.
    "export.strip_doc_string": Bool, true;
    /// An operator without counterpart: an error, kept in a named domain, or kept as ATen.
    "export.operator_fallback": OneOf(&["error", "custom", "aten"]), "error";
    /// Weights in a file beside the model; `auto` does so only where the model would pass 2 GiB.
    "export.external_data": OneOf(&["auto", "always", "never"]), "auto";
    /// Tensors of at least this size go to the file beside the model.
    "export.external_data_threshold_bytes": Int(0, 1_073_741_824), 1024;
    /// Name of the result: `model.onnx`, or N2D2's (`export_ONNX_int8/model.onnx`).
    "export.naming": OneOf(&["onnxd", "N2D2"]), "onnxd";
    /// Report every rewrite and its place.
    "export.verbose": Bool, false;

    /// The passes that run, and their order.
    "passes.profile": OneOf(crate::profile::PROFILES), "default";
    /// How much of what passes changed is compared with what was before.
    "passes.compare": OneOf(&["none", "some", "all"]), "some";
    /// Passes that run in addition, after those of the profile.
    "passes.enable": TEXTS, [];
    /// Passes of the profile that do not run.
    "passes.disable": TEXTS, [];

    /// Form of the quantized model; `none` leaves it in floating point. Plugins may bring more.
    "quantization.format": FORMAT, "none";
    /// Ranges from data, from the input at run time, from training, or weights only.
    "quantization.mode": OneOf(&["static", "dynamic", "qat", "weight_only"]), "static";
    /// How Linear layers are written.
    "quantization.recipe": RECIPE, "QDQ_OP_FP32_BIAS";
    /// Type of quantized activations.
    "quantization.activation_type": ACTIVATION_TYPE, "uint8";
    /// Type of quantized weights; unset is `int8`, held as `uint8` with the zero point 128 where products of
    /// `int8` may saturate on processors without VNNI.
    "quantization.weight_type": WEIGHT_TYPE, unset;
    /// One scale for each output channel of a weight instead of one for all.
    "quantization.per_channel": Bool, true;
    /// Ranges of activations are symmetric around zero.
    "quantization.symmetric": Bool, false;
    /// Weights use one bit less, for processors whose 8-bit products saturate; unset is true with
    /// activations of `int8` where `weight_type` is unset, too.
    "quantization.reduce_range": Bool, unset;
    /// Elements that share a scale in mode `weight_only`.
    "quantization.block_size": BLOCK_SIZE, 32;
    /// How calibration data help to round weights: `adaround` learns it (modes `static` and `dynamic`), `gptq`
    /// and `awq` are for mode `weight_only`. Unset is both of these there, where they help, and `nearest` elsewhere.
    "quantization.rounding": OneOf(&["nearest", "adaround", "gptq", "awq"]), unset;
    /// `auto` tries what may help, measures it on data kept apart and takes the best.
    "quantization.accuracy": OneOf(&["default", "auto"]), "default";
    /// Time that `accuracy = "auto"`, `sqnr_db_min` and `top1_loss_max` may take; what was left out
    /// for it is said.
    "quantization.time_budget_s": Int(1, 2_592_000), 600;
    /// Least signal-to-noise ratio of the outputs of a good result: below it, the few operations that ruin it stay
    /// in floating point, and where that does not help the verdict is `succeeded_with_findings`.
    "quantization.sqnr_db_floor": Float(-300.0, 300.0), 10.0;
    /// Leave in floating point the fewest operations needed to reach this signal-to-noise ratio.
    "quantization.sqnr_db_min": Float(-100.0, 300.0), unset;
    /// The same for top-1: percent of the samples whose class may be lost, by array `labels` of the
    /// calibration data, else against the float model.
    "quantization.top1_loss_max": Float(0.0, 100.0), unset;
    /// Operator types to quantize; empty is all that usually gain by it.
    "quantization.op_types": TEXTS, [];
    /// `false` quantizes products of two computed factors, too.
    "quantization.matmul_const_b_only": Bool, true;
    /// Names of nodes to quantize, `*` and `?` allowed; empty is all.
    "quantization.include": TEXTS, [];
    /// Names of nodes to leave in floating point, `*` and `?` allowed.
    "quantization.exclude": TEXTS, [];
    /// Keys of this section for single nodes: activation_type, weight_type, per_channel,
    /// symmetric, reduce_range, block_size.
    "quantization.overrides": OVERRIDES, {};

    /// As in Neural Compressor's export: `fp32` leaves the model in floating point. Any key of this
    /// section asks for that export.
    "quantization.inc.dtype": OneOf(&["int8", "fp32"]), unset;
    /// Form of the quantized model: quantizer inc-qdq, or inc-qlinear for the others.
    "quantization.inc.quant_format": INC_FORMAT, unset;
    /// Opset, as `export.opset`; with QDQ at least 13.
    "quantization.inc.opset_version": Int(7, 30), unset;
    /// How Linear layers are written, as `quantization.recipe`.
    "quantization.inc.recipe": RECIPE, unset;
    /// As `export.input_names`.
    "quantization.inc.input_names": TEXTS, unset;
    /// As `export.output_names`.
    "quantization.inc.output_names": TEXTS, unset;
    /// As `export.dynamic_axes`.
    "quantization.inc.dynamic_axes": DYNAMIC_AXES, unset;

    /// Bits of weights and activations.
    "quantization.n2d2.nbbits": NBBITS, 8;
    /// Calibration samples; -1 uses all, 0 none.
    "quantization.n2d2.calib": Int(-1, 4_294_967_295), -1;
    /// N2D2's name of `calibration.reload`.
    "quantization.n2d2.calib_reload": Bool, false;
    /// How the range of weights is clipped.
    "quantization.n2d2.wt_clipping_mode": OneOf(&["None", "MSE", "KL-Divergence"]), "None";
    /// How the range of activations is clipped.
    "quantization.n2d2.act_clipping_mode":
        OneOf(&["None", "MSE", "KL-Divergence", "Quantile"]), "MSE";
    /// How accumulators are brought back to the range of the next layer; `Fixed-point` is the
    /// same as `Fixed-point32`.
    "quantization.n2d2.act_rescaling_mode":
        OneOf(&["Floating-point", "Fixed-point16", "Fixed-point32", "Fixed-point", "Single-shift",
            "Double-shift"]),
        "Single-shift";
    /// One rescaling for each output channel.
    "quantization.n2d2.act_rescale_per_output": Bool, false;
    /// Share of values kept by `Quantile`.
    "quantization.n2d2.act_quantile_value": Float(0.0, 1.0), 0.9999;
    /// Range of the inputs: what the network declares, else the data's; the data's; or this number.
    "quantization.n2d2.stimuli_range": STIMULI_RANGE, "declared";
    /// All activations are signed.
    "quantization.n2d2.no_unsigned": Bool, false;
    /// No equalization of weights across layers.
    "quantization.n2d2.no_cle": Bool, false;
    /// Branches that meet share the scale of the widest, not N2D2's, which can be bits wider; unset
    /// does so in networks that N2D2 cannot export or spoils.
    "quantization.n2d2.tight_branches": Bool, unset;
    /// Leave out the Cast nodes that strict ONNX needs.
    "quantization.n2d2.implicit_casting": Bool, false;
    /// The same arithmetic in floating-point operators; implies implicit_casting.
    "quantization.n2d2.fake_quantization": Bool, false;
    /// Number of stimuli written beside the model; -1 is all, 0 none.
    "quantization.n2d2.db_export": Int(-1, 4_294_967_295), 0;
    /// Measure the accuracy of the float and of the integer network on labelled stimuli.
    "quantization.n2d2.test": Bool, false;
    /// Labelled stimuli for `test` and `db_export`; unset takes `test.npz`, else the calibration data.
    "quantization.n2d2.test_data": INNER_PATH, unset;
    /// The network was trained with SAT quantization; its learned ranges are used.
    "quantization.n2d2.qat_sat": Bool, false;
    /// `RINTF` rounds learned weights of nine bits (SAT, default mode, 256 levels) to eight, as N2D2 does.
    "quantization.n2d2.wt_round_mode": ROUND_MODES, "NONE";
    /// Rounding of biases with `qat_sat`; they are always rounded.
    "quantization.n2d2.b_round_mode": ROUND_MODES, "NONE";
    /// Rounding of clipping bounds with `qat_sat`; the bounds are the integers' own.
    "quantization.n2d2.c_round_mode": ROUND_MODES, "NONE";

    /// Calibration data; unset takes `calib.npz` or the folder `calib`.
    "calibration.data": INNER_PATH, unset;
    /// Samples that are used; unset uses all.
    "calibration.samples": Int(1, 1_000_000_000), unset;
    /// Samples that run at once; unset takes the network's own, else 1.
    "calibration.batch_size": Int(1, 65_536), unset;
    /// How ranges follow from data.
    "calibration.method":
        OneOf(&["minmax", "entropy", "percentile", "mse", "moving_average"]), "minmax";
    /// Share of values, in percent, that `percentile` keeps.
    "calibration.percentile": Float(50.0, 100.0), 99.999;
    /// Use the statistics of an earlier calibration, `calibration.json`, instead of samples.
    "calibration.reload": Bool, false;
    /// Count values for the report's histograms also where the method takes none; costs time.
    "calibration.histograms": Bool, false;
    /// Samples of random numbers in place of data. Ranges are then guesses, and the report says so.
    "calibration.random": Int(1, 1_000_000), unset;
    /// Where random numbers lie; unset draws them with mean 0 and standard deviation 1.
    "calibration.random_range": RANGE, unset;
    /// Size of axes that the model leaves open, beside the first, in random samples.
    "calibration.random_size": Int(1, 1_048_576), unset;
    /// Another seed gives other random numbers.
    "calibration.random_seed": Int(0, 4_294_967_295), 0;
    /// Pixels of a picture's shorter side, of which the middle is taken; unset stretches pictures to the input's size.
    "calibration.resize": Int(1, 65_536), unset;
    /// Number that bytes of pictures are multiplied with; unset takes 1/255, and 1 for inputs of bytes.
    "calibration.scale": Float(f64::MIN, f64::MAX), unset;
    /// Taken from scaled pictures; one number, or one for each channel.
    "calibration.mean": NUMBERS, [];
    /// Pictures are divided by it after that; one number, or one for each channel.
    "calibration.std": NUMBERS, [];
    /// Order of a picture's channels; unset takes RGB.
    "calibration.color": OneOf(&["rgb", "bgr"]), unset;
    /// Axes of an input of pictures; unset finds the axis of 1 or 3 channels.
    "calibration.layout": OneOf(&["nchw", "nhwc"]), unset;

    /// Inputs to run; unset takes `inputs.npz`.
    "check.inputs": INNER_PATH, unset;
    /// Expected outputs; unset takes `outputs.npz`.
    "check.outputs": INNER_PATH, unset;
    /// Largest absolute difference that is no finding, beside tolerance_rel.
    "check.tolerance_abs": Float(0.0, f64::MAX), 1e-4;
    /// Largest difference relative to the expected value that is no finding.
    "check.tolerance_rel": Float(0.0, f64::MAX), 1e-3;
    /// Least signal-to-noise ratio of each output.
    "check.sqnr_db_min": Float(-100.0, 300.0), unset;
    /// Expected classes of the inputs; with them the report states the top-1 accuracy.
    "check.labels": INNER_PATH, unset;
}
