//! From lines to sections: inheritance, repeated names and the expansion of template sections.
//!
//! Errors are collected, so that a file with several mistakes is corrected in one go.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::files::{Files, folder_of};
use super::lines::{self, Content};
use super::render::{Renderer, TemplateLibrary};
use super::section::is_training_key;
use super::{Ini, Place, Property, Section, SectionRef, TemplateFile, similar};
use crate::diag::{Code, Diagnostic, Diagnostics, Layer, shown};

/// Errors that are reported before parsing ends.
const ERRORS_MAX: usize = 50;
/// Sections of a network, templates included.
const SECTIONS_MAX: usize = 100_000;
/// Properties of all sections together; inherited ones count each time.
const PROPERTIES_MAX: usize = 1_000_000;

/// Parses the INI file `top`.
pub(super) fn parse(
    top: &str,
    files: &dyn Files,
    templates: &mut Vec<TemplateFile>,
) -> Result<Ini, Diagnostics> {
    let Some(bytes) = files.read(top) else {
        let message = format!("the network file `{top}` is missing");
        return Err(Diagnostic::new(Code::FileMissing, message).into());
    };
    let text = super::decode(&bytes, top)?;
    let file: Rc<str> = top.into();
    let mut reader = IniReader {
        ini: empty(Place { file: Rc::clone(&file), line: 1 }),
        library: TemplateLibrary::new(files, folder_of(top)),
        errors: Diagnostics::default(),
        properties: 0,
        open: Vec::new(),
    };
    let place = |index| Place { file: Rc::clone(&file), line: index + 1 };
    // The outcome is in `errors` either way.
    let _ = reader.read(&text, &place, None);
    templates.append(&mut reader.library.used);
    reader.errors.or_ok(reader.ini)
}

fn empty(place: Place) -> Ini {
    let global = Section {
        name: "".into(),
        place,
        parent: None,
        properties: BTreeMap::new(),
        own: HashSet::new(),
        asked: RefCell::default(),
    };
    Ini {
        sections: vec![global],
        by_name: HashMap::new(),
        computed: RefCell::default(),
        warnings: RefCell::default(),
        warned: RefCell::default(),
        effort: Cell::default(),
    }
}

struct IniReader<'f> {
    ini: Ini,
    library: TemplateLibrary<'f>,
    errors: Diagnostics,
    properties: usize,
    /// Templates whose text is being read, outermost first.
    open: Vec<Rc<str>>,
}

/// Reading ends early; the reason is among the errors.
struct Stop;
type ParseResult<T = ()> = Result<T, Stop>;

/// Where properties go, and the template that follows them.
#[derive(Default)]
struct Current {
    /// Nothing after a header that was refused.
    section: Option<usize>,
    template: Option<String>,
}

