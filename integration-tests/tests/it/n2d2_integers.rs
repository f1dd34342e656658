//! N2D2 networks in integers, one small network per feature that N2D2 itself rejects or gets wrong:
//! the integer model computes nearly what the float model does, or a diagnostic names the layer.

use onnxd_eval::{Executor, RunOptions};
use onnxd_integration_tests::{command, outcome, write_small_model};
use onnxd_ir::{DataType, Model, Reals, Tensor};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const SAMPLES: usize = 12;
/// Size of a sample.
const SIZE: [usize; 3] = [2, 8, 8];

/// Two branches, one without a sign and one with, for `case` to read; a classifier reads `case`.
const HEAD: &str = "DefaultModel=Frame
[sp]
SizeX=8
SizeY=8
NbChannels=2
[plus]
Input=sp
Type=Conv
KernelSize=3
Padding=1
NbOutputs=6
ActivationFunction=Rectifier
[both] plus
ActivationFunction=Linear
[identity]
Mapping.Size=1
";
const TAIL: &str = "[y]
Input=case
Type=Fc
NbOutputs=5
ActivationFunction=Linear
[y.Target]
";

/// Name, properties of the layer `case`, and decibels that must remain. Averages of integers are
/// rounded towards zero, as N2D2's are: they lose where means are small, as of signed values.
const WORKS: &[(&str, &str, f64)] = &[
    ("Conv without activation", "Input=plus\nType=Conv\nKernelSize=3\nNbOutputs=4", 28.0),
    (
        "Max pool",
        "Input=plus\nType=Pool\nPoolSize=2\nStride=2\nNbOutputs=6\nMapping.Size=1\nPooling=Max",
        28.0,
    ),
    (
        "Pool with Linear",
        "Input=plus\nType=Pool\nPoolSize=2\nNbOutputs=6\nMapping.Size=1\nPooling=Max\nActivationFunction=Linear",
        28.0,
    ),
    (
        "Pool with Rectifier",
        "Input=both\nType=Pool\nPoolSize=2\nNbOutputs=6\nMapping.Size=1\nPooling=Average\nActivationFunction=Rectifier",
        21.0,
    ),
    (
        "Pool with Tanh",
        "Input=both\nType=Pool\nPoolSize=2\nNbOutputs=6\nMapping.Size=1\nPooling=Average\nActivationFunction=Tanh",
        15.0,
    ),
    (
        "Average pool with padding",
        "Input=plus\nType=Pool\nPoolSize=3\nPadding=1\nNbOutputs=6\nMapping.Size=1\nPooling=Average",
        24.0,
    ),
    ("Pool over all channels", "Input=plus\nType=Pool\nPoolSize=2\nNbOutputs=2\nPooling=Max", 24.0),
    (
        "Logistic",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=Logistic",
        28.0,
    ),
    (
        "Tanh",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=Tanh\nActivationFunction.Alpha=2",
        26.0,
    ),
    (
        "TanhLeCun",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=TanhLeCun",
        26.0,
    ),
    ("Swish", "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=Swish", 26.0),
    (
        "Softplus",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=Softplus",
        23.0,
    ),
    (
        "Saturation",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\n\
         ActivationFunction=Saturation\nActivationFunction.Threshold=0.3",
        24.0,
    ),
    (
        "Linear with Clipping",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=Linear\nActivationFunction.Clipping=0.3",
        24.0,
    ),
    (
        "Rectifier with Clipping",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\n\
         ActivationFunction=Rectifier\nActivationFunction.Clipping=0.3",
        24.0,
    ),
    (
        "Leaky",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\n\
         ActivationFunction=Rectifier\nActivationFunction.LeakSlope=0.1",
        26.0,
    ),
    (
        "Leaky and clipped",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\n\
         ActivationFunction=Rectifier\nActivationFunction.LeakSlope=0.1\nActivationFunction.Clipping=0.3",
        24.0,
    ),
    ("Sum of mixed signs", "Input=plus,both\nType=ElemWise\nNbOutputs=6\nOperation=Sum", 24.0),
    (
        "Concatenation of mixed signs",
        "Input=plus,both\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=Rectifier",
        24.0,
    ),
    (
        "Weighted sum",
        "Input=plus,both\nType=ElemWise\nNbOutputs=6\nOperation=Sum\nWeights=0.5 -2\nShifts=0.1 0.2",
        24.0,
    ),
    (
        "Sum per channel",
        "Input=plus,both\nType=ElemWise\nNbOutputs=6\nOperation=Sum\nCoeffMode=PerChannel\nWeights=1 2 3 4 5 6",
        22.0,
    ),
    (
        "Sum with Rectifier",
        "Input=plus,both\nType=ElemWise\nNbOutputs=6\nOperation=Sum\nActivationFunction=Rectifier",
        24.0,
    ),
    ("AbsSum", "Input=plus,both\nType=ElemWise\nNbOutputs=6\nOperation=AbsSum", 24.0),
    ("EuclideanSum", "Input=plus,both\nType=ElemWise\nNbOutputs=6\nOperation=EuclideanSum", 24.0),
    ("Prod", "Input=plus,both\nType=ElemWise\nNbOutputs=6\nOperation=Prod", 22.0),
    ("Max", "Input=plus,both\nType=ElemWise\nNbOutputs=6\nOperation=Max", 24.0),
    ("LRN", "Input=plus\nType=LRN", 26.0),
    (
        "Resize to the nearest",
        "Input=plus\nType=Resize\nOutputWidth=16\nOutputHeight=16\nMode=NearestNeighbor",
        28.0,
    ),
    (
        "Resize in between",
        "Input=plus\nType=Resize\nOutputWidth=12\nOutputHeight=10\nMode=Bilinear",
        26.0,
    ),
    ("Reshape", "Input=plus\nType=Reshape\nDims=4 16 -1", 28.0),
    ("Transpose", "Input=plus\nType=Transpose\nPerm=1 2 0", 28.0),
    (
        "Padding before no layer",
        "Input=both\nType=Padding\nTopPadding=1\nLeftPadding=2\nBottomPadding=-1\nRightPadding=0",
        28.0,
    ),
    ("Scaling", "Input=both\nType=Scaling\nFactor=3.7", 26.0),
    ("Threshold", "Input=plus\nType=Threshold\nThreshold=-1", 20.0),
    ("BatchNorm after a Rectifier", "Input=plus\nType=BatchNorm", 26.0),
    ("BatchNorm of the input", "Input=sp\nType=BatchNorm\nActivationFunction=Rectifier", 26.0),
    ("Activation", "Input=both\nType=Activation", 24.0),
    ("Softmax of maps", "Input=both\nType=Softmax\nNbOutputs=6\nGroupSize=3", 26.0),
    ("Dropout", "Input=plus\nType=Dropout", 28.0),
    ("Normalize", "Input=both\nType=Normalize\nNbOutputs=6\nNorm=L2", 22.0),
    (
        "Deconv",
        "Input=plus\nType=Deconv\nKernelSize=3\nStride=2\nPadding=1\nNbOutputs=4\nActivationFunction=Rectifier",
        24.0,
    ),
    (
        "Deconv without activation",
        "Input=both\nType=Deconv\nKernelSize=4\nStride=1\nNbOutputs=2",
        24.0,
    ),
    (
        "Deconv in groups",
        "Input=plus\nType=Deconv\nKernelSize=2\nStride=2\nNbOutputs=6\nMapping.NbGroups=3\nActivationFunction=Tanh",
        22.0,
    ),
    (
        "Partial map",
        "Input=plus\nType=Conv\nKernelSize=3\nNbOutputs=4\nMapping.Size=2\nActivationFunction=Rectifier",
        24.0,
    ),
    (
        "SubSample",
        "Input=plus\nType=Conv\nKernelSize=3\nNbOutputs=4\nSubSample=2\nActivationFunction=Rectifier",
        24.0,
    ),
];

