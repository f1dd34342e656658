//! Mutations of small files, for tests of what reads foreign bytes, without a tool for fuzzing.
//!
//! A test takes a few hundred of them. The variable `FUZZ_SECONDS` says for how long instead, and `FUZZ_SEED` chooses
//! others. An input that lets the reader panic, or that takes it very long, is kept in a temporary file, and
//! `FUZZ_INPUT` names such a file to run it alone.

use crate::ir::{Model, VerifyLevel, verify};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Mutations where nothing says for how long.
const RUNS: usize = 200;
/// What no run may take, on a busy machine without optimization.
const SLOW: Duration = Duration::from_secs(20);
/// What readers take for sizes, counts and offsets.
const NUMBERS: [u64; 8] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];

/// Small files, and what is put into them.
#[derive(Clone, Debug)]
pub struct Mutations<'w> {
    name: String,
    seeds: Vec<Vec<u8>>,
    words: &'w [&'w [u8]],
}

/// How the runs of a test went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// How many there were.
    pub count: usize,
    /// What the reader counted in them.
    pub found: usize,
    /// The time of the slowest one.
    pub slowest: Duration,
}

impl<'w> Mutations<'w> {
    /// Mutations of `seeds`. `words` are put in between, beside parts of other seeds.
    ///
    /// # Panics
    /// If there are no seeds.
    pub fn of(name: &str, seeds: Vec<Vec<u8>>, words: &'w [&'w [u8]]) -> Mutations<'w> {
        assert!(!seeds.is_empty(), "{name} has no seeds");
        Mutations { name: name.to_owned(), seeds, words }
    }

    /// As [`Mutations::of`], of the files in a folder.
    ///
    /// # Panics
    /// If one cannot be read.
    pub fn of_folder(folder: &Path, words: &'w [&'w [u8]]) -> Mutations<'w> {
        let entries = std::fs::read_dir(folder).expect("a folder of seeds");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a seed").path()).collect();
        files.sort();
        let seeds = files.iter().map(|path| std::fs::read(path).expect("a seed")).collect();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        Mutations::of(&name, seeds, words)
    }

    /// Runs `f` on the seeds and on mutations of them. `f` gives what is counted, such as the models that were read.
    ///
    /// # Panics
    /// If `f` does, or takes very long; the message names the file that holds the input.
    pub fn run(&self, f: impl Fn(&[u8]) -> usize) -> Runs {
        if let Some(path) = std::env::var_os("FUZZ_INPUT") {
            let input = std::fs::read(path).expect("the input that `FUZZ_INPUT` names");
            let seeds = vec![input];
            return Mutations { seeds, ..self.clone() }.run_for(Some(0), 0, f);
        }
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        self.run_for(number("FUZZ_SECONDS"), number("FUZZ_SEED").unwrap_or(1), f)
    }

    fn run_for(&self, seconds: Option<u64>, start: u64, f: impl Fn(&[u8]) -> usize) -> Runs {
        let of_seeds: usize = self.seeds.iter().map(|seed| f(seed)).sum();
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let mut random = Random(start);
        let mut runs = Runs { count: 0, found: 0, slowest: Duration::ZERO };
        while until.map_or(runs.count < RUNS, |until| Instant::now() < until) {
            let bytes = self.mutated(&mut random);
            let begun = Instant::now();
            let found = catch_unwind(AssertUnwindSafe(|| f(&bytes)));
            let took = begun.elapsed();
            match found {
                Ok(found) if took <= SLOW => runs.found += found,
                Ok(_) => self.fail(runs.count, start, &bytes, "takes very long"),
                Err(_) => self.fail(runs.count, start, &bytes, "panics"),
            }
            runs.slowest = runs.slowest.max(took);
            runs.count += 1;
        }
        let Runs { count, found, slowest } = runs;
        let (name, seeds) = (&self.name, self.seeds.len());
        // Only who asked for it hears of it.
        if seconds.is_some() {
            let said = format!("{name}: {of_seeds} found in {seeds} seeds; {count} runs");
            let _ = writeln!(std::io::stdout(), "{said}, {found} found, {slowest:?} at most");
        }
        runs
    }

    fn fail(&self, run: usize, start: u64, bytes: &[u8], what: &str) -> ! {
        let name = &self.name;
        let kept = std::env::temp_dir().join(format!("{name}-{start}-{run}"));
        std::fs::write(&kept, bytes).expect("a temporary file");
        panic!("run {run} of {name} {what}; the input is {}", kept.display());
    }

    /// One seed, changed in a few places.
    fn mutated(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = random.one(&self.seeds).clone();
        for _ in 0..1 + random.below(4) {
            self.change(&mut bytes, random);
        }
        bytes
    }

    fn change(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(12)).min(bytes.len());
        match random.below(10) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            3 => {
                let number = random.one(&NUMBERS).to_le_bytes();
                let width = *random.one(&[1, 2, 4, 8]);
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
            4 => drop(bytes.drain(at..end)),
            5 if !self.words.is_empty() => {
                bytes.splice(at..end, random.one(self.words).iter().copied());
            }
            6 | 7 => {
                let (from, to) = (word_at(bytes, random), word_at(bytes, random));
                let text = bytes[from].to_vec();
                bytes.splice(to, text);
            }
            _ => {
                let other = random.one(&self.seeds);
                let from = random.below(other.len());
                let until = (from + random.below(200)).min(other.len());
                bytes.splice(at..end, other[from..until].iter().copied());
            }
        }
    }
}

