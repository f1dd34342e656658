//! Small files of the oldest version, made in tests. They have no checksums.

const NOWHERE: u64 = u64::MAX;
/// Bytes before the first object.
const HEAD: usize = 96;
/// The type of floats of four bytes.
pub(crate) const FLOAT: [u8; 20] =
    [0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];

/// A message of an object: its kind and its content.
pub(crate) type Message = (u16, Vec<u8>);

/// A file that grows.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer(vec![0; HEAD])
    }

    /// Adds bytes; where they begin.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.0.len() as u64;
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        at
    }

    pub(crate) fn object(&mut self, messages: &[Message]) -> u64 {
        let mut body = vec![];
        for (kind, content) in messages {
            let size = content.len().next_multiple_of(8);
            body.extend(kind.to_le_bytes());
            body.extend((size as u16).to_le_bytes());
            body.extend([0; 4]);
            body.extend(content);
            body.resize(body.len().next_multiple_of(8), 0);
        }
        let count = (messages.len() as u16).to_le_bytes();
        let size = (body.len() as u32).to_le_bytes();
        self.put(&[&[1, 0], &count[..], &[1, 0, 0, 0], &size, &[0; 4], &body].concat())
    }

    /// A group of objects by their names, with more messages.
    pub(crate) fn group(&mut self, links: &[(&str, u64)], more: &[Message]) -> u64 {
        let mut names = vec![0; 8];
        let mut symbols = [b"SNOD\x01\0", &(links.len() as u16).to_le_bytes()[..]].concat();
        for (name, object) in links {
            symbols.extend((names.len() as u64).to_le_bytes());
            symbols.extend(object.to_le_bytes());
            symbols.extend([0; 24]);
            names.extend(name.as_bytes());
            names.push(0);
        }
        let symbols = self.put(&symbols);
        let tree = [&b"TREE\0\0\x01\0"[..], &[0xff; 16], &[0; 8], &symbols.to_le_bytes(), &[0; 8]];
        let tree = self.put(&tree.concat());
        let size = (names.len() as u64).to_le_bytes();
        let names = self.put(&names);
        let heap = [&b"HEAP\0\0\0\0"[..], &size, &NOWHERE.to_le_bytes(), &names.to_le_bytes()];
        let heap = self.put(&heap.concat());
        let symbols = [tree.to_le_bytes(), heap.to_le_bytes()].concat();
        self.object(&[&[(0x11, symbols)], more].concat())
    }

    /// A tensor of floats with its layout.
    pub(crate) fn tensor(&mut self, sizes: &[u64], layout: Vec<u8>, more: &[Message]) -> u64 {
        let sizes_of = sizes.iter().flat_map(|n| n.to_le_bytes());
        let space = [1, sizes.len() as u8, 0, 0, 0, 0, 0, 0].into_iter().chain(sizes_of).collect();
        self.object(&[&[(1, space), (3, FLOAT.to_vec()), (8, layout)], more].concat())
    }

    pub(crate) fn done(mut self, root: u64) -> Vec<u8> {
        let end = self.0.len() as u64;
        let mut head = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0\0\0\0\0".to_vec();
        for number in [0, NOWHERE, end, NOWHERE, 0, root] {
            head.extend(number.to_le_bytes());
        }
        self.0[..head.len()].copy_from_slice(&head);
        self.0
    }
}

/// An attribute that is a text.
pub(crate) fn text(name: &str, value: &str) -> Message {
    let mut bytes = vec![1, 0];
    for size in [name.len() + 1, 8, 8] {
        bytes.extend((size as u16).to_le_bytes());
    }
    bytes.extend(name.as_bytes());
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes.extend([0x13, 1, 0, 0]);
    bytes.extend((value.len() as u32).to_le_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(value.as_bytes());
    (0x0c, bytes)
}

/// A layout of bytes that lie one behind the other.
pub(crate) fn contiguous(at: u64, size: u64) -> Vec<u8> {
    [&[3, 1][..], &at.to_le_bytes(), &size.to_le_bytes()].concat()
}