/// Name, properties of the layer `case`, further settings, and the code of what is said.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    ("FMP", "Input=plus\nType=FMP\nScalingRatio=1.4\nNbOutputs=6", "", "N0203"),
    ("LSTM", "Input=plus\nType=LSTM\nHiddenSize=4", "", "N0203"),
    ("Unpool", "Input=plus\nType=Unpool\nArgMax=plus\nNbOutputs=6", "", "N0203"),
    ("ROIPooling", "Input=plus\nType=ROIPooling\nNbOutputs=6", "", "N0203"),
    (
        "A spiking model",
        "Input=plus\nType=Conv\nModel=Spike\nKernelSize=1\nNbOutputs=4",
        "",
        "N0214",
    ),
    ("An unknown type", "Input=plus\nType=Cnov\nKernelSize=1\nNbOutputs=4", "", "N0204"),
    (
        "An unknown function",
        "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=Rectifer",
        "",
        "N0204",
    ),
];

struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new(layer: &str) -> Case {
        Case::from_ini(&format!("{HEAD}[case]\n{layer}\n{TAIL}"))
    }

    fn from_ini(ini: &str) -> Case {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("net.ini"), ini).unwrap();
        let calibration = vec![("env".to_owned(), samples(1))];
        onnxd_arrays::write(&folder.path().join("calib.npz"), &calibration).unwrap();
        Case { folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn convert(&self, out: &str, settings: &[&str]) -> (i32, String) {
        let mut run = command(self.folder.path());
        let files = ["net.ini", "calib.npz", "part.onnx"].map(|name| self.path(name));
        run.arg("convert").args(files.iter().filter(|file| file.exists()));
        run.arg("--out").arg(self.path(out));
        for setting in ["source.random=true"].iter().chain(settings) {
            run.args(["--set", setting]);
        }
        outcome(&run.output().unwrap())
    }

    fn model(&self, out: &str) -> Model {
        onnxd_onnx::load(&self.path(out).join("model.onnx")).unwrap().model
    }

    /// How far the integer model is from the float model, in decibels.
    fn distance(&self, settings: &[&str]) -> Result<f64, String> {
        for (out, settings) in
            [("float", &["quantization.format=none"][..]), ("integers", settings)]
        {
            let (status, stderr) = self.convert(out, settings);
            if status != 0 {
                return Err(format!("{out}: {stderr}"));
            }
        }
        let x = samples(7);
        let want = run(&self.model("float"), &x);
        let integers = self.model("integers");
        let floats = integers.graph.nodes().filter(|(_, n)| n.op == "Conv" || n.op == "Gemm");
        if floats.count() > 0 {
            return Err("a layer with weights stayed in float".into());
        }
        let got = run(&integers, &quantized(&integers, &x));
        let output = &integers.graph[integers.graph.outputs()[0]].name;
        let step = step(&integers, &format!("output.{output}")).ok_or("no step of the output")?;
        Ok(decibels(&want, &got, step))
    }
}

