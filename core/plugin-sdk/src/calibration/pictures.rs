//! Pictures as samples: decoded one by one, taken through the steps that the front-end wrote into the model.

use super::SampleSource;
use super::input::Input;
use crate::diagnostics::{Code, Diagnostic, shown};
use crate::host::JobHandle;
use crate::ir::{DataType, Dim, Tensor};
use onnxd_diagnostics::refuse;
use onnxd_params::host::Calibration as Params;
use onnxd_params::words::{Color, Layout};
use onnxd_preprocess::{ArithmeticOperator, Border, ChannelOrder, Picture, Sizing, Step, Steps};
use std::sync::Arc;

/// Where a front-end leaves the steps from a picture to the network's input.
const STEPS: &str = "onnxd.input.preprocessing.steps";

/// How pictures become samples of an input.
#[derive(Debug)]
pub(super) struct PictureInput {
    steps: Steps,
    /// Channels, height, width.
    dims: [usize; 3],
    /// Channels come last in the input.
    channels_last: bool,
    /// The input takes bytes.
    bytes: bool,
    /// What was taken because nothing states it.
    guess: Option<String>,
    job: Arc<JobHandle>,
}

impl PictureInput {
    pub(super) fn from_source(
        source: SampleSource,
        input: &Input,
    ) -> Result<PictureInput, Diagnostic> {
        let job = source.submission.job().clone();
        let no_way = |code: Code, why: String| {
            let name = shown(input.name);
            let text = format!("pictures cannot be calibration data of input `{name}`: {why}");
            let help = "Give the samples as arrays, in `calib.npz` or in `.npy` files.";
            Diagnostic::new(code, text).help(help)
        };
        let known = |dim: &Dim| match dim {
            Dim::Known(n) => usize::try_from(*n).ok(),
            _ => None,
        };
        let sizes = input.shape.unwrap_or_default().get(1..).unwrap_or_default();
        let sizes: Option<Vec<usize>> = sizes.iter().map(known).collect();
        let sizes = sizes.and_then(|sizes| <[usize; 3]>::try_from(sizes).ok());
        let bytes = input.dtype == DataType::Uint8;
        let params = PictureParams(source.params);
        let Some((_, text)) = source.model.metadata.iter().find(|(key, _)| key == STEPS) else {
            let sizes = sizes.filter(|_| bytes || input.dtype.is_float()).ok_or_else(|| {
                let why = "its sizes are not known, or it is not made of real numbers or bytes on \
                           axes of batch, channels, height and width";
                no_way(Code::EvalInputs, why.into())
            })?;
            let found = params.steps(sizes, bytes);
            let (steps, dims, channels_last) =
                found.map_err(|why| no_way(Code::EvalInputs, why))?;
            let guess = (!params.says()).then(|| params.words(dims, bytes));
            return Ok(PictureInput { steps, dims, channels_last, bytes, guess, job });
        };
        if params.says() {
            let why = "the network says itself what becomes of pictures, and so do the params";
            let text = format!("input `{}`: {why}", shown(input.name));
            let help = "Leave out what params say of it: `calibration.resize`, `scale`, `mean`, \
                        `std`, `color`, `layout`.";
            return Err(Diagnostic::new(Code::EvalInputs, text).help(help));
        }
        let steps = Steps::from_json(text).map_err(|e| {
            Diagnostic::new(Code::PluginContract, format!("metadata `{STEPS}`: {e}"))
        })?;
        refuse!(let Some(why) = steps.unavailable() => no_way(Code::FeatureUnsupported, why.into()));
        let dims = sizes.filter(|_| input.dtype.is_float()).ok_or_else(|| {
            let why = "it is not made of real numbers on axes of batch, channels, height and width";
            no_way(Code::EvalInputs, why.into())
        })?;
        Ok(PictureInput { steps, dims, channels_last: false, bytes: false, guess: None, job })
    }

    /// What was taken because nothing states what becomes of pictures.
    pub(super) fn guess(&self) -> Option<&str> {
        self.guess.as_deref()
    }

    /// The sample that a dropped picture is.
    pub(super) fn dropped(&self, path: &str) -> Result<Tensor, Diagnostic> {
        let decoded = self.job.with_input(path, Picture::decode)?;
        let sample = decoded.map_err(|e| e.to_string()).and_then(|picture| self.sample(picture));
        sample.map_err(|why| bad(path, &why))
    }

    /// The samples of pictures in an array of bytes: pictures, rows, pixels.
    pub(super) fn rows(&self, pictures: &Tensor) -> Result<Tensor, String> {
        let [count, height, width] = *pictures.dims() else {
            return Err(format!("{} axes instead of 3", pictures.dims().len()));
        };
        let bytes = pictures.bytes();
        let size = bytes.len() / count.max(1);
        let sample = |bytes: &[u8]| {
            let grey = Picture::grey(width, height, bytes).map_err(|e| e.to_string())?;
            self.values(grey)
        };
        let samples = bytes.chunks_exact(size.max(1)).map(sample);
        let samples = samples.collect::<Result<Vec<_>, _>>()?;
        Ok(self.tensor(samples.concat(), count))
    }

