//! Holds the tables of docs/manual.md equal to the rows of settings, to the params that this program and its plugins
//! declare, and to the list of codes.
//!
//! `UPDATE_EXPECT=1 cargo test -p onnxd-integration-tests --test it manual::` writes the tables of keys anew.

use onnxd_config::{Row, settings};
use onnxd_diagnostics::Code;
use onnxd_integration_tests::{declared, root};
use std::fmt::Write;
use std::path::PathBuf;

/// The manual.
fn manual() -> (PathBuf, String) {
    let path = root().join("docs/manual.md");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// One line per key.
fn table(rows: &[Row]) -> String {
    let mut out = String::from("| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
    for row in rows {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let (kind, default) = (cell(&row.kind.to_string()), cell(&row.default_text()));
        let help = cell(&row.help).split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(out, "| `{}` | {kind} | {default} | {help} |", row.key).unwrap();
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
fn every_key_is_in_the_manual_with_type_and_default() {
    let (path, text) = manual();
    let wanted = with_table(&text, "params", &table(declared().rows()));
    let wanted = with_table(&wanted, "settings", &table(&settings::ROWS));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, wanted).unwrap();
        return;
    }
    for (i, (found, wanted)) in text.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "docs/manual.md:{}; UPDATE_EXPECT=1 writes it anew", i + 1);
    }
    assert_eq!(text.lines().count(), wanted.lines().count());
}

#[test]
fn every_code_is_in_the_manual_with_its_class() {
    let (_, text) = manual();
    for code in Code::ALL {
        let begin = format!("| {} | {} | ", code.as_str(), code.class().as_str());
        let count = text.lines().filter(|line| line.starts_with(&begin)).count();
        assert_eq!(count, 1, "docs/manual.md has {count} lines that begin with `{begin}`");
    }
    let listed = text.lines().filter(|line| line.starts_with("| N0")).count();
    assert_eq!(listed, Code::ALL.len(), "docs/manual.md lists codes that do not exist");
}
