//! What a plugin says about itself: TOML text in its header, which the host reads without running its code.
//!
//! Unknown fields are ignored, so that a plugin made for a newer host still loads.

use crate::kind::ValueKind;
use crate::params::HOST_ROWS;
use crate::table::{DefaultValue, KeyRow};
use onnxd_diagnostics::shown;
use onnxd_params::Resolved;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Largest descriptor, in bytes.
pub const DESCRIPTOR_BYTES_MAX: usize = 256 * 1024;
/// Most components of a plugin.
pub const COMPONENTS_MAX: usize = 1024;
/// Most params, globs or other entries of a component.
pub const ENTRIES_MAX: usize = 256;
/// Longest id, in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// Longest glob, in bytes.
const GLOB_BYTES_MAX: usize = 256;

/// Domains whose operators are known without plugins.
const HOST_DOMAINS: [&str; 5] =
    ["ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft"];

const KINDS: [&str; 3] = ["frontend", "pass", "quantizer"];

/// Whether `named` is the component `id` of a plugin: by the component's id alone, or as `PLUGIN/ID`.
#[must_use]
pub fn names(named: &str, plugin: &str, id: &str) -> bool {
    match named.rsplit_once('/') {
        Some((of, component)) => of == plugin && component == id,
        None => named == id,
    }
}

/// Domain and operator type of an operator of a source, which is written `my::gelu_tanh`. Both are
/// letters, digits, `_`, `-` and `.`, as in `aten::add.Tensor`.
pub fn source_operator(name: &str) -> Option<(&str, &str)> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_word =
        |text: &str| (1..=ID_BYTES_MAX).contains(&text.len()) && text.chars().all(allowed);
    name.split_once("::").filter(|(domain, op)| is_word(domain) && is_word(op))
}

/// What a plugin says about itself.
#[derive(Clone, Debug, Deserialize)]
pub struct Descriptor {
    /// One line.
    pub summary: String,
    /// SPDX expression; empty if not said.
    #[serde(default)]
    pub licence: String,
    /// Whether the same inputs give the same bytes.
    #[serde(default = "yes")]
    pub deterministic: bool,
    /// "one" or "many": whether more than one thread is of use.
    #[serde(default = "one")]
    pub threads: String,
    /// At least one.
    pub components: Vec<Component>,
}

/// A component of a plugin: what it is, what it takes and what it needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Component {
    /// frontend | pass | quantizer
    pub kind: String,
    /// Lower-case letters, digits, `-`; unique with its kind.
    pub id: String,
    /// One line.
    pub summary: String,
    /// File names a front-end may claim.
    pub globs: Vec<String>,
    /// First bytes of files a front-end may claim, hexadecimal.
    pub magic: Vec<String>,
    /// How a quantizer's form of models is called; empty takes its id.
    pub format: String,
    /// Params of its own.
    pub params: Vec<Param>,
    /// Spellings without a section that INI files and `--set` understand, beside those in `params`.
    pub options: Vec<Spelling>,
    /// What values of params and options stand for.
    pub implies: Vec<Implied>,
    /// What params are when they are unset, where it depends on others.
    pub computed: Vec<Implied>,
    /// Values that contradict each other.
    pub refuses: Vec<Refused>,
    /// When a pass runs.
    #[serde(flatten)]
    pub runs: Condition,
    /// What has to be dropped beside the network.
    pub needs: Vec<Need>,
    /// Operators of sources that a pass lowers for all front-ends, such as `my::gelu_tanh`.
    pub lowers: Vec<String>,
    /// When its graph keeps to the standard's structure but not to its types.
    pub untyped: Option<Condition>,
    /// A front-end that gives the source's own graph: what is wrong with it is wrong in the source.
    pub is_source: bool,
    /// What may make the outputs of its models better.
    pub advice: String,
}

/// A param of a component.
#[derive(Clone, Debug, Deserialize)]
pub struct Param {
    /// Dotted key, such as `quantization.nibbles.levels`.
    pub key: String,
    /// What it accepts, in the notation of [`ValueKind::parse`].
    #[serde(rename = "type")]
    pub kind: ValueKind,
    /// What it is by default; unset if it is not there.
    #[serde(default)]
    pub default: Value,
    /// A sentence or two.
    pub help: String,
    /// Its spelling without section.
    #[serde(default)]
    pub option: Option<String>,
}

