//! `operators.rs` and `operators_ml.rs` are what the operator table says.

use crate::draft::snake;
use onnxd_ir::schema::{self, OpSchema, Param, ParamKind};
use std::fmt::Write as _;

/// Operators that `builder.rs`, `call.rs` and `control.rs` have under their names.
const OWN: [&str; 6] = ["Cast", "Constant", "If", "Loop", "Scan", "SequenceMap"];

/// ONNX Runtime has it in the standard's domain, the standard has not.
const FOREIGN: &str = "SimplifiedLayerNormalization";

/// Words that Rust does not allow as names.
const RESERVED: [&str; 6] = ["where", "mod", "type", "else", "loop", "if"];

fn name(text: &str) -> String {
    let name = snake(text).replace(['.', '-'], "_");
    if RESERVED.contains(&name.as_str()) { format!("{name}_") } else { name }
}

fn shown(params: &[Param]) -> String {
    let text = |p: &Param| match p.kind {
        ParamKind::Single => p.name.to_owned(),
        ParamKind::Optional => format!("{}?", p.name),
        ParamKind::Variadic { .. } => format!("{}...", p.name.trim_end_matches('.')),
    };
    params.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The setters of an operator: its optional inputs and its attributes. An attribute of an older
/// version that the newest has as an input is one of them already.
fn setters(newest: &OpSchema) -> Vec<&'static str> {
    let inputs = newest.inputs.iter().filter(|p| p.kind == ParamKind::Optional).map(|p| p.name);
    inputs.chain(newest.attributes.iter().map(|a| a.name)).collect()
}

fn row(newest: &OpSchema, link: &str) -> String {
    let op = newest.name;
    let setters = setters(newest);
    let single = newest.outputs.len() == 1 && newest.outputs[0].kind == ParamKind::Single;
    let kind = if single && setters.is_empty() { "direct" } else { "call" };
    let mut row = String::new();
    let (inputs, outputs) = (shown(&newest.inputs), shown(&newest.outputs));
    writeln!(row, "    /// `{op}({inputs}) -> {outputs}`, <{link}>").unwrap();
    let required = newest.inputs.iter().filter(|p| p.kind == ParamKind::Single);
    let required = required.map(|p| format!("{}: \"{}\"", name(p.name), p.name));
    let mut given = required.collect::<Vec<_>>().join(", ");
    if matches!(newest.inputs.last().map(|p| p.kind), Some(ParamKind::Variadic { .. })) {
        given.push_str("; ..inputs");
    }
    write!(row, "    {kind} {} = {op}({given})", name(op)).unwrap();
    if !setters.is_empty() {
        row.push_str(" {\n");
        for setter in setters {
            writeln!(row, "        {}: \"{setter}\",", name(setter)).unwrap();
        }
        row.push_str("    }");
    }
    row.push('\n');
    row
}

fn file(domain: &str, link: impl Fn(&str) -> String) -> String {
    let mut ops: Vec<&str> =
        schema::operators(domain).filter(|op| !OWN.contains(op) && *op != FOREIGN).collect();
    ops.sort_unstable();
    let newest = ops.iter().filter_map(|op| schema::history(domain, op).last());
    let rows: String = newest.filter(|s| !s.deprecated).map(|s| row(s, &link(s.name))).collect();
    format!(
        "//! A method for each operator of the standard; `UPDATE_EXPECT=1 cargo test -p onnxd-build` \
         writes it.\n\nuse crate::macros::operators;\n\noperators! {{ \"{domain}\"\n{rows}}}\n"
    )
}

fn same(path: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, text, "UPDATE_EXPECT=1 writes {} anew", path.display());
}

#[test]
fn there_is_a_method_for_each_operator() {
    let page = "https://onnx.ai/onnx/operators";
    same("src/operators.rs", &file("", |op| format!("{page}/onnx__{op}.html")));
    let ml = |op: &str| format!("{page}/onnx_aionnxml_{op}.html");
    same("src/operators_ml.rs", &file("ai.onnx.ml", ml));
}
