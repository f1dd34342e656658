//! Compares the tensors a caller brings with what the graph declares, and puts together what is not a
//! tensor: see [`crate::parts`].

use crate::item::{Map, RunValue};
use crate::parts;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, nearest, refuse, shown};
use onnxd_ir::{Dim, Graph, Tensor, ValueId, ValueType};
use std::collections::{BTreeMap, BTreeSet};

type Feeds = BTreeMap<String, Tensor>;

/// Everything that is wrong with the inputs of a graph, at once.
///
/// # Errors
/// `N0507`, one for each input.
pub fn check(graph: &Graph, inputs: &Feeds) -> Result<(), Diagnostics> {
    items(graph, inputs).map(drop)
}

/// What each input of the graph is given; nothing where it has an initializer instead.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn items(graph: &Graph, inputs: &Feeds) -> Result<Vec<Option<RunValue>>, Diagnostics> {
    let mut given = CallerInputs { inputs, used: BTreeSet::new() };
    let mut problems = Diagnostics::default();
    let report = |text: String| Diagnostic::new(Code::EvalInputs, text);
    let mut found = Vec::with_capacity(graph.inputs().len());
    for id in graph.inputs() {
        match given.item(graph, *id) {
            Ok(item) => found.push(item),
            Err(why) => {
                problems.push(report(format!("input `{}` {why}", shown(&graph[*id].name))));
            }
        }
    }
    let declared: Vec<&str> = graph.inputs().iter().map(|v| graph[*v].name.as_str()).collect();
    let unknown = inputs.keys().filter(|name| !given.used.contains(name.as_str()));
    let unknown = unknown.map(|name| {
        let hint = match nearest(name, declared.iter().copied()) {
            Some(near) => format!("; did you mean `{}`?", shown(near)),
            None => format!("; its inputs are {}", listed(&declared)),
        };
        report(format!("the model has no input `{}`{hint}", shown(name)))
    });
    problems.0.splice(0..0, unknown.collect::<Vec<_>>());
    problems.or_ok(found)
}

/// What a caller brings, and what of it belongs to an input.
struct CallerInputs<'i> {
    inputs: &'i Feeds,
    used: BTreeSet<&'i str>,
}

impl<'i> CallerInputs<'i> {
    fn take(&mut self, name: &str) -> Option<&'i Tensor> {
        let (name, tensor) = self.inputs.get_key_value(name)?;
        self.used.insert(name);
        Some(tensor)
    }

    fn item(&mut self, graph: &Graph, id: ValueId) -> Result<Option<RunValue>, String> {
        let value = &graph[id];
        let (mut ty, mut optional) = (value.ty.as_ref(), false);
        // An optional that has an element is its element.
        while let Some(ValueType::Optional(element)) = ty {
            (ty, optional) = (Some(element.as_ref()), true);
        }
        let feed = match ty {
            Some(ValueType::Sequence(of)) if !matches!(**of, ValueType::Map(..)) => {
                self.sequence(&value.name, of, optional)?
            }
            Some(ValueType::Sequence(_) | ValueType::Map(..)) => self.map(&value.name)?,
            _ => match self.take(&value.name) {
                Some(tensor) => match ty.and_then(|ty| misfit(ty, tensor)) {
                    Some(why) => return Err(why),
                    None => Some(RunValue::Tensor(tensor.clone())),
                },
                None => None,
            },
        };
        match feed {
            None if optional => Ok(Some(RunValue::Empty)),
            None if value.initializer().is_some() => Ok(None),
            None => Err("is missing".into()),
            feed => Ok(feed),
        }
    }

    fn sequence(
        &mut self,
        name: &str,
        of: &ValueType,
        optional: bool,
    ) -> Result<Option<RunValue>, String> {
        if self.take(name).is_some() {
            return Err(format!("is a sequence; its elements are {}", first_elements(name)));
        }
        let mut list = Vec::new();
        while let Some(element) = self.take(&parts::element(name, list.len())) {
            refuse!(let Some(why) = misfit(of, element) => "{why} as element {}", list.len());
            list.push(element.clone());
        }
        let later = self.inputs.keys().find(|key| {
            let number = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
            let number = number.and_then(|n| n.parse::<usize>().ok());
            number.is_some() && !self.used.contains(key.as_str())
        });
        if let Some(later) = later {
            self.used.insert(later);
            let count = list.len();
            return Err(format!("has `{}`, but no element {count} before it", shown(later)));
        }
        // A sequence without elements has no arrays.
        Ok((!list.is_empty() || !optional).then(|| RunValue::sequence(list)))
    }

    fn map(&mut self, name: &str) -> Result<Option<RunValue>, String> {
        let (keys, values) = (self.take(&parts::keys(name)), self.take(&parts::values(name)));
        let (Some(keys), Some(values)) = (keys, values) else {
            let (keys, values) = (shown(&parts::keys(name)), shown(&parts::values(name)));
            return Err(format!("is a map; its arrays are `{keys}` and `{values}`"));
        };
        let map = Map::new(keys, values);
        let map = map.map_err(|_| format!("cannot be made of {keys:?} and {values:?}"))?;
        Ok(Some(RunValue::Map(std::sync::Arc::new(map))))
    }
}

