//! The samples of one input: parts of files, one after the other.

use super::SampleSource;
use super::files::{CalibrationFile, Content};
use super::input::{Input, inputs};
use super::pictures::{PictureInput, bad as bad_picture};
use super::random::{Drawing, Random, numbers};
use crate::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use crate::eval::RandomSource;
use crate::ir::{DataType, Dim, Model, Tensor};
use onnxd_arrays::{ArrayRows, StoredArray};
use onnxd_diagnostics::refuse;
use onnxd_preprocess::SAMPLES_MAX;

/// Name of the array that says what the samples are.
const LABELS: &str = "labels";

/// All samples of one input.
#[derive(Debug)]
pub(super) struct Column {
    input: String,
    dtype: DataType,
    batch_size: Option<u64>,
    /// Along the first axis, of one sample.
    rows: u64,
    parts: Vec<ColumnFile>,
    /// Of pictures, if there are any.
    picture: Option<PictureInput>,
    /// What takes the place of the parts.
    random: Option<Random>,
}

#[derive(Debug)]
struct ColumnFile {
    path: String,
    source: ColumnSource,
}

/// What a file gives.
#[derive(Debug)]
enum ColumnSource {
    Array(StoredArray, FirstAxis),
    Picture,
    /// Pictures one after the other.
    Pictures(StoredArray),
}

impl ColumnFile {
    fn is_whole(&self) -> bool {
        matches!(self.source, ColumnSource::Array(_, FirstAxis::Whole | FirstAxis::Input))
    }
}

/// What the first axis of an array is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FirstAxis {
    /// The samples, as in the input.
    Samples,
    /// Whole inputs.
    Whole,
    /// There is none: the array is one whole input.
    Input,
    /// An axis of the one sample.
    One,
}

/// The samples of every input.
pub(super) fn columns(
    source: SampleSource,
    files: &[CalibrationFile],
) -> Result<Vec<Column>, Diagnostics> {
    let inputs = inputs(source.model);
    let mut wrong = Diagnostics::default();
    let mut columns = Vec::new();
    for (_, input) in &inputs {
        match column(input, inputs.len() == 1, files, &|| PictureInput::from_source(source, input))
        {
            Ok(column) => columns.push(column),
            Err(found) => wrong.0.extend(found.0),
        }
    }
    wrong.or_ok(columns).map(matched)
}

/// Random samples of every input of `model`.
pub(super) fn random(model: &Model, drawing: Drawing) -> Result<Vec<Column>, Diagnostics> {
    let mut wrong = Diagnostics::default();
    let mut columns = Vec::new();
    for ((v, input), index) in inputs(model).iter().zip(0..) {
        match Random::for_input((&model.graph, *v, index), input, drawing) {
            Ok(random) => columns.push(Column {
                input: input.name.into(),
                dtype: input.dtype,
                batch_size: input.batch_size(),
                rows: 1,
                parts: Vec::new(),
                picture: None,
                random: Some(random),
            }),
            Err(why) => wrong.push(why),
        }
    }
    wrong.or_ok(columns).map(matched)
}

/// Takes the arrays called `labels` out of the files, unless an input is called so.
pub(super) fn labels(
    model: &Model,
    files: &mut [CalibrationFile],
) -> Result<Option<Column>, Diagnostics> {
    let graph = &model.graph;
    if graph.inputs().iter().any(|v| graph[*v].name == LABELS) {
        return Ok(None);
    }
    let mut parts = Vec::new();
    for file in files {
        let Content::Arrays(arrays) = &mut file.content else { continue };
        let Some(at) = arrays.iter().position(|a| a.name() == LABELS) else { continue };
        // A file of that one array holds samples.
        if arrays.len() == 1 {
            continue;
        }
        let array = arrays.remove(at);
        if array.dims().is_empty() || array.dtype().is_float() || array.dtype() == DataType::String
        {
            let (dtype, dims) = (array.dtype(), array.dims());
            let why = format!("array `{LABELS}`: {dtype} of {dims:?} are no labels");
            return Err(bad(&file.path, &why).into());
        }
        let source = ColumnSource::Array(array, FirstAxis::Samples);
        parts.push(ColumnFile { path: file.path.clone(), source });
    }
    let (input, dtype) = (LABELS.into(), DataType::Int64);
    let column =
        Column { input, dtype, batch_size: None, rows: 1, parts, picture: None, random: None };
    Ok((!column.parts.is_empty()).then_some(column))
}

