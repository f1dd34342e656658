//! Names of the members of archives. Nothing else of an archive is looked at.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Names that are looked at.
const NAMES_MAX: usize = 10_000;
/// What is read of the list of names at the end of a zip archive.
const END_BYTES: u64 = 1 << 20;

/// Names in a zip archive of `bytes` bytes.
pub(super) fn of_zip(file: &mut File, bytes: u64) -> Option<Vec<String>> {
    let from = bytes.saturating_sub(END_BYTES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut end = Vec::new();
    file.take(END_BYTES).read_to_end(&mut end).ok()?;
    Some(in_directory(&end, from))
}

/// Names in the directory at an archive's end; `from` is where `end` begins in the file.
pub(super) fn in_directory(end: &[u8], from: u64) -> Vec<String> {
    const ENTRY: &[u8] = b"PK\x01\x02";
    const HEAD: usize = 46;
    let u16_at = |at: usize| Some(usize::from(u16::from_le_bytes(*end.get(at..)?.first_chunk()?)));
    let mut names = Vec::new();
    let directory = end.windows(4).rposition(|w| w == b"PK\x05\x06").and_then(|at| {
        let offset = u32::from_le_bytes(*end.get(at + 16..)?.first_chunk()?);
        usize::try_from(u64::from(offset).checked_sub(from)?).ok()
    });
    // A directory that is longer than what was read begins somewhere before: its tail will do.
    let first = || end.windows(4).position(|w| w == ENTRY);
    let mut at =
        directory.filter(|at| end[(*at).min(end.len())..].starts_with(ENTRY)).or_else(first);
    while let Some(entry) = at.filter(|at| names.len() < NAMES_MAX && end[*at..].starts_with(ENTRY))
    {
        let lengths = [28, 30, 32].map(|offset| u16_at(entry + offset));
        let [Some(name), Some(extra), Some(comment)] = lengths else { break };
        let Some(bytes) = end.get(entry + HEAD..entry + HEAD + name) else { break };
        names.push(String::from_utf8_lossy(bytes).into_owned());
        at = Some(entry + HEAD + name + extra + comment).filter(|at| *at < end.len());
    }
    names
}

/// Bytes of the head before a member of a tar archive; members begin at multiples of it.
const BLOCK: usize = 512;

/// Whether a file begins as a tar archive does.
pub(super) fn is_tar(begin: &[u8]) -> bool {
    begin.get(257..262) == Some(b"ustar")
}

/// Names in a tar archive, as far as its heads follow each other.
pub(super) fn of_tar(file: &mut File) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    while names.len() < NAMES_MAX {
        let mut head = [0; BLOCK];
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut head));
        let size = Some(text(&head[124..136])).and_then(|s| u64::from_str_radix(s.trim(), 8).ok());
        let (Ok(()), true, Some(size)) = (read, is_tar(&head), size) else { break };
        names.push(text(&head[..100]));
        at = at.saturating_add(BLOCK as u64).saturating_add(size.next_multiple_of(BLOCK as u64));
    }
    names
}

/// A field of a head, up to its first zero.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
