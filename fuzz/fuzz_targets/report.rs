//! An old `report.json`, shown in every form.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(report) = onnxd_report::from_json(text) else { return };
    drop(onnxd_report::text(&report));
    drop(onnxd_report::html(&report));
    drop(onnxd_report::receipt(&report));
    let json = onnxd_report::json(&report);
    let again = onnxd_report::from_json(&json).expect("what is written is read");
    assert_eq!(onnxd_report::json(&again), json);
});
