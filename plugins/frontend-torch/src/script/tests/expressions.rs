use super::{call, expression, name, parsed, path, text};
use crate::syntax::ast::Expr;
use crate::syntax::types::Type;
use proptest::prelude::*;

#[test]
fn numbers_are_read_as_torch_prints_them() {
    assert_eq!(expression("9223372036854775807"), Expr::Int(i64::MAX));
    assert_eq!(expression("-9223372036854775808"), Expr::Int(i64::MIN));
    assert_eq!(expression("2."), Expr::Float(2.0));
    assert_eq!(expression("1.0000000000000001e-05"), Expr::Float(1e-5));
    assert_eq!(expression("-1e+30"), Expr::Float(-1e30));
    assert_eq!(expression("inf"), Expr::Float(f64::INFINITY));
    assert_eq!(expression("-inf"), Expr::Float(f64::NEG_INFINITY));
    assert!(matches!(expression("nan"), Expr::Float(number) if number.is_nan()));
}

#[test]
fn complex_numbers_have_two_parts() {
    assert_eq!(expression("0.+2.j"), Expr::Complex(0.0, 2.0));
    assert_eq!(expression("-1.5-2.e-03j"), Expr::Complex(-1.5, -0.002));
    assert_eq!(expression("1j"), Expr::Complex(0.0, 1.0));
    assert_eq!(expression("inf-infj"), Expr::Complex(f64::INFINITY, f64::NEG_INFINITY));
    assert!(matches!(expression("1.-nanj"), Expr::Complex(re, im) if re == 1.0 && im.is_nan()));
}

