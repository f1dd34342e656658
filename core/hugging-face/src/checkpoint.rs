//! The tensors of a checkpoint by name, in one file or in several that an index lists.

use crate::blocks::Blocks;
use crate::diag::{Code, Diagnostic, shown};
use crate::pickled;
use crate::problem::{damaged, over_limit, pointer};
use crate::raw::Raw;
use crate::safetensors::{self, Stored};
use bytes::Bytes;
use onnxd_plugin_sdk::Submission;
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The files that a checkpoint may have its weights in.
pub(crate) struct Form {
    /// That of one in one piece.
    pub(crate) single: &'static str,
    /// The list of the files of one that is not.
    pub(crate) index: &'static str,
    /// How names of these files begin and end.
    shard: [&'static str; 2],
    /// What they are called.
    pub(crate) told: &'static str,
    read: fn(&str, &Bytes) -> Result<Vec<Stored>, Diagnostic>,
}

pub(crate) const SAFETENSORS: Form = Form {
    single: "model.safetensors",
    index: "model.safetensors.index.json",
    shard: ["model-", ".safetensors"],
    told: "safetensors",
    read: safetensors::read,
};

pub(crate) const PICKLES: Form = Form {
    single: "pytorch_model.bin",
    index: "pytorch_model.bin.index.json",
    shard: ["pytorch_model-", ".bin"],
    told: "pickles",
    read: pickled::read,
};

/// The name of a file of weights, if none is there.
pub(crate) const SINGLE: &str = SAFETENSORS.single;

impl Form {
    /// Whether a name is one of several files of weights.
    pub(crate) fn is_shard(&self, file: &str) -> bool {
        file.starts_with(self.shard[0]) && file.ends_with(self.shard[1]) && !file.contains('/')
    }

    /// Whether a name is that of a file of this form.
    pub(crate) fn has(&self, file: &str) -> bool {
        file == self.single || file == self.index || self.is_shard(file)
    }

    /// Whether a folder, which ends with `/` or is empty, has files of this form.
    pub(crate) fn is_in(&self, submission: &Submission, folder: &str) -> bool {
        submission
            .files()
            .any(|(path, _)| path.strip_prefix(folder).is_some_and(|file| self.has(file)))
    }

    /// The form that is read of a folder.
    pub(crate) fn of(submission: &Submission, folder: &str) -> &'static Form {
        match !SAFETENSORS.is_in(submission, folder) && PICKLES.is_in(submission, folder) {
            true => &PICKLES,
            false => &SAFETENSORS,
        }
    }
}

/// Bytes of an index.
const INDEX_MAX: usize = 64 << 20;

/// Names of unused tensors that are told.
const TOLD_MAX: usize = 5;

/// Elements of a tensor that is looked through when it is asked for: norms, biases, scales, and small weights.
const LOOKED_AT_MAX: usize = 1 << 20;

/// How a checkpoint that comes quantized stores its weights.
pub(crate) trait Scheme {
    /// The weights of the linear layer `name`; `None` if these are real numbers.
    ///
    /// # Errors
    /// A tensor that is missing, or has another shape or type.
    fn linear(
        &self,
        w: &Checkpoint,
        name: &str,
        sizes: [usize; 2],
    ) -> Result<Option<Blocks>, Diagnostic>;

    /// The same for a tensor with the weights of all experts: [experts, outputs, inputs].
    ///
    /// # Errors
    /// As [`Scheme::linear`].
    fn experts(
        &self,
        _w: &Checkpoint,
        _name: &str,
        _sizes: [usize; 3],
    ) -> Result<Option<Blocks>, Diagnostic> {
        Ok(None)
    }

    /// Its name in reports.
    fn told(&self) -> &'static str;
}