/// Deterministic numbers within `[0, 1)`.
fn samples(seed: u64) -> Tensor {
    let mut state = seed;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let dims: Vec<usize> = [SAMPLES].into_iter().chain(SIZE).collect();
    let values = (0..dims.iter().product()).map(|_| next()).collect();
    Tensor::from_vec(dims, values)
}

/// The real value of a step of an input or output.
fn step(model: &Model, what: &str) -> Option<f64> {
    let key = format!("onnxd.quantization.{what}");
    let (_, text) = model.metadata.iter().find(|(k, _)| *k == key)?;
    text.rsplit(' ').next()?.parse().ok()
}

fn quantized(model: &Model, x: &Tensor) -> Tensor {
    let ty = model.graph[model.graph.inputs()[0]].ty.as_ref().unwrap().dtype().unwrap();
    let Some(step) = step(model, "input.env").filter(|_| ty != DataType::Float) else {
        return x.clone();
    };
    let Reals { dims, values } = x.to_reals().unwrap();
    let steps = values.iter().map(|v| (v / step).trunc());
    match ty {
        DataType::Int8 => Tensor::from_vec(dims, steps.map(|v| v as i8).collect()),
        _ => Tensor::from_vec(dims, steps.map(|v| v as u8).collect()),
    }
}

fn run(model: &Model, x: &Tensor) -> Vec<f64> {
    let feeds = BTreeMap::from([("env".to_owned(), x.clone())]);
    let executor = Executor::new(model).unwrap();
    executor.run(&feeds, RunOptions::default()).unwrap().remove(0).1.to_reals().unwrap().values
}

fn decibels(want: &[f64], got: &[f64], step: f64) -> f64 {
    let signal: f64 = want.iter().map(|w| w * w).sum();
    let noise: f64 = want.iter().zip(got).map(|(w, g)| (w - g * step).powi(2)).sum();
    10.0 * (signal / noise.max(1e-30)).log10()
}

