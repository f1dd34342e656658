//! Reads HDF5 files, as far as Keras and h5py write them. Nothing is written, and what is contiguous is not copied.
//!
//! A file is a tree of objects. `header` reads the messages of which an object consists, and `group` finds the objects
//! in a group. `attribute` gives words, and `dataset` tensors, whose `chunks` may have gone through `filters`. Parts
//! of a file are found through `tree`, `heap` and `arrays`, and `source` bounds what is read.

mod arrays;
mod attribute;
mod chunk;
mod chunks;
mod dataset;
mod dataspace;
mod datatype;
mod filters;
mod group;
mod header;
mod heap;
mod source;
mod sum;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use attribute::Attributes;
pub(crate) use dataset::{Content, Dataset};
pub(crate) use datatype::{Bits, Class, Datatype};
pub(crate) use source::{Error, Result};

use bytes::{Buf, Bytes};
use group::{Group, is_group};
use header::{Object, kind};
use onnxd_plugin_sdk::diagnostics::refuse;
use source::{Hdf5Source, damaged};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Anything may stand before a file, which then begins here, or at twice this, four times and so on.
const USER_BLOCK: usize = 512;

pub(crate) struct Hdf5File {
    source: Hdf5Source,
    root: u64,
    /// The groups that were read, by their addresses.
    groups: RefCell<HashMap<u64, Rc<Group>>>,
    /// Bytes of names that may still be kept.
    names_left: Cell<u64>,
}

impl Hdf5File {
    pub(crate) fn open(mut bytes: Bytes) -> Result<Hdf5File> {
        let is_begin = |at: &usize| bytes[*at..].starts_with(SIGNATURE);
        let later = std::iter::successors(Some(USER_BLOCK), |at| at.checked_mul(2));
        let begin =
            std::iter::once(0).chain(later).take_while(|at| *at < bytes.len()).find(is_begin);
        let begin = begin.ok_or_else(|| damaged("it does not begin as HDF5 files do"))?;
        bytes.advance(begin);
        Hdf5File::from_source(Hdf5Source::new(bytes))
    }

    /// Opens a file whose checksums are wrong.
    #[cfg(test)]
    pub(crate) fn open_changed(bytes: Bytes) -> Result<Hdf5File> {
        let mut source = Hdf5Source::new(bytes);
        source.has_sums = false;
        Hdf5File::from_source(source)
    }

    fn from_source(mut source: Hdf5Source) -> Result<Hdf5File> {
        let root = superblock(&mut source)?;
        let names_left = source.size().into();
        Ok(Hdf5File { source, root, groups: RefCell::default(), names_left })
    }

    fn read(&self, address: u64) -> Result<Object<'_>> {
        Object::read(&self.source, address)
    }

    /// The links of the group at an address.
    fn links(&self, address: u64) -> Result<Rc<Group>> {
        if let Some(found) = self.groups.borrow().get(&address) {
            return Ok(found.clone());
        }
        let mut left = self.names_left.get();
        let group = Group::read(&self.source, &self.read(address)?, &mut left);
        self.names_left.set(left);
        let group = Rc::new(group?);
        self.groups.borrow_mut().insert(address, group.clone());
        Ok(group)
    }

    /// Where an object is; none if there is none.
    fn find(&self, path: &str) -> Option<u64> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(self.root, |address, name| self.links(address).ok()?.get(name))
    }

    /// Where a group is. There always is a root.
    fn group(&self, path: &str) -> Option<u64> {
        let address = self.find(path)?;
        let is_root = path.is_empty();
        (is_root || is_group(&self.read(address).ok()?)).then_some(address)
    }

    pub(crate) fn has_group(&self, path: &str) -> bool {
        self.group(path).is_some()
    }

    /// Names of what is in a group, and of the wanted kind.
    fn names(&self, path: &str, is_wanted: fn(&Object<'_>) -> bool) -> Option<Vec<String>> {
        let links = self.links(self.group(path)?).ok()?;
        let mut names = vec![];
        for name in &links.names {
            if is_wanted(&self.read(links.get(name)?).ok()?) {
                names.push(name.clone());
            }
        }
        Some(names)
    }

    /// Names of the groups in a group; none if it is damaged.
    pub(crate) fn groups(&self, path: &str) -> Option<Vec<String>> {
        self.names(path, is_group)
    }

    /// Names of the datasets in a group; none if it is damaged.
    pub(crate) fn datasets(&self, path: &str) -> Option<Vec<String>> {
        self.names(path, |object| object.has(kind::LAYOUT))
    }

    /// The attributes of a group or dataset.
    pub(crate) fn attributes(&self, path: &str) -> Option<Attributes<'_>> {
        Attributes::read(&self.source, &self.read(self.find(path)?).ok()?).ok()
    }

    /// A dataset; none if there is none at the path.
    pub(crate) fn dataset(&self, path: &str) -> Result<Option<Dataset<'_>>> {
        let Some(address) = self.find(path) else { return Ok(None) };
        let object = self.read(address)?;
        match object.has(kind::LAYOUT) {
            true => Dataset::open(&self.source, object).map(Some),
            false => Ok(None),
        }
    }
}

/// Reads the head of a file: how wide its numbers are, and where its root is.
fn superblock(source: &mut Hdf5Source) -> Result<u64> {
    let mut fields = source.from(0)?;
    fields.skip(SIGNATURE.len())?;
    let version = fields.version("a head", &[0, 1, 2, 3])?;
    let is_old = version < 2;
    fields.skip(if is_old { 4 } else { 0 })?;
    let (address_width, size_width) = (fields.u8()?, fields.u8()?);
    let is_sound = |width: &u8| matches!(width, 2 | 4 | 8);
    refuse!(![address_width, size_width].iter().all(is_sound) => damaged("its numbers have an odd width"));
    (source.address_width, source.size_width) = (address_width.into(), size_width.into());
    let mut fields = source.from(0)?;
    fields.skip(match version {
        0 => 24,
        1 => 28,
        _ => 12,
    })?;
    let begin = fields.some_address()?;
    fields.address()?;
    let end = fields.some_address()?;
    // A download that broke off is told from a file that is wrong.
    refuse!(end.saturating_sub(begin) > source.size() =>
        damaged(format!("it ends after {} of {end} bytes", source.size())));
    if is_old {
        // The place of a driver, and of the root's name.
        fields.address()?;
        fields.address()?;
        return fields.some_address();
    }
    let root = fields.some_address()?;
    fields.checksum()?;
    Ok(root)
}
