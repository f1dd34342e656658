//! Rendering of templates: a section's properties are the parameters, INI text the result.
//!
//! Every line of the result remembers the template line it came from, so that messages about
//! the produced sections point into a file that exists.

use std::collections::HashMap;
use std::rc::Rc;

use super::files::{Files, candidates};
use super::template::{Node, NodeKind, Template, TestOperator};
use super::{Ini, Place, TemplateFile, resolve, similar};
use crate::diag::{Code, Diagnostic, refuse};

/// Bytes that all templates of a network may produce together.
const OUTPUT_BYTES_MAX: usize = 16 << 20;
/// Pieces of templates that may be rendered for a network, loop iterations included.
const STEPS_MAX: usize = 2_000_000;
/// Longest chain of templates that include each other.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Produced text and the origin of each of its lines.
#[derive(Default)]
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) places: Vec<Place>,
}

impl Rendered {
    fn push(&mut self, text: &str, template: &Template, line: usize) {
        for (extra, piece) in text.split_inclusive('\n').enumerate() {
            if self.text.is_empty() || self.text.ends_with('\n') {
                self.places.push(template.place(line + extra));
            }
            self.text.push_str(piece);
        }
    }
}

/// Finds and parses template files, each once, and counts what rendering may still cost.
pub(super) struct TemplateLibrary<'f> {
    files: &'f dyn Files,
    folder: String,
    parsed: HashMap<String, Rc<Template>>,
    /// Every template once, also those that are missing.
    pub(super) used: Vec<TemplateFile>,
    steps: usize,
    bytes: usize,
}

impl<'f> TemplateLibrary<'f> {
    pub(super) fn new(files: &'f dyn Files, folder: &str) -> TemplateLibrary<'f> {
        let folder = folder.to_owned();
        TemplateLibrary {
            files,
            folder,
            parsed: HashMap::new(),
            used: Vec::new(),
            steps: 0,
            bytes: 0,
        }
    }

    /// The template `written` at `place`, which `open` templates are including.
    pub(super) fn load(
        &mut self,
        written: &str,
        open: &[Rc<str>],
        place: &Place,
    ) -> Result<Rc<Template>, Diagnostic> {
        let template = self.find(written, place)?;
        if open.iter().any(|file| *file == template.file) {
            let chain: Vec<&str> = open.iter().chain([&template.file]).map(|f| &**f).collect();
            let message = format!("templates include each other: {}", chain.join(" -> "));
            return Err(place
                .problem(Code::SourceSyntax, message)
                .help("Remove the inclusion that closes the loop."));
        }
        if open.len() >= INCLUDE_DEPTH_MAX {
            let message =
                format!("templates include each other deeper than {INCLUDE_DEPTH_MAX} levels");
            return Err(place.problem(Code::SourceLimit, message));
        }
        Ok(template)
    }

    fn find(&mut self, written: &str, place: &Place) -> Result<Rc<Template>, Diagnostic> {
        let paths = candidates(&self.folder, written);
        for path in &paths {
            if let Some(template) = self.parsed.get(path) {
                return Ok(Rc::clone(template));
            }
            let Some(bytes) = self.files.read(path) else { continue };
            self.used.push(TemplateFile { path: path.clone(), found: true });
            let text = super::decode(&bytes, path)?;
            let template = Template::parse(path.as_str().into(), &text).map_err(|malformed| {
                let place = Place { file: path.as_str().into(), line: malformed.line };
                place.problem(Code::SourceSyntax, malformed.message)
            })?;
            let template = Rc::new(template);
            self.parsed.insert(path.clone(), Rc::clone(&template));
            return Ok(template);
        }
        if let Some(path) = paths.first() {
            let missing = TemplateFile { path: path.clone(), found: false };
            if !self.used.contains(&missing) {
                self.used.push(missing);
            }
        }
        let shown = crate::diag::shown(written);
        let help = format!("Put the template beside the network as {}.", quoted_or(&paths));
        Err(place
            .problem(Code::FileMissing, format!("the template `{shown}` is missing"))
            .help(help))
    }
}

fn quoted_or(paths: &[String]) -> String {
    let quoted: Vec<String> = paths.iter().map(|p| format!("`{p}`")).collect();
    quoted.join(" or ")
}

/// One expansion of a template for one section.
pub(super) struct Renderer<'a, 'f> {
    pub(super) ini: &'a Ini,
    pub(super) section: usize,
    pub(super) library: &'a mut TemplateLibrary<'f>,
    /// Templates being rendered, outermost first.
    pub(super) open: Vec<Rc<str>>,
    scopes: Vec<HashMap<String, String>>,
    items: Vec<BlockElement>,
    parameters: HashMap<String, Option<String>>,
}

/// The element of an array that a `block` is at.
struct BlockElement {
    prefix: String,
    index: usize,
}

type Done = Result<(), Diagnostic>;

impl<'a, 'f> Renderer<'a, 'f> {
    pub(super) fn new(
        ini: &'a Ini,
        section: usize,
        library: &'a mut TemplateLibrary<'f>,
        open: Vec<Rc<str>>,
    ) -> Renderer<'a, 'f> {
        let (scopes, items) = (vec![HashMap::new()], Vec::new());
        Renderer { ini, section, library, open, scopes, items, parameters: HashMap::new() }
    }

