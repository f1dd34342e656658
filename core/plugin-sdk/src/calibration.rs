//! Calibration data: samples of a network's inputs, read batch by batch from the files that were dropped, in the memory
//! of one batch and as often as it is read.

mod column;
mod files;
mod input;
mod pictures;
mod random;
mod sample_facts;

use crate::Submission;
use crate::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use crate::ir::{Model, Tensor};
use column::{Column, ColumnReader};
use onnxd_params::host::Calibration as Params;
pub(crate) use random::OPEN_SIZE;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest batch that a source may declare.
const BATCH_MAX: usize = 1 << 16;

/// Inputs with other numbers of samples that are shown.
const COUNTS_SHOWN: usize = 10;

/// Tensors by the names of a model's inputs.
pub type Feeds = BTreeMap<String, Tensor>;

/// Most samples that are read: a file of two numbers a sample could ask for a run of days.
const SAMPLES_MAX: u64 = 10_000_000;

/// The samples of a submission: the file or folder that `calibration.data` names, else `calib.npz`, else the folder
/// `calib`, and of these at most `calibration.samples`.
///
/// An array has the samples along its first axis and the name of an input; a single array may have any name. An array
/// with an axis more than the input has holds whole inputs, one with an axis less is one sample. Where first axes of
/// inputs are fixed to different sizes, or inputs would have different numbers of samples, what fills all of them once
/// is a sample. Arrays are taken as they are. Pictures, also those of IDX files, go through the steps that the
/// front-end left in the model's metadata ([`crate::preprocess`]), else those that the params of the section
/// `calibration` tell. With `calibration.random`, samples are random numbers.
#[derive(Debug, Default)]
pub struct Calibration {
    columns: Vec<Column>,
    /// What the samples are, if that is stated.
    labels: Option<Column>,
    samples: u64,
    batch_size: usize,
    source_batch: usize,
    used: AtomicU64,
    seen: sample_facts::SampleFacts,
    notes: Vec<Diagnostic>,
    is_random: bool,
}

/// Where samples come from, and for what.
#[derive(Clone, Copy)]
pub(crate) struct SampleSource<'a> {
    pub(crate) submission: &'a Submission,
    pub(crate) model: &'a Model,
    pub(crate) params: &'a Params,
}

