//! What onnxd says to a person: a stable code, a class that decides about retry and exit status,
//! one sentence, the layer of the source network, and what to do next.
//!
//! Every crate that can fail speaks through [`Diagnostic`]; the codes are one table in `table.rs`.

mod table;
mod text;

pub use table::Code;
pub use text::{escaped, escaped_json, escaped_lines, is_unsafe, nearest, shown};

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Returns with an error if the condition holds. A text is made an error of the function's type.
///
/// ```
/// fn half(n: u32) -> Result<u32, String> {
///     onnxd_diagnostics::refuse!(n % 2 == 1 => "{n} has no half");
///     Ok(n / 2)
/// }
/// assert_eq!(half(3), Err("3 has no half".to_owned()));
/// ```
#[macro_export]
macro_rules! refuse {
    (let $pattern:pat = $of:expr => $text:literal $(, $argument:expr)*) => {
        if let $pattern = $of {
            return Err(From::from(format!($text $(, $argument)*)));
        }
    };
    (let $pattern:pat = $of:expr => $error:expr) => {
        if let $pattern = $of {
            return Err($error);
        }
    };
    ($condition:expr => $text:literal $(, $of:expr)*) => {
        if $condition {
            return Err(From::from(format!($text $(, $of)*)));
        }
    };
    ($condition:expr => $error:expr) => {
        if $condition {
            return Err($error);
        }
    };
}

/// An enum of words, each written once.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$help:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$help])* $variant,)* }

        impl $name {
            /// The word used in reports.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// The inverse of [`Self::as_str`].
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// Whose problem a diagnostic is. The class alone decides about retry and exit status.
    Class {
        /// The dropped files are wrong; the same files fail the same way again.
        Input = "input",
        /// The files are right but ask for something onnxd cannot say in ONNX.
        Unsupported = "unsupported",
        /// The machine, its limits or its configuration; trying again may help.
        Environment = "environment",
        /// A defect of onnxd or of a plugin.
        Internal = "internal",
    }
}

words! {
    /// What a diagnostic does to a result; the gravest first.
    Severity {
        /// There is no result, or it misses something that was asked for.
        Error = "error",
        /// The result has a quirk that may matter.
        Warning = "warning",
        /// Good to know.
        Note = "note",
    }
}

impl Class {
    /// Exit status of a command that ends with a diagnostic of this class.
    pub fn exit_code(self) -> u8 {
        match self {
            Class::Input => 2,
            Class::Unsupported => 3,
            Class::Internal => 4,
            Class::Environment => 75,
        }
    }
}

/// A place in the network as its author wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layer {
    /// Name of the layer, node or section (`conv1.1`).
    pub name: String,
    /// Its type in the source's own spelling (`Deconv`, `aten::conv2d`); empty if unknown.
    pub kind: String,
    /// File and line (`net.ini:12`); empty if unknown.
    pub place: String,
}

impl Layer {
    /// A layer of which only name and type are known.
    pub fn new(name: impl Into<String>, kind: impl Into<String>) -> Layer {
        Layer { name: name.into(), kind: kind.into(), place: String::new() }
    }
}

/// One finding, ready to be shown; its fields are those of [`Finding`].
///
/// It is one pointer, because nearly every function can give one: the fields themselves, 168 bytes, would be copied at
/// each `?`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Diagnostic(Box<Finding>);

/// The fields of a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// Stable code (`N0203`); a third-party plugin may use codes of its own.
    pub code: Cow<'static, str>,
    /// Whose problem it is.
    pub class: Class,
    /// What was found and where, in one sentence.
    pub message: String,
    /// The layer of the source network it concerns.
    pub layer: Option<Layer>,
    /// What to do next.
    pub help: Cow<'static, str>,
    /// The version of the standard's operators from which on it would not be there.
    pub opset: Option<i64>,
}

impl Code {
    /// The code for what could not be written. A full disk is no fault and passes.
    pub fn of_write(error: &std::io::Error) -> Code {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        if matches!(error.kind(), StorageFull | QuotaExceeded) {
            Code::DiskFull
        } else {
            Code::Disk
        }
    }
}

