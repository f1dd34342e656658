use super::*;

#[test]
fn every_line_parses_and_lines_are_sorted() {
    let names: Vec<&str> = OPERATORS.lines().map(name_of).collect();
    assert!(names.len() > 500, "{}", names.len());
    assert!(names.windows(2).all(|w| w[0] < w[1]));
    for (name, line) in names.iter().zip(OPERATORS.lines()) {
        assert!(parse(line).is_some(), "{line}");
        assert_eq!(find(name).map(|op| op.name), Some(*name));
    }
    assert!(find("NoSuchOperator").is_none() && find("").is_none() && find("zzz").is_none());
}

#[test]
fn inputs_attributes_and_outputs_are_read() {
    let concat = find("ConcatV2").unwrap();
    let counts: Vec<_> = concat.inputs.iter().map(|arg| (arg.name, arg.count)).collect();
    assert_eq!(counts, [("values", Count::Number("N")), ("axis", Count::One)]);
    let conv = find("Conv2D").unwrap();
    let default = |name: &str| {
        conv.attrs.iter().find(|attr| attr.name == name).and_then(|attr| attr.default.clone())
    };
    assert_eq!(default("data_format"), Some(Default::Text("NHWC")));
    assert_eq!(default("dilations"), Some(Default::List(vec![Default::Int(1); 4])));
    assert_eq!(default("explicit_paddings"), Some(Default::List(vec![])));
    assert_eq!(default("strides"), None);
    let norm = find("FusedBatchNormV3").unwrap();
    assert_eq!(norm.outputs.len(), 6);
    assert_eq!(norm.outputs[1].name, "batch_mean");
    let whiles = find("While").unwrap();
    assert_eq!(whiles.outputs[0].count, Count::Types("T"));
}
