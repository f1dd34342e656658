//! The learned parameters of layers: from text files, from N2D2's binary state, or random.
//!
//! Whatever the file's order, the result is in ONNX order: `Conv` reads `[O, C/g, kH, kW]`,
//! `ConvTranspose` `[C, O/g, kH, kW]`, `Gemm` with `transB` `[O, I]`.

mod layout;
mod random;
mod state;
mod text;

use std::borrow::Cow;

use crate::diag::{Code, Diagnostic, Layer};
use crate::ini::{Files, file_name_of};
use crate::mapping::Map;

pub(crate) use layout::{Layout, Order, remap};

/// Most numbers a layer may have.
const NUMBERS_MAX: usize = 1 << 30;

/// Where parameters come from.
pub(crate) struct Weights<'f> {
    source: Source<'f>,
}

enum Source<'f> {
    Folder { files: &'f dyn Files, folder: String },
    Random { seed: u64 },
}

/// Kernels and biases of one layer.
#[derive(Debug, PartialEq)]
pub(crate) struct Parameters {
    pub(crate) weights: Vec<f32>,
    pub(crate) dims: Vec<usize>,
    pub(crate) bias: Option<Vec<f32>>,
}

/// Parameters of a batch normalization, one number per channel each.
#[derive(Debug, PartialEq)]
pub(crate) struct Normalization {
    pub(crate) scale: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) mean: Vec<f32>,
    pub(crate) variance: Vec<f32>,
}

/// The kernels of a convolution.
#[derive(Clone, Copy)]
pub(crate) struct Kernels<'m> {
    map: &'m Map,
    groups: usize,
    size: [usize; 2],
    transposed: bool,
}

impl<'m> Kernels<'m> {
    /// Kernels of `[height, width]`; of a `Deconv`, whose outer axis are the channels, if
    /// `transposed`.
    pub(crate) fn new(map: &'m Map, size: [usize; 2], transposed: bool) -> Kernels<'m> {
        Kernels { map, groups: map.groups(), size, transposed }
    }

    /// Numbers in a kernel.
    fn area(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Channels and outputs that one group has.
    fn per_group(&self) -> [usize; 2] {
        [self.map.channels() / self.groups, self.map.outputs() / self.groups]
    }

    fn dims(&self) -> Vec<usize> {
        let [channels, outputs] = self.per_group();
        let [height, width] = self.size;
        match self.transposed {
            false => vec![self.map.outputs(), channels, height, width],
            true => vec![self.map.channels(), outputs, height, width],
        }
    }

    fn kind(&self) -> &'static str {
        if self.transposed { "Deconv" } else { "Conv" }
    }

    /// Refuses geometries whose numbers nobody can hold.
    fn check(&self, layer: &Layer) -> Result<(), Diagnostic> {
        let area = self.size[0].checked_mul(self.size[1]);
        let pairs = self.map.outputs().checked_mul(self.map.channels());
        check_count(area.and_then(|area| pairs?.checked_mul(area)), layer)
    }
}

fn check_count(numbers: Option<usize>, layer: &Layer) -> Result<(), Diagnostic> {
    if numbers.is_some_and(|n| n <= NUMBERS_MAX) {
        return Ok(());
    }
    let message = format!("the layer has more than {NUMBERS_MAX} weights");
    Err(Diagnostic::new(Code::SourceLimit, message).at(layer.clone()))
}

impl<'f> Weights<'f> {
    /// Files in a folder of the submission.
    pub(crate) fn folder(files: &'f dyn Files, folder: impl Into<String>) -> Weights<'f> {
        Weights { source: Source::Folder { files, folder: folder.into() } }
    }

    /// Random numbers that depend on `seed` and the layers' names only.
    pub(crate) fn random(seed: u64) -> Weights<'f> {
        Weights { source: Source::Random { seed } }
    }

