//! Tar archives: a head of 512 bytes before each member. Members are slices of the file.

use super::{
    INFLATED_FREE, INFLATED_RATIO_MAX, MEMBERS_MAX, damaged, over_limit, refuse_name, truncated,
    unsupported, without_folder,
};
use crate::diagnostics::Diagnostic;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use onnxd_diagnostics::refuse;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;

/// Bytes of a head; members begin at multiples of it.
const BLOCK: usize = 512;
/// Where a head says that it is one, and where its checksum is.
const MAGIC: Range<usize> = 257..262;
const CHECKSUM: Range<usize> = 148..156;
/// Bytes of a name, and of all that an extended head says.
const NAME_BYTES_MAX: usize = 4096;
const EXTENDED_BYTES_MAX: usize = 1 << 20;

/// Whether a file begins as a tar archive does.
pub(super) fn is(bytes: &[u8]) -> bool {
    bytes.get(..BLOCK).is_some_and(|head| &head[MAGIC] == b"ustar" && checksum_fits(head))
}

fn checksum_fits(head: &[u8]) -> bool {
    let sum = |(i, byte): (usize, &u8)| {
        // The checksum itself counts as spaces.
        u64::from(if CHECKSUM.contains(&i) { b' ' } else { *byte })
    };
    number(&head[CHECKSUM]) == Some(head.iter().enumerate().map(sum).sum())
}

/// What gzip compressed. The bytes are counted before memory is taken for them.
///
/// # Errors
/// `N0201` if it is damaged, `N0213` if it inflates to too much.
pub(super) fn inflated(bytes: &[u8]) -> Result<Bytes, Diagnostic> {
    let max = (bytes.len() as u64).saturating_mul(INFLATED_RATIO_MAX).max(INFLATED_FREE);
    let too_many = || over_limit("the archive inflates to too many bytes");
    let broken = |e: io::Error| damaged(format!("the archive does not inflate: {e}"));
    let stream = || MultiGzDecoder::new(bytes).take(max + 1);
    let size = io::copy(&mut stream(), &mut io::sink()).map_err(broken)?;
    refuse!(size > max => too_many());
    let mut all = Vec::new();
    let size = usize::try_from(size).map_err(|_| too_many())?;
    all.try_reserve_exact(size).map_err(|_| too_many())?;
    stream().read_to_end(&mut all).map_err(broken)?;
    Ok(all.into())
}

/// Where the members lie, by their names.
///
/// # Errors
/// `N0201`, `N0202` for a damaged archive, `N0213` beyond limits, `N0214` for sparse members.
pub(super) fn members(bytes: &[u8]) -> Result<BTreeMap<String, Range<usize>>, Diagnostic> {
    let mut member_ranges = BTreeMap::new();
    let (mut at, mut count) = (0, 0);
    let mut extended = Extended::default();
    while let Some(head) = bytes.get(at..at + BLOCK).filter(|head| head.iter().any(|b| *b != 0)) {
        count += 1;
        refuse!(count > MEMBERS_MAX => over_limit(format!("the archive has more than {MEMBERS_MAX} members")));
        refuse!(!checksum_fits(head) => damaged("a head of the archive does not have its checksum"));
        let size = match extended.size.take() {
            Some(size) => Some(size),
            None => number(&head[124..136]),
        };
        let start = at + BLOCK;
        let end = size.and_then(|n| start.checked_add(usize::try_from(n).ok()?));
        let Some(end) = end.filter(|end| *end <= bytes.len()) else {
            return Err(truncated("the archive ends before a member does"));
        };
        let data = &bytes[start..end];
        // A last member may lack its padding.
        at = end.next_multiple_of(BLOCK).min(bytes.len());
        match head[156] {
            b'L' => extended.name = Some(text(data, NAME_BYTES_MAX)?),
            b'x' => extended.read(data)?,
            b'0' | 0 | b'7' => {
                let name = extended.name.take().unwrap_or_else(|| name_of(head));
                let name = name.strip_prefix("./").unwrap_or(&name).to_owned();
                refuse_name(&name)?;
                refuse!(member_ranges.insert(name, start..end).is_some() =>
                    damaged("the archive has two members of one name"));
            }
            b'S' => return Err(unsupported("the archive has a sparse member")),
            // Folders, links and what concerns all members.
            _ => extended = Extended::default(),
        }
    }
    Ok(without_folder(member_ranges))
}

/// What a head before the head of a member says of it.
#[derive(Default)]
struct Extended {
    name: Option<String>,
    size: Option<u64>,
}

impl Extended {
    /// Reads records: `LENGTH KEY=VALUE`, each with an end of line.
    fn read(&mut self, mut data: &[u8]) -> Result<(), Diagnostic> {
        let wrong = || damaged("an extended head of the archive");
        refuse!(data.len() > EXTENDED_BYTES_MAX => over_limit("an extended head of the archive is too long"));
        while !data.is_empty() {
            let space = data.iter().position(|b| *b == b' ').ok_or_else(wrong)?;
            let length = std::str::from_utf8(&data[..space]).ok().and_then(|n| n.parse().ok());
            let length: usize =
                length.filter(|n| (space + 2..=data.len()).contains(n)).ok_or_else(wrong)?;
            let (record, rest) = data.split_at(length);
            data = rest;
            let record = &record[space + 1..length - 1];
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(wrong)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" => self.name = Some(text(value, NAME_BYTES_MAX)?),
                b"size" => self.size = Some(text(value, 20)?.parse().map_err(|_| wrong())?),
                _ => {}
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8], max: usize) -> Result<String, Diagnostic> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) if text.len() <= max => Ok(text.to_owned()),
        _ => Err(damaged("a name in the archive is too long or no text")),
    }
}

/// The name in a head, behind that of its folder if there is one.
fn name_of(head: &[u8]) -> String {
    let field = |range: Range<usize>| {
        let bytes = &head[range];
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    // GNU's own form has times where others have the folder.
    let folder = if &head[257..265] == b"ustar  \0" { String::new() } else { field(345..500) };
    match folder.is_empty() {
        true => field(0..100),
        false => format!("{folder}/{}", field(0..100)),
    }
}

/// A number in octal digits, or in bytes if the first one says so.
fn number(field: &[u8]) -> Option<u64> {
    if let Some((0x80, bytes)) = field.split_first() {
        let (high, low) = bytes.split_at(bytes.len().checked_sub(8)?);
        return high
            .iter()
            .all(|b| *b == 0)
            .then(|| u64::from_be_bytes(low.try_into().unwrap_or_default()));
    }
    let is_digit = |b: &&u8| (b'0'..=b'7').contains(*b);
    let mut digits = field.iter().skip_while(|b| **b == b' ').take_while(is_digit);
    digits.try_fold(0u64, |n, digit| n.checked_mul(8)?.checked_add(u64::from(digit - b'0')))
}
