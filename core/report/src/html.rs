//! `report.html`: one file without scripts or references, light or dark as the reader's system is.
//!
//! Every text is escaped: names come from files of unknown origin. The page's own policy lets a browser run
//! nothing and load nothing, should an escape ever be forgotten.

use crate::findings::{Finding, findings};
use crate::format::{line, made_by};
use crate::head::{Head, Tone, head};
use crate::sections::{Chart, Section, column_title, is_long, is_number, sections};
use onnxd_diagnostics::is_unsafe;
use onnxd_proto::onnxd::Report;

/// Width of the longest bar, in CSS pixels.
const BAR_WIDTH: f64 = 160.0;

/// Of a drawing of counts, in CSS pixels.
const CHART_WIDTH: f64 = 256.0;
const CHART_HEIGHT: f64 = 40.0;

/// Longer cells with blanks are sentences.
const SENTENCE_BYTES: usize = 24;
/// Digits of a digest.
const DIGEST_BYTES: usize = 64;
/// Longest name in a first column that stays in one line, hyphens or not.
const NAME_BYTES_MAX: usize = 40;

/// What a drawing of counts shows.
const LEGEND: &str = "values seen, counts as logarithms; what is kept lies between the lines";

const STYLE: &str = include_str!("report.css");
/// Digest of [`STYLE`], the only thing that the page's policy allows; a test holds it.
const STYLE_SHA256: &str = "sha256-E0oYChpTW5FbIei6JeUUlZ0bPibCi7X/UmSwrRhIe30=";

/// The report as one HTML page.
#[must_use]
pub fn html(report: &Report) -> String {
    let head = head(report);
    let (name, verdict) = (escape(&line(&report.name)), escape(&head.verdict));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src '{STYLE_SHA256}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}: {verdict}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    );
    push_head(&mut out, &name, &head);
    out.push_str("<main>\n");
    push_findings(&mut out, &findings(report));
    for section in sections(report) {
        push_section(&mut out, &section);
    }
    let [job, version] = [report.job.as_str(), made_by(report)].map(|text| escape(&line(text)));
    out.push_str(&format!(
        "</main>\n<footer>job {job}, onnxd {version}</footer>\n</body>\n</html>\n"
    ));
    out
}

fn push_head(out: &mut String, name: &str, head: &Head) {
    let tone = match head.tone {
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
    };
    let (verdict, summary) = (escape(&head.verdict), escape(&head.summary));
    out.push_str(&format!(
        "<header class=\"{tone}\">\n<h1>{name}</h1>\n<p class=\"verdict\">{verdict}</p>\n\
         <p>{summary}</p>\n"
    ));
    if !head.facts.is_empty() {
        out.push_str("<dl>\n");
        for (what, much) in &head.facts {
            let much = escape(&much.replace("->", "\u{2192}"));
            out.push_str(&format!("<div><dt>{what}</dt><dd>{much}</dd></div>\n"));
        }
        out.push_str("</dl>\n");
    }
    out.push_str("</header>\n");
}

fn push_findings(out: &mut String, found: &[Finding]) {
    if found.is_empty() {
        return;
    }
    let count = found.len();
    out.push_str(&format!("<section>\n<h2>Findings ({count})</h2>\n<ol class=\"findings\">\n"));
    for f in found {
        let part = |class: &str, text: &str| match text {
            "" => String::new(),
            text => format!("<p class=\"{class}\">{}</p>", escape(text)),
        };
        let (severity, code, class) = (f.severity, escape(&f.code), escape(&f.class));
        let label = format!("<p class=\"label\">{severity} {code} <span>{class}</span></p>");
        let (message, place) = (part("message", &f.message), part("place", &f.place));
        let help = part("help", &f.help);
        out.push_str(&format!("<li class=\"{severity}\">{label}{message}{place}{help}</li>\n"));
    }
    out.push_str("</ol>\n</section>\n");
}

