//! What a file is, told by its beginning and the names of its members.

use super::pickle::{self, Context, Pickled};
use super::weights::{LEGACY, is_safetensors};
use super::zip::{self, Archive};
use crate::diag::{Code, Diagnostic};
use bytes::Bytes;

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// TorchScript of torch 1.3 and later.
    Script,
    /// TorchScript of torch 1.0 to 1.2.
    ScriptOld,
    /// Exported programs, by the names of the members with their graphs.
    Program(Vec<String>),
    /// Weights by name.
    StateDict,
    /// A module whose code is elsewhere.
    PickledModule,
    /// Instructions for the interpreter on phones, without code.
    Mobile,
    /// A compiled program.
    Inductor,
    /// Python sources.
    Package,
    Safetensors,
    /// Weights of torch before 1.6.
    LegacySave,
    MobileFlatbuffer,
    Unknown,
}

/// What a file is.
///
/// # Errors
/// For an archive without sound directory, and a pickle that cannot be read.
pub(crate) fn file_kind(bytes: &Bytes) -> Result<FileKind, Diagnostic> {
    if zip::is(bytes) {
        return of_archive(&Archive::open(bytes.clone())?);
    }
    Ok(match bytes {
        _ if bytes.starts_with(LEGACY) => FileKind::LegacySave,
        _ if bytes.get(4..8) == Some(b"PTMF") => FileKind::MobileFlatbuffer,
        _ if is_safetensors(bytes) => FileKind::Safetensors,
        _ => FileKind::Unknown,
    })
}

/// As [`file_kind`], of an open archive.
pub(crate) fn of_archive(archive: &Archive) -> Result<FileKind, Diagnostic> {
    let code = archive.within("code/").any(|name| name.ends_with(".py"));
    let graphs = || archive.within("models/").filter(|name| name.ends_with(".json"));
    const JSON: &str = "serialized_exported_program.json";
    Ok(if code && archive.has("data.pkl") {
        FileKind::Script
    } else if code && archive.has("model.json") {
        FileKind::ScriptOld
    } else if archive.has("archive_format") && graphs().next().is_some() {
        FileKind::Program(graphs().map(str::to_owned).collect())
    } else if archive.has(JSON) {
        FileKind::Program(vec![JSON.to_owned()])
    } else if archive.has_folder("data/aotinductor/") {
        FileKind::Inductor
    } else if archive.has("bytecode.pkl") {
        FileKind::Mobile
    } else if archive.has("python_version") || archive.has(".data/extern_modules") {
        FileKind::Package
    } else if archive.has("data.pkl") {
        saved(archive)?
    } else {
        FileKind::Unknown
    })
}

/// Whether a pickle is weights or a module. Tensors are not made for that.
fn saved(archive: &Archive) -> Result<FileKind, Diagnostic> {
    let context = Context::default();
    let tree = pickle::read(&archive.read("data.pkl")?, &context)?;
    let is_module = |value: &Pickled| match value {
        Pickled::Object(object) => object.attribute("_modules").is_some(),
        _ => false,
    };
    let root = tree.root();
    let within = match root {
        Pickled::Dict(items) => items.borrow().iter().any(|(_, value)| is_module(value)),
        other => is_module(other),
    };
    let has_tensors = !context.seen.borrow().is_empty();
    Ok(match root {
        _ if within => FileKind::PickledModule,
        // `torch.fx` makes its modules by a function.
        Pickled::Object(_) if has_tensors => FileKind::PickledModule,
        // A tensor by itself is not made here.
        _ if has_tensors => FileKind::StateDict,
        _ => FileKind::Unknown,
    })
}

impl FileKind {
    /// Why no network can be read from it, and what to do instead. `None` for networks.
    pub(crate) fn refusal(&self) -> Option<Diagnostic> {
        const SAVE: &str = "Save the module with `torch.jit.save(torch.jit.script(module), ...)` or \
            `torch.export.save`.";
        const SOURCE: &str = "Convert the network it was made from: save that with `torch.jit.save` or \
            `torch.export.save`.";
        let (what, help) = match self {
            FileKind::Script | FileKind::ScriptOld | FileKind::Program(_) => return None,
            FileKind::StateDict => ("a state dict: weights alone, without a network", SAVE),
            FileKind::LegacySave => {
                ("of `torch.save` before 1.6: weights alone, or a module without its code", SAVE)
            }
            FileKind::Safetensors => ("safetensors: weights alone, without a network", SAVE),
            FileKind::PickledModule => {
                ("a pickled module, whose code is in Python sources elsewhere", SAVE)
            }
            FileKind::Mobile => ("for the mobile interpreter, without code", SOURCE),
            FileKind::MobileFlatbuffer => {
                ("for the mobile interpreter (a flatbuffer), without code", SOURCE)
            }
            FileKind::Inductor => ("compiled by AOTInductor, and has no graph any more", SOURCE),
            FileKind::Package => ("a `torch.package` of Python sources", SAVE),
            FileKind::Unknown => ("no network of torch", SAVE),
        };
        let code = match self {
            FileKind::Unknown => Code::NoFrontend,
            // What is missing is the network.
            FileKind::StateDict | FileKind::LegacySave | FileKind::Safetensors => Code::FileMissing,
            _ => Code::FeatureUnsupported,
        };
        Some(Diagnostic::new(code, format!("The file is {what}.")).help(help))
    }
}
