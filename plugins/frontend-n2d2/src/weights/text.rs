//! Text weights: decimals separated by white space, nothing else, and exactly as many as due.
//!
//! Files hold hundreds of millions of numbers, so they are read a part at a time, and each number
//! goes where it belongs at once.

use std::io::{self, BufRead};

use super::At;
use crate::diag::{Code, Diagnostic, refuse, shown};
use crate::ini::Opened;

/// Bytes that a number may take on average, the white space around it included: a file that is
/// larger by far holds something else, and is not worth the time. No number has more digits.
const NUMBER_BYTES_MAX: usize = 4096;

/// Numbers that are read at a time.
const BATCH: usize = 1024;

/// The `expected` numbers of a file, one after the other. They end early at what is no number:
/// [`Numbers::end`] tells.
pub(super) struct Numbers<'a> {
    at: &'a At<'a>,
    content: Box<dyn BufRead + 'a>,
    expected: usize,
    /// Read so far; the last of them are in `ready`, of which so many were given out.
    found: usize,
    ready: Vec<f32>,
    given: usize,
    line: usize,
    problem: Option<Diagnostic>,
}

impl<'a> Numbers<'a> {
    /// Refuses a file that cannot hold so many numbers, before there is room for them.
    pub(super) fn open(
        at: &'a At<'a>,
        file: Opened<'a>,
        expected: usize,
    ) -> Result<Numbers<'a>, Wrong> {
        let (content, found) = (file.content, file.bytes);
        if found / NUMBER_BYTES_MAX > expected.saturating_add(1) {
            let message = format!("{expected} numbers are expected, the file has {found} bytes");
            return Err(Wrong::Other(at.problem(Code::WeightsSize, message)));
        }
        let (ready, problem) = Default::default();
        let mut numbers =
            Numbers { at, content, expected, found: 0, ready, given: 0, line: 1, problem };
        // A number takes two bytes at least, but for the separator of the last.
        if expected.saturating_mul(2) > found + 1 {
            numbers.by_ref().for_each(drop);
            numbers.check()?;
        }
        Ok(numbers)
    }

    /// That all were numbers, and that no others follow.
    pub(super) fn end(mut self) -> Result<(), Wrong> {
        self.by_ref().for_each(drop);
        self.check()
    }

    fn check(&mut self) -> Result<(), Wrong> {
        refuse!(let Some(problem) = self.problem.take() => Wrong::Other(problem));
        let mut count = self.found;
        while self.word(|_, _| ()).map_err(|e| Wrong::Other(self.unreadable(&e)))?.is_some() {
            count += 1;
        }
        if count == self.expected {
            return Ok(());
        }
        let message = format!("{} numbers are expected, the file holds {count}", self.expected);
        Err(Wrong::Count(self.at.problem(Code::WeightsSize, message), count))
    }

    /// What `f` makes of the next word and its line; nothing at the end of the file.
    fn word<T>(&mut self, f: impl FnOnce(&[u8], usize) -> T) -> io::Result<Option<T>> {
        self.skip_space()?;
        let part = self.content.fill_buf()?;
        if part.is_empty() {
            return Ok(None);
        }
        if let Some(end) = part.iter().position(u8::is_ascii_whitespace) {
            let made = f(&part[..end], self.line);
            self.content.consume(end);
            return Ok(Some(made));
        }
        // It reaches to the end of the part, or over it.
        let mut word = Vec::new();
        loop {
            let part = self.content.fill_buf()?;
            let end = part.iter().position(u8::is_ascii_whitespace).unwrap_or(part.len());
            let whole = part.is_empty() || end < part.len();
            let kept = end.min(NUMBER_BYTES_MAX + 1 - word.len());
            word.extend_from_slice(&part[..kept]);
            self.content.consume(end);
            if whole {
                return Ok(Some(f(&word, self.line)));
            }
        }
    }

    fn skip_space(&mut self) -> io::Result<()> {
        loop {
            let part = self.content.fill_buf()?;
            let count = part.iter().take_while(|b| b.is_ascii_whitespace()).count();
            self.line += part[..count].iter().filter(|b| **b == b'\n').count();
            let more = count > 0 && count == part.len();
            self.content.consume(count);
            if !more {
                return Ok(());
            }
        }
    }

    /// Makes the next numbers ready, if there are some.
    fn read(&mut self) {
        self.ready.clear();
        self.given = 0;
        let wanted = BATCH.min(self.expected - self.found);
        if wanted == 0 || self.problem.is_some() {
            return;
        }
        let at = self.at;
        let whole = self.whole_words(wanted);
        let next = whole.and_then(|()| match self.ready.is_empty() && self.problem.is_none() {
            // A word that reaches to the end of the part, or the end of the file.
            true => self.word(|word, line| number(word).ok_or_else(|| malformed(at, line, word))),
            false => Ok(None),
        });
        match next {
            Ok(Some(Ok(number))) => self.ready.push(number),
            Ok(Some(Err(problem))) => self.problem = Some(problem),
            Ok(None) => {}
            Err(error) => self.problem = Some(self.unreadable(&error)),
        }
        self.found += self.ready.len();
    }

    /// The numbers whose ends are seen in the present part of the file.
    fn whole_words(&mut self, wanted: usize) -> io::Result<()> {
        self.skip_space()?;
        let part = self.content.fill_buf()?;
        let mut rest = part;
        while self.ready.len() < wanted
            && let Some(end) = rest.iter().position(u8::is_ascii_whitespace)
        {
            let Some(number) = number(&rest[..end]) else {
                self.problem = Some(malformed(self.at, self.line, &rest[..end]));
                break;
            };
            self.ready.push(number);
            rest = &rest[end..];
            while let [space, behind @ ..] = rest
                && space.is_ascii_whitespace()
            {
                self.line += usize::from(*space == b'\n');
                rest = behind;
            }
        }
        let count = part.len() - rest.len();
        self.content.consume(count);
        Ok(())
    }

    fn unreadable(&self, error: &io::Error) -> Diagnostic {
        self.at.problem(Code::Unreadable, error)
    }
}

impl Iterator for Numbers<'_> {
    type Item = f32;

    fn next(&mut self) -> Option<f32> {
        if self.given == self.ready.len() {
            self.read();
        }
        let number = self.ready.get(self.given).copied();
        self.given += usize::from(number.is_some());
        number
    }
}

/// What is wrong with a file.
pub(super) enum Wrong {
    /// It holds another count of words.
    Count(Diagnostic, usize),
    Other(Diagnostic),
}

impl Wrong {
    pub(super) fn problem(self) -> Diagnostic {
        match self {
            Wrong::Count(problem, _) | Wrong::Other(problem) => problem,
        }
    }
}

/// The `expected` numbers of a file, which are few.
pub(super) fn numbers(at: &At, file: Opened, expected: usize) -> Result<Vec<f32>, Diagnostic> {
    let mut numbers = Numbers::open(at, file, expected).map_err(Wrong::problem)?;
    let found = numbers.by_ref().collect();
    numbers.end().map_err(Wrong::problem)?;
    Ok(found)
}

fn number(word: &[u8]) -> Option<f32> {
    let word = Some(word).filter(|word| word.len() <= NUMBER_BYTES_MAX)?;
    std::str::from_utf8(word).ok()?.parse().ok().filter(|n: &f32| n.is_finite())
}

fn malformed(at: &At, line: usize, word: &[u8]) -> Diagnostic {
    let word = String::from_utf8_lossy(&word[..word.len().min(200)]);
    let message = format!("line {line}: `{}` is not a finite number", shown(&word));
    at.problem(Code::WeightsSyntax, message)
}
