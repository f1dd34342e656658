//! N2D2's network files: sections of properties, with inheritance, templates and references.
//!
//! Text is split and templates are expanded when a file is parsed; values are resolved when they
//! are read, because expressions use the sizes of layers that are built meanwhile.
//!
//! ```ini
//! $SIZE=32
//! [conv_def]
//! Type=Conv
//! [conv1] conv_def
//! NbOutputs=$(2 * ${SIZE})
//! [fc]
//! NbOutputs=[conv1]NbOutputs
//! ```

mod config;
mod expr;
mod files;
mod lines;
mod parse;
mod render;
mod resolve;
mod section;
mod settings;
mod template;
mod value;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::rc::Rc;

use crate::diag::{Code, Diagnostic, Diagnostics, Layer, nearest, shown};

pub(crate) use files::{Files, Opened, candidates, file_name_of, folder_of, join};
pub(crate) use section::{SectionRef, is_training_key};
pub(crate) use settings::{Settings, settings};
pub(crate) use value::{FromText, words};

/// Largest INI or template file, in bytes.
const FILE_BYTES_MAX: usize = 16 << 20;

/// A parsed network file. Section 0 is the global one, before the first header.
pub(crate) struct Ini {
    sections: Vec<Section>,
    by_name: HashMap<Rc<str>, usize>,
    /// Read-only properties that exist once a layer is built (`_NbOutputs`).
    computed: RefCell<HashMap<(usize, String), String>>,
    warnings: RefCell<Vec<Diagnostic>>,
    warned: RefCell<HashSet<(String, String)>>,
    effort: Cell<resolve::Effort>,
}

struct Section {
    name: Rc<str>,
    place: Place,
    /// The section whose template produced this one.
    parent: Option<usize>,
    /// By name; inherited ones are shared with the section they come from.
    properties: BTreeMap<Rc<str>, Rc<Property>>,
    /// Names of the properties written in the section itself.
    own: HashSet<Rc<str>>,
    /// Names that were asked for, for suggestions.
    asked: RefCell<HashSet<Box<str>>>,
}

struct Property {
    value: String,
    place: Place,
    read: Cell<bool>,
}

/// A template that a network uses, where it is or should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateFile {
    pub(crate) path: String,
    pub(crate) found: bool,
}

/// A file and a line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    file: Rc<str>,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Place {
    /// A finding outside of any section.
    fn problem(&self, code: Code, message: impl fmt::Display) -> Diagnostic {
        Diagnostic::new(code, format!("{self}: {message}"))
    }
}

impl Ini {
    /// Parses the file `top` with the templates it uses; errors of syntax are reported together.
    pub(crate) fn parse(top: &str, files: &dyn Files) -> Result<Ini, Diagnostics> {
        parse::parse(top, files, &mut Vec::new())
    }

    /// As [`Ini::parse`], and lists the templates, also those that are missing.
    pub(crate) fn parse_listing(
        top: &str,
        files: &dyn Files,
        templates: &mut Vec<TemplateFile>,
    ) -> Result<Ini, Diagnostics> {
        parse::parse(top, files, templates)
    }

    /// All named sections, in the order of the file; a template's sections follow its own.
    pub(crate) fn sections(&self) -> impl Iterator<Item = SectionRef<'_>> {
        (1..self.sections.len()).map(|index| SectionRef::new(self, index))
    }

    pub(crate) fn section(&self, name: &str) -> Option<SectionRef<'_>> {
        self.by_name.get(name).map(|index| SectionRef::new(self, *index))
    }

    /// The properties before the first header.
    pub(crate) fn global(&self) -> SectionRef<'_> {
        SectionRef::new(self, 0)
    }

    /// Sets a read-only property that expressions may refer to, such as `_NbOutputs`.
    pub(crate) fn set_property(&self, section: SectionRef, key: &str, value: impl fmt::Display) {
        let key = (section.index(), key.to_owned());
        self.computed.borrow_mut().insert(key, value.to_string());
    }

    /// What was found so far that does not stop a conversion.
    pub(crate) fn warnings(&self) -> Vec<Diagnostic> {
        self.warnings.borrow().clone()
    }

    /// Keeps a warning, once per place and text: inherited properties show up in many sections.
    fn warn(&self, place: &Place, diagnostic: Diagnostic) {
        if self.warned.borrow_mut().insert((place.to_string(), diagnostic.message.clone())) {
            self.warnings.borrow_mut().push(diagnostic);
        }
    }

    /// A finding at a place in a section.
    fn problem(
        &self,
        section: usize,
        place: &Place,
        code: Code,
        message: impl fmt::Display,
    ) -> Diagnostic {
        if section == 0 {
            return place.problem(code, message);
        }
        let Section { name, properties, .. } = &self.sections[section];
        let kind = properties.get("Type").map_or_else(String::new, |p| shown(&p.value));
        let layer = Layer { name: name.to_string(), kind, place: place.to_string() };
        Diagnostic::new(code, message.to_string()).at(layer)
    }
}

/// The likely meaning of a misspelt name. Long names and long lists are not worth the search,
/// whose effort grows with their product.
pub(crate) fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const BYTES_MAX: usize = 80;
    const CANDIDATES_MAX: usize = 2000;
    let short = |name: &&str| name.len() <= BYTES_MAX;
    let known = known.into_iter().filter(short).take(CANDIDATES_MAX);
    if short(&word) { nearest(word, known) } else { None }
}

/// Text of an INI or template file; bytes that are not UTF-8 can only matter in comments.
fn decode(bytes: &[u8], path: &str) -> Result<String, Diagnostic> {
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("`{path}` has {} bytes, {FILE_BYTES_MAX} are allowed", bytes.len());
        return Err(Diagnostic::new(Code::SourceLimit, message));
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Files kept in memory, for tests of all that reads a submission.
#[cfg(test)]
pub(crate) mod testing {
    use std::borrow::Cow;

    pub(crate) struct Texts<S>(pub(crate) Vec<(&'static str, S)>);

    impl<S: AsRef<[u8]>> super::Files for Texts<S> {
        fn read(&self, path: &str) -> Option<Cow<'_, [u8]>> {
            let found = self.0.iter().find(|(name, _)| *name == path)?;
            Some(Cow::Borrowed(found.1.as_ref()))
        }
        fn has(&self, path: &str) -> bool {
            self.0.iter().any(|(name, _)| *name == path)
        }
        fn has_folder(&self, path: &str) -> bool {
            let in_folder =
                |name: &str| name.strip_prefix(path).is_some_and(|r| r.starts_with('/'));
            self.0.iter().any(|(name, _)| in_folder(name))
        }
    }
}

#[cfg(test)]
mod tests;
