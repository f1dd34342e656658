//! Messages of the store, the report and the plugins, decoded from any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_plugin_host::from_message;
use onnxd_proto::onnxd as message;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(job) = message::Job::decode(bytes) {
        assert_eq!(message::Job::decode(job.encode_to_vec().as_slice()).unwrap(), job);
    }
    if let Ok(found) = message::Diagnostic::decode(bytes) {
        drop(message::Diagnostic::from(&from_message(&found)));
    }
    if let Ok(report) = message::Report::decode(bytes) {
        drop(onnxd_report::text(&report));
        drop(onnxd_report::html(&report));
        drop(onnxd_report::receipt(&report));
    }
});