    pub(super) fn render(mut self, template: &Template) -> Result<Rendered, Diagnostic> {
        let mut out = Rendered::default();
        self.open.push(Rc::clone(&template.file));
        self.nodes(template, &template.nodes, &mut out)?;
        Ok(out)
    }

    fn nodes(&mut self, template: &Template, nodes: &[Node], out: &mut Rendered) -> Done {
        nodes.iter().try_for_each(|node| self.node(template, node, out))
    }

    fn node(&mut self, template: &Template, node: &Node, out: &mut Rendered) -> Done {
        let place = template.place(node.line);
        self.spend(0, &place)?;
        match &node.kind {
            NodeKind::Text(text) => self.emit(text, template, node.line, out),
            NodeKind::Value(name) => {
                let value = self.defined(name, &place)?;
                self.emit(&value, template, node.line, out)
            }
            NodeKind::If { test, then, other } => {
                let holds = match &test.operator {
                    TestOperator::Exists => self.lookup(&test.variable)?.is_some(),
                    TestOperator::Missing => self.lookup(&test.variable)?.is_none(),
                    TestOperator::Equals(value) => self.defined(&test.variable, &place)? == *value,
                    TestOperator::Differs(value) => self.defined(&test.variable, &place)? != *value,
                };
                self.nodes(template, if holds { then } else { other }, out)
            }
            NodeKind::For { variable, start, stop, body } => {
                let range = [self.bound(start, &place)?, self.bound(stop, &place)?];
                self.repeat(template, variable, range, body, &place, out)
            }
            NodeKind::Block { array, body } => self.block(template, array, body, &place, out),
            NodeKind::Set { variable, body } => {
                let mut inner = Rendered::default();
                self.nodes(template, body, &mut inner)?;
                self.set(variable, inner.text);
                Ok(())
            }
            NodeKind::Include(file) => {
                let included = self.library.load(file, &self.open, &place)?;
                self.open.push(Rc::clone(&included.file));
                self.nodes(&included, &included.nodes, out)?;
                self.open.pop();
                Ok(())
            }
        }
    }

    fn repeat(
        &mut self,
        template: &Template,
        variable: &str,
        [start, stop]: [f64; 2],
        body: &[Node],
        place: &Place,
        out: &mut Rendered,
    ) -> Done {
        refuse!(self.lookup(variable)?.is_some() =>
            self.problem(place, Code::SourceSyntax, format!("the loop variable `{variable}` is already defined")));
        let mut number = start;
        while number < stop {
            self.spend(0, place)?;
            self.set(variable, number.to_string());
            self.nodes(template, body, out)?;
            number += 1.0;
        }
        self.scopes.iter_mut().for_each(|scope| drop(scope.remove(variable)));
        Ok(())
    }

