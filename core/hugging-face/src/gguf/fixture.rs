//! Files of GGUF for tests.

use bytes::Bytes;

/// What a file says.
#[derive(Clone, Default)]
pub(super) struct File {
    keys: Vec<(String, Vec<u8>)>,
    /// Name, sizes with the outermost axis first, type and bytes.
    pub(super) tensors: Vec<(String, Vec<usize>, u32, Vec<u8>)>,
}

pub(super) fn text(words: &str) -> Vec<u8> {
    [&(words.len() as u64).to_le_bytes()[..], words.as_bytes()].concat()
}

fn value(kind: u32, bytes: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes(), bytes].concat()
}

impl File {
    pub(super) fn raw(mut self, key: &str, kind: u32, bytes: &[u8]) -> File {
        self.keys.push((key.to_owned(), value(kind, bytes)));
        self
    }

    pub(super) fn text(self, key: &str, words: &str) -> File {
        self.raw(key, 8, &text(words))
    }

    pub(super) fn size(self, key: &str, size: u32) -> File {
        self.raw(key, 4, &size.to_le_bytes())
    }

    pub(super) fn number(self, key: &str, number: f32) -> File {
        self.raw(key, 6, &number.to_le_bytes())
    }

    pub(super) fn flag(self, key: &str, flag: bool) -> File {
        self.raw(key, 7, &[u8::from(flag)])
    }

    pub(super) fn list(self, key: &str, kind: u32, values: &[Vec<u8>]) -> File {
        let head = [&kind.to_le_bytes()[..], &(values.len() as u64).to_le_bytes()].concat();
        self.raw(key, 9, &[head, values.concat()].concat())
    }

    pub(super) fn texts(self, key: &str, values: &[&str]) -> File {
        let values: Vec<Vec<u8>> = values.iter().map(|words| text(words)).collect();
        self.list(key, 8, &values)
    }

    /// Whether it is of this architecture.
    pub(super) fn is(&self, architecture: &str) -> bool {
        let mut keys = self.keys.iter().filter(|(key, _)| key == "general.architecture");
        keys.any(|(_, bytes)| *bytes == value(8, &text(architecture)))
    }

    pub(super) fn without(mut self, key: &str) -> File {
        self.keys.retain(|(known, _)| known != key);
        self
    }

    /// A tensor of float32 with numbers that follow from its name.
    pub(super) fn floats(self, name: &str, dims: &[usize]) -> File {
        let mut seed =
            name.bytes().fold(17u32, |all, b| all.wrapping_mul(31).wrapping_add(b.into()));
        let mut next = |_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((seed >> 8) as f32 / (1 << 24) as f32 - 0.5).to_le_bytes()
        };
        let bytes = (0..dims.iter().product()).flat_map(&mut next).collect();
        self.tensor(name, dims, 0, bytes)
    }

    pub(super) fn tensor(mut self, name: &str, dims: &[usize], kind: u32, bytes: Vec<u8>) -> File {
        self.tensors.push((name.to_owned(), dims.to_vec(), kind, bytes));
        self
    }

    pub(super) fn bytes(&self) -> Bytes {
        let mut head = b"GGUF\x03\0\0\0".to_vec();
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            head.extend(text(key));
            head.extend(value);
        }
        let mut data: Vec<u8> = vec![];
        for (name, dims, kind, bytes) in &self.tensors {
            head.extend(text(name));
            head.extend((dims.len() as u32).to_le_bytes());
            dims.iter().rev().for_each(|size| head.extend((*size as u64).to_le_bytes()));
            head.extend(kind.to_le_bytes());
            head.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        head.resize(head.len().next_multiple_of(32), 0);
        [head, data].concat().into()
    }
}
