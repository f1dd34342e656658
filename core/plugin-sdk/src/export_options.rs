//! What the section `export` of the params says to a front-end whose networks are lowered, and what files of arrays
//! beside the network say about its inputs.

use crate::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use crate::host_params::Export;
use crate::ir::{DataType, Dim, ValueType};
use crate::lower::Fallback;
use crate::words::OperatorFallback;
use crate::{ArrayHeader, Constants, Imported, Params, Submission};
use serde_json::Value;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::DerefMut;

/// Version of the standard's operators, where the params name none.
const OPSET: i64 = 18;

/// What params and arrays say of the inputs, and how the model is written.
#[derive(Debug, Default)]
pub struct ExportOptions {
    /// Version of the standard's operators.
    pub opset: i64,
    /// Whether the params name it.
    is_opset_given: bool,
    shapes: Vec<Vec<Dim>>,
    dtypes: Vec<DataType>,
    names: Vec<String>,
    axes: Value,
    /// What arrays beside the network say, where the params give no shapes.
    arrays: Vec<ArrayHeader>,
    /// Element types of inputs, as the program uses them.
    used_as: BTreeMap<usize, DataType>,
    /// What becomes of operators that have no row.
    pub fallback: Fallback,
    /// Whether weights become inputs.
    pub without_weights: bool,
    /// Whether nodes tell where in the source they come from.
    pub documented: bool,
    /// All params, for those that count in some networks only.
    pub params: Params,
    constants: OnceCell<Constants>,
}

impl ExportOptions {
    /// Options that say the shapes of inputs, and nothing else.
    pub fn of_shapes(opset: i64, shapes: Vec<Vec<Dim>>) -> ExportOptions {
        ExportOptions { opset, shapes, ..ExportOptions::default() }
    }

    /// Reads the params. `fallback` adds to what passes lower what `export.operator_fallback` asks for.
    ///
    /// # Errors
    /// `N0105` for shapes and types that are none.
    pub fn read(
        submission: &Submission,
        fallback: impl FnOnce(Fallback, OperatorFallback) -> Fallback,
    ) -> Result<ExportOptions, Diagnostic> {
        let get = |key: &str| submission.param("export", key);
        let bad = |key: &str, found: &Value| {
            let message = format!("`export.{key}` cannot be {}.", shown(&found.to_string()));
            Diagnostic::new(Code::ParamsBadValue, message)
        };
        let shape = |found: &Value| {
            let dims = found.as_array()?.iter().map(|dim| match dim {
                Value::String(name) => Some(Dim::Symbol(name.as_str().into())),
                other => other.as_i64().map(|n| if n < 0 { Dim::Unknown } else { Dim::Known(n) }),
            });
            dims.collect::<Option<Vec<Dim>>>()
        };
        let all = |key: &str| get(key).as_array().cloned().unwrap_or_default();
        let shapes = all("input_shapes");
        let shapes =
            shapes.iter().map(|found| shape(found).ok_or_else(|| bad("input_shapes", found)));
        let dtypes = all("input_dtypes");
        let dtypes = dtypes.iter().map(|found| {
            let dtype = found.as_str().and_then(dtype_of_word);
            dtype.ok_or_else(|| bad("input_dtypes", found))
        });
        let names = all("input_names");
        let arrays = if shapes.len() == 0 { arrays(submission)? } else { vec![] };
        let export: Export = submission.params().section();
        Ok(ExportOptions {
            opset: get("opset").as_i64().unwrap_or(OPSET),
            is_opset_given: !get("opset").is_null(),
            shapes: shapes.collect::<Result<_, _>>()?,
            dtypes: dtypes.collect::<Result<_, _>>()?,
            names: names.iter().filter_map(|n| Some(n.as_str()?.to_owned())).collect(),
            axes: get("dynamic_axes").clone(),
            arrays,
            used_as: BTreeMap::new(),
            fallback: fallback(Fallback::of(submission.lowered()), export.operator_fallback()),
            without_weights: !export.export_params(),
            documented: !export.strip_doc_string(),
            params: submission.params().clone(),
            constants: OnceCell::new(),
        })
    }

    /// Whether what outlives a call becomes inputs and outputs (`export.mutations`). Ask only where something does.
    pub fn wants_states(&self) -> bool {
        self.params.get("export.mutations") == "outputs"
    }

    /// The inputs that the params give a value, which are no inputs of the model. Ask only where inputs can have one.
    pub fn constants(&self) -> &Constants {
        self.constants.get_or_init(|| Constants::of(&self.params))
    }

