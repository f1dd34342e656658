//! Mutations of the seeds of the fuzz targets, without their tool. `TENSORFLOW_FUZZ_SECONDS` says how long.

use super::{bundle, graph, saved};
use onnxd_plugin_sdk::ir::{Level, Model, verify};
use std::path::Path;
use std::time::{Duration, Instant};

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 16] = [
    b"node { name: 'x' op: 'Identity' input: 'x' }",
    b"-1",
    b"9223372036854775807",
    b"size: 4611686018427387904 ",
    b"dim { size: -1 }",
    b"unknown_rank: true",
    b"DT_STRING",
    b"DT_FLOAT",
    b"input: \"x\" ",
    b"Identity",
    b"PartitionedCall",
    b":1",
    b"^",
    b"}",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x00",
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
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let word = WORDS[self.below(WORDS.len())];
                    bytes.splice(at..end, word.iter().copied());
                }
                3 | 4 => self.swap_words(&mut bytes),
                _ => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len());
                    let until = (from + self.below(200)).min(other.len());
                    bytes.splice(at..end, other[from..until].iter().copied());
                }
            }
        }
        bytes
    }

    /// Puts one word of the text into the place of another.
    fn swap_words(&mut self, bytes: &mut Vec<u8>) {
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let mut word = || {
            let at = self.below(bytes.len());
            let start = bytes[..at].iter().rposition(|b| !is_part(b)).map_or(0, |i| i + 1);
            let length = bytes[start..].iter().position(|b| !is_part(b));
            start..start + length.unwrap_or(bytes.len() - start)
        };
        let (from, to) = (word(), word());
        let text = bytes[from].to_vec();
        bytes.splice(to, text);
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

/// Runs `f` on mutations, and tells how many were models and how long the slowest took.
fn run(target: &str, f: &dyn Fn(&[u8]) -> usize) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let until = number("TENSORFLOW_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let seeds = seeds(target);
    let models: usize = seeds.iter().map(|seed| f(seed)).sum();
    let mut random = Random(number("TENSORFLOW_FUZZ_SEED").unwrap_or(1));
    let (mut runs, mut found, mut slowest) = (0, 0, Duration::ZERO);
    while until.map_or(runs < 200, |until| Instant::now() < until) {
        let bytes = random.mutated(&seeds);
        let begun = Instant::now();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&bytes)));
        found += done.unwrap_or_else(|_| {
            panic!("run {runs} of {target}: {}", String::from_utf8_lossy(&bytes))
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
fn graphs() {
    run("tensorflow_graph", &|bytes| assert_valid(graph(bytes)));
}

#[test]
fn saved_models() {
    run("tensorflow_saved", &|bytes| assert_valid(saved(bytes)));
}

#[test]
fn bundles() {
    run("tensorflow_bundle", &|bytes| {
        bundle(bytes);
        0
    });
}
