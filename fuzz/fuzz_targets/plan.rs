//! The plan of a claim, as a crash may have left it. What is loaded is saved and loaded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_intake::Plan;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan");
    std::fs::write(&path, bytes).unwrap();
    if let Ok(plan) = Plan::load(&path) {
        std::fs::remove_file(&path).unwrap();
        plan.save(&path).unwrap();
        let again = Plan::load(&path).expect("what is saved is loaded");
        assert_eq!(format!("{again:?}"), format!("{plan:?}"));
    }
});
