//! The params that all conversions have, in the order of help and report.

use crate::params;
use crate::words::{
    Accuracy, Color, Compare, ExternalData, IntegerType, Layout, Mode, Mutations, OperatorFallback,
    Processor, RangeMethod, Recipe, Rounding,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The rows of all of them.
pub const ROWS: [&str; 7] = [
    Job::ROWS,
    Source::ROWS,
    Export::ROWS,
    Passes::ROWS,
    Quantization::ROWS,
    Calibration::ROWS,
    Check::ROWS,
];

params! {
    /// What concerns the job.
    pub struct Job in "job" {
        /// Name of the result's folder; unset takes the name of what was dropped.
        name: Option<String> = "filename", unset;
        /// Jobs of higher priority start first.
        priority: i64 = "-100..100", 0;
        /// The conversion is stopped after this long; unset takes `worker.timeout_s`.
        timeout_s: Option<u64> = "1..2592000", unset;
        /// Memory of the conversion; unset takes `worker.memory_mib_max`, which is also the limit.
        memory_mib_max: Option<u64> = "64..1048576", unset;
        /// Tries after failures of the machine; unset takes `jobs.attempts_max`.
        attempts_max: Option<u64> = "1..100", unset;
        /// The front-end that reads the network, as `ID` or `PLUGIN/ID`; unset lets the front-ends decide.
        frontend: Option<String> = "text", unset;
    }
}

params! {
    /// How the dropped network is read.
    pub struct Source in "source" {
        /// Weights folder; unset looks where the front-end's conventions say.
        weights: Option<String> = "path", unset;
        /// Use deterministic random weights instead of weights files.
        random: bool = "bool", false;
        /// A missing weights file leaves deterministic random values instead of being an error.
        weights_ignore: bool = "bool", false;
        /// Seed of random weights.
        seed: u64 = "0..4294967295", 1;
        /// Quantizers that the layers of a network were trained with: computed with what they
        /// learned, or ignored, which leaves the plain weights.
        quantizers: String = "learned | ignored", "learned";
        /// Values of inputs, which are no inputs of the model then: of numbers, truth values and texts that PyTorch's
        /// methods take, and of TensorFlow's placeholders.
        constants: Value = "constants", {};
        /// Settings of the source network that have no effect are errors instead of findings.
        strict: bool = "bool", false;
    }
}

params! {
    /// How the model is written.
    pub struct Export in "export" {
        /// Opset of the model; unset is 17, 18 for PyTorch and TensorFlow files (21 for TFLite models of 16-bit
        /// integers), or the lowest that can say such a file, and a dropped ONNX model's own, but at most 21 where
        /// newer ones can be converted. The model is converted to it, or every node named that prevents it.
        opset: Option<i64> = "7..30", unset;
        /// Runtime that is to read the model, such as `onnxruntime-1.23`: a newer opset or IR version than it reads is
        /// lowered where `opset` and `ir_version` are unset, and what it reads stays. Unset is ONNX Runtime 1.20.
        /// `onnxruntime-genai` is ONNX Runtime GenAI: decoders get its operators, and its `genai_config.json`.
        runtime: Option<String> = "text", unset;
        /// Whether a decoder takes and gives the keys and values of earlier calls.
        cache: bool = "bool", true;
        /// IR version of the model; unset keeps a dropped ONNX model's own, from 4 to 10, else 8.
        ir_version: Option<i64> = "3..20", unset;
        /// Names of the model's inputs, in their order; empty keeps the source's.
        input_names: Vec<String> = "[text]", [];
        /// Names of the model's outputs, in their order; empty keeps the source's.
        output_names: Vec<String> = "[text]", [];
        /// Shapes of the inputs, in their order, where the source does not state them.
        input_shapes: Value = "shapes", [];
        /// Element types of the inputs, in their order, where the source does not state them.
        input_dtypes: Vec<String> = "[dtype]", [];
        /// Axes of inputs and outputs whose size is left open, in the notations of torch.onnx:
        /// `x = [0, 2]`, `x = { 0 = "batch" }`, or both mixed.
        dynamic_axes: Value = "axes", {};
        /// Floating-point type of the model, where its front-end lets choose; unset is float32.
        float_type: Option<String> = "float32 | float64 | float16", unset;
        /// Compute what depends on constants only.
        constant_folding: bool = "bool", true;
        /// Write the weights; without them they become inputs of the model, behind its own. For PyTorch and
        /// TensorFlow files.
        export_params: bool = "bool", true;
        /// List the weights among the inputs, so that a runtime can replace them.
        keep_initializers_as_inputs: bool = "bool", false;
        /// Leave out the texts that tell where in the source a node comes from.
        strip_doc_string: bool = "bool", true;
        /// An operator without counterpart: an error, kept in the domain of its name, or for PyTorch files kept as
        /// `ATen` of `org.pytorch.aten`. For PyTorch and TensorFlow files.
        operator_fallback: OperatorFallback = "error | custom | aten", "error";
        /// What becomes of values that a network writes and that outlive a call: an error, or inputs and outputs of
        /// the model, with their values for the first call in `model.state.npz`. For PyTorch and TensorFlow files.
        mutations: Mutations = "error | outputs", "error";
        /// Weights in a file beside the model; `auto` does so only where the model would pass 2 GiB.
        external_data: ExternalData = "auto | always | never", "auto";
        /// Tensors of at least this size go to the file beside the model.
        external_data_threshold_bytes: u64 = "0..1073741824", 1024;
        /// Folder in the result's that the model and its files lie in; unset puts them beside the report.
        folder: Option<String> = "filename", unset;
        /// Write the graph as text beside the model, `graph.txt`: a line for each node with types, attributes
        /// and where it comes from.
        verbose: bool = "bool", false;
    }
}

params! {
    /// Which passes run.
    pub struct Passes in "passes" {
        /// The passes that run, and their order. `onnxruntime` also makes operators that only ONNX Runtime has.
        profile: String = "default | onnxruntime | none", "default";
        /// Rounds of all passes at most. They end with the round that changes nothing.
        rounds: u64 = "1..100", 8;
        /// How much of what passes changed is compared with what was before.
        compare: Compare = "none | some | all", "some";
        /// Passes that run in addition, after those of the profile.
        enable: Vec<String> = "[text]", [];
        /// Passes of the profile that do not run.
        disable: Vec<String> = "[text]", [];
    }
}

/// Signal-to-noise ratio in dB from which on a quantized output is good. Below it, a receipt says what helps.
pub const SQNR_DB_GOOD: f64 = 20.0;

params! {
    /// How the model is quantized.
    pub struct Quantization in "quantization" {
        /// Form of the quantized model; `none` leaves it in floating point, but in mode `weight_only` it is `QDQ` for
        /// weights of 4 bits, else `QLinear`. Plugins may bring more.
        format: String = "quantizer", "none";
        /// Refuse a model that is quantized already instead of passing it on, where `format` is `none`.
        require_float: bool = "bool", false;
        /// Ranges from data, from the input at run time, from training, or weights only.
        mode: Mode = "static | dynamic | qat | weight_only", "static";
        /// How Linear layers are written.
        recipe: Recipe = "QDQ_OP_FP32_BIAS | QDQ_OP_INT32_BIAS | QDQ_OP_FP32_BIAS_QDQ", "QDQ_OP_FP32_BIAS";
        /// Type of quantized activations.
        activation_type: IntegerType = "uint8 | int8 | uint16 | int16", "uint8";
        /// Type of quantized weights; unset is `int8`, held as `uint8` with the zero point 128 where accumulators of
        /// `int8` may saturate on the processors that `processor` says.
        weight_type: Option<IntegerType> = "int8 | uint8 | int4 | uint4 | int16 | uint16", unset;
        /// One scale for each output channel of a weight instead of one for all.
        per_channel: bool = "bool", true;
        /// Ranges of activations are symmetric around zero; in mode `weight_only`, those of weights.
        symmetric: bool = "bool", false;
        /// Weights use one bit less, for processors whose 8-bit accumulators saturate; unset is true with
        /// activations of `int8` where `weight_type` is unset, too.
        reduce_range: Option<bool> = "bool", unset;
        /// Processors that products of `QDQ` and `QLinear` are to be exact on: `vnni` leaves weights `int8`, which run
        /// up to three times as fast on x86-64 with VNNI and on ARM; unset is what this machine has.
        processor: Option<Processor> = "any | vnni", unset;
        /// Elements that share a scale in mode `weight_only`.
        block_size: usize = "1..1048576", 32;
        /// How calibration data help to round weights: `adaround` learns it (modes `static` and `dynamic`), `gptq`
        /// and `awq` are for mode `weight_only`. Unset is both of these there, where they help, and
        /// `nearest` elsewhere.
        rounding: Option<Rounding> = "nearest | adaround | gptq | awq", unset;
        /// `auto` tries what may help, measures it on held-out samples and takes the best. In mode `weight_only`, it
        /// gives 8 bits to the operators that cost most of those with 4.
        accuracy: Accuracy = "default | auto", "default";
        /// Time that `accuracy = "auto"`, `sqnr_db_min` and `top1_loss_max` may take; what was left out
        /// for it is said.
        time_budget_s: u64 = "1..2592000", 600;
        /// Least SQNR of the outputs of a good result, in dB. Below it, the few operators that cause the loss stay
        /// in floating point, and where that does not help the verdict is `succeeded_with_findings`.
        sqnr_db_floor: f64 = "-300.0..300.0", 15.0;
        /// Leave in floating point the fewest operators needed to reach this SQNR, in dB.
        sqnr_db_min: Option<f64> = "-100.0..300.0", unset;
        /// The same for top-1: percent of the samples whose class may be lost, by array `labels` of the
        /// calibration data, else against the float model.
        top1_loss_max: Option<f64> = "0.0..100.0", unset;
        /// Operator types to quantize; empty is all that usually gain by it.
        op_types: Vec<String> = "[text]", [];
        /// `false` quantizes `MatMul` of two activations, too.
        matmul_const_b_only: bool = "bool", true;
        /// Names of nodes to quantize, `*` and `?` allowed; empty is all.
        include: Vec<String> = "[text]", [];
        /// Names of nodes to leave in floating point, `*` and `?` allowed.
        exclude: Vec<String> = "[text]", [];
        /// Keys of this section for single nodes: activation_type, weight_type, per_channel,
        /// symmetric, reduce_range, block_size.
        overrides: BTreeMap<String, NodeParams> = "nodes", {};
    }
}

/// Keys of the section `quantization` for single nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeParams {
    /// See [`Quantization::activation_type`].
    pub activation_type: Option<IntegerType>,
    /// See [`Quantization::weight_type`].
    pub weight_type: Option<IntegerType>,
    /// See [`Quantization::per_channel`].
    pub per_channel: Option<bool>,
    /// See [`Quantization::symmetric`].
    pub symmetric: Option<bool>,
    /// See [`Quantization::reduce_range`].
    pub reduce_range: Option<bool>,
    /// See [`Quantization::block_size`].
    pub block_size: Option<usize>,
}

