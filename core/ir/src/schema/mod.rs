//! The standard's operators: what each takes, gives and may be told, for every version of every
//! operator; and those of `com.microsoft` that the executor knows.
//!
//! `operators.txt` is a dump of the official package's registry, `microsoft.txt` one of ONNX
//! Runtime's, read once; `dump_schema.py` and `dump_microsoft.py` renew them. A `types N ...` line
//! is a set of allowed types, a `domain V NAME` line begins a domain whose newest version is `V`
//! (`?` where only some of its operators are listed), and every other line is one operator since
//! one version:
//! `Name since|inputs|outputs|attributes|constraints|counts`. A parameter is `name:letter` or
//! `name:=type`, with `?` if optional and `*MIN` if variadic (`~` if its types may differ); an
//! attribute is `name:kind`, with `!` if required and `=default`.

mod read;
mod types;

pub use types::TypeSet;

use std::collections::HashMap;
use std::sync::OnceLock;

/// One operator since one version of its domain.
#[derive(Debug)]
pub struct OpSchema {
    /// Operator type.
    pub name: &'static str,
    /// First version of the domain it applies to; it holds until the next one.
    pub since: i64,
    /// Whether the operator must not be used any more.
    pub deprecated: bool,
    /// Inputs by position; only the last can be variadic.
    pub inputs: Vec<Param>,
    /// Outputs by position; only the last can be variadic.
    pub outputs: Vec<Param>,
    /// Attributes, sorted by name.
    pub attributes: Vec<AttrSchema>,
    /// Allowed types of each letter.
    pub constraints: Vec<(&'static str, &'static TypeSet)>,
    /// Fewest inputs.
    pub inputs_min: usize,
    /// Most inputs.
    pub inputs_max: usize,
    /// Fewest outputs.
    pub outputs_min: usize,
    /// Most outputs.
    pub outputs_max: usize,
}

/// An input or output.
#[derive(Debug)]
pub struct Param {
    /// Its name in the standard.
    pub name: &'static str,
    /// Whether it may be absent or repeated.
    pub kind: ParamKind,
    /// Which types it may have.
    pub ty: ParamType,
}

/// Whether a parameter may be absent or repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// Always there.
    Single,
    /// May be absent.
    Optional,
    /// Any number of them, at least `min`.
    Variadic {
        /// Fewest of them.
        min: usize,
        /// Whether all have the same type.
        homogeneous: bool,
    },
}

/// Which types a parameter may have.
#[derive(Debug)]
pub enum ParamType {
    /// The type that the letter stands for, the same for all parameters of the node that name it.
    Letter(&'static str),
    /// This type.
    Fixed(TypeSet),
}

/// An attribute.
#[derive(Debug)]
pub struct AttrSchema {
    /// Its name.
    pub name: &'static str,
    /// Number of its type in `AttributeProto.AttributeType`.
    pub kind: i32,
    /// Whether it must be given.
    pub required: bool,
    /// What it is if it is not given, where that is a number, a word or a list of integers.
    pub default: Option<&'static str>,
}

impl OpSchema {
    /// The parameter that input `i` belongs to.
    pub fn input(&self, i: usize) -> Option<&Param> {
        param(&self.inputs, i)
    }

    /// The parameter that output `i` belongs to.
    pub fn output(&self, i: usize) -> Option<&Param> {
        param(&self.outputs, i)
    }

    /// The attribute called `name`.
    pub fn attribute(&self, name: &str) -> Option<&AttrSchema> {
        let found = self.attributes.binary_search_by(|a| a.name.cmp(name));
        found.ok().map(|i| &self.attributes[i])
    }

    /// The types that a parameter may have.
    pub fn types_of<'a>(&'a self, param: &'a Param) -> Option<&'a TypeSet> {
        match &param.ty {
            ParamType::Fixed(types) => Some(types),
            ParamType::Letter(letter) => {
                self.constraints.iter().find(|(l, _)| l == letter).map(|(_, types)| *types)
            }
        }
    }
}

fn param(params: &[Param], i: usize) -> Option<&Param> {
    let last = params.last().filter(|p| matches!(p.kind, ParamKind::Variadic { .. }));
    params.get(i).or(last)
}

/// All operators, found by domain and name.
pub(crate) struct Registry {
    domains: HashMap<&'static str, Domain>,
}

pub(crate) struct Domain {
    /// Newest version; `None` where only some operators are listed.
    version: Option<i64>,
    /// Each operator by its name.
    operators: HashMap<&'static str, OperatorEntry>,
}

/// One operator of a domain, which is read when it is asked for.
#[derive(Default)]
pub(crate) struct OperatorEntry {
    /// Its lines, one for each version, and the sets of types that they name.
    lines: Vec<(&'static str, &'static read::Sets)>,
    read: OnceLock<Vec<OpSchema>>,
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(registry_of_texts)
}

fn registry_of_texts() -> Registry {
    read::registry(&[include_str!("operators.txt"), include_str!("microsoft.txt")])
}

fn domain(domain: &str) -> Option<&'static Domain> {
    registry().domains.get(if domain == "ai.onnx" { "" } else { domain })
}

/// The operator as it is defined in version `opset` of `domain` (`""` is the standard's own).
pub fn find(domain: &str, op: &str, opset: i64) -> Option<&'static OpSchema> {
    history(domain, op).iter().rfind(|s| s.since <= opset)
}

/// All versions of an operator, oldest first; empty if it is not known.
pub fn history(domain: &str, op: &str) -> &'static [OpSchema] {
    let known = self::domain(domain).and_then(|d| d.operators.get(op));
    known.map_or(&[], OperatorEntry::versions)
}

/// Newest version of the standard's own operators.
pub fn max_opset() -> i64 {
    max_version("").unwrap_or(0)
}

/// Newest version of a domain; `None` for a domain that is not the standard's (`com.microsoft`),
/// which may have other operators than the known ones.
pub fn max_version(domain: &str) -> Option<i64> {
    self::domain(domain).and_then(|d| d.version)
}

/// Names of all operators of a domain, in no order.
pub fn operators(domain: &str) -> impl Iterator<Item = &'static str> {
    self::domain(domain).into_iter().flat_map(|d| d.operators.keys().copied())
}

#[cfg(test)]
mod tests;
