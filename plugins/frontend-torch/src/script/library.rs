//! All code of an archive, parsed module by module as it is asked for.
//!
//! Class `__torch__.a.b.C` is in module `__torch__.a.b`. Before torch 1.3 the classes had no names: each module has a
//! file of methods, which is class `Module` here.

use super::parse::parse;
use crate::diag::Diagnostic;
use crate::syntax::ast::{Class, ClassKind, CodeFile, CodeFunction};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Most statements and expressions of all modules.
const NODES_MAX: usize = 4_000_000;
/// The class of the methods that stand at top level.
const UNNAMED: &str = "Module";

/// Gives the code of a module by its path, or none.
type ReadCode<'a> = dyn Fn(&str) -> Option<Bytes> + 'a;

pub(crate) struct CodeLibrary<'a> {
    read: Box<ReadCode<'a>>,
    modules: RefCell<HashMap<Box<str>, Option<Rc<Indexed>>>>,
    nodes_left: Cell<usize>,
}

/// What a module defines, by name.
struct Indexed {
    classes: HashMap<Rc<str>, Rc<Class>>,
    functions: HashMap<Rc<str>, Rc<CodeFunction>>,
}

impl<'a> CodeLibrary<'a> {
    pub(crate) fn new(code: impl Fn(&str) -> Option<Bytes> + 'a) -> CodeLibrary<'a> {
        let modules = RefCell::default();
        CodeLibrary { read: Box::new(code), modules, nodes_left: Cell::new(NODES_MAX) }
    }

    /// A class if there is one. Classes of C++ (`__torch__.torch.classes...`) may have no code.
    pub(crate) fn find_class(&self, name: &str) -> Result<Option<Rc<Class>>, Diagnostic> {
        let Some((module, class)) = name.rsplit_once('.') else { return Ok(None) };
        let module = self.module(module)?;
        Ok(module.and_then(|module| module.classes.get(class).cloned()))
    }

    pub(crate) fn find_function(&self, name: &str) -> Result<Option<Rc<CodeFunction>>, Diagnostic> {
        let Some((module, function)) = name.rsplit_once('.') else { return Ok(None) };
        let module = self.module(module)?;
        Ok(module.and_then(|module| module.functions.get(function).cloned()))
    }

    fn module(&self, path: &str) -> Result<Option<Rc<Indexed>>, Diagnostic> {
        if let Some(known) = self.modules.borrow().get(path) {
            return Ok(known.clone());
        }
        let module = match (self.read)(path) {
            None => None,
            Some(source) => {
                let file = parse(path, &source, self.nodes_left.get())?;
                self.nodes_left.set(self.nodes_left.get().saturating_sub(file.nodes));
                Some(Rc::new(index(file)))
            }
        };
        self.modules.borrow_mut().insert(path.into(), module.clone());
        Ok(module)
    }
}

fn index(mut file: CodeFile) -> Indexed {
    if file.version.is_some() && file.classes.is_empty() {
        file.classes.push(Rc::new(unnamed(file.functions.clone())));
    }
    let classes = file.classes.into_iter().map(|class| (class.name.clone(), class)).collect();
    let functions = file.functions.into_iter().map(|f| (f.name.clone(), f)).collect();
    Indexed { classes, functions }
}

fn unnamed(methods: Vec<Rc<CodeFunction>>) -> Class {
    Class { name: UNNAMED.into(), kind: ClassKind::Module, methods, ..Class::default() }
}
