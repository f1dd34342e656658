//! HDF5 files as old libraries write them, which have no checksums.

use super::assert_harmless;
use super::keras::dense;
use crate::hostile::{Member, zipped};

const NOWHERE: u64 = u64::MAX;

/// A file that grows.
struct GrowingFile(Vec<u8>);

impl GrowingFile {
    fn new() -> GrowingFile {
        GrowingFile(vec![0; 96])
    }

    fn end(&self) -> u64 {
        self.0.len() as u64
    }

    fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.end();
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        at
    }

    /// An object of messages: their types and contents.
    fn object(&mut self, messages: &[(u16, Vec<u8>)]) -> u64 {
        let mut body = vec![];
        for (kind, content) in messages {
            let mut content = content.clone();
            content.resize(content.len().next_multiple_of(8), 0);
            body.extend(kind.to_le_bytes());
            body.extend((content.len() as u16).to_le_bytes());
            body.extend([0; 4]);
            body.extend(content);
        }
        let count = (messages.len() as u16).to_le_bytes();
        let head = [&[1, 0][..], &count, &1u32.to_le_bytes(), &(body.len() as u32).to_le_bytes()];
        self.put(&[&head.concat()[..], &[0; 4], &body].concat())
    }

    /// A tree of one node with these children.
    fn tree(&mut self, level: u8, children: &[u64]) -> u64 {
        let count = (children.len() as u16).to_le_bytes();
        let mut bytes = [&b"TREE\0"[..], &[level], &count, &[0xff; 16], &[0; 8]].concat();
        for child in children {
            bytes.extend(child.to_le_bytes());
            bytes.extend(8u64.to_le_bytes());
        }
        self.put(&bytes)
    }

    /// A heap with names, each at a multiple of 16.
    fn names(&mut self, names: &[&str]) -> u64 {
        let mut data = vec![0; 16 * (names.len() + 1)];
        for (i, name) in names.iter().enumerate() {
            data[16 * (i + 1)..][..name.len()].copy_from_slice(name.as_bytes());
        }
        let data_at = self.end() + 32;
        let size = (data.len() as u64).to_le_bytes();
        let head = [&b"HEAP\0\0\0\0"[..], &size, &NOWHERE.to_le_bytes(), &data_at.to_le_bytes()];
        self.put(&[&head.concat()[..], &data].concat())
    }

    /// Names with the objects they are of.
    fn symbols(&mut self, objects: &[u64]) -> u64 {
        let mut bytes = [&b"SNOD\x01\0"[..], &(objects.len() as u16).to_le_bytes()].concat();
        for (i, object) in objects.iter().enumerate() {
            bytes.extend([(16 * (i as u64 + 1)).to_le_bytes(), object.to_le_bytes()].concat());
            bytes.extend([0; 24]);
        }
        self.put(&bytes)
    }

    /// A group of a tree and a heap of names.
    fn group(&mut self, tree: u64, heap: u64) -> u64 {
        self.object(&[(0x11, [tree.to_le_bytes(), heap.to_le_bytes()].concat())])
    }

    /// A group of objects with their names.
    fn folder(&mut self, names: &[&str], objects: &[u64]) -> u64 {
        let symbols = self.symbols(objects);
        let (tree, heap) = (self.tree(0, &[symbols]), self.names(names));
        self.group(tree, heap)
    }

    /// A tensor of floats: its sizes and how it is laid out.
    fn tensor(&mut self, sizes: &[u64], layout: Vec<u8>) -> u64 {
        let sizes_of = sizes.iter().flat_map(|n| n.to_le_bytes()).collect();
        let space = [vec![1, sizes.len() as u8, 0, 0, 0, 0, 0, 0], sizes_of].concat();
        let float = [0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];
        self.object(&[(1, space), (3, float.to_vec()), (8, layout)])
    }

    fn done(mut self, root: u64) -> Vec<u8> {
        let end = self.end();
        let mut head = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0\0\0\0\0".to_vec();
        for number in [0, NOWHERE, end, NOWHERE, 0, root] {
            head.extend(number.to_le_bytes());
        }
        self.0[..head.len()].copy_from_slice(&head);
        self.0
    }

    /// A file whose root has `layers/dense/vars` with these tensors.
    fn weights(mut self, tensors: &[u64]) -> Vec<u8> {
        let names = &["0", "1"][..tensors.len()];
        let mut at = self.folder(names, tensors);
        for name in ["vars", "dense", "layers"] {
            at = self.folder(&[name], &[at]);
        }
        self.done(at)
    }
}

/// A file without groups.
pub(crate) fn empty() -> Vec<u8> {
    let mut file = GrowingFile::new();
    let root = file.folder(&[], &[]);
    file.done(root)
}