impl SampleSource<'_> {
    /// The samples of the submission. Looks at the headers of the files only.
    pub(crate) fn calibration(self) -> Result<Calibration, Diagnostics> {
        let limit = self.params.samples().unwrap_or(u64::MAX);
        match self.params.random() {
            Some(samples) => self.drawn(samples, self.params.random_size()),
            None => self.read(files::found(self.submission, self.params)?, limit),
        }
    }

    /// Random numbers in place of data, where the model leaves axes open of that size.
    fn drawn(self, samples: u64, size: Option<usize>) -> Result<Calibration, Diagnostics> {
        let drawing = random::Drawing {
            samples,
            range: self.params.random_range(),
            size,
            seed: self.params.random_seed(),
        };
        let columns = column::random(self.model, drawing)?;
        let drawn: Vec<String> = columns.iter().filter_map(Column::drawn).collect();
        let text = format!("calibration data were drawn at random: {}", drawn.join(", "));
        let notes = vec![Diagnostic::new(Code::CalibrationRandom, text)];
        let all = Calibration { columns, notes, is_random: true, ..Calibration::default() };
        Ok(self.of_samples(all, samples))
    }

    /// Random numbers where there are no data, and params ask for none: sizes that the model leaves open are small.
    pub(crate) fn random(self, samples: u64, size: usize) -> Result<Calibration, Diagnostics> {
        self.drawn(samples, self.params.random_size().or(Some(size)))
    }

    /// Samples that lie elsewhere in the submission, in the same form; empty if there is nothing at `path`.
    pub(crate) fn at(self, path: &str) -> Result<Calibration, Diagnostics> {
        self.read(files::at(self.submission, path)?, u64::MAX)
    }

    fn read(
        self,
        mut found: Vec<files::CalibrationFile>,
        limit: u64,
    ) -> Result<Calibration, Diagnostics> {
        if found.is_empty() {
            return Ok(Calibration { batch_size: 1, source_batch: 1, ..Calibration::default() });
        }
        let labels = column::labels(self.model, &mut found)?;
        let mut columns = column::columns(self, &found)?;
        common(columns.iter()).or_else(|different| {
            // Then the first axis of an input of fixed size is none of samples, as that of a state.
            columns.iter_mut().for_each(Column::in_runs);
            let are_whole = columns.iter().all(Column::has_whole_runs);
            common(columns.iter()).ok().filter(|_| are_whole).ok_or(different)
        })?;
        let count = common(columns.iter().chain(&labels))?;
        if count.min(limit) > SAMPLES_MAX {
            let text = format!("{count} calibration samples, the limit is {SAMPLES_MAX}");
            let help = "`calibration.samples` takes fewer of them.";
            return Err(Diagnostic::new(Code::SourceLimit, text).help(help).into());
        }
        let notes = columns.iter().find_map(Column::guess).map(guessed).into_iter().collect();
        let all = Calibration { columns, labels, notes, ..Calibration::default() };
        Ok(self.of_samples(all, count.min(limit)))
    }

    /// `all` with so many samples, in batches as params, network or source have them.
    fn of_samples(self, all: Calibration, samples: u64) -> Calibration {
        let own = all.columns.iter().find_map(Column::batch_size);
        let own = self.params.batch_size().or(own.and_then(|n| usize::try_from(n).ok()));
        let source = own.or_else(|| declared_batch(self.model)).unwrap_or(1).max(1);
        Calibration { samples, batch_size: own.unwrap_or(1).max(1), source_batch: source, ..all }
    }
}

/// How many samples all have.
fn common<'c>(columns: impl Iterator<Item = &'c Column> + Clone) -> Result<u64, Diagnostic> {
    let Some(first) = columns.clone().next() else {
        let text = "the model has no input that samples could feed";
        return Err(Diagnostic::new(Code::EvalInputs, text));
    };
    let differ = |column: &&Column| column.samples() != first.samples();
    let others: Vec<&Column> = columns.filter(differ).collect();
    if others.is_empty() {
        return Ok(first.samples());
    }
    let each = std::iter::once(&first).chain(&others).take(COUNTS_SHOWN);
    let each = each.map(|column| format!("`{}` {}", shown(column.input()), column.samples()));
    let text = format!(
        "the inputs (or labels) have different numbers of samples: {}",
        each.collect::<Vec<_>>().join(", ")
    );
    Err(Diagnostic::new(Code::EvalInputs, text))
}

impl Calibration {
    /// What a user should know of how the samples came about.
    pub(crate) fn notes(&self) -> &[Diagnostic] {
        &self.notes
    }

