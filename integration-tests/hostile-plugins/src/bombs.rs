//! Short messages that take much memory once they are decoded, written to the link itself.

use crate::floods::{field, frame, link};
use std::io::Write;

/// Bytes of a bomb on its way.
const BOMB_BYTES: usize = 3 << 20;
/// Empty findings that are just few enough to be taken.
const FINDINGS: usize = 200_000;
/// A text that is just short enough to be taken.
const TEXT_BYTES: usize = 60 << 20;

/// Sends one, and ends the process as if all were well.
pub(crate) fn send(what: &str) -> std::io::Result<()> {
    let message = match what {
        // `WorkerEvent.failed.items`
        "bomb-failure" => frame(7, &empty(1)),
        // `WorkerEvent.converted.report.quantization.tensors`
        "bomb-result" => frame(6, &field(1, &field(19, &empty(5)))),
        // `WorkerEvent.stage.stage`
        "bomb-stage" => frame(1, &field(1, &vec![b's'; TEXT_BYTES])),
        // `WorkerEvent.converted.report.diagnostics`
        "full-result" => frame(6, &field(1, &field(16, &[]).repeat(FINDINGS))),
        // `WorkerEvent.converted.report.summary`, in characters that take six in JSON
        _ => frame(6, &field(1, &field(5, &vec![1; TEXT_BYTES]))),
    };
    link()?.write_all(&message)?;
    std::process::exit(0)
}

fn empty(number: usize) -> Vec<u8> {
    let one = field(number, &[]);
    one.repeat(BOMB_BYTES / one.len())
}
