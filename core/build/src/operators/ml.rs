//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "ai.onnx.ml" "https://onnx.ai/onnx/operators/onnx_aionnxml_"
    direct array_feature_extractor = ArrayFeatureExtractor(x "X", y "Y") -> "Z"
    call binarizer = Binarizer(x "X") { threshold } -> "Y"
    call cast_map = CastMap(x "X") { cast_to, map_form, max_map } -> "Y"
    call category_mapper = CategoryMapper(x "X") { cats_int64s, cats_strings, default_int64, default_string } -> "Y"
    call dict_vectorizer = DictVectorizer(x "X") { int64_vocabulary, string_vocabulary } -> "Y"
    call feature_vectorizer = FeatureVectorizer(; ..inputs) { inputdimensions } -> "Y"
    call imputer = Imputer(x "X") { imputed_value_floats, imputed_value_int64s, replaced_value_float,
        replaced_value_int64 } -> "Y"
    call label_encoder = LabelEncoder(x "X") { default_float, default_int64, default_string, default_tensor,
        keys_floats, keys_int64s, keys_strings, keys_tensor, values_floats, values_int64s, values_strings, values_tensor
        } -> "Y"
    call linear_classifier = LinearClassifier(x "X") { classlabels_ints, classlabels_strings, coefficients, intercepts,
        multi_class, post_transform } -> "Y, Z"
    call linear_regressor = LinearRegressor(x "X") { coefficients, intercepts, post_transform, targets } -> "Y"
    call normalizer = Normalizer(x "X") { norm } -> "Y"
    call one_hot_encoder = OneHotEncoder(x "X") { cats_int64s, cats_strings, zeros } -> "Y"
    call svm_classifier = SVMClassifier(x "X") { classlabels_ints, classlabels_strings, coefficients, kernel_params,
        kernel_type, post_transform, prob_a, prob_b, rho, support_vectors, vectors_per_class } -> "Y, Z"
    call svm_regressor = SVMRegressor(x "X") { coefficients, kernel_params, kernel_type, n_supports, one_class,
        post_transform, rho, support_vectors } -> "Y"
    call scaler = Scaler(x "X") { offset, scale } -> "Y"
    call tree_ensemble = TreeEnsemble(x "X") { aggregate_function, leaf_targetids, leaf_weights, membership_values,
        n_targets, nodes_falseleafs, nodes_falsenodeids, nodes_featureids, nodes_hitrates,
        nodes_missing_value_tracks_true, nodes_modes, nodes_splits, nodes_trueleafs, nodes_truenodeids, post_transform,
        tree_roots } -> "Y"
    call zip_map = ZipMap(x "X") { classlabels_int64s, classlabels_strings } -> "Z"
}
