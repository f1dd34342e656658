//! The heads `<key: value, ...>` of models and functions.

use super::ast::FunctionAst;
use super::lexer::{Lexer, Token};
use crate::{Model, Opsets};
use onnxd_diagnostics::{Diagnostic, refuse};

/// What the head of a function says.
#[derive(Default)]
pub(super) struct FunctionHead {
    domain: String,
    overload: String,
    doc: String,
    opsets: Opsets,
}

impl<'a> Lexer<'a> {
    /// The head of a model, which may be missing.
    pub(super) fn model_head(&mut self) -> Result<Model, Diagnostic> {
        let mut model = Model::default();
        self.head(|lexer, key| {
            match key {
                "ir_version" => model.ir_version = lexer.int()?,
                "opset_import" => model.opsets = lexer.opsets()?,
                "producer_name" => model.producer_name = lexer.string()?,
                "producer_version" => model.producer_version = lexer.string()?,
                "domain" => model.domain = lexer.string()?,
                "model_version" => model.model_version = lexer.int()?,
                "doc_string" => model.doc = lexer.string()?,
                "metadata_props" => model.metadata = lexer.metadata()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(model)
    }

    /// The head of a function, which may be missing.
    pub(super) fn function_head(&mut self) -> Result<FunctionHead, Diagnostic> {
        let mut head = FunctionHead::default();
        self.head(|lexer, key| {
            match key {
                "domain" => head.domain = lexer.string()?,
                "overload" => head.overload = lexer.string()?,
                "opset_import" => head.opsets = lexer.opsets()?,
                "doc_string" => head.doc = lexer.string()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(head)
    }

    /// `<key: value, ...>`; `entry` reads the value of a key it knows.
    fn head(
        &mut self,
        mut entry: impl FnMut(&mut Lexer<'a>, &str) -> Result<bool, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        if !self.eat('<')? {
            return Ok(());
        }
        loop {
            let at = self.at;
            let key = self.word()?;
            self.expect(':')?;
            refuse!(!entry(self, key)? => self.error_at(at, &format!("`{key}` is not known here")));
            if !self.eat(',')? {
                return self.expect('>');
            }
        }
    }

    /// A string literal.
    pub(super) fn string(&mut self) -> Result<String, Diagnostic> {
        match &self.token {
            Token::Str(_) => match self.advance()? {
                Token::Str(text) => Ok(text.into_owned()),
                _ => unreachable!("the token was looked at"),
            },
            _ => Err(self.unexpected("a string")),
        }
    }

    /// `["" : 17, "com.microsoft" : 1]`
    fn opsets(&mut self) -> Result<Opsets, Diagnostic> {
        let mut opsets = Opsets::new();
        self.bracketed(|lexer| {
            let at = lexer.at;
            let domain = lexer.string()?;
            lexer.expect(':')?;
            let version = lexer.int()?;
            refuse!(opsets.insert(domain.clone(), version).is_some_and(|old| old != version) =>
                lexer.error_at(at, &format!("the domain \"{domain}\" is imported in two versions")));
            Ok(())
        })?;
        Ok(opsets)
    }

    /// `["key" : "value", ...]`
    fn metadata(&mut self) -> Result<Vec<(String, String)>, Diagnostic> {
        let mut entries = Vec::new();
        self.bracketed(|lexer| {
            let key = lexer.string()?;
            lexer.expect(':')?;
            entries.push((key, lexer.string()?));
            Ok(())
        })?;
        Ok(entries)
    }

    /// `[item, ...]`
    fn bracketed(
        &mut self,
        mut item: impl FnMut(&mut Lexer<'a>) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        self.expect('[')?;
        if self.eat(']')? {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.eat(',')? {
                return self.expect(']');
            }
        }
    }
}

impl FunctionHead {
    /// Puts the head onto the rest of the function.
    pub(super) fn put_on<'a>(self, body: FunctionAst<'a>) -> FunctionAst<'a> {
        let FunctionHead { domain, overload, doc, opsets } = self;
        FunctionAst { domain, overload, doc, opsets, ..body }
    }
}