    fn block(
        &mut self,
        template: &Template,
        array: &str,
        body: &[Node],
        place: &Place,
        out: &mut Rendered,
    ) -> Done {
        let count = self.defined(array, place)?;
        let Ok(count) = count.trim().parse::<usize>() else {
            let message = format!(
                "`{array}` must be the number of items of the array, found `{}`",
                crate::diag::shown(&count)
            );
            return Err(self.problem(place, Code::LayerParameter, message));
        };
        let prefix = self.key(array);
        for index in 0..count {
            self.spend(0, place)?;
            self.items.push(BlockElement { prefix: format!("{prefix}[{index}]"), index });
            self.scopes.push(HashMap::new());
            self.nodes(template, body, out)?;
            self.scopes.pop();
            self.items.pop();
        }
        Ok(())
    }

    fn set(&mut self, variable: &str, value: String) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(variable.to_owned(), value);
        }
    }

    fn emit(&mut self, text: &str, template: &Template, line: usize, out: &mut Rendered) -> Done {
        self.spend(text.len(), &template.place(line))?;
        out.push(text, template, line);
        Ok(())
    }

    /// Counts one step and `bytes` of output.
    fn spend(&mut self, bytes: usize, place: &Place) -> Done {
        self.library.steps += 1;
        self.library.bytes += bytes;
        if self.library.bytes > OUTPUT_BYTES_MAX {
            let message = format!("the templates produce more than {OUTPUT_BYTES_MAX} bytes");
            return Err(self.problem(place, Code::SourceLimit, message));
        }
        if self.library.steps > STEPS_MAX {
            let message = format!("the templates take more than {STEPS_MAX} steps to render");
            return Err(self.problem(place, Code::SourceLimit, message));
        }
        Ok(())
    }

    /// A bound of `range`: a number, or the name of a parameter that holds one.
    fn bound(&mut self, word: &str, place: &Place) -> Result<f64, Diagnostic> {
        let text = match word.parse::<f64>() {
            Ok(_) => word.to_owned(),
            Err(_) => self.defined(word, place)?,
        };
        match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number.abs() <= STEPS_MAX as f64 => Ok(number),
            _ => {
                let found = crate::diag::shown(&text);
                let message = format!(
                    "the bound `{word}` of `range` must be a number up to {STEPS_MAX}, \
                     found `{found}`"
                );
                Err(self.problem(place, Code::LayerParameter, message))
            }
        }
    }

    fn defined(&mut self, name: &str, place: &Place) -> Result<String, Diagnostic> {
        if let Some(value) = self.lookup(name)? {
            return Ok(value);
        }
        let section = &self.ini.sections[self.section];
        let known = section.properties.keys().map(|k| &**k);
        let help = match similar(name, known) {
            Some(near) => format!("Did you mean `{near}`? The section sets no `{name}`."),
            None => format!("Set `{name}` in the section that uses the template."),
        };
        let message = format!("the template needs the parameter `{}`", crate::diag::shown(name));
        Err(self.problem(place, Code::LayerParameter, message).help(help))
    }

    fn lookup(&mut self, name: &str) -> Result<Option<String>, Diagnostic> {
        if name == "#" {
            return Ok(self.items.last().map(|item| item.index.to_string()));
        }
        if let Some(value) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            return Ok(Some(value.clone()));
        }
        let section = &self.ini.sections[self.section];
        let key = self.key(name);
        match &*key {
            "SECTION_NAME" => return Ok(Some(section.name.to_string())),
            "SECTION_FILE_NAME" => return Ok(Some(super::files::file_name_of(&section.name))),
            _ => {}
        }
        if let Some(value) = self.parameters.get(&key) {
            return Ok(value.clone());
        }
        let value = resolve::property(self.ini, self.section, &key)?;
        self.parameters.insert(key, value.clone());
        Ok(value)
    }

    /// The property a name stands for: `.P` belongs to the innermost array item that has it.
    fn key(&self, name: &str) -> String {
        if !name.starts_with('.') {
            return name.to_owned();
        }
        let section = &self.ini.sections[self.section];
        let mut keys = self.items.iter().rev().map(|item| format!("{}{name}", item.prefix));
        keys.find(|key| section.properties.contains_key(key.as_str()))
            .unwrap_or_else(|| name.to_owned())
    }

    /// A finding at a template's line, for the section that is being expanded.
    fn problem(&self, place: &Place, code: Code, message: String) -> Diagnostic {
        self.ini.problem(self.section, place, code, message)
    }
}
