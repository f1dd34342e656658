//! Small helpers for messages.

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
        .map(|c| (distance(&lower, &c.to_lowercase()), c))
        .min_by_key(|(d, _)| *d)
        .filter(|(d, c)| *d <= 1 + c.len().min(word.len()) / 4)
        .map(|(_, c)| c)
}

/// Text from outside made fit for one line of a message: control characters escaped, length bounded.
pub fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let mut out: String = text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        out.push_str("...");
    }
    out
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
        assert!(shown(&"x".repeat(500)).ends_with("..."));
    }
}
