//! Text weights: decimals separated by white space, nothing else, and exactly as many as due.
//!
//! Files hold tens of millions of numbers, so the bytes are read without splitting into lines.

use super::At;
use crate::diag::{Code, Diagnostic, shown};

/// Bytes that a number may take on average, the white space around it included: a file that is
/// larger by far holds something else, and is not worth the time.
const NUMBER_BYTES_MAX: usize = 4096;

/// The `expected` numbers of a file.
pub(super) fn numbers(at: &At, bytes: &[u8], expected: usize) -> Result<Vec<f32>, Diagnostic> {
    if bytes.len() / NUMBER_BYTES_MAX > expected.saturating_add(1) {
        let found = bytes.len();
        let message = format!("{expected} numbers are expected, the file has {found} bytes");
        return Err(at.problem(Code::WeightsSize, message));
    }
    // A number takes at least two bytes with its separator, whatever the layer asks for.
    let mut found = Vec::with_capacity(expected.min(bytes.len() / 2 + 1));
    let mut words = words(bytes);
    for word in words.by_ref().take(expected) {
        found.push(number(word).ok_or_else(|| malformed(at, bytes, word))?);
    }
    let count = found.len() + words.count();
    if count == expected {
        return Ok(found);
    }
    let message = format!("{expected} numbers are expected, the file holds {count}");
    Err(at.problem(Code::WeightsSize, message))
}

/// How many words a file has.
pub(super) fn count(bytes: &[u8]) -> usize {
    words(bytes).count()
}

fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn number(word: &[u8]) -> Option<f32> {
    std::str::from_utf8(word).ok()?.parse().ok().filter(|n: &f32| n.is_finite())
}

fn malformed(at: &At, bytes: &[u8], word: &[u8]) -> Diagnostic {
    let start = word.as_ptr() as usize - bytes.as_ptr() as usize;
    let line = 1 + bytes[..start].iter().filter(|b| **b == b'\n').count();
    let word = String::from_utf8_lossy(&word[..word.len().min(200)]);
    let message = format!("line {line}: `{}` is not a finite number", shown(&word));
    at.problem(Code::WeightsSyntax, message)
}
