//! Mutations of the seeds of the fuzz targets, without their tool.

use super::{code, exported, file, json, pickle, scripted};
use onnxd_plugin_sdk::ir::{Level, Model, verify};
use std::path::Path;
use std::time::{Duration, Instant};

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 16] = [
    b"(",
    b"[",
    b"None",
    b"-1",
    b"9223372036854775807",
    b"torch.",
    b"x",
    b"\n",
    b"  ",
    b"while True:\n",
    b"0.",
    b"True",
    b"annotate(List[int], [])",
    b"_",
    b"}",
    b"\x80\x02]",
];

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
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let word = WORDS[self.below(WORDS.len())];
                    bytes.splice(at..end, word.iter().copied());
                }
                3 => {
                    let part = bytes[at..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, part);
                }
                _ => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len());
                    let until = (from + self.below(60)).min(other.len());
                    bytes.splice(at..end, other[from..until].iter().copied());
                }
            }
        }
        bytes
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seeds").join(target);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn assert_valid(model: Option<Model>) -> usize {
    let Some(model) = model else { return 0 };
    let findings = verify(&model, Level::Full);
    assert!(findings.0.is_empty(), "what is imported is valid: {findings}");
    1
}

/// Runs `f` on mutations for as long as `TORCH_FUZZ_SECONDS` says, or on a few; gives how many were models.
fn run(target: &str, f: &dyn Fn(&[u8]) -> usize) {
    let seconds = std::env::var("TORCH_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    let until = seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let seeds = seeds(target);
    let models: usize = seeds.iter().map(|seed| f(seed)).sum();
    let start = std::env::var("TORCH_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut random, mut runs, mut found, mut slowest) = (Random(start), 0, 0, Duration::ZERO);
    while until.map_or(runs < 200, |until| Instant::now() < until) {
        let bytes = random.mutated(&seeds);
        let begun = Instant::now();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&bytes)));
        found += done.unwrap_or_else(|_| {
            panic!("run {runs} of {target}: {:?}", String::from_utf8_lossy(&bytes))
        });
        slowest = slowest.max(begun.elapsed());
        runs += 1;
    }
    println!(
        "{target}: {models} of {} seeds are models; {runs} runs, {found} models, {slowest:?} at most",
        seeds.len()
    );
}

#[test]
fn files() {
    run("torch_file", &|bytes| {
        file(bytes);
        pickle(bytes);
        0
    });
}

#[test]
fn codes() {
    run("torch_script", &|bytes| {
        code(bytes);
        0
    });
}

#[test]
fn scripts() {
    run("torch_script", &|bytes| assert_valid(scripted(bytes)));
}

#[test]
fn programs() {
    run("torch_program", &|bytes| {
        json(bytes);
        assert_valid(exported(bytes))
    });
}
