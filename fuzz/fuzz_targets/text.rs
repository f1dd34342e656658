//! ONNX text: parsing, then all that is done with a model. What is printed is parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_ir::text::{parse_graph, parse_model, print_model};

#[path = "../shared/model.rs"]
mod model;

fuzz_target!(|text: &str| {
    drop(parse_graph(text));
    let Ok(mut model) = parse_model(text) else { return };
    let printed = print_model(&model);
    let again = parse_model(&printed);
    assert!(again.is_ok(), "what is printed is parsed: {:?}\n{printed}", again.err());
    model::exercise(&mut model);
});
