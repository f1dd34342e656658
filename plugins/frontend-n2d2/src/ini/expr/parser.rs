//! From words to a tree, by Python's precedence.
//!
//! Chains of equal precedence stay flat, so that only real nesting costs depth.

use super::lexer::{Token, tokens};
use super::{ChainOperands, ExprFunction, ExprTree, truth};
use crate::diag::refuse;

/// Deepest nesting of parentheses, signs, powers and conditionals.
const DEPTH_MAX: usize = 64;

const FUNCTIONS: [(&str, ExprFunction); 6] = [
    ("int", ExprFunction::Int),
    ("float", ExprFunction::Float),
    ("max", ExprFunction::Max),
    ("min", ExprFunction::Min),
    ("round", ExprFunction::Round),
    ("abs", ExprFunction::Abs),
];

/// The tree of a whole text.
pub(super) fn parse(text: &str) -> Parsed {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let tree = parser.conditional()?;
    match parser.peek() {
        Token::End => Ok(tree),
        extra => Err(format!("{extra} is not expected here")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

pub(super) type Parsed = Result<ExprTree, String>;

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).unwrap_or(&Token::End)
    }

    fn take_sign(&mut self, among: &[&'static str]) -> Option<&'static str> {
        match self.peek() {
            Token::Sign(sign) if among.contains(sign) => {
                let sign = *sign;
                self.next += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(name) if name == word);
        self.next += usize::from(found);
        found
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Parser) -> Parsed) -> Parsed {
        refuse!(self.depth == DEPTH_MAX => "it is nested deeper than {DEPTH_MAX} levels");
        self.depth += 1;
        let tree = parse(self);
        self.depth -= 1;
        tree
    }

    /// `then if condition else other`
    fn conditional(&mut self) -> Parsed {
        let then = self.or()?;
        if !self.take_word("if") {
            return Ok(then);
        }
        let condition = self.or()?;
        refuse!(!self.take_word("else") => "`else` is expected, not {}", self.peek());
        let other = self.nested(Parser::conditional)?;
        let [condition, then, other] = [condition, then, other].map(Box::new);
        Ok(ExprTree::If { condition, then, other })
    }

    fn or(&mut self) -> Parsed {
        let mut any = vec![self.and()?];
        while self.take_word("or") {
            any.push(self.and()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { ExprTree::Or(any) })
    }

    fn and(&mut self) -> Parsed {
        let mut all = vec![self.not()?];
        while self.take_word("and") {
            all.push(self.not()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { ExprTree::And(all) })
    }

    fn not(&mut self) -> Parsed {
        if self.take_word("not") {
            return Ok(ExprTree::Not(Box::new(self.nested(Parser::not)?)));
        }
        let comparisons = ["<", "<=", ">", ">=", "==", "!="];
        self.chain(&comparisons, Parser::sum, ExprTree::Compare)
    }

    fn sum(&mut self) -> Parsed {
        self.chain(&["+", "-"], Parser::product, ExprTree::Chain)
    }

    fn product(&mut self) -> Parsed {
        self.chain(&["*", "/", "//", "%"], Parser::signed, ExprTree::Chain)
    }

    fn chain(
        &mut self,
        signs: &[&'static str],
        operand: fn(&mut Parser) -> Parsed,
        build: fn(Box<ExprTree>, ChainOperands) -> ExprTree,
    ) -> Parsed {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(sign) = self.take_sign(signs) {
            rest.push((sign, operand(self)?));
        }
        Ok(if rest.is_empty() { first } else { build(Box::new(first), rest) })
    }

    /// A sign binds less than the power at its right: `-2**2` is -4.
    fn signed(&mut self) -> Parsed {
        match self.take_sign(&["-", "+"]) {
            Some("-") => Ok(ExprTree::Negate(Box::new(self.nested(Parser::signed)?))),
            Some(_) => self.nested(Parser::signed),
            None => self.power(),
        }
    }

    fn power(&mut self) -> Parsed {
        let base = self.atom()?;
        if self.take_sign(&["**"]).is_none() {
            return Ok(base);
        }
        let exponent = self.nested(Parser::signed)?;
        Ok(ExprTree::Power(Box::new(base), Box::new(exponent)))
    }

    fn atom(&mut self) -> Parsed {
        let token = self.peek().clone();
        self.next += 1;
        match token {
            Token::Number(number) => Ok(ExprTree::Number(number)),
            Token::Sign("(") => {
                let inner = self.nested(Parser::conditional)?;
                self.close()?;
                Ok(inner)
            }
            Token::Name(name) if name == "True" => Ok(ExprTree::Number(truth(true))),
            Token::Name(name) if name == "False" => Ok(ExprTree::Number(truth(false))),
            Token::Name(name) => self.call(&name),
            other => Err(format!("a number is expected, not {other}")),
        }
    }

    fn call(&mut self, name: &str) -> Parsed {
        let Some((_, function)) = FUNCTIONS.into_iter().find(|(n, _)| *n == name) else {
            let known = FUNCTIONS.map(|(n, _)| n).join(", ");
            return Err(format!("`{name}` is not known; the functions are {known}"));
        };
        refuse!(self.take_sign(&["("]).is_none() => "`{name}` needs arguments in parentheses");
        let mut arguments = Vec::new();
        if self.take_sign(&[")"]).is_some() {
            return Ok(ExprTree::Call(function, arguments));
        }
        loop {
            arguments.push(self.nested(Parser::conditional)?);
            if self.take_sign(&[","]).is_none() {
                self.close()?;
                return Ok(ExprTree::Call(function, arguments));
            }
        }
    }

    fn close(&mut self) -> Result<(), String> {
        match self.take_sign(&[")"]) {
            Some(_) => Ok(()),
            None => Err(format!("`)` is expected, not {}", self.peek())),
        }
    }
}
