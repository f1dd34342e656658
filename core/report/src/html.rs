//! `report.html`: one file without scripts or references, light or dark as the reader's system is.
//!
//! Every text is escaped: names come from files that anybody may have written.

use crate::FAILED;
use crate::SUCCEEDED;
use crate::sections::{Chart, Section, sections};
use onnxd_proto::onnxd::Report;

/// Width of the longest bar, in CSS pixels.
const BAR_WIDTH: f64 = 160.0;

/// Of a drawing of counts, in CSS pixels.
const CHART_WIDTH: f64 = 256.0;
const CHART_HEIGHT: f64 = 40.0;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --bar: #3b7dd8; --good: #1a7f37;
  --warn: #9a6700; --bad: #c62828; }
@media (prefers-color-scheme: dark) {
  :root { --bar: #6ea8fe; --good: #56d364; --warn: #e3b341; --bad: #ff7b72; }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
.verdict { font-weight: 600; }
.good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
rect { fill: var(--bar); }
path { fill: var(--bar); }
line { stroke: var(--bad); }
footer { margin-top: 2rem; opacity: .7; font-size: .85rem; }
";

/// The report as one HTML page.
#[must_use]
pub fn html(report: &Report) -> String {
    let name = escape(&report.name);
    let tone = match report.verdict.as_str() {
        SUCCEEDED => "good",
        FAILED => "bad",
        _ => "warn",
    };
    let verdict = escape(&report.verdict.replace('_', " "));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}: {verdict}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{name}</h1>\n<p><span class=\"verdict {tone}\">{verdict}</span> {}</p>\n",
        escape(&report.summary)
    );
    for section in sections(report) {
        push_section(&mut out, &section);
    }
    let (job, version) = (escape(&report.job), escape(&report.onnxd_version));
    out.push_str(&format!("<footer>job {job}, onnxd {version}</footer>\n</body>\n</html>\n"));
    out
}

fn push_section(out: &mut String, section: &Section) {
    out.push_str(&format!("<h2>{}</h2>\n<div class=\"scroll\"><table>\n<tr>", section.title));
    for column in section.columns {
        let title = column.trim_start_matches('#');
        out.push_str(&format!("<th{}>{title}</th>", class_of(column)));
    }
    if !section.charts.is_empty() {
        out.push_str(
            "<th>values seen, counts as logarithms; what is kept lies between the lines</th>",
        );
    }
    if !section.bars.is_empty() {
        out.push_str("<th></th>");
    }
    out.push_str("</tr>\n");
    let longest = section.bars.iter().copied().fold(0.0, f64::max);
    for (i, row) in section.rows.iter().enumerate() {
        out.push_str("<tr>");
        for (cell, column) in row.iter().zip(section.columns) {
            out.push_str(&format!("<td{}>{}</td>", class_of(column), escape(cell)));
        }
        if let Some(counts) = section.charts.get(i) {
            let drawing = counts.as_ref().map(chart).unwrap_or_default();
            out.push_str(&format!("<td>{drawing}</td>"));
        }
        if let Some(length) = section.bars.get(i) {
            out.push_str(&format!("<td>{}</td>", bar(*length, longest)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

fn class_of(column: &str) -> &'static str {
    if column.starts_with('#') { " class=\"number\"" } else { "" }
}

fn bar(length: f64, longest: f64) -> String {
    let share = if longest > 0.0 { (length / longest).clamp(0.0, 1.0) } else { 0.0 };
    let width = BAR_WIDTH * share;
    format!(
        "<svg width=\"{BAR_WIDTH}\" height=\"12\" aria-hidden=\"true\">\
         <rect width=\"{width:.1}\" height=\"12\"/></svg>"
    )
}

/// Bars over the values that were seen, and lines at the ends of the range that is kept, where
/// those lie among them.
fn chart(chart: &Chart) -> String {
    let log = |n: &u64| (1.0 + *n as f64).ln();
    let highest = chart.counts.iter().map(log).fold(0.0, f64::max);
    let step = CHART_WIDTH / chart.counts.len().max(1) as f64;
    let mut bars = format!("M0 {CHART_HEIGHT}");
    for count in &chart.counts {
        let share = if highest > 0.0 { log(count) / highest } else { 0.0 };
        bars.push_str(&format!("V{:.1}h{step:.2}", CHART_HEIGHT * (1.0 - share)));
    }
    bars.push_str(&format!("V{CHART_HEIGHT}Z"));
    let (low, high) = chart.span;
    let place = |x: f64| (x - low) / (high - low) * CHART_WIDTH;
    let ends = [chart.range.0, chart.range.1].map(place);
    let inside = ends.into_iter().filter(|x| (0.0..=CHART_WIDTH).contains(x));
    let lines: String = inside
        .map(|x| format!("<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{CHART_HEIGHT}\"/>"))
        .collect();
    format!(
        "<svg width=\"{CHART_WIDTH}\" height=\"{CHART_HEIGHT}\" role=\"img\">\
         <title>{low:.4} to {high:.4}</title><path d=\"{bars}\"/>{lines}</svg>"
    )
}

/// Text as HTML shows it, also within quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
