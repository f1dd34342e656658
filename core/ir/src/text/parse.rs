//! Models, graphs, nodes and attributes, from tokens to syntax tree.

use super::ast::{AttrAst, FunctionAst, GraphAst, Name, NodeAst, ValueAst};
use super::lexer::{Lexer, Token};
use super::lower::Lowering;
use super::names::is_float_word;
use super::{KINDS, NESTING_MAX};
use crate::{Attr, Graph, Model, Opsets, Tensor, ValueType};
use bytes::Bytes;
use onnxd_diagnostics::{Diagnostic, refuse};
use std::borrow::Cow;

/// Reads a model: head, graph, functions. Without head the graph stands alone (no operator set is
/// imported).
///
/// # Errors
/// `N0201` with line and column.
pub fn parse_model(text: &str) -> Result<Model, Diagnostic> {
    let lexer = &mut Lexer::new(text)?;
    let mut model = lexer.model_head()?;
    let graph = lexer.graph(0)?;
    let mut functions = Vec::new();
    while lexer.token != Token::End {
        functions.push(lexer.function()?);
    }
    let lowering = Lowering::new(text);
    model.graph = lowering.graph(graph)?;
    model.functions =
        functions.into_iter().map(|f| lowering.function(f)).collect::<Result<_, _>>()?;
    Ok(model)
}

/// Reads one graph.
///
/// # Errors
/// `N0201` with line and column.
pub fn parse_graph(text: &str) -> Result<Graph, Diagnostic> {
    let lexer = &mut Lexer::new(text)?;
    let graph = lexer.graph(0)?;
    refuse!(lexer.token != Token::End => lexer.unexpected("the end of the text"));
    Lowering::new(text).graph(graph)
}

