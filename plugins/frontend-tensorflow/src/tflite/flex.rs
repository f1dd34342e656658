//! FlexBuffers, in which custom operators have their options. Offsets count backwards from where they stand.

use bytes::Bytes;

/// How deep values may be inside others.
const DEPTH_MAX: usize = 16;

/// Values that a buffer may hold.
const VALUES_MAX: usize = 1 << 16;

/// Bytes of a key. Those of operators have some ten.
const KEY_BYTES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Flex {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A text. TensorFlow writes its nodes as such, which are no UTF-8.
    Text(Bytes),
    Bytes(Bytes),
    List(Vec<Flex>),
    Map(Vec<(String, Flex)>),
}

/// The value of a buffer; `None` if it is damaged, or holds kinds of values that no operator has.
pub(crate) fn read(bytes: &Bytes) -> Option<Flex> {
    let [.., packed, width] = bytes[..] else { return None };
    let at = bytes.len().checked_sub(2)?.checked_sub(width.into())?;
    let mut reader = FlexReader { bytes, left: VALUES_MAX };
    reader.value(at, width.into(), packed, 0)
}

/// What a buffer is asked for by field names.
pub(crate) fn field<'f>(flex: &'f Flex, name: &str) -> Option<&'f Flex> {
    let Flex::Map(fields) = flex else { return None };
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

struct FlexReader<'b> {
    bytes: &'b Bytes,
    left: usize,
}

impl FlexReader<'_> {
    fn raw(&self, at: usize, width: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(width)?)?;
        let mut whole = [0; 8];
        whole.get_mut(..width)?.copy_from_slice(bytes);
        matches!(width, 1 | 2 | 4 | 8).then(|| u64::from_le_bytes(whole))
    }

    fn signed(&self, at: usize, width: usize) -> Option<i64> {
        let raw = self.raw(at, width)?;
        let unused = 64 - 8 * width;
        Some((raw << unused).cast_signed() >> unused)
    }

    fn float(&self, at: usize, width: usize) -> Option<f64> {
        let raw = self.raw(at, width)?;
        match width {
            4 => Some(f32::from_bits(u32::try_from(raw).ok()?).into()),
            8 => Some(f64::from_bits(raw)),
            _ => None,
        }
    }

    /// Where the offset at a place leads to.
    fn target(&self, at: usize, width: usize) -> Option<usize> {
        at.checked_sub(usize::try_from(self.raw(at, width)?).ok()?)
    }

    /// The value at a place in `width` bytes: itself, or the offset to it. `packed` says its kind, and the width.
    fn value(&mut self, at: usize, width: usize, packed: u8, depth: usize) -> Option<Flex> {
        self.left = self.left.checked_sub(1)?;
        let inside = 1 << (packed & 3);
        if depth > DEPTH_MAX {
            return None;
        }
        Some(match packed >> 2 {
            0 => Flex::Null,
            1 => Flex::Int(self.signed(at, width)?),
            2 => Flex::Int(i64::try_from(self.raw(at, width)?).ok()?),
            3 => Flex::Float(self.float(at, width)?),
            kind @ (5 | 25) => {
                let start = self.target(at, width)?;
                let length = self.length(start, inside)?;
                let end = start.checked_add(length).filter(|end| *end <= self.bytes.len())?;
                let content = self.bytes.slice(start..end);
                if kind == 5 { Flex::Text(content) } else { Flex::Bytes(content) }
            }
            6 => Flex::Int(self.signed(self.target(at, width)?, inside)?),
            7 => Flex::Int(i64::try_from(self.raw(self.target(at, width)?, inside)?).ok()?),
            8 => Flex::Float(self.float(self.target(at, width)?, inside)?),
            9 => Flex::Map(self.map(self.target(at, width)?, inside, depth)?),
            10 => Flex::List(self.items(self.target(at, width)?, inside, depth)?),
            26 => Flex::Bool(self.raw(at, width)? != 0),
            // Vectors of one kind: integers, unsigned integers, floats, and truth values.
            kind @ (11..=13 | 36) => {
                let start = self.target(at, width)?;
                let kind = if kind == 36 { 26 } else { kind - 10 };
                let one = |reader: &mut Self, i: usize| {
                    reader.value(start + i * inside, inside, kind << 2, depth + 1)
                };
                let count = self.length(start, inside)?;
                Flex::List((0..count).map(|i| one(self, i)).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// The number of items, which stands before them.
    fn length(&self, start: usize, width: usize) -> Option<usize> {
        let length = usize::try_from(self.raw(start.checked_sub(width)?, width)?).ok()?;
        (length <= self.bytes.len()).then_some(length)
    }

    fn items(&mut self, start: usize, width: usize, depth: usize) -> Option<Vec<Flex>> {
        let count = self.length(start, width)?;
        let kinds = start.checked_add(count.checked_mul(width)?)?;
        let item = |i: usize| {
            let packed = *self.bytes.get(kinds + i)?;
            self.value(start + i * width, width, packed, depth + 1)
        };
        (0..count).map(item).collect()
    }

    /// Before the length stand the width of keys and the offset to them.
    fn map(&mut self, start: usize, width: usize, depth: usize) -> Option<Vec<(String, Flex)>> {
        let key_width = usize::try_from(self.raw(start.checked_sub(2 * width)?, width)?).ok()?;
        let keys = self.target(start.checked_sub(3 * width)?, width)?;
        let items = self.items(start, width, depth)?;
        let key = |i: usize| {
            let text = self.target(keys.checked_add(i.checked_mul(key_width)?)?, key_width)?;
            let rest = self.bytes.get(text..)?;
            let length = rest.iter().take(KEY_BYTES_MAX).position(|byte| *byte == 0)?;
            String::from_utf8(rest[..length].to_vec()).ok()
        };
        items.into_iter().enumerate().map(|(i, item)| Some((key(i)?, item))).collect()
    }
}

#[cfg(test)]
mod tests;
