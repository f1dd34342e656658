//! What decoding finds: errors, all of them at once but bounded, and notes on what is not kept.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Layer, shown};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Findings that are listed; the rest is only counted.
pub(crate) const FINDINGS_MAX: usize = 100;

/// A place in a model, as a chain from the innermost part outwards.
#[derive(Clone, Copy)]
pub(crate) struct ModelPath<'a> {
    pub(crate) parent: Option<&'a ModelPath<'a>>,
    pub(crate) part: PathLink<'a>,
}

#[derive(Clone, Copy)]
pub(crate) enum PathLink<'a> {
    Model,
    Graph(&'a str),
    Function(&'a str),
    Node { index: usize, name: &'a str, op: &'a str },
    Attribute(&'a str),
    Initializer { index: usize, name: &'a str },
    Value(&'a str),
}

impl<'a> ModelPath<'a> {
    pub(crate) fn root(part: PathLink<'a>) -> ModelPath<'a> {
        ModelPath { parent: None, part }
    }

    pub(crate) fn at<'b>(&'b self, part: PathLink<'b>) -> ModelPath<'b> {
        ModelPath { parent: Some(self), part }
    }

    /// The innermost node, as a layer.
    fn layer(&self) -> Option<Layer> {
        match self.part {
            PathLink::Node { name, op, .. } => Some(Layer::new(shown(name), shown(op))),
            _ => self.parent?.layer(),
        }
    }
}

impl fmt::Display for ModelPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            Some(parent) if !matches!(parent.part, PathLink::Model) => write!(f, "{parent}, ")?,
            _ => {}
        }
        match self.part {
            PathLink::Model => f.write_str("model"),
            PathLink::Graph(name) => write!(f, "graph `{}`", shown(name)),
            PathLink::Function(name) => write!(f, "function `{}`", shown(name)),
            PathLink::Node { index, name: "", op } => write!(f, "node {index} ({})", shown(op)),
            PathLink::Node { index, name, op } => {
                write!(f, "node {index} `{}` ({})", shown(name), shown(op))
            }
            PathLink::Attribute(name) => write!(f, "attribute `{}`", shown(name)),
            PathLink::Initializer { index, name: "" } => write!(f, "initializer {index}"),
            PathLink::Initializer { name, .. } => write!(f, "initializer `{}`", shown(name)),
            PathLink::Value(name) => write!(f, "value `{}`", shown(name)),
        }
    }
}

/// Errors and notes of one decoding.
#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    unlisted: usize,
    /// What a loader said, where it stands in `list`, and how many more tensors it concerns.
    loading: HashMap<String, (usize, usize)>,
    notes: BTreeMap<&'static str, usize>,
}

impl Findings {
    /// Adds a finding.
    pub(crate) fn push(&mut self, code: Code, place: &ModelPath<'_>, text: impl fmt::Display) {
        self.add(Diagnostic::new(code, format!("{place}: {text}")), place);
    }

    /// Adds a finding whose text says nothing of its place yet.
    pub(crate) fn add_at(&mut self, finding: Diagnostic, place: &ModelPath<'_>) {
        let message = format!("{place}: {}", finding.message);
        self.add(finding.saying(message), place);
    }

    /// Adds what a tensor loader answered. One cause that concerns many tensors is one finding.
    pub(crate) fn loading(&mut self, said: Diagnostic, place: &ModelPath<'_>) {
        if let Some((_, more)) = self.loading.get_mut(&said.message) {
            *more += 1;
            return;
        }
        let key = said.message.clone();
        let message = format!("{place}: {}", said.message);
        if let Some(number) = self.add(said.saying(message), place) {
            self.loading.insert(key, (number, 0));
        }
    }

    /// Adds a finding; its number, if it is listed.
    fn add(&mut self, mut finding: Diagnostic, place: &ModelPath<'_>) -> Option<usize> {
        if self.list.len() == FINDINGS_MAX {
            self.unlisted += 1;
            return None;
        }
        if finding.layer.is_none() {
            finding.layer = place.layer();
        }
        self.list.push(finding);
        Some(self.list.len() - 1)
    }

    /// Counts something that is harmless but worth saying.
    pub(crate) fn note(&mut self, text: &'static str) {
        *self.notes.entry(text).or_default() += 1;
    }

    /// The notes, or everything that was wrong.
    pub(crate) fn finish(mut self) -> Result<Vec<String>, Diagnostics> {
        for (number, more) in self.loading.into_values().filter(|(_, more)| *more > 0) {
            self.list[number].message.push_str(&format!(" (and {more} more tensors)"));
        }
        if self.unlisted > 0 {
            let text = format!("{} more findings are not listed", self.unlisted);
            self.list.push(Diagnostic::new(Code::OnnxInvalid, text));
        }
        let notes = self.notes.into_iter().map(|(text, count)| match count {
            1 => text.to_owned(),
            _ => format!("{text} ({count} times)"),
        });
        Diagnostics(self.list).or_ok(notes.collect())
    }
}
