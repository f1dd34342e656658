//! All code of an archive, read file by file as it is asked for.
//!
//! Class `__torch__.a.b.C` is in `__torch__/a/b.py` under `code/`, and class `__torch__.C` in `__torch__.py`. Before
//! torch 1.3 each module has a file of methods instead, which `model.json` names ([`Library::file`]).
#![allow(dead_code)]

use super::ast::{Class, File, Function};
use super::parse::parse_within;
use crate::diag::{Code, Diagnostic};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Most statements and expressions of all files.
const NODES_MAX: usize = 4_000_000;

/// Gives a member by its path under `code/`, or none.
type Read<'a> = dyn Fn(&str) -> Result<Option<Bytes>, Diagnostic> + 'a;

pub(crate) struct Library<'a> {
    read: Box<Read<'a>>,
    files: RefCell<HashMap<Box<str>, Option<Rc<Indexed>>>>,
    nodes_left: Cell<usize>,
}

/// A file and what it defines by name.
struct Indexed {
    file: Rc<File>,
    classes: HashMap<Rc<str>, Rc<Class>>,
    functions: HashMap<Rc<str>, Rc<Function>>,
}

impl<'a> Library<'a> {
    pub(crate) fn new(
        code: impl Fn(&str) -> Result<Option<Bytes>, Diagnostic> + 'a,
    ) -> Library<'a> {
        let files = RefCell::default();
        Library { read: Box::new(code), files, nodes_left: Cell::new(NODES_MAX) }
    }

    /// `__torch__.a.b.C`; an error if the archive has no such class.
    pub(crate) fn class(&self, name: &str) -> Result<Rc<Class>, Diagnostic> {
        self.find_class(name)?.ok_or_else(|| missing("class", name))
    }

    /// `__torch__.a.f`; an error if the archive has no such function.
    pub(crate) fn function(&self, name: &str) -> Result<Rc<Function>, Diagnostic> {
        self.find_function(name)?.ok_or_else(|| missing("function", name))
    }

    /// A class if there is one. Classes of C++ (`__torch__.torch.classes...`) may have no code.
    pub(crate) fn find_class(&self, name: &str) -> Result<Option<Rc<Class>>, Diagnostic> {
        let Some((module, class)) = name.rsplit_once('.') else { return Ok(None) };
        let file = self.indexed(&member(module))?;
        Ok(file.and_then(|file| file.classes.get(class).cloned()))
    }

    pub(crate) fn find_function(&self, name: &str) -> Result<Option<Rc<Function>>, Diagnostic> {
        let Some((module, function)) = name.rsplit_once('.') else { return Ok(None) };
        let file = self.indexed(&member(module))?;
        Ok(file.and_then(|file| file.functions.get(function).cloned()))
    }

    /// A file by its path under `code/`.
    pub(crate) fn file(&self, path: &str) -> Result<Rc<File>, Diagnostic> {
        let file = self.indexed(path)?.ok_or_else(|| missing("file", path))?;
        Ok(file.file.clone())
    }

    fn indexed(&self, path: &str) -> Result<Option<Rc<Indexed>>, Diagnostic> {
        if let Some(known) = self.files.borrow().get(path) {
            return Ok(known.clone());
        }
        let indexed = match (self.read)(path)? {
            None => None,
            Some(source) => {
                let file = parse_within(path, &source, self.nodes_left.get())?;
                self.nodes_left.set(self.nodes_left.get().saturating_sub(file.nodes));
                Some(Rc::new(index(file)))
            }
        };
        self.files.borrow_mut().insert(path.into(), indexed.clone());
        Ok(indexed)
    }
}

fn index(file: File) -> Indexed {
    let classes = file.classes.iter().map(|class| (class.name.clone(), class.clone())).collect();
    let functions = file.functions.iter().map(|f| (f.name.clone(), f.clone())).collect();
    Indexed { file: Rc::new(file), classes, functions }
}

/// `__torch__.a.b` is in `__torch__/a/b.py`.
fn member(module: &str) -> String {
    format!("{}.py", module.replace('.', "/"))
}

fn missing(what: &str, name: &str) -> Diagnostic {
    let message = format!("the code of the archive has no {what} `{name}`");
    Diagnostic::new(Code::SourceTruncated, message)
        .help("Save the model again with `torch.jit.save`.")
}
