//! Typed reading of resolved text, as strict as N2D2 about trailing characters.
//!
//! One leniency: an integral float is an integer, because networks written for Python 2 divide.

/// A type that a property can be read as.
pub(crate) trait FromText: Sized {
    /// The words that it can be, if there are only a few.
    const WORDS: &'static [&'static str] = &[];
    /// What is expected, for messages: "0 or 1".
    fn what() -> String;
    /// The value, or nothing if the text as a whole is not one.
    fn from_text(text: &str) -> Option<Self>;
}

/// Declares settings that are one of a few words each, which the variants are called like.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $word:ident),* $(,)? })*) => { $(
        $(#[$doc])*
        // The variants are spelled as the source spells them.
        #[allow(clippy::upper_case_acronyms, clippy::enum_variant_names)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum $name { $($(#[$note])* $word),* }

        impl $crate::ini::FromText for $name {
            const WORDS: &'static [&'static str] = &[$(stringify!($word)),*];
            fn what() -> String {
                format!("one of {}", Self::WORDS.join(", "))
            }
            fn from_text(text: &str) -> Option<$name> {
                $(if text == stringify!($word) { return Some($name::$word); })*
                None
            }
        }
    )* };
}
pub(crate) use words;

macro_rules! from_text {
    ($($ty:ty, $what:literal: |$text:ident| $body:expr;)*) => {
        $(impl FromText for $ty {
            fn what() -> String { $what.into() }
            fn from_text($text: &str) -> Option<$ty> { $body }
        })*
    };
}

/// Integers up to here are floats, too.
const EXACT: f64 = (1_u64 << 53) as f64;

from_text! {
    String, "text": |text| Some(text.to_owned());
    bool, "0 or 1": |text| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    i64, "an integer": |text| {
        let digits = without_separators(text)?;
        digits.parse().ok().or_else(|| {
            let float = f64::from_text(&digits)?;
            (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
        })
    };
    usize, "a non-negative integer": |text| {
        i64::from_text(text).and_then(|i| i.try_into().ok()).filter(|_| !text.starts_with('-'))
    };
    f64, "a finite number": |text| {
        without_separators(text)?.parse().ok().filter(|f: &f64| f.is_finite())
    };
    f32, "a finite number": |text| {
        without_separators(text)?.parse().ok().filter(|f: &f32| f.is_finite())
    };
}

impl<T: FromText> FromText for Option<T> {
    const WORDS: &'static [&'static str] = T::WORDS;
    fn what() -> String {
        T::what()
    }
    fn from_text(text: &str) -> Option<Option<T>> {
        T::from_text(text).map(Some)
    }
}

impl<T: FromText> FromText for Vec<T> {
    fn what() -> String {
        format!("a list separated by blanks, each {}", T::what())
    }
    fn from_text(text: &str) -> Option<Vec<T>> {
        listed(text)?.into_iter().map(T::from_text).collect()
    }
}

/// Removes commas that stand between groups of three digits; other commas make it no number.
fn without_separators(text: &str) -> Option<String> {
    let Some((head, groups)) = text.split_once(',') else {
        return Some(text.to_owned());
    };
    let (whole, fraction) = match groups.find(['.', 'e', 'E']) {
        Some(at) => groups.split_at(at),
        None => (groups, ""),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let lead = head.trim_start_matches(['-', '+']);
    let grouped = (1..=3).contains(&lead.len())
        && digits(lead)
        && whole.split(',').all(|g| g.len() == 3 && digits(g));
    grouped.then(|| format!("{head}{}{fraction}", whole.replace(',', "")))
}

/// Splits at blanks; a double-quoted item may contain them. Nothing if a quote stays open.
fn listed(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, tail) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        found.push(word);
        rest = tail.trim_start();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_digits() {
        let read = |t| bool::from_text(t);
        assert_eq!((read("0"), read("1")), (Some(false), Some(true)));
        assert_eq!((read("true"), read("2"), read("")), (None, None, None));
    }

    #[test]
    fn integers() {
        for (text, value) in [
            ("12", Some(12)),
            ("1,000", Some(1000)),
            ("16.0", Some(16)),
            ("1e3", Some(1000)),
            ("+4", Some(4)),
            ("-1", None),
            ("-0", None),
            ("16.5", None),
            ("1,5", None),
            ("12x", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(usize::from_text(text), value, "{text}");
        }
        assert_eq!(i64::from_text("-3"), Some(-3));
    }

    #[test]
    fn numbers() {
        for (text, value) in [
            ("0.5", Some(0.5)),
            ("-1e-3", Some(-0.001)),
            ("1,234,567.5", Some(1_234_567.5)),
            ("1234,567", None),
            ("nan", None),
            ("inf", None),
            ("1e999", None),
            ("0.5f", None),
            ("1.5,000", None),
        ] {
            assert_eq!(f64::from_text(text), value, "{text}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(Vec::<usize>::from_text("3  5\t7"), Some(vec![3, 5, 7]));
        assert_eq!(Vec::<usize>::from_text(""), Some(vec![]));
        assert_eq!(Vec::<usize>::from_text("3, 5"), None);
        let quoted = Vec::<String>::from_text("a \"b c\" d");
        assert_eq!(quoted, Some(vec!["a".to_owned(), "b c".to_owned(), "d".to_owned()]));
        assert_eq!(Vec::<String>::from_text("a \"b"), None);
    }
}
