use super::resolve::{ArgumentKind as A, resolve};
use super::*;
use crate::diag::Code;

fn text_of(name: &str, positional: &[A], named: &[(&str, A)]) -> String {
    resolve(name, positional, named)
        .map_or_else(|error| error.into_finding().message, |call| call.overload.to_owned())
}

const T: A = A::Tensor(None);

#[test]
fn every_line_is_parsed_and_found() {
    let mut last = "";
    for line in SIGNATURES.lines() {
        let schema = parse::schema(line).unwrap_or_else(|| panic!("{line}"));
        assert!(last <= schema.name, "not sorted: {line}");
        last = schema.name;
        assert_eq!(find(schema.name, schema.overload).map(|schema| schema.text), Some(line));
    }
}

#[test]
fn unknown_names_have_no_overload() {
    for name in ["", "aten::", "aten::ad", "aten::addx", "zzz::add", "a\u{e9}", "\u{ffff}"] {
        assert!(overloads(name).is_empty(), "{name}");
    }
    assert!(find("aten::add", "nothing").is_none());
    assert_eq!(find("aten::relu", "default").map(|schema| schema.overload), Some(""));
}

#[test]
fn types_and_defaults() {
    let conv = find("aten::conv2d", "").unwrap();
    let ints = |n| ArgType::List(Box::new(ArgType::Int), Some(n));
    let kinds: Vec<_> =
        conv.parameters.iter().map(|p| (p.name, p.ty.clone(), p.default.clone())).collect();
    assert_eq!(
        kinds[2],
        ("bias", ArgType::Optional(Box::new(ArgType::Tensor)), Some(Default::None))
    );
    assert_eq!(kinds[3], ("stride", ints(2), Some(Default::Ints(vec![1, 1]))));
    assert_eq!(kinds[6], ("groups", ArgType::Int, Some(Default::Int(1))));
    let norm = find("aten::layer_norm", "").unwrap();
    assert_eq!(norm.parameters[4].default, Some(Default::Float(1e-5)));
    let gelu = find("aten::gelu", "").unwrap();
    assert_eq!(gelu.parameters[1].default, Some(Default::Text("none")));
    assert!(gelu.parameters[1].named_only && !gelu.parameters[0].named_only);
    let strip = find("aten::strip", "").unwrap();
    assert_eq!(strip.parameters[1].default, Some(Default::Text(" \n\t\x0c\x0b")));
    let index = find("aten::index", "Tensor").unwrap();
    let optional = ArgType::Optional(Box::new(ArgType::Tensor));
    assert_eq!(index.parameters[1].ty, ArgType::List(Box::new(optional), None));
    let items = find("aten::items", "str").unwrap();
    let variable = ArgType::Other("t");
    assert_eq!(
        items.parameters[0].ty,
        ArgType::Dict(Box::new(ArgType::Text), Box::new(variable.clone()))
    );
    assert_eq!(
        items.returns[0].ty,
        ArgType::List(Box::new(ArgType::Tuple(vec![ArgType::Text, variable])), None)
    );
}

#[test]
fn aliases_and_results() {
    let alias = |set, writes| Some(Alias { set, writes });
    let relu = find("aten::relu_", "").unwrap();
    assert_eq!(
        (&relu.parameters[0].alias, &relu.returns[0].alias),
        (&alias("a", true), &alias("a", true))
    );
    let split = find("aten::split", "Tensor").unwrap();
    assert_eq!(
        (&split.parameters[0].alias, &split.returns[0].alias),
        (&alias("a", false), &alias("a", false))
    );
    let item = find("aten::__getitem__", "t").unwrap();
    assert_eq!(item.returns[0].alias, alias("*", false));
    let append = find("aten::append", "t").unwrap();
    assert_eq!(
        (&append.parameters[0].alias, &append.parameters[1].alias),
        (&alias("a", true), &alias("c", false))
    );
    let max = find("aten::max", "dim").unwrap();
    assert_eq!(max.returns.len(), 2);
    assert!(find("prim::RaiseException", "").unwrap().returns.is_empty());
    assert!(find("aten::format", "").unwrap().variadic);
}