    /// Imports a network. Where the params name no opset and a newer one than the usual is all that it takes, the model
    /// has the lowest one that does, and a note says why.
    ///
    /// # Errors
    /// Those of `import`.
    pub fn at_lowest_opset<O: DerefMut<Target = ExportOptions>>(
        options: &mut O,
        mut import: impl FnMut(&mut O) -> Result<Imported, Diagnostics>,
    ) -> Result<Imported, Diagnostics> {
        // The opset at which the network could not be said, and what needed a newer one.
        let mut why: Option<(i64, Diagnostic)> = None;
        loop {
            let found = match import(options) {
                Ok(mut imported) => {
                    let note = why.map(|(old, why)| newer([old, options.opset], &why));
                    imported.notes.extend(note);
                    return Ok(imported);
                }
                Err(found) => found,
            };
            let needed = found.opset().filter(|needed| *needed > options.opset);
            let Some(needed) = needed.filter(|_| !options.is_opset_given) else {
                return Err(found);
            };
            let old = std::mem::replace(&mut options.opset, needed);
            why = found.0.into_iter().max_by_key(|found| found.opset).map(|why| (old, why));
        }
    }

    /// Takes an input as of another element type than supposed.
    pub fn use_as(&mut self, at: usize, dtype: DataType) {
        self.used_as.insert(at, dtype);
    }

    /// The array for the input number `at`: the one of its name, else the one at its place.
    fn array(&self, at: usize, name: &str) -> Option<&ArrayHeader> {
        let called = self.names.get(at).map(String::as_str);
        let is_its = |a: &&ArrayHeader| a.name == name || called == Some(a.name.as_str());
        self.arrays.iter().find(is_its).or_else(|| self.arrays.get(at))
    }

    /// Names that params or arrays give to inputs, in their order.
    pub fn named(&self) -> Vec<&str> {
        match self.names.is_empty() {
            true => self.arrays.iter().map(|array| array.name.as_str()).collect(),
            false => self.names.iter().map(String::as_str).collect(),
        }
    }

    /// Number of the inputs that shapes are given for.
    pub fn count(&self) -> usize {
        self.shapes.len().max(self.arrays.len())
    }

    /// The type of the input number `at`, which the source calls `name`: as the params say, else `default`.
    pub fn input(&self, at: usize, name: &str, default: DataType) -> ValueType {
        let array = self.array(at, name);
        let dtype = self.dtypes.get(at).copied().or_else(|| array.map(|array| array.dtype));
        let dtype = dtype.or_else(|| self.used_as.get(&at).copied()).unwrap_or(default);
        let sizes =
            |array: &ArrayHeader| array.dims.iter().map(|n| Dim::Known(*n as i64)).collect();
        let shape = self.shapes.get(at).cloned().or_else(|| array.map(sizes));
        let shape = shape.map(|shape| self.opened(at, name, shape));
        ValueType::Tensor { dtype: Some(dtype), shape }
    }

    /// Whether params or arrays say the element type of an input.
    pub fn has_dtype(&self, at: usize, name: &str) -> bool {
        self.dtypes.get(at).is_some() || self.array(at, name).is_some()
    }

    /// The sizes of the input number `at`, where the source declares `declared`: the params may say those that vary.
    /// Each that nothing names gets a name of its own, so that all sizes that follow from it are known to be equal.
    ///
    /// # Errors
    /// `N0105` if they give it another number of axes.
    pub fn sizes(&self, at: usize, name: &str, declared: Vec<Dim>) -> Result<Vec<Dim>, Diagnostic> {
        if let Some(given) = self.shapes.get(at) {
            if given.len() != declared.len() {
                let (name, n, m) = (shown(name), given.len(), declared.len());
                let message = format!("`export.input_shapes` has {n} axes for `{name}`, not {m}.");
                return Err(Diagnostic::new(Code::ParamsBadValue, message));
            }
            return Ok(given.clone());
        }
        let opened = self.opened(at, name, declared.clone());
        let label = self.label(at, name);
        let size = |(axis, (declared, opened)): (usize, (Dim, Dim))| match (declared, opened) {
            (Dim::Known(size), _) => Dim::Known(size),
            (_, Dim::Unknown) => open_size(label, axis as i64),
            (_, opened) => opened,
        };
        Ok(declared.into_iter().zip(opened).enumerate().map(size).collect())
    }

    /// Whether the params leave the input number `at` the element type that the source declares.
    ///
    /// # Errors
    /// `N0105` if they do not.
    pub fn check_dtype(&self, at: usize, name: &str, declared: DataType) -> Result<(), Diagnostic> {
        match self.dtypes.get(at) {
            Some(given) if *given != declared => {
                let name = shown(name);
                let message =
                    format!("`export.input_dtypes` has {given} for `{name}`, which is {declared}.");
                Err(Diagnostic::new(Code::ParamsBadValue, message))
            }
            _ => Ok(()),
        }
    }

