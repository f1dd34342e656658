//! Tensor data that lies outside the message: in files beside the model, or behind a handle.
//!
//! A location comes from a foreign file, so it may name nothing but a regular file in the model's
//! own folder or below it.

use crate::mapped::MappedFile;
use bytes::Bytes;
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::{DataType, Tensor};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// Key of the `external_data` entry that holds a handle instead of a file's location.
pub const HANDLE_KEY: &str = "handle";

/// Finds the data of tensors that do not carry it.
pub trait TensorLoader {
    /// The tensor of type `dtype` and sizes `dims` that the `external_data` pairs `entries` tell of.
    /// Its size is known not to overflow.
    ///
    /// # Errors
    /// Why there are none, without the tensor's name, which the caller adds.
    fn load(
        &mut self,
        dtype: DataType,
        dims: &[usize],
        entries: &[(String, String)],
    ) -> Result<Tensor, Diagnostic>;
}

/// A tensor over external data, which must have the number of bytes that type and sizes demand.
fn external_tensor(dtype: DataType, dims: &[usize], bytes: Bytes) -> Result<Tensor, Diagnostic> {
    Tensor::new(dtype, dims.to_vec(), bytes).map_err(|e| refused(format!("external data: {e}")))
}

/// The bytes that a tensor of this type and these sizes has; `None` on overflow.
pub(crate) fn byte_len(dtype: DataType, dims: &[usize]) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).and_then(|n| dtype.byte_len(n))
}

/// The tensor that `external_data` pairs tell of; `open` gives the file of a location.
///
/// # Errors
/// What is wrong with the pairs, or with the file.
pub fn part_of_file(
    dtype: DataType,
    dims: &[usize],
    entries: &[(String, String)],
    open: impl FnOnce(&str) -> Result<Bytes, Diagnostic>,
) -> Result<Tensor, Diagnostic> {
    let Some(location) = value_of(entries, "location") else {
        return Err(refused("its external data has no location".to_owned()));
    };
    let expected = byte_len(dtype, dims).unwrap_or(usize::MAX);
    let offset = number_of(entries, "offset")?.unwrap_or(0);
    let length = number_of(entries, "length")?.unwrap_or(expected);
    if length != expected {
        let text = format!("its type and shape demand {expected} bytes, not {length}");
        return Err(refused(text));
    }
    let file = open(location)?;
    match offset.checked_add(length) {
        Some(end) if end <= file.len() => external_tensor(dtype, dims, file.slice(offset..end)),
        _ => {
            let text = format!(
                "bytes {offset} to {offset} + {length} of `{}` are asked for, which has {}",
                shown(location),
                file.len()
            );
            Err(refused(text))
        }
    }
}

/// For models that must be complete in themselves.
#[derive(Debug, Default)]
pub struct NoExternalData;

impl TensorLoader for NoExternalData {
    fn load(
        &mut self,
        _: DataType,
        _: &[usize],
        entries: &[(String, String)],
    ) -> Result<Tensor, Diagnostic> {
        let location = value_of(entries, "location").unwrap_or_default();
        let text = format!("its data is in the file `{}`, not in the model", shown(location));
        Err(Diagnostic::new(Code::OnnxExternalData, text))
    }
}

/// Reads external data from the folder that the model lies in; each file is mapped once.
#[derive(Debug)]
pub struct FolderLoader {
    folder: PathBuf,
    maps: HashMap<String, Result<Bytes, Diagnostic>>,
}

impl FolderLoader {
    /// A loader for models in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> FolderLoader {
        FolderLoader { folder: folder.into(), maps: HashMap::new() }
    }

    fn map(&mut self, location: &str) -> Result<Bytes, Diagnostic> {
        if let Some(known) = self.maps.get(location) {
            return known.clone();
        }
        let mapped = map_beside(&self.folder, location);
        self.maps.insert(location.to_owned(), mapped.clone());
        mapped
    }
}

impl TensorLoader for FolderLoader {
    fn load(
        &mut self,
        dtype: DataType,
        dims: &[usize],
        entries: &[(String, String)],
    ) -> Result<Tensor, Diagnostic> {
        part_of_file(dtype, dims, entries, |location| self.map(location))
    }
}

/// The file `location` of `folder`, mapped.
fn map_beside(folder: &Path, location: &str) -> Result<Bytes, Diagnostic> {
    let shown = shown(location);
    let relative = checked_location(location)?;
    let failed = |error: std::io::Error| refused(format!("file `{shown}`: {error}"));
    let folder = folder.canonicalize().map_err(failed)?;
    let path = folder.join(relative).canonicalize().map_err(failed)?;
    if !path.starts_with(&folder) {
        let text = format!("file `{shown}` is a symbolic link that leads out of the folder");
        return Err(Diagnostic::new(Code::SymlinkRefused, text));
    }
    MappedFile::open(&path).map_err(failed)
}

/// The location as a path that cannot leave the folder.
pub(crate) fn checked_location(location: &str) -> Result<&Path, Diagnostic> {
    let path = Path::new(location);
    let plain = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
    if location.contains('\0') || !path.components().all(plain) || path.file_name().is_none() {
        let text = format!(
            "external data in `{}` is refused: only files beside the model are read",
            shown(location)
        );
        return Err(refused(text));
    }
    Ok(path)
}

/// The handle of a tensor whose data stays with the host.
///
/// # Errors
/// If there is none, or it is no number.
pub fn handle_of(entries: &[(String, String)]) -> Result<u64, Diagnostic> {
    let text = value_of(entries, HANDLE_KEY).unwrap_or_default();
    text.parse().map_err(|_| refused(format!("`{}` is no handle of a tensor", shown(text))))
}

fn value_of<'a>(entries: &'a [(String, String)], key: &str) -> Option<&'a str> {
    entries.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
}

fn number_of(entries: &[(String, String)], key: &str) -> Result<Option<usize>, Diagnostic> {
    let Some(text) = value_of(entries, key) else { return Ok(None) };
    let number = text.parse();
    number.map(Some).map_err(|_| refused(format!("its {key} `{}` is no number", shown(text))))
}

fn refused(text: String) -> Diagnostic {
    Diagnostic::new(Code::OnnxExternalData, text)
}
