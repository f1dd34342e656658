//! Strings, and counts of sequences of tokens.

use crate::call::{KernelCall, KernelRow, integers, one, raw};
use crate::dims::{broadcast, size, sizes};
use crate::elementwise::pairs;
use crate::fault::{Fault, Outcome};
use bytes::Bytes;
use onnxd_diagnostics::{refuse, shown};
use onnxd_ir::{Attr, DataType, Tensor};
use regex_lite::{Regex, RegexBuilder};
use std::collections::{HashMap, HashSet};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("RegexFullMatch", regex_full_match),
    raw("StringConcat", string_concat),
    raw("StringNormalizer", string_normalizer),
    raw("StringSplit", string_split),
    raw("TfIdfVectorizer", tf_idf_vectorizer),
];

/// Bytes that a compiled pattern may take; repetitions of repetitions take many.
const PATTERN_BYTES_MAX: usize = 1 << 20;

pub(crate) fn strings(x: &Tensor) -> Outcome<&[Bytes]> {
    x.as_strings().ok_or_else(|| Fault::invalid(format!("{x:?} where strings are needed")))
}

pub(crate) fn utf8(text: &Bytes) -> Outcome<&str> {
    std::str::from_utf8(text).map_err(|_| Fault::invalid("a string is not UTF-8"))
}

/// A pattern of RE2 without classes of Unicode.
pub(crate) fn compiled(pattern: &str) -> Outcome<Regex> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|e| Fault::invalid(format!("pattern `{}`: {e}", shown(pattern))))
}

/// Whether the whole of each string matches.
fn regex_full_match(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let pattern = call.string("pattern", "")?;
    // Alone first: parentheses that it lacks must not be found in what is put around it.
    compiled(pattern)?;
    let whole = compiled(&format!(r"\A(?:{pattern})\z"))?;
    call.room(DataType::Bool, x.dims())?;
    let found = strings(x)?
        .iter()
        .map(|text| Ok(u8::from(whole.is_match(utf8(text)?))))
        .collect::<Outcome<Vec<u8>>>()?;
    one(Tensor::from_vec_as(DataType::Bool, x.dims().to_vec(), found))
}

/// Upper or lower case, character by character, as locales have it: by the simple mappings of Unicode.
fn cased(text: &str, action: &str) -> String {
    let simple = |c: char| match (c, action) {
        ('\u{130}', "LOWER") => 'i',
        ('\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}', "UPPER") => {
            char::from_u32(u32::from(c) + 8).unwrap_or(c)
        }
        ('\u{1fb3}', "UPPER") => '\u{1fbc}',
        ('\u{1fc3}', "UPPER") => '\u{1fcc}',
        ('\u{1ff3}', "UPPER") => '\u{1ffc}',
        (c, "UPPER") => single(c, c.to_uppercase()),
        (c, _) => single(c, c.to_lowercase()),
    };
    text.chars().map(simple).collect()
}

