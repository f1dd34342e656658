//! Protobuf files as text, turned into the bytes that the messages decode.
//!
//! Only fields that the messages of [`proto`](super::proto) have are written; others are read over.

use super::dtype;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use prost::encoding::{WireType, encode_key, encode_varint};

/// Messages inside each other, as in binary files.
const DEPTH_MAX: usize = 100;

/// Messages with their fields: name, number, and what it holds.
const MESSAGES: [(&str, &str); 23] = [
    ("SavedModel", "saved_model_schema_version 1 int, meta_graphs 2 MetaGraphDef"),
    (
        "MetaGraphDef",
        "meta_info_def 1 MetaInfoDef, graph_def 2 GraphDef, saver_def 3 SaverDef, signature_def 5 SignatureEntry",
    ),
    ("MetaInfoDef", "tags 4 text, tensorflow_version 5 text"),
    ("SaverDef", "filename_tensor_name 1 text, restore_op_name 3 text"),
    ("SignatureEntry", "key 1 text, value 2 SignatureDef"),
    ("SignatureDef", "inputs 1 TensorEntry, outputs 2 TensorEntry, method_name 3 text"),
    ("TensorEntry", "key 1 text, value 2 TensorInfo"),
    ("TensorInfo", "name 1 text, dtype 2 int, tensor_shape 3 TensorShapeProto"),
    ("GraphDef", "node 1 NodeDef, library 2 FunctionDefLibrary, versions 4 VersionDef"),
    ("VersionDef", "producer 1 int"),
    ("FunctionDefLibrary", "function 1 FunctionDef"),
    ("FunctionDef", "signature 1 OpDef, node_def 3 NodeDef, ret 4 TextEntry, attr 5 AttrEntry"),
    ("OpDef", "name 1 text, input_arg 2 ArgDef, output_arg 3 ArgDef"),
    (
        "ArgDef",
        "name 1 text, type 3 int, type_attr 4 text, number_attr 5 text, type_list_attr 6 text",
    ),
    ("NodeDef", "name 1 text, op 2 text, input 3 text, attr 5 AttrEntry"),
    ("TextEntry", "key 1 text, value 2 text"),
    ("AttrEntry", "key 1 text, value 2 AttrValue"),
    (
        "AttrValue",
        "list 1 ListValue, s 2 text, i 3 int, f 4 float, b 5 int, type 6 int, shape 7 TensorShapeProto, \
        tensor 8 TensorProto, placeholder 9 text, func 10 NameAttrList",
    ),
    (
        "ListValue",
        "s 2 text, i 3 int, f 4 float, b 5 int, type 6 int, shape 7 TensorShapeProto, tensor 8 TensorProto, \
        func 9 NameAttrList",
    ),
    ("NameAttrList", "name 1 text, attr 2 AttrEntry"),
    ("TensorShapeProto", "dim 2 Dim, unknown_rank 3 int"),
    ("Dim", "size 1 int, name 2 text"),
    (
        "TensorProto",
        "dtype 1 int, tensor_shape 2 TensorShapeProto, tensor_content 4 text, float_val 5 float, \
        double_val 6 double, int_val 7 int, string_val 8 text, scomplex_val 9 float, int64_val 10 int, \
        bool_val 11 int, dcomplex_val 12 double, half_val 13 int, uint32_val 16 int, uint64_val 17 int, \
        float8_val 18 text",
    ),
];

/// The bytes of a `message` that is written as text.
///
/// # Errors
/// `N0201` for text that is no message, `N0213` for messages nested too deeply.
pub(crate) fn encoded(text: &[u8], message: &str) -> Result<Vec<u8>, Diagnostic> {
    let mut reader = TextReader { text, at: 0 };
    reader.message(message, None, 0)
}

struct TextReader<'t> {
    text: &'t [u8],
    at: usize,
}

/// What a field holds: its number and kind; `None` for one that is read over.
fn field(message: &str, name: &str) -> Option<(u32, &'static str)> {
    let (_, fields) = MESSAGES.iter().find(|(known, _)| *known == message)?;
    fields.split(',').find_map(|field| {
        let mut words = field.split_whitespace();
        let found = words.next() == Some(name);
        Some((words.next()?.parse().ok()?, words.next()?)).filter(|_| found)
    })
}

