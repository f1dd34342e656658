use super::*;
use crate::schema;
use crate::tflite::options;

#[test]
fn every_line_is_read() {
    let mut seen = vec![];
    for line in lines() {
        let operator = parse(line).unwrap_or_else(|| panic!("{line}"));
        let key = (operator.code, operator.name);
        assert!(!seen.contains(&key), "{line}");
        seen.push(key);
        if let Some(table) = operator.options {
            assert!(options::has(table), "{line}");
        }
        if let Some(op) = operator.same_as {
            assert!(schema::find(op).is_some(), "{line}");
        }
    }
}

#[test]
fn parts_of_a_line() {
    let line = "36 GATHER(params, indices?, more*) GatherOptions -> GatherV2 axis=at batch_dims= \
                dstt:=@type n:=3";
    let gather = parse(line).unwrap();
    let many: Vec<Many> = gather.inputs.iter().map(|input| input.many).collect();
    assert_eq!(many, [Many::One, Many::Maybe, Many::Rest]);
    assert_eq!(gather.renamed, [("axis", Some("at")), ("batch_dims", None)]);
    assert_eq!(gather.more, [("dstt", DerivedArgument::Type), ("n", DerivedArgument::Word("3"))]);
    assert_eq!((gather.options, gather.same_as), (Some("GatherOptions"), Some("GatherV2")));
    let refused = parse("51 DELEGATE(inputs*) refused: it is compiled").unwrap();
    assert_eq!(refused.refused, Some("it is compiled"));
}
