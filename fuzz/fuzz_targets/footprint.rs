//! What messages take in memory: decoding takes no more than was computed before.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use onnxd_proto::footprint::{DECODED_BYTES_MAX, Measured, footprint};
use onnxd_proto::onnxd as message;

#[path = "../../proto/tests/counting/mod.rs"]
mod counting;

fuzz_target!(|bytes: &[u8]| {
    bounded::<message::WorkerEvent>(bytes);
    bounded::<message::Request>(bytes);
    bounded::<message::Job>(bytes);
    bounded::<message::Recognized>(bytes);
    bounded::<message::Submission>(bytes);
    bounded::<message::Probe>(bytes);
    bounded::<message::ImportLog>(bytes);
    bounded::<message::PassLog>(bytes);
    bounded::<message::QuantizeLog>(bytes);
    bounded::<message::Quantization>(bytes);
});

fn bounded<M: Measured>(bytes: &[u8]) {
    let Ok(bound) = footprint::<M>(bytes, DECODED_BYTES_MAX) else { return };
    let bytes = Bytes::copy_from_slice(bytes);
    let (taken, _) = counting::peak(|| M::decode(bytes).is_ok());
    assert!(taken <= bound, "{}: {taken} of {bound} bytes", M::SHAPE.name);
}