/// Where a word of a text is.
fn word_at(bytes: &[u8], random: &mut Random) -> std::ops::Range<usize> {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let at = random.below(bytes.len());
    let start = bytes[..at].iter().rposition(|b| !is_part(b)).map_or(0, |i| i + 1);
    let length = bytes[start..].iter().position(|b| !is_part(b));
    start..start + length.unwrap_or(bytes.len() - start)
}

/// Counts a model, which must be valid.
///
/// # Panics
/// If it is not.
pub fn valid(model: Option<&Model>) -> usize {
    let Some(model) = model else { return 0 };
    let findings = verify(model, VerifyLevel::Full);
    assert!(findings.0.is_empty(), "what is imported is valid: {findings}");
    1
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashSet;

    fn seeds() -> Vec<Vec<u8>> {
        vec![b"size: 12 name: 'x'".to_vec(), vec![0; 16], vec![]]
    }

    fn inputs(start: u64) -> Vec<Vec<u8>> {
        let seen = RefCell::new(vec![]);
        Mutations::of("bytes", seeds(), &[b"word"]).run_for(None, start, |bytes| {
            seen.borrow_mut().push(bytes.to_vec());
            usize::from(bytes.windows(4).any(|w| w == b"word"))
        });
        seen.into_inner()
    }

    #[test]
    fn a_seed_gives_the_same_mutations_again_and_another_one_gives_others() {
        let first = inputs(1);
        assert_eq!(first, inputs(1));
        assert_eq!(first[..3], seeds());
        let (first, other): (HashSet<_>, HashSet<_>) =
            (first.into_iter().collect(), inputs(2).into_iter().collect());
        assert!(first.len() > RUNS / 2, "{}", first.len());
        assert!(first.intersection(&other).count() < RUNS / 4);
    }

    #[test]
    fn what_lets_a_reader_panic_is_kept() {
        let mutations = Mutations::of("kept", seeds(), &[b"word"]);
        let refuse = |bytes: &[u8]| {
            assert!(!bytes.windows(4).any(|w| w == b"word"), "a word");
            0
        };
        let failed = catch_unwind(AssertUnwindSafe(|| mutations.run_for(None, 1, refuse)));
        let message = failed.unwrap_err().downcast::<String>().unwrap();
        let kept = message.rsplit(' ').next().unwrap();
        assert!(message.contains("of kept panics"), "{message}");
        let bytes = std::fs::read(kept).unwrap();
        std::fs::remove_file(kept).unwrap();
        assert!(bytes.windows(4).any(|w| w == b"word"));
    }

    #[test]
    fn finds_are_counted_for_as_long_as_is_said() {
        let mutations = Mutations::of("count", seeds(), &[]);
        let runs = mutations.run_for(Some(0), 1, |_| 1);
        assert_eq!((runs.count, runs.found), (0, 0));
        let runs = mutations.run_for(None, 1, |_| 1);
        assert_eq!((runs.count, runs.found), (RUNS, RUNS));
    }
}
