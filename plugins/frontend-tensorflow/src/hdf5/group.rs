//! Groups: names, and the objects that they stand for.

use super::header::{Object, kind};
use super::heap::{Fractal, NameHeap};
use super::source::{Fields, Hdf5Source, Result, damaged};
use super::tree::{RecordTree, walk_old};
use std::collections::HashMap;

/// The kind of nodes of groups.
const GROUP_NODE: u8 = 0;
/// A name in an old group that stands for another name.
const SOFT: u32 = 2;

/// The links of a group to objects of the file. Soft links and those to other files are left out.
#[derive(Default)]
pub(super) struct Group {
    /// In the order in which they were made, if the file knows it, else by name.
    pub(super) names: Vec<String>,
    places: HashMap<String, u64>,
}

/// A link that is read: its name, its place in the order, and its object.
struct Link<'a> {
    name: &'a [u8],
    order: u64,
    object: u64,
}

pub(super) fn is_group(object: &Object<'_>) -> bool {
    [kind::SYMBOLS, kind::LINK_INFO, kind::LINK].into_iter().any(|kind| object.has(kind))
}

impl Group {
    /// `left` are the bytes of names that may still be kept.
    pub(super) fn read(source: &Hdf5Source, object: &Object<'_>, left: &mut u64) -> Result<Group> {
        let mut links = vec![];
        let mut keep = |link: Link<'_>| {
            // A file has each name for itself, and a few bytes beside it.
            *left = left
                .checked_sub(link.name.len() as u64 + 8)
                .ok_or_else(|| damaged("groups have too many names"))?;
            let name = String::from_utf8_lossy(link.name).into_owned();
            links.push((link.order, name, link.object));
            Ok(())
        };
        if let Some(mut fields) = object.find(kind::SYMBOLS)? {
            let tree = fields.some_address()?;
            let names = NameHeap::open(source, fields.some_address()?)?;
            let key = (GROUP_NODE, source.size_width);
            // What stands before a child is for searching.
            walk_old(source, tree, key, &mut |_, node| symbols(source, node, &names, &mut keep))?;
        }
        for fields in object.all(kind::LINK) {
            link(fields?)?.map_or(Ok(()), &mut keep)?;
        }
        if let Some(fields) = object.find(kind::LINK_INFO)? {
            dense(source, fields, &mut keep)?;
        }
        links.sort();
        let places = links.iter().map(|(_, name, object)| (name.clone(), *object)).collect();
        Ok(Group { names: links.into_iter().map(|(_, name, _)| name).collect(), places })
    }

    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.places.get(name).copied()
    }
}

/// A node of an old group.
fn symbols<'a>(
    source: &'a Hdf5Source,
    node: u64,
    names: &NameHeap<'a>,
    keep: &mut dyn FnMut(Link<'a>) -> Result<()>,
) -> Result<()> {
    let mut fields = source.signed(node, b"SNOD")?;
    fields.version("a node of a group", &[1])?;
    fields.skip(1)?;
    let count = fields.u16()?;
    source.count(u64::from(count))?;
    for _ in 0..count {
        let name = names.get(fields.number(source.address_width)?)?;
        let object = fields.address()?;
        let is_soft = fields.u32()? == SOFT;
        fields.skip(20)?;
        if let Some(object) = object.filter(|_| !is_soft) {
            keep(Link { name, order: 0, object })?;
        }
    }
    Ok(())
}

/// The links of a group that has many.
fn dense(
    source: &Hdf5Source,
    mut fields: Fields<'_>,
    keep: &mut dyn FnMut(Link<'_>) -> Result<()>,
) -> Result<()> {
    fields.version("the links of a group", &[0])?;
    let has_order = fields.u8()? & 1 != 0;
    fields.skip(if has_order { 8 } else { 0 })?;
    let (Some(heap), Some(tree)) = (fields.address()?, fields.address()?) else { return Ok(()) };
    let heap = Fractal::open(source, heap)?;
    RecordTree::open(source, tree)?.walk(&mut |mut record| {
        // A hash of the name.
        record.skip(4)?;
        link(source.fields(heap.get(&mut record)?))?.map_or(Ok(()), &mut *keep)
    })
}

/// A link to an object; none if it is to a name.
fn link(mut fields: Fields<'_>) -> Result<Option<Link<'_>>> {
    fields.version("a link", &[1])?;
    let flags = fields.u8()?;
    let has = |bit: u8| flags & bit != 0;
    let is_hard = !has(8) || fields.u8()? == 0;
    let order = if has(4) { fields.number(8)? } else { 0 };
    fields.skip(if has(16) { 1 } else { 0 })?;
    let length = fields.number(1 << (flags & 3))?;
    let name = fields.take_of(length)?;
    if !is_hard {
        return Ok(None);
    }
    Ok(fields.address()?.map(|object| Link { name, order, object }))
}