fn column(
    input: &Input,
    alone: bool,
    files: &[CalibrationFile],
    picture: &dyn Fn() -> Result<PictureInput, Diagnostic>,
) -> Result<Column, Diagnostics> {
    let mut parts = Vec::new();
    let mut wrong = Diagnostics::default();
    for file in files {
        let source = match belonging(input.name, alone, file) {
            None => continue,
            Some(Belonging::Picture) => Ok(ColumnSource::Picture),
            Some(Belonging::Array(array)) => input.source(array),
        };
        match source {
            Ok(source) => parts.push(ColumnFile { path: file.path.clone(), source }),
            Err(why) => wrong.push(bad(&file.path, &why)),
        }
    }
    wrong.or_ok(())?;
    if parts.is_empty() {
        let names =
            files.iter().flat_map(CalibrationFile::arrays).map(|a| shown(a.name()).to_string());
        let names: Vec<String> = names.take(10).collect();
        let text = format!(
            "the calibration data has no array for input `{}`; it has {}",
            shown(input.name),
            names.join(", ")
        );
        return Err(Diagnostic::new(Code::EvalInputs, text).into());
    }
    if parts.iter().any(|p| p.is_whole() != parts[0].is_whole()) {
        let text = format!("arrays for input `{}` have different ranks", shown(input.name));
        return Err(Diagnostic::new(Code::EvalInputs, text).into());
    }
    let batch_size = input.batch_size();
    let pictures = parts.iter().any(|p| !matches!(p.source, ColumnSource::Array(..)));
    let picture = if pictures { Some(picture()?) } else { None };
    let (name, dtype) = (input.name.into(), input.dtype);
    Ok(Column { input: name, dtype, batch_size, rows: 1, parts, picture, random: None })
}

/// What of a file belongs to an input.
enum Belonging<'f> {
    Array(&'f StoredArray),
    Picture,
}

/// The array of the input's name, or that in the folder of its name; the only one, if there is one input. A picture
/// may also lie deeper in that folder.
fn belonging<'f>(input: &str, alone: bool, file: &'f CalibrationFile) -> Option<Belonging<'f>> {
    let mut folders = file.path.rsplit('/').skip(1);
    let arrays = match &file.content {
        Content::Arrays(arrays) => arrays,
        Content::Picture => {
            return (alone || folders.any(|name| name == input)).then_some(Belonging::Picture);
        }
    };
    let named = arrays.iter().find(|a| a.name() == input);
    let only = || match arrays.as_slice() {
        [one] => Some(one).filter(|_| alone || folders.next() == Some(input)),
        _ => None,
    };
    named.or_else(only).map(Belonging::Array)
}

impl Input<'_> {
    fn source(&self, array: &StoredArray) -> Result<ColumnSource, String> {
        if !array.is_idx() {
            let form = self.form(array);
            let form = form.map_err(|why| format!("array `{}`: {why}", shown(array.name())))?;
            return Ok(ColumnSource::Array(array.clone(), form));
        }
        match (array.dtype(), array.dims()) {
            (_, dims) if dims.contains(&0) => Err("it is empty".into()),
            // Whether a packed file has what it announces is unknown.
            (_, [_, row @ ..])
                if row
                    .iter()
                    .try_fold(1usize, |n, d| n.checked_mul(*d))
                    .is_none_or(|n| n > SAMPLES_MAX) =>
            {
                Err(format!("pictures of {row:?} are larger than is read"))
            }
            (DataType::Uint8, [_, _, _]) => Ok(ColumnSource::Pictures(array.clone())),
            (dtype, dims) => Err(format!(
                "an IDX file of {dtype} with {} axes; pictures are bytes with 3",
                dims.len()
            )),
        }
    }

    fn form(&self, array: &StoredArray) -> Result<FirstAxis, String> {
        let dims = array.dims();
        let convertible = self.dtype.is_float() && array.dtype() != DataType::String;
        refuse!(array.dtype() != self.dtype && !convertible => "{} for an input of {}", array.dtype(), self.dtype);
        // Other axes may be empty, as that of the past in a cache of keys and values is at first.
        refuse!(dims.first() == Some(&0) => "it has no samples");
        if dims.is_empty() && self.shape.is_none_or(<[Dim]>::is_empty) {
            return Ok(FirstAxis::Input);
        }
        let Some(shape) = self.shape else { return Ok(FirstAxis::Samples) };
        let (form, ours, theirs) = match dims.len().checked_sub(shape.len()) {
            Some(0) => (FirstAxis::Samples, shape.get(1..), dims.get(1..)),
            Some(1) => (FirstAxis::Whole, Some(shape), dims.get(1..)),
            None if dims.len() + 1 == shape.len() => (FirstAxis::One, shape.get(1..), Some(dims)),
            _ => return Err(format!("{} axes for an input of {}", dims.len(), shape.len())),
        };
        let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
        let fits = |(ours, theirs): (&Dim, &usize)| match ours {
            Dim::Known(n) => usize::try_from(*n).ok() == Some(*theirs),
            _ => true,
        };
        match ours.iter().zip(theirs).all(fits) {
            true => Ok(form),
            false => {
                let known = |dim: &Dim| match dim {
                    Dim::Known(n) => n.to_string(),
                    _ => "any".into(),
                };
                let ours: Vec<String> = ours.iter().map(known).collect();
                Err(format!("samples of {theirs:?} for an input of [{}]", ours.join(", ")))
            }
        }
    }
}