impl TextReader<'_> {
    fn wrong(&self, what: &str) -> Diagnostic {
        let line =
            1 + self.text[..self.at.min(self.text.len())].iter().filter(|b| **b == b'\n').count();
        Diagnostic::new(Code::SourceSyntax, format!("Line {line}: {what}."))
    }

    /// The next byte that is neither blank nor in a comment.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                byte => return Some(*byte),
            }
        }
        None
    }

    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// A name, number or word.
    fn word(&mut self) -> Result<String, Diagnostic> {
        self.peek();
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'.');
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|b| !is_part(b)).unwrap_or(rest.len());
        refuse!(length == 0 => self.wrong("a name or value is missing"));
        self.at += length;
        Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    /// The fields up to `close`, or to the end of the text.
    fn message(
        &mut self,
        message: &str,
        close: Option<u8>,
        depth: usize,
    ) -> Result<Vec<u8>, Diagnostic> {
        refuse!(depth > DEPTH_MAX =>
            Diagnostic::new(Code::SourceLimit, format!("More than {DEPTH_MAX} messages are inside each other.")));
        let mut bytes = vec![];
        loop {
            match (self.peek(), close) {
                (None, None) => return Ok(bytes),
                (None, Some(_)) => return Err(self.wrong("a message does not end")),
                (Some(found), Some(close)) if found == close => {
                    self.at += 1;
                    return Ok(bytes);
                }
                (Some(b',' | b';'), _) => self.at += 1,
                _ => self.field(message, &mut bytes, depth)?,
            }
        }
    }

    fn field(
        &mut self,
        message: &str,
        bytes: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Diagnostic> {
        let name = if self.takes(b'[') { self.extension()? } else { self.word()? };
        let found = field(message, &name);
        let has_colon = self.takes(b':');
        if !self.takes(b'[') {
            return self.value(found, has_colon, bytes, depth);
        }
        while !self.takes(b']') {
            self.value(found, true, bytes, depth)?;
            self.takes(b',');
        }
        Ok(())
    }

    /// The rest of a name in brackets, which no message here has.
    fn extension(&mut self) -> Result<String, Diagnostic> {
        let end = self.text[self.at..].iter().position(|b| *b == b']');
        self.at += 1 + end.ok_or_else(|| self.wrong("a bracket does not end"))?;
        Ok(String::new())
    }

    /// One value of a field.
    fn value(
        &mut self,
        field: Option<(u32, &'static str)>,
        has_colon: bool,
        bytes: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), Diagnostic> {
        let close = match self.peek() {
            Some(b'{') => Some(b'}'),
            Some(b'<') => Some(b'>'),
            _ => None,
        };
        let (number, kind) = field.unwrap_or_default();
        let payload = match (close, self.peek()) {
            (Some(close), _) => {
                self.at += 1;
                Some(self.message(kind, Some(close), depth + 1)?)
            }
            (None, _) if !has_colon => return Err(self.wrong("a value is missing")),
            (None, Some(b'"' | b'\'')) => Some(self.quoted()?),
            _ => None,
        };
        let is_scalar = matches!(kind, "int" | "float" | "double");
        match payload {
            Some(_) if is_scalar => return Err(self.wrong("a number is missing")),
            Some(_) if number == 0 => {}
            Some(payload) => {
                encode_key(number, WireType::LengthDelimited, bytes);
                encode_varint(payload.len() as u64, bytes);
                bytes.extend(payload);
            }
            None => {
                let word = self.word()?;
                if number != 0 {
                    let wrong =
                        || self.wrong(&format!("`{}` is no value of this field", shown(&word)));
                    scalar(number, kind, &word, bytes).ok_or_else(wrong)?;
                }
            }
        }
        Ok(())
    }

    /// Texts one behind the other are one.
    fn quoted(&mut self) -> Result<Vec<u8>, Diagnostic> {
        let mut found = vec![];
        while let Some(quote @ (b'"' | b'\'')) = self.peek() {
            self.at += 1;
            loop {
                let byte = self.text.get(self.at).copied();
                self.at += 1;
                match byte {
                    None | Some(b'\n') => return Err(self.wrong("a text does not end")),
                    Some(b'\\') => found.push(self.escaped()?),
                    Some(byte) if byte == quote => break,
                    Some(byte) => found.push(byte),
                }
            }
        }
        Ok(found)
    }

    fn escaped(&mut self) -> Result<u8, Diagnostic> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let digits = |rest: &[u8], radix: u32, most: usize| {
            let length =
                rest.iter().take(most).take_while(|b| char::from(**b).is_digit(radix)).count();
            let text = str::from_utf8(&rest[..length]).ok()?;
            Some((u32::from_str_radix(text, radix).ok()? as u8, length))
        };
        let (byte, length) = match rest {
            [b'0'..=b'7', ..] => digits(rest, 8, 3).unwrap_or_default(),
            [b'x' | b'X', hex @ ..] => match digits(hex, 16, 2) {
                Some((byte, length)) => (byte, length + 1),
                None => return Err(self.wrong("a number of a character is missing")),
            },
            [letter, ..] => {
                let byte = match letter {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    other => *other,
                };
                (byte, 1)
            }
            [] => return Err(self.wrong("a text does not end")),
        };
        self.at += length;
        Ok(byte)
    }
}

/// Appends a field that is a number; `None` if the word is none.
fn scalar(number: u32, kind: &str, word: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let float = || word.strip_suffix(['f', 'F']).filter(|w| !w.ends_with("in")).unwrap_or(word);
    match kind {
        "int" => {
            encode_key(number, WireType::Varint, bytes);
            encode_varint(integer(word)?, bytes);
        }
        "float" => {
            let x: f32 = float().parse().ok()?;
            encode_key(number, WireType::ThirtyTwoBit, bytes);
            bytes.extend(x.to_le_bytes());
        }
        "double" => {
            let x: f64 = float().parse().ok()?;
            encode_key(number, WireType::SixtyFourBit, bytes);
            bytes.extend(x.to_le_bytes());
        }
        _ => return None,
    }
    Some(())
}

/// A number, a truth value, or the word of an element type.
fn integer(word: &str) -> Option<u64> {
    if let Some(dtype) = word.strip_prefix("DT_") {
        let (dtype, reference) = match dtype.strip_suffix("_REF") {
            Some(dtype) => (dtype, 100),
            None => (dtype, 0),
        };
        let number = dtype::number_of(&dtype.to_lowercase());
        return Some(number.unsigned_abs().into()).map(|n: u64| n + reference);
    }
    match word {
        "true" | "True" | "t" => return Some(1),
        "false" | "False" | "f" => return Some(0),
        _ => {}
    }
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word),
    };
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if sign < 0 { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests;