    /// Whether the samples are random numbers instead of data.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.is_random
    }

    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Samples that run at once: `calibration.batch_size`, else the size of the input's first axis if it is fixed, else
    /// 1, for it takes memory.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// The batch of the source, a multiple of [`Calibration::batch_size`], for schemes in which it matters: the same,
    /// else what the front-end says of the source, else 1.
    #[must_use]
    pub fn source_batch(&self) -> usize {
        self.source_batch
    }

    /// The first `samples_max` samples from the beginning, in batches of `size`; the last batch may be smaller. Where
    /// the arrays hold whole inputs, each is a batch.
    #[must_use]
    pub fn batches(&self, size: usize, samples_max: u64) -> Batches<'_> {
        let readers = self.columns.iter().map(ColumnReader::new).collect();
        let single = self.columns.iter().any(Column::is_single);
        let size = if single { 1 } else { size.max(1) };
        Batches {
            of: self,
            readers,
            size,
            left: self.samples.min(samples_max),
            seen: 0,
            counts: true,
        }
    }

    /// The same batches with their labels.
    pub fn labelled(
        &self,
        size: usize,
        samples_max: u64,
    ) -> impl Iterator<Item = Result<Labelled, Diagnostics>> + '_ {
        let mut batches = self.batches(size, samples_max);
        let mut labels = self.labels.as_ref().map(ColumnReader::new);
        std::iter::from_fn(move || {
            let before = batches.seen;
            let feeds = batches.next()?;
            let samples = (batches.seen - before) as usize;
            let labels = labels.as_mut().map(|l| l.take(samples)).transpose();
            Some(feeds.and_then(|feeds| Ok(Labelled { feeds, labels: labels?, samples })))
        })
    }

    /// Samples with numbers that are not finite, of those that were read.
    pub(crate) fn not_finite(&self) -> u64 {
        self.seen.not_finite()
    }

    /// Where the first of them lies: the number in its file, counted from 0, the file and the input.
    pub(crate) fn not_finite_at(&self) -> Option<String> {
        let (input, number) = self.seen.first_not_finite()?;
        let column = self.columns.iter().find(|column| column.input() == input);
        let at = match column.and_then(|column| column.file_of(number)) {
            Some((number, file)) => format!("number {number} of `{}`", shown(file)),
            None => format!("number {number}"),
        };
        Some(format!("{at}, input `{}`", shown(&input)))
    }

    /// Whether those that were read hold one and the same number everywhere.
    pub(crate) fn is_constant(&self) -> bool {
        self.seen.is_constant()
    }

    /// Samples that the longest reading saw.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// That nothing states how pictures become samples.
fn guessed(how: &str) -> Diagnostic {
    let text = format!("nothing says how pictures become samples of this model; taken is {how}");
    Diagnostic::new(Code::EvalInputs, text).help(
        "Say it as the model was trained: `calibration.resize`, `scale`, `mean`, `std`, `color`, \
         `layout`.",
    )
}

/// What the front-end says of the source's batches.
fn declared_batch(model: &Model) -> Option<usize> {
    let (_, text) = model.metadata.iter().find(|(key, _)| key == "onnxd.input.batch_size")?;
    text.parse().ok().filter(|n| (1..=BATCH_MAX).contains(n))
}

/// A batch with what its samples are.
pub struct Labelled {
    /// The samples.
    pub feeds: Feeds,
    /// The array `labels` that lay beside them, as `int64`: an entry along the first axis for each; `None` without one.
    pub labels: Option<Tensor>,
    /// How many samples these are.
    pub samples: usize,
}

/// Batches of samples, in order.
pub struct Batches<'c> {
    of: &'c Calibration,
    readers: Vec<ColumnReader<'c>>,
    size: usize,
    left: u64,
    seen: u64,
    counts: bool,
}

impl Batches<'_> {
    /// The same, for looking at a result: they are no samples that calibrated.
    #[must_use]
    pub fn measuring(self) -> Self {
        Batches { counts: false, ..self }
    }

    fn read(&mut self, count: usize) -> Result<Feeds, Diagnostics> {
        let one = |r: &mut ColumnReader| Ok((r.input().to_owned(), r.take(count)?));
        self.readers.iter_mut().map(one).collect::<Result<Feeds, Diagnostic>>().map_err(Into::into)
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Feeds, Diagnostics>;

    fn next(&mut self) -> Option<Self::Item> {
        let count = self.left.min(self.size as u64);
        if count == 0 {
            return None;
        }
        let feeds = self.read(count as usize);
        if let Ok(feeds) = &feeds {
            self.of.seen.see((self.seen, self.seen + count), feeds);
        }
        self.left = if feeds.is_ok() { self.left - count } else { 0 };
        self.seen += count;
        if self.counts {
            self.of.used.fetch_max(self.seen, Ordering::Relaxed);
        }
        Some(feeds)
    }
}
