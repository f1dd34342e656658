//! The learned parameters of layers: from text files, from N2D2's binary state, or random.
//!
//! Whatever the file's order, the result is in ONNX order: `Conv` reads `[O, C/g, kH, kW]`,
//! `ConvTranspose` `[C, O/g, kH, kW]`, `Gemm` with `transB` `[O, I]`.

mod layout;
mod location;
mod random;
mod state;
mod text;

use std::cell::RefCell;

use onnxd_plugin_sdk::Room;
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::ir::{DataType, Tensor};

use crate::diag::{Code, Diagnostic, Layer};
use crate::ini::{Files, Ini};
use crate::mapping::Map;
use crate::options::ImportOptions;
use text::{Numbers, Wrong};

pub(crate) use layout::{WeightLayout, WeightOrder, remap};
pub(crate) use location::{Location, WantedFile, locate, path as path_of};

/// Most numbers a layer may have.
const NUMBERS_MAX: usize = 1 << 30;

/// Most numbers of a network whose files have to hold them all: 8 GiB as `float`.
const READ_MAX: usize = 1 << 31;
/// Most numbers of a network that may be made up: 2 GiB as `float`.
const RANDOM_MAX: usize = 1 << 29;

/// Where parameters come from.
pub(crate) struct ParameterFiles<'f> {
    source: WeightOrigin,
    files: &'f dyn Files,
    /// Seed of random numbers for what is missing in the folder, if that is allowed.
    fallback: Option<u64>,
    /// Whether quantizers of training are left out.
    pub(crate) ignore_quantizers: bool,
    notes: RefCell<Vec<Diagnostic>>,
}

enum WeightOrigin {
    Folder(String),
    Random { seed: u64 },
}

/// What becomes of the weights of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They are a tensor of the model.
    Kept,
    /// Something is made of them.
    Changed,
}

/// Kernels and biases of one layer.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) weights: Tensor,
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

    /// Sizes of the ONNX tensor.
    pub(crate) fn dims(&self) -> Vec<usize> {
        let [channels, outputs] = self.per_group();
        let [height, width] = self.size;
        match self.transposed {
            false => vec![self.map.outputs(), channels, height, width],
            true => vec![self.map.channels(), outputs, height, width],
        }
    }

    /// Numbers of the ONNX tensor, unless that overflows.
    pub(crate) fn count(&self) -> Option<usize> {
        let [channels, _] = self.per_group();
        let area = self.size[0].checked_mul(self.size[1])?;
        self.map.outputs().checked_mul(channels)?.checked_mul(area)
    }

    fn kind(&self) -> &'static str {
        if self.transposed { "Deconv" } else { "Conv" }
    }

    /// Refuses geometries whose numbers fit no memory.
    fn check(&self, layer: &Layer) -> Result<(), Diagnostic> {
        check_count(self.count(), layer)
    }
}

fn check_count(numbers: Option<usize>, layer: &Layer) -> Result<(), Diagnostic> {
    if numbers.is_some_and(|n| n <= NUMBERS_MAX) {
        return Ok(());
    }
    let message = format!("the layer has more than {NUMBERS_MAX} weights");
    Err(Diagnostic::new(Code::SourceLimit, message).at(layer.clone()))
}

impl<'f> ParameterFiles<'f> {
    /// The weights of a network, where the params or its own conventions say. Also a sentence
    /// for the report where there was a choice.
    pub(crate) fn locate(
        ini: &Ini,
        network: &str,
        files: &'f dyn Files,
        options: &ImportOptions,
    ) -> (ParameterFiles<'f>, Option<String>) {
        let (location, note) = locate(ini, network, files, options);
        let weights = match location {
            Location::Random => ParameterFiles::random(files, options.seed),
            Location::Folder(folder) => ParameterFiles::folder(files, folder),
        };
        let fallback = options.weights_ignore.then_some(options.seed);
        (ParameterFiles { fallback, ignore_quantizers: options.ignore_quantizers, ..weights }, note)
    }

