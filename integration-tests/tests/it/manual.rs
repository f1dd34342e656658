//! Holds the tables of docs/manual.md equal to the rows of settings, to the params that this program and its plugins
//! declare, and to the lists of passes and codes.
//!
//! `UPDATE_EXPECT=1 cargo test -p onnxd-integration-tests --test it manual::` writes the tables anew.

use onnxd_config::{KeyRow, settings};
use onnxd_diagnostics::Code;
use onnxd_integration_tests::{components, declared, root};
use std::fmt::Write;
use std::path::PathBuf;

/// The manual.
fn manual() -> (PathBuf, String) {
    let path = root().join("docs/manual.md");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// One line per key.
fn table(rows: &[KeyRow]) -> String {
    let mut out = String::from("| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
    for row in rows {
        let (kind, default) = (cell(&row.kind.to_string()), cell(&row.default_text()));
        let help = cell(&row.help).split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(out, "| `{}` | {kind} | {default} | {help} |", row.key).unwrap();
    }
    out
}

/// One line per code.
fn codes() -> String {
    let mut out =
        "| code | class | what happened | what to do |\n| --- | --- | --- | --- |\n".to_owned();
    for code in Code::ALL {
        let (what, help) = (cell(code.what()), cell(code.help()));
        writeln!(out, "| {} | {} | {what} | {help} |", code.as_str(), code.class().as_str())
            .unwrap();
    }
    out
}

/// The passes of a profile, in their order.
fn profile(name: &str) -> Vec<String> {
    let path = root().join("config/profiles").join(name).with_extension("toml");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, list) = text.split_once("passes = [").expect("a list of passes");
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines = lines.filter(|line| !["", "]"].contains(line));
    let quoted = lines.map(|line| line.strip_prefix('"')?.strip_suffix("\","));
    quoted.map(|name| name.expect("one pass on a line").to_owned()).collect()
}

/// One line per pass that comes with onnxd: those of the profiles in their order, then the others by name.
fn passes() -> String {
    let all = components().into_iter().map(|(_, component)| component);
    let mut all: Vec<_> = all.filter(|component| component.kind == "pass").collect();
    let profiles = [profile("default"), profile("onnxruntime")];
    let place = |id: &str| profiles.concat().iter().position(|other| other == id);
    all.sort_by_key(|pass| (place(&pass.id).unwrap_or(usize::MAX), pass.id.clone()));
    let mut out = "| pass | runs | what it does |\n| --- | --- | --- |\n".to_owned();
    for pass in all {
        let is_in = |profile: &Vec<String>| profile.contains(&pass.id);
        let mut runs = match profiles.iter().position(is_in) {
            Some(0) => "by default".to_owned(),
            Some(_) => "with the profile `onnxruntime`".to_owned(),
            None if !pass.lowers.is_empty() => "where a network has its operators".to_owned(),
            None => "with `passes.enable`".to_owned(),
        };
        let conditions = [("if", &pass.runs.when), ("unless", &pass.runs.unless)];
        for (word, keys) in conditions {
            for (key, kind) in keys {
                write!(runs, ", {word} `{key}` is {}", cell(&kind.to_string())).unwrap();
            }
        }
        writeln!(out, "| `{}` | {runs} | {} |", pass.id, cell(&pass.summary)).unwrap();
    }
    out
}

/// The text with what stands between the marks of `name` replaced.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let begin =
        format!("<!-- {name}: begin, written by integration-tests/tests/it/manual.rs -->\n");
    let end = format!("<!-- {name}: end -->");
    let (head, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no mark `{begin}`"));
    let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("no mark `{end}`"));
    format!("{head}{begin}{table}{end}{tail}")
}

#[test]
fn tables_are_those_of_the_declarations() {
    let (path, text) = manual();
    let wanted = with_table(&text, "params", &table(declared().rows()));
    let wanted = with_table(&wanted, "settings", &table(&settings::ROWS));
    let wanted = with_table(&wanted, "diagnostics", &codes());
    let wanted = with_table(&wanted, "passes", &passes());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, wanted).unwrap();
        return;
    }
    for (i, (found, wanted)) in text.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "docs/manual.md:{}; UPDATE_EXPECT=1 writes it anew", i + 1);
    }
    assert_eq!(text.lines().count(), wanted.lines().count());
}
