//! JPEG, baseline and progressive, through `zune-jpeg`.

use crate::{Image, Refused, SIDE_MAX, damaged, room};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Scans of a progressive picture; each costs time in proportion to the picture.
const SCANS_MAX: usize = 100;

pub(crate) fn decode(bytes: &[u8], samples_max: usize) -> Result<Image, Refused> {
    let options = DecoderOptions::new_safe()
        .set_max_width(SIDE_MAX)
        .set_max_height(SIDE_MAX)
        .jpeg_set_max_scans(SCANS_MAX);
    let wrong = |e: zune_jpeg::errors::DecodeErrors| damaged(e.to_string());
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(wrong)?;
    let missing = || damaged("it has no frame");
    let info = decoder.info().ok_or_else(missing)?;
    let grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    let (colours, channels) = if grey { (ColorSpace::Luma, 1) } else { (ColorSpace::RGB, 3) };
    let size = room(width, height, channels, samples_max)?;
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let samples = decoder.decode().map_err(wrong)?;
    if samples.len() != size {
        return Err(damaged("its sizes do not fit its colours"));
    }
    Ok(Image::keep_channels(width, height, channels, samples))
}
