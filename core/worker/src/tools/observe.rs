//! `onnxd eval --observe`: statistics of a model's values over samples.

use super::arrays;
use super::running::{ModelRun, ModelRunOptions};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::{DataType, Model, Tensor, ValueType};
use onnxd_quantize::observe::observe as over_samples;
use onnxd_quantize::observe::{Feeds, StatisticParts, Stats, WantedValues};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A model, the samples it is run on, and what is kept of its values.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The ONNX file.
    pub model: PathBuf,
    /// Files of arrays; each is one sample, or many along a first axis that the inputs do not have.
    pub samples: Vec<PathBuf>,
    /// Names of values; all if empty.
    pub values: BTreeSet<String>,
    /// Bins of histograms on each side of zero, if there are to be any.
    pub bins: Option<usize>,
    /// Axis of the channels whose extremes are kept.
    pub channel_axis: Option<i64>,
}

/// Statistics of every value, by name.
///
/// # Errors
/// Everything that is wrong with the model or the samples.
pub fn observe(
    task: Observation,
    running: &ModelRunOptions,
) -> Result<BTreeMap<String, Stats>, Diagnostics> {
    running.within(move |run: &ModelRun| {
        let model = onnxd_onnx::load(&task.model)?.model;
        let wanted = match task.values.is_empty() {
            true => WantedValues::All,
            false => WantedValues::Names(task.values.clone()),
        };
        let (bins, channel_axis) = (task.bins, task.channel_axis);
        let parts = StatisticParts { bins, channel_axis, ..StatisticParts::default() };
        let mut samples = task.samples.iter().flat_map(|path| samples(&model, path));
        let make = |_: &str| Stats::new(&parts);
        over_samples(&*run.engine, &model, &mut samples, &wanted, &make, run.limits())
    })
}

/// The samples of one file.
fn samples<'m>(
    model: &'m Model,
    path: &'m Path,
) -> Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + 'm> {
    let fail = |why: Diagnostic| Box::new(std::iter::once(Err(why.into())));
    let feeds = match arrays::read(path) {
        Ok(found) => arrays::feeds(model, &found),
        Err(why) => return fail(why),
    };
    match count(model, &feeds) {
        Ok(None) => Box::new(std::iter::once(Ok(feeds))),
        Ok(Some(count)) => Box::new((0..count).map(move |i| Ok(sample(&feeds, i)?))),
        Err(why) => fail(why),
    }
}

/// How many samples the arrays hold along an axis before those of the inputs; `None` if there is
/// no such axis.
fn count(model: &Model, feeds: &Feeds) -> Result<Option<usize>, Diagnostic> {
    let graph = &model.graph;
    let rank = |name: &String| {
        let id = graph.inputs().iter().find(|v| graph[**v].name == *name)?;
        graph[*id].ty.as_ref().and_then(ValueType::shape).map(<[_]>::len)
    };
    let ahead = |(name, x): (&String, &Tensor)| rank(name).is_some_and(|r| x.rank() == r + 1);
    if feeds.is_empty() || !feeds.iter().all(ahead) {
        return Ok(None);
    }
    let counts: BTreeSet<usize> = feeds.values().map(|x| x.dims()[0]).collect();
    match counts.first() {
        Some(count) if counts.len() == 1 => Ok(Some(*count)),
        _ => {
            let text = format!("the arrays hold different numbers of samples: {counts:?}");
            Err(Diagnostic::new(Code::EvalInputs, text))
        }
    }
}

/// Sample `i`, in the memory of all.
fn sample(feeds: &Feeds, i: usize) -> Result<Feeds, Diagnostic> {
    let one = |(name, x): (&String, &Tensor)| {
        let broken = |why: String| {
            Diagnostic::new(Code::EvalInputs, format!("array `{}`: {why}", shown(name)))
        };
        let dims = x.dims()[1..].to_vec();
        let elements = dims.iter().product::<usize>();
        if let Some(strings) = x.as_strings() {
            let part = strings[i * elements..(i + 1) * elements].to_vec();
            return Ok((
                name.clone(),
                Tensor::strings(dims, part).map_err(|e| broken(e.to_string()))?,
            ));
        }
        let bytes = match x.dtype() {
            dtype if dtype == DataType::String || dtype.bits() < 8 => None,
            dtype => dtype.byte_len(elements),
        };
        let bytes = bytes.ok_or_else(|| broken("it cannot be split".into()))?;
        let part = x.bytes().slice(i * bytes..(i + 1) * bytes);
        let part = Tensor::new(x.dtype(), dims, part).map_err(|e| broken(e.to_string()))?;
        Ok((name.clone(), part))
    };
    feeds.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::text::parse_model;

    #[test]
    fn samples_lie_along_an_axis_of_their_own_or_in_files() {
        let text = r#"<ir_version: 8, opset_import: ["" : 17]>
            main (float[N, 2] x) => (float[N, 2] y) { y = Relu (x) }"#;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let model = parse_model(text).unwrap();
        let options = onnxd_onnx::WriteOptions::default();
        onnxd_onnx::write_model(&model, &path("m.onnx"), &options).unwrap();
        let values: Vec<f32> = (0..12).map(|i| i as f32 - 5.0).collect();
        let write = |name: &str, dims: Vec<usize>, part: &[f32]| {
            let arrays = vec![("x".to_owned(), Tensor::from_vec(dims, part.to_vec()))];
            arrays::write(&path(name), &arrays).unwrap();
            path(name)
        };
        let task = |samples: Vec<PathBuf>| Observation {
            model: path("m.onnx"),
            samples,
            values: BTreeSet::new(),
            bins: Some(8),
            channel_axis: None,
        };
        let at_once = write("all.npz", vec![3, 2, 2], &values);
        let files =
            (0..3).map(|i| write(&format!("{i}.npz"), vec![2, 2], &values[4 * i..4 * i + 4]));
        let files: Vec<PathBuf> = files.collect();
        let running = ModelRunOptions { threads: 1, ..ModelRunOptions::default() };
        let found = observe(task(vec![at_once]), &running).unwrap();
        assert_eq!(found, observe(task(files), &running).unwrap());
        assert_eq!(found["x"].tensors, 3);
        assert_eq!(found["x"].extremes.range(), Some((-5.0, 6.0)));
        assert_eq!((found["y"].zeros, found["y"].moments.mean), (6, 1.75));
        let batch = write("batch.npz", vec![6, 2], &values);
        assert_eq!(observe(task(vec![batch]), &running).unwrap()["x"].tensors, 1);
    }
}
