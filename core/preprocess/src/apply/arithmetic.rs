//! What samples are worth.

use crate::{ArithmeticOperator, Depth, Picture, PictureFault, fault};

pub(crate) fn apply(
    mut picture: Picture,
    operator: ArithmeticOperator,
    values: &[f64],
) -> Result<Picture, PictureFault> {
    let channels = picture.channels;
    let numbers: Vec<f32> = match values {
        [one] => vec![operator.number(*one); channels],
        several if several.len() >= channels => {
            several[..channels].iter().map(|v| operator.number(*v)).collect()
        }
        few => return Err(fault(format!("{} numbers for {channels} channels", few.len()))),
    };
    if numbers.iter().any(|n| !n.is_finite()) {
        return Err(fault("a number is not finite"));
    }
    for pixel in picture.samples.chunks_exact_mut(channels) {
        for (sample, number) in pixel.iter_mut().zip(&numbers) {
            *sample = operator.with(*sample, *number);
        }
    }
    Ok(Picture { depth: Depth::Float, ..picture })
}
pub(crate) fn truncate(mut picture: Picture) -> Picture {
    picture.samples.iter_mut().for_each(|sample| *sample = sample.trunc());
    picture
}

pub(crate) fn scale_integers(picture: Picture, signed: bool) -> Result<Picture, PictureFault> {
    match (picture.depth, signed) {
        (Depth::Float, _) => Ok(picture),
        (Depth::Byte, false) => apply(picture, ArithmeticOperator::Divides, &[255.0]),
        (Depth::Word, false) => apply(picture, ArithmeticOperator::Divides, &[65535.0]),
        (Depth::Byte, true) => {
            let centred = apply(picture, ArithmeticOperator::Minus, &[128.0])?;
            apply(centred, ArithmeticOperator::Divides, &[128.0])
        }
        (Depth::Word, true) => Err(fault("samples of 16 bits have no signed range")),
    }
}
