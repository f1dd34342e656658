//! Reading a report back takes no more memory than its bound.

use onnxd_report::from_json;

#[path = "../../../proto/tests/counting/mod.rs"]
mod counting;

/// The bound of `from_json`.
const TAKEN_BYTES_MAX: usize = 1 << 30;

#[test]
fn hostile_reports_take_bounded_memory() {
    // The most elements that are taken, and many more.
    for (name, open, item, close) in [
        ("diagnostics", "\"diagnostics\":[", "{}", "]"),
        ("tensors", "\"quantization\":{\"tensors\":[", "{}", "]}"),
        ("comparisons", "\"comparisons\":[", "{}", "]"),
        ("texts", "\"metadata\":[", "\"\"", "]"),
        ("numbers", "\"quantization\":{\"tensors\":[{\"scales\":[", "1", "]}]}"),
        ("ignored", "\"new\":[", "[]", "]"),
    ] {
        let mut was_taken = false;
        for thousands in [100, 500, 1000, 2000, 4000] {
            let items = vec![item; thousands * 1000].join(",");
            let text = format!("{{\"schema\":1,{open}{items}{close}}}");
            let (taken, read) = counting::peak(|| from_json(&text).is_ok());
            assert!(taken < TAKEN_BYTES_MAX, "{name}: {thousands},000: {taken} bytes");
            was_taken |= read;
        }
        assert!(was_taken, "{name}");
    }
}