/// A spelling without section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spelling {
    /// The name.
    pub name: String,
    /// The key that it sets; none if `implies` says what it stands for.
    pub key: Option<String>,
    /// What it accepts if it has no key.
    #[serde(rename = "type")]
    pub kind: Option<ValueKind>,
    /// It is accepted and changes nothing, for this reason.
    pub ignored: Option<String>,
    /// It is refused, for this reason.
    pub refused: Option<String>,
    /// Its value names an INI file of params beside the network.
    pub params_file: bool,
}

/// A condition on params, and on facts of the network.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Keys whose values must be of these kinds; `unset` is one.
    pub when: BTreeMap<String, ValueKind>,
    /// Keys whose values must not be of these kinds.
    pub unless: BTreeMap<String, ValueKind>,
    /// Facts that the network must not have, as its front-end states them.
    pub unless_facts: Vec<String>,
}

/// Values that follow from a condition.
#[derive(Clone, Debug, Deserialize)]
pub struct Implied {
    /// When.
    #[serde(flatten)]
    pub condition: Condition,
    /// Values by key; `{KEY}` in a value stands for that of another key.
    #[serde(default)]
    pub sets: BTreeMap<String, String>,
    /// Keys that get their defaults back.
    #[serde(default)]
    pub unsets: Vec<String>,
    /// What the user is told.
    #[serde(default)]
    pub note: String,
}

/// Values that contradict each other.
#[derive(Clone, Debug, Deserialize)]
pub struct Refused {
    /// When.
    #[serde(flatten)]
    pub condition: Condition,
    /// The key whose value is refused.
    pub key: String,
    /// Goes on after key and value.
    pub why: String,
}

/// Something that has to be dropped beside the network.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Need {
    /// When.
    #[serde(flatten)]
    pub condition: Condition,
    /// In words.
    pub what: String,
    /// Files or folders, of which one is enough; users read the first.
    pub paths: Vec<String>,
    /// The param that names the file or folder instead.
    pub param: Option<String>,
    /// A file whose array of that name will do, too: `["calib.npz", "labels"]`.
    pub or_array: Option<[String; 2]>,
}

fn yes() -> bool {
    true
}

fn one() -> String {
    "one".to_owned()
}

impl Condition {
    /// Whether it holds for values of params and for facts.
    pub fn holds(&self, value: &dyn Fn(&str) -> Value, facts: &[String]) -> bool {
        let is = |(key, kind): (&String, &ValueKind)| kind.check(value(key)).is_ok();
        self.when.iter().all(is)
            && !self.unless.iter().any(is)
            && !self.unless_facts.iter().any(|fact| facts.contains(fact))
    }

    /// The same for params that were resolved. These looks do not count.
    pub fn holds_with(&self, params: &Resolved, facts: &[String]) -> bool {
        self.holds(&|key| params.peek(key).clone(), facts)
    }

    /// The keys that it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.when.keys().chain(self.unless.keys())
    }
}

impl Descriptor {
    /// Reads and checks a descriptor.
    ///
    /// # Errors
    /// One sentence that says what was found and what was expected.
    pub fn parse(text: &str) -> Result<Descriptor, String> {
        if text.len() > DESCRIPTOR_BYTES_MAX {
            let (found, max) = (text.len(), DESCRIPTOR_BYTES_MAX);
            return Err(format!("the descriptor has {found} bytes, limit {max}"));
        }
        let mut descriptor: Descriptor =
            toml::from_str(text).map_err(|e| format!("the descriptor: {e}"))?;
        descriptor.check()?;
        Ok(descriptor)
    }

    fn check(&mut self) -> Result<(), String> {
        let count = self.components.len();
        if !(1..=COMPONENTS_MAX).contains(&count) {
            return Err(format!("{count} components, expected 1 to {COMPONENTS_MAX}"));
        }
        if !matches!(self.threads.as_str(), "one" | "many") {
            let found = shown(&self.threads);
            return Err(format!("threads is `{found}`, expected `one` or `many`"));
        }
        let (mut seen, mut keys) = (BTreeSet::new(), BTreeSet::new());
        let mut lowered = BTreeSet::new();
        for component in &mut self.components {
            component.check()?;
            if !seen.insert((component.kind.clone(), component.id.clone())) {
                return Err(format!("{} `{}` is listed twice", component.kind, component.id));
            }
            if let Some(op) = component.lowers.iter().find(|op| !lowered.insert((*op).clone())) {
                return Err(format!("`{}` is in `lowers` twice", shown(op)));
            }
            for param in &mut component.params {
                param.check().map_err(|e| format!("component `{}`: {e}", component.id))?;
                if !keys.insert(param.key.clone()) {
                    return Err(format!("the param `{}` is listed twice", param.key));
                }
            }
        }
        let section = |key: &&String| keys.iter().any(|other| is_below(other, key));
        match keys.iter().find(section) {
            Some(key) => Err(format!("the param `{key}` is a section of others")),
            None => Ok(()),
        }
    }
}

