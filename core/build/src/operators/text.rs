//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call regex_full_match = RegexFullMatch(x "X") { pattern } -> "Y"
    direct string_concat = StringConcat(x "X", y "Y") -> "Z"
    call string_normalizer = StringNormalizer(x "X") { case_change_action, is_case_sensitive, locale, stopwords } -> "Y"
    call string_split = StringSplit(x "X") { delimiter, maxsplit } -> "Y, Z"
    call tf_idf_vectorizer = TfIdfVectorizer(x "X") { max_gram_length, max_skip_count, min_gram_length, mode,
        ngram_counts, ngram_indexes, pool_int64s, pool_strings, weights } -> "Y"
}
