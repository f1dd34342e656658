//! The JSON in a plugin's header: what components there are and which options they take.
//!
//! Unknown fields are ignored, so that a plugin made for a newer host still loads.

use onnxd_diagnostics::shown;
use onnxd_proto::onnxd::PluginComponent;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Largest descriptor, in bytes.
pub const DESCRIPTOR_BYTES_MAX: usize = 256 * 1024;
/// Most components of a plugin.
pub const COMPONENTS_MAX: usize = 1024;
/// Most options, globs or magics of a component.
pub const ENTRIES_MAX: usize = 256;
/// Longest id, in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// Longest glob, in bytes.
const GLOB_BYTES_MAX: usize = 256;

const KINDS: [&str; 3] = ["frontend", "pass", "quantizer"];

/// Whether `named` is the component `id` of a plugin: by the component's id alone, or as `PLUGIN/ID`.
#[must_use]
pub fn names(named: &str, plugin: &str, id: &str) -> bool {
    match named.rsplit_once('/') {
        Some((of, component)) => of == plugin && component == id,
        None => named == id,
    }
}

/// What a plugin says about itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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

/// A component of a plugin.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Component {
    /// frontend | pass | quantizer
    pub kind: String,
    /// Lower-case letters, digits, `-`; unique with its kind.
    pub id: String,
    /// One line.
    #[serde(default)]
    pub summary: String,
    /// File names a front-end may claim.
    #[serde(default)]
    pub globs: Vec<String>,
    /// First bytes of files a front-end may claim, hexadecimal.
    #[serde(default)]
    pub magic: Vec<String>,
    /// What may be set.
    #[serde(default)]
    pub options: Vec<ComponentOption>,
}

/// An option of a component.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ComponentOption {
    /// Lower-case letters, digits, `_`.
    pub name: String,
    /// bool | int | float | string | list
    #[serde(rename = "type")]
    pub kind: String,
    /// Of that type; null if there is none.
    #[serde(default)]
    pub default: Value,
    /// One sentence.
    #[serde(default)]
    pub help: String,
}

fn yes() -> bool {
    true
}

fn one() -> String {
    "one".to_owned()
}

impl Descriptor {
    /// Reads and checks a descriptor.
    ///
    /// # Errors
    /// One sentence that says what was found and what was expected.
    pub fn parse(json: &str) -> Result<Descriptor, String> {
        if json.len() > DESCRIPTOR_BYTES_MAX {
            let (found, max) = (json.len(), DESCRIPTOR_BYTES_MAX);
            return Err(format!("the descriptor has {found} bytes, limit {max}"));
        }
        let descriptor: Descriptor =
            serde_json::from_str(json).map_err(|e| format!("the descriptor: {e}"))?;
        descriptor.check()?;
        Ok(descriptor)
    }

    /// The components as messages name them.
    #[must_use]
    pub fn components(&self) -> Vec<PluginComponent> {
        self.components
            .iter()
            .map(|c| PluginComponent {
                kind: c.kind.clone(),
                id: c.id.clone(),
                summary: c.summary.clone(),
                globs: c.globs.clone(),
            })
            .collect()
    }

    fn check(&self) -> Result<(), String> {
        let count = self.components.len();
        if !(1..=COMPONENTS_MAX).contains(&count) {
            return Err(format!("{count} components, expected 1 to {COMPONENTS_MAX}"));
        }
        if !matches!(self.threads.as_str(), "one" | "many") {
            let found = shown(&self.threads);
            return Err(format!("threads is `{found}`, expected `one` or `many`"));
        }
        let mut seen = BTreeSet::new();
        for component in &self.components {
            component.check()?;
            if !seen.insert((&component.kind, &component.id)) {
                return Err(format!("{} `{}` is listed twice", component.kind, component.id));
            }
        }
        Ok(())
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
        for list in [self.globs.len(), self.magic.len(), self.options.len()] {
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
        let mut names = BTreeSet::new();
        for option in &self.options {
            option.check().map_err(|e| format!("component `{id}`: {e}"))?;
            if !names.insert(&option.name) {
                return Err(format!("component `{id}`: option `{}` twice", option.name));
            }
        }
        Ok(())
    }
}

impl ComponentOption {
    fn check(&self) -> Result<(), String> {
        let name = shown(&self.name);
        if !is_word(&self.name, '_') {
            return Err(format!("option `{name}`: expected lower-case letters, digits and `_`"));
        }
        let default = &self.default;
        let fits = match self.kind.as_str() {
            "bool" => default.is_boolean(),
            "int" => default.is_i64(),
            "float" => default.is_number(),
            "string" => default.is_string(),
            "list" => default.is_array(),
            other => {
                return Err(format!(
                    "option `{name}` has type `{}`, expected bool, int, float, string or list",
                    shown(other)
                ));
            }
        };
        if fits || default.is_null() {
            return Ok(());
        }
        let default = shown(&default.to_string());
        Err(format!("option `{name}` is a {}, its default is {default}", self.kind))
    }
}

/// Whether a text is an id: begins with a letter, goes on with letters, digits and `joint`.
pub(crate) fn is_word(text: &str, joint: char) -> bool {
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

    const GOOD: &str = r#"{"summary": "s", "licence": "MIT", "components": [
        {"kind": "frontend", "id": "onnx", "summary": "ONNX", "globs": ["*.onnx"]},
        {"kind": "pass", "id": "fuse-pad", "later": 1,
         "options": [{"name": "axis", "type": "int", "default": 1, "help": "h"}]}]}"#;

    #[test]
    fn a_good_one() {
        let d = Descriptor::parse(GOOD).unwrap();
        assert!(d.deterministic);
        assert_eq!(d.threads, "one");
        assert_eq!(d.components().len(), 2);
        assert_eq!(d.components[1].options[0].default, Value::from(1));
    }

    #[test]
    fn bad_ones_are_named() {
        for (from, to, expected) in [
            ("\"pass\"", "\"scheme\"", "kind `scheme`"),
            ("fuse-pad", "Fuse Pad", "component id `Fuse Pad`"),
            ("\"default\": 1", "\"default\": \"1\"", "its default is"),
            ("[\"*.onnx\"]", "[]", "neither globs nor magic"),
            ("[\"*.onnx\"]", "[\"a/b\"]", "`a/b` is not a file name pattern"),
            ("\"int\"", "\"integer\"", "type `integer`"),
            ("\"axis\"", "\"\"", "option ``"),
            ("\"components\"", "\"parts\"", "missing field `components`"),
            ("{\"summary\"", "[\"summary\"", "the descriptor:"),
        ] {
            let error = Descriptor::parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let twice = GOOD.replace("\"frontend\"", "\"pass\"").replace("\"onnx\"", "\"fuse-pad\"");
        assert!(Descriptor::parse(&twice).unwrap_err().contains("twice"));
        let long = " ".repeat(DESCRIPTOR_BYTES_MAX) + GOOD;
        assert!(Descriptor::parse(&long).unwrap_err().contains("limit"));
        assert!(Descriptor::parse(r#"{"summary":"s","components":[]}"#).is_err());
    }
}
