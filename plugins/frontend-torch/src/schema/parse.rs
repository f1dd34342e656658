//! The grammar of signatures.

use super::{Alias, ArgType, Default, Parameter, Return, Schema};

/// A signature; nothing if it is none.
pub(super) fn schema(text: &'static str) -> Option<Schema> {
    let (head, _) = text.split_once('(')?;
    let (name, overload) = head.split_once('.').unwrap_or((head, ""));
    let mut reader = SignatureReader { rest: &text[head.len()..] };
    let (parameters, variadic) = reader.parameters()?;
    reader.token("->")?;
    let returns = reader.returns()?;
    reader.rest.is_empty().then_some(Schema { name, overload, parameters, variadic, returns, text })
}

/// The text that is not read yet.
struct SignatureReader {
    rest: &'static str,
}

impl SignatureReader {
    /// Takes a token that must come next, and white space around it.
    fn token(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?.trim_start();
        Some(())
    }

    /// Takes text up to a character that does not fit.
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'static str {
        let (taken, rest) =
            self.rest.split_at(self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn word(&mut self) -> Option<&'static str> {
        let word = self.take(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
        (!word.is_empty()).then_some(word)
    }

    /// `(one, two)`, where `item` reads one.
    fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        item: fn(&mut SignatureReader) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.token(open)?;
        let mut items = Vec::new();
        while self.token(close).is_none() {
            if !items.is_empty() {
                self.token(",")?;
            }
            items.push(item(self)?);
        }
        Some(items)
    }

    /// Parameters, and whether any more may follow.
    fn parameters(&mut self) -> Option<(Vec<Parameter>, bool)> {
        let (mut parameters, mut variadic, mut named_only) = (Vec::new(), false, false);
        for item in self.list("(", ")", SignatureReader::item)? {
            match item {
                SignatureItem::Star => named_only = true,
                SignatureItem::Dots => variadic = true,
                SignatureItem::Parameter(parameter) => {
                    parameters.push(Parameter { named_only, ..parameter });
                }
            }
        }
        Some((parameters, variadic))
    }

    fn item(&mut self) -> Option<SignatureItem> {
        if self.token("...").is_some() {
            return Some(SignatureItem::Dots);
        }
        if self.token("*").is_some() {
            return Some(SignatureItem::Star);
        }
        let (ty, alias) = self.kind()?;
        self.token("")?;
        let name = self.word()?;
        let default = if self.token("=").is_some() { Some(self.default(&ty)?) } else { None };
        Some(SignatureItem::Parameter(Parameter { name, ty, default, named_only: false, alias }))
    }

    /// `Tensor`, `(Tensor values, Tensor indices)`, `()` or `...`.
    fn returns(&mut self) -> Option<Vec<Return>> {
        if self.token("...").is_some() {
            return Some(Vec::new());
        }
        let start = self.rest;
        if let Some(returns) = self.list("(", ")", SignatureReader::one_return)
            && self.rest.is_empty()
        {
            return Some(returns);
        }
        self.rest = start;
        Some(vec![self.one_return()?])
    }

    fn one_return(&mut self) -> Option<Return> {
        let (ty, alias) = self.kind()?;
        self.token("")?;
        self.word(); // a name
        Some(Return { ty, alias })
    }

    /// A type with all that follows it: `Tensor(a!)[]?`.
    fn kind(&mut self) -> Option<(ArgType, Option<Alias>)> {
        let (mut kind, mut alias) = (self.simple()?, None);
        loop {
            if let Some(rest) = self.rest.strip_prefix('?') {
                self.rest = rest;
                kind = ArgType::Optional(Box::new(kind));
            } else if let Some(rest) = self.rest.strip_prefix('[') {
                self.rest = rest;
                let size = self.take(|c| c.is_ascii_digit()).parse().ok();
                self.rest = self.rest.strip_prefix(']')?;
                kind = ArgType::List(Box::new(kind), size);
            } else if let Some(rest) = self.rest.strip_prefix('(') {
                let (inner, rest) = rest.split_once(')')?;
                self.rest = rest;
                let set = inner.split([' ', '!']).next()?;
                alias = alias.or(Some(Alias { set, writes: inner.contains('!') }));
            } else {
                return Some((kind, alias));
            }
        }
    }

    fn simple(&mut self) -> Option<ArgType> {
        if self.rest.starts_with('(') {
            return Some(ArgType::Tuple(self.list("(", ")", |reader| Some(reader.kind()?.0))?));
        }
        Some(match self.word()? {
            "Tensor" => ArgType::Tensor,
            "Scalar" | "number" => ArgType::Scalar,
            "int" | "SymInt" | "ScalarType" | "Layout" | "MemoryFormat" | "QScheme" => ArgType::Int,
            "float" => ArgType::Float,
            "bool" | "SymBool" => ArgType::Bool,
            "complex" => ArgType::Complex,
            "str" | "Dimname" => ArgType::Text,
            "Device" => ArgType::Device,
            "Generator" => ArgType::Generator,
            "Dict" => {
                let [key, value] =
                    self.list("(", ")", |reader| Some(reader.kind()?.0))?.try_into().ok()?;
                ArgType::Dict(Box::new(key), Box::new(value))
            }
            class @ ("Future" | "RRef" | "Await") => {
                self.list("(", ")", SignatureReader::kind)?;
                ArgType::Other(class)
            }
            other => ArgType::Other(other),
        })
    }

    fn default(&mut self, ty: &ArgType) -> Option<Default> {
        let ty = if let ArgType::Optional(inner) = ty { inner } else { ty };
        if self.rest.starts_with('"') {
            return Some(Default::Text(self.quoted()?));
        }
        if self.rest.starts_with('[') {
            let items = self.list("[", "]", |reader| Some(reader.take(|c| !",]".contains(c))))?;
            let ArgType::List(element, _) = ty else { return None };
            return match **element {
                ArgType::Float => Some(Default::Floats(
                    items.iter().map(|item| item.parse().ok()).collect::<Option<_>>()?,
                )),
                ArgType::Bool => Some(Default::Bools(
                    items.iter().map(|item| boolean(item)).collect::<Option<_>>()?,
                )),
                _ => Some(Default::Ints(
                    items.iter().map(|item| item.parse().ok()).collect::<Option<_>>()?,
                )),
            };
        }
        let word = self.take(|c| !",) ".contains(c));
        match word {
            "None" => Some(Default::None),
            "True" | "False" => boolean(word).map(Default::Bool),
            // Enumerators, with the numbers that TorchScript has for them.
            "contiguous_format" | "strided" => Some(Default::Int(0)),
            "Mean" => Some(Default::Int(1)),
            "long" => Some(Default::Int(4)),
            _ if *ty == ArgType::Float => word.parse().ok().map(Default::Float),
            _ => word
                .parse()
                .ok()
                .map(Default::Int)
                .or_else(|| word.parse().ok().map(Default::Float)),
        }
    }

    /// A string with C escapes.
    fn quoted(&mut self) -> Option<&'static str> {
        let (mut text, mut escaped) = (String::new(), false);
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '"' if !escaped => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text.leak());
                }
                '\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                'n' if escaped => text.push('\n'),
                't' if escaped => text.push('\t'),
                'f' if escaped => text.push('\x0c'),
                'v' if escaped => text.push('\x0b'),
                'r' if escaped => text.push('\r'),
                _ => text.push(c),
            }
            escaped = false;
        }
        None
    }
}

enum SignatureItem {
    Star,
    Dots,
    Parameter(Parameter),
}

fn boolean(word: &str) -> Option<bool> {
    match word {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}