    /// Parameters of a `Conv` or `Deconv` layer.
    pub(crate) fn conv(
        &self,
        layer: &Layer,
        kernels: Kernels,
        layout: &Layout,
    ) -> Result<Parameters, Diagnostic> {
        kernels.check(layer)?;
        let (files, folder) = match &self.source {
            Source::Random { seed } => return Ok(random::conv(*seed, layer, kernels, layout)),
            Source::Folder { files, folder } => (*files, folder.as_str()),
        };
        let store = Store { files, folder, layer };
        let records = layout.records_of(kernels);
        let (weights, bias) = match store.text_pair(layout, &records, kernels.kind())? {
            TextPair::Found(weights, bias) => (layout.arrange(kernels, weights), bias),
            TextPair::State(path, bytes) => {
                return state::conv(&store.at(&path), &bytes, kernels, layout);
            }
        };
        let bias = bias.map(|bias| layout.arrange_bias(bias));
        Ok(Parameters { weights, dims: kernels.dims(), bias })
    }

    /// Parameters of a fully connected layer: weights `[outputs, inputs]`.
    pub(crate) fn fc(
        &self,
        layer: &Layer,
        [outputs, inputs]: [usize; 2],
        layout: &Layout,
    ) -> Result<Parameters, Diagnostic> {
        check_count(outputs.checked_mul(inputs), layer)?;
        let (files, folder) = match &self.source {
            Source::Random { seed } => {
                return Ok(random::fc(*seed, layer, [outputs, inputs], layout));
            }
            Source::Folder { files, folder } => (*files, folder.as_str()),
        };
        let store = Store { files, folder, layer };
        let (weights, bias) = match store.text_pair(layout, &vec![inputs; outputs], "Fc")? {
            TextPair::Found(weights, bias) => (layout.arrange_fc(inputs, weights), bias),
            TextPair::State(path, bytes) => {
                return state::fc(&store.at(&path), &bytes, [outputs, inputs], layout);
            }
        };
        let bias = bias.map(|bias| layout.arrange_bias(bias));
        Ok(Parameters { weights, dims: vec![outputs, inputs], bias })
    }

    /// Parameters of a `BatchNorm` layer.
    pub(crate) fn batch_norm(
        &self,
        layer: &Layer,
        channels: usize,
    ) -> Result<Normalization, Diagnostic> {
        check_count(channels.checked_mul(4), layer)?;
        let (files, folder) = match &self.source {
            Source::Random { seed } => return Ok(random::batch_norm(*seed, layer, channels)),
            Source::Folder { files, folder } => (*files, folder.as_str()),
        };
        let store = Store { files, folder, layer };
        let found = store.batch_norm(channels)?;
        match found.variance.iter().find(|v| **v < 0.0) {
            None => Ok(found),
            Some(negative) => {
                let message = format!("a variance is negative: {negative}");
                let problem = Diagnostic::new(Code::WeightsSyntax, message).at(layer.clone());
                Err(problem.help("Export the weights again; variances are never negative."))
            }
        }
    }
}

/// The files of one layer.
struct Store<'a> {
    files: &'a dyn Files,
    folder: &'a str,
    layer: &'a Layer,
}

/// A file of a layer, for messages.
struct At<'a> {
    path: &'a str,
    layer: &'a Layer,
}

impl At<'_> {
    fn problem(&self, code: Code, message: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::new(code, format!("`{}`: {message}", self.path)).at(self.layer.clone())
    }
}

enum TextPair<'a> {
    /// Weights and biases in file order.
    Found(Vec<f32>, Option<Vec<f32>>),
    /// There is only a binary file.
    State(String, Cow<'a, [u8]>),
}

impl<'a> Store<'a> {
    fn path(&self, suffix: &str) -> String {
        let name = file_name_of(&self.layer.name);
        let slash = if self.folder.is_empty() { "" } else { "/" };
        format!("{}{slash}{name}{suffix}", self.folder)
    }

