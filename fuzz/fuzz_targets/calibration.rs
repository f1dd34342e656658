//! Saved statistics of a calibration. What can be read can be written and reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_quantize::observe::Saved;

fuzz_target!(|json: &[u8]| {
    let Ok(saved) = Saved::from_json("calibration.json", json) else { return };
    let again = Saved::from_json("calibration.json", &saved.to_json());
    assert_eq!(again.expect("what is written is read"), saved);
});
