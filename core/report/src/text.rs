//! `report.txt`: tables for people and for `grep`; every line begins with the name of its table.

use crate::format::line;
use crate::sections::{Section, sections};
use onnxd_proto::onnxd::Report;

/// The report as plain text.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let head = [
        ("name", report.name.as_str()),
        ("verdict", &report.verdict),
        ("summary", &report.summary),
        ("job", &report.job),
    ];
    for (key, value) in head {
        push_line(&mut out, &[format!("{key:<8}"), line(value)]);
    }
    if report.attempt > 1 {
        push_line(&mut out, &["attempt ".to_owned(), report.attempt.to_string()]);
    }
    for section in sections(report) {
        out.push('\n');
        push_table(&mut out, &section);
    }
    out
}

fn push_table(out: &mut String, section: &Section) {
    let titles = section.columns.iter().map(|c| c.trim_start_matches('#').to_uppercase());
    let titles: Vec<String> = titles.collect();
    let rows = || std::iter::once(&titles).chain(&section.rows);
    let width = |i: usize| rows().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    for row in rows() {
        let mut cells = vec![section.key.to_owned()];
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let number = section.columns[i].starts_with('#');
            cells.push(if number { format!("{cell:>width$}") } else { format!("{cell:<width$}") });
        }
        push_line(out, &cells);
    }
}

fn push_line(out: &mut String, cells: &[String]) {
    out.push_str(cells.join("  ").trim_end());
    out.push('\n');
}