fn bad(path: &str, why: &str) -> Diagnostic {
    Diagnostic::new(Code::EvalInputs, format!("`{}`, {why}", shown(path)))
}

impl ColumnFile {
    fn samples(&self) -> u64 {
        match &self.source {
            ColumnSource::Picture | ColumnSource::Array(_, FirstAxis::One | FirstAxis::Input) => 1,
            ColumnSource::Array(array, _) | ColumnSource::Pictures(array) => {
                array.dims().first().map_or(1, |n| *n as u64)
            }
        }
    }
}

impl Column {
    pub(super) fn samples(&self) -> u64 {
        match &self.random {
            Some(random) => random.samples(),
            None => self.parts.iter().map(ColumnFile::samples).sum::<u64>() / self.rows,
        }
    }

    pub(super) fn input(&self) -> &str {
        &self.input
    }

    /// The file that sample `number` begins in, and its number there.
    pub(super) fn file_of(&self, number: u64) -> Option<(u64, &str)> {
        let mut left = number * self.rows;
        let part = self.parts.iter().find(|part| {
            let within = left < part.samples();
            left -= if within { 0 } else { part.samples() };
            within
        })?;
        Some((left / self.rows, &part.path))
    }

    /// How pictures become samples, in words, where it is not stated.
    pub(super) fn guess(&self) -> Option<&str> {
        self.picture.as_ref()?.guess()
    }

    /// How random numbers are drawn, in words, with the name of the input.
    pub(super) fn drawn(&self) -> Option<String> {
        let random = self.random.as_ref()?;
        Some(format!("`{}` {}", shown(&self.input), random.described()))
    }

    /// The size that the network's own first axis has, if it is fixed.
    pub(super) fn batch_size(&self) -> Option<u64> {
        self.batch_size.filter(|_| !self.is_whole() && self.rows == 1)
    }

    /// Whether only one sample fits the model at a time.
    pub(super) fn is_single(&self) -> bool {
        self.is_whole() || self.rows > 1
    }

    /// Takes all that the input holds at once for one sample, if it holds as much as is fixed.
    pub(super) fn in_runs(&mut self) {
        self.rows = self.batch_size.filter(|_| !self.is_whole()).unwrap_or(1).max(1);
    }

    /// Whether no row is left over.
    pub(super) fn has_whole_runs(&self) -> bool {
        self.parts.iter().map(ColumnFile::samples).sum::<u64>().is_multiple_of(self.rows)
    }

    /// Whether each sample is a whole input.
    pub(super) fn is_whole(&self) -> bool {
        self.parts.iter().any(ColumnFile::is_whole)
            || self.random.as_ref().is_some_and(Random::is_scalar)
    }
}

/// Inputs whose first axes are fixed to different sizes have no samples there: what fills all of them once is one
/// sample. So it is beside an input that has no such axis.
fn matched(mut columns: Vec<Column>) -> Vec<Column> {
    let sizes: Option<Vec<u64>> = columns.iter().map(Column::batch_size).collect();
    let differ = sizes.is_some_and(|sizes| sizes.iter().any(|size| *size != sizes[0]));
    if differ || columns.iter().any(Column::is_whole) {
        columns.iter_mut().for_each(Column::in_runs);
    }
    columns
}

/// Reads a column from its beginning.
pub(super) struct ColumnReader<'c> {
    column: &'c Column,
    next: usize,
    rows: Option<ArrayRows>,
    stream: Option<RandomSource>,
}

impl<'c> ColumnReader<'c> {
    pub(super) fn new(column: &'c Column) -> ColumnReader<'c> {
        let stream = column.random.as_ref().map(Random::stream);
        ColumnReader { column, next: 0, rows: None, stream }
    }

    pub(super) fn input(&self) -> &'c str {
        &self.column.input
    }

