//! The files in `operators` are what the operator table says.

use crate::draft::snake;
use onnxd_ir::infer;
use onnxd_ir::schema::{self, OpSchema, Param, ParamKind};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Operators that `builder.rs`, `call.rs` and `control.rs` have under their names.
const OWN: [&str; 6] = ["Cast", "Constant", "If", "Loop", "Scan", "SequenceMap"];

/// ONNX Runtime has it in the standard's domain, the standard has not.
const FOREIGN: &str = "SimplifiedLayerNormalization";

/// Words that Rust does not allow as names.
const RESERVED: [&str; 6] = ["where", "mod", "type", "else", "loop", "if"];

/// Longest line.
const COLUMNS_MAX: usize = 120;

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
    let line = format!("    {kind} {} = {op}({given})", name(op));
    match line.len() + " {".len() <= COLUMNS_MAX {
        true => row.push_str(&line),
        false => {
            let given = given.replace(", ", ",\n        ");
            write!(row, "    {kind} {} = {op}(\n        {given}\n    )", name(op)).unwrap();
        }
    }
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

/// How each of these files begins.
const HEAD: &str = "//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: ";

/// The families of a domain with their rows. A family has the name of the file with its rules of inference.
fn families(domain: &str, link: impl Fn(&str) -> String) -> BTreeMap<&'static str, String> {
    let mut ops: Vec<&str> =
        schema::operators(domain).filter(|op| !OWN.contains(op) && *op != FOREIGN).collect();
    ops.sort_unstable();
    let newest = ops.iter().filter_map(|op| schema::history(domain, op).last());
    let mut families = BTreeMap::<_, String>::new();
    for schema in newest.filter(|s| !s.deprecated) {
        let family = infer::family(domain, schema.name).expect(schema.name);
        families.entry(family).or_default().push_str(&row(schema, &link(schema.name)));
    }
    families
}

/// The files by their names. `ml` is a domain of its own.
fn files() -> BTreeMap<String, String> {
    let page = "https://onnx.ai/onnx/operators";
    let standard = families("", |op| format!("{page}/onnx__{op}.html"));
    let ml = families("ai.onnx.ml", |op| format!("{page}/onnx_aionnxml_{op}.html"));
    let list = |names: &[&str], line: fn(&str) -> String| -> String {
        names.iter().map(|name| line(name)).collect()
    };
    let of_standard: Vec<&str> = standard.keys().copied().collect();
    let of_ml: Vec<&str> = ml.keys().copied().collect();
    let mut all = [of_standard.as_slice(), &of_ml].concat();
    all.sort_unstable();
    let mods = list(&all, |name| format!("mod {name};\n"));
    let types = |module: &str, names: &[&str]| {
        let uses = list(names, |name| format!("    pub use super::{name}::op::*;\n"));
        format!("pub mod {module} {{\n{uses}}}\n")
    };
    let root = format!(
        "{HEAD}the operators by families.\n\n{mods}\n\
         /// The operators as types, by which [`crate::Call`] knows what may be set.\n{}\n\
         /// Those of `ai.onnx.ml`.\n{}",
        types("op", &of_standard),
        types("ml_op", &of_ml)
    );
    let of = |domain: &'static str| {
        move |(name, rows): (&str, String)| {
            let head =
                format!("{HEAD}a method for each operator.\n\nuse crate::macros::operators;\n\n");
            (format!("{name}.rs"), format!("{head}operators! {{ \"{domain}\"\n{rows}}}\n"))
        }
    };
    let families = standard.into_iter().map(of("")).chain(ml.into_iter().map(of("ai.onnx.ml")));
    families.chain([("mod.rs".to_owned(), root)]).collect()
}

#[test]
fn there_is_a_method_for_each_operator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/operators");
    let files = files();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).unwrap())
    };
    let written: BTreeMap<String, String> = entries.map(text).collect();
    assert!(written.keys().eq(files.keys()), "UPDATE_EXPECT=1 writes {} anew", folder.display());
    for (name, text) in files {
        assert_eq!(written[&name], text, "UPDATE_EXPECT=1 writes {name} anew");
    }
}
