//! Keras models: `.keras` archives of Keras 2 and 3, and the older `.h5` files.
//!
//! The description (`config`) says layers and their calls (`layer`), `weights` finds the tensors of each layer in the
//! HDF5 file (`hdf5`), and `run` runs the calls, which share a `runner`. `call` is what surrounds one call; what a
//! layer computes is said by the rows of its family (`rows`), and `masks` says which steps of sequences count.

mod call;
mod config;
mod dtype;
#[cfg(test)]
pub(crate) mod fixture;
pub mod fuzzing;
mod hdf5;
mod hub;
mod inputs;
mod layer;
mod masks;
mod rows;
mod run;
mod runner;
mod sizes;
mod training;
mod values;
mod weights;

use crate::model::{self, NetworkFormat};
use crate::states::{self, States};
use bytes::Bytes;
use hdf5::Hdf5;
use layer::{KerasLayer, damaged};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::{Archive, ExportOptions, Imported};
use runner::KerasRunner;
use serde_json::Value as Json;

/// What to do with files of weights alone.
const SAVE_WHOLE: &str = "Save the whole model: `model.save(\"model.keras\")`.";

/// Reads a `.keras` archive.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(bytes: Bytes, options: &ExportOptions) -> Result<Imported, Diagnostics> {
    let archive = Archive::open_any(bytes)?;
    let is_keras2 = is_keras2(&keras_version(&archive)?);
    let mut model = config::read(&archive.read("config.json")?, is_keras2)?;
    let weights = Hdf5::open(archive.read("model.weights.h5")?)?;
    weights::by_paths(&weights, &mut model)?;
    converted(&model, &weights, is_keras2, options)
}

/// Reads a `.h5` file.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import_hdf5(bytes: Bytes, options: &ExportOptions) -> Result<Imported, Diagnostics> {
    let file = Hdf5::open(bytes)?;
    let Some(config) = file.text("", "model_config") else {
        let message = "The file has weights alone and does not say which layers they belong to.";
        return Err(Diagnostic::new(Code::SourceSyntax, message).help(SAVE_WHOLE).into());
    };
    let version = file.text("", "keras_version").unwrap_or_else(|| "1".to_owned());
    let mut model = config::read(config.as_bytes(), is_keras2(&version))?;
    weights::by_names(&file, &mut model)?;
    converted(&model, &file, is_keras2(&version), options)
}

/// The version of Keras that wrote an archive; one that does not say it is taken as of version 3.
fn keras_version(archive: &Archive) -> Result<String, Diagnostic> {
    const METADATA: &str = "metadata.json";
    if !archive.has(METADATA) {
        return Ok("3".to_owned());
    }
    let json: Json = serde_json::from_slice(&archive.read(METADATA)?)
        .map_err(|e| damaged(format!("`{METADATA}` is no JSON: {}.", shown(&e.to_string()))))?;
    Ok(json.get("keras_version").and_then(Json::as_str).unwrap_or("3").to_owned())
}

fn is_keras2(version: &str) -> bool {
    version.starts_with("2") || version.starts_with("1")
}

const READER: NetworkFormat = NetworkFormat { name: "keras", table: rows::table };

/// Runs the model.
fn converted(
    model: &KerasLayer,
    weights: &Hdf5,
    is_keras2: bool,
    options: &ExportOptions,
) -> Result<Imported, Diagnostics> {
    sizes::check(model)?;
    model::import(&READER, options, |driver, asked| {
        let without = options.without_weights.then(Vec::new);
        let states = States::new(asked);
        states::reserve(driver.builder(), asked);
        let runner = KerasRunner::new(driver, weights, is_keras2, (without, states));
        inputs::run(&runner, model, options)
    })
}

#[cfg(test)]
mod tests;