    /// What the model calls the input number `at`.
    fn label<'a>(&'a self, at: usize, name: &'a str) -> &'a str {
        self.names.get(at).map_or(name, String::as_str)
    }

    /// A shape with the axes open that `export.dynamic_axes` names.
    fn opened(&self, at: usize, name: &str, mut shape: Vec<Dim>) -> Vec<Dim> {
        let called = self.names.get(at).map(String::as_str);
        let found = called.and_then(|called| self.axes.get(called)).or_else(|| self.axes.get(name));
        let rank = shape.len() as i64;
        let index = |axis: i64| usize::try_from(if axis < 0 { axis + rank } else { axis }).ok();
        let label = self.label(at, name);
        let mut open = |axis: i64, called: Option<&str>| {
            if let Some(dim) = index(axis).and_then(|i| shape.get_mut(i)) {
                *dim = called.map_or_else(|| open_size(label, axis), Dim::from);
            }
        };
        match found {
            Some(Value::Array(axes)) => {
                axes.iter().filter_map(Value::as_i64).for_each(|axis| open(axis, None));
            }
            Some(Value::Object(axes)) => {
                for (axis, called) in axes {
                    if let Ok(axis) = axis.parse() {
                        open(axis, called.as_str());
                    }
                }
            }
            _ => {}
        }
        shape
    }
}

/// The note for an opset that a network needs.
fn newer([old, opset]: [i64; 2], why: &Diagnostic) -> Diagnostic {
    let message = format!(
        "The model has opset {opset}, the lowest that can say it. At opset {old}: {}",
        why.message
    );
    let note = Diagnostic::new(Code::OpsetConversion, message).at_same(why);
    note.help("Set `export.opset` to decide it.")
}

/// The size of an axis that varies and has no name, as torch.onnx calls it.
fn open_size(label: &str, axis: i64) -> Dim {
    Dim::Symbol(format!("{label}_dynamic_axes_{}", axis + 1).into())
}

/// The inputs as `inputs.npz` beside the network has them, else a sample of `calib.npz`.
fn arrays(submission: &Submission) -> Result<Vec<ArrayHeader>, Diagnostic> {
    let folder = submission.network().rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
    let beside = |name: &str| format!("{}{name}", folder.as_deref().unwrap_or_default());
    let (inputs, samples) = (beside("inputs.npz"), beside("calib.npz"));
    if submission.has(&inputs) {
        return submission.arrays(&inputs);
    }
    if !submission.has(&samples) {
        return Ok(vec![]);
    }
    let mut found = submission.arrays(&samples)?;
    // The first axis counts samples, and `labels` are what they show.
    found.retain(|array| array.name != "labels");
    found.iter_mut().filter_map(|array| array.dims.first_mut()).for_each(|samples| *samples = 1);
    Ok(found)
}

/// `float32` and ONNX's own words.
fn dtype_of_word(word: &str) -> Option<DataType> {
    Some(match word {
        "float32" | "float" => DataType::Float,
        "float64" | "double" => DataType::Double,
        "float16" | "half" => DataType::Float16,
        "bfloat16" => DataType::Bfloat16,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" | "int" => DataType::Int32,
        "int64" | "long" => DataType::Int64,
        "uint8" => DataType::Uint8,
        "uint16" => DataType::Uint16,
        "uint32" => DataType::Uint32,
        "uint64" => DataType::Uint64,
        "bool" => DataType::Bool,
        "complex64" => DataType::Complex64,
        "complex128" => DataType::Complex128,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Graph, Model};

    #[test]
    fn the_note_of_a_newer_opset_names_the_one_that_did_not_do() {
        let mut options = Box::new(ExportOptions { opset: OPSET, ..ExportOptions::default() });
        let needs = |opset: i64| {
            let found = Diagnostic::new(Code::LayerUnsupported, format!("needs {opset}"));
            Err(Diagnostics::from(found.until_opset(opset)))
        };
        let done = ExportOptions::at_lowest_opset(&mut options, |options| match options.opset {
            OPSET => needs(19),
            19 => needs(21),
            opset => {
                let model = Model::new(Graph::new("g"), 8, opset);
                Ok(Imported { model, ..Imported::default() })
            }
        });
        let note = done.unwrap().notes[0].message.to_string();
        assert!(note.contains("has opset 21") && note.ends_with("At opset 19: needs 21"), "{note}");
    }
}