    /// The next `count` samples, which there must be, as one tensor of the input's type.
    pub(super) fn take(&mut self, count: usize) -> Result<Tensor, Diagnostic> {
        let count = count.saturating_mul(usize::try_from(self.column.rows).unwrap_or(usize::MAX));
        let random = self.column.random.as_ref().zip(self.stream.as_mut());
        if let Some((random, stream)) = random {
            return random.take(stream, count).map_err(|why| bad("random numbers", &why));
        }
        let mut pieces: Vec<Tensor> = Vec::new();
        let mut left = count;
        while left > 0 {
            let piece = self.piece(left)?;
            left -= piece.dims()[0].min(left);
            pieces.push(piece);
        }
        let joined = match pieces.as_slice() {
            [one] => Ok(one.clone()),
            pieces => joined(pieces),
        };
        joined.and_then(|tensor| self.formed(tensor)).map_err(|why| {
            let text = format!("calibration data of input `{}`: {why}", shown(self.input()));
            Diagnostic::new(Code::EvalInputs, text)
        })
    }

    /// At most `count` samples of one part, along a first axis.
    fn piece(&mut self, count: usize) -> Result<Tensor, Diagnostic> {
        loop {
            let index = self.next.checked_sub(1).filter(|_| self.rows.is_some());
            let Some((part, rows)) = index.map(|i| &self.column.parts[i]).zip(self.rows.as_mut())
            else {
                if let Some(sample) = self.open()? {
                    return Ok(sample);
                }
                continue;
            };
            let form = match &part.source {
                ColumnSource::Array(_, form) => Some(*form),
                _ => None,
            };
            let count = match form {
                Some(FirstAxis::One | FirstAxis::Input) => usize::MAX,
                Some(_) => count,
                // One at a time: each may be large before it is brought to the input's size.
                None => 1,
            };
            let Some(tensor) = rows.take(count).map_err(|why| damaged(part, &why))? else {
                self.rows = None;
                continue;
            };
            let formed = match (form, &self.column.picture) {
                (Some(FirstAxis::One | FirstAxis::Input), _) => {
                    let dims = [&[1], tensor.dims()].concat();
                    tensor.reshaped(dims).map_err(|e| e.to_string())
                }
                (None, Some(picture)) => picture.rows(&tensor),
                _ => Ok(tensor),
            };
            return formed.map_err(|why| damaged(part, &why));
        }
    }

    /// Goes to the next part. The sample of a picture is all that it has.
    fn open(&mut self) -> Result<Option<Tensor>, Diagnostic> {
        let part = self.column.parts.get(self.next).ok_or_else(|| {
            Diagnostic::new(Code::Internal, "more samples were asked for than there are")
        })?;
        self.next += 1;
        match (&part.source, &self.column.picture) {
            (ColumnSource::Array(array, _) | ColumnSource::Pictures(array), _) => {
                self.rows = Some(array.rows().map_err(|why| damaged(part, &why))?);
                Ok(None)
            }
            (ColumnSource::Picture, Some(picture)) => picture.dropped(&part.path).map(Some),
            (ColumnSource::Picture, None) => {
                Err(bad_picture(&part.path, "no picture to the input"))
            }
        }
    }

    /// With the axes and the type of the input.
    fn formed(&self, tensor: Tensor) -> Result<Tensor, String> {
        let tensor = match self.column.is_whole() {
            true => tensor.reshaped(&tensor.dims()[1..]).map_err(|e| e.to_string())?,
            false => tensor,
        };
        if tensor.dtype() == self.column.dtype {
            return Ok(tensor);
        }
        let converted = tensor
            .to_reals()
            .and_then(|reals| numbers(self.column.dtype, reals.dims, reals.values));
        converted.ok_or_else(|| format!("{} as {}", tensor.dtype(), self.column.dtype))
    }
}

fn damaged(part: &ColumnFile, why: &str) -> Diagnostic {
    Diagnostic::new(Code::ArrayFile, format!("`{}`: {why}", shown(&part.path)))
}

/// Tensors put after each other along their first axis.
fn joined(pieces: &[Tensor]) -> Result<Tensor, String> {
    let first = pieces.first().ok_or("no samples")?;
    let same = |p: &Tensor| p.dtype() == first.dtype() && p.dims()[1..] == first.dims()[1..];
    refuse!(!pieces.iter().all(same) => "samples of different types or sizes in one batch");
    let mut dims = first.dims().to_vec();
    dims[0] = pieces.iter().map(|p| p.dims()[0]).sum();
    let bytes: Vec<u8> = pieces.iter().flat_map(Tensor::bytes).collect();
    Tensor::new(first.dtype(), dims, bytes.into()).map_err(|e| e.to_string())
}
