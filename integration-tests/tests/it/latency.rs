//! How long a small drop takes from its last rename to the published result. Figures are printed, not judged.
//!
//! `cargo test --release -p onnxd-integration-tests --test it latency:: -- --nocapture` on an idle machine prints them.

use crate::site::{Site, wait};
use onnxd_integration_tests::write_small_model;
use std::fs;
use std::time::{Duration, Instant};

const DROPS: u32 = 20;
const SETTLE_MS: u64 = 20;

#[test]
fn a_small_drop_from_rename_to_result() {
    let mut site = Site::new();
    site.set("INTAKE_SETTLE_MS", &SETTLE_MS.to_string());
    let daemon = site.start();
    let mut taken: Vec<Duration> = Vec::new();
    for n in 0..DROPS {
        let name = format!("net{n}");
        let staged = site.at("staged.onnx");
        write_small_model(&staged, &name);
        let (to, result) = (site.inbox().join(format!("{name}.onnx")), site.outbox().join(&name));
        let begin = Instant::now();
        fs::rename(&staged, &to).unwrap();
        wait("the result", || result.is_dir().then_some(()));
        taken.push(begin.elapsed().saturating_sub(Duration::from_millis(SETTLE_MS)));
    }
    taken.sort();
    let ms = |at: usize| taken[at].as_secs_f64() * 1e3;
    let last = taken.len() - 1;
    println!("from rename to result, less {SETTLE_MS} ms settle time, {DROPS} drops:");
    println!("median {:.1} ms, least {:.1} ms, most {:.1} ms", ms(last / 2), ms(0), ms(last));
    assert_eq!(site.jobs().len(), DROPS as usize);
    assert_eq!(daemon.stop().code(), Some(0));
}
