//! Small pickles, written by hand, and archives of members in memory.

use crate::Members;
use crate::problem::damaged;
use bytes::Bytes;
use onnxd_diagnostics::Diagnostic;
use std::collections::BTreeMap;

/// An archive of members.
pub fn archive(members: &[(&str, &[u8])]) -> BTreeMap<String, Bytes> {
    let owned = |(name, bytes): &(&str, &[u8])| ((*name).to_owned(), Bytes::copy_from_slice(bytes));
    members.iter().map(owned).collect()
}

impl Members for BTreeMap<String, Bytes> {
    fn has(&self, name: &str) -> bool {
        self.contains_key(name)
    }

    fn read(&self, name: &str) -> Result<Bytes, Diagnostic> {
        self.get(name).cloned().ok_or_else(|| damaged(format!("the archive has no `{name}`")))
    }
}

/// `torch.Size` and strides as they are pickled.
fn numbers(of: &[u8]) -> Vec<u8> {
    let items = of.iter().flat_map(|n| [b'K', *n]);
    [b'('].into_iter().chain(items).chain([b't']).collect()
}

/// A string of fewer than 256 bytes.
pub fn text(of: &str) -> Vec<u8> {
    [&[0x8c, of.len() as u8], of.as_bytes()].concat()
}

/// A tensor of `count` elements in storage `key`.
pub fn tensor(ty: &str, key: &str, count: u8, place: (u8, &[u8], &[u8])) -> Vec<u8> {
    let global = format!("ctorch {ty}Storage").replace(' ', "\n") + "\n";
    [
        &b"ctorch._utils\n_rebuild_tensor_v2\n(("[..],
        &text("storage"),
        global.as_bytes(),
        &text(key),
        &text("cpu"),
        &[b'K', count, b't', b'Q', b'K', place.0],
        &numbers(place.1),
        &numbers(place.2),
        b"\x89)tR",
    ]
    .concat()
}

/// A dict with text keys.
pub fn dict(items: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let items = items.iter().flat_map(|(key, value)| [text(key), value.clone()].concat());
    b"}(".iter().copied().chain(items).chain([b'u']).collect()
}

/// An instance of a class with attributes.
pub fn object(module: &str, class: &str, attributes: &[(&str, Vec<u8>)]) -> Vec<u8> {
    [format!("c{module}\n{class}\n)").as_bytes(), &[0x81], &dict(attributes), b"b"].concat()
}

/// A whole pickle.
pub fn pickle(value: &[u8]) -> Vec<u8> {
    [&[0x80, 2], value, b"."].concat()
}

/// Elements of float32.
pub fn floats(of: &[f32]) -> Vec<u8> {
    of.iter().flat_map(|x| x.to_le_bytes()).collect()
}
