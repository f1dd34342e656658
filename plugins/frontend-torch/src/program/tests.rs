use super::*;
use serde_json::{Value, json};

/// A program with one node; `all` writes all keys of arguments, as schema 2 does.
fn program(all: bool) -> Value {
    let argument = |key: &str, value: Value| {
        let mut argument = json!({});
        if all {
            for other in ["as_none", "as_tensor", "as_int", "as_ints", "as_float", "as_sym_int"] {
                argument[other] = Value::Null;
            }
        }
        argument[key] = value;
        argument
    };
    let tensor = |name: &str| argument("as_tensor", json!({"name": name}));
    let node = json!({
        "target": "torch.ops.aten.add.Tensor",
        "inputs": [
            {"name": "self", "arg": tensor("x"), "kind": 1},
            {"name": "other", "arg": tensor("w")},
            {"name": "alpha", "arg": argument("as_int", json!(2)), "kind": 2},
        ],
        "outputs": [tensor("add")],
        "metadata": {"nn_module_stack": "L__self__,,m.Net;L__self__sub,sub,m.Sub", "stack_trace": "line 1"},
    });
    let expression = json!({"as_expr": {"expr_str": "2*s0", "hint": {"as_int": 4}}});
    json!({
        "graph_module": {
            "graph": {
                "inputs": [tensor("w"), tensor("x")],
                "outputs": [tensor("add")],
                "nodes": [node],
                "tensor_values": {"x": {"dtype": 7, "sizes": [expression, {"as_int": 3}], "strides": []}},
                "sym_int_values": {},
            },
            "signature": {
                "input_specs": [
                    {"parameter": {"arg": {"name": "w"}, "parameter_name": "sub.w"}, "buffer": null},
                    {"user_input": {"arg": tensor("x")}},
                ],
                "output_specs": [{"buffer_mutation": {"arg": {"name": "add"}, "buffer_name": "b"}}],
            },
        },
        "opset_version": {"aten": 10},
        "range_constraints": {"s0": {"min_val": 2, "max_val": null}},
        "schema_version": if all { json!(2) } else { json!({"major": 8, "minor": 20}) },
    })
}

fn read(program: &Value) -> Program {
    json::read(program.to_string().as_bytes()).unwrap_or_else(|e| panic!("{}", e.message))
}

#[test]
fn both_notations_of_arguments_are_read() {
    for all in [false, true] {
        let program = read(&program(all));
        assert_eq!(program.inputs[0].kind, InputKind::Parameter("sub.w".into()));
        assert_eq!(program.inputs[1].kind, InputKind::User);
        assert_eq!(program.outputs[0], OutputKind::BufferMutation("b".into()));
        assert_eq!(program.ranges, [("s0".into(), Some(2), None)]);
        let node = &program.graph.nodes[0];
        let operator = CallTarget::Operator { name: "aten::add".into(), overload: "Tensor".into() };
        assert_eq!(node.target, operator);
        assert!(matches!(&node.arguments[1].value, Argument::Tensor(name) if &**name == "w"));
        assert!(matches!(node.arguments[2].value, Argument::Int(2)));
        let passed: Vec<_> = node.arguments.iter().map(|argument| argument.passed).collect();
        assert_eq!(passed, [Some(Passed::Positional), None, Some(Passed::Named)]);
        assert_eq!(node.modules().collect::<Vec<_>>(), [("", "m.Net"), ("sub", "m.Sub")]);
        assert_eq!(node.stack_trace(), Some("line 1"));
        let meta = &program.graph.tensors["x"];
        assert_eq!(meta.dtype, Some(DataType::Float));
        assert_eq!(meta.sizes, [SymbolicSize::Symbolic("2*s0".into()), SymbolicSize::Known(3)]);
    }
}

