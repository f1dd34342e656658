//! Pictures.

use crate::call::{KernelCall, KernelRow, one, raw};
use crate::fault::{Fault, Outcome};
use onnxd_image::Refused;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[raw("ImageDecoder", image_decoder)];

/// The pixels of an encoded picture: height, width, channels. What is damaged has none.
fn image_decoder(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let format = call.string("pixel_format", "RGB")?;
    let channels = match format {
        "RGB" | "BGR" => 3,
        "Grayscale" => 1,
        other => return Err(Fault::invalid(format!("pixel format `{other}` is not defined"))),
    };
    let bytes = call.slice::<u8>(0)?;
    let image = match onnxd_image::decode(&bytes, call.bytes_max) {
        Ok(image) => image,
        Err(Refused::Damaged(_)) => {
            return one(Tensor::from_vec([0, 0, channels], Vec::<u8>::new()));
        }
        Err(e @ Refused::Unsupported(_)) => return Err(Fault::unsupported(e.to_string())),
        Err(e @ Refused::TooLarge(_)) => return Err(Fault::memory(e.to_string())),
    };
    call.room(DataType::Uint8, &[image.height, image.width, channels])?;
    let mut image = if channels == 1 { image.to_grey() } else { image.to_rgb() };
    if format == "BGR" {
        image.samples.chunks_exact_mut(3).for_each(<[u8]>::reverse);
    }
    one(Tensor::from_vec([image.height, image.width, channels], image.samples))
}

#[cfg(test)]
mod tests {
    use crate::testing::{run, try_run, word};
    use onnxd_ir::Tensor;

    #[test]
    fn orders_of_colours() {
        let file = Tensor::vector(b"P6 1 2 255\n\xff\0\0\x01\x02\x03".to_vec());
        let y = |format: &str| run("ImageDecoder", 20, &[("pixel_format", word(format))], &[&file]);
        assert_eq!(y("RGB"), Tensor::from_vec([2, 1, 3], vec![255u8, 0, 0, 1, 2, 3]));
        assert_eq!(y("BGR"), Tensor::from_vec([2, 1, 3], vec![0u8, 0, 255, 3, 2, 1]));
        assert_eq!(y("Grayscale"), Tensor::from_vec([2, 1, 1], vec![76u8, 2]));
        let cut = Tensor::vector(b"P6 1 2 255\n\xff\0\0".to_vec());
        assert_eq!(run("ImageDecoder", 20, &[], &[&cut]).dims(), [0, 0, 3]);
        let other = Tensor::vector(b"II*\0 and so on".to_vec());
        assert_eq!(try_run("ImageDecoder", 20, &[], &[&other]).unwrap_err().code, "N0506");
    }
}