#[test]
fn strings_have_c_escapes() {
    assert_eq!(expression(r#""a\"b\'c\\""#), text("a\"b'c\\"));
    assert_eq!(expression(r#""\r\v\f\a\b\000\177\x41""#), text("\r\u{b}\u{c}\u{7}\u{8}\0\u{7f}A"));
    assert_eq!(expression(r#""\303\251 \n#""#), text("é \n#"));
    assert_eq!(expression("'single'"), text("single"));
    assert_eq!(expression(r#"r"\d""#), text("\\d"));
    assert_eq!(expression("\"\"\"three\"\"\""), text("three"));
    assert_eq!(expression("\"\""), text(""));
}

#[test]
fn containers_and_brackets() {
    assert_eq!(expression("[1, 2]"), Expr::List(vec![Expr::Int(1), Expr::Int(2)]));
    assert_eq!(expression("()"), Expr::Tuple(vec![]));
    assert_eq!(expression("(a)"), name("a"));
    assert_eq!(expression("(a,)"), Expr::Tuple(vec![name("a")]));
    assert_eq!(expression("(a, b)"), Expr::Tuple(vec![name("a"), name("b")]));
    let entry = (text("k"), Expr::List(vec![]));
    assert_eq!(expression("{\"k\": [], }"), Expr::Dict(vec![entry]));
    assert_eq!(expression("[a,\n    b]"), Expr::List(vec![name("a"), name("b")]));
}

#[test]
fn calls_attributes_and_items() {
    let layer = path("self.layer");
    let forward = Expr::Attribute(Box::new(layer.clone()), "forward".into());
    assert_eq!(expression("(self.layer).forward(x, )"), call(forward, vec![name("x")]));
    let child = Expr::Attribute(Box::new(layer), "0".into());
    assert_eq!(expression("getattr(self.layer, \"0\")"), child);
    let item = Expr::Item(Box::new(name("t")), Box::new(Expr::Int(-1)));
    assert_eq!(expression("(t)[-1]"), item);
    let slice = |a: Option<i64>, b: Option<i64>| {
        let bound = |bound: Option<i64>| bound.map(|i| Box::new(Expr::Int(i)));
        Expr::Slice(Box::new(name("t")), bound(a), bound(b))
    };
    assert_eq!(expression("(t)[1:3]"), slice(Some(1), Some(3)));
    assert_eq!(expression("t[:3]"), slice(None, Some(3)));
    assert_eq!(expression("t[:]"), slice(None, None));
    let named = Expr::Call {
        function: Box::new(path("torch.add")),
        arguments: vec![path("CONSTANTS.c0")],
        named: vec![("alpha".into(), Expr::None)],
    };
    assert_eq!(expression("torch.add(CONSTANTS.c0, alpha=None)"), named);
}

#[test]
fn forms_have_types_in_them() {
    let list = Type::List(Box::new(Type::Tensor));
    let empty = Box::new(Expr::List(vec![]));
    assert_eq!(expression("annotate(List[Tensor], [])"), Expr::Annotate(list, empty));
    let class = Type::Class("__torch__.___torch_mangle_3.Net".into());
    let cast = Expr::Cast(class, Box::new(name("x")));
    assert_eq!(expression("unchecked_cast(__torch__.___torch_mangle_3.Net, x)"), cast);
    assert_eq!(expression("uninitialized(NoneType)"), Expr::Uninitialized(Type::None));
    let of = |types: Vec<Type>| Expr::IsInstance(Box::new(name("x")), types);
    assert_eq!(expression("isinstance(x, int)"), of(vec![Type::Int]));
    assert_eq!(expression("isinstance(x, (int, str))"), of(vec![Type::Int, Type::Text]));
}

#[test]
fn types_are_read_as_torch_prints_them() {
    let read = |text: &str| match expression(&format!("uninitialized({text})")) {
        Expr::Uninitialized(ty) => ty,
        other => panic!("{other:?}"),
    };
    assert_eq!(read("Tuple[()]"), Type::Tuple(vec![]));
    assert_eq!(read("Tuple[int, number]"), Type::Tuple(vec![Type::Int, Type::Number]));
    assert_eq!(read("Optional[Device]"), Type::Optional(Box::new(Type::Device)));
    assert_eq!(read("Final[float]"), Type::Float);
    assert_eq!(read("Union[int, None]"), Type::Union(vec![Type::Int, Type::None]));
    assert_eq!(read("Future[Any]"), Type::Future(Box::new(Type::Any)));
    let pairs = Type::Dict(Box::new(Type::Text), Box::new(Type::Class("__torch__.P".into())));
    assert_eq!(read("Dict[str, __torch__.P]"), pairs);
    for wrong in ["", "List[", "List[int, int]", "Dict[int]", "int]", "Wild[int]"] {
        assert!(parsed(format!("def f():\n  return uninitialized({wrong})\n")).is_err(), "{wrong}");
    }
}

/// Expressions without NaN and their text.
fn printed() -> impl Strategy<Value = (Expr, String)> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|i| (Expr::Int(i), i.to_string())),
        (-1e300..1e300).prop_map(|x: f64| (Expr::Float(x), format!("{x:e}"))),
        "[a-z_]{1,8}_".prop_map(|word| (name(&word), word)),
        "[ -~é]{0,8}".prop_map(|t| (
            text(&t),
            format!("\"{}\"", t.replace('\\', "\\\\").replace('"', "\\\""))
        )),
        Just((Expr::None, "None".to_owned())),
    ];
    leaf.prop_recursive(6, 64, 4, |inner| {
        let many = || proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            many().prop_map(|all| listed(all, Expr::List, "[", "]")),
            many().prop_map(|all| listed(all, Expr::Tuple, "(", ", )")),
            many().prop_map(|all| listed(all, |all| call(path("torch.f"), all), "torch.f(", ", )")),
            (inner.clone(), inner.clone()).prop_map(|((key, k), (value, v))| {
                (Expr::Dict(vec![(key, value)]), format!("{{{k}: {v}}}"))
            }),
            (inner.clone(), inner.clone()).prop_map(|((base, b), (index, i))| {
                (Expr::Item(Box::new(base), Box::new(index)), format!("({b})[{i}]"))
            }),
            inner.clone().prop_map(|(base, b)| {
                (Expr::Attribute(Box::new(base), "value".into()), format!("({b}).value"))
            }),
        ]
    })
}

fn listed(
    all: Vec<(Expr, String)>,
    made: impl Fn(Vec<Expr>) -> Expr,
    open: &str,
    close: &str,
) -> (Expr, String) {
    let (exprs, texts): (Vec<Expr>, Vec<String>) = all.into_iter().unzip();
    (made(exprs), format!("{open}{}{close}", texts.join(", ")))
}

proptest! {
    #[test]
    fn nested_expressions_are_read_back((expr, text) in printed()) {
        prop_assert_eq!(expression(&text), expr);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z(){}\\[\\]:=,.\"'\\\\ 0-9\n#-]{0,80}") {
        let _ = parsed(&text);
        let _ = parsed(format!("def f(x):\n  {text}\n"));
    }
}
