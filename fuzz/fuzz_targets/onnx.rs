//! ONNX files: decoding, checking, inference, printing, encoding, and a run of what is small.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use onnxd_onnx::{Inline, NoExternalData, decode, encode_to_bytes, external_files};

#[path = "../shared/model.rs"]
mod model;

fuzz_target!(|bytes: &[u8]| {
    let bytes = Bytes::copy_from_slice(bytes);
    drop(external_files(bytes.clone()));
    let Ok(decoded) = decode(bytes, &mut NoExternalData) else { return };
    let mut model = decoded.model;
    model::exercise(&mut model);
    let written = encode_to_bytes(&model, &mut Inline).expect("what is decoded is encoded");
    let again = decode(written, &mut NoExternalData);
    assert!(again.is_ok(), "what is encoded is decoded: {:?}", again.err());
});
