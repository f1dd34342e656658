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

/// Names as Rust has them, each with that of ONNX behind it where it is another one.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let both = |text: &str| match name(text) {
        same if same == text => same,
        other => format!("{other} \"{text}\""),
    };
    all.map(both).collect::<Vec<_>>().join(", ")
}

/// An attribute of an older version that the newest has as an input is not one of its attributes.
fn row(newest: &OpSchema) -> String {
    let op = newest.name;
    let of = |kind| {
        let is = move |p: &&Param| p.kind == kind;
        names(newest.inputs.iter().filter(is).map(|p| p.name))
    };
    let (required, optional) = (of(ParamKind::Single), of(ParamKind::Optional));
    let attributes = names(newest.attributes.iter().map(|a| a.name));
    let single = newest.outputs.len() == 1 && newest.outputs[0].kind == ParamKind::Single;
    let direct = single && optional.is_empty() && attributes.is_empty();
    let mut row =
        format!("    {} {} = {op}({required}", if direct { "direct" } else { "call" }, name(op));
    if !optional.is_empty() {
        write!(row, "; {optional}").unwrap();
    }
    if matches!(newest.inputs.last().map(|p| p.kind), Some(ParamKind::Variadic { .. })) {
        row.push_str("; ..inputs");
    }
    row.push(')');
    if !attributes.is_empty() {
        write!(row, " {{ {attributes} }}").unwrap();
    }
    write!(row, " -> \"{}\"", shown(&newest.outputs)).unwrap();
    wrapped(&row)
}

/// The row in lines of at most [`COLUMNS_MAX`].
fn wrapped(row: &str) -> String {
    let mut lines = vec![String::new()];
    for word in row.split_inclusive(' ') {
        let last = lines.last_mut().unwrap();
        if last.len() + word.trim_end().len() > COLUMNS_MAX {
            last.truncate(last.trim_end().len());
            lines.push(format!("        {word}"));
        } else {
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

/// How each of these files begins.
const HEAD: &str = "//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: ";

/// The families of a domain with their rows. A family has the name of the file with its rules of inference.
fn families(domain: &str) -> BTreeMap<&'static str, String> {
    let mut ops: Vec<&str> =
        schema::operators(domain).filter(|op| !OWN.contains(op) && *op != FOREIGN).collect();
    ops.sort_unstable();
    let newest = ops.iter().filter_map(|op| schema::history(domain, op).last());
    let mut families = BTreeMap::<_, String>::new();
    for schema in newest.filter(|s| !s.deprecated) {
        let family = infer::family(domain, schema.name).expect(schema.name);
        families.entry(family).or_default().push_str(&row(schema));
    }
    families
}

/// The files by their names. `ml` is a domain of its own.
fn files() -> BTreeMap<String, String> {
    let (standard, ml) = (families(""), families("ai.onnx.ml"));
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
    let of = |domain: &'static str, page: &'static str| {
        let link = format!("https://onnx.ai/onnx/operators/{page}");
        move |(name, rows): (&str, String)| {
            let head =
                format!("{HEAD}a method for each operator.\n\nuse crate::macros::operators;\n\n");
            let begin = format!("operators! {{ \"{domain}\" \"{link}\"");
            (format!("{name}.rs"), format!("{head}{begin}\n{rows}}}\n"))
        }
    };
    let standard = standard.into_iter().map(of("", "onnx__"));
    let ml = ml.into_iter().map(of("ai.onnx.ml", "onnx_aionnxml_"));
    standard.chain(ml).chain([("mod.rs".to_owned(), root)]).collect()
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