impl Component {
    fn check(&self) -> Result<(), String> {
        let id = shown(&self.id);
        if !KINDS.contains(&self.kind.as_str()) {
            let kind = shown(&self.kind);
            return Err(format!("component `{id}` has kind `{kind}`, expected one of {KINDS:?}"));
        }
        if !is_word(&self.id, '-') {
            return Err(format!(
                "component id `{id}`: expected lower-case letters, digits and `-`"
            ));
        }
        if self.kind == "frontend" && self.globs.is_empty() && self.magic.is_empty() {
            return Err(format!("front-end `{id}` has neither globs nor magic"));
        }
        let rules = self.options.len() + self.implies.len() + self.computed.len();
        let asked = self.refuses.len() + self.needs.len();
        let (params, lowers) = (self.params.len(), self.lowers.len());
        for list in [self.globs.len(), self.magic.len(), params, lowers, rules, asked] {
            if list > ENTRIES_MAX {
                return Err(format!("component `{id}` has a list of {list}, limit {ENTRIES_MAX}"));
            }
        }
        if let Some(glob) = self.globs.iter().find(|g| !is_glob(g)) {
            return Err(format!("component `{id}`: `{}` is not a file name pattern", shown(glob)));
        }
        if let Some(magic) = self.magic.iter().find(|m| !is_hexadecimal(m)) {
            return Err(format!("component `{id}`: magic `{}` is not hexadecimal", shown(magic)));
        }
        if let Some(need) = self.needs.iter().find(|n| n.paths.is_empty()) {
            return Err(format!("component `{id}`: the need `{}` has no path", shown(&need.what)));
        }
        self.check_lowers().map_err(|why| format!("component `{id}`: {why}"))
    }

