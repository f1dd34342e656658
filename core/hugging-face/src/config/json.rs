//! JSON as Python writes it: with `Infinity` and `NaN` where a number is none.

use serde_json::Value;

/// What Python writes for numbers that JSON lacks.
const WORDS: [&[u8]; 3] = [b"Infinity", b"-Infinity", b"NaN"];

/// The value of a file. Numbers that JSON lacks become words.
pub(crate) fn read(bytes: &[u8]) -> serde_json::Result<Value> {
    let read = serde_json::from_slice(bytes);
    match read {
        Err(e) if WORDS.iter().any(|word| bytes.windows(word.len()).any(|at| at == *word)) => {
            serde_json::from_slice(&quoted(bytes)).map_err(|_| e)
        }
        read => read,
    }
}

/// The same text with quotes around the words that stand outside of strings.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() + 64);
    let (mut at, mut is_inside) = (0, false);
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        if let Some(word) = WORDS.iter().find(|word| !is_inside && rest.starts_with(word)) {
            text.extend([b"\"", *word, b"\""].concat());
            at += word.len();
            continue;
        }
        text.push(*byte);
        match byte {
            b'"' => is_inside = !is_inside,
            b'\\' if is_inside => {
                at += 1;
                text.extend(bytes.get(at));
            }
            _ => {}
        }
        at += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::json;

    #[test]
    fn numbers_that_json_lacks_are_words() {
        let text = br#"{"a": [0.0, Infinity, -Infinity], "b \" NaN": NaN, "c": "Infinity"}"#;
        let wanted =
            json!({"a": [0.0, "Infinity", "-Infinity"], "b \" NaN": "NaN", "c": "Infinity"});
        assert_eq!(read(text).unwrap(), wanted);
        for damaged in [&b"{\"a\": Infinit"[..], b"{\"a\": NaN", b"\"NaN\\"] {
            assert!(read(damaged).is_err());
        }
    }
}
