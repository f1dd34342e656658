use super::{Names, snake_case};

#[test]
fn groups_have_names_of_classes() {
    let names = [
        ("Dense", "dense"),
        ("Conv2DTranspose", "conv2d_transpose"),
        ("PReLU", "p_re_lu"),
        ("ReLU", "re_lu"),
        ("LSTM", "lstm"),
        ("RMSNormalization", "rms_normalization"),
        ("TFOpLambda", "tf_op_lambda"),
        ("MultiHeadAttention", "multi_head_attention"),
    ];
    for (class, group) in names {
        assert_eq!(snake_case(class), group);
    }
}

#[test]
fn groups_of_one_class_are_counted() {
    let mut names = Names::default();
    let found = ["Dense", "ReLU", "Dense", "Dense"].map(|class| names.next(class));
    assert_eq!(found, ["dense", "re_lu", "dense_1", "dense_2"]);
}
