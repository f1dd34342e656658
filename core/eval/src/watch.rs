//! Shows the values of a run to an observer, under names that are unique in the model.

use crate::item::RunValue;
use onnxd_ir::{Graph, Node, Tensor, ValueId};
use std::collections::HashMap;
use std::rc::Rc;

/// What watches a run.
///
/// A value of the main graph has its own name. One of a sub-graph is called
/// `OWNER::ATTRIBUTE::VALUE`, where `OWNER` is the first output of the node that has the sub-graph;
/// one of a local function `OWNER::FUNCTION::VALUE`; and so on inwards. Where a part of such a name
/// contains `::` or `\`, or begins or ends with `:`, each `:` and `\` in it has a `\` before it
/// ([`quoted`]), so that no two values have the same name.
pub trait Observer {
    /// Whether the value is to be shown. Interest once for each value in a run; the answer must not
    /// change from run to run of the same model.
    fn wants(&mut self, value: &str) -> bool;

    /// Sees a wanted value as it is computed or fed; in a loop, once for each iteration. Sequences
    /// are not shown.
    fn see(&mut self, value: &str, tensor: &Tensor);
}

/// A function that sees everything.
impl<F: FnMut(&str, &Tensor)> Observer for F {
    fn wants(&mut self, _: &str) -> bool {
        true
    }

    fn see(&mut self, value: &str, tensor: &Tensor) {
        self(value, tensor);
    }
}

/// A name as it is written where several are joined by `::`.
#[must_use]
pub fn quoted(name: &str) -> String {
    let plain = !name.contains("::") && !name.contains('\\');
    if plain && !name.starts_with(':') && !name.ends_with(':') {
        return name.to_owned();
    }
    name.replace('\\', "\\\\").replace(':', "\\:")
}

/// A graph at one of the places where it is run: the main graph, the sub-graph of a node, or a
/// function at one of its calls.
struct WatchedGraph {
    /// Its name and the separator.
    path: String,
    interests: Vec<Interest>,
}

/// What is known of a value.
#[derive(Clone)]
enum Interest {
    Unknown,
    Unwanted,
    Wanted(Rc<str>),
}

/// Place of the main graph.
pub(crate) const MAIN: usize = 0;

/// What an observer wants of a run.
pub(crate) struct Watch<'o> {
    observer: Option<&'o mut (dyn Observer + Send + 'o)>,
    places: Vec<WatchedGraph>,
    /// The place within a place, by address of the sub-graph or of the calling node.
    inner: HashMap<(usize, usize), usize>,
}

impl<'o> Watch<'o> {
    pub(crate) fn new(observer: Option<&'o mut (dyn Observer + Send + 'o)>) -> Self {
        let main = WatchedGraph { path: String::new(), interests: Vec::new() };
        Watch { observer, places: vec![main], inner: HashMap::new() }
    }

    /// The place of a graph that `node`, standing in `graph` at `outer`, runs under `name`. What is
    /// at the address `key` tells it from others of the node.
    pub(crate) fn enter(
        &mut self,
        outer: usize,
        key: usize,
        (graph, node): (&Graph, &Node),
        name: &str,
    ) -> usize {
        if self.observer.is_none() {
            return MAIN;
        }
        *self.inner.entry((outer, key)).or_insert_with(|| {
            let output = node.outputs.iter().flatten().next();
            let owner = output.map_or(node.name.as_str(), |v| &graph[*v].name);
            let path = format!("{}{}::{}::", self.places[outer].path, quoted(owner), quoted(name));
            self.places.push(WatchedGraph { path, interests: Vec::new() });
            self.places.len() - 1
        })
    }

    /// Whether anyone wants to see a value.
    pub(crate) fn wants(&mut self, at: usize, graph: &Graph, value: ValueId) -> bool {
        self.interest(at, graph, value).is_some()
    }

    /// Shows a value if it is wanted.
    pub(crate) fn show(&mut self, at: usize, graph: &Graph, value: ValueId, item: &RunValue) {
        let RunValue::Tensor(tensor) = item else { return };
        if let Some((observer, name)) = self.interest(at, graph, value) {
            observer.see(name, tensor);
        }
    }

    /// Who wants to see a value, and under which name.
    fn interest(
        &mut self,
        at: usize,
        graph: &Graph,
        value: ValueId,
    ) -> Option<(&mut (dyn Observer + Send + 'o), &str)> {
        let observer = self.observer.as_deref_mut()?;
        let WatchedGraph { path, interests } = &mut self.places[at];
        if interests.is_empty() {
            interests.resize(graph.value_ids().len(), Interest::Unknown);
        }
        let interest = &mut interests[value.index()];
        if matches!(interest, Interest::Unknown) {
            let name = format!("{path}{}", quoted(&graph[value].name));
            *interest = match observer.wants(&name) {
                true => Interest::Wanted(name.into()),
                false => Interest::Unwanted,
            };
        }
        match interest {
            Interest::Wanted(name) => Some((observer, name)),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
