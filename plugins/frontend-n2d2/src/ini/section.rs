//! Typed access to the properties of one section.
//!
//! Every read is remembered, so that what no layer asked for can be pointed out as a likely typo.

use super::value::FromText;
use super::{Ini, Place, Property, Section, resolve, similar};
use crate::diag::{Code, Diagnostic, Layer, shown};

/// A section of a network file; cheap to copy.
#[derive(Clone, Copy)]
pub(crate) struct SectionRef<'a> {
    pub(super) ini: &'a Ini,
    index: usize,
}

type SectionResult<T> = Result<T, Diagnostic>;

impl<'a> SectionRef<'a> {
    pub(super) fn new(ini: &'a Ini, index: usize) -> SectionRef<'a> {
        SectionRef { ini, index }
    }

    pub(super) fn index(self) -> usize {
        self.index
    }

    fn data(self) -> &'a Section {
        &self.ini.sections[self.index]
    }

    fn property(self, key: &str) -> Option<&'a Property> {
        self.data().properties.get(key).map(|p| &**p)
    }

    /// Empty for the global section.
    pub(crate) fn name(self) -> &'a str {
        &self.data().name
    }

    /// File and line of the header.
    pub(crate) fn place(self) -> String {
        self.data().place.to_string()
    }

    /// The section as a layer of the source network, for messages.
    pub(crate) fn layer(self) -> Layer {
        let kind = self.property("Type").map_or_else(String::new, |p| shown(&p.value));
        Layer { name: self.name().into(), kind, place: self.place() }
    }

    pub(crate) fn has(self, key: &str) -> bool {
        self.asked(key);
        self.data().properties.contains_key(key)
    }

    /// Remembers that a section like this may have `key`.
    pub(crate) fn asked(self, key: &str) {
        let mut asked = self.data().asked.borrow_mut();
        if !asked.contains(key) {
            asked.insert(key.into());
        }
    }

    /// Names of all properties, inherited ones included, in alphabetical order.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'a str> {
        self.data().properties.keys().map(|k| &**k)
    }

    /// The resolved text of a property.
    pub(crate) fn text(self, key: &str) -> SectionResult<Option<String>> {
        self.asked(key);
        resolve::property(self.ini, self.index, key)
    }

    /// The text of a property as it is written.
    pub(crate) fn raw(self, key: &str) -> Option<String> {
        self.property(key).map(|p| p.value.clone())
    }

    /// The value of a property.
    pub(crate) fn get<T: FromText>(self, key: &str) -> SectionResult<Option<T>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match T::from_text(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(self.unreadable(key, &text, &T::what(), T::WORDS)),
        }
    }

    /// The value of a property that must be there.
    pub(crate) fn required<T: FromText>(self, key: &str) -> SectionResult<T> {
        match self.get(key)? {
            Some(value) => Ok(value),
            None => Err(self.missing(key, T::WORDS)),
        }
    }

    /// The value of a property, or what it is when not set.
    pub(crate) fn or<T: FromText>(self, key: &str, default: T) -> SectionResult<T> {
        Ok(self.get(key)?.unwrap_or(default))
    }

    /// The meaning of a property that is one of a few words.
    pub(crate) fn choice<T: Clone>(
        self,
        key: &str,
        words: &[(&str, T)],
    ) -> SectionResult<Option<T>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(meaning.clone()));
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Err(self.unreadable(key, &text, &format!("one of {}", names.join(", ")), &names))
    }

    /// Names separated by commas. N2D2 does not trim them; blanks are removed here from a name
    /// that no section has.
    pub(crate) fn names(self, key: &str) -> SectionResult<Vec<String>> {
        let text = self.text(key)?.unwrap_or_default();
        let known = |name: &str| self.ini.by_name.contains_key(name);
        let exact = text.split(',').filter(|name| !name.trim().is_empty());
        Ok(exact.map(|n| if known(n) { n } else { n.trim() }.to_owned()).collect())
    }

    /// A finding about the value of `key`.
    pub(crate) fn problem(self, key: &str, message: impl std::fmt::Display) -> Diagnostic {
        let place = self.place_of(key);
        let message = format!("`{key}` {message}");
        self.ini.problem(self.index, place, Code::LayerParameter, message)
    }

    /// Keeps a warning about `key`, which has no effect.
    pub(crate) fn warn_ignored(self, key: &str, message: &str, help: impl Into<String>) {
        let place = self.place_of(key);
        let (code, message) = (Code::LayerParameterIgnored, format!("`{key}` {message}"));
        let warning = self.ini.problem(self.index, place, code, message).help(help.into());
        self.ini.warn(place, warning);
    }

    /// Warns about properties that were not read, other than `silent` ones. What was asked for is
    /// suggested instead.
    pub(crate) fn warn_unread(self, silent: &[&str]) {
        let asked = self.data().asked.borrow();
        let mut asked: Vec<&str> = asked.iter().map(|key| &**key).collect();
        asked.sort_unstable();
        for (key, property) in &self.data().properties {
            let key: &str = key;
            let passed = property.read.get() || key.starts_with('$') || silent.contains(&key);
            if passed || is_training_key(key) {
                continue;
            }
            let known = asked.iter().chain(silent).copied().filter(|k| *k != key);
            let help = match similar(key, known) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => "Remove the line, or check its spelling.".into(),
            };
            self.warn_ignored(key, "is not a setting of this section and has no effect", help);
        }
    }

    /// Warns about all settings other than those of training and those that start with one of
    /// `silent`, which have no effect.
    pub(crate) fn warn_ignored_settings(self, silent: &[&str], message: &str, help: &str) {
        for key in self.keys() {
            let quantizes = key.starts_with("QWeight") || key.starts_with("QAct");
            let training = is_training_key(key) && !quantizes;
            if !training && !key.starts_with('$') && !silent.iter().any(|s| key.starts_with(s)) {
                self.warn_ignored(key, message, help);
            }
        }
    }

    fn place_of(self, key: &str) -> &'a Place {
        self.property(key).map_or(&self.data().place, |p| &p.place)
    }

    fn missing(self, key: &str, words: &[&str]) -> Diagnostic {
        let problem = self.problem(key, "is missing");
        let help = match (similar(key, self.keys()), words) {
            (Some(near), _) => format!("Set `{key}`; did you mean it by `{near}`?"),
            (None, [most @ .., last]) => format!("Set it to {} or {last}.", most.join(", ")),
            (None, []) => format!("Set `{key}` in this section."),
        };
        problem.help(help)
    }

    fn unreadable(self, key: &str, text: &str, what: &str, words: &[&str]) -> Diagnostic {
        let problem = self.problem(key, format!("must be {what}, found `{}`", shown(text)));
        if text.contains("${") {
            return problem.help("The variable in `${…}` is not defined: set it as `$NAME=value`.");
        }
        if text.contains('[') {
            return problem.help("There is no section of the name in `[…]`.");
        }
        match similar(text, words.iter().copied()) {
            Some(near) => problem.help(format!("Did you mean `{near}`?")),
            None => problem,
        }
    }
}

/// Whether a property only matters while a network learns: it is never resolved, since its value
/// may need the data set or variables that training scripts define.
pub(crate) fn is_training_key(key: &str) -> bool {
    key.contains("Solver")
        || key.starts_with("QWeight")
        || key.starts_with("QAct")
        || key.contains("Filler")
        || key.starts_with("Learn")
        || matches!(key, "BackPropagate" | "DropConnect" | "MovingAverageMomentum")
}
