//! Tensor data of a dropped ONNX file that lie in other dropped files.

use crate::diagnostics::{Code, Diagnostic, shown};
use crate::ir::{DataType, Tensor};
use crate::onnx::{TensorLoader, part_of_file};
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
        part_of_file(dtype, dims, entries, |location| {
            (self.read)(&beside(self.model, location)).map_err(|mut d| {
                d.code = Code::OnnxExternalData.as_str().into();
                d.message = format!("external data file `{}`: {}", shown(location), d.message);
                d.help(Code::OnnxExternalData.help())
            })
        })
    }
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
