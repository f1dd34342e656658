//! JSON as Python writes it.

use std::borrow::Cow;

/// The text with quotes around the numbers that Python writes and JSON does not have; and how many values it holds at
/// most, as a few bytes of each become many in memory.
pub fn quoted(text: &[u8]) -> (Cow<'_, [u8]>, usize) {
    const WORDS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
    let (mut all, mut copied, mut at, mut inside) = (Vec::new(), 0, 0, false);
    let mut values = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' if inside => at += 1,
            b'"' => inside = !inside,
            b',' | b'[' | b'{' if !inside => values += 1,
            b'-' | b'I' | b'N' if !inside => {
                if let Some(word) = WORDS.iter().find(|word| text[at..].starts_with(word)) {
                    all.extend([&text[copied..at], b"\"", word, b"\""].concat());
                    at += word.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return (Cow::Borrowed(text), values);
    }
    all.extend_from_slice(&text[copied..]);
    (Cow::Owned(all), values)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn pythons_numbers_get_quotes_outside_of_texts() {
        let cases = [
            (r#"[1, "NaN \" NaN"]"#, r#"[1, "NaN \" NaN"]"#),
            (r#"[NaN, -Infinity, {"a": Infinity}]"#, r#"["NaN", "-Infinity", {"a": "Infinity"}]"#),
            (r#"NaN"#, r#""NaN""#),
            (r#"["\"#, r#"["\"#),
        ];
        for (text, expected) in cases {
            assert_eq!(String::from_utf8_lossy(&quoted(text.as_bytes()).0), expected);
        }
    }
}
