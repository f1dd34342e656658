//! How much memory a message takes once it is decoded, known before it is.
//!
//! Two bytes can announce an element of some hundred. So a short message of a stranger could take all memory. The walk
//! here reads the encoding alone: it is linear, allocates nothing, and adds up what decoding would ask for.
//! What it cannot follow it refuses, so that decoding never does more than the walk has seen.

use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::fmt;

include!("generated/shapes.rs");

/// Most memory that one message from outside may take, in bytes. The largest reports stay far below.
pub const DECODED_BYTES_MAX: usize = 128 << 20;

/// What an allocator adds to a request, and rounds it up by.
const ALLOCATION: u64 = 32;
/// A few small things: the description of an error, for example.
const BASE: u64 = 1024;
/// A vector that doubles holds its elements, as many unused ones, and for a moment half of all in the old place.
const LIST: u64 = 3;
/// The nodes of a B-tree are at least half full, and have links.
const TREE: u64 = 3;
/// Elements that a vector begins with.
const LIST_FIRST: u64 = 4;
/// Elements of a B-tree's first node, with the links in it.
const TREE_FIRST: u64 = 16;

/// A message type of which it is known what its fields take.
pub trait Measured: Message + Default {
    /// Its fields.
    const SHAPE: Shape;
}

/// What the fields of a message take in memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The message's name in its `.proto` file.
    pub name: &'static str,
    /// What one message takes, without what its fields point to.
    pub bytes: usize,
    /// Number and kind of each field, in order of the numbers.
    pub fields: &'static [(u32, FieldKind)],
}