/// All tensors; those that were asked for are noted.
pub(crate) struct Checkpoint {
    tensors: HashMap<String, Stored>,
    used: RefCell<BTreeSet<String>>,
    /// Those that are no weights of the model.
    passed: RefCell<BTreeSet<String>>,
    /// Biases that were asked for, with a `*` for the layer: whether one was there, and one that was not.
    biases: RefCell<BTreeMap<String, (bool, Option<String>)>>,
    /// Tensors as float32. One that is asked for again is the same one, so that models that both read it share it.
    floats: RefCell<HashMap<String, Tensor>>,
    /// What names may have in front, the longest first; a checkpoint of the model without its head has none.
    prefixes: Cell<&'static [&'static str]>,
    /// How weights are stored that come quantized.
    scheme: Option<Box<dyn Scheme>>,
    /// How many weights are kept by element type and inputs that share a scale.
    kept: RefCell<BTreeMap<(DataType, usize), usize>>,
    /// Tensors with an element that is infinite or NaN, and that with its number.
    not_finite: RefCell<BTreeMap<String, (f64, usize)>>,
    /// What names are in a file that has names of its own.
    spelling: Option<Spelling>,
}

/// The name in the file of what a family calls so.
type Spelling = Box<dyn Fn(&str) -> Option<String>>;

impl Checkpoint {
    /// Reads the headers of the files in `folder`, which ends with `/` or is empty.
    pub(crate) fn open(submission: &Submission, folder: &str) -> Result<Checkpoint, Diagnostic> {
        let mut tensors: HashMap<String, Stored> = HashMap::new();
        let path = |file: &str| format!("{folder}{file}");
        let Form { single, index: list, read, .. } = Form::of(submission, folder);
        if submission.has(&path(single)) || !submission.has(&path(list)) {
            for stored in read(single, &submission.read(&path(single))?)? {
                tensors.insert(stored.name.clone(), stored);
            }
            return Ok(Checkpoint::of(tensors));
        }
        let listed = index(list, &submission.read(&path(list))?)?;
        let mut home: HashMap<String, &str> = HashMap::new();
        for (file, names) in &listed {
            let bytes = submission.read(&path(file)).map_err(|mut found| {
                found.message = format!("`{list}` lists `{}`: {}", shown(file), found.message);
                found
            })?;
            for stored in read(file, &bytes)? {
                let name = stored.name.clone();
                if let Some(other) = home.insert(name.clone(), file) {
                    let (name, files) = (shown(&name), [other, file].map(shown).join("` and `"));
                    return Err(damaged(format!("tensor `{name}` is in two files, `{files}`")));
                }
                tensors.insert(name, stored);
            }
            let lacks = names.iter().find(|name| home.get(*name).is_none_or(|home| home != file));
            if let Some(name) = lacks {
                let (name, file) = (shown(name), shown(file));
                return Err(damaged(format!(
                    "`{list}` says that `{name}` is in `{file}`, which lacks it"
                )));
            }
        }
        Ok(Checkpoint::of(tensors))
    }

    pub(crate) fn of(tensors: HashMap<String, Stored>) -> Checkpoint {
        Checkpoint {
            tensors,
            used: RefCell::default(),
            passed: RefCell::default(),
            biases: RefCell::default(),
            floats: RefCell::default(),
            prefixes: Cell::new(&[]),
            scheme: None,
            kept: RefCell::default(),
            not_finite: RefCell::default(),
            spelling: None,
        }
    }

    /// Lets weights be read as they are stored by this scheme.
    pub(crate) fn by(&mut self, scheme: Option<Box<dyn Scheme>>) {
        self.scheme = scheme;
    }

    /// The weights of the linear layer `name`, [outputs, inputs], if they come quantized.
    pub(crate) fn quantized(
        &self,
        name: &str,
        sizes: [usize; 2],
    ) -> Result<Option<Blocks>, Diagnostic> {
        let read = |scheme: &dyn Scheme| scheme.linear(self, name, sizes);
        self.kept(self.scheme.as_deref().map(read))
    }

    /// The same for one tensor of all experts: [experts, outputs, inputs].
    pub(crate) fn quantized_experts(
        &self,
        name: &str,
        sizes: [usize; 3],
    ) -> Result<Option<Blocks>, Diagnostic> {
        let read = |scheme: &dyn Scheme| scheme.experts(self, name, sizes);
        self.kept(self.scheme.as_deref().map(read))
    }