    /// Files in a folder of the submission.
    pub(crate) fn folder(files: &'f dyn Files, folder: impl Into<String>) -> ParameterFiles<'f> {
        ParameterFiles::new(WeightOrigin::Folder(folder.into()), files)
    }

    /// Random numbers that depend on `seed` and the layers' names only.
    pub(crate) fn random(files: &'f dyn Files, seed: u64) -> ParameterFiles<'f> {
        ParameterFiles::new(WeightOrigin::Random { seed }, files)
    }

    fn new(source: WeightOrigin, files: &'f dyn Files) -> ParameterFiles<'f> {
        let notes = RefCell::default();
        ParameterFiles { source, files, fallback: None, ignore_quantizers: false, notes }
    }

    /// The dropped files, and room for tensors.
    pub(crate) fn files(&self) -> &'f dyn Files {
        self.files
    }

    /// Room for weights: where the model has them, if they are to be there.
    fn room(&self, dims: &[usize], fate: Fate) -> Result<Room, Diagnostic> {
        match fate {
            Fate::Kept => self.files.room(DataType::Float, dims),
            Fate::Changed => Room::new(DataType::Float, dims),
        }
    }

    /// Most numbers that the layers of a network may have together.
    pub(crate) fn numbers_max(&self) -> usize {
        match self.source {
            WeightOrigin::Folder(_) if self.fallback.is_none() => READ_MAX,
            _ => RANDOM_MAX,
        }
    }

    /// Which layers got random numbers, because their files are missing.
    pub(crate) fn notes(&self) -> Vec<Diagnostic> {
        self.notes.take()
    }

    /// Parameters of a `Conv` or `Deconv` layer.
    pub(crate) fn conv(
        &self,
        layer: &Layer,
        kernels: Kernels,
        layout: &WeightLayout,
        fate: Fate,
    ) -> Result<Parameters, Diagnostic> {
        kernels.check(layer)?;
        let room = || self.room(&kernels.dims(), fate);
        let random = |seed| random::conv(seed, layer, kernels, layout, room()?);
        let store = match self.store(layer) {
            Ok(store) => store,
            Err(seed) => return random(seed),
        };
        let (count, outputs) = (layout.count_of(kernels), kernels.map.outputs());
        let stored_weights = match store.text(layout, count, outputs, kernels.kind())? {
            Text::Pair(stored_weights) => stored_weights,
            Text::State(path, bytes) => {
                return state::conv(&store.at(&path), &bytes, kernels, layout, room);
            }
            Text::Nothing(seed) => return random(seed),
        };
        store.parameters(layout, stored_weights, outputs, room, |numbers, weights, bias| {
            layout.place(kernels, numbers, weights, bias);
        })
    }

    /// Parameters of a fully connected layer: weights `[outputs, inputs]`.
    pub(crate) fn fc(
        &self,
        layer: &Layer,
        sizes: [usize; 2],
        layout: &WeightLayout,
        fate: Fate,
    ) -> Result<Parameters, Diagnostic> {
        let [outputs, inputs] = sizes;
        let count = outputs.checked_mul(inputs);
        check_count(count, layer)?;
        let room = || self.room(&sizes, fate);
        let random = |seed| random::fc(seed, layer, sizes, layout, room()?);
        let store = match self.store(layer) {
            Ok(store) => store,
            Err(seed) => return random(seed),
        };
        let found = match store.text(layout, count.unwrap_or(0), outputs, "Fc")? {
            Text::Pair(found) => found,
            Text::State(path, bytes) => return state::fc(&store.at(&path), &bytes, sizes, layout),
            Text::Nothing(seed) => return random(seed),
        };
        store.parameters(layout, found, outputs, room, |numbers, weights, bias| {
            layout.place_fc(sizes, numbers, weights, bias);
        })
    }

    /// Parameters of a `BatchNorm` layer.
    pub(crate) fn batch_norm(
        &self,
        layer: &Layer,
        channels: usize,
    ) -> Result<Normalization, Diagnostic> {
        check_count(channels.checked_mul(4), layer)?;
        let store = match self.store(layer) {
            Ok(store) => store,
            Err(seed) => return Ok(random::batch_norm(seed, layer, channels)),
        };
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

    /// Whether all numbers are made up.
    pub(crate) fn are_random(&self) -> bool {
        matches!(self.source, WeightOrigin::Random { .. })
    }

    /// The one number that a quantizer of a layer has learned; nothing where it may be missing.
    pub(crate) fn learned(&self, layer: &Layer, suffix: &str) -> Result<Option<f32>, Diagnostic> {
        let Ok(store) = self.store(layer) else { return Ok(None) };
        let path = store.path(suffix);
        let Some(file) = store.files.open(&path) else {
            let missing = store.missing(&[&path]);
            if self.fallback.is_some() {
                let help = "The layer is not quantized there, as the params allow.";
                self.notes.borrow_mut().push(missing.help(help));
                return Ok(None);
            }
            let help = "Put the file there, or set `source.quantizers` to `ignored`.";
            return Err(missing.help(help));
        };
        Ok(text::numbers(&store.at(&path), file, 1)?.first().copied())
    }

    /// The layer's files, or the seed of random numbers.
    fn store<'a>(&'a self, layer: &'a Layer) -> Result<Store<'a>, u64> {
        match &self.source {
            WeightOrigin::Random { seed } => Err(*seed),
            WeightOrigin::Folder(folder) => {
                let (files, fallback, notes) = (self.files, self.fallback, &self.notes);
                Ok(Store { files, folder, layer, fallback, notes })
            }
        }
    }
}

/// The files of one layer.
struct Store<'a> {
    files: &'a dyn Files,
    folder: &'a str,
    layer: &'a Layer,
    fallback: Option<u64>,
    notes: &'a RefCell<Vec<Diagnostic>>,
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

/// Where the numbers of a layer are.
enum Text {
    Pair(WeightFiles),
    /// There is only a binary file.
    State(String, Bytes),
    /// There is no file, and random numbers of this seed are allowed instead.
    Nothing(u64),
}

/// Text files with weights, and how many there are.
struct WeightFiles {
    path: String,
    count: usize,
    bias: Bias,
}

enum Bias {
    /// In a file of their own, or nowhere.
    Apart(Option<Vec<f32>>),
    /// In the file of the weights.
    Beside,
}

impl<'a> Store<'a> {
    fn path(&self, suffix: &str) -> String {
        location::path(self.folder, &self.layer.name, suffix)
    }

    /// The seed of random numbers for missing files, or what is missing.
    fn or_random(&self, paths: &[&str]) -> Result<u64, Diagnostic> {
        let missing = self.missing(paths);
        let seed = self.fallback.ok_or_else(|| missing.clone())?;
        self.notes.borrow_mut().push(missing.help("Random numbers are used, as the params allow."));
        Ok(seed)
    }

    fn at<'p>(&self, path: &'p str) -> At<'p>
    where
        'a: 'p,
    {
        At { path, layer: self.layer }
    }

    /// Which files have `count` weights and the biases of so many outputs. Biases that lie in a
    /// file of their own are read, in the order of the outputs.
    fn text(
        &self,
        layout: &WeightLayout,
        count: usize,
        outputs: usize,
        kind: &str,
    ) -> Result<Text, Diagnostic> {
        let pair = |path, bias| Ok(Text::Pair(WeightFiles { path, count, bias }));
        let single = self.path(".syntxt");
        if self.files.has(&single) {
            return pair(single, if layout.bias { Bias::Beside } else { Bias::Apart(None) });
        }
        let [weights, state] = [self.path("_weights.syntxt"), self.path(&format!("/{kind}.syn"))];
        if !self.files.has(&weights) {
            return match self.files.bytes(&state) {
                Some(bytes) => Ok(Text::State(state, bytes)),
                None => self.or_random(&[&weights, &single, &state]).map(Text::Nothing),
            };
        }
        if !layout.bias {
            return pair(weights, Bias::Apart(None));
        }
        let path = self.path("_biases.syntxt");
        let biases = match self.files.open(&path) {
            Some(file) => text::numbers(&self.at(&path), file, outputs)?,
            None => {
                let help = "Put the file there, or set `NoBias=1` in the layer's `ConfigSection`.";
                let seed = self.or_random(&[&path]).map_err(|missing| missing.help(help))?;
                random::bias(seed, self.layer, outputs)
            }
        };
        let mut arranged = vec![0.0; outputs];
        layout.place_bias(&mut biases.into_iter(), &mut arranged);
        pair(weights, Bias::Apart(Some(arranged)))
    }

    /// Reads the weights into `room`, and the biases that lie beside them; `place` says where each
    /// number belongs.
    fn parameters(
        &self,
        layout: &WeightLayout,
        found: WeightFiles,
        outputs: usize,
        room: impl FnOnce() -> Result<Room, Diagnostic>,
        place: impl FnOnce(&mut Numbers, &mut [f32], &mut [f32]),
    ) -> Result<Parameters, Diagnostic> {
        let WeightFiles { path, count, bias } = found;
        let (mut beside, apart) = match bias {
            Bias::Beside => (vec![0.0; outputs], None),
            Bias::Apart(bias) => (Vec::new(), bias),
        };
        let at = self.at(&path);
        let hint = |wrong| bias_hint(wrong, layout.bias, count, outputs);
        let file = self.files.open(&path).ok_or_else(|| self.missing(&[&path]))?;
        let mut numbers = Numbers::open(&at, file, count + beside.len()).map_err(hint)?;
        let mut room = room()?;
        place(&mut numbers, room.elements_mut(), &mut beside);
        numbers.end().map_err(hint)?;
        let bias = if beside.is_empty() { apart } else { Some(beside) };
        Ok(Parameters { weights: room.seal()?, bias })
    }

    fn batch_norm(&self, channels: usize) -> Result<Normalization, Diagnostic> {
        let single = self.path(".syntxt");
        if let Some(file) = self.files.open(&single) {
            let numbers = text::numbers(&self.at(&single), file, 4 * channels)?;
            let column = |i: usize| numbers.chunks_exact(4).map(|row| row[i]).collect();
            let [scale, bias, mean, variance] = [0, 1, 2, 3].map(column);
            return Ok(Normalization { scale, bias, mean, variance });
        }
        let scales = self.path("_scales.syntxt");
        let state = self.path("/BatchNorm.syn");
        if !self.files.has(&scales) {
            return match self.files.bytes(&state) {
                Some(bytes) => state::batch_norm(&self.at(&state), &bytes, channels),
                None => {
                    let seed = self.or_random(&[&scales, &single, &state])?;
                    Ok(random::batch_norm(seed, self.layer, channels))
                }
            };
        }
        let read = |suffix| {
            let path = self.path(suffix);
            let file = self.files.open(&path).ok_or_else(|| self.missing(&[&path]))?;
            text::numbers(&self.at(&path), file, channels)
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
fn bias_hint(wrong: Wrong, bias: bool, weights: usize, outputs: usize) -> Diagnostic {
    match wrong {
        Wrong::Count(problem, found) if bias && found == weights => problem.help(
            "The file holds the weights without biases: set `NoBias=1` in the layer's \
             `ConfigSection`.",
        ),
        Wrong::Count(problem, found) if !bias && found == weights + outputs => {
            problem.help("The file also holds biases: remove `NoBias=1`.")
        }
        other => other.problem(),
    }
}

#[cfg(test)]
mod tests;
