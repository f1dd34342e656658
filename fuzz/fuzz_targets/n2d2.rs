//! N2D2 networks: INI, templates, expressions and weights, together as they are dropped.
//!
//! The input is several files, each behind a line `==> PATH`; what comes first is the network.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_frontend_n2d2::fuzzing::{Dropped, import, probe};
use onnxd_ir::{VerifyLevel, verify};
use std::collections::BTreeMap;

const NETWORK: &str = "net.ini";

fuzz_target!(|bytes: &[u8]| {
    let dropped = Dropped(split(bytes));
    for weights_ignore in [false, true] {
        let params = serde_json::json!({ "source": { "weights_ignore": weights_ignore } });
        drop(probe(NETWORK, &dropped, &params));
        if let Ok(imported) = import(NETWORK, &dropped, &params) {
            let findings = verify(&imported.model, VerifyLevel::Full);
            assert!(findings.0.is_empty(), "what is imported is valid: {findings}");
        }
    }
});

fn split(bytes: &[u8]) -> BTreeMap<&str, &[u8]> {
    let mut files = BTreeMap::new();
    let mut rest = bytes;
    let mut path = NETWORK;
    const MARK: &[u8] = b"\n==> ";
    while let Some(at) = rest.windows(MARK.len()).position(|w| w == MARK) {
        files.insert(path, &rest[..at]);
        rest = &rest[at + MARK.len()..];
        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        path = std::str::from_utf8(&rest[..end]).unwrap_or("");
        rest = &rest[end..];
    }
    files.insert(path, rest);
    files
}
