//! The tensors of a checkpoint by name, in one file or in several that an index lists.

use crate::diag::{Code, Diagnostic, shown};
use crate::problem::{damaged, over_limit, pointer};
use crate::safetensors::{self, Stored};
use crate::weight::{Blocks, Scheme};
use onnxd_plugin_sdk::Submission;
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The file of a checkpoint that is in one piece.
pub(crate) const SINGLE: &str = "model.safetensors";
/// The list of the files of one that is not.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Bytes of an index.
const INDEX_MAX: usize = 64 << 20;

/// Names of unused tensors that are told.
const TOLD_MAX: usize = 5;

/// All tensors; those that were asked for are noted.
pub(crate) struct Checkpoint {
    tensors: HashMap<String, Stored>,
    used: RefCell<BTreeSet<String>>,
    /// Biases that were asked for, with a `*` for the layer: whether one was there, and one that was not.
    biases: RefCell<BTreeMap<String, (bool, Option<String>)>>,
    /// What names may have in front, the longest first; a checkpoint of the model without its head has none.
    prefixes: Cell<&'static [&'static str]>,
    /// How weights are stored that come quantized.
    scheme: Option<Box<dyn Scheme>>,
    /// How many weights are kept by element type and inputs that share a scale.
    kept: RefCell<BTreeMap<(DataType, usize), usize>>,
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
        if submission.has(&path(SINGLE)) {
            for stored in safetensors::read(SINGLE, &submission.read(&path(SINGLE))?)? {
                tensors.insert(stored.name.clone(), stored);
            }
            return Ok(Checkpoint::of(tensors));
        }
        let listed = index(&submission.read(&path(INDEX))?)?;
        let mut home: HashMap<String, &str> = HashMap::new();
        for (file, names) in &listed {
            let bytes = submission.read(&path(file)).map_err(|mut found| {
                found.message = format!("`{INDEX}` lists `{}`: {}", shown(file), found.message);
                found
            })?;
            for stored in safetensors::read(file, &bytes)? {
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
                    "`{INDEX}` says that `{name}` is in `{file}`, which lacks it"
                )));
            }
        }
        Ok(Checkpoint::of(tensors))
    }

    pub(crate) fn of(tensors: HashMap<String, Stored>) -> Checkpoint {
        let (used, biases, kept, scheme, spelling) = Default::default();
        Checkpoint { tensors, used, biases, prefixes: Cell::new(&[]), scheme, kept, spelling }
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

    fn find(&self, name: &str) -> Option<&Stored> {
        let stored = self.names(name).iter().find_map(|name| {
            self.tensors.get(name).or_else(|| self.tensors.get(&old_name(name)?))
        })?;
        self.used.borrow_mut().insert(stored.name.clone());
        Some(stored)
    }

    /// A tensor with the type and the sizes that it has in the file, if it is there.
    pub(crate) fn stored(&self, name: &str) -> Result<Option<Tensor>, Diagnostic> {
        self.find(name).map(Stored::tensor).transpose()
    }

    /// A tensor as float32, if it is there. Its sizes must be `dims`.
    pub(crate) fn optional(
        &self,
        name: &str,
        dims: &[usize],
    ) -> Result<Option<Tensor>, Diagnostic> {
        let found = self.find(name);
        self.note_bias(name, found.is_some());
        let Some(stored) = found else { return Ok(None) };
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
        let tensor = stored.tensor()?;
        match tensor.dtype() {
            DataType::Float | DataType::Float16 | DataType::Bfloat16 | DataType::Double => {
                let cast = tensor.cast(DataType::Float);
                cast.map(Some).map_err(|e| damaged(format!("tensor `{shown}`: {e}")))
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
        self.used.borrow_mut().extend(self.tensors.keys().filter(is_left_out).cloned());
    }

    /// A note of the tensors that nothing used.
    pub(crate) fn unused(&self) -> Option<Diagnostic> {
        let used = self.used.borrow();
        let all = self.tensors.values().map(|stored| &stored.name);
        let mut names: Vec<&String> = all.filter(|name| !used.contains(*name)).collect();
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
pub(crate) fn index(bytes: &[u8]) -> Result<BTreeMap<String, Vec<String>>, Diagnostic> {
    if bytes.len() > INDEX_MAX {
        let found = bytes.len();
        return Err(over_limit(format!("`{INDEX}` has {found} bytes, of {INDEX_MAX} at most")));
    }
    if let Some(found) = pointer(INDEX, bytes) {
        return Err(found);
    }
    /// What else is in the file is passed over.
    #[derive(Deserialize)]
    struct Listed {
        weight_map: Option<Map<String, Value>>,
    }
    let listed: Listed = serde_json::from_slice(bytes)
        .map_err(|e| damaged(format!("`{INDEX}` is no JSON list of tensors: {e}")))?;
    let map = listed
        .weight_map
        .ok_or_else(|| damaged(format!("`{INDEX}` has no object `weight_map`")))?;
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, file) in &map {
        let file = file.as_str().filter(|file| is_plain(file)).ok_or_else(|| {
            let (name, file) = (shown(name), shown(&file.to_string()));
            damaged(format!(
                "`{INDEX}` says that `{name}` is in {file}, which is no name of a file beside it"
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