    /// Counts weights that come quantized by their form.
    fn kept(
        &self,
        read: Option<Result<Option<Blocks>, Diagnostic>>,
    ) -> Result<Option<Blocks>, Diagnostic> {
        let blocks = read.transpose()?.flatten();
        if let Some(blocks) = &blocks {
            *self.kept.borrow_mut().entry((blocks.dtype, blocks.block)).or_default() += 1;
        }
        Ok(blocks)
    }

    /// A fact for the report: which weights stay as the checkpoint has them.
    pub(crate) fn card(&self) -> Option<(&'static str, String)> {
        let scheme = self.scheme.as_deref()?;
        let kept = self.kept.borrow();
        let told = kept.iter().map(|((dtype, block), count)| {
            format!("{count} weights stay {dtype} with a scale for each {block} inputs")
        });
        let told = told.collect::<Vec<_>>().join(", ");
        Some(("quantization", format!("{}: {told}", scheme.told())))
    }

    /// How many weights the model has; `None` if some come packed.
    pub(crate) fn parameters(&self) -> Option<usize> {
        let used = self.used.borrow();
        let all = self.tensors.values().filter(|stored| used.contains(&stored.name));
        let count =
            |stored: &Stored| stored.is_real().then(|| stored.shape.iter().product::<usize>());
        all.map(count).sum()
    }

