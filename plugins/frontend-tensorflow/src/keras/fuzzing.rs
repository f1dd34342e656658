//! Entries for fuzz targets: what reads foreign bytes of Keras' files.

use super::hdf5::Hdf5;
use super::{config, converted};
use crate::fuzz_input::{model, options, parts};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::Model;

/// Groups of a file that are visited.
const GROUPS_MAX: usize = 1_000;
/// How deep they are; a group may hold itself.
const DEPTH_MAX: usize = 20;

/// Everything that is in an HDF5 file; how many tensors it holds.
pub fn hdf5(bytes: &[u8]) -> usize {
    let Ok(file) = Hdf5::open(Bytes::copy_from_slice(bytes)) else { return 0 };
    let mut open = vec![String::new()];
    let mut found = 0;
    for _ in 0..GROUPS_MAX {
        let Some(group) = open.pop() else { break };
        let inside = |name: &String| super::weights::join(&group, name);
        for name in ["layer_names", "weight_names", "model_config", "name"] {
            let _ = (file.list(&group, name), file.text(&group, name));
        }
        let tensors = file.tensors(&group);
        let is_sound = |name: &&String| matches!(file.tensor(&inside(name)), Ok(Some(_)));
        found += tensors.iter().take(GROUPS_MAX).filter(is_sound).count();
        if group.split('/').count() > DEPTH_MAX {
            continue;
        }
        open.extend(file.groups(&group).iter().take(GROUPS_MAX).map(inside));
    }
    found
}

/// A description of a model, with the weights of another file.
pub fn description(text: &[u8], weights: &[u8], is_keras2: bool) -> Option<Model> {
    let mut layer = config::read(text, is_keras2).ok()?;
    let file = Hdf5::open(Bytes::copy_from_slice(weights)).ok()?;
    super::weights::by_paths(&file, &mut layer).ok()?;
    model(converted(&layer, &file, is_keras2, &options()))
}

/// A whole `.keras` or `.h5` file, or a description with its weights behind a mark.
pub fn file(bytes: &[u8]) -> Option<Model> {
    match (bytes, parts(bytes).as_slice()) {
        ([b'P', b'K', ..], _) => model(super::import(Bytes::copy_from_slice(bytes), &options())),
        ([b'{', ..], [text, weights]) => {
            let old = description(text, weights, true);
            description(text, weights, false).or(old)
        }
        _ => model(super::import_hdf5(Bytes::copy_from_slice(bytes), &options())),
    }
}

#[cfg(test)]
mod tests;