#[test]
fn inputs_of_all_kinds() {
    let tensor = |rest: Value| {
        let mut spec = json!({"arg": {"name": "w"}});
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        spec
    };
    let buffer = |persistent| InputKind::Buffer { name: "n".into(), persistent };
    let object = json!({"arg": {"name": "o", "class_fqn": "C"}, "custom_obj_name": "n"});
    let cases = [
        (json!({"buffer": tensor(json!({"buffer_name": "n"}))}), buffer(true), r#"Tensor("w")"#),
        (
            json!({"buffer": tensor(json!({"buffer_name": "n", "persistent": false}))}),
            buffer(false),
            r#"Tensor("w")"#,
        ),
        (
            json!({"tensor_constant": tensor(json!({"tensor_constant_name": "n"}))}),
            InputKind::Constant("n".into()),
            r#"Tensor("w")"#,
        ),
        (json!({"custom_obj": object}), InputKind::Object("n".into()), r#"Object("o")"#),
        (json!({"token": tensor(json!({}))}), InputKind::Token, r#"Tensor("w")"#),
        (
            json!({"constant_input": {"name": "n", "value": {"as_int": 5}}}),
            InputKind::Fixed("n".into()),
            "Int(5)",
        ),
    ];
    for (spec, kind, value) in cases {
        let mut source = program(false);
        source["graph_module"]["signature"]["input_specs"][0] = spec;
        let read = read(&source);
        assert_eq!((&read.inputs[0].kind, &*format!("{:?}", read.inputs[0].value)), (&kind, value));
    }
}

fn argument(text: &str) -> Result<Argument, serde_json::Error> {
    serde_json::from_str(text)
}

#[test]
fn arguments_of_all_kinds() {
    let cases = [
        (r#"{"as_none": true}"#, "None"),
        (r#"{"as_none": []}"#, "None"),
        (
            r#"{"as_tensors": [{"name": "a"}, {"name": "b"}]}"#,
            r#"List([Tensor("a"), Tensor("b")])"#,
        ),
        (
            r#"{"as_nested_tensors": [[{"name": "a"}], []]}"#,
            r#"List([List([Tensor("a")]), List([])])"#,
        ),
        (r#"{"as_optional_tensor": {"as_none": true}}"#, "None"),
        (
            r#"{"as_optional_tensors": [{"as_tensor": {"name": "a"}}, {"as_none": true}]}"#,
            r#"List([Tensor("a"), None])"#,
        ),
        (r#"{"as_ints": [1, -2]}"#, "List([Int(1), Int(-2)])"),
        (r#"{"as_float": "-Infinity"}"#, "Float(-inf)"),
        (r#"{"as_float": 1}"#, "Float(1.0)"),
        (r#"{"as_floats": [0.1, "NaN"]}"#, "List([Float(0.1), Float(NaN)])"),
        (r#"{"as_bools": [true]}"#, "List([Bool(true)])"),
        (r#"{"as_string": "a\nb"}"#, r#"Text("a\nb")"#),
        (r#"{"as_sym_int": {"as_name": "s"}}"#, r#"Symbol("s")"#),
        (
            r#"{"as_sym_ints": [{"as_name": "s", "as_int": null}, {"as_int": 2}]}"#,
            r#"List([Symbol("s"), Int(2)])"#,
        ),
        (r#"{"as_scalar_type": 13}"#, "Int(15)"),
        (r#"{"as_memory_format": 4}"#, "Int(1)"),
        (r#"{"as_layout": 7}"#, "Int(0)"),
        (r#"{"as_device": {"type": "cpu", "index": null}}"#, r#"Device("cpu", None)"#),
        (r#"{"as_complex": {"real": 1.0, "imag": 2.0}}"#, "Complex(1.0, 2.0)"),
        (
            r#"{"as_string_to_argument": {"b": {"as_int": 1}, "a": {"as_none": true}}}"#,
            r#"Dict([("a", None), ("b", Int(1))])"#,
        ),
        (r#"{"as_future": null, "as_bool": false}"#, "Bool(false)"),
    ];
    for (text, expected) in cases {
        assert_eq!(format!("{:?}", argument(text).unwrap()), expected, "{text}");
    }
    for wrong in [
        "{}", r#"{"as_int": null}"#, r#"{"as_int": 1, "as_bool": true}"#, r#"{"as_future": 1}"#,
        r#"{"as_scalar_type": 99}"#, r#"{"as_memory_format": 0}"#, r#"{"as_layout": -1}"#,
        r#"{"as_float": "much"}"#, r#"{"as_sym_int": {}}"#, "3",
    ] {
        assert!(argument(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn bare_infinities_are_read() {
    let text = program(false).to_string().replace(r#"{"as_int":2}"#, r#"{"as_float":-Infinity}"#);
    let text = text.replace("line 1", r#"NaN \" Infinity"#);
    let program = json::read(text.as_bytes()).unwrap();
    let node = &program.graph.nodes[0];
    assert!(matches!(node.arguments[2].value, Argument::Float(f64::NEG_INFINITY)));
    assert_eq!(node.stack_trace(), Some("NaN \" Infinity"));
}

#[test]
fn targets() {
    let target = |text: &str| json::target(Value::from(text)).unwrap();
    let operator = |name: &str, overload: &str| CallTarget::Operator {
        name: name.into(),
        overload: overload.into(),
    };
    assert_eq!(target("torch.ops.aten.relu.default"), operator("aten::relu", ""));
    assert_eq!(target("torch.ops.my.op"), operator("my::op", ""));
    assert_eq!(target("torch.ops.higher_order.cond"), CallTarget::HigherOrder("cond".into()));
    assert_eq!(target("_operator.mul"), CallTarget::Function("_operator.mul".into()));
    assert!(json::target(Value::from("torch.ops.aten")).is_err());
}

#[test]
fn broken_programs_are_refused() {
    let code = |text: &[u8]| json::read(text).unwrap_err().into_finding().code;
    let text = program(false).to_string();
    for end in 0..text.len() {
        assert_eq!(code(&text.as_bytes()[..end]), "N0202", "{end}");
    }
    assert_eq!(code(b"[]"), "N0201");
    assert_eq!(code(b"\xff"), "N0201");
    let deep = [
        r#"{"graph_module": {"graph": {"inputs": ["#,
        &r#"{"as_optional_tensor":"#.repeat(1_000_000),
    ]
    .concat();
    assert_eq!(code(deep.as_bytes()), "N0213");
    let mut unequal = program(false);
    unequal["graph_module"]["signature"]["input_specs"] = json!([]);
    assert_eq!(code(unequal.to_string().as_bytes()), "N0201");
    let mut unknown = program(false);
    unknown["graph_module"]["signature"]["input_specs"][0] = json!({"promise": {}});
    assert_eq!(code(unknown.to_string().as_bytes()), "N0201");
    let many = [r#"{"graph_module": ["#, &"0,".repeat(1 << 23), "0]}"].concat();
    assert_eq!(code(many.as_bytes()), "N0213");
}
