//! Frozen graphs, as text and in binary form.

use super::{CYCLE, DAMAGED, FINE, LIMIT, assert_harmless};

/// How deep things are inside each other.
const DEEP: usize = 1_000_000;
const REFUSED: &[&str] = &["N0201", "N0203", "N0204", "N0213", "N0215"];

/// An attribute with its value: `attr("T", "type: DT_FLOAT")`.
fn attr(name: &str, value: &str) -> String {
    format!("attr {{ key: \"{name}\" value {{ {value} }} }} ")
}

fn node(name: &str, op: &str, inputs: &[&str], attrs: &str) -> String {
    let inputs: String = inputs.iter().map(|input| format!("input: \"{input}\" ")).collect();
    format!("node {{ name: \"{name}\" op: \"{op}\" {inputs}{attrs}}}\n")
}

fn shape(sizes: &[i64]) -> String {
    let dims: String = sizes.iter().map(|size| format!("dim {{ size: {size} }} ")).collect();
    format!("{{ {dims}}}")
}

/// An input of floats.
fn input(name: &str, sizes: &[i64]) -> String {
    let attrs =
        attr("dtype", "type: DT_FLOAT") + &attr("shape", &format!("shape {}", shape(sizes)));
    node(name, "Placeholder", &[], &attrs)
}

fn x() -> String {
    input("x", &[2, 3])
}

/// A constant of a type: its sizes, and fields with its values.
fn constant(name: &str, ty: &str, sizes: &[i64], values: &str) -> String {
    let value = format!("tensor {{ dtype: {ty} tensor_shape {} {values} }}", shape(sizes));
    node(name, "Const", &[], &(attr("dtype", &format!("type: {ty}")) + &attr("value", &value)))
}

/// A list of integers.
fn ints(name: &str, values: &[i64]) -> String {
    let all: String = values.iter().map(|x| format!("int64_val: {x} ")).collect();
    constant(name, "DT_INT64", &[values.len() as i64], &all)
}

fn int(name: &str, value: i64) -> String {
    constant(name, "DT_INT64", &[], &format!("int64_val: {value}"))
}

fn float_of(name: &str, op: &str, inputs: &[&str]) -> String {
    node(name, op, inputs, &attr("T", "type: DT_FLOAT"))
}

fn types(name: &str, count: usize) -> String {
    attr(name, &format!("list {{ {} }}", "type: DT_FLOAT ".repeat(count)))
}

fn call(name: &str, function: &str, inputs: &[&str]) -> String {
    let f = attr("f", &format!("func {{ name: \"{function}\" }}"));
    let count = inputs.len();
    node(name, "PartitionedCall", inputs, &(f + &types("Tin", count) + &types("Tout", 1)))
}

/// A function of one tensor that gives what `result` names.
fn function(name: &str, nodes: &str, result: &str) -> String {
    let nodes = nodes.replace("node {", "node_def {");
    format!(
        "function {{ signature {{ name: \"{name}\" input_arg {{ name: \"a\" type: DT_FLOAT }} \
         output_arg {{ name: \"r\" type: DT_FLOAT }} }} {nodes} ret {{ key: \"r\" value: \"{result}\" }} }}\n"
    )
}

fn library(nodes: &str, functions: &str) -> String {
    format!("{nodes}library {{ {functions} }}\n")
}