    /// A name with each of what may stand in front.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let prefixes = self.prefixes.get();
        let with = prefixes.iter().map(|prefix| format!("{prefix}{name}"));
        // A name that has the prefix itself may be there without it.
        let without = prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix));
        with.chain([name.to_owned()]).chain(without.map(str::to_owned)).collect()
    }

    /// Lets messages name tensors as the file does.
    pub(crate) fn spelled(&mut self, spelling: Spelling) {
        self.spelling = Some(spelling);
    }

    /// What a tensor is called in messages.
    fn told(&self, name: &str) -> String {
        let own = self.spelling.as_ref().and_then(|spelling| spelling(name));
        let prefix = self.prefixes.get().first().filter(|prefix| !name.starts_with(**prefix));
        let with_prefix = || format!("{}{name}", prefix.unwrap_or(&""));
        shown(&own.unwrap_or_else(with_prefix))
    }

    /// Lets names be found with one of these in front.
    pub(crate) fn under(&mut self, prefixes: &'static [&'static str]) {
        self.prefixes.set(prefixes);
    }

    /// Names in `f` are those of a head, which has nothing in front.
    pub(crate) fn at_root<T>(&self, f: impl FnOnce() -> T) -> T {
        let prefixes = self.prefixes.replace(&[]);
        let result = f();
        self.prefixes.set(prefixes);
        result
    }

    /// A tensor, and what it is called here: in the file several may be parts of one.
    fn find(&self, name: &str) -> Option<(&String, &Stored)> {
        let get = |name: &str| self.tensors.get_key_value(name);
        let found =
            self.names(name).iter().find_map(|name| get(name).or_else(|| get(&old_name(name)?)))?;
        self.used.borrow_mut().insert(found.1.name.clone());
        Some(found)
    }

    /// What the file says of the tensor of exactly this name. It is not noted as used.
    pub(crate) fn raw(&self, name: &str) -> Option<Raw> {
        self.tensors.get(name).map(Stored::raw)
    }

    /// A tensor with the type and the sizes that it has in the file, if it is there.
    pub(crate) fn stored(&self, name: &str) -> Result<Option<Tensor>, Diagnostic> {
        self.find(name).map(|(_, stored)| self.looked_at(stored)).transpose()
    }

    /// A tensor, which is looked through for elements that are no finite numbers, if it is small.
    fn looked_at(&self, stored: &Stored) -> Result<Tensor, Diagnostic> {
        use DataType::{Bfloat16, Double, Float, Float16};
        let tensor = stored.tensor()?;
        let is_real = matches!(tensor.dtype(), Float | Float16 | Bfloat16 | Double);
        if is_real && tensor.len() <= LOOKED_AT_MAX && !tensor.is_finite() {
            let reals = tensor.to_reals().map(|reals| reals.values).unwrap_or_default();
            let mut odd = reals.iter().enumerate().filter(|(_, real)| !real.is_finite());
            if let Some((at, real)) = odd.next() {
                self.not_finite.borrow_mut().insert(stored.name.clone(), (*real, at));
            }
        }
        Ok(tensor)
    }

    /// Whether there is a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names(name).iter().any(|name| self.tensors.contains_key(name))
    }

    /// A note of tensors with elements that are no finite numbers.
    pub(crate) fn not_finite(&self) -> Option<Diagnostic> {
        let found = self.not_finite.borrow();
        let told = found.iter().take(TOLD_MAX).map(|(name, (real, at))| {
            format!("element {at} of tensor `{}` is {real}", shown(name))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        let more = match found.len().saturating_sub(TOLD_MAX) {
            0 => String::new(),
            n => format!(", and {n} more tensors have such elements"),
        };
        let note = Diagnostic::new(
            Code::LayerParameterIgnored,
            format!("Weights are no finite numbers: {told}{more}."),
        );
        let help = "Copy the checkpoint again, or ask who made it: most results will be NaN.";
        (!found.is_empty()).then(|| note.help(help))
    }

    /// A tensor as float32, if it is there. Its sizes must be `dims`.
    pub(crate) fn optional(
        &self,
        name: &str,
        dims: &[usize],
    ) -> Result<Option<Tensor>, Diagnostic> {
        let found = self.find(name);
        self.note_bias(name, found.is_some());
        let Some((key, stored)) = found else { return Ok(None) };
        let shown = shown(&stored.name);
        if stored.shape != dims {
            let (from, help) = match self.spelling {
                None => (
                    "`config.json` asks",
                    "Check that `config.json` and the weights belong together.",
                ),
                Some(_) => ("the metadata ask", "Take another copy of the file."),
            };
            let message = format!(
                "tensor `{shown}` has the shape {:?}, and {from} for {dims:?}",
                stored.shape
            );
            return Err(Diagnostic::new(Code::WeightsSize, message).help(help));
        }
        if let Some(known) = self.floats.borrow().get(key) {
            return Ok(Some(known.clone()));
        }
        let tensor = self.looked_at(stored)?;
        match tensor.dtype() {
            DataType::Float | DataType::Float16 | DataType::Bfloat16 | DataType::Double => {
                let cast = tensor.cast(DataType::Float);
                let cast = cast.map_err(|e| damaged(format!("tensor `{shown}`: {e}")))?;
                self.floats.borrow_mut().insert(key.clone(), cast.clone());
                Ok(Some(cast))
            }
            other => {
                let message = format!(
                    "tensor `{shown}` has elements of type {other}, which are no plain weights"
                );
                Err(Diagnostic::new(Code::FeatureUnsupported, message))
            }
        }
    }

    fn note_bias(&self, name: &str, is_there: bool) {
        if !name.ends_with(".bias") {
            return;
        }
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let parts = name.split('.').map(|part| if is_number(part) { "*" } else { part });
        let mut biases = self.biases.borrow_mut();
        let (there, lacking) = biases.entry(parts.collect::<Vec<_>>().join(".")).or_default();
        *there |= is_there;
        if !is_there && lacking.is_none() {
            *lacking = Some(name.to_owned());
        }
    }

    /// That some layers have a bias and others lack it, which a checkpoint in one piece does not do.
    pub(crate) fn complete(&self) -> Result<(), Diagnostic> {
        let biases = self.biases.borrow();
        let mut lacking =
            biases.values().filter(|(there, _)| *there).filter_map(|(_, name)| name.as_ref());
        let Some(name) = lacking.next() else { return Ok(()) };
        let name = match self.spelling {
            Some(_) => self.told(name),
            None => shown(name),
        };
        let message = format!("tensor `{name}` is missing, and other layers have theirs");
        let help = "Copy all files of the checkpoint again, completely.";
        Err(Diagnostic::new(Code::WeightsMissing, message).help(help))
    }

    /// As [`Checkpoint::optional`], of a tensor that must be there.
    pub(crate) fn tensor(&self, name: &str, dims: &[usize]) -> Result<Tensor, Diagnostic> {
        self.optional(name, dims)?.ok_or_else(|| {
            let name = self.told(name);
            let help = "Copy all files of the checkpoint again, completely.";
            let message = format!("tensor `{name}` of the shape {dims:?} is missing");
            Diagnostic::new(Code::WeightsMissing, message).help(help)
        })
    }

    /// Leaves out tensors with these endings: buffers, and what counts in training alone.
    pub(crate) fn pass_over(&self, endings: &[&str]) {
        let is_left_out = |name: &&String| endings.iter().any(|ending| name.ends_with(ending));
        self.passed.borrow_mut().extend(self.tensors.keys().filter(is_left_out).cloned());
    }

    /// A note of the tensors that nothing used.
    pub(crate) fn unused(&self) -> Option<Diagnostic> {
        let (used, passed) = (self.used.borrow(), self.passed.borrow());
        let all = self.tensors.values().map(|stored| &stored.name);
        let is_left = |name: &&String| !used.contains(*name) && !passed.contains(*name);
        let mut names: Vec<&String> = all.filter(is_left).collect();
        names.sort_unstable();
        names.dedup();
        let told: Vec<String> =
            names.iter().take(TOLD_MAX).map(|name| format!("`{}`", shown(name))).collect();
        let more = match names.len().saturating_sub(TOLD_MAX) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let message =
            format!("The model uses no tensor {}{more} of the checkpoint.", told.join(", "));
        (!names.is_empty()).then(|| {
            let help =
                "Transformers leaves such tensors out, too, if they are buffers or spare heads.";
            Diagnostic::new(Code::LayerParameterIgnored, message).help(help)
        })
    }
}

/// The files that an index lists, and the tensors that it says are in each.
pub(crate) fn index(list: &str, bytes: &[u8]) -> Result<BTreeMap<String, Vec<String>>, Diagnostic> {
    if bytes.len() > INDEX_MAX {
        let found = bytes.len();
        return Err(over_limit(format!("`{list}` has {found} bytes, of {INDEX_MAX} at most")));
    }
    if let Some(found) = pointer(list, bytes) {
        return Err(found);
    }
    /// What else is in the file is passed over.
    #[derive(Deserialize)]
    struct Listed {
        weight_map: Option<Map<String, Value>>,
    }
    let listed: Listed = serde_json::from_slice(bytes)
        .map_err(|e| damaged(format!("`{list}` is no JSON list of tensors: {e}")))?;
    let map =
        listed.weight_map.ok_or_else(|| damaged(format!("`{list}` has no object `weight_map`")))?;
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, file) in &map {
        let file = file.as_str().filter(|file| is_plain(file)).ok_or_else(|| {
            let (name, file) = (shown(name), shown(&file.to_string()));
            damaged(format!(
                "`{list}` says that `{name}` is in {file}, which is no name of a file beside it"
            ))
        })?;
        files.entry(file.to_owned()).or_default().push(name.clone());
    }
    Ok(files)
}

/// How weights of norms were called in 2019.
fn old_name(name: &str) -> Option<String> {
    let old = |new: &str, old: &str| Some(format!("{}{old}", name.strip_suffix(new)?));
    old("LayerNorm.weight", "LayerNorm.gamma").or_else(|| old("LayerNorm.bias", "LayerNorm.beta"))
}

/// Whether a name is that of a file in the same folder.
fn is_plain(file: &str) -> bool {
    !file.is_empty() && file != "." && file != ".." && !file.contains(['/', '\\', '\0', ':'])
}

#[cfg(test)]
mod tests;