fn contiguous(at: u64, size: u64) -> Vec<u8> {
    [&[3, 1][..], &at.to_le_bytes(), &size.to_le_bytes()].concat()
}

/// Chunks of these sizes, of which a tree tells.
fn chunked(tree: u64, sizes: &[u32]) -> Vec<u8> {
    let sizes_of: Vec<u8> = sizes.iter().chain(&[4]).flat_map(|n| n.to_le_bytes()).collect();
    [&[3, 2, sizes.len() as u8 + 1][..], &tree.to_le_bytes(), &sizes_of].concat()
}

/// A Keras model of one layer with its weights.
fn model(weights: Vec<u8>) -> Vec<u8> {
    let member = |name: &str, bytes: Vec<u8>| -> Member { (name.to_owned(), bytes, false) };
    zipped(&[member("config.json", dense()), member("model.weights.h5", weights)], 0)
}

fn tensors(kernel: impl FnOnce(&mut GrowingFile) -> u64) -> Vec<u8> {
    let mut file = GrowingFile::new();
    let data = file.put(&[0; 48]);
    let kernel = kernel(&mut file);
    let bias = file.tensor(&[3], contiguous(data, 12));
    model(file.weights(&[kernel, bias]))
}

const HARMLESS: &[&str] = &["N0201", "N0213"];

#[test]
fn files_that_lead_back_to_themselves() {
    // What comes behind the head of the file is at 96.
    let root = |names: &[&str]| {
        let mut file = GrowingFile::new();
        let size = |objects: &[u64]| {
            let mut other = GrowingFile::new();
            other.symbols(objects);
            other.tree(0, &[0]);
            other.names(names);
            other.end()
        };
        let itself = size(&vec![0; names.len()]);
        let root = file.folder(names, &vec![itself; names.len()]);
        assert_eq!(root, itself);
        model(file.done(root))
    };
    let tree = |level: u8| {
        let mut file = GrowingFile::new();
        let itself = file.end();
        let tree = file.tree(level, &[itself; 2]);
        let heap = file.names(&["layers"]);
        let root = file.group(tree, heap);
        model(file.done(root))
    };
    let continued = {
        let mut file = GrowingFile::new();
        let at = file.end();
        // A continuation of the object that is the object itself.
        let place = [(at + 16).to_le_bytes(), 24u64.to_le_bytes()].concat();
        let root = file.object(&[(0x10, place)]);
        model(file.done(root))
    };
    let chunks = tensors(|file| {
        let itself = file.end();
        let mut node = [&b"TREE\x01\x01\x02\0"[..], &[0xff; 16]].concat();
        for _ in 0..2 {
            node.extend([0; 32]);
            node.extend(itself.to_le_bytes());
        }
        node.extend([0; 32]);
        let tree = file.put(&node);
        file.tensor(&[4, 3], chunked(tree, &[2, 3]))
    });
    assert_harmless(
        "keras",
        vec![
            ("a group in itself", root(&["layers", "dense", "vars"]), HARMLESS),
            ("a tree in itself", tree(1), HARMLESS),
            ("a high tree in itself", tree(255), HARMLESS),
            ("a tree that is no leaf", tree(0), HARMLESS),
            ("an object that goes on in itself", continued, HARMLESS),
            ("chunks in themselves", chunks, HARMLESS),
        ],
    );
}

#[test]
fn tensors_that_are_not_there() {
    let of = |sizes: &'static [u64], layout: fn(u64) -> Vec<u8>| {
        tensors(|file| {
            let tree = file.put(&[&b"TREE\x01\0\0\0"[..], &[0xff; 16]].concat());
            file.tensor(sizes, layout(tree))
        })
    };
    assert_harmless(
        "keras",
        vec![
            ("sound", of(&[4, 3], |_| contiguous(96, 48)), &[]),
            ("outside", of(&[4, 3], |_| contiguous(1 << 40, 48)), HARMLESS),
            ("outside by overflow", of(&[4, 3], |_| contiguous(u64::MAX - 8, 48)), HARMLESS),
            ("sizes that overflow", of(&[1 << 62, 1 << 62], |_| contiguous(96, 48)), HARMLESS),
            ("large", of(&[1 << 40, 3], |_| contiguous(96, 12 << 40)), HARMLESS),
            ("large chunks", of(&[1 << 40, 3], |tree| chunked(tree, &[u32::MAX, 3])), HARMLESS),
            (
                "many chunks",
                of(&[1 << 24, 3], |tree| chunked(tree, &[1, 1])),
                &["N0201", "N0213", "N0215"],
            ),
            ("no chunks", of(&[4, 3], |tree| chunked(tree, &[0, 0])), &["", "N0201"]),
            ("many axes", of(&[1; 200], |_| contiguous(96, 4)), HARMLESS),
        ],
    );
}
