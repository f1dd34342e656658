//! The portable formats P1 to P6: numbers as text or as bytes, most significant first.

use crate::{Image, Refused, damaged, room};

/// Reads words of the header and numbers of the text formats.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    /// Skips white space and comments.
    fn skip(&mut self) {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'#' => {
                    let line = self.bytes[self.at..].iter().position(|b| *b == b'\n');
                    self.at = line.map_or(self.bytes.len(), |n| self.at + n);
                }
                b if b.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    /// A number of at most `digits` digits.
    fn number(&mut self, digits: usize) -> Result<usize, Refused> {
        self.skip();
        let word = &self.bytes[self.at..];
        let length = word.iter().take(digits).take_while(|b| b.is_ascii_digit()).count();
        self.at += length;
        let text = std::str::from_utf8(&word[..length]).ok();
        text.and_then(|t| t.parse().ok()).ok_or_else(|| damaged("a number is missing"))
    }
}

pub(crate) fn decode(bytes: &[u8], samples_max: usize) -> Result<Image, Refused> {
    let kind = bytes.get(1).copied().unwrap_or(0);
    let mut words = Words { bytes, at: 2 };
    let (width, height) = (words.number(9)?, words.number(9)?);
    let bits = matches!(kind, b'1' | b'4');
    let most = if bits { 1 } else { words.number(5)? };
    if most == 0 || most > 65535 {
        return Err(damaged(format!("its largest sample is {most}")));
    }
    let channels = if matches!(kind, b'3' | b'6') { 3 } else { 1 };
    let size = room(width, height, channels, samples_max)?;
    let raw = if kind >= b'4' {
        // A single byte of white space separates the header from the samples.
        let body = bytes.get(words.at + 1..).unwrap_or_default();
        binary(body, width, size, bits, most > 255)?
    } else {
        let digits = if bits { 1 } else { 5 };
        let mut raw = Vec::with_capacity(size.min(bytes.len()));
        for _ in 0..size {
            raw.push(words.number(digits)?);
        }
        raw
    };
    // A set bit is black.
    let scaled = |v: usize| if bits { 255 - v * 255 } else { (v * 255 + most / 2) / most };
    let samples: Option<Vec<u8>> =
        raw.into_iter().map(|v| if v > most { None } else { Some(scaled(v) as u8) }).collect();
    let samples = samples.ok_or_else(|| damaged("a sample is larger than the largest"))?;
    Ok(Image { width, height, channels, samples })
}

fn binary(
    body: &[u8],
    width: usize,
    size: usize,
    bits: bool,
    wide: bool,
) -> Result<Vec<usize>, Refused> {
    let row = width.div_ceil(8);
    let bytes = if bits { size / width * row } else { size * (1 + usize::from(wide)) };
    let body = body.get(..bytes).ok_or_else(|| damaged("it ends too early"))?;
    Ok(if bits {
        let bit = |i: usize| {
            usize::from(body[i / width * row + i % width / 8] >> (7 - i % width % 8) & 1)
        };
        (0..size).map(bit).collect()
    } else if wide {
        body.chunks_exact(2).map(|p| usize::from(p[0]) << 8 | usize::from(p[1])).collect()
    } else {
        body.iter().map(|v| usize::from(*v)).collect()
    })
}
