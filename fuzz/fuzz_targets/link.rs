//! Messages from a worker, in which foreign code ran.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_proto::footprint::{DECODED_BYTES_MAX, Measured};
use onnxd_proto::onnxd::{Request, WorkerEvent};
use onnxd_worker::link::Link;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// What a socket takes without a reader.
const BYTES_MAX: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let bytes = &bytes[..bytes.len().min(BYTES_MAX)];
    receive::<WorkerEvent>(bytes);
    receive::<Request>(bytes);
});

fn receive<M: Measured>(bytes: &[u8]) {
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(bytes).unwrap();
    drop(there);
    let mut link = Link::new(here);
    while let Ok(Some(_)) = link.receive::<M>(DECODED_BYTES_MAX) {}
}