impl Diagnostic {
    /// A diagnostic with class and help taken from the table.
    pub fn new(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::of(code, message.into())
    }

    fn of(code: Code, message: String) -> Diagnostic {
        Diagnostic::from_finding(Finding {
            code: Cow::Borrowed(code.as_str()),
            class: code.class(),
            message,
            layer: None,
            help: Cow::Borrowed(code.help()),
            opset: None,
        })
    }

    /// A diagnostic with these fields.
    pub fn from_finding(finding: Finding) -> Diagnostic {
        Diagnostic(Box::new(finding))
    }

    /// The fields, to be moved out.
    pub fn into_finding(self) -> Finding {
        *self.0
    }

    /// The same finding with another message.
    #[must_use]
    pub fn saying(mut self, message: impl Into<String>) -> Diagnostic {
        self.message = message.into();
        self
    }

    /// Names the layer of the source network.
    #[must_use]
    pub fn at(mut self, layer: Layer) -> Diagnostic {
        self.layer = Some(layer);
        self
    }

    /// Names the layer that another diagnostic names, if it does.
    #[must_use]
    pub fn at_same(mut self, other: &Diagnostic) -> Diagnostic {
        self.layer.clone_from(&other.layer);
        self
    }

    /// Says from which version of the standard's operators on it would not be there.
    #[must_use]
    pub fn until_opset(mut self, opset: i64) -> Diagnostic {
        self.opset = Some(opset);
        self
    }

    /// Replaces the table's help by one that fits this case better.
    #[must_use]
    pub fn help(mut self, help: impl Into<Cow<'static, str>>) -> Diagnostic {
        self.help = help.into();
        self
    }
}

impl Deref for Diagnostic {
    type Target = Finding;
    fn deref(&self) -> &Finding {
        &self.0
    }
}

impl DerefMut for Diagnostic {
    fn deref_mut(&mut self) -> &mut Finding {
        &mut self.0
    }
}

/// Written like its fields.
impl fmt::Debug for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One line, whatever foreign text is in it.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = escaped(&self.message);
        write!(f, "{} {}: {message}", escaped(&self.code), self.class.as_str())?;
        if let Some(Layer { name, kind, place }) = &self.layer {
            write!(f, " [layer")?;
            if !name.is_empty() {
                write!(f, " {}", escaped(name))?;
            }
            if !kind.is_empty() {
                write!(f, " ({})", escaped(kind))?;
            }
            if !place.is_empty() {
                write!(f, " at {}", escaped(place))?;
            }
            write!(f, "]")?;
        }
        if self.help.is_empty() {
            return Ok(());
        }
        let ended = self.layer.is_none() && self.message.ends_with(['.', '!', '?']);
        write!(f, "{} {}", if ended { "" } else { "." }, escaped(&self.help))
    }
}

impl std::error::Error for Diagnostic {}

/// Everything that was found wrong, at once. Never empty when used as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds one finding.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// `Ok(value)` if nothing was found.
    pub fn or_ok<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Both results, or what was found on both ways: one may be why the other could not go on.
    ///
    /// # Errors
    /// Those of both.
    pub fn both<A, B>(
        first: Result<A, Diagnostics>,
        second: Result<B, Diagnostic>,
    ) -> Result<(A, B), Diagnostics> {
        match (first, second) {
            (Ok(first), Ok(second)) => Ok((first, second)),
            (first, second) => {
                let mut all = first.err().unwrap_or_default();
                all.0.extend(second.err());
                Err(all)
            }
        }
    }

    /// The class that decides what happens to the job: the gravest one.
    pub fn class(&self) -> Class {
        self.0.iter().map(|d| d.class).max().unwrap_or(Class::Internal)
    }
}

impl Diagnostics {
    /// The version of the standard's operators from which on none of it would be there, if there is one.
    pub fn opset(&self) -> Option<i64> {
        let needed = self.0.iter().map(|found| found.opset).collect::<Option<Vec<i64>>>()?;
        needed.into_iter().max()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Diagnostics {
        Diagnostics(vec![one])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{d}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
