//! WebP, with and without loss, through `image-webp`; of an animation the first picture.

use crate::{Image, Refused, damaged, room};
use image_webp::{DecodingError, WebPDecoder};
use std::io::Cursor;

pub(crate) fn decode(bytes: &[u8], samples_max: usize) -> Result<Image, Refused> {
    let wrong = |e: DecodingError| match e {
        DecodingError::MemoryLimitExceeded | DecodingError::ImageTooLarge => {
            Refused::TooLarge(e.to_string())
        }
        e => damaged(e.to_string()),
    };
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(wrong)?;
    decoder.set_memory_limit(samples_max);
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    room(width, height, 3, samples_max)?;
    // Alpha is decoded before it is dropped.
    let mut samples = vec![0; room(width, height, channels, samples_max.saturating_mul(2))?];
    decoder.read_image(&mut samples).map_err(wrong)?;
    Ok(Image::keep_channels(width, height, channels, samples))
}
