//! Pictures as samples: decoded one by one, taken through the steps that the front-end wrote into the model.

use super::column::Input;
use crate::diagnostics::{Code, Diagnostic, shown};
use crate::host::JobHandle;
use crate::ir::{Dim, Model, Tensor};
use onnxd_preprocess::{Picture, Steps};
use std::sync::Arc;

/// Where a front-end leaves the steps from a picture to the network's input.
const STEPS: &str = "onnxd.input.preprocessing.steps";

/// How pictures become samples of an input.
#[derive(Debug)]
pub(super) struct Way {
    steps: Steps,
    /// Channels, height, width.
    dims: [usize; 3],
    job: Arc<JobHandle>,
}

impl Way {
    pub(super) fn of(
        model: &Model,
        input: &Input,
        job: &Arc<JobHandle>,
    ) -> Result<Way, Diagnostic> {
        let no_way = |code: Code, why: String| {
            let name = shown(input.name);
            let text = format!("pictures cannot be calibration data of input `{name}`: {why}");
            let help = "Give the samples as arrays, in `calib.npz` or in `.npy` files.";
            Diagnostic::new(code, text).help(help)
        };
        let Some((_, text)) = model.metadata.iter().find(|(key, _)| key == STEPS) else {
            let why = "the network does not say how they are brought to its form";
            return Err(no_way(Code::EvalInputs, why.into()));
        };
        let steps = Steps::from_json(text).map_err(|e| {
            Diagnostic::new(Code::PluginContract, format!("metadata `{STEPS}`: {e}"))
        })?;
        if let Some(why) = steps.unavailable() {
            return Err(no_way(Code::FeatureUnsupported, why.into()));
        }
        let known = |dim: &Dim| match dim {
            Dim::Known(n) => usize::try_from(*n).ok(),
            _ => None,
        };
        let sizes = input.shape.unwrap_or_default().get(1..).unwrap_or_default();
        let sizes: Option<Vec<usize>> = sizes.iter().map(known).collect();
        let dims = sizes.and_then(|sizes| <[usize; 3]>::try_from(sizes).ok());
        let dims = dims.filter(|_| input.dtype.is_float()).ok_or_else(|| {
            let why = "it is not made of real numbers on axes of batch, channels, height and width";
            no_way(Code::EvalInputs, why.into())
        })?;
        Ok(Way { steps, dims, job: job.clone() })
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
        let size = pictures.bytes().len() / count.max(1);
        let sample = |bytes: &[u8]| {
            let grey = Picture::grey(width, height, bytes).map_err(|e| e.to_string())?;
            self.values(grey)
        };
        let samples = pictures.bytes().chunks_exact(size.max(1)).map(sample);
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
        Ok(picture.planes())
    }

    fn tensor(&self, values: Vec<f32>, count: usize) -> Tensor {
        Tensor::from_vec([&[count], &self.dims[..]].concat(), values)
    }
}

pub(super) fn bad(path: &str, why: &str) -> Diagnostic {
    Diagnostic::new(Code::PictureFile, format!("`{}`: {why}", shown(path)))
}
