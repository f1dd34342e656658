//! The stack machine of pickles, protocols 2 to 5, on data alone.

use super::context::Context;
use super::tree::Containers;
use super::{Pickled, PickledTree, reduce};
use crate::problem::{damaged, over_limit, truncated, unsupported};
use onnxd_diagnostics::{Diagnostic, refuse};
use std::collections::HashMap;
use std::rc::Rc;

/// Values that a pickle pushes, and as many that it remembers.
const VALUES_MAX: usize = 1 << 22;
/// Tuples, lists, dicts, objects and tensors.
const CONTAINERS_MAX: usize = 1 << 19;
/// Tuples inside each other, and what objects are made of.
const TUPLES_MAX: usize = 500;

/// A value with the number of tuples inside each other that it has.
pub(super) type StackEntry = (Pickled, usize);

pub(super) struct PickleReader<'a> {
    /// First, so that it is dropped before what it holds.
    pub(super) made: Containers,
    bytes: &'a [u8],
    at: usize,
    pub(super) stack: Vec<StackEntry>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, StackEntry>,
    pushed: usize,
    memorized: usize,
    containers: usize,
    pub(super) context: &'a Context<'a>,
}

/// Reads a pickle.
pub fn read(bytes: &[u8], context: &Context) -> Result<PickledTree, Diagnostic> {
    read_one(bytes, context).map(|(tree, _)| tree)
}

/// Reads the pickle that bytes begin with. Also tells where it ends.
pub fn read_one(bytes: &[u8], context: &Context) -> Result<(PickledTree, usize), Diagnostic> {
    let mut reader = PickleReader {
        made: Containers::default(),
        bytes,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        pushed: 0,
        memorized: 0,
        containers: 0,
        context,
    };
    loop {
        let op = reader.byte()?;
        if op == b'.' {
            break;
        }
        reader.step(op)?;
    }
    let (root, _) = reader.pop()?;
    reduce::settle(&reader.made);
    Ok((PickledTree::new(root, std::mem::take(&mut reader.made)), reader.at))
}

