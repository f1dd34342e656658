//! Numbers and foreign texts as people read them.

use onnxd_diagnostics::escaped;
use onnxd_proto::onnxd::Report;

/// Longest text of one table cell, in characters.
const CELL_CHARS_MAX: usize = 400;

/// Version of the program that made a report.
pub(crate) fn made_by(report: &Report) -> &str {
    report.versions.as_ref().map_or("", |versions| &versions.onnxd)
}

/// `1234567` as `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size in the largest unit that leaves at least one.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let mut size = n as f64 / 1000.0;
    let mut unit = 0;
    while size >= 1000.0 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// A duration.
pub(crate) fn seconds(s: f64) -> String {
    if s < 1.0 { format!("{:.1} ms", s * 1000.0) } else { format!("{s:.2} s") }
}

/// An error or a ratio: four digits that count.
pub(crate) fn real(x: f64) -> String {
    match x {
        0.0 => "0".to_owned(),
        x if x.is_finite() && (1e-3..1e6).contains(&x.abs()) => format!("{x:.4}"),
        x if x.is_finite() => format!("{x:.3e}"),
        x => x.to_string().to_lowercase(),
    }
}

/// A signal-to-noise ratio without its unit; more digits mean nothing.
pub(crate) fn decibels(db: f64) -> String {
    if db.is_finite() { format!("{db:.1}") } else { real(db) }
}

/// A share; what is hardly anything is not nothing.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        x if 0.0 < x && x < 0.01 => "< 0.01 %".to_owned(),
        x => format!("{x:.2} %"),
    }
}

/// Foreign text in one bounded line.
pub(crate) fn line(text: &str) -> String {
    let bounded: String = text.chars().take(CELL_CHARS_MAX).collect();
    let more = if text.chars().nth(CELL_CHARS_MAX).is_some() { "..." } else { "" };
    escaped(&bounded).into_owned() + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let counts = [0, 999, 1000, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([17, 430_080, 2_500_000_000].map(bytes), ["17 B", "430.1 kB", "2.5 GB"]);
        assert_eq!([0.0123, 61.5].map(seconds), ["12.3 ms", "61.50 s"]);
        let reals = [0.0, 0.5, 1.25e-7, f64::INFINITY, f64::NAN].map(real);
        assert_eq!(reals, ["0", "0.5000", "1.250e-7", "inf", "nan"]);
        assert_eq!([0.0, 1e-6, 0.5].map(percent), ["0.00 %", "< 0.01 %", "50.00 %"]);
    }

    #[test]
    fn foreign_text_stays_in_its_line() {
        assert_eq!(line("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(line("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(line(&"x".repeat(1000)).len(), CELL_CHARS_MAX + 3);
    }
}
