//! Pictures: every file is decoded within the limit or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

const SAMPLES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = onnxd_image::decode(bytes, SAMPLES_MAX) {
        assert!(image.samples.len() <= SAMPLES_MAX);
        assert_eq!(image.samples.len(), image.width * image.height * image.channels);
        let (width, height) = (image.width, image.height);
        assert_eq!(image.to_rgb().to_grey().samples.len(), width * height);
    }
});
