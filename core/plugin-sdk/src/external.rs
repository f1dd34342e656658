//! Tensor data of a dropped ONNX file that lie in other dropped files.

use crate::diagnostics::{Code, Diagnostic, shown};
use crate::ir::{DataType, Tensor};
use crate::onnx::{TensorLoader, external_tensor};
use bytes::Bytes;

/// `location`, which is relative to the model's folder, relative to the submission's root; without steps that lead
/// nowhere (`./weights.bin`).
fn beside(network: &str, location: &str) -> String {
    let folder = network.rsplit_once('/').map(|(folder, _)| folder);
    let steps = location.split('/').filter(|step| *step != ".");
    folder.into_iter().chain(steps).collect::<Vec<_>>().join("/")
}

/// Finds the external data of an ONNX file among the dropped files. Names that leave the submission are not among them.
pub struct External<'r> {
    model: &'r str,
    read: &'r dyn Fn(&str) -> Result<Bytes, Diagnostic>,
}

impl<'r> External<'r> {
    /// The data of the file `model`; `read` gives a dropped file by its path.
    pub fn new(
        model: &'r str,
        read: &'r dyn Fn(&str) -> Result<Bytes, Diagnostic>,
    ) -> External<'r> {
        External { model, read }
    }

    /// Path of the file that external data call `location`.
    pub fn path(model: &str, location: &str) -> String {
        beside(model, location)
    }
}

impl TensorLoader for External<'_> {
    fn load(
        &mut self,
        dtype: DataType,
        dims: &[usize],
        entries: &[(String, String)],
    ) -> Result<Tensor, Diagnostic> {
        let entry = |key: &str| entries.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let Some(location) = entry("location") else {
            return Err(invalid("external data without a location"));
        };
        let file = (self.read)(&beside(self.model, location)).map_err(|d| Diagnostic {
            code: Code::OnnxExternalData.as_str().into(),
            message: format!("external data file `{}`: {}", shown(location), d.message),
            help: Code::OnnxExternalData.help().into(),
            ..d
        })?;
        let number = |key: &str| {
            let value = entry(key).map(str::parse::<u64>).transpose();
            value.map_err(|_| invalid(&format!("external data with a bad {key}")))
        };
        let offset = number("offset")?.unwrap_or(0);
        let elements = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let wanted = elements.and_then(|n| dtype.byte_len(n)).unwrap_or(usize::MAX) as u64;
        let length = number("length")?.unwrap_or(wanted);
        match offset.checked_add(length) {
            Some(end) if end <= file.len() as u64 => {
                external_tensor(dtype, dims, file.slice(offset as usize..end as usize))
            }
            _ => Err(invalid(&format!(
                "`{}` has {} bytes, the tensor's data is said to be {length} bytes at {offset}",
                shown(location),
                file.len()
            ))),
        }
    }
}

fn invalid(message: &str) -> Diagnostic {
    Diagnostic::new(Code::OnnxExternalData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_relative_to_the_model() {
        assert_eq!(beside("net.onnx", "w.bin"), "w.bin");
        assert_eq!(beside("models/net.onnx", "./sub/./w.bin"), "models/sub/w.bin");
        assert_eq!(beside("models/net.onnx", "../w.bin"), "models/../w.bin", "no dropped file");
    }
}