impl IniReader<'_> {
    /// Reads a text whose lines come from `place(index)`, produced for section `parent`.
    fn read(
        &mut self,
        text: &str,
        place: &dyn Fn(usize) -> Place,
        parent: Option<usize>,
    ) -> ParseResult {
        let mut current = Current { section: Some(0), template: None };
        for line in lines::lines(text) {
            let place = place(line.index);
            match line.content {
                Ok(Content::Header { name, inherits }) => {
                    self.expand(std::mem::take(&mut current))?;
                    current = self.open_section(&name, &inherits, place, parent)?;
                }
                Ok(Content::Property { key, value }) => {
                    if let Some(section) = current.section {
                        self.add(section, key, value, place)?;
                    }
                }
                Err(malformed) => {
                    let section = current.section.unwrap_or(0);
                    let code = Code::SourceSyntax;
                    let problem = self.ini.problem(section, &place, code, malformed.message);
                    self.report(problem.help(malformed.help))?;
                }
            }
        }
        self.expand(current)
    }

    fn open_section(
        &mut self,
        header: &str,
        inherits: &[String],
        place: Place,
        parent: Option<usize>,
    ) -> ParseResult<Current> {
        let (name, template) = match header.split('@').collect::<Vec<_>>()[..] {
            [name, file] if !name.is_empty() && !file.is_empty() => (name, Some(file.to_owned())),
            _ => (header, None),
        };
        let layer = || Layer { name: name.into(), kind: String::new(), place: place.to_string() };
        if name.is_empty() {
            let problem = place.problem(Code::SourceSyntax, "a section needs a name");
            self.report(problem)?;
            return Ok(Current::default());
        }
        if let Some(first) = self.ini.section(name) {
            let first = first.place();
            let message = format!("section `{}` stands at {first} already", shown(name));
            let help = "Rename or remove one of the two sections.";
            self.report(Diagnostic::new(Code::SourceSyntax, message).at(layer()).help(help))?;
            return Ok(Current::default());
        }
        let index = self.ini.sections.len();
        if index > SECTIONS_MAX {
            let message = format!("the network has more than {SECTIONS_MAX} sections");
            return self.stop(place.problem(Code::SourceLimit, message));
        }
        let name: Rc<str> = name.into();
        let (properties, own) = (BTreeMap::new(), HashSet::new());
        self.ini.by_name.insert(Rc::clone(&name), index);
        let at = place.clone();
        let asked = RefCell::default();
        self.ini.sections.push(Section { name, place: at, parent, properties, own, asked });
        for inherited in inherits {
            self.inherit(index, inherited, &place)?;
        }
        if let Some(parent) = parent {
            let value = self.ini.sections[parent].name.to_string();
            self.insert(index, "$PARENT_SECTION_NAME".into(), value, place);
        }
        Ok(Current { section: Some(index), template })
    }

    /// Copies the properties of an earlier section; the first section that has one wins.
    fn inherit(&mut self, index: usize, from: &str, place: &Place) -> ParseResult {
        let Some(from) = self.ini.by_name.get(from).copied().filter(|f| *f != index) else {
            let names = self.ini.by_name.keys().map(|n| &**n).filter(|n| *n != from);
            let help = match similar(from, names) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => "A section can only inherit from sections that stand before it.".into(),
            };
            let message = format!("the inherited section `{}` is not known here", shown(from));
            let problem = self.ini.problem(index, place, Code::SourceSyntax, message);
            return self.report(problem.help(help));
        };
        self.count(self.ini.sections[from].properties.len(), place)?;
        let inherited = self.ini.sections[from].properties.clone();
        let properties = &mut self.ini.sections[index].properties;
        for (key, property) in inherited {
            properties.entry(key).or_insert(property);
        }
        Ok(())
    }

    fn add(&mut self, section: usize, key: String, value: String, place: Place) -> ParseResult {
        self.count(1, &place)?;
        let key: Rc<str> = key.into();
        if self.ini.sections[section].own.contains(&key) && !is_training_key(&key) {
            let earlier = &self.ini.sections[section].properties[&key].place;
            let message = format!("`{key}` is set again; the value at {earlier} is ignored");
            let code = Code::LayerParameterIgnored;
            let warning = self.ini.problem(section, &place, code, message);
            self.ini.warn(&place, warning.help("Remove one of the two lines."));
        }
        self.insert(section, key, value, place);
        Ok(())
    }

    fn insert(&mut self, section: usize, key: Rc<str>, value: String, place: Place) {
        let property = Rc::new(Property { value, place, read: Cell::new(false) });
        self.ini.sections[section].own.insert(Rc::clone(&key));
        self.ini.sections[section].properties.insert(key, property);
    }

    fn count(&mut self, properties: usize, place: &Place) -> ParseResult {
        self.properties += properties;
        if self.properties <= PROPERTIES_MAX {
            return Ok(());
        }
        let message = format!("the network has more than {PROPERTIES_MAX} properties");
        self.stop(place.problem(Code::SourceLimit, message))
    }

    /// Renders the template of a section that is now complete, and reads the sections it makes.
    fn expand(&mut self, current: Current) -> ParseResult {
        let (Some(section), Some(file)) = (current.section, current.template) else {
            return Ok(());
        };
        let place = self.ini.sections[section].place.clone();
        let template = match self.library.load(&file, &self.open, &place) {
            Ok(template) => template,
            Err(problem) => return self.report_for(section, problem),
        };
        let open = self.open.clone();
        let renderer = Renderer::new(&self.ini, section, &mut self.library, open);
        let rendered = match renderer.render(&template) {
            Ok(rendered) => rendered,
            Err(problem) => return self.report_for(section, problem),
        };
        self.open.push(Rc::clone(&template.file));
        let place = |index: usize| rendered.places[index].clone();
        self.read(&rendered.text, &place, Some(section))?;
        self.open.pop();
        Ok(())
    }

    /// Reports what is wrong with a template, naming the section that uses it.
    fn report_for(&mut self, section: usize, mut problem: Diagnostic) -> ParseResult {
        problem.layer.get_or_insert_with(|| SectionRef::new(&self.ini, section).layer());
        self.report(problem)
    }

    fn report(&mut self, problem: Diagnostic) -> ParseResult {
        self.errors.push(problem);
        if self.errors.0.len() < ERRORS_MAX { Ok(()) } else { Err(Stop) }
    }

    fn stop<T>(&mut self, problem: Diagnostic) -> ParseResult<T> {
        self.errors.push(problem);
        Err(Stop)
    }
}
