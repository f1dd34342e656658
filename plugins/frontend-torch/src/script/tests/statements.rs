use super::{call, function, name, path, refused};
use crate::syntax::ast::{AssignTarget, Expr, StatementKind};

/// Names assigned, `unpack`, and how many values.
fn assigned(source: &str) -> (Vec<String>, bool, usize) {
    let function = function(source);
    let StatementKind::Assign { targets, unpack, values } = &function.body[0].kind else {
        panic!("{function:?}")
    };
    let names = targets.iter().map(|target| match target {
        AssignTarget::Name(name) => name.to_string(),
        other => format!("{other:?}"),
    });
    (names.collect(), *unpack, values.len())
}

#[test]
fn assignments() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(assigned("x = e"), (names(&["x"]), false, 1));
    assert_eq!(assigned("a, b, = e"), (names(&["a", "b"]), true, 1));
    assert_eq!(assigned("a, = e"), (names(&["a"]), true, 1));
    assert_eq!(assigned("a, b = torch.f(x)"), (names(&["a", "b"]), true, 1));
    assert_eq!(assigned("a, b = e1, e2"), (names(&["a", "b"]), false, 2));
    assert!(refused("def f():\n  a, b, c = 1, 2\n").contains("2 values do not fit 3 names"));
    assert!(refused("def f():\n  g(x) = 1\n").contains("no value fits here"));
}

#[test]
fn declared_attribute_and_item_assignments() {
    let body = &function("x : Optional[int] = e\nself.a.k = e\nt[0] = e\ntorch.f(x)\npass").body;
    let target = |at: usize| match &body[at].kind {
        StatementKind::Assign { targets, .. } => &targets[0],
        other => panic!("{other:?}"),
    };
    assert!(matches!(target(0), AssignTarget::Name(x) if &**x == "x"));
    assert!(
        matches!(target(1), AssignTarget::Attribute(of, k) if *of == path("self.a") && &**k == "k")
    );
    assert!(matches!(target(2), AssignTarget::Item(t, Expr::Int(0)) if *t == name("t")));
    let effect = call(path("torch.f"), vec![name("x")]);
    assert!(matches!(&body[3].kind, StatementKind::Expression(call) if *call == effect));
    assert!(matches!(body[4].kind, StatementKind::Pass));
}

#[test]
fn blocks_nest_and_end() {
    let source =
        "if c:\n  for i in range(3):\n    pass\n    x = i\nelse:\n  while d:\n    pass\nreturn x";
    let body = &function(source).body;
    assert_eq!(body.len(), 2);
    let StatementKind::If { then, otherwise, .. } = &body[0].kind else { panic!("{body:?}") };
    let StatementKind::For { target, body: looped, .. } = &then[0].kind else { panic!("{then:?}") };
    assert_eq!((&**target, looped.len()), ("i", 2));
    assert!(matches!(&otherwise[0].kind, StatementKind::While { body, .. } if body.len() == 1));
    assert!(matches!(&body[1].kind, StatementKind::Return(Some(_))));
}

#[test]
fn contexts_and_inner_functions() {
    let source = "with e as v:\n  pass\nwith e:\n  pass\ndef __forked_function():\n  return g(x, )\nfu = \
        fork(__forked_function)";
    let body = &function(source).body;
    let context = |at: usize| match &body[at].kind {
        StatementKind::With { target, .. } => target.as_deref(),
        other => panic!("{other:?}"),
    };
    assert_eq!((context(0), context(1)), (Some("v"), None));
    assert!(matches!(&body[2].kind, StatementKind::Define(f) if f.parameters.is_empty()));
    assert_eq!(body.len(), 4);
}

#[test]
fn statements_know_their_lines() {
    let function = function("y = torch.f(x,\n    1)\n\n# nothing\nreturn y");
    assert_eq!((function.body[0].line, function.body[1].line), (2, 6));
}

#[test]
fn returns() {
    let body = |source| match function(source).body[0].kind {
        StatementKind::Return(ref value) => value.clone(),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(body("return"), None);
    assert_eq!(body("return None"), Some(Expr::None));
    assert_eq!(body("return a, b"), Some(Expr::Tuple(vec![name("a"), name("b")])));
}