#[test]
fn functions_that_do_not_end() {
    let own = function("f", &call("c", "f", &["a"]), "c:output:0");
    let other = |name: &str, callee: &str| function(name, &call("c", callee, &["a"]), "c:output:0");
    let twice = |i: usize| {
        let callee = format!("f{}", i + 1);
        let nodes = call("c", &callee, &["a"]) + &call("d", &callee, &["c:output:0"]);
        function(&format!("f{i}"), &nodes, "d:output:0")
    };
    let last = |name: &str| function(name, &float_of("c", "Relu", &["a"]), "c:activations:0");
    let chain = |count: usize| {
        let all: String =
            (0..count).map(|i| other(&format!("f{i}"), &format!("f{}", i + 1))).collect();
        all + &last(&format!("f{count}"))
    };
    let doubled: String = (0..60).map(twice).chain([last("f60")]).collect();
    let arms = attr("then_branch", "func { name: \"f\" }")
        + &attr("else_branch", "func { name: \"g\" }")
        + &attr("Tcond", "type: DT_FLOAT")
        + &types("Tin", 1)
        + &types("Tout", 1);
    let arms = |name: &str| function(name, &node("c", "If", &["a", "a"], &arms), "c:output:0");
    let turns = attr("cond", "func { name: \"f\" }")
        + &attr("body", "func { name: \"f\" }")
        + &types("T", 1);
    let turns = function("f", &node("c", "While", &["a"], &turns), "c:output:0");
    let start = |function: &str| x() + &call("y", function, &["x"]);
    assert_harmless(
        "pbtxt",
        vec![
            ("a function that calls itself", library(&start("f"), &own), LIMIT),
            (
                "functions that call each other",
                library(&start("f"), &(other("f", "g") + &other("g", "f"))),
                LIMIT,
            ),
            ("calls that double", library(&start("f0"), &doubled), LIMIT),
            ("a short chain", library(&start("f0"), &chain(20)), FINE),
            ("a long chain", library(&start("f0"), &chain(30_000)), LIMIT),
            ("arms in arms", library(&start("f"), &(arms("f") + &arms("g"))), LIMIT),
            ("a loop in its own body", library(&start("f"), &turns), LIMIT),
        ],
    );
}

#[test]
fn cycles() {
    let relu = |name: &str, input: &str| float_of(name, "Relu", &[input]);
    let behind = |name: &str, input: &str| float_of(name, "Relu", &["x", input]);
    let long: String =
        (0..20_000).map(|i| relu(&format!("r{}", i + 1), &format!("r{i}"))).collect();
    let next = |a: &str, b: &str| float_of("m", "Merge", &[a, b]) + &relu("n", "m");
    assert_harmless(
        "pbtxt",
        vec![
            ("a node that reads itself", x() + &relu("a", "a") + &relu("y", "a"), CYCLE),
            ("two nodes", x() + &relu("a", "b") + &relu("b", "a") + &relu("y", "a"), CYCLE),
            (
                "control inputs",
                x() + &behind("a", "^b") + &behind("b", "^a") + &relu("y", "a"),
                &["", "N0206"],
            ),
            ("a long cycle", long.clone() + &relu("r0", "r20000") + &relu("y", "r9"), CYCLE),
            ("a long chain", input("r0", &[2]) + &long, FINE),
            ("a merge without a loop", x() + &next("x", "n") + &relu("y", "n"), REFUSED_OR_CYCLE),
        ],
    );
}

const REFUSED_OR_CYCLE: &[&str] = &["N0201", "N0203", "N0204", "N0206"];

#[test]
fn texts_and_messages_in_each_other() {
    let open = "attr { key: \"a\" value { func { ";
    let deep = format!("node {{ name: \"x\" op: \"Relu\" {}", open.repeat(DEEP / 10));
    assert_harmless(
        "pbtxt",
        vec![
            ("messages", deep, &["N0201", "N0213"]),
            ("braces", format!("node {{ op: \"Relu\" {}", "a {".repeat(DEEP)), &["N0201", "N0213"]),
            (
                "a long text",
                format!("node {{ name: \"{}\" op: \"Relu\" }}", "x".repeat(DEEP)),
                &["N0101"],
            ),
            (
                "control characters",
                node("\\033[31m\\n", "Relu", &["no\\033[31m\\nsuch"], ""),
                DAMAGED,
            ),
        ],
    );
    // A node with a name and an operator comes first, else the file is none of TensorFlow's.
    let node = b"\x0a\x08\x0a\x01x\x12\x03Foo";
    let groups = [&node[..], &b"\x7b".repeat(DEEP)].concat();
    let mut nested = vec![];
    for _ in 0..2_000 {
        // attr { value { func { attr { ... } } } }
        for tag in [0x0a, 0x12, 0x52, 0x12] {
            let mut wrapped = vec![tag];
            prost::encoding::encode_varint(nested.len() as u64, &mut wrapped);
            wrapped.extend(&nested);
            nested = wrapped;
        }
    }
    let count = |n: u64| {
        let mut bytes = [&node[..], b"\x0a"].concat();
        prost::encoding::encode_varint(n, &mut bytes);
        bytes
    };
    assert_harmless(
        "pb",
        vec![
            ("groups", groups, DAMAGED),
            ("nested", [&node[..], &nested].concat(), &["N0201", "N0203"]),
            ("a length beyond the file", count(1 << 40), DAMAGED),
            ("a length that overflows", count(u64::MAX), DAMAGED),
        ],
    );
}

