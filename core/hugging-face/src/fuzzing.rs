//! The readers without a host, for the fuzz targets in `fuzz/`: files are byte slices.
//!
//! No promise is made about this module; plugins are used through their header.

use crate::architecture::Target;
use crate::checkpoint::{self, Checkpoint};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::{gguf, kinds, pickled, proof, quantization, safetensors, sentence};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::lower;
use onnxd_plugin_sdk::pickle::Members;

const OPSET: i64 = 21;

/// Reads bytes as a file of tensors, as a list of such files, and as the files of steps behind a model.
pub fn tensors(bytes: &[u8]) {
    let read = safetensors::read("m.safetensors", &Bytes::copy_from_slice(bytes));
    read.iter().flatten().for_each(|stored| drop(stored.tensor()));
    drop(checkpoint::index("list", bytes));
    sentence::read_bytes(bytes);
}

/// Reads the first bytes as `config.json`, and what follows a line break and a NUL as the tensors of its decoder.
pub fn folder(bytes: &[u8]) -> Option<Model> {
    let at = bytes.windows(2).position(|two| two == b"\n\0");
    let (config, tensors) = at.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 2..]));
    let config = Config::parse(config).ok()?;
    let scheme = quantization::scheme(&config).ok()?;
    let described = kinds::family(&config, &kinds::named).ok()?.describe(&config, None).ok()?;
    let stored = safetensors::read("m.safetensors", &Bytes::copy_from_slice(tensors));
    let stored = stored.unwrap_or_default().into_iter().map(|t| (t.name.clone(), t));
    let mut checkpoint = Checkpoint::of(stored.collect());
    checkpoint.under(described.prefixes());
    checkpoint.by(scheme);
    let graph = described.graph(&checkpoint, &Target::plain(OPSET)).ok()?;
    drop(described.further(&checkpoint, &Target::plain(OPSET)));
    drop(config.unread());
    drop(checkpoint.unused());
    let model = lower::model(graph, OPSET);
    if described.has_decoder() {
        drop(proof::of_folder(&model, &config, &checkpoint));
    }
    Some(model)
}

/// Reads bytes as a file of `torch.save`, and as the pickle of one that has some storages: how many tensors there are.
pub fn pickled(bytes: &[u8]) -> usize {
    let bytes = Bytes::copy_from_slice(bytes);
    let found = [pickled::read("m.bin", &bytes), pickled::dict(&Alone(bytes))];
    found.iter().flatten().flatten().filter(|stored| stored.tensor().is_ok()).count()
}

/// An archive of a pickle, with as many storages as are asked for.
#[derive(Debug)]
struct Alone(Bytes);

impl Members for Alone {
    fn has(&self, name: &str) -> bool {
        name != "byteorder"
    }

    fn read(&self, name: &str) -> Result<Bytes, Diagnostic> {
        Ok(match name {
            "data.pkl" => self.0.clone(),
            _ => Bytes::from_static(&[0x3f; 256]),
        })
    }
}

/// Reads bytes as a file of GGUF.
pub fn gguf(bytes: &[u8]) -> Option<Model> {
    let bytes = Bytes::copy_from_slice(bytes);
    let model = lower::model(gguf::graph("m.gguf", &bytes, OPSET).ok()?, OPSET);
    let read = gguf::read("m.gguf", &bytes).ok()?;
    drop(gguf::proof(&model, &read));
    Some(model)
}

#[cfg(test)]
mod tests;
