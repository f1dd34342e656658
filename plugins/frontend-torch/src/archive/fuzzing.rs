//! What fuzz targets call: all readers of this module on bytes of any kind.

use super::objects::ScriptArchive;
use super::pickle::{self, Context};
use super::zip::Archive;
use super::{kind::file_kind, weights};
use bytes::Bytes;

/// Reads bytes as every kind of file.
pub(crate) fn file(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let _ = file_kind(&bytes).map(|kind| kind.refusal());
    let _ = weights::load(&bytes, "");
    let _ = weights::saved(&bytes, "");
    let Ok(archive) = Archive::open(bytes) else { return };
    let names: Vec<String> = archive.names().map(str::to_owned).collect();
    let _ = names.iter().try_for_each(|name| archive.read(name).map(drop));
    let _ = ScriptArchive::open(archive);
}

/// Reads bytes as a pickle.
pub(crate) fn pickle(bytes: &[u8]) {
    let _ = pickle::read(bytes, &Context::default()).and_then(pickle::PickledTree::checked);
}
