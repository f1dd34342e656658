//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `RegexFullMatch(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html>
    call regex_full_match = RegexFullMatch(x: "X") {
        pattern: "pattern",
    }
    /// `StringConcat(X, Y) -> Z`, <https://onnx.ai/onnx/operators/onnx__StringConcat.html>
    direct string_concat = StringConcat(x: "X", y: "Y")
    /// `StringNormalizer(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__StringNormalizer.html>
    call string_normalizer = StringNormalizer(x: "X") {
        case_change_action: "case_change_action",
        is_case_sensitive: "is_case_sensitive",
        locale: "locale",
        stopwords: "stopwords",
    }
    /// `StringSplit(X) -> Y, Z`, <https://onnx.ai/onnx/operators/onnx__StringSplit.html>
    call string_split = StringSplit(x: "X") {
        delimiter: "delimiter",
        maxsplit: "maxsplit",
    }
    /// `TfIdfVectorizer(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html>
    call tf_idf_vectorizer = TfIdfVectorizer(x: "X") {
        max_gram_length: "max_gram_length",
        max_skip_count: "max_skip_count",
        min_gram_length: "min_gram_length",
        mode: "mode",
        ngram_counts: "ngram_counts",
        ngram_indexes: "ngram_indexes",
        pool_int64s: "pool_int64s",
        pool_strings: "pool_strings",
        weights: "weights",
    }
}
