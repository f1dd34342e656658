//! What lists of compressed-tensors name: layers, patterns of their names, and classes. A pattern begins with `re:`.
//! It must fit from the beginning of a name on.

use crate::config::Config;
use crate::diag::shown;
use crate::problem::over_limit;
use onnxd_plugin_sdk::build::Result;
use regex_lite::{Regex, RegexBuilder};
use std::collections::HashSet;

const PATTERN: &str = "re:";

/// Patterns of a list, and of all groups together: each layer is compared with all of them.
pub(super) const PATTERNS_MAX: usize = 256;
/// Bytes of a pattern, and those that it takes in memory.
const PATTERN_BYTES_MAX: usize = 4096;
const COMPILED_BYTES_MAX: usize = 1 << 16;

/// The class of layers whose weights are read here.
const LINEAR: &str = "Linear";

/// How a list names a layer; the first way goes before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    ByName,
    ByPattern,
    ByClass,
    /// It lists a class of which it cannot be told whether the layer has it.
    Perhaps,
}

/// A list of layers.
#[derive(Debug, Default)]
pub(super) struct Targets {
    words: HashSet<String>,
    patterns: Vec<Regex>,
    may_be_class: bool,
}

impl Targets {
    pub(super) fn read(section: &Config, field: &str) -> Result<Targets> {
        let (patterns, words) = apart(section.words(field)?.unwrap_or_default());
        Ok(Targets {
            may_be_class: words.iter().any(|word| is_other_class(word)),
            words: words.into_iter().map(str::to_owned).collect(),
            patterns: compiled(section, field, &patterns)?,
        })
    }

    pub(super) fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// How a layer is named that has all these names.
    pub(super) fn named(&self, names: &[String]) -> Option<Named> {
        let fits = |pattern: &Regex| names.iter().any(|name| pattern.is_match(name));
        match () {
            () if names.iter().any(|name| self.words.contains(name)) => Some(Named::ByName),
            () if self.patterns.iter().any(fits) => Some(Named::ByPattern),
            () if self.words.contains(LINEAR) => Some(Named::ByClass),
            () if self.may_be_class => Some(Named::Perhaps),
            () => None,
        }
    }
}

/// Classes of Python begin with a capital, and parts of names of layers do not.
fn is_other_class(word: &str) -> bool {
    word != LINEAR && !word.contains('.') && word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Patterns that fit from the beginning of a name on.
pub(super) fn compiled(section: &Config, field: &str, patterns: &[&str]) -> Result<Vec<Regex>> {
    let over = |what: String| Err(over_limit(format!("`{field}` in `quantization_config` {what}")));
    if patterns.len() > PATTERNS_MAX {
        return over(format!("has {} patterns, of {PATTERNS_MAX} at most", patterns.len()));
    }
    if let Some(long) = patterns.iter().find(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
        return over(format!(
            "has a pattern of {} bytes, of {PATTERN_BYTES_MAX} at most",
            long.len()
        ));
    }
    patterns.iter().map(|pattern| pattern_of(section, field, pattern)).collect()
}

fn pattern_of(section: &Config, field: &str, word: &str) -> Result<Regex> {
    let pattern = word.strip_prefix(PATTERN).unwrap_or(word);
    let anchored = format!("\\A(?:{pattern})");
    RegexBuilder::new(&anchored).size_limit(COMPILED_BYTES_MAX).build().map_err(|e| {
        let why = format!("of which the pattern `{}` is not understood: {e}", shown(word));
        section.unknown(field, &why)
    })
}

/// The patterns among names, and the others.
pub(super) fn apart(names: Vec<&str>) -> (Vec<&str>, Vec<&str>) {
    names.into_iter().partition(|name| name.starts_with(PATTERN))
}
