//! What `modules.json` of sentence-transformers puts behind a model: one vector for each text.

mod graph;

use crate::beside::folder_of;
use crate::checkpoint::{Checkpoint, Form};
use crate::config::{BYTES_MAX, Config};
use crate::diag::{Code, Diagnostic, shown};
use crate::layers::Activation;
use crate::problem::{damaged, over_limit, unsupported};
use onnxd_plugin_sdk::Submission;
use serde::Deserialize;

pub(crate) use graph::output;

/// The list of the steps.
pub(crate) const MODULES: &str = "modules.json";

/// What lies beside that list, and beside no other checkpoint.
const SIGNS: [&str; 2] = ["sentence_bert_config.json", "config_sentence_transformers.json"];

/// Steps behind the model.
const STEPS_MAX: usize = 64;

/// How one vector follows from those of all tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pool {
    First,
    Max,
    Mean,
    /// The sum by the root of how many there are.
    MeanOfRoot,
    /// The mean by weights 1, 2, 3 and so on.
    Weighted,
    Last,
}

/// Modes by their switch, which is in the order of the vectors, and by their word.
const POOLS: [(&str, &str, Pool); 6] = [
    ("pooling_mode_cls_token", "cls", Pool::First),
    ("pooling_mode_max_tokens", "max", Pool::Max),
    ("pooling_mode_mean_tokens", "mean", Pool::Mean),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pool::MeanOfRoot),
    ("pooling_mode_weightedmean_tokens", "weightedmean", Pool::Weighted),
    ("pooling_mode_lasttoken", "lasttoken", Pool::Last),
];

pub(crate) enum Step {
    /// Vectors of all modes, one behind the other. Each token has so many elements.
    Pooling { modes: Vec<Pool>, size: usize, has_prompt: bool },
    /// `f(x W + b)`
    Dense { weights: Checkpoint, sizes: [usize; 2], activation: Activation },
    /// The layer norm of this epsilon.
    Norm { weights: Checkpoint, size: usize },
    /// To length 1.
    Normalize,
}

/// The steps by their names.
pub(crate) struct Sentence {
    steps: Vec<(String, Step)>,
}

impl Sentence {
    /// What is to be told of the weights of steps, with the step.
    pub(crate) fn of_steps(
        &self,
        found: impl Fn(&Checkpoint) -> Option<Diagnostic>,
    ) -> Vec<Diagnostic> {
        let of_step = |(name, step): &(String, Step)| {
            let (Step::Dense { weights, .. } | Step::Norm { weights, .. }) = step else {
                return None;
            };
            let mut found = found(weights)?;
            found.message = format!("`{}`: {}", shown(name), found.message);
            Some(found)
        };
        self.steps.iter().filter_map(of_step).collect()
    }

    /// That words of prompts count here, and do not in the program that the steps are for.
    pub(crate) fn note(&self) -> Option<Diagnostic> {
        let is_without = |step: &Step| matches!(step, Step::Pooling { has_prompt: false, .. });
        let (name, _) = self.steps.iter().find(|(_, step)| is_without(step))?;
        let message = format!(
            "`include_prompt` is false in `{}/config.json`, and the pooling of the model counts all words of a text, \
             also those of a prompt.",
            shown(name)
        );
        let help = "Pool `token_embeddings` in your program where texts have a prompt.";
        Some(Diagnostic::new(Code::LayerParameterIgnored, message).help(help))
    }
}