/// One value of an attribute, or one item of a list.
enum AttrItem<'a> {
    Int(&'a str, i64),
    Float(f32),
    Str(Bytes),
    Tensor(Tensor),
    Type(ValueType),
    Graph(GraphAst<'a>),
    Ref(String),
}

impl<'a> Lexer<'a> {
    /// A word, or any name in quotes.
    pub(super) fn quotable(&mut self, expected: &str) -> Result<Cow<'a, str>, Diagnostic> {
        match self.token {
            Token::Ident(_) | Token::Str(_) => match self.advance()? {
                Token::Ident(word) => Ok(Cow::Borrowed(word)),
                Token::Str(text) => Ok(text),
                _ => unreachable!("the token was looked at"),
            },
            _ => Err(self.unexpected(expected)),
        }
    }

    fn name(&mut self) -> Result<Name<'a>, Diagnostic> {
        Ok(Name { at: self.at, text: self.quotable("a name")? })
    }

    fn graph(&mut self, depth: usize) -> Result<GraphAst<'a>, Diagnostic> {
        refuse!(depth >= NESTING_MAX => self.error(&format!("sub-graphs are nested more than {NESTING_MAX} deep")));
        let name = self.quotable("the name of a graph")?;
        let inputs = self.values('(', ')')?;
        self.graph_from_arrow(name, inputs, depth)
    }

    fn graph_from_arrow(
        &mut self,
        name: Cow<'a, str>,
        inputs: Vec<ValueAst<'a>>,
        depth: usize,
    ) -> Result<GraphAst<'a>, Diagnostic> {
        refuse!(self.token != Token::Arrow => self.unexpected("`=>`"));
        self.advance()?;
        let outputs = self.values('(', ')')?;
        refuse!(let Some(value) = outputs.iter().find(|v| v.data.is_some()) =>
            self.error_at(value.name.at, "a graph output cannot have data"));
        let mut infos = Vec::new();
        if self.token == Token::Punct('<') {
            infos = self.values('<', '>')?;
        }
        self.expect('{')?;
        let mut nodes = Vec::new();
        while !self.eat('}')? {
            nodes.push(self.node(depth)?);
        }
        Ok(GraphAst { name, inputs, outputs, infos, nodes })
    }

    /// `(float[2] x, y, float z = {1})`
    fn values(&mut self, open: char, close: char) -> Result<Vec<ValueAst<'a>>, Diagnostic> {
        self.expect(open)?;
        let mut values = Vec::new();
        if self.eat(close)? {
            return Ok(values);
        }
        loop {
            let at = self.at;
            let ty = if self.at_type() { Some(self.value_type()?) } else { None };
            let name = self.name()?;
            let mut data = None;
            if self.eat('=')? {
                let Some(ty) = &ty else {
                    return Err(self.error_at(at, "a constant needs a type"));
                };
                data = Some(self.tensor(at, ty)?);
            }
            values.push(ValueAst { name, ty, data });
            if !self.eat(',')? {
                break;
            }
        }
        self.expect(close)?;
        Ok(values)
    }

    fn node(&mut self, depth: usize) -> Result<NodeAst<'a>, Diagnostic> {
        let mut node = NodeAst::default();
        if self.eat('[')? {
            if self.token != Token::Punct(']') {
                node.name = self.quotable("the name of a node")?;
            }
            self.expect(']')?;
        }
        node.outputs = self.names(&Token::Punct('='))?;
        self.expect('=')?;
        node.op = self.quotable("an operator")?;
        while self.eat('.')? {
            if !node.domain.is_empty() {
                node.domain.push('.');
            }
            node.domain.push_str(&node.op);
            node.op = self.quotable("an operator")?;
        }
        if self.eat(':')? {
            node.overload = self.quotable("an overload")?;
        }
        node.attrs = self.attrs(depth)?;
        self.expect('(')?;
        node.inputs = self.names(&Token::Punct(')'))?;
        self.expect(')')?;
        if node.attrs.is_empty() {
            node.attrs = self.attrs(depth)?;
        }
        Ok(node)
    }

    /// Names up to `end`; nothing before a comma is an absent one, nothing after the last is not.
    fn names(&mut self, end: &Token<'_>) -> Result<Vec<Name<'a>>, Diagnostic> {
        let mut names = Vec::new();
        while self.token != *end {
            if self.token == Token::Punct(',') {
                names.push(Name { at: self.at, text: Cow::Borrowed("") });
            } else {
                names.push(self.name()?);
            }
            if !self.eat(',')? {
                break;
            }
        }
        Ok(names)
    }

    fn attrs(&mut self, depth: usize) -> Result<Vec<(Name<'a>, AttrAst<'a>)>, Diagnostic> {
        let mut attrs: Vec<(Name<'a>, AttrAst<'a>)> = Vec::new();
        if !self.eat('<')? {
            return Ok(attrs);
        }
        loop {
            let name = self.name()?;
            let value = self.attr_value(depth)?;
            attrs.push((name, value));
            if !self.eat(',')? {
                self.expect('>')?;
                return Ok(attrs);
            }
        }
    }

    /// `: kind = value`, the kind being optional.
    fn attr_value(&mut self, depth: usize) -> Result<AttrAst<'a>, Diagnostic> {
        let mut kind = None;
        if self.eat(':')? {
            let at = self.at;
            let word = self.word()?;
            let known = KINDS.iter().position(|k| *k == word);
            kind = Some(known.ok_or_else(|| {
                self.error_at(at, &format!("`{word}` is no type of an attribute"))
            })?);
        }
        self.expect('=')?;
        let at = self.at;
        let attr = if self.eat('[')? {
            self.list_value(kind, depth)?
        } else {
            let item = self.item(depth)?;
            single(item, kind)
        };
        if let Some(kind) = kind.filter(|k| *k > 0 && *k != kind_of(&attr)) {
            let what = format!("the value is not of type `{}`", KINDS[kind]);
            return Err(self.error_at(at, &what));
        }
        Ok(attr)
    }

    fn list_value(&mut self, kind: Option<usize>, depth: usize) -> Result<AttrAst<'a>, Diagnostic> {
        let at = self.at;
        let mut items = Vec::new();
        while self.token != Token::Punct(']') {
            if !items.is_empty() {
                self.expect(',')?;
            }
            items.push(self.item(depth)?);
        }
        self.expect(']')?;
        refuse!(items.is_empty() && kind.is_none() =>
            self.error_at(at, "an empty list needs a type, as in `axes: ints = []`"));
        list(items, kind).ok_or_else(|| self.error_at(at, "the items of the list do not match"))
    }

    fn item(&mut self, depth: usize) -> Result<AttrItem<'a>, Diagnostic> {
        if self.eat('@')? {
            return Ok(AttrItem::Ref(self.quotable("the name of an attribute")?.into_owned()));
        }
        if self.at_type() {
            let at = self.at;
            let ty = self.value_type()?;
            if let Token::Ident(_) | Token::Str(_) = self.token {
                self.advance()?; // the tensor's own name, without meaning in an attribute
            }
            let data = self.eat('=')? || self.token == Token::Punct('{');
            return Ok(if data {
                AttrItem::Tensor(self.tensor(at, &ty)?)
            } else {
                AttrItem::Type(ty)
            });
        }
        match self.token {
            Token::Int(text) => Ok(AttrItem::Int(text, self.int()?)),
            Token::Float(_) => Ok(AttrItem::Float(self.float()?)),
            Token::Ident(word) if is_float_word(word) => Ok(AttrItem::Float(self.float()?)),
            Token::Ident(_) => Ok(AttrItem::Graph(self.graph(depth + 1)?)),
            Token::Str(_) => {
                let text = self.string()?;
                if self.token == Token::Punct('(') {
                    let inputs = self.values('(', ')')?;
                    let name = Cow::Owned(text);
                    refuse!(depth + 1 >= NESTING_MAX => self.error("sub-graphs are nested too deep"));
                    return Ok(AttrItem::Graph(self.graph_from_arrow(name, inputs, depth + 1)?));
                }
                Ok(AttrItem::Str(Bytes::from(text)))
            }
            _ => Err(self.unexpected("the value of an attribute")),
        }
    }

    fn function(&mut self) -> Result<FunctionAst<'a>, Diagnostic> {
        let head = self.function_head()?;
        let name = self.quotable("the name of a function")?;
        let (mut attributes, mut defaults) = (Vec::new(), Vec::new());
        if self.eat('<')? {
            while self.token != Token::Punct('>') {
                let attr = self.name()?;
                if matches!(self.token, Token::Punct(':' | '=')) {
                    defaults.push((attr, self.attr_value(0)?));
                } else {
                    attributes.push(attr.text.into_owned());
                }
                if !self.eat(',')? {
                    break;
                }
            }
            self.expect('>')?;
        }
        let inputs = self.values('(', ')')?;
        let graph = self.graph_from_arrow(name, inputs, 0)?;
        let (domain, overload, doc) = Default::default();
        let opsets = Opsets::new();
        let body = FunctionAst { domain, overload, doc, opsets, attributes, defaults, graph };
        Ok(head.put_on(body))
    }
}

