//! Reads expressions of sizes in both spellings.

use super::{Expr, SizeFunction};
use crate::diag::{Code, Diagnostic};

/// Characters of an expression.
const TEXT_MAX: usize = 64 << 10;
/// How deep operations stand within each other.
const DEPTH_MAX: usize = 100;

impl Expr {
    /// Reads an expression.
    pub(crate) fn parse(text: &str) -> Result<Expr, Diagnostic> {
        if text.len() > TEXT_MAX {
            let what = format!(
                "the expression of a size has {} characters, more than {TEXT_MAX}",
                text.len()
            );
            return Err(Diagnostic::new(Code::SourceLimit, what));
        }
        let mut reader = ExpressionReader { text, at: 0, depth: 0, too_deep: false };
        match reader.condition() {
            Some(expr) if reader.rest().is_empty() => Ok(expr),
            _ if reader.too_deep => {
                let what = format!(
                    "the expression of a size nests deeper than {DEPTH_MAX}: `{}`",
                    shown(text)
                );
                Err(Diagnostic::new(Code::SourceLimit, what))
            }
            _ => {
                let (all, at) = (shown(text), reader.at);
                let what =
                    format!("the expression of a size cannot be read at character {at}: `{all}`");
                Err(Diagnostic::new(Code::SourceSyntax, what))
            }
        }
    }
}

/// The beginning of a long text.
fn shown(text: &str) -> String {
    text.chars().take(200).collect()
}

struct ExpressionReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    too_deep: bool,
}

/// The operators of Python between two operands, loosest first; longer ones stand before their beginnings.
const RELATIONS: &[(&str, SizeFunction)] = &[
    ("==", SizeFunction::Equal),
    ("!=", SizeFunction::Unequal),
    ("<=", SizeFunction::LessEqual),
    (">=", SizeFunction::GreaterEqual),
    ("<", SizeFunction::Less),
    (">", SizeFunction::Greater),
];
const PRODUCTS: &[(&str, SizeFunction)] = &[
    ("//", SizeFunction::FloorDiv),
    ("/", SizeFunction::Divide),
    ("%", SizeFunction::Mod),
    ("*", SizeFunction::Mul),
];

impl<'a> ExpressionReader<'a> {
    /// What is not read yet, from the next character that is no space.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn token(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// Goes one level deeper.
    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        self.too_deep |= self.depth > DEPTH_MAX;
        let result = if self.too_deep { None } else { read(self) };
        self.depth -= 1;
        result
    }

    /// `a < b`, also `a & b`, `a | b`, `~a`.
    fn condition(&mut self) -> Option<Expr> {
        let mut expr = self.relation()?;
        for (token, function) in [("&", SizeFunction::And), ("|", SizeFunction::Or)] {
            let mut operands = vec![];
            while self.token(token) {
                operands.push(self.relation()?);
            }
            if !operands.is_empty() {
                operands.insert(0, expr);
                expr = Expr::Apply(function, operands);
            }
        }
        Some(expr)
    }

    fn relation(&mut self) -> Option<Expr> {
        let left = self.sum()?;
        let relation = RELATIONS.iter().find(|(token, _)| self.token(token));
        let Some((_, function)) = relation else { return Some(left) };
        Some(Expr::Apply(function.clone(), vec![left, self.sum()?]))
    }

    fn sum(&mut self) -> Option<Expr> {
        let mut terms = vec![self.product()?];
        loop {
            if self.token("+") {
                terms.push(self.product()?);
            } else if self.token("-") {
                let term = self.product()?;
                terms.push(negated(term));
            } else {
                return Some(flat(SizeFunction::Add, terms));
            }
        }
    }

    fn product(&mut self) -> Option<Expr> {
        let mut factors = vec![self.signed()?];
        let mut divisions = 0;
        while let Some((_, function)) = PRODUCTS.iter().find(|(token, _)| self.token(token)) {
            let factor = self.signed()?;
            if *function != SizeFunction::Mul {
                // Each one encloses all before it.
                divisions += 1;
                self.too_deep |= self.depth + divisions > DEPTH_MAX;
                if self.too_deep {
                    return None;
                }
                factors = vec![Expr::Apply(
                    function.clone(),
                    vec![flat(SizeFunction::Mul, factors), factor],
                )];
            } else {
                factors.push(factor);
            }
        }
        Some(flat(SizeFunction::Mul, factors))
    }

    fn signed(&mut self) -> Option<Expr> {
        if self.token("-") {
            return self.within(Self::signed).map(negated);
        }
        if self.token("~") {
            return self
                .within(Self::signed)
                .map(|expr| Expr::Apply(SizeFunction::Not, vec![expr]));
        }
        let base = self.atom()?;
        if self.token("**") {
            let exponent = self.within(Self::signed)?;
            return Some(Expr::Apply(SizeFunction::Pow, vec![base, exponent]));
        }
        Some(base)
    }

    fn atom(&mut self) -> Option<Expr> {
        if self.token("(") {
            let inner = self.within(Self::condition)?;
            return self.token(")").then_some(inner);
        }
        let word = self.take(|c| c.is_alphanumeric() || "_.".contains(c));
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(word.parse().map_or_else(|_| constant(word), Expr::Int));
        }
        if word.is_empty() {
            return None;
        }
        if !self.token("(") {
            return Some(match word {
                "true" | "True" => Expr::Int(1),
                "false" | "False" => Expr::Int(0),
                symbol => Expr::Symbol(symbol.into()),
            });
        }
        match word {
            "Symbol" | "Dummy" => self.symbol(),
            "Integer" => {
                let negative = self.token("-");
                let digits = self.take(|c| c.is_ascii_digit());
                let number = format!("{}{digits}", if negative { "-" } else { "" }).parse().ok()?;
                self.token(")").then_some(Expr::Int(number))
            }
            "Float" => {
                let number = self.text_literal()?;
                self.arguments()?;
                Some(constant(number))
            }
            function => {
                let operands = self.within(Self::operands)?;
                apply(function, operands)
            }
        }
    }

    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// `'s77', positive=True, integer=True)`
    fn symbol(&mut self) -> Option<Expr> {
        let name = self.text_literal()?;
        self.arguments()?;
        Some(Expr::Symbol(name.into()))
    }

    fn text_literal(&mut self) -> Option<&'a str> {
        let quote = ["'", "\""].into_iter().find(|quote| self.token(quote))?;
        let (text, _) = self.text[self.at..].split_once(quote)?;
        self.at += text.len() + 1;
        Some(text)
    }

    /// Named arguments up to the closing parenthesis, which change nothing here.
    fn arguments(&mut self) -> Option<()> {
        while !self.token(")") {
            self.token(",").then_some(())?;
            self.take(|c| !",)".contains(c));
        }
        Some(())
    }

    /// Operands up to the closing parenthesis.
    fn operands(&mut self) -> Option<Vec<Expr>> {
        let mut operands = Vec::new();
        while !self.token(")") {
            if !operands.is_empty() && !self.token(",") {
                return None;
            }
            operands.push(self.condition()?);
        }
        Some(operands)
    }
}