params! {
    /// What ranges are found from.
    pub struct Calibration in "calibration" {
        /// Calibration data; unset takes `calib.npz` or the folder `calib`.
        data: Option<String> = "path", unset;
        /// Samples that are used; unset uses all.
        samples: Option<u64> = "1..1000000000", unset;
        /// Samples that run at once; unset takes the network's own, else 1.
        batch_size: Option<usize> = "1..65536", unset;
        /// How ranges follow from data.
        method: RangeMethod = "minmax | entropy | percentile | mse | moving_average", "minmax";
        /// Share of values, in percent, that `percentile` keeps.
        percentile: f64 = "50.0..100.0", 99.999;
        /// Use the statistics of an earlier calibration, `calibration.json`, instead of samples.
        reload: bool = "bool", false;
        /// Count values for the report's histograms also where the method takes none; costs time.
        histograms: bool = "bool", false;
        /// Samples of random numbers in place of data. Ranges are then guesses, and the report says so.
        random: Option<u64> = "1..1000000", unset;
        /// Where random numbers lie; unset draws them with mean 0 and standard deviation 1.
        random_range: Option<[f64; 2]> = "range", unset;
        /// Size of axes that the model leaves open, beside the first, in random samples.
        random_size: Option<usize> = "1..1048576", unset;
        /// Another seed gives other random numbers.
        random_seed: u64 = "0..4294967295", 0;
        /// Pixels of a picture's shorter side, of which the middle is taken; unset stretches pictures to the
        /// input's size.
        resize: Option<usize> = "1..65536", unset;
        /// Pixel scale: bytes of pictures are multiplied by it; unset takes 1/255, and 1 for inputs of bytes.
        scale: Option<f64> = "float", unset;
        /// Mean that is subtracted from scaled pictures; one number, or one for each channel.
        mean: Vec<f64> = "[float]", [];
        /// Standard deviation that pictures are divided by after that; one number, or one for each channel.
        std: Vec<f64> = "[float]", [];
        /// Order of a picture's channels; unset takes RGB.
        color: Option<Color> = "rgb | bgr", unset;
        /// Axes of an input of pictures; unset finds the axis of 1 or 3 channels.
        layout: Option<Layout> = "nchw | nhwc", unset;
    }
}

params! {
    /// What the written model is compared with.
    pub struct Check in "check" {
        /// Inputs to run; unset takes `inputs.npz`.
        inputs: Option<String> = "path", unset;
        /// Expected outputs; unset takes `outputs.npz`.
        outputs: Option<String> = "path", unset;
        /// Largest absolute difference that is no finding, beside tolerance_rel.
        tolerance_abs: f64 = "0.0..", 1e-4;
        /// Largest difference relative to the expected value that is no finding.
        tolerance_rel: f64 = "0.0..", 1e-3;
        /// Least SQNR of each output, in dB.
        sqnr_db_min: Option<f64> = "-100.0..300.0", unset;
        /// Expected classes of the inputs; with them the report states the top-1 accuracy.
        labels: Option<String> = "path", unset;
    }
}