/// What becomes several characters stays.
fn single(c: char, mut cased: impl Iterator<Item = char>) -> char {
    match (cased.next(), cased.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

/// Drops the stop words, then changes the case. Of nothing, an empty string is left.
fn string_normalizer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    refuse!(!matches!(x.dims(), [_] | [1, _]) => "{x:?} is not a list of strings");
    let action = call.string("case_change_action", "NONE")?;
    refuse!(!matches!(action, "NONE" | "LOWER" | "UPPER") => "case_change_action `{action}` is not defined");
    let exact = call.flag("is_case_sensitive", false)?;
    let key = |text: &Bytes| -> Outcome<String> {
        let text = utf8(text)?;
        Ok(if exact { text.to_owned() } else { cased(text, "LOWER") })
    };
    let stops: HashSet<String> = match call.attr("stopwords") {
        Some(Attr::Strs(words)) => words.iter().map(key).collect::<Outcome<_>>()?,
        _ => HashSet::new(),
    };
    let mut kept = Vec::new();
    for text in strings(x)? {
        if !stops.contains(&key(text)?) {
            kept.push(if action == "NONE" {
                text.clone()
            } else {
                cased(utf8(text)?, action).into()
            });
        }
    }
    if kept.is_empty() {
        kept.push(Bytes::new());
    }
    let mut dims = x.dims().to_vec();
    dims[x.rank() - 1] = kept.len();
    one(Tensor::strings(dims, kept)?)
}

fn string_concat(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = (call.x(0)?, call.x(1)?);
    let dims = broadcast(a.dims(), b.dims())?;
    call.room(DataType::String, &dims)?;
    let both = |x: &Bytes, y: &Bytes| Bytes::from([&x[..], &y[..]].concat());
    let y = pairs(&dims, (strings(a)?, a.dims()), (strings(b)?, b.dims()), both);
    one(Tensor::strings(dims, y)?)
}

/// The parts of every string, filled up with empty ones to the largest number; their numbers. The
/// empty string has no parts, as in ONNX Runtime.
fn string_split(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let delimiter = call.string("delimiter", "")?;
    let splits = match call.int_opt("maxsplit")? {
        Some(n) => usize::try_from(n).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let mut rows: Vec<Vec<Bytes>> = Vec::new();
    for text in strings(x)? {
        let text = utf8(text)?;
        let part = |s: &str| Bytes::copy_from_slice(s.as_bytes());
        rows.push(match delimiter {
            _ if text.is_empty() => vec![],
            "" => words(text, splits).into_iter().map(part).collect(),
            by => text.splitn(splits.saturating_add(1), by).map(part).collect(),
        });
    }
    let counts: Vec<i64> = rows.iter().map(|r| r.len() as i64).collect();
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let dims = [x.dims(), &[most]].concat();
    call.room(DataType::String, &dims)?;
    rows.iter_mut().for_each(|r| r.resize(most, Bytes::new()));
    Ok(vec![Tensor::strings(dims, rows.concat())?, Tensor::from_vec(x.dims(), counts)])
}

/// Words between runs of white space; the last one keeps what is left after `splits` splits, but for
/// white space at its end.
fn words(text: &str, splits: usize) -> Vec<&str> {
    let (mut rest, mut found) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        let end = rest.find(char::is_whitespace).filter(|_| found.len() < splits);
        let Some(end) = end else {
            found.push(rest);
            break;
        };
        found.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    found
}

/// The n-grams of the pool by their tokens: column of the output.
struct Pool {
    columns: HashMap<Vec<i64>, usize>,
    width: usize,
    /// What the count in each column is multiplied by.
    weights: Vec<f32>,
    lengths: std::ops::RangeInclusive<usize>,
}

/// The pool and the tokens of the input as integers; strings count as their place in the pool.
fn tokens(call: &KernelCall) -> Outcome<(Vec<i64>, Vec<i64>)> {
    let Some(Attr::Strs(pool)) = call.attr("pool_strings") else {
        let pool = call.ints("pool_int64s")?.ok_or_else(|| Fault::invalid("it has no pool"))?;
        return Ok((pool.to_vec(), integers(call.x(0)?)?));
    };
    let mut known: HashMap<&Bytes, i64> = HashMap::new();
    for word in pool {
        let next = known.len() as i64;
        known.entry(word).or_insert(next);
    }
    let number = |word: &Bytes| known.get(word).copied().unwrap_or(-1);
    let input = strings(call.x(0)?)?.iter().map(number).collect();
    Ok((pool.iter().map(number).collect(), input))
}

fn pool(call: &KernelCall, tokens: &[i64]) -> Outcome<Pool> {
    let demanded = |name: &str| {
        let missing = || Fault::invalid(format!("attribute `{name}` is missing"));
        sizes(call.ints(name)?.ok_or_else(missing)?)
    };
    let (starts, columns) = (demanded("ngram_counts")?, demanded("ngram_indexes")?);
    let length = |name: &str| -> Outcome<usize> { size(call.int(name, 1)?) };
    let (least, most) = (length("min_gram_length")?.max(1), length("max_gram_length")?);
    let width = columns.iter().max().map_or(0, |c| c.saturating_add(1));
    // Weights stand in the order of the pool, like the columns.
    let ngram_weights = call.floats("weights")?;
    refuse!(ngram_weights.is_some_and(|w| w.len() != columns.len()) =>
        "there are not as many weights as ngram_indexes");
    let mut weights = vec![1f32; call.room(DataType::Float, &[width])?];
    for (column, weight) in columns.iter().zip(ngram_weights.unwrap_or_default()) {
        weights[*column] = *weight;
    }
    let mut ngram_pool = Pool { columns: HashMap::new(), width, weights, lengths: least..=most };
    let mut next = columns.iter();
    for (i, start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(tokens.len());
        let misfit = || Fault::invalid("ngram_counts does not fit the pool");
        for gram in tokens.get(*start..end).ok_or_else(misfit)?.chunks_exact(i + 1) {
            let column = next.next().ok_or_else(|| Fault::invalid("ngram_indexes is short"))?;
            ngram_pool.columns.insert(gram.to_vec(), *column);
        }
    }
    ngram_pool.lengths = least..=most.min(starts.len());
    Ok(ngram_pool)
}

/// Counts n-grams of the pool in every row, their tokens up to `max_skip_count` apart.
fn tf_idf_vectorizer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (batch, length) = match *x.dims() {
        [] => (&[][..], 1),
        [n] => (&[][..], n),
        [_, n] => (&x.dims()[..1], n),
        _ => return Err(Fault::invalid(format!("{x:?} has more than two axes"))),
    };
    let (tokens, input) = tokens(call)?;
    let pool = pool(call, &tokens)?;
    let dims = [batch, &[pool.width]].concat();
    let mut y = vec![0f32; call.room(DataType::Float, &dims)?];
    let skips = size(call.int("max_skip_count", 0)?)?.min(length);
    for (row, counts) in input.chunks(length.max(1)).zip(y.chunks_mut(pool.width.max(1))) {
        for (step, n) in (1..=skips + 1).flat_map(|s| pool.lengths.clone().map(move |n| (s, n))) {
            // The distance of its tokens means nothing for a single one.
            if n == 1 && step > 1 {
                continue;
            }
            let reach = step.saturating_mul(n - 1);
            for start in 0..length.saturating_sub(reach) {
                let gram: Vec<i64> = (0..n).map(|k| row[start + k * step]).collect();
                if let Some(column) = pool.columns.get(&gram) {
                    counts[*column] += 1.0;
                }
            }
        }
    }
    let weight = |i: usize| pool.weights[i % pool.width];
    match call.string("mode", "TF")? {
        "TF" => {}
        "IDF" => y.iter_mut().enumerate().for_each(|(i, v)| *v = v.min(1.0) * weight(i)),
        "TFIDF" => y.iter_mut().enumerate().for_each(|(i, v)| *v *= weight(i)),
        other => return Err(Fault::invalid(format!("mode `{other}` is not defined"))),
    }
    one(Tensor::from_vec(dims, y))
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, ints, run, try_all, try_run, word};
    use bytes::Bytes;
    use onnxd_ir::{Attr, Tensor};

    fn texts(list: &[&str]) -> Tensor {
        let list: Vec<Bytes> = list.iter().map(|s| Bytes::copy_from_slice(s.as_bytes())).collect();
        Tensor::strings(vec![list.len()], list).unwrap()
    }

    #[test]
    fn joining_and_splitting() {
        let y = run("StringConcat", 20, &[], &[&texts(&["a", "b"]), &texts(&["c"])]);
        assert_eq!(y, texts(&["ac", "bc"]));
        let x = Some(texts(&[" hello  big world ", "x"]));
        let limit = [("maxsplit", Attr::Int(1))];
        let found = try_all("StringSplit", 20, &limit, std::slice::from_ref(&x), 2).unwrap();
        assert_eq!(found[1].to_i64s().unwrap(), [2, 1]);
        assert_eq!(found[0].as_strings().unwrap(), ["hello", "big world", "x", ""]);
        let by = [("delimiter", word(" "))];
        let found = try_all("StringSplit", 20, &by, &[x], 2).unwrap();
        assert_eq!(found[1].to_i64s().unwrap(), [6, 1]);
    }

    /// As ONNX Runtime has it; Python's `split` would make one part of it.
    #[test]
    fn the_empty_string_has_no_parts() {
        for delimiter in ["", ","] {
            let x = [Some(texts(&["", "a"]))];
            let by = [("delimiter", word(delimiter))];
            let found = try_all("StringSplit", 20, &by, &x, 2).unwrap();
            assert_eq!(found[1].to_i64s().unwrap(), [0, 1]);
            assert_eq!(found[0].as_strings().unwrap(), ["", "a"]);
        }
    }

    #[test]
    fn whole_matches() {
        let x = texts(&["www.google.com", "www.google.com/x", "a|b"]);
        let y = |p: &str| try_run("RegexFullMatch", 20, &[("pattern", word(p))], &[&x]);
        let found = |p: &str| y(p).unwrap().to_i64s().unwrap();
        assert_eq!(found(r"www\.[\w.-]+\.\bcom\b"), [1, 0, 0]);
        assert_eq!(found("www|www.google.com/x"), [0, 1, 0]);
        assert_eq!(found("a.b"), [0, 0, 1]);
        assert!(y("a)|(b").is_err());
        assert!(y("((a{900}){900}){900}").is_err());
    }

    #[test]
    fn stop_words_and_case() {
        let x = texts(&["monday", "Tuesday", "straße"]);
        let run = |x: &Tensor, action: &str, exact: i64, stops: &[&str]| {
            let stops = stops.iter().map(|s| Bytes::copy_from_slice(s.as_bytes())).collect();
            let attrs = [
                ("case_change_action", word(action)),
                ("is_case_sensitive", Attr::Int(exact)),
                ("stopwords", Attr::Strs(stops)),
            ];
            run("StringNormalizer", 10, &attrs, &[x])
        };
        assert_eq!(run(&x, "UPPER", 1, &["tuesday"]), texts(&["MONDAY", "TUESDAY", "STRAßE"]));
        assert_eq!(run(&x, "LOWER", 0, &["tuesday"]), texts(&["monday", "straße"]));
        assert_eq!(run(&texts(&["İ", "ᾳﬁ"]), "LOWER", 1, &[]), texts(&["i", "ᾳﬁ"]));
        assert_eq!(run(&texts(&["ᾀ", "ᾳﬁ"]), "UPPER", 1, &[]), texts(&["ᾈ", "ᾼﬁ"]));
        let row = x.reshaped([1, 3]).unwrap();
        assert_eq!(run(&row, "NONE", 0, &["MONDAY"]).dims(), [1, 2]);
        let none = run(&row, "NONE", 1, &["monday", "Tuesday", "straße"]);
        assert_eq!(none, texts(&[""]).reshaped([1, 1]).unwrap());
    }

    #[test]
    fn counts_of_ngrams_with_skips() {
        let x = Tensor::from_vec(vec![2, 6], vec![1i32, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8]);
        let attrs = |skips: i64, least: i64| {
            [
                ("mode", word("TF")),
                ("min_gram_length", Attr::Int(least)),
                ("max_gram_length", Attr::Int(2)),
                ("max_skip_count", Attr::Int(skips)),
                ("ngram_counts", ints(&[0, 4])),
                ("ngram_indexes", ints(&[0, 1, 2, 3, 4, 5, 6])),
                ("pool_int64s", ints(&[2, 3, 5, 4, 5, 6, 7, 8, 6, 7])),
            ]
        };
        let y = run("TfIdfVectorizer", 9, &attrs(0, 2), &[&x]);
        let expected = [[0.0; 7], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]].concat();
        assert_near(&y, &expected, 0.0);
        let y = run("TfIdfVectorizer", 9, &attrs(5, 1), &[&x]);
        let first = [0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_near(&y, &[first, [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0]].concat(), 0.0);
    }

    #[test]
    fn weights_stand_in_the_order_of_the_pool() {
        let x = Tensor::vector(vec![7i64, 8, 8]);
        let attrs = [
            ("mode", word("TFIDF")),
            ("min_gram_length", Attr::Int(1)),
            ("max_gram_length", Attr::Int(1)),
            ("max_skip_count", Attr::Int(0)),
            ("ngram_counts", ints(&[0])),
            ("ngram_indexes", ints(&[3, 0])),
            ("pool_int64s", ints(&[7, 8])),
            ("weights", Attr::Floats(vec![0.5, 10.0])),
        ];
        let y = run("TfIdfVectorizer", 9, &attrs, &[&x]);
        assert_near(&y, &[20.0, 0.0, 0.0, 0.5], 0.0);
    }
}