const HALF: i64 = 1 << 62;
const LAST: i64 = i64::MAX;

/// An operator of floats that gives `y`.
fn op(op: &str, inputs: &[&str], attrs: &str) -> String {
    let types = attr("T", "type: DT_FLOAT")
        + &attr("Tidx", "type: DT_INT64")
        + &attr("Tpaddings", "type: DT_INT64");
    x() + &node("y", op, inputs, &(types + attrs))
}

#[test]
fn constants_that_overflow() {
    let fill = attr("index_type", "type: DT_INT64");
    let filled = |sizes: &[i64]| {
        let y = float_of("y", "AddV2", &["x", "f"]);
        ints("s", sizes)
            + &op("Fill", &["s", "z"], &fill).replace("\"y\"", "\"f\"")
            + &y
            + &constant("z", "DT_FLOAT", &[], "float_val: 1")
    };
    let constants: String = (0..40)
        .map(|i| {
            let c = constant(&format!("c{i}"), "DT_FLOAT", &[1 << 24], "float_val: 1");
            c + &float_of(&format!("y{i}"), "Relu", &[&format!("c{i}")])
        })
        .collect();
    assert_harmless(
        "pbtxt",
        vec![
            ("constant", constant("y", "DT_FLOAT", &[HALF, HALF], ""), REFUSED),
            (
                "constant of one value",
                constant("c", "DT_FLOAT", &[1 << 40], "float_val: 1")
                    + &float_of("y", "Relu", &["c"]),
                LIMIT,
            ),
            ("texts", constant("y", "DT_STRING", &[1 << 40], "string_val: \"a\""), REFUSED),
            ("many constants of one value", x() + &constants, LIMIT),
            ("negative", constant("y", "DT_FLOAT", &[-5], "float_val: 1"), DAMAGED),
            ("input", input("x", &[HALF, HALF]) + &float_of("y", "Relu", &["x"]), REFUSED_OR_FINE),
            ("fill", filled(&[HALF, HALF]), REFUSED_OR_FINE),
            ("fill much", filled(&[1 << 40, 3]), REFUSED_OR_FINE),
        ],
    );
}

#[test]
fn sizes_that_overflow() {
    let t = attr("T", "type: DT_FLOAT");
    let window = |op: &str, sizes: &str| {
        let attrs = attr("ksize", &format!("list {{ {sizes} }}"))
            + &attr("strides", &format!("list {{ {sizes} }}"))
            + &attr("padding", "s: \"SAME\"");
        input("x", &[1, 4, 4, 1]) + &node("y", op, &["x"], &(t.clone() + &attrs))
    };
    let huge = format!("i: 1 i: {LAST} i: {LAST} i: 1");
    assert_harmless(
        "pbtxt",
        vec![
            ("tile", ints("n", &[LAST, 1]) + &op("Tile", &["x", "n"], ""), REFUSED_OR_FINE),
            ("reshape", ints("n", &[HALF, 4]) + &op("Reshape", &["x", "n"], ""), REFUSED_OR_FINE),
            (
                "pad",
                constant("p", "DT_INT64", &[2, 2], &format!("int64_val: {LAST}"))
                    + &op("Pad", &["x", "p"], ""),
                REFUSED_OR_FINE,
            ),
            ("expand", int("n", LAST) + &op("ExpandDims", &["x", "n"], ""), REFUSED),
            ("sum", op("AddN", &["x"], &attr("N", &format!("i: {LAST}"))), REFUSED_OR_FINE),
            ("windows", window("MaxPool", &huge), REFUSED_OR_FINE),
            ("negative windows", window("AvgPool", "i: 1 i: -4 i: 0 i: 1"), REFUSED),
            (
                "space",
                input("x", &[1, 4, 4, 1])
                    + &node(
                        "y",
                        "SpaceToDepth",
                        &["x"],
                        &(t.clone() + &attr("block_size", &format!("i: {LAST}"))),
                    ),
                REFUSED,
            ),
            (
                "slice",
                ints("b", &[LAST, 1])
                    + &ints("e", &[LAST, LAST])
                    + &ints("s", &[i64::MIN, LAST])
                    + &op(
                        "StridedSlice",
                        &["x", "b", "e", "s"],
                        &(attr("Index", "type: DT_INT64")
                            + &attr("ellipsis_mask", "i: -1")
                            + &attr("begin_mask", &format!("i: {LAST}"))),
                    ),
                REFUSED_OR_FINE,
            ),
        ],
    );
}

