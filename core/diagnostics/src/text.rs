//! Small helpers for messages.

use std::borrow::Cow;

/// Longer words are not searched for, and only so many candidates are looked at: both may come from outside.
const WORD_BYTES_MAX: usize = 80;
const CANDIDATES_MAX: usize = 2_000;

/// The candidate nearest to `word` by edit distance, if near enough to be a likely typing error.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|c| c.len() <= WORD_BYTES_MAX)
        .take(CANDIDATES_MAX)
        .map(|c| (strsim::levenshtein(&lower, &c.to_lowercase()), c))
        .min_by_key(|(d, _)| *d)
        .filter(|(d, c)| *d <= 1 + c.len().min(word.len()) / 4)
        .map(|(_, c)| c)
}

/// Text from outside made fit for one line of a message: what [`escaped`] escapes, length bounded.
pub fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let bounded: String = text.chars().take(CHARS_MAX).collect();
    let more = if text.chars().nth(CHARS_MAX).is_some() { "..." } else { "" };
    escaped(&bounded).into_owned() + more
}

/// Foreign text as one line that a terminal, a log and a person may see: every character that ends
/// a line, commands a terminal, is invisible, or turns the direction of writing is escaped. The one
/// function for all that is printed and logged; JSON escapes in its own way.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_unsafe(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The same for text of several lines: ends of lines and tabulators stay.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_unsafe(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let parts = text.split_inclusive(['\n', '\t']).map(|part| {
        let end = part.trim_end_matches(['\n', '\t']).len();
        escaped(&part[..end]).into_owned() + &part[end..]
    });
    Cow::Owned(parts.collect())
}

/// The same for JSON, whose own escapes stand for such characters, so that its value stays.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.contains(|c| is_unsafe(c) && c != '\n') {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if c != '\n' && is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Control characters, ends of lines and paragraphs, controls of the direction of writing, and
/// characters without width.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word() {
        let keys = ["opset", "external_data", "input_names"];
        assert_eq!(nearest("opest", keys), Some("opset"));
        assert_eq!(nearest("input_name", keys), Some("input_names"));
        assert_eq!(nearest("colour", keys), None);
    }

    #[test]
    fn shown_is_one_bounded_line() {
        assert_eq!(shown("a\nb"), "a\\nb");
        assert_eq!(shown("it's `b`"), "it's `b`");
        assert!(shown(&"x".repeat(500)).ends_with("..."));
    }

    #[test]
    fn nothing_that_commands_or_hides_is_shown() {
        let evil = "a\r\n\u{1b}[2J\u{9b}1m\u{7f}\u{2028}\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}z";
        let safe = "a\\r\\n\\u{1b}[2J\\u{9b}1m\\u{7f}\\u{2028}\\u{202e}\\u{2066}\\u{200b}\\u{feff}\\u{e0041}z";
        assert_eq!(escaped(evil), safe);
        assert_eq!(
            escaped("Gr\u{fc}n/\u{4e2d}\\n 'x'"),
            "Gr\u{fc}n/\u{4e2d}\\n 'x'",
            "plain text stays"
        );
        assert_eq!(escaped_lines("a\tb\n\u{1b}c\n\n"), "a\tb\n\\u{1b}c\n\n");
        assert_eq!(escaped_json("\"\u{9b}\u{e0041}\"\n"), "\"\\u009b\\udb40\\udc41\"\n");
    }
}
