//! Entries for fuzz targets: what reads foreign bytes of Keras' files. Nothing is checked but that they end.

use super::hdf5::Hdf5;
use super::{config, converted};
use bytes::Bytes;
use onnxd_plugin_sdk::{ExportOptions, Imported};

/// Groups of a file that are visited.
const GROUPS_MAX: usize = 1_000;

/// Everything that is in an HDF5 file.
pub fn hdf5(bytes: &[u8]) {
    let Ok(file) = Hdf5::open(Bytes::copy_from_slice(bytes)) else { return };
    let mut open = vec![String::new()];
    let mut left = GROUPS_MAX;
    while let Some(group) = open.pop() {
        if left == 0 {
            return;
        }
        left -= 1;
        let inside = |name: &String| match group.is_empty() {
            true => name.clone(),
            false => format!("{group}/{name}"),
        };
        for name in ["layer_names", "weight_names", "model_config", "name"] {
            let _ = (file.list(&group, name), file.text(&group, name));
        }
        for tensor in file.tensors(&group).iter().take(GROUPS_MAX) {
            let _ = file.tensor(&inside(tensor));
        }
        open.extend(file.groups(&group).iter().take(GROUPS_MAX).map(inside));
    }
}

/// A description of a model, with the weights of another file.
pub fn description(text: &[u8], weights: &[u8], is_keras2: bool) -> Option<Imported> {
    let mut model = config::read(text, is_keras2).ok()?;
    let file = Hdf5::open(Bytes::copy_from_slice(weights)).ok()?;
    super::weights::by_paths(&file, &mut model).ok()?;
    let options = ExportOptions::of_shapes(18, vec![]);
    converted(&model, &file, is_keras2, &options).ok()
}

/// A whole `.keras` or `.h5` file.
pub fn file(bytes: &[u8]) -> Option<Imported> {
    let options = ExportOptions::of_shapes(18, vec![]);
    let bytes = Bytes::copy_from_slice(bytes);
    match bytes.starts_with(b"PK") {
        true => super::import(bytes, &options).ok(),
        false => super::import_hdf5(bytes, &options).ok(),
    }
}

#[cfg(test)]
mod tests;
