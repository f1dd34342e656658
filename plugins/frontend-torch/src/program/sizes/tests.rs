use super::*;

fn parse(text: &str) -> Expr {
    Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {}", e.message))
}

fn value(text: &str) -> Option<i64> {
    parse(text).evaluate(&|symbol| (symbol == "s0").then_some(7))
}

fn text(expr: &Expr) -> String {
    expr.render(&|_| None)
}

#[test]
fn both_spellings_are_one_expression() {
    let symbol = "Symbol('s0', positive=True, integer=True)";
    let cases = [
        ("s0", symbol.to_owned()),
        ("2*s0 - 1", format!("Add(Mul(Integer(2), {symbol}), Integer(-1))")),
        ("(s0 - 1)//32", format!("FloorDiv(Add({symbol}, Integer(-1)), Integer(32))")),
        ("s0**2", format!("Pow({symbol}, Integer(2))")),
        ("s0 <= 5", format!("LessThan({symbol}, Integer(5))")),
        ("Max(1, s0//2)", format!("Max(Integer(1), FloorDiv({symbol}, Integer(2)))")),
        ("1/2", "Rational(1, 2)".to_owned()),
    ];
    for (python, sympy) in cases {
        assert_eq!(parse(python), parse(&sympy));
        assert_eq!(text(&parse(python)), python);
    }
}

#[test]
fn values_are_exact() {
    let cases = [
        ("2*s0 - 1", Some(13)),
        ("-s0//2", Some(-4)),
        ("(-s0)%4", Some(1)),
        ("Mod(s0, -4)", Some(-1)),
        ("s0/2", None),
        ("2*(s0/2)", Some(7)),
        ("floor(Mul(Rational(1, 2), s0))", Some(3)),
        ("ceiling(s0/2)", Some(4)),
        ("CeilDiv(s0, 4)", Some(2)),
        ("trunc(-s0/2)", Some(-3)),
        ("-s0**2", Some(-49)),
        ("2**-1*s0*2", Some(7)),
        ("Min(3, s0, 5)", Some(3)),
        ("Max(3, s0)", Some(7)),
        ("Abs(-s0)", Some(7)),
        ("Eq(s0, 7)", Some(1)),
        ("s0 > 7", Some(0)),
        ("(s0 > 1) & ~(s0 > 7)", Some(1)),
        ("Where(s0 < 3, 1, 2)", Some(2)),
        ("u0", None),
        ("s0//0", None),
        ("sqrt(s0)", None),
        ("s0*0.5", None),
        ("9223372036854775807 + 1", None),
        ("s0**100000", None),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn names_of_dimensions() {
    let name = |symbol: &str| (symbol == "s0").then(|| "batch".to_owned());
    let cases = [
        ("Add(Integer(-1), Mul(Integer(-2), s0), Mul(Integer(-1), s1))", "-1 - 2*batch - s1"),
        ("Mul(Integer(2), Add(s0, Integer(1)))", "2*(batch + 1)"),
        ("FloorDiv(s0, Mul(s1, Integer(2)))", "batch//(s1*2)"),
        ("Mul(Integer(2), FloorDiv(s0, Integer(2)))", "2*(batch//2)"),
        ("Pow(Pow(s0, 2), 3)", "(batch**2)**3"),
        ("And(s0 < 1, True)", "And(batch < 1, 1)"),
        ("Hidden(s0, 0.5)", "Hidden(batch, 0.5)"),
    ];
    for (source, expected) in cases {
        let rendered = parse(source).render(&name);
        assert_eq!(rendered, expected);
        let known = |symbol: &str| Some(if symbol == "s1" { 3 } else { 11 });
        assert_eq!(parse(&rendered).evaluate(&known), parse(source).evaluate(&known), "{source}");
    }
    let expr = parse("s1*s0 + s1");
    assert_eq!(expr.symbols().iter().map(|symbol| &***symbol).collect::<Vec<_>>(), ["s1", "s0"]);
}

#[test]
fn hostile_expressions_are_refused() {
    for wrong in [
        "", "(", "1 +", "s0 s1", "Symbol(", "Symbol('s", "Integer(s0)", "Pow(1)", "a,b", "\u{e9}(",
        "'",
    ] {
        assert_eq!(Expr::parse(wrong).unwrap_err().code, "N0201", "{wrong}");
    }
    let deep = 20_000;
    for limited in ["(", "-", "2**", "Add(", "~"].map(|part| part.repeat(deep) + "1") {
        assert_eq!(Expr::parse(&limited).unwrap_err().code, "N0213");
    }
    assert_eq!(Expr::parse(&("1".to_owned() + &"//1".repeat(deep))).unwrap_err().code, "N0213");
    assert_eq!(Expr::parse(&"1".repeat(1 << 20)).unwrap_err().code, "N0213");
    let long = "s0".to_owned() + &" + 1".repeat(10_000);
    assert_eq!(value(&long), Some(10_007));
}

#[test]
fn expressions_are_read_once() {
    let mut known = Expressions::default();
    let size = SymbolicSize::Symbolic("s0 + 1".into());
    let first = known.expression_of(&size).unwrap();
    assert!(Rc::ptr_eq(&first, &known.expression_of(&size).unwrap()));
    assert_eq!(*known.expression_of(&SymbolicSize::Known(3)).unwrap(), Expr::Int(3));
}