/// A line of `modules.json`.
#[derive(Deserialize)]
struct Module {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// Where `modules.json` lies, with `/` at the end, where it is about the model in the folder of the network: that
/// folder, or the one around it.
fn root(submission: &Submission) -> Option<&str> {
    let folder = folder_of(submission.network());
    let around = folder_of(folder.strip_suffix('/').unwrap_or(""));
    let lists = |folder: &&str| submission.has(&format!("{folder}{MODULES}"));
    [folder, around].into_iter().find(lists)
}

fn modules(bytes: &[u8]) -> Result<Vec<Module>, Diagnostic> {
    if bytes.len() > BYTES_MAX {
        let found = bytes.len();
        return Err(over_limit(format!("`{MODULES}` has {found} bytes, of {BYTES_MAX} at most")));
    }
    let modules: Vec<Module> = serde_json::from_slice(bytes)
        .map_err(|e| damaged(format!("`{MODULES}` is no JSON list of modules: {e}")))?;
    if modules.len() > STEPS_MAX {
        let found = modules.len();
        return Err(over_limit(format!("`{MODULES}` has {found} modules, of {STEPS_MAX} at most")));
    }
    let is_bad = |path: &str| path == ".." || path.contains(['/', '\\', '\0', ':']);
    match modules.iter().find(|module| is_bad(&module.path)) {
        Some(module) => {
            let path = shown(&module.path);
            Err(damaged(format!("`{MODULES}` has the path `{path}`, which is no folder beside it")))
        }
        None => Ok(modules),
    }
}

/// The class of a module of sentence-transformers, wherever its versions put it.
fn class(kind: &str) -> Option<&str> {
    kind.strip_prefix("sentence_transformers.")?.rsplit('.').next()
}

/// Files that the steps need, and whether each is a file of weights.
pub(crate) fn needs(submission: &Submission) -> Result<Vec<(&'static str, String)>, Diagnostic> {
    let folder = folder_of(submission.network());
    let Some(root) = root(submission) else {
        let is_sign = |path: &str| SIGNS.contains(&path) || path.starts_with("1_Pooling/");
        let has_sign =
            submission.files().any(|(path, _)| path.strip_prefix(folder).is_some_and(is_sign));
        return Ok(match has_sign {
            true => vec![("list of the steps behind the model", format!("{folder}{MODULES}"))],
            false => vec![],
        });
    };
    let path = format!("{root}{MODULES}");
    // A damaged list is reported when the network is read.
    let modules = submission.look(&path, |bytes| modules(bytes).unwrap_or_default())?;
    let mut needs = vec![("list of the steps behind the model", path)];
    for Module { path, kind } in modules {
        let file = |file: &str| format!("{root}{path}/{file}");
        if matches!(class(&kind), Some("Pooling" | "Dense" | "LayerNorm")) {
            needs.push(("settings of a step", file("config.json")));
        }
        if matches!(class(&kind), Some("Dense" | "LayerNorm")) {
            let form = Form::of(submission, &file(""));
            needs.push(("weights of a step", file(form.single)));
        }
    }
    Ok(needs)
}

/// The steps behind the model of the network, if it has any.
pub(crate) fn read(submission: &Submission) -> Result<Option<Sentence>, Diagnostic> {
    let Some(root) = root(submission) else { return Ok(None) };
    let modules = modules(&submission.read(&format!("{root}{MODULES}"))?)?;
    let Some((model, rest)) = modules.split_first() else {
        return Err(damaged(format!("`{MODULES}` lists no modules")));
    };
    match class(&model.kind) {
        Some("Transformer") => {}
        // A model with both towers, which is read as it is.
        Some("CLIPModel") if rest.is_empty() => {}
        _ => return Err(unknown(model)),
    }
    let inside =
        if model.path.is_empty() { root.to_owned() } else { format!("{root}{}/", model.path) };
    if inside != folder_of(submission.network()) {
        let path = shown(&model.path);
        return Err(unsupported(format!(
            "`{MODULES}` says that the model is in `{path}`, not beside it"
        )));
    }
    if rest.is_empty() {
        // A model with its own head, as cross-encoders have.
        return Ok(None);
    }
    reads_tokens(submission, &inside)?;
    let mut steps = vec![];
    for module in rest {
        if let Some(step) = step(submission, root, module)? {
            steps.push((module.path.clone(), step));
        }
    }
    match steps.iter().position(|(_, step)| matches!(step, Step::Pooling { .. })) {
        Some(0) => Ok(Some(Sentence { steps })),
        _ => Err(unsupported(format!("`{MODULES}` does not have the pooling behind the model"))
            .help(help())),
    }
}

/// That steps get the hidden states of all tokens, which newer files say.
fn reads_tokens(submission: &Submission, folder: &str) -> Result<(), Diagnostic> {
    let path = format!("{folder}{}", SIGNS[0]);
    if !submission.has(&path) {
        return Ok(());
    }
    let c = Config::parse_file(&submission.read(&path)?, SIGNS[0])?;
    let only = |c: &Config, key: &str, known: &str| match c.word(key)? {
        Some(word) if word != known => Err(c.unknown(key, "which is not known").help(help())),
        _ => Ok(()),
    };
    only(&c, "transformer_task", "feature-extraction")?;
    only(&c, "module_output_name", "token_embeddings")?;
    let kinds = c.section("modality_config")?;
    let text = kinds.map(|kinds| kinds.section("text")).transpose()?.flatten();
    text.map_or(Ok(()), |text| {
        only(&text, "method", "forward")?;
        only(&text, "method_output_name", "last_hidden_state")
    })
}

/// What a model that reads no texts alone has no vectors of texts for.
pub(crate) fn not_of_texts() -> Diagnostic {
    let why =
        "`modules.json` says what comes behind the model, which is known for models of texts alone";
    unsupported(why).help("Leave `modules.json` out to convert the model alone.")
}

fn help() -> &'static str {
    "Set `source.task = \"feature-extraction\"` to convert the model alone."
}

