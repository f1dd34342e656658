//! A loaded TorchScript archive: the module as objects, the constants of its code, and the code.

mod old;

use super::pickle::{self, Context, Pickled};
use super::storage::{StorageSource, Storages, StoredTensor, refuse_big_endian};
use super::zip::Archive;
use super::{damaged, over_limit};
use crate::diag::{Diagnostic, refuse};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of all code together.
const CODE_MAX: usize = 64 << 20;

/// A TorchScript archive of any version.
#[derive(Debug)]
pub(crate) struct ScriptArchive {
    /// The module that was saved.
    pub(crate) root: Pickled,
    /// `CONSTANTS.c0` and so on.
    pub(crate) constants: Vec<Pickled>,
    /// Version of the file, for upgraders.
    pub(crate) version: u32,
    /// Text by module path: `__torch__.a.b` has the class `__torch__.a.b.C`.
    pub(crate) code: BTreeMap<Rc<str>, Bytes>,
    /// Written by torch 1.0 to 1.2: module `__torch__.x` of the code has the methods of class `__torch__.x.Module` as
    /// functions at top level, and objects without code have class `__torch__.Module`.
    pub(crate) old: bool,
    archive: Archive,
}

impl ScriptArchive {
    /// Reads all objects and code; tensors stay in the file.
    pub(crate) fn open(archive: Archive) -> Result<ScriptArchive, Diagnostic> {
        refuse_big_endian(&archive)?;
        let version = version(&archive)?;
        let old = archive.has("model.json") && !archive.has("data.pkl");
        let code = code(&archive, old)?;
        let (root, table) = match old {
            true => old::read(&archive)?,
            false => {
                // Torch 1.3 could still keep the tensors of its objects in `model.json`.
                let has_table = archive.has("model.json");
                let table = has_table.then(|| old::tensors(&archive)).transpose()?;
                let table = table.unwrap_or_default();
                (object(&archive, "data.pkl", "data/", &table)?, table)
            }
        };
        let constants = constants(&archive, table)?;
        refuse!(!matches!(root, Pickled::Object(_)) =>
            damaged(format!("the archive has {} in place of a module", root.kind())));
        Ok(ScriptArchive { root, constants, version, code, old, archive })
    }

    /// A warning if the file may be damaged, as far as it was read.
    pub(crate) fn doubt(&self) -> Option<Diagnostic> {
        super::zip::doubt(&self.archive)
    }

    /// What maps the code of a module path to lines of the user's source, if the archive has it.
    pub(crate) fn debug(&self, module: &str) -> Result<Option<Bytes>, Diagnostic> {
        let name = match self.old {
            true => format!("debug/{}.pkl", module.strip_prefix("__torch__.").unwrap_or(module)),
            false => format!("code/{}.py.debug_pkl", module.replace('.', "/")),
        };
        self.archive.has(&name).then(|| self.archive.read(&name)).transpose()
    }
}

/// A pickle of an archive whose storages are in a folder.
fn object(
    archive: &Archive,
    name: &str,
    folder: &str,
    table: &[Rc<StoredTensor>],
) -> Result<Pickled, Diagnostic> {
    let storages = Storages::new(StorageSource::Archive(archive, folder), "");
    let context = Context { storages: Some(&storages), table, ..Context::default() };
    pickle::read(&archive.read(name)?, &context)?.checked()
}

/// The constants of the code, which were part of the table of tensors before they had a member of their own.
fn constants(archive: &Archive, table: Vec<Rc<StoredTensor>>) -> Result<Vec<Pickled>, Diagnostic> {
    if !archive.has("constants.pkl") {
        return Ok(table.into_iter().map(Pickled::Tensor).collect());
    }
    let all = object(archive, "constants.pkl", "constants/", &table)?;
    all.items().ok_or_else(|| damaged(format!("the constants are {}, no tuple", all.kind())))
}

fn version(archive: &Archive) -> Result<u32, Diagnostic> {
    let name = if archive.has(".data/version") { ".data/version" } else { "version" };
    let bytes = archive.read(name)?;
    let text = std::str::from_utf8(&bytes).ok();
    let number = text.and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| damaged(format!("`{name}` is no number")))
}

fn code(archive: &Archive, old: bool) -> Result<BTreeMap<Rc<str>, Bytes>, Diagnostic> {
    let (mut code, mut size) = (BTreeMap::new(), 0usize);
    // Classes and functions apart from modules were in a folder of their own once.
    for name in archive.within("code/").chain(archive.within("libs/")) {
        let Some(path) = name["code/".len()..].strip_suffix(".py") else { continue };
        let module = path.replace('/', ".");
        let module = match old && name.starts_with("code/") {
            true => format!("__torch__.{module}"),
            false => module,
        };
        let text = archive.read(name)?;
        size = size.saturating_add(text.len());
        refuse!(size > CODE_MAX => over_limit(format!("the archive has more than {CODE_MAX} bytes of code")));
        code.insert(module.into(), text);
    }
    Ok(code)
}

#[cfg(test)]
mod tests;
