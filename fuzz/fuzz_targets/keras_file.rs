//! Keras models: archives, HDF5 files, and descriptions with their weights.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_frontend_tensorflow::fuzzing::keras;

fuzz_target!(|bytes: &[u8]| {
    let _ = keras::file(bytes);
    keras::hdf5(bytes);
});
