//! Containers of arguments and results, as `torch.utils._pytree` writes them.

use serde::Deserialize;
use serde_json::Value;

/// A container with what it contains, or a leaf.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// `builtins.tuple`, `builtins.list`, `builtins.dict`; none for a leaf.
    pub(crate) class: Option<Box<str>>,
    /// Of a dict: one for each child.
    pub(crate) keys: Vec<Box<str>>,
    pub(crate) children: Vec<Spec>,
}

/// `[1, {...}]`: the version of the notation, and the outermost container.
#[derive(Deserialize)]
struct Versioned(#[allow(unused)] i64, Written);

#[derive(Deserialize)]
struct Written {
    r#type: Option<Box<str>>,
    #[serde(default)]
    context: Value,
    #[serde(default)]
    children_spec: Vec<Written>,
}

impl Spec {
    /// Reads the text of a specification.
    pub(super) fn parse(text: &str) -> Result<Spec, serde_json::Error> {
        serde_json::from_str::<Versioned>(text).map(|versioned| spec(versioned.1))
    }

    /// How many leaves it has.
    pub(crate) fn leaves(&self) -> usize {
        match self.class {
            None => 1,
            Some(_) => self.children.iter().map(Spec::leaves).sum(),
        }
    }
}

fn spec(written: Written) -> Spec {
    let children: Vec<_> = written.children_spec.into_iter().map(spec).collect();
    let keys = keys(&written.context).filter(|keys| keys.len() == children.len());
    Spec { class: written.r#type, keys: keys.unwrap_or_default(), children }
}

/// The keys of a dict: its context is the text of a list, or of an object that has the list.
fn keys(context: &Value) -> Option<Vec<Box<str>>> {
    let parsed: Value;
    let context = match context {
        Value::String(text) => {
            parsed = serde_json::from_str(text).ok()?;
            &parsed
        }
        other => other,
    };
    let list = match context {
        Value::Object(object) => object.get("dict_context")?,
        other => other,
    };
    let key = |key: &Value| match key {
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    };
    Some(list.as_array()?.iter().map(key).collect())
}
