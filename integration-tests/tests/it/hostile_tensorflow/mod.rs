//! Files of TensorFlow, TFLite and Keras that were made to do harm: each gives one clear diagnostic or a harmless
//! model, in little memory and time, and without a panic.

mod checkpoints;
mod graphs;
mod hdf5;
mod keras;
mod lite;

use crate::hostile;

const LIMIT: &[&str] = &["N0213"];
const DAMAGED: &[&str] = &["N0201"];
const SHORT: &[&str] = &["N0202"];
const CYCLE: &[&str] = &["N0206"];
const FINE: &[&str] = &[];

/// Files by their names without spaces, with the ending of their kind.
fn assert_harmless(ending: &str, files: Vec<(&str, impl Into<Vec<u8>>, &[&str])>) {
    let named = files.into_iter().map(|(name, file, codes)| {
        (format!("{}.{ending}", name.replace(' ', "-")), file.into(), codes)
    });
    let sets = ["passes.profile=none"];
    hostile::assert_harmless("libonnxd_frontend_tensorflow.so", &sets, &named.collect::<Vec<_>>());
}
