//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "ai.onnx.ml"
    /// `ArrayFeatureExtractor(X, Y) -> Z`, <https://onnx.ai/onnx/operators/onnx_aionnxml_ArrayFeatureExtractor.html>
    direct array_feature_extractor = ArrayFeatureExtractor(x: "X", y: "Y")
    /// `Binarizer(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_Binarizer.html>
    call binarizer = Binarizer(x: "X") {
        threshold: "threshold",
    }
    /// `CastMap(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_CastMap.html>
    call cast_map = CastMap(x: "X") {
        cast_to: "cast_to",
        map_form: "map_form",
        max_map: "max_map",
    }
    /// `CategoryMapper(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_CategoryMapper.html>
    call category_mapper = CategoryMapper(x: "X") {
        cats_int64s: "cats_int64s",
        cats_strings: "cats_strings",
        default_int64: "default_int64",
        default_string: "default_string",
    }
    /// `DictVectorizer(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_DictVectorizer.html>
    call dict_vectorizer = DictVectorizer(x: "X") {
        int64_vocabulary: "int64_vocabulary",
        string_vocabulary: "string_vocabulary",
    }
    /// `FeatureVectorizer(X...) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_FeatureVectorizer.html>
    call feature_vectorizer = FeatureVectorizer(; ..inputs) {
        inputdimensions: "inputdimensions",
    }
    /// `Imputer(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_Imputer.html>
    call imputer = Imputer(x: "X") {
        imputed_value_floats: "imputed_value_floats",
        imputed_value_int64s: "imputed_value_int64s",
        replaced_value_float: "replaced_value_float",
        replaced_value_int64: "replaced_value_int64",
    }
    /// `LabelEncoder(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html>
    call label_encoder = LabelEncoder(x: "X") {
        default_float: "default_float",
        default_int64: "default_int64",
        default_string: "default_string",
        default_tensor: "default_tensor",
        keys_floats: "keys_floats",
        keys_int64s: "keys_int64s",
        keys_strings: "keys_strings",
        keys_tensor: "keys_tensor",
        values_floats: "values_floats",
        values_int64s: "values_int64s",
        values_strings: "values_strings",
        values_tensor: "values_tensor",
    }
    /// `LinearClassifier(X) -> Y, Z`, <https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html>
    call linear_classifier = LinearClassifier(x: "X") {
        classlabels_ints: "classlabels_ints",
        classlabels_strings: "classlabels_strings",
        coefficients: "coefficients",
        intercepts: "intercepts",
        multi_class: "multi_class",
        post_transform: "post_transform",
    }
    /// `LinearRegressor(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_LinearRegressor.html>
    call linear_regressor = LinearRegressor(x: "X") {
        coefficients: "coefficients",
        intercepts: "intercepts",
        post_transform: "post_transform",
        targets: "targets",
    }
    /// `Normalizer(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_Normalizer.html>
    call normalizer = Normalizer(x: "X") {
        norm: "norm",
    }
    /// `OneHotEncoder(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_OneHotEncoder.html>
    call one_hot_encoder = OneHotEncoder(x: "X") {
        cats_int64s: "cats_int64s",
        cats_strings: "cats_strings",
        zeros: "zeros",
    }
    /// `SVMClassifier(X) -> Y, Z`, <https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html>
    call svm_classifier = SVMClassifier(x: "X") {
        classlabels_ints: "classlabels_ints",
        classlabels_strings: "classlabels_strings",
        coefficients: "coefficients",
        kernel_params: "kernel_params",
        kernel_type: "kernel_type",
        post_transform: "post_transform",
        prob_a: "prob_a",
        prob_b: "prob_b",
        rho: "rho",
        support_vectors: "support_vectors",
        vectors_per_class: "vectors_per_class",
    }
    /// `SVMRegressor(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_SVMRegressor.html>
    call svm_regressor = SVMRegressor(x: "X") {
        coefficients: "coefficients",
        kernel_params: "kernel_params",
        kernel_type: "kernel_type",
        n_supports: "n_supports",
        one_class: "one_class",
        post_transform: "post_transform",
        rho: "rho",
        support_vectors: "support_vectors",
    }
    /// `Scaler(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html>
    call scaler = Scaler(x: "X") {
        offset: "offset",
        scale: "scale",
    }
    /// `TreeEnsemble(X) -> Y`, <https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html>
    call tree_ensemble = TreeEnsemble(x: "X") {
        aggregate_function: "aggregate_function",
        leaf_targetids: "leaf_targetids",
        leaf_weights: "leaf_weights",
        membership_values: "membership_values",
        n_targets: "n_targets",
        nodes_falseleafs: "nodes_falseleafs",
        nodes_falsenodeids: "nodes_falsenodeids",
        nodes_featureids: "nodes_featureids",
        nodes_hitrates: "nodes_hitrates",
        nodes_missing_value_tracks_true: "nodes_missing_value_tracks_true",
        nodes_modes: "nodes_modes",
        nodes_splits: "nodes_splits",
        nodes_trueleafs: "nodes_trueleafs",
        nodes_truenodeids: "nodes_truenodeids",
        post_transform: "post_transform",
        tree_roots: "tree_roots",
    }
    /// `ZipMap(X) -> Z`, <https://onnx.ai/onnx/operators/onnx_aionnxml_ZipMap.html>
    call zip_map = ZipMap(x: "X") {
        classlabels_int64s: "classlabels_int64s",
        classlabels_strings: "classlabels_strings",
    }
}