/// What a field takes beside its place in the message.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// Nothing: one number.
    Number,
    /// Numbers of this size in memory and, unless they are varints, in the encoding.
    Numbers { held: usize, encoded: Option<usize> },
    /// A string, or bytes.
    Text,
    /// Several of these.
    Texts,
    /// What the fields of one message take.
    Message(&'static Shape),
    /// Several messages.
    Messages(&'static Shape),
    /// Entries with a key and a value.
    Map(&'static Shape),
}

/// Why bytes were not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It would take more than this many bytes of memory.
    TooLarge(usize),
    /// It is no such message.
    Malformed(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::TooLarge(budget) => {
                write!(f, "decoded it would take more than {budget} bytes of memory")
            }
            Refused::Malformed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refused {}

impl From<prost::DecodeError> for Refused {
    fn from(error: prost::DecodeError) -> Refused {
        Refused::Malformed(error.to_string())
    }
}

/// Decodes a message of a stranger that takes at most `budget` bytes of memory beside its encoding.
///
/// # Errors
/// If it would take more, or is malformed.
pub fn decode_within<M: Measured>(
    bytes: impl Buf + AsRef<[u8]>,
    budget: usize,
) -> Result<M, Refused> {
    footprint::<M>(bytes.as_ref(), budget)?;
    Ok(M::decode(bytes)?)
}

/// The most memory that decoding takes, beside the encoding; at most `budget`. Decoding may still find faults.
///
/// # Errors
/// As [`decode_within`].
pub fn footprint<M: Measured>(bytes: &[u8], budget: usize) -> Result<usize, Refused> {
    let mut walk = FootprintWalk { left: budget as u64, budget };
    walk.take(BASE + M::SHAPE.bytes as u64)?;
    walk.message(&M::SHAPE, bytes, true)?;
    // What is left is part of what was a `usize`.
    Ok(budget - walk.left as usize)
}

/// Which occurrence of a field it is.
#[derive(Clone, Copy, PartialEq)]
struct Time {
    /// The first one in this part of the message.
    is_first: bool,
    /// The message has no other parts before.
    is_new: bool,
}

impl Time {
    const ONLY: Time = Time { is_first: true, is_new: true };
}

struct FootprintWalk {
    left: u64,
    budget: usize,
}

impl FootprintWalk {
    fn take(&mut self, bytes: u64) -> Result<(), Refused> {
        self.left = self.left.checked_sub(bytes).ok_or(Refused::TooLarge(self.budget))?;
        Ok(())
    }

    /// A new message, or a further part of one: that may hold each of the fields already, or not.
    fn message(&mut self, shape: &Shape, mut bytes: &[u8], is_new: bool) -> Result<(), Refused> {
        let mut seen = 0u64;
        while !bytes.is_empty() {
            let (number, wire) = decode_key(&mut bytes)?;
            let content = content(wire, &mut bytes)?;
            let Ok(at) = shape.fields.binary_search_by_key(&number, |(number, _)| *number) else {
                continue;
            };
            let is_first = seen & 1 << at == 0;
            seen |= 1 << at;
            self.field(&shape.fields[at].1, wire, content, Time { is_first, is_new })?;
        }
        Ok(())
    }

    /// Decoding refuses a field whose encoding is not that of its kind, and takes nothing for it.
    fn field(
        &mut self,
        kind: &FieldKind,
        wire: WireType,
        content: &[u8],
        time: Time,
    ) -> Result<(), Refused> {
        match *kind {
            FieldKind::Number => Ok(()),
            FieldKind::Numbers { held, encoded } => {
                let count = match (wire, encoded) {
                    (WireType::LengthDelimited, Some(encoded)) => content.len() / encoded,
                    (WireType::LengthDelimited, None) => varints(content),
                    _ => 1,
                };
                self.list(held, count, time)
            }
            FieldKind::Text => self.text(content, time),
            FieldKind::Texts => {
                self.list(size_of::<Bytes>(), 1, time)?;
                self.text(content, Time::ONLY)
            }
            FieldKind::Message(shape) => self.message(shape, content, time == Time::ONLY),
            FieldKind::Messages(shape) => {
                self.list(shape.bytes, 1, time)?;
                self.message(shape, content, true)
            }
            FieldKind::Map(entry) => {
                let first = if time.is_first { TREE_FIRST } else { 0 };
                self.take((TREE + first) * (entry.bytes as u64 + ALLOCATION))?;
                self.message(entry, content, true)
            }
        }
    }

    fn list(&mut self, bytes: usize, count: usize, time: Time) -> Result<(), Refused> {
        let (bytes, count) = (bytes as u64, count as u64);
        let first = if time.is_first { LIST_FIRST * bytes + 2 * ALLOCATION } else { 0 };
        self.take(count.saturating_mul(LIST * bytes).saturating_add(first))
    }

    /// A text that comes again doubles the room of the one before, if it is longer.
    fn text(&mut self, content: &[u8], time: Time) -> Result<(), Refused> {
        let times = if time == Time::ONLY { 1 } else { 2 };
        self.take(times * content.len() as u64 + ALLOCATION)
    }
}

/// The content of the field that begins here; `bytes` goes on behind it.
fn content<'a>(wire: WireType, bytes: &mut &'a [u8]) -> Result<&'a [u8], Refused> {
    let begin = *bytes;
    let length = match wire {
        WireType::Varint => {
            decode_varint(bytes)?;
            begin.len() - bytes.len()
        }
        WireType::ThirtyTwoBit => 4,
        WireType::SixtyFourBit => 8,
        WireType::LengthDelimited => {
            let length = decode_varint(bytes)?;
            usize::try_from(length).unwrap_or(usize::MAX)
        }
        // No message here has one, and nobody sends them any more.
        WireType::StartGroup | WireType::EndGroup => {
            return Err(Refused::Malformed("a group, which no message here has".into()));
        }
    };
    let begin = if wire == WireType::Varint { begin } else { *bytes };
    let ends = || Refused::Malformed("a field goes on beyond the end of its message".into());
    let (content, rest) = begin.split_at_checked(length).ok_or_else(ends)?;
    *bytes = rest;
    Ok(content)
}

/// How many varints end in these bytes.
fn varints(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte < 0x80).count()
}
