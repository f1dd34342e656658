//! Types and tensor literals.

use super::lexer::{Lexer, Token};
use super::names::is_float_word;
use super::{NESTING_MAX, names};
use crate::tensor::element_count;
use crate::{DataType, Dim, Shape, Tensor, ValueType, nearest_bf16, nearest_f16};
use bytes::Bytes;
use half::{bf16, f16};
use onnxd_diagnostics::{Diagnostic, refuse};

impl<'a> Lexer<'a> {
    /// A word, also a keyword.
    pub(super) fn word(&mut self) -> Result<&'a str, Diagnostic> {
        match self.token {
            Token::Ident(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// Whether a type is next.
    pub(super) fn at_type(&self) -> bool {
        matches!(self.token, Token::Ident(word) if names::is_type_word(word))
    }

    /// An integer.
    pub(super) fn int<T: std::str::FromStr>(&mut self) -> Result<T, Diagnostic> {
        let Token::Int(text) = self.token else { return Err(self.unexpected("an integer")) };
        let value = text.parse().map_err(|_| self.error(&format!("{text} is out of range")))?;
        self.advance()?;
        Ok(value)
    }

    /// A number; integers are allowed. What is finite in the text must be finite in `T`.
    pub(super) fn float<T: Real>(&mut self) -> Result<T, Diagnostic> {
        let text = match self.token {
            Token::Int(text) | Token::Float(text) => text,
            Token::Ident(word) if is_float_word(word) => word,
            _ => return Err(self.unexpected("a number")),
        };
        let value = T::read(text);
        let spelled = is_float_word(text.trim_start_matches('-'));
        let value = value.filter(|x| spelled || x.is_finite());
        let value = value.ok_or_else(|| self.error(&format!("{text} is out of range")))?;
        self.advance()?;
        Ok(value)
    }

    /// A type: `float[N,3]`, `seq(float)`, ...
    pub(super) fn value_type(&mut self) -> Result<ValueType, Diagnostic> {
        self.nested_type(0)
    }

    fn nested_type(&mut self, depth: usize) -> Result<ValueType, Diagnostic> {
        refuse!(depth >= NESTING_MAX => self.error(&format!("types are nested more than {NESTING_MAX} deep")));
        let at = self.at;
        let word = self.word()?;
        if let Some(dtype) = element_type(word) {
            return Ok(ValueType::Tensor { dtype, shape: self.shape()? });
        }
        self.expect('(')?;
        let ty = match word {
            "seq" => ValueType::Sequence(Box::new(self.nested_type(depth + 1)?)),
            "optional" => ValueType::Optional(Box::new(self.nested_type(depth + 1)?)),
            "sparse_tensor" => {
                let dtype = self.element_type()?;
                ValueType::Sparse { dtype, shape: self.shape()? }
            }
            "map" => {
                let Some(key) = self.element_type()? else {
                    return Err(self.error_at(at, "a map needs the type of its keys"));
                };
                self.expect(',')?;
                ValueType::Map(key, Box::new(self.nested_type(depth + 1)?))
            }
            "opaque" => self.opaque()?,
            _ => return Err(self.error_at(at, &format!("`{word}` is no type"))),
        };
        self.expect(')')?;
        Ok(ty)
    }

    fn element_type(&mut self) -> Result<Option<DataType>, Diagnostic> {
        let at = self.at;
        let word = self.word()?;
        element_type(word).ok_or_else(|| self.error_at(at, &format!("`{word}` is no element type")))
    }

    fn opaque(&mut self) -> Result<ValueType, Diagnostic> {
        let mut words = Vec::new();
        while words.len() < 2 && self.token != Token::Punct(')') {
            if !words.is_empty() {
                self.expect(',')?;
            }
            words.push(self.quotable("a name")?.into_owned());
        }
        let name = words.pop().unwrap_or_default();
        Ok(ValueType::Opaque { domain: words.pop().unwrap_or_default(), name })
    }

    /// `[N,3,?]`; nothing is a scalar, `[]` an unknown rank.
    fn shape(&mut self) -> Result<Option<Shape>, Diagnostic> {
        if !self.eat('[')? {
            return Ok(Some(vec![]));
        }
        if self.eat(']')? {
            return Ok(None);
        }
        let mut dims = Vec::new();
        loop {
            dims.push(match self.token {
                Token::Punct('?') => {
                    self.advance()?;
                    Dim::Unknown
                }
                Token::Int(_) => Dim::Known(self.int()?),
                _ => Dim::Symbol(self.quotable("a size, a name or `?`")?.into()),
            });
            if !self.eat(',')? {
                break;
            }
        }
        self.expect(']')?;
        Ok(Some(dims))
    }

    /// The data `{...}` of a tensor of type `ty`.
    pub(super) fn tensor(&mut self, at: usize, ty: &ValueType) -> Result<Tensor, Diagnostic> {
        let (Some(dtype), Some(dims)) = (ty.dtype(), ty.dims()) else {
            let what = format!("a constant needs an element type and a known shape, not `{ty}`");
            return Err(self.error_at(at, &what));
        };
        let dims: Result<Vec<usize>, _> = dims.into_iter().map(usize::try_from).collect();
        let dims = dims.map_err(|_| self.error_at(at, "a constant's sizes cannot be negative"))?;
        refuse!(self.token == Token::Punct('[') => self.error("external data cannot be read from text"));
        self.expect('{')?;
        let tensor = if dtype == DataType::String {
            let strings = self.list(Lexer::string)?;
            Tensor::strings(dims.clone(), strings.into_iter().map(Bytes::from).collect())
        } else {
            let bytes = self.elements(dtype)?;
            Tensor::new(dtype, dims.clone(), bytes.into())
        };
        tensor.map_err(|_| {
            let expected = element_count(&dims).map_or("too many".to_owned(), |n| n.to_string());
            let unit = if (1..8).contains(&dtype.bits()) { ", packed into bytes," } else { "" };
            let what =
                format!("the constant does not have the {expected} elements{unit} of `{ty}`");
            self.error_at(at, &what)
        })
    }

    /// The elements up to the closing brace, as little-endian bytes.
    fn elements(&mut self, dtype: DataType) -> Result<Vec<u8>, Diagnostic> {
        use DataType::*;
        Ok(match dtype {
            Float | Complex64 => flatten(&self.list(Lexer::float)?, f32::to_le_bytes),
            Double | Complex128 => flatten(&self.list(Lexer::float)?, f64::to_le_bytes),
            Float16 => flatten(&self.list(|l| l.half(nearest_f16))?, f16::to_le_bytes),
            Bfloat16 => flatten(&self.list(|l| l.half(nearest_bf16))?, bf16::to_le_bytes),
            Int64 => flatten(&self.list(Lexer::int)?, i64::to_le_bytes),
            Int32 => flatten(&self.list(Lexer::int)?, i32::to_le_bytes),
            Int16 => flatten(&self.list(Lexer::int)?, i16::to_le_bytes),
            Int8 => flatten(&self.list(Lexer::int)?, i8::to_le_bytes),
            Uint64 => flatten(&self.list(Lexer::int)?, u64::to_le_bytes),
            Uint32 => flatten(&self.list(Lexer::int)?, u32::to_le_bytes),
            Uint16 => flatten(&self.list(Lexer::int)?, u16::to_le_bytes),
            Bool => self.list(|l| match l.int::<u8>()? {
                x @ (0 | 1) => Ok(x),
                x => Err(l.error(&format!("a bool is 0 or 1, not {x}"))),
            })?,
            _ => self.list(Lexer::int::<u8>)?,
        })
    }

    /// A 16-bit float: an integer is its bit pattern, a number with a point its value.
    fn half<T: HalfBits>(&mut self, round: fn(f64) -> T) -> Result<T, Diagnostic> {
        match self.token {
            Token::Int(_) => Ok(T::from_pattern(self.int()?)),
            _ => Ok(round(self.float::<f64>()?)),
        }
    }

    /// Items separated by commas, up to the closing brace.
    fn list<T>(
        &mut self,
        item: impl Fn(&mut Lexer<'a>) -> Result<T, Diagnostic>,
    ) -> Result<Vec<T>, Diagnostic> {
        let mut items = Vec::new();
        if self.eat('}')? {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.eat(',')? {
                break;
            }
        }
        self.expect('}')?;
        Ok(items)
    }
}

fn element_type(word: &str) -> Option<Option<DataType>> {
    if word == "undefined" { Some(None) } else { DataType::parse(word).map(Some) }
}

fn flatten<T: Copy, const N: usize>(items: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    items.iter().flat_map(|x| bytes(*x)).collect()
}

/// `f32` or `f64`.
pub(super) trait Real: Sized {
    fn read(text: &str) -> Option<Self>;
    fn is_finite(&self) -> bool;
}

impl Real for f32 {
    fn read(text: &str) -> Option<f32> {
        text.parse().ok()
    }
    fn is_finite(&self) -> bool {
        f32::is_finite(*self)
    }
}

impl Real for f64 {
    fn read(text: &str) -> Option<f64> {
        text.parse().ok()
    }
    fn is_finite(&self) -> bool {
        f64::is_finite(*self)
    }
}

/// `f16` or `bf16`.
trait HalfBits {
    fn from_pattern(bits: u16) -> Self;
}

impl HalfBits for f16 {
    fn from_pattern(bits: u16) -> f16 {
        f16::from_bits(bits)
    }
}

impl HalfBits for bf16 {
    fn from_pattern(bits: u16) -> bf16 {
        bf16::from_bits(bits)
    }
}
