//! The portable formats P1 to P6: numbers as text or as bytes, most significant first.

use crate::{Deep, Image, Refused, damaged, room};

const TOO_LARGE: &str = "a sample is larger than the largest";

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

/// The numbers of a file, and the largest that it announces; 1 stands for bits.
struct Numbers {
    image: Image<u16>,
    most: u16,
    bits: bool,
}

/// Samples are brought to the range of a byte.
pub(crate) fn decode(bytes: &[u8], samples_max: usize) -> Result<Image, Refused> {
    let Numbers { image, most, bits } = numbers(bytes, samples_max)?;
    let most = usize::from(most);
    // A set bit is black.
    let scaled = |v: u16| match usize::from(v) {
        v if bits => 255 - v * 255,
        v => (v * 255 + most / 2) / most,
    };
    let samples = image.samples.into_iter().map(|v| scaled(v) as u8).collect();
    Ok(Image { width: image.width, height: image.height, channels: image.channels, samples })
}

/// Samples stay what they are, except for bits.
pub(crate) fn decode_deep(bytes: &[u8], samples_max: usize) -> Result<Deep, Refused> {
    let Numbers { image, most, bits } = numbers(bytes, samples_max)?;
    if most > 255 {
        return Ok(Deep::Words(image));
    }
    let byte = |v: u16| if bits { 255 - v * 255 } else { v } as u8;
    let samples = image.samples.into_iter().map(byte).collect();
    let (width, height, channels) = (image.width, image.height, image.channels);
    Ok(Deep::Bytes(Image { width, height, channels, samples }))
}

fn numbers(bytes: &[u8], samples_max: usize) -> Result<Numbers, Refused> {
    let kind = bytes.get(1).copied().unwrap_or(0);
    let mut words = Words { bytes, at: 2 };
    let (width, height) = (words.number(9)?, words.number(9)?);
    let bits = matches!(kind, b'1' | b'4');
    let most = if bits { 1 } else { words.number(5)? };
    let Some(most) = u16::try_from(most).ok().filter(|most| *most > 0) else {
        return Err(damaged(format!("its largest sample is {most}")));
    };
    let channels = if matches!(kind, b'3' | b'6') { 3 } else { 1 };
    let size = room(width, height, channels, samples_max)?;
    let samples = if kind >= b'4' {
        // A single byte of white space separates the header from the samples.
        let body = bytes.get(words.at + 1..).unwrap_or_default();
        binary(body, width, size, bits, most > 255)?
    } else {
        let digits = if bits { 1 } else { 5 };
        let mut samples = Vec::with_capacity(size.min(bytes.len()));
        for _ in 0..size {
            let number = words.number(digits)?;
            samples.push(u16::try_from(number).map_err(|_| damaged(TOO_LARGE))?);
        }
        samples
    };
    if samples.iter().any(|v| *v > most) {
        return Err(damaged(TOO_LARGE));
    }
    Ok(Numbers { image: Image { width, height, channels, samples }, most, bits })
}

fn binary(
    body: &[u8],
    width: usize,
    size: usize,
    bits: bool,
    wide: bool,
) -> Result<Vec<u16>, Refused> {
    let row = width.div_ceil(8);
    let bytes = if bits { size / width * row } else { size * (1 + usize::from(wide)) };
    let body = body.get(..bytes).ok_or_else(|| damaged("it ends too early"))?;
    Ok(if bits {
        let bit =
            |i: usize| u16::from(body[i / width * row + i % width / 8] >> (7 - i % width % 8) & 1);
        (0..size).map(bit).collect()
    } else if wide {
        body.chunks_exact(2).map(|p| u16::from_be_bytes([p[0], p[1]])).collect()
    } else {
        body.iter().map(|v| u16::from(*v)).collect()
    })
}
