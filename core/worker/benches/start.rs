//! What it costs to start a worker that has nothing to do, beside a process of the same program that
//! ends at once: `cargo bench -p onnxd-worker --bench start -- [STARTS]`. Processor time of the
//! children, without that of the kernel's own threads.

use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::{Limits, ProbeRequest, Request};
use onnxd_worker::confine::parent::spawn;
use onnxd_worker::confine::{ConfinementMode, SUBCOMMAND};
use onnxd_worker::worker_main;
use std::process::{Command, ExitCode};

/// The argument with which the program ends at once.
const NOTHING: &str = "nothing";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [SUBCOMMAND, fd, mode] => return worker_main(fd, mode),
        [NOTHING] => {}
        [starts] => compare(starts.parse().expect("a number of starts")),
        _ => compare(200),
    }
    ExitCode::SUCCESS
}

fn compare(starts: u32) {
    let program = std::env::current_exe().expect("the own program");
    let nothing = per_start(starts, || {
        Command::new(&program).arg(NOTHING).status().expect("the own program runs");
    });
    let (memory_bytes, threads_max) = (1 << 30, 256);
    let limits = Limits { memory_bytes, threads_max, wall_ms: 10_000, ..Limits::default() };
    let request =
        Request { limits: Some(limits), what: Some(What::Probe(ProbeRequest::default())) };
    let worker = per_start(starts, || {
        let worker = spawn(&request, &program, ConfinementMode::BestEffort).expect("a worker");
        worker.follow(|_| {}).answer().expect("an answer");
    });
    println!("process {nothing:.2} ms, worker {worker:.2} ms of processor time for a start");
    println!("a worker costs {:.1} times a process", worker / nothing);
}

/// Processor time of the children that one call starts, in milliseconds.
fn per_start(starts: u32, start: impl Fn()) -> f64 {
    start();
    let before = of_children();
    (0..starts).for_each(|_| start());
    (of_children() - before) / f64::from(starts)
}

fn of_children() -> f64 {
    // SAFETY: the structure is plain data, and the system fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}
