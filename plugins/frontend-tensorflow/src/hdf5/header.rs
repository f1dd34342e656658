//! Objects: the messages that say what a group or dataset is.

use super::source::{Fields, Hdf5Source, Result, damaged, unknown};
use onnxd_plugin_sdk::diagnostics::refuse;

/// Messages of an object. The format counts those of a kind in two bytes.
const MESSAGES_MAX: usize = 1 << 18;

/// What a message says.
pub(super) mod kind {
    pub(crate) const SPACE: u16 = 0x01;
    pub(crate) const LINK_INFO: u16 = 0x02;
    pub(crate) const DATATYPE: u16 = 0x03;
    pub(crate) const OLD_FILL: u16 = 0x04;
    pub(crate) const FILL: u16 = 0x05;
    pub(crate) const LINK: u16 = 0x06;
    pub(crate) const FILES: u16 = 0x07;
    pub(crate) const LAYOUT: u16 = 0x08;
    pub(crate) const FILTERS: u16 = 0x0b;
    pub(crate) const ATTRIBUTE: u16 = 0x0c;
    pub(crate) const CONTINUATION: u16 = 0x10;
    pub(crate) const SYMBOLS: u16 = 0x11;
    pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;
}

/// The message is in another object, and this one says where.
const SHARED: u8 = 2;

struct Message<'a> {
    kind: u16,
    flags: u8,
    bytes: &'a [u8],
}

/// An object by its messages.
pub(super) struct Object<'a> {
    source: &'a Hdf5Source,
    messages: Vec<Message<'a>>,
    /// Where the object goes on.
    open: Vec<(u64, u64)>,
    /// Bytes that its parts may still have. They do not overlap, so together they fit into the file.
    left: u64,
}

impl<'a> Object<'a> {
    pub(super) fn read(source: &'a Hdf5Source, address: u64) -> Result<Object<'a>> {
        let mut object = Object { source, messages: vec![], open: vec![], left: source.size() };
        let is_new = source.from(address)?.take(4)? == b"OHDR";
        match is_new {
            true => object.read_new(address)?,
            false => object.read_old(address)?,
        }
        Ok(object)
    }

    /// Version 1: without signatures.
    fn read_old(&mut self, address: u64) -> Result<()> {
        let mut fields = self.source.from(address)?;
        fields.version("an object", &[1])?;
        fields.skip(7)?;
        let mut size = u64::from(fields.u32()?);
        fields.skip(4)?;
        loop {
            let mut part = self.source.fields(self.part(&mut fields, size)?);
            while part.left() >= 8 {
                let (kind, size, flags) = (part.u16()?, part.u16()?, part.u8()?);
                part.skip(3)?;
                let bytes = part.take(usize::from(size))?;
                self.add(Message { kind, flags, bytes })?;
            }
            let Some((address, more)) = self.open.pop() else { return Ok(()) };
            (fields, size) = (self.source.from(address)?, more);
        }
    }

    /// Version 2: with signatures and checksums.
    fn read_new(&mut self, address: u64) -> Result<()> {
        let mut fields = self.source.signed(address, b"OHDR")?;
        fields.version("an object", &[2])?;
        let flags = fields.u8()?;
        let times = if flags & 0x20 == 0 { 0 } else { 16 };
        let bounds = if flags & 0x10 == 0 { 0 } else { 4 };
        fields.skip(times + bounds)?;
        let mut size = fields.number(1 << (flags & 3))?;
        let order = if flags & 4 == 0 { 0 } else { 2 };
        loop {
            let mut part = self.source.fields(self.part(&mut fields, size)?);
            fields.checksum()?;
            // What is shorter is a gap.
            while part.left() >= 4 + order {
                let (kind, size, flags) = (part.u8()?, part.u16()?, part.u8()?);
                part.skip(order)?;
                let bytes = part.take(usize::from(size))?;
                self.add(Message { kind: u16::from(kind), flags, bytes })?;
            }
            let Some((address, more)) = self.open.pop() else { return Ok(()) };
            fields = self.source.signed(address, b"OCHK")?;
            // The size counts the signature and the checksum.
            size =
                more.checked_sub(8).ok_or_else(|| damaged("a part of an object is too small"))?;
        }
    }

    /// The bytes of a part.
    fn part(&mut self, fields: &mut Fields<'a>, size: u64) -> Result<&'a [u8]> {
        let left = self.left.checked_sub(size);
        self.left = left.ok_or_else(|| damaged("an object goes on in itself"))?;
        fields.take_of(size)
    }

    /// Keeps a message, or that the object goes on.
    fn add(&mut self, message: Message<'a>) -> Result<()> {
        self.source.count(1)?;
        match message.kind {
            0 => {}
            kind::CONTINUATION => {
                let mut fields = self.source.fields(message.bytes);
                self.open.push((fields.some_address()?, fields.size()?));
            }
            _ if self.messages.len() == MESSAGES_MAX => {
                return Err(damaged("an object has too many messages"));
            }
            _ => self.messages.push(message),
        }
        Ok(())
    }

    pub(super) fn has(&self, kind: u16) -> bool {
        self.messages.iter().any(|message| message.kind == kind)
    }

    /// All messages of a kind.
    pub(super) fn all(&self, kind: u16) -> impl Iterator<Item = Result<Fields<'a>>> {
        let found = self.messages.iter().filter(move |message| message.kind == kind);
        found.map(move |message| match message.flags & SHARED {
            0 => Ok(self.source.fields(message.bytes)),
            _ => shared(&mut self.source.fields(message.bytes), kind),
        })
    }

    /// The first message of a kind.
    pub(super) fn find(&self, kind: u16) -> Result<Option<Fields<'a>>> {
        self.all(kind).next().transpose()
    }

    /// As [`Object::find`], of a kind that every such object has.
    pub(super) fn get(&self, kind: u16) -> Result<Fields<'a>> {
        self.find(kind)?.ok_or_else(|| damaged(format!("an object has no message {kind}")))
    }
}

/// The message of another object, such as a datatype that has a name.
pub(super) fn shared<'a>(fields: &mut Fields<'a>, kind: u16) -> Result<Fields<'a>> {
    let version = fields.version("a shared message", &[1, 2, 3])?;
    let place = fields.u8()?;
    refuse!(version == 3 && place != 2 => unknown("messages that are shared in a heap"));
    fields.skip(if version == 1 { 6 } else { 0 })?;
    let source = fields.source;
    let object = Object::read(source, fields.some_address()?)?;
    let found = object.messages.iter().find(|message| message.kind == kind);
    match found.filter(|message| message.flags & SHARED == 0) {
        Some(message) => Ok(source.fields(message.bytes)),
        None => Err(damaged("a shared message is missing")),
    }
}
