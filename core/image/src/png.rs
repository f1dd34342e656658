//! PNG, through the library of that name.

use crate::{Image, Refused, damaged, room};
use png::{ColorType, Decoder, DecodingError, Limits, Transformations};
use std::io::Cursor;

pub(crate) fn decode(bytes: &[u8], samples_max: usize) -> Result<Image, Refused> {
    let wrong = |e: DecodingError| match e {
        DecodingError::LimitsExceeded => Refused::TooLarge(e.to_string()),
        e => damaged(e.to_string()),
    };
    let limits = Limits { bytes: samples_max.saturating_mul(2).max(1 << 16) };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    // Palettes and few bits become whole samples, 16 bits their upper 8.
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(wrong)?;
    let channels = match reader.output_color_type().0 {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb | ColorType::Indexed => 3,
        ColorType::Rgba => 4,
    };
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    // Alpha is decoded before it is dropped.
    let size = room(width, height, channels, samples_max.saturating_mul(2))?;
    room(width, height, if channels < 3 { 1 } else { 3 }, samples_max)?;
    let mut samples = vec![0; size];
    if reader.output_buffer_size() != Some(size) {
        return Err(damaged("its sizes do not fit its colours"));
    }
    reader.next_frame(&mut samples).map_err(wrong)?;
    Ok(Image::of(width, height, channels, samples))
}
