//! PNG, through the library of that name.

use crate::{Deep, Image, Refused, damaged, room};
use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};
use std::io::Cursor;

/// What the library gives: sizes, channels with alpha, and whether a sample takes two bytes.
struct Pixels {
    width: usize,
    height: usize,
    channels: usize,
    wide: bool,
    bytes: Vec<u8>,
}

/// Palettes and few bits become whole samples, 16 bits their upper 8.
pub(crate) fn decode(bytes: &[u8], samples_max: usize) -> Result<Image, Refused> {
    let p = pixels(bytes, samples_max, Transformations::normalize_to_color8())?;
    Ok(Image::keep_channels(p.width, p.height, p.channels, p.bytes))
}

/// The same, but 16 bits stay.
pub(crate) fn decode_deep(bytes: &[u8], samples_max: usize) -> Result<Deep, Refused> {
    let p = pixels(bytes, samples_max, Transformations::EXPAND)?;
    if !p.wide {
        return Ok(Deep::Bytes(Image::keep_channels(p.width, p.height, p.channels, p.bytes)));
    }
    let words = p.bytes.chunks_exact(2).map(|b| u16::from_be_bytes([b[0], b[1]])).collect();
    Ok(Deep::Words(Image::keep_channels(p.width, p.height, p.channels, words)))
}

fn pixels(bytes: &[u8], samples_max: usize, wanted: Transformations) -> Result<Pixels, Refused> {
    let wrong = |e: DecodingError| match e {
        DecodingError::LimitsExceeded => Refused::TooLarge(e.to_string()),
        e => damaged(e.to_string()),
    };
    let limits = Limits { bytes: samples_max.saturating_mul(4).max(1 << 16) };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(wanted);
    let mut reader = decoder.read_info().map_err(wrong)?;
    let (colours, depth) = reader.output_color_type();
    let channels = match colours {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb | ColorType::Indexed => 3,
        ColorType::Rgba => 4,
    };
    let wide = depth == BitDepth::Sixteen;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    room(width, height, if channels < 3 { 1 } else { 3 }, samples_max)?;
    // Alpha is decoded before it is dropped.
    let size = room(width, height, channels << usize::from(wide), samples_max.saturating_mul(4))?;
    if reader.output_buffer_size() != Some(size) {
        return Err(damaged("its sizes do not fit its colours"));
    }
    let mut bytes = vec![0; size];
    reader.next_frame(&mut bytes).map_err(wrong)?;
    Ok(Pixels { width, height, channels, wide, bytes })
}