    fn check_lowers(&self) -> Result<(), String> {
        if self.kind != "pass" && !self.lowers.is_empty() {
            return Err("only a pass can have `lowers`".to_owned());
        }
        for op in &self.lowers {
            let said = shown(op);
            match source_operator(op) {
                None => {
                    return Err(format!(
                        "`{said}` in `lowers`: expected an operator like `my::op`"
                    ));
                }
                Some((domain, _)) if HOST_DOMAINS.contains(&domain) => {
                    return Err(format!("`{said}` in `lowers`: `{domain}` is a domain of ONNX"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// What its form of models is called.
    pub fn format(&self) -> &str {
        if self.format.is_empty() { &self.id } else { &self.format }
    }
}

impl Param {
    fn check(&mut self) -> Result<(), String> {
        let key = shown(&self.key);
        let names: Vec<&str> = self.key.split('.').collect();
        if names.len() < 2 || !names.iter().all(|name| is_name(name)) {
            return Err(format!(
                "param `{key}`: expected names of lower-case letters, digits, `_` and `-`, joined by `.`"
            ));
        }
        let clashes = |row: &&KeyRow| {
            row.key == self.key || is_below(&row.key, &self.key) || is_below(&self.key, &row.key)
        };
        if let Some(row) = HOST_ROWS.iter().find(clashes) {
            return Err(format!(
                "param `{key}` clashes with `{}`, which all conversions have",
                row.key
            ));
        }
        self.normalize()
    }

    /// Brings default and help to their normal forms.
    pub(crate) fn normalize(&mut self) -> Result<(), String> {
        let key = shown(&self.key);
        if !self.default.is_null() {
            let default = self.kind.check(self.default.take());
            self.default = default.map_err(|why| format!("the default of param `{key}` {why}"))?;
        }
        self.help = self.help.split_whitespace().collect::<Vec<_>>().join(" ");
        match self.help.is_empty() {
            true => Err(format!("param `{key}` has no help")),
            false => Ok(()),
        }
    }

    /// The row of its key.
    pub fn row(&self) -> KeyRow {
        KeyRow {
            key: self.key.clone(),
            kind: self.kind.clone(),
            default: match &self.default {
                Value::Null => DefaultValue::Unset,
                value => DefaultValue::Value(value.clone()),
            },
            help: self.help.clone(),
        }
    }
}

/// A descriptor's text as JSON, for people who read it with tools; null if it is no TOML.
pub fn as_json(text: &str) -> Value {
    toml::from_str(text).unwrap_or_default()
}

/// Whether `key` lies in the section `section`.
pub fn is_below(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    text.len() <= ID_BYTES_MAX && !text.is_empty() && text.chars().all(allowed)
}

/// Whether a text is an id: begins with a letter, goes on with letters, digits and `joint`.
pub fn is_word(text: &str, joint: char) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == joint;
    text.len() <= ID_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(allowed)
}

fn is_glob(text: &str) -> bool {
    (1..=GLOB_BYTES_MAX).contains(&text.len())
        && !text.contains(|c: char| c == '/' || c.is_control())
}

fn is_hexadecimal(text: &str) -> bool {
    (2..=GLOB_BYTES_MAX).contains(&text.len())
        && text.len().is_multiple_of(2)
        && text.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
        summary = 's'
        licence = 'MIT'
        [[components]]
        kind = 'frontend'
        id = 'onnx'
        globs = ['*.onnx']
        [[components]]
        kind = 'pass'
        id = 'fuse-pad'
        later = 1
        [[components.params]]
        key = 'passes.fuse-pad.axis'
        type = 'int | all'
        default = 1
        help = 'h'
        ";

    #[test]
    fn a_good_one() {
        let d = Descriptor::parse(GOOD).unwrap();
        assert!(d.deterministic);
        assert_eq!((d.threads.as_str(), d.components.len()), ("one", 2));
        let row = d.components[1].params[0].row();
        assert_eq!(row.default_text(), "1");
        assert_eq!(row.kind.to_string(), "\"all\" | an integer");
    }

    #[test]
    fn bad_ones_are_named() {
        for (from, to, expected) in [
            ("'pass'", "'scheme'", "kind `scheme`"),
            ("fuse-pad", "Fuse Pad", "component id `Fuse Pad`"),
            ("default = 1", "default = '1'", "the default of param `passes.fuse-pad.axis` must be"),
            ("['*.onnx']", "[]", "neither globs nor magic"),
            ("['*.onnx']", "['a/b']", "`a/b` is not a file name pattern"),
            ("'int | all'", "'int, all'", "`int, all` is no type"),
            ("passes.fuse-pad.axis", "axis", "param `axis`: expected names"),
            ("passes.fuse-pad.axis", "passes.enable", "clashes with `passes.enable`"),
            ("passes.fuse-pad.axis", "passes.enable.x", "clashes with `passes.enable`"),
            ("passes.fuse-pad.axis", "passes", "expected names"),
            ("help = 'h'", "help = ' '", "has no help"),
            ("later = 1", "lowers = ['gelu']", "`gelu` in `lowers`: expected an operator like"),
            ("later = 1", "lowers = ['my::a b']", "`my::a b` in `lowers`: expected"),
            ("later = 1", "lowers = ['ai.onnx::Relu']", "`ai.onnx` is a domain of ONNX"),
            ("later = 1", "lowers = ['my::a', 'my::a']", "`my::a` is in `lowers` twice"),
            ("later = 1", "lowers = 'my::a'", "the descriptor:"),
            ("['*.onnx']", "['*.onnx']\nlowers = ['my::a']", "only a pass can have `lowers`"),
            ("summary = 's'", "", "missing field `summary`"),
            ("summary = 's'", "summary", "the descriptor:"),
        ] {
            let error = Descriptor::parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let twice = GOOD.replace("'frontend'", "'pass'").replace("'onnx'", "'fuse-pad'");
        assert!(Descriptor::parse(&twice).unwrap_err().contains("twice"));
        let long = "#".repeat(DESCRIPTOR_BYTES_MAX) + GOOD;
        assert!(Descriptor::parse(&long).unwrap_err().contains("limit"));
        assert!(Descriptor::parse("summary = 's'\ncomponents = []").is_err());
    }
}
