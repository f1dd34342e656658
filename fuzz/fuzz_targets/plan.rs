//! The plan of a claim, as a crash may have left it. What is loaded is saved and loaded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_intake::MovePlan;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan");
    std::fs::write(&path, bytes).unwrap();
    if let Ok(plan) = MovePlan::load(&path) {
        std::fs::remove_file(&path).unwrap();
        plan.save(&path).unwrap();
        let again = MovePlan::load(&path).expect("what is saved is loaded");
        assert_eq!(format!("{again:?}"), format!("{plan:?}"));
    }
});
