//! Mutations of small files, without a tool for it. `KERAS_FUZZ_SECONDS` says how long, and `KERAS_FUZZ_SEEDS` may
//! name a folder of further files.

use super::{description, file, hdf5};
use crate::keras::fixture::{self, MODELS};
use onnxd_plugin_sdk::ir::{Level, verify};
use std::time::{Duration, Instant};

/// Numbers and words that are put in between.
const WORDS: [&[u8]; 12] = [
    b"null",
    b"-1",
    b"9223372036854775807",
    b"[]",
    b"0.5",
    b"\"Dense\"",
    b"{}",
    b"true",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x00\x00\x00\x00\x00",
    b"SNOD",
    b"TREE",
];

/// What no run may take, on a busy machine without optimization.
const SLOW: Duration = Duration::from_secs(20);

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }

    fn mutated(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len());
            let end = (at + self.below(9)).min(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.below(256) as u8,
                2 => drop(bytes.drain(at..end)),
                3 => {
                    let word = WORDS[self.below(WORDS.len())];
                    bytes.splice(at..end, word.iter().copied());
                }
                _ => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len());
                    let until = (from + self.below(60)).min(other.len());
                    bytes.splice(at..end, other[from..until].iter().copied());
                }
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        bytes
    }
}

fn run(what: &str, mut seeds: Vec<Vec<u8>>, f: &dyn Fn(&[u8])) {
    let ending = if what == "file" { ["keras", "h5"] } else { [what, what] };
    if let Ok(folder) = std::env::var("KERAS_FUZZ_SEEDS") {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files =
            files.filter(|path| path.extension().is_some_and(|e| ending.iter().any(|w| e == *w)));
        seeds.extend(files.map(|path| std::fs::read(path).unwrap()));
    }
    let seconds = std::env::var("KERAS_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    let until = seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let start = std::env::var("KERAS_FUZZ_START").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut random, mut runs, mut slowest) = (Random(start), 0, Duration::ZERO);
    while until.map_or(runs < 100, |until| Instant::now() < until) {
        let bytes = random.mutated(&seeds);
        let begun = Instant::now();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&bytes)));
        if done.is_err() || begun.elapsed() > SLOW {
            let kept = std::env::temp_dir().join(format!("keras-{what}-{runs}"));
            std::fs::write(&kept, &bytes).unwrap();
            panic!("run {runs} of {what} fails or is slow; the input is {}", kept.display());
        }
        slowest = slowest.max(begun.elapsed());
        runs += 1;
    }
    println!("{what}: {} seeds, {runs} runs, {slowest:?} at most", seeds.len());
}

/// The bytes of a test's weights.
fn weights() -> Vec<u8> {
    fixture::weights(&[("layers/dense/vars", &[("0", &[4, 3]), ("1", &[3])])])
}

#[test]
fn hdf5_files() {
    run("h5", vec![weights()], &hdf5);
}

#[test]
fn descriptions() {
    let weights = weights();
    let seeds = MODELS.iter().map(|model| model.as_bytes().to_vec()).collect();
    run("json", seeds, &|text| {
        for is_keras2 in [false, true] {
            let Some(found) = description(text, &weights, is_keras2) else { continue };
            let findings = verify(&found.model, Level::Full);
            assert!(findings.0.is_empty(), "what is imported is valid: {findings}");
        }
    });
}

#[test]
fn files() {
    let seed = fixture::archive(MODELS[0], &weights());
    run("file", vec![seed], &|bytes| {
        file(bytes);
    });
}
