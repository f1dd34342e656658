//! Files, classes and functions.

use super::lexer::{Parsed, Token, TokenKind};
use super::parse::Parser;
use crate::diag::refuse;
use crate::syntax::ast::{Attribute, Class, ClassKind, CodeFile, CodeFunction, Expr, Parameter};
use std::collections::HashSet;
use std::rc::Rc;

impl Parser<'_> {
    pub(super) fn file(mut self) -> Parsed<CodeFile> {
        let mut file = CodeFile::default();
        let mut names = HashSet::new();
        while self.token.kind != TokenKind::End {
            let start = self.token;
            let name = match self.lexer.text(start) {
                "class" => {
                    let class = Rc::new(self.class()?);
                    file.classes.push(class.clone());
                    class.name.clone()
                }
                "def" => {
                    let function = Rc::new(self.function()?);
                    file.functions.push(function.clone());
                    function.name.clone()
                }
                "import" | "from" => {
                    self.skip_line()?;
                    continue;
                }
                "op_version_set" => {
                    file.version = Some(self.version()?);
                    continue;
                }
                _ => return Err(self.unexpected("a class or function")),
            };
            self.unique(&mut names, start, &name)?;
        }
        file.nodes = self.nodes();
        Ok(file)
    }

    fn unique(&self, names: &mut HashSet<Rc<str>>, start: Token, name: &Rc<str>) -> Parsed<()> {
        if names.insert(name.clone()) {
            return Ok(());
        }
        Err(self.lexer.wrong(start, format!("`{name}` is defined twice")))
    }

    fn skip_line(&mut self) -> Parsed<()> {
        while !matches!(self.token.kind, TokenKind::Newline | TokenKind::Dedent | TokenKind::End) {
            self.advance()?;
        }
        self.end_line()
    }

    /// `op_version_set = 1`
    fn version(&mut self) -> Parsed<i64> {
        self.advance()?;
        self.expect(b'=')?;
        let at = self.token;
        let Expr::Int(version) = self.expression()? else {
            return Err(self.lexer.wrong(at, "a version is an integer"));
        };
        self.end_line()?;
        Ok(version)
    }

    /// `def name(self, x: Tensor, k: int=2) -> Tensor:` and its body.
    pub(super) fn function(&mut self) -> Parsed<CodeFunction> {
        self.counted()?;
        self.advance()?;
        let name = self.word()?.into();
        let parameters = self.parameters()?;
        if self.takes(b'-')? {
            self.expect(b'>')?;
            self.whole_type()?;
        }
        Ok(CodeFunction { name, parameters, body: self.block()? })
    }

    fn parameters(&mut self) -> Parsed<Vec<Parameter>> {
        let mut parameters = Vec::new();
        let mut names = HashSet::new();
        self.expect(b'(')?;
        self.listed(b')', |parser| {
            parser.counted()?;
            let start = parser.token;
            let name: Rc<str> = parser.word()?.into();
            parser.unique(&mut names, start, &name)?;
            let ty = if parser.takes(b':')? { Some(parser.whole_type()?) } else { None };
            let default = if parser.takes(b'=')? { Some(parser.expression()?) } else { None };
            parameters.push(Parameter { name, ty, default });
            Ok(())
        })?;
        Ok(parameters)
    }

    fn class(&mut self) -> Parsed<Class> {
        self.counted()?;
        self.advance()?;
        let name = self.word()?.into();
        let kind = self.base()?;
        let mut class = Class { name, kind, ..Class::default() };
        self.expect(b':')?;
        self.end_line()?;
        // A class without members has no block.
        if self.token.kind != TokenKind::Indent {
            return Ok(class);
        }
        self.advance()?;
        let mut names = HashSet::new();
        while self.token.kind != TokenKind::Dedent {
            self.member(&mut class, &mut names)?;
        }
        self.advance()?;
        Ok(class)
    }

    fn base(&mut self) -> Parsed<ClassKind> {
        if !self.takes(b'(')? || self.takes(b')')? {
            return Ok(ClassKind::Plain);
        }
        let start = self.token;
        let kind = match self.word()? {
            "Module" => ClassKind::Module,
            "NamedTuple" => ClassKind::NamedTuple,
            "Interface" | "ModuleInterface" => ClassKind::Interface,
            "Enum" => ClassKind::Enum,
            other => {
                return Err(self.lexer.wrong(start, format!("no class is a kind of `{other}`")));
            }
        };
        self.expect(b')')?;
        Ok(kind)
    }

    /// One line or method of a class.
    fn member(&mut self, class: &mut Class, names: &mut HashSet<Rc<str>>) -> Parsed<()> {
        let start = self.token;
        if self.takes_word("pass")? {
            return self.end_line();
        }
        if self.sees_word("def") {
            let method = Rc::new(self.function()?);
            self.unique(names, start, &method.name)?;
            class.methods.push(method);
            return Ok(());
        }
        self.counted()?;
        let word = self.word()?;
        let mut name: Rc<str> = word.into();
        let mut typed = false;
        if word == "__annotations__" && self.takes(b'[')? {
            name = self.text()?;
            self.expect(b']')?;
            self.expect(b'=')?;
            self.whole_type()?;
            typed = true;
        } else if self.takes(b':')? {
            self.whole_type()?;
            typed = true;
        }
        let value = if self.takes(b'=')? { Some(self.expression()?) } else { None };
        self.end_line()?;
        if !typed && word.starts_with("__") {
            let list = match word {
                "__parameters__" => &mut class.parameters,
                "__buffers__" => &mut class.buffers,
                "__forward_pre_hooks__" => &mut class.pre_hooks,
                "__forward_hooks__" => &mut class.hooks,
                _ => return Ok(()),
            };
            *list = texts(value)
                .ok_or_else(|| self.lexer.wrong(start, format!("`{word}` is a list of names")))?;
            return Ok(());
        }
        refuse!(!typed && value.is_none() => self.lexer.wrong(start, format!("`{name}` has no type")));
        self.unique(names, start, &name)?;
        class.attributes.push(Attribute { name, value });
        Ok(())
    }
}

fn texts(value: Option<Expr>) -> Option<Vec<Rc<str>>> {
    let Some(Expr::List(items)) = value else { return None };
    let text = |item: Expr| match item {
        Expr::Text(text) => Some(text),
        _ => None,
    };
    items.into_iter().map(text).collect()
}