fn first_elements(name: &str) -> String {
    let [a, b] = [0, 1].map(|i| shown(&parts::element(name, i)));
    format!("`{a}`, `{b}` and so on")
}

fn listed(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 8;
    let quoted: Vec<String> =
        names.iter().take(SHOWN_MAX).map(|n| format!("`{}`", shown(n))).collect();
    let more = if names.len() > SHOWN_MAX { ", ..." } else { "" };
    format!("{}{more}", quoted.join(", "))
}

/// How `tensor` contradicts the declared type.
fn misfit(ty: &ValueType, tensor: &Tensor) -> Option<String> {
    let ValueType::Tensor { dtype, shape } = ty else {
        return Some(format!("is declared as {ty}, which cannot be given"));
    };
    if dtype.is_some_and(|d| d != tensor.dtype()) {
        return Some(format!("must be {ty}, found {tensor:?}"));
    }
    let shape = shape.as_ref()?;
    let fits = |(dim, size): (&Dim, &usize)| dim.known().is_none_or(|n| n == *size as i64);
    if shape.len() != tensor.rank() || !shape.iter().zip(tensor.dims()).all(fits) {
        return Some(format!("must be {ty}, found {tensor:?}"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::text::parse_graph;

    fn given(inputs: &str, names: &[&str]) -> Result<Vec<&'static str>, String> {
        let text = format!("g ({inputs}) => (float[2] z) {{ }}");
        let graph = parse_graph(&text).unwrap();
        let arrays = names.iter().map(|n| ((*n).to_owned(), Tensor::vector(vec![1f32, 2.0])));
        let found = items(&graph, &arrays.collect()).map_err(|e| e.0[0].message.clone())?;
        Ok(found.iter().map(|item| item.as_ref().map_or("nothing", RunValue::kind)).collect())
    }

    #[test]
    fn sequences_have_an_array_for_each_element() {
        let xs = "seq(float[n]) xs, float[2] z";
        assert_eq!(given(xs, &["xs.0", "xs.1", "z"]).unwrap(), ["a sequence", "a tensor"]);
        assert_eq!(given(xs, &["z"]).unwrap(), ["a sequence", "a tensor"], "an empty one");
        let gap = given(xs, &["xs.0", "xs.2", "z"]).unwrap_err();
        assert_eq!(gap, "input `xs` has `xs.2`, but no element 1 before it");
        let whole = given(xs, &["xs", "z"]).unwrap_err();
        assert!(whole.contains("its elements are `xs.0`, `xs.1` and so on"), "{whole}");
        let wrong = given("seq(float[3]) xs, float[2] z", &["xs.0", "z"]).unwrap_err();
        assert!(wrong.contains("as element 0"), "{wrong}");
    }

    #[test]
    fn optionals_may_be_left_out() {
        let x = "optional(float[2]) x, float[2] z";
        assert_eq!(given(x, &["x", "z"]).unwrap(), ["a tensor", "a tensor"]);
        assert_eq!(given(x, &["z"]).unwrap(), ["an empty optional", "a tensor"]);
        let xs = "optional(seq(float[2])) xs, float[2] z";
        assert_eq!(given(xs, &["xs.0", "z"]).unwrap(), ["a sequence", "a tensor"]);
        assert_eq!(given(xs, &["z"]).unwrap(), ["an empty optional", "a tensor"]);
        assert_eq!(given("float[2] z", &[]).unwrap_err(), "input `z` is missing");
    }
}