/// A number that is no integer.
fn constant(text: &str) -> Expr {
    Expr::Apply(SizeFunction::Other(text.into()), vec![])
}

fn negated(expr: Expr) -> Expr {
    match expr {
        // Only the smallest number has no opposite.
        Expr::Int(number) if number != i64::MIN => Expr::Int(-number),
        other => Expr::Apply(SizeFunction::Mul, vec![Expr::Int(-1), other]),
    }
}

/// A sum or product of one term is the term.
fn flat(function: SizeFunction, mut operands: Vec<Expr>) -> Expr {
    if operands.len() == 1 { operands.remove(0) } else { Expr::Apply(function, operands) }
}

/// A function by the name that SymPy or torch has for it; nothing if it takes another number of operands.
fn apply(name: &str, operands: Vec<Expr>) -> Option<Expr> {
    let (function, counts) = match name {
        "Add" => (SizeFunction::Add, 1..=usize::MAX),
        "Mul" => (SizeFunction::Mul, 1..=usize::MAX),
        "Max" => (SizeFunction::Max, 1..=usize::MAX),
        "Min" => (SizeFunction::Min, 1..=usize::MAX),
        "And" => (SizeFunction::And, 1..=usize::MAX),
        "Or" => (SizeFunction::Or, 1..=usize::MAX),
        "Pow" | "PowByNatural" => (SizeFunction::Pow, 2..=2),
        "Rational" | "IntTrueDiv" | "CleanDiv" => (SizeFunction::Divide, 2..=2),
        "FloorDiv" => (SizeFunction::FloorDiv, 2..=2),
        "Mod" | "PythonMod" => (SizeFunction::Mod, 2..=2),
        "Eq" | "Equality" => (SizeFunction::Equal, 2..=2),
        "Ne" | "Unequality" => (SizeFunction::Unequal, 2..=2),
        "Lt" | "StrictLessThan" => (SizeFunction::Less, 2..=2),
        "Le" | "LessThan" => (SizeFunction::LessEqual, 2..=2),
        "Gt" | "StrictGreaterThan" => (SizeFunction::Greater, 2..=2),
        "Ge" | "GreaterThan" => (SizeFunction::GreaterEqual, 2..=2),
        "floor" | "FloorToInt" => (SizeFunction::Floor, 1..=1),
        "ceiling" | "CeilToInt" => (SizeFunction::Ceiling, 1..=1),
        "trunc" | "TruncToInt" => (SizeFunction::Truncate, 1..=1),
        "Abs" => (SizeFunction::Absolute, 1..=1),
        "Not" => (SizeFunction::Not, 1..=1),
        "Where" => (SizeFunction::Where, 3..=3),
        "Identity" | "ToFloat" => return operands.into_iter().next(),
        // As torch defines it: -((-a) // b).
        "CeilDiv" => {
            let [above, below]: [Expr; 2] = operands.try_into().ok()?;
            return Some(negated(Expr::Apply(SizeFunction::FloorDiv, vec![negated(above), below])));
        }
        other => (SizeFunction::Other(other.into()), 0..=usize::MAX),
    };
    counts.contains(&operands.len()).then_some(Expr::Apply(function, operands))
}
