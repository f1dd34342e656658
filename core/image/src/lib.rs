//! Pictures as files hold them: BMP, JPEG, PNG, WebP and the portable formats (PBM, PGM, PPM). Alpha
//! is dropped. Samples of 16 bits are cut to the upper 8, or kept ([`decode_deep`]).
//!
//! The bytes are foreign: sizes are checked against a limit before anything of that size is made.

mod bmp;
mod jpeg;
mod png;
mod pnm;
mod read;
#[cfg(test)]
mod tests;
mod webp;

use std::fmt;

/// Pictures wider or higher than this are refused.
pub const SIDE_MAX: usize = 1 << 16;

/// A decoded picture, of bytes unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<S = u8> {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// Rows from the top, pixels from the left, the channels of a pixel together.
    pub samples: Vec<S>,
}

/// A decoded picture with all bits that its file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deep {
    /// Samples of up to 8 bits.
    Bytes(Image),
    /// Samples of up to 16 bits.
    Words(Image<u16>),
}

/// Why a picture is not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The format, or a variant of it, is not read.
    Unsupported(String),
    /// The bytes break their format.
    Damaged(String),
    /// More samples than the caller allows.
    TooLarge(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refused::Unsupported(what) => write!(f, "{what} is not read"),
            Refused::Damaged(why) => write!(f, "the picture is damaged: {why}"),
            Refused::TooLarge(why) => write!(f, "the picture is too large: {why}"),
        }
    }
}

impl std::error::Error for Refused {}

fn damaged(why: impl Into<String>) -> Refused {
    Refused::Damaged(why.into())
}

/// Decodes a picture of any format that is read, of at most `samples_max` samples.
///
/// # Errors
/// See [`Refused`].
pub fn decode(bytes: &[u8], samples_max: usize) -> Result<Image, Refused> {
    let image = match bytes {
        [b'B', b'M', ..] => bmp::decode(bytes, samples_max)?,
        [0xff, 0xd8, 0xff, ..] => jpeg::decode(bytes, samples_max)?,
        [0x89, b'P', b'N', b'G', ..] => png::decode(bytes, samples_max)?,
        [b'P', b'1'..=b'6', ..] => pnm::decode(bytes, samples_max)?,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            webp::decode(bytes, samples_max)?
        }
        _ => return Err(Refused::Unsupported(other(bytes).to_owned())),
    };
    debug_assert_eq!(image.samples.len(), image.width * image.height * image.channels);
    Ok(image)
}

/// Decodes a picture like [`decode`], but keeps samples of 16 bits. Those of the portable formats are
/// the numbers that the file holds, whatever it calls the largest; only bits become 0 and 255.
///
/// # Errors
/// See [`Refused`].
pub fn decode_deep(bytes: &[u8], samples_max: usize) -> Result<Deep, Refused> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => png::decode_deep(bytes, samples_max),
        [b'P', b'1'..=b'6', ..] => pnm::decode_deep(bytes, samples_max),
        _ => decode(bytes, samples_max).map(Deep::Bytes),
    }
}

/// Whether a file begins like a picture of a format that is read.
#[must_use]
pub fn is_picture(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [b'B', b'M', ..]
            | [0xff, 0xd8, 0xff, ..]
            | [0x89, b'P', b'N', b'G', ..]
            | [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..]
    ) || matches!(bytes, [b'P', b'1'..=b'6', next, ..] if next.is_ascii_whitespace() || *next == b'#')
}

/// The name of a format that is not read.
fn other(bytes: &[u8]) -> &'static str {
    match bytes {
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => "TIFF",
        [b'G', b'I', b'F', b'8', ..] => "GIF",
        [0, 0, 0, 12, b'j', b'P', ..] | [0xff, 0x4f, 0xff, 0x51, ..] => "JPEG 2000",
        _ => "a picture that is neither BMP, JPEG, PNG, WebP, PBM, PGM nor PPM",
    }
}

/// Samples of a picture of these sizes, if they are allowed.
fn room(width: usize, height: usize, channels: usize, most: usize) -> Result<usize, Refused> {
    let too_large = || Refused::TooLarge(format!("{width} x {height} pixels"));
    if width == 0 || height == 0 {
        return Err(damaged("it has no pixels"));
    }
    if width > SIDE_MAX || height > SIDE_MAX {
        return Err(too_large());
    }
    let samples = width.checked_mul(height).and_then(|n| n.checked_mul(channels));
    samples.filter(|n| *n <= most).ok_or_else(too_large)
}

impl<S: Copy> Image<S> {
    /// Keeps the first of `given` channels if they are grey (with alpha), the first three otherwise.
    fn keep_channels(width: usize, height: usize, given: usize, samples: Vec<S>) -> Image<S> {
        let channels = if given < 3 { 1 } else { 3 };
        let samples = if given == channels {
            samples
        } else {
            samples.chunks_exact(given).flat_map(|p| &p[..channels]).copied().collect()
        };
        Image { width, height, channels, samples }
    }
}

impl Image {
    /// Red, green and blue; grey is all three.
    #[must_use]
    pub fn to_rgb(self) -> Image {
        if self.channels == 3 {
            return self;
        }
        let samples = self.samples.iter().flat_map(|v| [*v; 3]).collect();
        Image { channels: 3, samples, ..self }
    }

    /// Grey: the brightness of ITU-R BT.601, in the 16-bit fractions that everyone uses.
    #[must_use]
    pub fn to_grey(self) -> Image {
        if self.channels == 1 {
            return self;
        }
        let grey = |p: &[u8]| {
            let [r, g, b] = [p[0], p[1], p[2]].map(u32::from);
            ((r * 19_595 + g * 38_470 + b * 7_471 + 0x8000) >> 16) as u8
        };
        let samples = self.samples.chunks_exact(3).map(grey).collect();
        Image { channels: 1, samples, ..self }
    }
}