#[test]
fn exact_types_come_before_conversions() {
    assert_eq!(text_of("aten::add", &[T, T], &[("alpha", A::Int)]), "Tensor");
    assert_eq!(text_of("aten::add", &[T, A::Float], &[]), "Scalar");
    assert_eq!(text_of("aten::add", &[A::Int, A::Int], &[]), "int");
    assert_eq!(text_of("aten::add", &[A::Int, A::Float], &[]), "int_float");
    assert_eq!(text_of("aten::add", &[A::Text, A::Text], &[]), "str");
    assert_eq!(text_of("aten::add", &[A::List(vec![A::Int]), A::List(vec![])], &[]), "t");
    assert_eq!(text_of("aten::eq", &[A::Device, A::Device], &[]), "device");
    assert_eq!(text_of("aten::eq", &[A::Enum, A::Enum], &[]), "enum");
    assert_eq!(text_of("aten::Int", &[T], &[]), "Tensor");
    assert_eq!(text_of("aten::len", &[A::List(vec![T])], &[]), "t");
    assert_eq!(text_of("aten::select", &[T, A::Int, A::Int], &[]), "int");
    assert_eq!(text_of("aten::max", &[T, T], &[]), "other");
    assert_eq!(text_of("aten::max", &[T, A::Int], &[]), "dim");
    assert_eq!(text_of("aten::__getitem__", &[A::List(vec![T]), A::Int], &[]), "t");
    assert_eq!(text_of("aten::index", &[T, A::List(vec![A::None, T])], &[]), "Tensor");
    assert_eq!(text_of("aten::to", &[T, A::Int], &[]), "dtype");
}

#[test]
fn conversions_follow_torch() {
    let scalar = A::Tensor(Some(0));
    assert_eq!(text_of("aten::dropout", &[T, scalar.clone(), A::Bool], &[]), "");
    assert_eq!(text_of("aten::add", &[T, A::Bool], &[]), "Scalar");
    assert_eq!(text_of("aten::avg_pool2d", &[T, A::Int, A::Int], &[]), "");
    assert_eq!(text_of("aten::view", &[T, A::Tuple(vec![A::Int, A::Int])], &[]), "");
    let device = text_of("aten::zeros", &[A::List(vec![A::Int])], &[("device", A::Text)]);
    assert_eq!(device, "");
    assert!(
        text_of("aten::dropout", &[T, A::Tensor(Some(1)), A::Bool], &[]).starts_with("no overload")
    );
}

#[test]
fn variadic_overloads_take_any_further_arguments() {
    let call = resolve("aten::sum", &[T, A::List(vec![A::Int])], &[("dtype", A::None)]).unwrap();
    assert_eq!(call.overload, "dim_IntList");
    assert!(resolve("aten::format", &[A::Text, T, A::Int], &[]).unwrap().variadic);
}

#[test]
fn mistakes_are_told_with_the_overloads() {
    let unknown = resolve("aten::nothing", &[], &[]).unwrap_err();
    assert_eq!(
        (&*unknown.code, &*unknown.message),
        (Code::LayerUnsupported.as_str(), "torch has no operator `aten::nothing`")
    );
    let wrong =
        resolve("aten::relu", &[A::Text], &[("x", A::Dict(vec![(A::Text, A::Int)]))]).unwrap_err();
    let expected = "no overload of `aten::relu` takes (str, x=Dict[str, int]); it has `aten::relu(Tensor \
        self) -> Tensor`";
    assert_eq!((&*wrong.code, &*wrong.message), (Code::LayerParameter.as_str(), expected));
    assert!(resolve("aten::relu", &[T, T], &[]).is_err());
    assert!(resolve("aten::relu", &[T], &[("self", T)]).is_err());
    assert!(resolve("aten::relu", &[], &[]).is_err());
}