    fn at<'p>(&self, path: &'p str) -> At<'p>
    where
        'a: 'p,
    {
        At { path, layer: self.layer }
    }

    /// Weights and biases of outputs with `records` numbers each, in file order.
    fn text_pair(
        &self,
        layout: &Layout,
        records: &[usize],
        kind: &str,
    ) -> Result<TextPair<'a>, Diagnostic> {
        let count = records.iter().sum::<usize>();
        let biases = if layout.bias { records.len() } else { 0 };
        let single = self.path(".syntxt");
        if let Some(bytes) = self.files.read(&single) {
            let at = self.at(&single);
            let numbers = text::numbers(&at, &bytes, count + biases)
                .map_err(|problem| bias_hint(problem, layout.bias, &bytes, count, records.len()))?;
            let (weights, bias) = layout.split(numbers, records);
            return Ok(TextPair::Found(weights, bias));
        }
        let [weights, state] = [self.path("_weights.syntxt"), self.path(&format!("/{kind}.syn"))];
        let Some(bytes) = self.files.read(&weights) else {
            let found = self.files.read(&state);
            return match found {
                Some(bytes) => Ok(TextPair::State(state, bytes)),
                None => Err(self.missing(&[&weights, &single, &state])),
            };
        };
        let numbers = text::numbers(&self.at(&weights), &bytes, count)?;
        if !layout.bias {
            return Ok(TextPair::Found(numbers, None));
        }
        let path = self.path("_biases.syntxt");
        let Some(bytes) = self.files.read(&path) else {
            let help = "Put the file there, or set `NoBias=1` in the layer's `ConfigSection`.";
            return Err(self.missing(&[&path]).help(help));
        };
        let bias = text::numbers(&self.at(&path), &bytes, biases)?;
        Ok(TextPair::Found(numbers, Some(bias)))
    }

    fn batch_norm(&self, channels: usize) -> Result<Normalization, Diagnostic> {
        let single = self.path(".syntxt");
        if let Some(bytes) = self.files.read(&single) {
            let numbers = text::numbers(&self.at(&single), &bytes, 4 * channels)?;
            let column = |i: usize| numbers.chunks_exact(4).map(|row| row[i]).collect();
            let [scale, bias, mean, variance] = [0, 1, 2, 3].map(column);
            return Ok(Normalization { scale, bias, mean, variance });
        }
        let scales = self.path("_scales.syntxt");
        let state = self.path("/BatchNorm.syn");
        if self.files.read(&scales).is_none() {
            return match self.files.read(&state) {
                Some(bytes) => state::batch_norm(&self.at(&state), &bytes, channels),
                None => Err(self.missing(&[&scales, &single, &state])),
            };
        }
        let read = |suffix| {
            let path = self.path(suffix);
            let bytes = self.files.read(&path).ok_or_else(|| self.missing(&[&path]))?;
            text::numbers(&self.at(&path), &bytes, channels)
        };
        Ok(Normalization {
            scale: read("_scales.syntxt")?,
            bias: read("_biases.syntxt")?,
            mean: read("_means.syntxt")?,
            variance: read("_variances.syntxt")?,
        })
    }

    fn missing(&self, paths: &[&str]) -> Diagnostic {
        let message = match paths {
            [one] => format!("the file `{one}` is missing"),
            [first, rest @ ..] => {
                let rest: Vec<String> = rest.iter().map(|p| format!("`{p}`")).collect();
                format!("the weights `{first}` are missing, and so are {}", rest.join(" and "))
            }
            [] => "weights are missing".into(),
        };
        Diagnostic::new(Code::WeightsMissing, message).at(self.layer.clone())
    }
}

/// Points out a file whose size differs from what is expected by the biases alone.
fn bias_hint(
    problem: Diagnostic,
    bias: bool,
    bytes: &[u8],
    weights: usize,
    outputs: usize,
) -> Diagnostic {
    let found = text::count(bytes);
    match bias {
        true if found == weights => problem.help(
            "The file holds the weights without biases: set `NoBias=1` in the layer's \
             `ConfigSection`.",
        ),
        false if found == weights + outputs => {
            problem.help("The file also holds biases: remove `NoBias=1`.")
        }
        _ => problem,
    }
}

#[cfg(test)]
mod tests;
