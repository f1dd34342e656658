//! Attributes that are words.

use super::dataspace::Space;
use super::datatype::{Class, Datatype, Padding};
use super::header::{Object, kind, shared};
use super::heap::{Collections, Fractal};
use super::source::{Fields, Hdf5Source, Result, damaged};
use super::tree::RecordTree;
use std::collections::HashMap;

/// Words of an attribute.
const WORDS_MAX: usize = 1_000_000;

/// Attributes of an object by their names; each is read when it is asked for.
pub(crate) struct Attributes<'a> {
    all: HashMap<&'a [u8], Fields<'a>>,
    /// Bytes that all words may have. A word that is named again and again would grow beyond the file.
    left: u64,
}

/// An attribute: what it is, and where its value begins.
struct Attribute<'a> {
    name: &'a [u8],
    datatype: Fields<'a>,
    space: Fields<'a>,
    value: Fields<'a>,
}

impl<'a> Attributes<'a> {
    pub(super) fn read(source: &'a Hdf5Source, object: &Object<'a>) -> Result<Attributes<'a>> {
        let mut all = HashMap::new();
        for fields in object.all(kind::ATTRIBUTE) {
            let fields = fields?;
            all.insert(attribute(fields)?.name, fields);
        }
        if let Some(mut fields) = object.find(kind::ATTRIBUTE_INFO)? {
            fields.version("attributes of an object", &[0])?;
            let has_order = fields.u8()? & 1 != 0;
            fields.skip(if has_order { 2 } else { 0 })?;
            if let (Some(heap), Some(tree)) = (fields.address()?, fields.address()?) {
                let heap = Fractal::open(source, heap)?;
                RecordTree::open(source, tree)?.walk(&mut |mut record| {
                    let fields = source.fields(heap.get(&mut record)?);
                    all.insert(attribute(fields)?.name, fields);
                    Ok(())
                })?;
            }
        }
        Ok(Attributes { all, left: source.size() })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all.contains_key(name.as_bytes())
    }

    /// The words of an attribute, if it is a text or a list of them.
    pub(crate) fn words(&mut self, name: &str) -> Option<Vec<String>> {
        let fields = *self.all.get(name.as_bytes())?;
        words(fields, &mut self.left).ok()?
    }
}

fn attribute(mut fields: Fields<'_>) -> Result<Attribute<'_>> {
    let version = fields.version("an attribute", &[1, 2, 3])?;
    let flags = fields.u8()?;
    let sizes = [fields.u16()?, fields.u16()?, fields.u16()?].map(usize::from);
    // The character set of the name.
    fields.skip(if version == 3 { 1 } else { 0 })?;
    let mut part = |size: usize| {
        let found = fields.take(size)?;
        // The head of the message has eight bytes in version 1, whose parts end at multiples of eight.
        if version == 1 {
            fields.align(8);
        }
        Ok(found)
    };
    let (name, datatype, space) = (part(sizes[0])?, part(sizes[1])?, part(sizes[2])?);
    let mut datatype = fields.source.fields(datatype);
    let mut space = fields.source.fields(space);
    if version > 1 && flags & 1 != 0 {
        datatype = shared(&mut datatype, kind::DATATYPE)?;
    }
    if version > 1 && flags & 2 != 0 {
        space = shared(&mut space, kind::SPACE)?;
    }
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(Attribute { name: &name[..end], datatype, space, value: fields })
}

fn words(fields: Fields<'_>, left: &mut u64) -> Result<Option<Vec<String>>> {
    let Attribute { datatype, space, mut value, .. } = attribute(fields)?;
    let datatype = Datatype::read(datatype)?;
    let space = Space::read(space)?;
    let count = space.count()?;
    let mut collections = Collections::default();
    let mut next = || match datatype.class {
        Class::Words => Ok(Some(until_zero(collections.get(&mut value)?))),
        Class::Text(padding) => {
            Ok(Some(trimmed(value.take_of(u64::from(datatype.size))?, padding)))
        }
        _ => Ok(None),
    };
    // h5py writes lists without items as floats.
    if let (0, Class::Float { .. }) = (count, datatype.class) {
        return Ok(Some(vec![]));
    }
    let mut list = vec![];
    for _ in 0..count {
        let Some(word) = next()? else { return Ok(None) };
        *left = left
            .checked_sub(word.len() as u64)
            .filter(|_| list.len() < WORDS_MAX)
            .ok_or_else(|| damaged("an attribute has too many words"))?;
        list.push(String::from_utf8_lossy(word).into_owned());
    }
    Ok(Some(list))
}

fn until_zero(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())]
}

fn trimmed(text: &[u8], padding: Padding) -> &[u8] {
    let last = match padding {
        Padding::Zero => return until_zero(text),
        Padding::Zeros => 0,
        Padding::Spaces => b' ',
    };
    &text[..text.iter().rposition(|byte| *byte != last).map_or(0, |at| at + 1)]
}
