mod debug;
mod expressions;
mod files;
mod hostile;
mod statements;

use super::parse;
use crate::diag::Diagnostic;
use crate::syntax::ast::{CodeFile, CodeFunction, Expr, StatementKind};
use std::rc::Rc;

fn parsed(source: impl AsRef<[u8]>) -> Result<CodeFile, Diagnostic> {
    parse::parse("a", source.as_ref(), 1_000_000)
}

fn file(source: &str) -> CodeFile {
    parsed(source).unwrap()
}

fn refused(source: &str) -> String {
    parsed(source).unwrap_err().to_string()
}

/// The function that has these lines as its body.
fn function(lines: &str) -> Rc<CodeFunction> {
    let indented: String = lines.lines().map(|line| format!("  {line}\n")).collect();
    file(&format!("def f(x):\n{indented}")).functions[0].clone()
}

fn expression(source: &str) -> Expr {
    match &function(&format!("return {source}")).body[0].kind {
        StatementKind::Return(Some(expr)) => expr.clone(),
        other => panic!("{other:?}"),
    }
}

fn name(name: &str) -> Expr {
    Expr::Name(name.into())
}

fn text(text: &str) -> Expr {
    Expr::Text(text.into())
}

/// `a.b.c`
fn path(path: &str) -> Expr {
    let mut parts = path.split('.');
    let first = name(parts.next().unwrap());
    parts.fold(first, |expr, part| Expr::Attribute(Box::new(expr), part.into()))
}

fn call(function: Expr, arguments: Vec<Expr>) -> Expr {
    Expr::Call { function: Box::new(function), arguments, named: Vec::new() }
}
