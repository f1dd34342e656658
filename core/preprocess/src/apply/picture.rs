//! A picture on its way.

use crate::{PictureFault, SAMPLES_MAX, fault};
use onnxd_image::{Deep, Image, decode_deep};

/// What the samples of a picture are. Integers are kept as such, because steps round to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 0 to 255.
    Byte,
    /// 0 to 65535.
    Word,
    /// Any number.
    Float,
}

/// Samples and what they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Samples of a pixel.
    pub channels: usize,
    /// What the samples are.
    pub depth: Depth,
    /// Rows from the top, pixels from the left, the channels of a pixel together.
    pub samples: Vec<f32>,
}

impl Picture {
    /// Decodes a file; colours are red, green, blue.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn decode(bytes: &[u8]) -> Result<Picture, PictureFault> {
        match decode_deep(bytes, SAMPLES_MAX).map_err(|e| fault(e.to_string()))? {
            Deep::Bytes(image) => Ok(Picture::from_image(&image, Depth::Byte)),
            Deep::Words(image) => Ok(Picture::from_image(&image, Depth::Word)),
        }
    }

    fn from_image<S: Copy + Into<f32>>(image: &Image<S>, depth: Depth) -> Picture {
        Picture {
            width: image.width,
            height: image.height,
            channels: image.channels,
            depth,
            samples: image.samples.iter().map(|s| (*s).into()).collect(),
        }
    }

    /// A grey picture of bytes.
    ///
    /// # Errors
    /// If the sizes are not those of `bytes`, or too large.
    pub fn grey(width: usize, height: usize, bytes: &[u8]) -> Result<Picture, PictureFault> {
        if room(width, height, 1)? != bytes.len() {
            return Err(fault(format!("{} bytes for {width} x {height} pixels", bytes.len())));
        }
        let samples = bytes.iter().map(|b| f32::from(*b)).collect();
        Ok(Picture { width, height, channels: 1, depth: Depth::Byte, samples })
    }

    /// The samples channel by channel, as networks read them.
    #[must_use]
    pub fn planes(&self) -> Vec<f32> {
        let plane = |c: usize| self.samples.iter().skip(c).step_by(self.channels.max(1)).copied();
        (0..self.channels).flat_map(plane).collect()
    }

    /// Another picture of the same kind, whose pixel at `(x, y)` is this one's at `from(x, y)`.
    pub(crate) fn moved(
        &self,
        [width, height]: [usize; 2],
        from: impl Fn(usize, usize) -> [usize; 2],
    ) -> Result<Picture, PictureFault> {
        let mut samples = Vec::with_capacity(room(width, height, self.channels)?);
        for y in 0..height {
            for x in 0..width {
                let [x, y] = from(x, y);
                samples.extend_from_slice(self.pixel(x, y));
            }
        }
        Ok(Picture { width, height, samples, ..*self })
    }

    pub(crate) fn pixel(&self, x: usize, y: usize) -> &[f32] {
        let at = (y * self.width + x) * self.channels;
        &self.samples[at..at + self.channels]
    }

    /// The nearest number that a sample can be.
    pub(crate) fn rounded(depth: Depth, value: f32) -> f32 {
        match depth {
            Depth::Byte => value.round_ties_even().clamp(0.0, 255.0),
            Depth::Word => value.round_ties_even().clamp(0.0, 65535.0),
            Depth::Float => value,
        }
    }
}

/// Samples of a picture of these sizes, if they are allowed.
pub(crate) fn room(width: usize, height: usize, channels: usize) -> Result<usize, PictureFault> {
    let samples = width.checked_mul(height).and_then(|n| n.checked_mul(channels));
    match samples.filter(|n| *n <= SAMPLES_MAX) {
        Some(0) => Err(fault(format!("{width} x {height} pixels are none"))),
        Some(samples) => Ok(samples),
        None => Err(fault(format!("{width} x {height} pixels are more than is read"))),
    }
}