fn kind_of(attr: &AttrAst<'_>) -> usize {
    match attr {
        AttrAst::Ready(attr) => attr.kind() as usize,
        AttrAst::Graph(_) => 5,
        AttrAst::Graphs(_) => 10,
    }
}

fn single<'a>(item: AttrItem<'a>, kind: Option<usize>) -> AttrAst<'a> {
    AttrAst::Ready(match item {
        AttrItem::Graph(graph) => return AttrAst::Graph(Box::new(graph)),
        AttrItem::Int(text, _) if kind == Some(1) => Attr::Float(as_float(text)),
        AttrItem::Int(_, value) => Attr::Int(value),
        AttrItem::Float(value) => Attr::Float(value),
        AttrItem::Str(text) => Attr::Str(text),
        AttrItem::Tensor(tensor) => Attr::Tensor(tensor),
        AttrItem::Type(ty) => Attr::Type(Box::new(ty)),
        AttrItem::Ref(name) => Attr::Ref { name, kind: kind.unwrap_or(0) as i32 },
    })
}

/// An integer's text as a float. Every integer that fits `i64` is finite as `f32`.
fn as_float(text: &str) -> f32 {
    text.parse().unwrap_or(f32::NAN)
}

/// A list of items of one type; `None` if they differ. Integers beside floats count as floats.
fn list<'a>(items: Vec<AttrItem<'a>>, kind: Option<usize>) -> Option<AttrAst<'a>> {
    let floats = kind == Some(6) || items.iter().any(|i| matches!(i, AttrItem::Float(_)));
    macro_rules! all {
        ($($pattern:pat => $value:expr),+) => {
            items.into_iter().map(|i| match i { $($pattern => Some($value),)+ _ => None })
                .collect::<Option<Vec<_>>>()
        };
    }
    let attr = match (kind, items.first()) {
        (Some(6), None) | (_, Some(AttrItem::Float(_))) => {
            Attr::Floats(all!(AttrItem::Float(x) => x, AttrItem::Int(text, _) => as_float(text))?)
        }
        (_, Some(AttrItem::Int(..))) if floats => {
            Attr::Floats(all!(AttrItem::Float(x) => x, AttrItem::Int(text, _) => as_float(text))?)
        }
        (Some(7), None) | (_, Some(AttrItem::Int(..))) => {
            Attr::Ints(all!(AttrItem::Int(_, x) => x)?)
        }
        (Some(8), None) | (_, Some(AttrItem::Str(_))) => Attr::Strs(all!(AttrItem::Str(x) => x)?),
        (Some(9), None) | (_, Some(AttrItem::Tensor(_))) => {
            Attr::Tensors(all!(AttrItem::Tensor(x) => x)?)
        }
        (Some(12), None) => Attr::Sparses(vec![]),
        (Some(14), None) | (_, Some(AttrItem::Type(_))) => {
            Attr::Types(all!(AttrItem::Type(x) => x)?)
        }
        (Some(10), None) | (_, Some(AttrItem::Graph(_))) => {
            return Some(AttrAst::Graphs(all!(AttrItem::Graph(x) => x)?));
        }
        _ => return None,
    };
    Some(AttrAst::Ready(attr))
}
