//! Between ONNX files and the IR: decoding with shared weights, encoding, external data, versions.
//!
//! Nothing else in onnxd reads or writes ONNX protobuf; a weight is never copied on the way.

mod decode;
mod encode;
mod external;
mod findings;
mod mapped;
mod metadata;
mod opset;
mod outline;
mod packed;
mod sink;
mod stream;
mod wire;
mod write;

pub use decode::{Decoded, decode, from_proto};
pub use encode::{encode_to_bytes, to_proto};
pub use external::{
    FolderLoader, HANDLE_KEY, NoExternalData, TensorLoader, handle_of, part_of_file,
};
pub use mapped::MappedFile;
pub use metadata::LAYERS_KEY;
pub use opset::{
    IR_VERSION_MAX, IR_VERSION_TARGET, OPSET_MAX, OPSET_TARGET, Runtime, choose_ir, read_by,
    required_ir,
};
pub use outline::{Outline, external_files, outline};
pub use packed::without_initializers;
pub use sink::{Inline, Placement, TensorSink};
pub use write::{
    External, SharedData, WriteOptions, WrittenFiles, write_model, write_model_sharing,
};

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use std::path::Path;

/// Reads the model at `path`; external data is looked for beside it. Files are mapped, not read, so
/// they must not change while the model is in use.
///
/// # Errors
/// N0107 if the file cannot be read, else as [`decode()`].
pub fn load(path: &Path) -> Result<Decoded, Diagnostics> {
    let bytes = MappedFile::open(path).map_err(|error| {
        Diagnostic::new(Code::Unreadable, format!("{}: {error}", path.display()))
    })?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    decode(bytes, &mut FolderLoader::new(folder))
}