#[test]
fn what_n2d2_cannot_quantize_works() {
    let check = |(name, layer, least): &(&str, &str, f64)| {
        // Thresholds by the largest value take no search.
        let settings = ["nbbits=8", "act-rescaling-mode=Floating-point", "act-clipping-mode=None"];
        match Case::new(layer).distance(&settings) {
            Ok(db) if db >= *least => None,
            Ok(db) => Some(format!("{name}: {db:.1} dB of {least}")),
            Err(why) => Some(format!("{name}: {why}")),
        }
    };
    let failed: Vec<String> = WORKS.par_iter().filter_map(check).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn histograms_of_any_kind_clip_a_logistic_network() {
    let layer = "Input=plus\nType=Conv\nKernelSize=1\nNbOutputs=4\nActivationFunction=Logistic";
    for mode in ["MSE", "KL-Divergence", "Quantile"] {
        let clipping = format!("act-clipping-mode={mode}");
        let db = Case::new(layer).distance(&["nbbits=8", &clipping]);
        assert!(matches!(db, Ok(db) if db > 12.0), "{mode}: {db:?}");
    }
}

/// N2D2 takes the range of the inputs from its whole set, however few samples calibrate.
#[test]
fn the_range_of_the_data_is_that_of_all_samples() {
    let case = Case::new("Input=plus\nType=Conv\nKernelSize=3\nNbOutputs=4");
    let Reals { dims, mut values } = samples(1).to_reals().unwrap();
    *values.last_mut().unwrap() = 4.0;
    let all = Tensor::from_vec(dims, values.iter().map(|v| *v as f32).collect());
    onnxd_arrays::write(&case.path("calib.npz"), &vec![("env".to_owned(), all)]).unwrap();
    let (status, stderr) = case.convert("out", &["nbbits=8", "calib=2", "stimuli-range=data"]);
    assert_eq!(status, 0, "{stderr}");
    let model = case.model("out");
    let found = model.metadata.iter().find(|(k, _)| k == "onnxd.quantization.stimuli_range");
    assert!(found.unwrap().1.starts_with("4, "), "{found:?}");
}

/// A range that is far too small spoils all inputs, which no verdict passes over.
#[test]
fn inputs_that_saturate_are_a_finding() {
    let case = Case::new("Input=plus\nType=Conv\nKernelSize=3\nNbOutputs=4");
    let (status, stderr) = case.convert("out", &["nbbits=8", "stimuli-range=0.001"]);
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("saturate there: 99."), "{stderr}");
    assert!(stderr.contains("N0606"), "{stderr}");
}

#[test]
fn what_cannot_be_said_names_the_layer() {
    for (name, layer, setting, code) in REFUSED {
        let case = Case::new(layer);
        let settings: Vec<&str> =
            ["nbbits=8", setting].into_iter().filter(|s| !s.is_empty()).collect();
        let (status, stderr) = case.convert("out", &settings);
        assert_ne!(status, 0, "{name}");
        assert!(stderr.contains(code) && stderr.contains("case"), "{name}: {stderr}");
    }
}

/// A network of which a part is an ONNX file.
fn with_file(folder: &Path, name: &str) {
    write_small_model(&folder.join(name), "a part");
    let ini = "DefaultModel=Frame\n[sp]\nSizeX=1\nSizeY=1\nNbChannels=4\n\
               [onnx]\nInput=sp\nType=ONNX\nFile=${N2D2_MODELS}/parts/small.onnx\n\
               [soft]\nInput=y\nType=Softmax\n[soft.Target]\n";
    fs::write(folder.join("net.ini"), ini).unwrap();
}

#[test]
fn an_onnx_file_is_part_of_a_network() {
    let case = Case::new("");
    with_file(case.folder.path(), "other.onnx");
    let (status, stderr) = case.convert("out", &[]);
    assert_ne!(status, 0);
    assert!(stderr.contains("N0103") && stderr.contains("parts/small.onnx"), "{stderr}");
    with_file(case.folder.path(), "small.onnx");
    fs::remove_file(case.path("calib.npz")).unwrap();
    let mut run = command(case.folder.path());
    run.arg("convert").arg(case.path("net.ini")).arg("--out").arg(case.path("out"));
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 0, "{stderr}");
    let ops: Vec<String> = case.model("out").graph.nodes().map(|(_, n)| n.op.clone()).collect();
    assert_eq!(ops, ["Flatten", "Add", "Relu", "Softmax"]);
}

#[test]
fn an_onnx_file_within_a_network_becomes_integers() {
    let part = Case::new("Input=plus\nType=Conv\nKernelSize=3\nNbOutputs=4");
    assert_eq!(part.convert("float", &["quantization.format=none"]).0, 0);
    let case = Case::from_ini(
        "DefaultModel=Frame\n[sp]\nSizeX=8\nSizeY=8\nNbChannels=2\n\
         [before]\nInput=sp\nType=Conv\nKernelSize=3\nPadding=1\nNbOutputs=2\n\
         ActivationFunction=Rectifier\n\
         [onnx]\nInput=before\nType=ONNX\nFile=part.onnx\n\
         [last]\nInput=y\nType=Fc\nNbOutputs=5\nActivationFunction=Linear\n[last.Target]\n",
    );
    fs::copy(part.path("float/model.onnx"), case.path("part.onnx")).unwrap();
    let db = case.distance(&["nbbits=8", "act-clipping-mode=None"]);
    assert!(matches!(db, Ok(db) if db > 24.0), "{db:?}");
}
