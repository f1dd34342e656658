use super::*;
use crate::{Attr, DataType, Dim, ValueType};

#[test]
fn versions_are_found() {
    assert!(max_opset() >= 28);
    assert_eq!(max_version("com.microsoft"), None);
    assert_eq!(find("com.microsoft", "QLinearAdd", 1).unwrap().inputs_min, 7);
    assert!(find("com.microsoft", "Sampling", 1).is_none());
    assert_eq!(find("", "Softmax", 12).unwrap().since, 11);
    assert_eq!(find("ai.onnx", "Softmax", 13).unwrap().since, 13);
    assert!(find("", "LayerNormalization", 16).is_none());
    assert!(find("", "LayerNormalization", 17).is_some());
    assert!(find("ai.onnx.ml", "Scaler", 1).is_some());
    assert!(find("", "Upsample", 10).unwrap().deprecated);
}

/// A process pays for the operators of its network, not for those of the standard.
#[test]
fn only_what_is_asked_for_is_read() {
    let fresh = super::registry_of_texts();
    let standard = &fresh.domains[""];
    standard.operators["Conv"].versions();
    let read = standard.operators.iter().filter(|(_, o)| o.read.get().is_some());
    assert_eq!(read.map(|(name, _)| *name).collect::<Vec<_>>(), ["Conv"]);
}

/// A mistake in a line shows only when the line is read, so all are.
#[test]
fn every_line_is_read() {
    let files = [include_str!("operators.txt"), include_str!("microsoft.txt")];
    let lines = files.iter().flat_map(|text| text.lines()).filter(|line| line.contains('|'));
    let fresh = super::registry_of_texts();
    let mut versions = 0;
    for (name, operator) in fresh.domains.values().flat_map(|d| &d.operators) {
        assert!(operator.versions().is_sorted_by_key(|s| s.since), "{name}");
        assert!(operator.versions().iter().all(|s| s.name == *name), "{name}");
        versions += operator.versions().len();
    }
    assert_eq!(versions, lines.count());
}

#[test]
fn a_schema_in_full() {
    let conv = find("", "Conv", 17).unwrap();
    let kinds: Vec<(&str, ParamKind)> = conv.inputs.iter().map(|p| (p.name, p.kind)).collect();
    let expected = [("X", ParamKind::Single), ("W", ParamKind::Single), ("B", ParamKind::Optional)];
    assert_eq!(kinds, expected);
    let group = conv.attribute("group").unwrap();
    assert_eq!((group.kind, group.required, group.default), (2, false, Some("1")));
    let types = conv.types_of(&conv.inputs[0]).unwrap();
    assert_eq!(types.to_string(), "float, float16 or double");
    let concat = find("", "Concat", 13).unwrap();
    assert_eq!(concat.inputs[0].kind, ParamKind::Variadic { min: 1, homogeneous: true });
    assert_eq!(concat.input(7).unwrap().name, "inputs");
    assert!(concat.attribute("axis").unwrap().required);
    assert_eq!((concat.inputs_min, concat.outputs_max), (1, 1));
}

#[test]
fn type_sets() {
    let tensor = ValueType::tensor(DataType::Float, [Dim::Unknown]);
    let if_ = find("", "If", 16).unwrap();
    let types = if_.types_of(&if_.outputs[0]).unwrap();
    assert!(types.allows(&ValueType::Sequence(tensor.clone().into())));
    assert!(types.allows(&ValueType::Optional(ValueType::Sequence(tensor.clone().into()).into())));
    assert!(!types.allows(&ValueType::Map(DataType::Int64, tensor.clone().into())));
    let vectorizer = find("ai.onnx.ml", "DictVectorizer", 1).unwrap();
    let types = vectorizer.types_of(&vectorizer.inputs[0]).unwrap();
    let scalar = ValueType::tensor(DataType::Float, Vec::<Dim>::new());
    assert!(types.allows(&ValueType::Map(DataType::String, scalar.into())));
    assert!(!types.allows(&tensor));
    let shape = find("", "Shape", 13).unwrap();
    let output = shape.types_of(&shape.outputs[0]).unwrap();
    assert_eq!(output.only_tensor(), Some(DataType::Int64));
}

/// Every view has a number of inputs that some version takes, and only attributes that some version
/// has, with the same type and (in the newest version that has one) the same default.
#[test]
fn views_agree_with_the_standard() {
    for row in crate::ops::rows() {
        let versions = history("", row.name);
        assert!(!versions.is_empty(), "{} is no operator of the standard", row.name);
        let fits = |s: &OpSchema| {
            let all = row.required + row.optional;
            let variadic = s.inputs_max == usize::MAX;
            s.inputs.len() == all + usize::from(row.variadic) && variadic == row.variadic
        };
        let takes = |s: &OpSchema| s.inputs_min <= row.required + usize::from(row.variadic);
        assert!(versions.iter().any(|s| fits(s) && takes(s)), "{}: number of inputs", row.name);
        for (name, kind, default) in (row.attributes)() {
            let mut found = versions.iter().rev().filter_map(|s| s.attribute(name));
            let newest = found.next();
            let newest = newest.unwrap_or_else(|| panic!("{} has no {name}", row.name));
            assert_eq!(newest.kind, kind, "{}: type of {name}", row.name);
            let Some(expected) = newest.default else { continue };
            let same = match default {
                Some(Attr::Int(x)) => expected.parse() == Ok(x),
                Some(Attr::Float(x)) => expected.parse() == Ok(x),
                Some(Attr::Str(x)) => expected.as_bytes() == x,
                // Left open where versions differ.
                _ => true,
            };
            assert!(same, "{}: default of {name} is {expected}", row.name);
        }
    }
}