fn push_section(out: &mut String, section: &Section) {
    let (key, title) = (&section.id, escape(&section.title));
    out.push_str(&format!(
        "<section>\n<h2 id=\"{key}\">{title}</h2>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{key}\">\n\
         <table>\n{}\n<thead><tr>",
        caption(section)
    ));
    let cell = |out: &mut String, title: &str, class: &str| {
        out.push_str(&format!("<th scope=\"col\"{class}>{title}</th>"));
    };
    let has_bar = |column: usize| !section.bars.is_empty() && section.bar_after == column;
    // A column without a word in any row says nothing.
    let says = |column: usize| section.rows.iter().any(|row| !row[column].is_empty());
    let shown: Vec<usize> = (0..section.columns.len()).filter(|at| says(*at)).collect();
    for (at, column) in shown.iter().map(|at| (*at, section.columns[*at])) {
        cell(out, column_title(column), class_of(at, column, ""));
        if has_bar(at) {
            cell(out, section.bar_title, "");
        }
    }
    if !section.charts.is_empty() {
        cell(out, "histogram", "");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (i, row) in section.rows.iter().enumerate() {
        out.push_str("<tr>");
        for (at, cell) in shown.iter().map(|at| (*at, &row[*at])) {
            let class = class_of(at, section.columns[at], cell);
            // Browsers would break what stays in one line, too.
            let whole = class.contains("name") || class.contains("number");
            let text = if whole { escape(cell) } else { breakable(cell) };
            out.push_str(&format!("<td{class}>{text}</td>"));
            if let Some(share) = section.bars.get(i).filter(|_| has_bar(at)) {
                out.push_str(&format!("<td>{}</td>", bar(*share)));
            }
        }
        if let Some(counts) = section.charts.get(i) {
            let drawing = counts.as_ref().map(chart).unwrap_or_default();
            out.push_str(&format!("<td>{drawing}</td>"));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n</section>\n");
}

/// What drawings mean; else only for programs that read aloud, as the heading says it already.
fn caption(section: &Section) -> String {
    let (title, rows) = (escape(&section.title), section.rows.len());
    match section.charts.is_empty() {
        true => format!("<caption class=\"heard\">{title}, {rows} rows</caption>"),
        false => format!("<caption>Histogram: {LEGEND}</caption>"),
    }
}

/// Names stay in one line, and sentences get room even where there is little: the table scrolls.
fn class_of(at: usize, column: &str, cell: &str) -> &'static str {
    match (is_number(column), is_long(column)) {
        (true, _) => " class=\"number\"",
        (_, true) if is_digest(cell) => " class=\"name\"",
        (_, true) => " class=\"long\"",
        _ if at == 0 && cell.len() <= NAME_BYTES_MAX => " class=\"name\"",
        _ if cell.len() <= SENTENCE_BYTES => " class=\"name\"",
        _ if cell.contains(' ') => " class=\"wide\"",
        _ => "",
    }
}

fn is_digest(cell: &str) -> bool {
    cell.len() == DIGEST_BYTES && cell.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Escaped text that may break between the parts of long words: behind marks, and before capitals.
fn breakable(text: &str) -> String {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        parts.last_mut().expect("there is one from the start").push(c);
        let Some(next) =
            chars.peek().filter(|next| next.is_alphanumeric() || "{[\"".contains(**next))
        else {
            continue;
        };
        let is_mark = ",;:=/_(".contains(c) || (c == '.' && next.is_alphabetic());
        if is_mark || (c.is_lowercase() && next.is_uppercase()) {
            parts.push(String::new());
        }
    }
    let parts: Vec<String> = parts.iter().map(|part| escape(part)).collect();
    parts.join("<wbr>")
}

fn bar(share: f64) -> String {
    let width = BAR_WIDTH * share;
    format!(
        "<svg width=\"{BAR_WIDTH}\" height=\"12\" aria-hidden=\"true\">\
         <rect class=\"rail\" width=\"{BAR_WIDTH}\" height=\"12\"/>\
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
            c if is_unsafe(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let group = |chunk: &[u8]| {
            let bits = (0..3).fold(0, |n, i| n << 8 | u32::from(*chunk.get(i).unwrap_or(&0)));
            let digit = |i: usize| match i <= chunk.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * i) & 63) as usize]),
                false => '=',
            };
            (0..4).map(digit).collect::<String>()
        };
        bytes.chunks(3).map(group).collect()
    }

    #[test]
    fn long_words_break_between_their_parts() {
        assert_eq!(
            breakable("RescaleTransformation(Height=29)"),
            "Rescale<wbr>Transformation(<wbr>Height=<wbr>29)"
        );
        assert_eq!(
            breakable(r#"[{"sizing":"exact"},{"a":1}]"#),
            "[{&quot;sizing&quot;:<wbr>&quot;exact&quot;},<wbr>{&quot;a&quot;:<wbr>1}]"
        );
        assert_eq!(breakable("session.x64quantprecision"), "session.<wbr>x64quantprecision");
        for whole in ["one, two", "<b>", "ab".repeat(32).as_str(), "ONNX", "a = b", "100.00 %"] {
            assert_eq!(breakable(whole), escape(whole));
        }
    }

    #[test]
    fn the_policy_allows_the_style_and_nothing_else() {
        assert_eq!(base64(b"Man") + &base64(b"Ma") + &base64(b"M"), "TWFuTWE=TQ==");
        let digest = base64(&Sha256::digest(STYLE));
        assert_eq!(STYLE_SHA256, format!("sha256-{digest}"));
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