    fn sample(&self, picture: Picture) -> Result<Tensor, String> {
        Ok(self.tensor(self.values(picture)?, 1))
    }

    fn values(&self, picture: Picture) -> Result<Vec<f32>, String> {
        let Picture { width, height, channels, .. } = picture;
        let picture = self.steps.apply(picture).map_err(|e| e.to_string())?;
        let found = [picture.channels, picture.height, picture.width];
        if found != self.dims {
            let [c, h, w] = found;
            let [channels_in, height_in, width_in] = self.dims;
            return Err(format!(
                "{width} x {height} pixels of {channels} channels become {w} x {h} of {c} by the \
                 network's preprocessing, and its input has {width_in} x {height_in} of {channels_in}"
            ));
        }
        let mut values = match self.channels_last {
            true => picture.samples,
            false => picture.planes(),
        };
        if self.bytes {
            values.iter_mut().for_each(|x| *x = x.round_ties_even().clamp(0.0, 255.0));
        }
        Ok(values)
    }

    fn tensor(&self, values: Vec<f32>, count: usize) -> Tensor {
        let [channels, height, width] = self.dims;
        let dims = match self.channels_last {
            true => [count, height, width, channels],
            false => [count, channels, height, width],
        };
        Tensor::from_vec(dims.to_vec(), values)
    }
}

/// What the params say of pictures.
struct PictureParams<'p>(&'p Params);

impl PictureParams<'_> {
    /// Whether they say anything.
    fn says(&self) -> bool {
        self.0.resize().is_some()
            || self.0.scale().is_some()
            || !(self.0.mean().is_empty() && self.0.std().is_empty())
            || self.0.color().is_some()
            || self.0.layout().is_some()
    }

    /// The steps to an input of these sizes; its channels, height and width, and whether channels
    /// come last.
    fn steps(&self, sizes: [usize; 3], bytes: bool) -> Result<(Steps, [usize; 3], bool), String> {
        let [a, b, c] = sizes;
        let colours = |n: usize| n == 1 || n == 3;
        let (mean, std) = (self.0.mean(), self.0.std());
        let last = match self.0.layout() {
            Some(layout) => layout == Layout::Nhwc,
            None => !colours(a) && colours(c),
        };
        let dims = if last { [c, a, b] } else { sizes };
        let [channels, height, width] = dims;
        if !colours(channels) {
            return Err(format!("it has {channels} channels; pictures have 1 or 3"));
        }
        for (name, numbers) in [("mean", &mean), ("std", &std)] {
            if ![0, 1, channels].contains(&numbers.len()) {
                let count = numbers.len();
                return Err(format!(
                    "`calibration.{name}` has {count} numbers for {channels} channels"
                ));
            }
        }
        refuse!(std.contains(&0.0) => "a number of `calibration.std` is 0");
        let mut steps = match channels {
            1 => vec![Step::Grey { order: ChannelOrder::Rgb }],
            _ => vec![Step::Spread],
        };
        if self.0.color() == Some(Color::Bgr) {
            steps.push(Step::ReverseChannels);
        }
        match self.0.resize() {
            Some(side) if side < height.max(width) => {
                return Err(format!("`calibration.resize` is {side}, less than its sides"));
            }
            Some(side) => {
                steps.push(Step::Resize { width: side, height: side, sizing: Sizing::Fill });
                let border = Border::Constant { values: Vec::new() };
                let (width, height) = (width as i64, height as i64);
                steps.push(Step::PadCrop { width, height, additive: false, border });
            }
            None => steps.push(Step::Resize { width, height, sizing: Sizing::Exact }),
        }
        steps.push(Step::ScaleIntegers { signed: false });
        let mut with = |operator, values: &[f64]| {
            if !values.is_empty() {
                steps.push(Step::Arithmetic { operator, values: values.to_vec() });
            }
        };
        let white = 255.0 * self.scale(bytes);
        with(
            ArithmeticOperator::Multiplies,
            if white == 1.0 { &[] } else { std::slice::from_ref(&white) },
        );
        with(ArithmeticOperator::Minus, &mean);
        with(ArithmeticOperator::Divides, &std);
        Ok((Steps(steps), dims, last))
    }

    fn scale(&self, bytes: bool) -> f64 {
        self.0.scale().unwrap_or(if bytes { 1.0 } else { 1.0 / 255.0 })
    }

    /// What is done, in words.
    fn words(&self, [channels, height, width]: [usize; 3], bytes: bool) -> String {
        let colours = if channels == 1 { "grey" } else { "RGB" };
        let values = if bytes { "as bytes" } else { "from 0 to 1" };
        format!("{colours} {values}, stretched to {width} x {height} pixels")
    }
}

pub(super) fn bad(path: &str, why: &str) -> Diagnostic {
    Diagnostic::new(Code::PictureFile, format!("`{}`: {why}", shown(path)))
}