#[test]
fn counts_that_overflow() {
    let t = attr("T", "type: DT_FLOAT");
    assert_harmless(
        "pbtxt",
        vec![
            (
                "split",
                int("a", 0) + &op("Split", &["a", "x"], &attr("num_split", &format!("i: {LAST}"))),
                REFUSED,
            ),
            (
                "unpack",
                op("Unpack", &["x"], &(attr("num", &format!("i: {HALF}")) + &attr("axis", "i: 0"))),
                REFUSED,
            ),
            (
                "unpack along no axis",
                op(
                    "Unpack",
                    &["x"],
                    &(attr("num", "i: 2") + &attr("axis", &format!("i: {}", -LAST))),
                ),
                REFUSED,
            ),
            (
                "one hot",
                int("n", HALF)
                    + &ints("i", &[1])
                    + &constant("z", "DT_FLOAT", &[], "float_val: 1")
                    + &node(
                        "y",
                        "OneHot",
                        &["i", "n", "z", "z"],
                        &(t.clone()
                            + &attr("TI", "type: DT_INT64")
                            + &attr("axis", &format!("i: {LAST}"))),
                    ),
                REFUSED_OR_FINE,
            ),
            (
                "range",
                int("a", 0)
                    + &int("b", LAST)
                    + &int("d", 1)
                    + &node("y", "Range", &["a", "b", "d"], &attr("Tidx", "type: DT_INT64")),
                REFUSED_OR_FINE,
            ),
            (
                "list",
                ints("s", &[2])
                    + &int("n", 1 << 40)
                    + &node(
                        "l",
                        "TensorListReserve",
                        &["s", "n"],
                        &(attr("element_dtype", "type: DT_FLOAT")
                            + &attr("shape_type", "type: DT_INT64")),
                    )
                    + &node(
                        "y",
                        "TensorListStack",
                        &["l", "s"],
                        &attr("element_dtype", "type: DT_FLOAT"),
                    ),
                REFUSED_OR_FINE,
            ),
        ],
    );
}

/// What ONNX can say is a model, however large its results would be.
const REFUSED_OR_FINE: &[&str] = &["", "N0201", "N0203", "N0204", "N0213", "N0215"];

#[test]
fn many_nodes_and_outputs() {
    let outputs = |count: usize| x() + &node("y", "Foo", &["x"], &types("Tout", count));
    let same: String = (0..20_000).map(|_| float_of("a", "Relu", &["x"])).collect();
    let inputs = "input: \"x\" ".repeat(200_000);
    let read = format!(
        "node {{ name: \"y\" op: \"AddN\" {inputs}{} }}",
        attr("T", "type: DT_FLOAT") + &attr("N", "i: 200000")
    );
    assert_harmless(
        "pbtxt",
        vec![
            ("outputs of an unknown node", outputs(1_000_000), &["N0203"]),
            ("nodes of one name", x() + &same + &float_of("y", "Relu", &["a"]), REFUSED_OR_FINE),
            ("inputs of a sum", x() + &read, REFUSED_OR_FINE),
            (
                "a reference to no output",
                x() + &float_of("y", "Relu", &["x:9223372036854775807"]),
                DAMAGED,
            ),
            ("a reference to no node", x() + &float_of("y", "Relu", &["z:1:2:3"]), DAMAGED),
        ],
    );
}