fn unknown(module: &Module) -> Diagnostic {
    let kind = shown(&module.kind);
    let message = format!("`type` is `{kind}` in `{MODULES}`, which is no module that is known");
    unsupported(message).help(help())
}

fn step(submission: &Submission, root: &str, module: &Module) -> Result<Option<Step>, Diagnostic> {
    let folder = format!("{root}{}/", module.path);
    let config = || {
        let file = format!("{}/config.json", module.path);
        Config::parse_file(&submission.read(&format!("{folder}config.json"))?, &file)
    };
    let weights = || Checkpoint::open(submission, &folder);
    let step = match class(&module.kind) {
        Some("Pooling") => pooling(&config()?)?,
        Some("Dense") => {
            let config = config()?;
            let (sizes, activation, has_bias) = dense(&config)?;
            let weights = weights()?;
            if weights.has("linear.bias") != has_bias {
                let must = if has_bias {
                    "false: the weights have none"
                } else {
                    "true: the weights have one"
                };
                return Err(config.wrong("bias", must));
            }
            Step::Dense { weights, sizes, activation }
        }
        Some("LayerNorm") => Step::Norm { size: config()?.size("dimension")?, weights: weights()? },
        Some("Normalize") => Step::Normalize,
        // It drops nothing when a model is used.
        Some("Dropout") => return Ok(None),
        _ => return Err(unknown(module)),
    };
    Ok(Some(step))
}

fn pooling(c: &Config) -> Result<Step, Diagnostic> {
    let size = match c.optional_size("embedding_dimension")? {
        Some(size) => size,
        None => c.size("word_embedding_dimension")?,
    };
    let mut modes = vec![];
    for (key, _, mode) in POOLS {
        if c.flag(key, false)? {
            modes.push(mode);
        }
    }
    if c.has("pooling_mode") {
        let words = match c.get("pooling_mode") {
            Some(value) if value.is_array() => c.words("pooling_mode")?.unwrap_or_default(),
            _ => c.word("pooling_mode")?.into_iter().collect(),
        };
        let named =
            |word: &&str| POOLS.iter().find(|(_, name, _)| name == word).map(|(.., mode)| *mode);
        let all: Option<Vec<Pool>> = words.iter().map(named).collect();
        modes = all.ok_or_else(|| c.unknown("pooling_mode", "and not all of these are known"))?;
        if (1..modes.len()).any(|i| modes[..i].contains(&modes[i])) {
            return Err(c.wrong("pooling_mode", "a mode, or a list of different ones"));
        }
    }
    if modes.is_empty() {
        modes.push(Pool::Mean);
    }
    // The length of a prompt is no input of the graph.
    let has_prompt = c.flag("include_prompt", true)?;
    known(c)?;
    Ok(Step::Pooling { modes, size, has_prompt })
}

/// Sizes, activation, and whether there is a bias.
fn dense(c: &Config) -> Result<([usize; 2], Activation, bool), Diagnostic> {
    let sizes = [c.size("in_features")?, c.size("out_features")?];
    c.only("use_residual", false)?;
    for key in ["module_input_name", "module_output_name"] {
        if c.word(key)?.is_some_and(|name| name != "sentence_embedding") {
            return Err(c.unknown(key, "and only vectors of sentences are known"));
        }
    }
    let kind = c.word("activation_function")?.unwrap_or("torch.nn.modules.activation.Tanh");
    let activation = match kind.strip_prefix("torch.nn.modules.") {
        Some("activation.Tanh") => Activation::Tanh,
        Some("linear.Identity") => Activation::Identity,
        Some("activation.ReLU") => Activation::Relu,
        Some("activation.GELU") => Activation::Gelu,
        Some("activation.SiLU") => Activation::Silu,
        Some("activation.Sigmoid") => Activation::Sigmoid,
        _ => return Err(c.unknown("activation_function", "which is no activation that is known")),
    };
    let has_bias = c.flag("bias", true)?;
    known(c)?;
    Ok((sizes, activation, has_bias))
}

/// That each field is read: a step is so small that any other could change it.
fn known(c: &Config) -> Result<(), Diagnostic> {
    c.unread().into_iter().next().map_or(Ok(()), Err)
}

/// Reads bytes as each of the files, for the fuzz target.
pub(crate) fn read_bytes(bytes: &[u8]) {
    drop(modules(bytes));
    if let Ok(c) = Config::parse_file(bytes, "config.json") {
        drop(pooling(&c));
        drop(dense(&c));
    }
}

#[cfg(test)]
mod tests;
