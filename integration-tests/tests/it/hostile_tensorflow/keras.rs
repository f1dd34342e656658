//! Archives of Keras and the descriptions in them.

use super::hdf5::empty;
use super::{DAMAGED, FINE, LIMIT, SHORT, assert_harmless};
use crate::hostile::zipped;

const DEEP: usize = 1_000_000;
/// Where JSON is in itself too often, or the description has too many values.
const DEEP_CODES: &[&str] = &["N0201", "N0213"];
const REFUSED: &[&str] = &["N0201", "N0203", "N0204", "N0213", "N0215"];
const REFUSED_OR_FINE: &[&str] = &["", "N0201", "N0203", "N0204", "N0213", "N0215"];

fn layer(class: &str, name: &str, config: &str) -> String {
    let more = if config.is_empty() { "" } else { ", " };
    format!(
        "{{\"module\": \"keras.layers\", \"class_name\": \"{class}\", \
         \"config\": {{\"name\": \"{name}\"{more}{config}}}}}"
    )
}

fn sequence(name: &str, layers: &str) -> String {
    let layers = format!("\"layers\": [{layers}]");
    layer("Sequential", name, &layers)
}

fn input(sizes: &str) -> String {
    layer("InputLayer", "x", &format!("\"batch_shape\": [1, {sizes}], \"dtype\": \"float32\""))
}

/// The description of a layer with weights.
pub(crate) fn dense() -> Vec<u8> {
    let dense = layer("Dense", "d", "\"units\": 3, \"activation\": \"linear\", \"use_bias\": true");
    sequence("s", &format!("{}, {dense}", input("4"))).into_bytes()
}

fn archive(config: impl Into<Vec<u8>>) -> Vec<u8> {
    let config = config.into();
    let deflated = config.len() > 1 << 16;
    let member = |name: &str, bytes: Vec<u8>, deflated| (name.to_owned(), bytes, deflated);
    zipped(
        &[member("config.json", config, deflated), member("model.weights.h5", empty(), false)],
        0,
    )
}

fn one(class: &str, sizes: &str, config: &str) -> Vec<u8> {
    archive(sequence("s", &format!("{}, {}", input(sizes), layer(class, "l", config))))
}

#[test]
fn archives() {
    let metadata = |text: &str| {
        let member = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec(), false);
        let config = sequence("s", &format!("{}, {}", input("4"), layer("ReLU", "l", "")));
        let config = member("config.json", config.as_bytes());
        let all = [
            member("metadata.json", text.as_bytes()),
            config,
            member("model.weights.h5", &empty()),
        ];
        zipped(&all, 0)
    };
    let whole = metadata("{\"keras_version\": \"3.15.0\"}");
    let overlapping = {
        let all = ["config.json", "model.weights.h5"].map(|name| (name.to_owned(), dense(), false));
        zipped(&all, 8)
    };
    assert_harmless(
        "keras",
        vec![
            ("sound", whole.clone(), FINE),
            ("metadata", metadata("{"), DAMAGED),
            ("another version", metadata("{\"keras_version\": 7}"), FINE),
            ("bomb", archive(vec![b' '; 300 << 20]), LIMIT),
            ("spaces", archive(vec![b' '; 10 << 20]), DAMAGED),
            ("overlapping members", overlapping, DAMAGED),
            ("no weights", zipped(&[("config.json".into(), dense(), false)], 0), DAMAGED),
            ("truncated", whole[..whole.len() - 30].to_vec(), SHORT),
            ("short", whole[..60].to_vec(), SHORT),
        ],
    );
}

#[test]
fn descriptions_in_each_other() {
    let wrapped = |depth: usize, open: &str, close: &str| {
        [open.repeat(depth), layer("ReLU", "r", ""), close.repeat(depth)].concat()
    };
    let open = "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", \"layers\": [";
    let wrapper = "{\"class_name\": \"TimeDistributed\", \"config\": {\"name\": \"t\", \"layer\": ";
    let doubled = |depth: usize| {
        // Each model calls the one inside of it twice.
        let x = "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"x\", 0, 0]}}";
        let m = x.replace("\"x\"", "\"m\"");
        let mut inner = layer("ReLU", "m", "");
        for i in 0..depth {
            let calls = format!(
                "\"name\": \"m\", \"inbound_nodes\": [{{\"args\": [{x}], \"kwargs\": {{}}}}, {{\"args\": [{m}], \
                 \"kwargs\": {{}}}}]"
            );
            let inside = format!("{}, {calls}}}", inner.strip_suffix('}').unwrap());
            let start = input("4").replace("}}", "}, \"name\": \"x\", \"inbound_nodes\": []}");
            inner = layer(
                "Functional",
                "m",
                &format!(
                    "\"layers\": [{start}, {inside}], \"input_layers\": [[\"x\", 0, 0]], \"output_layers\": \
                     [[\"m\", {}, 0]]",
                    1 + usize::from(i > 0)
                ),
            );
        }
        inner
    };
    let flat = |count: usize| {
        let layers: String =
            (0..count).map(|i| format!(", {}", layer("ReLU", &format!("r{i}"), ""))).collect();
        sequence("s", &(input("4") + &layers))
    };
    assert_harmless(
        "keras",
        vec![
            ("models", archive(wrapped(DEEP, open, "]}}")), DEEP_CODES),
            ("models that JSON can hold", archive(wrapped(30, open, "]}}")), REFUSED),
            ("wrappers", archive(wrapped(DEEP, wrapper, "}}")), DEEP_CODES),
            ("lists", archive("[".repeat(DEEP)), DEEP_CODES),
            ("objects", archive("{\"a\":".repeat(DEEP)), DEEP_CODES),
            ("calls that double", archive(doubled(19)), REFUSED_OR_FINE),
            ("many layers", archive(flat(10_000)), FINE),
            ("too many layers", archive(flat(250_000)), LIMIT),
        ],
    );
}

