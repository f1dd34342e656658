//! onnxd: converts neural networks dropped into a folder to ONNX.
//!
//! One program is everything: the daemon, its workers (re-executed and confined), and the commands.

mod cli;
mod conversion;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
