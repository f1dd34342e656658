//! What a value of a graph holds while it runs: a tensor, a sequence of tensors, a map, or the empty
//! optional. An optional that has an element is that element.

use crate::cells::take;
use crate::fault::{Fault, Outcome};
use crate::parts;
use onnxd_ir::Tensor;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum RunValue {
    Tensor(Tensor),
    Sequence(Arc<Vec<Tensor>>),
    Map(Arc<Map>),
    /// The optional without an element.
    Empty,
}

impl RunValue {
    pub(crate) fn sequence(list: Vec<Tensor>) -> RunValue {
        RunValue::Sequence(Arc::new(list))
    }

    /// The tensor, if it is one.
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        match self {
            RunValue::Tensor(x) => Some(x),
            _ => None,
        }
    }

    /// The tensor that it must be.
    pub(crate) fn into_tensor(self) -> Outcome<Tensor> {
        let kind = self.kind();
        match self {
            RunValue::Tensor(x) => Ok(x),
            _ => Err(Fault::invalid(format!("{kind} where a tensor is needed"))),
        }
    }

    /// In words, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            RunValue::Tensor(_) => "a tensor",
            RunValue::Sequence(_) => "a sequence",
            RunValue::Map(map) if map.rows().is_some() => "a sequence of maps",
            RunValue::Map(_) => "a map",
            RunValue::Empty => "an empty optional",
        }
    }

    /// As tensors with names, which is how files and reports hold it: see [`crate::parts`]. Nothing of
    /// an empty optional.
    pub(crate) fn named(self, name: &str) -> Option<Vec<(String, Tensor)>> {
        match self {
            RunValue::Tensor(x) => Some(vec![(name.to_owned(), x)]),
            RunValue::Sequence(list) => {
                let named = list.iter().enumerate();
                Some(named.map(|(i, x)| (parts::element(name, i), x.clone())).collect())
            }
            RunValue::Map(map) => {
                let (keys, values) = (map.keys.clone(), map.values.clone());
                Some(vec![(parts::keys(name), keys), (parts::values(name), values)])
            }
            RunValue::Empty => None,
        }
    }

    /// Bytes it takes; tensors without elements also take some in a sequence.
    pub(crate) fn byte_len(&self) -> usize {
        match self {
            RunValue::Tensor(x) => x.byte_len(),
            RunValue::Sequence(list) => {
                list.iter().map(|x| x.byte_len() + size_of::<Tensor>()).sum()
            }
            RunValue::Map(map) => map.keys.byte_len() + map.values.byte_len(),
            RunValue::Empty => 0,
        }
    }
}

/// A map, or a sequence of maps with the same keys.
#[derive(Debug)]
pub(crate) struct Map {
    /// In ascending order, each once.
    keys: Tensor,
    /// One for each key, of a sequence of maps a row of them for each.
    values: Tensor,
}

impl Map {
    /// Sorts the columns of `values` by their keys; the last of equal keys stays.
    pub(crate) fn new(keys: &Tensor, values: &Tensor) -> Outcome<Map> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        let same = |a: usize, b: usize| match (keys.as_strings(), keys.to_i64s()) {
            (Some(texts), _) => texts[a] == texts[b],
            (_, Some(numbers)) => numbers[a] == numbers[b],
            _ => false,
        };
        match (keys.as_strings(), keys.to_i64s()) {
            (Some(texts), _) => order.sort_by_key(|i| (&texts[*i], *i)),
            (_, Some(numbers)) => order.sort_by_key(|i| (numbers[*i], *i)),
            _ => return Err(Fault::invalid(format!("{keys:?} are no keys of a map"))),
        }
        order.reverse();
        order.dedup_by(|a, b| same(*a, *b));
        order.reverse();
        let fits = keys.rank() == 1 && values.dims().last() == Some(&keys.len());
        let tables = match *values.dims() {
            [_] if fits => vec![order.clone()],
            [rows, _] if fits => vec![(0..rows).collect(), order.clone()],
            _ => return Err(Fault::invalid(format!("{keys:?} and {values:?} are no map"))),
        };
        Ok(Map { values: take(values, &tables, None)?, keys: take(keys, &[order], None)? })
    }

    pub(crate) fn keys(&self) -> &Tensor {
        &self.keys
    }

    pub(crate) fn values(&self) -> &Tensor {
        &self.values
    }

    /// How many maps a sequence has.
    pub(crate) fn rows(&self) -> Option<usize> {
        if self.values.rank() == 2 { Some(self.values.dims()[0]) } else { None }
    }
}

/// Items that must all be tensors.
pub(crate) fn tensors(items: Vec<RunValue>) -> Outcome<Vec<Tensor>> {
    items.into_iter().map(RunValue::into_tensor).collect()
}

/// Tensors as items.
pub(crate) fn items(tensors: Vec<Tensor>) -> Vec<RunValue> {
    tensors.into_iter().map(RunValue::Tensor).collect()
}
