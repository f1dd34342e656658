//! Lines on the control socket: every line is a request or is refused with a diagnostic.
#![no_main]
#![allow(dead_code)]

#[path = "../../core/daemon/src/run/protocol.rs"]
mod protocol;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    match protocol::parse(line) {
        Ok(request) => {
            let written = serde_json::to_string(&request).unwrap();
            assert_eq!(protocol::parse(&written).unwrap(), request);
        }
        Err(why) => drop(protocol::refused(&why).to_string()),
    }
});