#[test]
fn calls_that_depend_on_themselves() {
    let tensor = |name: &str| {
        format!(
            "{{\"class_name\": \"__keras_tensor__\", \"config\": {{\"keras_history\": [\"{name}\", 0, 0]}}}}"
        )
    };
    let called = |name: &str, on: &str| {
        let layer = layer("ReLU", name, "");
        let calls = format!("[{{\"args\": [{}], \"kwargs\": {{}}}}]", tensor(on));
        format!(
            "{}, \"name\": \"{name}\", \"inbound_nodes\": {calls}}}",
            layer.strip_suffix('}').unwrap()
        )
    };
    let start = input("4");
    let start =
        format!("{}, \"name\": \"x\", \"inbound_nodes\": []}}", start.strip_suffix('}').unwrap());
    let model = |layers: &[String], output: &str| {
        let layers = [std::slice::from_ref(&start), layers].concat().join(", ");
        archive(layer(
            "Functional",
            "f",
            &format!(
                "\"layers\": [{layers}], \"input_layers\": [[\"x\", 0, 0]], \"output_layers\": [[\"{output}\", 0, 0]]"
            ),
        ))
    };
    assert_harmless(
        "keras",
        vec![
            ("sound", model(&[called("a", "x")], "a"), FINE),
            ("a layer", model(&[called("a", "a")], "a"), super::CYCLE),
            ("two layers", model(&[called("a", "b"), called("b", "a")], "a"), super::CYCLE),
            ("no such layer", model(&[called("a", "z")], "a"), DAMAGED),
            ("no such output", model(&[called("a", "x")], "z"), DAMAGED),
            (
                "two of one name",
                model(&[called("a", "x"), called("a", "a")], "a"),
                &["N0201", "N0206"],
            ),
        ],
    );
}

#[test]
fn sizes_that_overflow() {
    const HALF: &str = "4611686018427387904";
    const LAST: &str = "9223372036854775807";
    const LARGE: &str = "2147483647";
    let pair = |key: &str, n: &str| format!("\"{key}\": [{n}, {n}]");
    let image = "4, 4, 1";
    let pool = |size: &str, stride: &str| {
        pair("pool_size", size) + ", " + &pair("strides", stride) + ", \"padding\": \"same\""
    };
    let pads = format!("\"padding\": [[{LAST}, {LAST}], [{LAST}, {LAST}]]");
    let crop = format!("\"cropping\": [[{LAST}, {LAST}], [-{LAST}, {LAST}]]");
    let crowd = |class, n: &str| {
        one(class, "4", &format!("\"num_tokens\": {n}, \"output_mode\": \"one_hot\""))
    };
    assert_harmless(
        "keras",
        vec![
            ("input", one("ReLU", &format!("{HALF}, {HALF}"), ""), REFUSED_OR_FINE),
            ("input beyond integers", one("ReLU", "1e300", ""), REFUSED),
            ("repeat", one("RepeatVector", "4", &format!("\"n\": {LAST}")), REFUSED_OR_FINE),
            (
                "reshape",
                one("Reshape", "4", &format!("\"target_shape\": [{HALF}, {HALF}]")),
                REFUSED_OR_FINE,
            ),
            ("permute", one("Permute", "4, 2", &format!("\"dims\": [{LAST}, -{LAST}]")), REFUSED),
            ("pads", one("ZeroPadding2D", image, &pads), REFUSED_OR_FINE),
            ("crop", one("Cropping2D", image, &crop), REFUSED_OR_FINE),
            ("upsample", one("UpSampling2D", image, &pair("size", LAST)), REFUSED_OR_FINE),
            ("windows", one("MaxPooling2D", image, &pool(LAST, "1")), REFUSED_OR_FINE),
            ("no windows", one("AveragePooling2D", image, &pool("0", "1")), REFUSED),
            ("negative windows", one("MaxPooling2D", image, &pool("-3", "1")), REFUSED),
            ("strides", one("MaxPooling2D", image, &pool("2", LAST)), REFUSED_OR_FINE),
            ("no strides", one("AveragePooling2D", image, &pool("2", "0")), REFUSED),
            ("negative strides", one("MaxPooling2D", image, &pool("2", "-3")), REFUSED),
            ("largest sizes", one("MaxPooling2D", image, &pool(LARGE, LARGE)), REFUSED_OR_FINE),
            (
                "adaptive",
                one("AdaptiveMaxPooling2D", image, &pair("output_size", LAST)),
                REFUSED_OR_FINE,
            ),
            ("categories", crowd("CategoryEncoding", LAST), REFUSED_OR_FINE),
            ("concatenate", one("Concatenate", "4", &format!("\"axis\": {LAST}")), REFUSED_OR_FINE),
            ("softmax", one("Softmax", "4", &format!("\"axis\": -{LAST}")), REFUSED),
        ],
    );
}