impl<'a> PickleReader<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], Diagnostic> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(count).ok().and_then(|count| rest.get(..count));
        let taken = taken.ok_or_else(|| truncated("the pickle ends early"))?;
        self.at += taken.len();
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Diagnostic> {
        Ok(self.take(1)?[0])
    }

    /// An unsigned little-endian number.
    fn number(&mut self, bytes: u64) -> Result<u64, Diagnostic> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |n, byte| (n << 8) | u64::from(*byte)))
    }

    /// Text after its length, which has so many bytes.
    fn string(&mut self, length: u64) -> Result<Rc<str>, Diagnostic> {
        let count = self.number(length)?;
        utf8(self.take(count)?)
    }

    fn line(&mut self) -> Result<Rc<str>, Diagnostic> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| truncated("the pickle ends early"))?;
        self.at += end + 1;
        utf8(&rest[..end])
    }

    pub(super) fn push(&mut self, value: Pickled) -> Result<(), Diagnostic> {
        self.push_entry((value, 0))
    }

    fn push_entry(&mut self, entry: StackEntry) -> Result<(), Diagnostic> {
        self.pushed += 1;
        refuse!(self.pushed > VALUES_MAX => over_limit(format!("the pickle has more than {VALUES_MAX} values")));
        self.stack.push(entry);
        Ok(())
    }

    /// Pushes a container, which is counted, and held if it can be filled later.
    pub(super) fn push_container(
        &mut self,
        value: Pickled,
        depth: usize,
    ) -> Result<(), Diagnostic> {
        self.containers += 1;
        if self.containers > CONTAINERS_MAX || depth > TUPLES_MAX {
            return Err(over_limit(format!(
                "the pickle has more than {CONTAINERS_MAX} objects, or {TUPLES_MAX} inside each other"
            )));
        }
        if matches!(value, Pickled::List(_) | Pickled::Dict(_) | Pickled::Object(_)) {
            self.made.0.push(value.clone());
        }
        self.push_entry((value, depth))
    }

    fn push_tuple(&mut self, items: Vec<StackEntry>) -> Result<(), Diagnostic> {
        let depth = deepest(&items) + 1;
        let items: Rc<[Pickled]> = items.into_iter().map(|(value, _)| value).collect();
        self.push_container(Pickled::Tuple(items), depth)
    }

    /// Takes a value off the stack, above the last mark.
    pub(super) fn pop(&mut self) -> Result<StackEntry, Diagnostic> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len() > floor {
            true => Ok(self.stack.pop().expect("the stack is higher than the mark")),
            false => Err(damaged("the pickle takes a value that is not there")),
        }
    }

    fn top(&self) -> Result<&StackEntry, Diagnostic> {
        self.stack.last().ok_or_else(|| damaged("the pickle takes a value that is not there"))
    }

    fn pop_mark(&mut self) -> Result<Vec<StackEntry>, Diagnostic> {
        let mark =
            self.marks.pop().ok_or_else(|| damaged("the pickle has no mark to go back to"))?;
        Ok(self.stack.split_off(mark))
    }

    fn last(&mut self, count: usize) -> Result<Vec<StackEntry>, Diagnostic> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        Ok(items)
    }

    fn remember(&mut self, index: u32) -> Result<(), Diagnostic> {
        self.memorized += 1;
        refuse!(self.memorized > VALUES_MAX =>
            over_limit(format!("the pickle remembers more than {VALUES_MAX} values")));
        let entry = self.top()?.clone();
        self.memo.insert(index, entry);
        Ok(())
    }

    fn recall(&mut self, index: u32) -> Result<(), Diagnostic> {
        let entry = self.memo.get(&index).cloned();
        self.push_entry(
            entry.ok_or_else(|| damaged("the pickle recalls what it never remembered"))?,
        )
    }

    fn step(&mut self, op: u8) -> Result<(), Diagnostic> {
        if let Some(value) = self.literal(op)? {
            return self.push(value);
        }
        match op {
            0x80 => match self.byte()? {
                2..=5 => Ok(()),
                version => Err(unsupported(format!("the pickle has protocol {version}"))),
            },
            // A frame only says how much to read at once.
            0x95 => self.take(8).map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                match self.marks.len() > VALUES_MAX {
                    true => Err(over_limit("the pickle has too many marks")),
                    false => Ok(()),
                }
            }
            b'0' if self.marks.last() == Some(&self.stack.len()) => self.pop_mark().map(drop),
            b'0' => self.pop().map(drop),
            b'1' => self.pop_mark().map(drop),
            b'2' => {
                let top = self.top()?.clone();
                self.push_entry(top)
            }
            b'q' | b'r' => {
                let index = self.number(if op == b'q' { 1 } else { 4 })? as u32;
                self.remember(index)
            }
            0x94 => self.remember(self.memo.len() as u32),
            b'h' | b'j' => {
                let index = self.number(if op == b'h' { 1 } else { 4 })? as u32;
                self.recall(index)
            }
            _ => self.container(op),
        }
    }

    /// Values that stand in the pickle themselves.
    fn literal(&mut self, op: u8) -> Result<Option<Pickled>, Diagnostic> {
        Ok(Some(match op {
            b'N' => Pickled::None,
            0x88 => Pickled::Bool(true),
            0x89 => Pickled::Bool(false),
            b'J' => Pickled::Int(i64::from(self.number(4)? as u32 as i32)),
            b'K' if self.context.signed => Pickled::Int(i64::from(self.byte()? as i8)),
            b'K' => Pickled::Int(i64::from(self.byte()?)),
            b'M' => Pickled::Int(self.number(2)? as i64),
            0x8a | 0x8b => {
                let count = self.number(if op == 0x8a { 1 } else { 4 })?;
                long(self.take(count)?)
            }
            b'G' => Pickled::Float(f64::from_bits(self.number(8)?.swap_bytes())),
            b'X' => Pickled::Text(self.string(4)?),
            0x8c => Pickled::Text(self.string(1)?),
            0x8d => Pickled::Text(self.string(8)?),
            // Strings of Python 2, which torch wrote for plain names.
            b'T' => Pickled::Text(self.string(4)?),
            b'U' => Pickled::Text(self.string(1)?),
            b'B' | b'C' | 0x8e | 0x96 => {
                let length = match op {
                    b'C' => 1,
                    b'B' => 4,
                    _ => 8,
                };
                let count = self.number(length)?;
                self.take(count)?;
                Pickled::Bytes
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                reduce::global(module, name)
            }
            _ => return Ok(None),
        }))
    }

    fn container(&mut self, op: u8) -> Result<(), Diagnostic> {
        match op {
            b')' => self.push_tuple(Vec::new()),
            0x85..=0x87 => {
                let items = self.last(usize::from(op - 0x84))?;
                self.push_tuple(items)
            }
            b't' => {
                let items = self.pop_mark()?;
                self.push_tuple(items)
            }
            b']' => self.push_container(Pickled::list(Vec::new()), 0),
            b'l' => {
                let items = values(self.pop_mark()?);
                self.push_container(Pickled::list(items), 0)
            }
            b'}' => self.push_container(Pickled::dict(Vec::new()), 0),
            b'd' => {
                let items = reduce::pairs(values(self.pop_mark()?))?;
                self.push_container(Pickled::dict(items), 0)
            }
            0x8f => self.push_container(Pickled::object("builtins.set", Vec::new()), 0),
            0x91 => {
                let items = self.pop_mark()?;
                let depth = deepest(&items) + 1;
                self.push_container(Pickled::object("builtins.frozenset", values(items)), depth)
            }
            b'a' | b'e' | 0x90 => {
                let items = if op == b'a' { self.last(1)? } else { self.pop_mark()? };
                reduce::extend(&self.top()?.0, Pickled::list(values(items)), "appends to")
            }
            b's' | b'u' => {
                let items = if op == b's' { self.last(2)? } else { self.pop_mark()? };
                let items = Pickled::dict(reduce::pairs(values(items))?);
                reduce::extend(&self.top()?.0, items, "sets items of")
            }
            b'b' => self.build(),
            _ => self.call(op),
        }
    }

    fn build(&mut self) -> Result<(), Diagnostic> {
        let (state, depth) = self.pop()?;
        let Some(value) = reduce::first_form(&self.top()?.0, &state, self.context)? else {
            return reduce::build(&self.top()?.0, state, self.context);
        };
        self.pop()?;
        self.push_entry((value, depth))
    }

    /// What looks like a call. Only the functions of [`reduce`] have a meaning, all others give opaque objects.
    fn call(&mut self, op: u8) -> Result<(), Diagnostic> {
        match op {
            0x93 => {
                let names = values(self.last(2)?);
                let [Pickled::Text(module), Pickled::Text(name)] = &names[..] else {
                    return Err(damaged("the pickle names a class by something that is no text"));
                };
                self.push(reduce::global(module.clone(), name.clone()))
            }
            b'R' | 0x81 => {
                let (arguments, depth) = self.pop()?;
                let (callee, _) = self.pop()?;
                let made = reduce::call(&callee, &arguments, self.context, op == 0x81)?;
                self.push_container(made, depth + 1)
            }
            0x92 => {
                let entries = self.last(3)?;
                let depth = deepest(&entries) + 1;
                let [(callee, _), (arguments, _), (named, _)] = &entries[..] else {
                    return Err(damaged("the pickle makes an object of too little"));
                };
                let made = reduce::opaque(callee, arguments, Some(named.clone()), self.context)?;
                self.push_container(made, depth)
            }
            b'Q' => {
                let (id, _) = self.pop()?;
                let value = reduce::persistent(&id, self.context)?;
                self.push(value)
            }
            0x97 | 0x98 => Err(unsupported("the pickle has buffers outside of it")),
            _ => {
                let at = self.at - 1;
                Err(unsupported(format!("the pickle has operation {op:#04x} at byte {at}")))
            }
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<Rc<str>, Diagnostic> {
    let text = std::str::from_utf8(bytes);
    Ok(text.map_err(|_| damaged("the pickle has text that is not UTF-8"))?.into())
}

fn values(entries: Vec<StackEntry>) -> Vec<Pickled> {
    entries.into_iter().map(|(value, _)| value).collect()
}

fn deepest(entries: &[StackEntry]) -> usize {
    entries.iter().map(|(_, depth)| *depth).max().unwrap_or(0)
}

/// A little-endian number in two's complement. One beyond 64 bits is an opaque object.
fn long(bytes: &[u8]) -> Pickled {
    let negative = bytes.last().is_some_and(|byte| byte >> 7 == 1);
    let fill = if negative { 0xff } else { 0 };
    let (low, high) = bytes.split_at(bytes.len().min(8));
    let mut word = [fill; 8];
    word[..low.len()].copy_from_slice(low);
    let number = i64::from_le_bytes(word);
    match high.iter().all(|byte| *byte == fill) && (number < 0) == negative {
        true => Pickled::Int(number),
        false => Pickled::object("builtins.int", vec![Pickled::Bytes]),
    }
}
