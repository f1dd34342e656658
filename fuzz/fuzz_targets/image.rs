//! Pictures: every file is decoded within the limit or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

const SAMPLES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = onnxd_image::decode(bytes, SAMPLES_MAX) {
        assert!(image.samples.len() <= SAMPLES_MAX);
        assert_eq!(image.samples.len(), image.width * image.height * image.channels);
        let (width, height) = (image.width, image.height);
        let deep = onnxd_image::decode_deep(bytes, SAMPLES_MAX).expect("the same file, kept whole");
        let of = |w, h, samples: usize| (w, h, samples);
        let found = match &deep {
            onnxd_image::Deep::Bytes(i) => of(i.width, i.height, i.samples.len()),
            onnxd_image::Deep::Words(i) => of(i.width, i.height, i.samples.len()),
        };
        assert_eq!(found, of(width, height, image.samples.len()));
        assert_eq!(image.to_rgb().to_grey().samples.len(), width * height);
    }
});
