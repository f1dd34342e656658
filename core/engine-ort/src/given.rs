//! What a caller brings as values of ONNX Runtime: tensors, and sequences and maps, which are brought
//! as [`onnxd_eval::parts`] says.

use crate::refused;
use crate::value::fed;
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_eval::parts;
use onnxd_ir::{DataType, Element, Graph, Tensor, ValueId, ValueType};
use ort::value::{
    DynTensor, DynTensorValueType, DynValue, Map, PrimitiveTensorElementType, Sequence,
    Tensor as OrtTensor,
};
use std::collections::BTreeMap;
use std::fmt::Debug;

type Feeds = BTreeMap<String, Tensor>;

/// The inputs of a graph that are there; they fit its types.
pub(crate) fn inputs(graph: &Graph, feeds: &Feeds) -> Result<Vec<(String, DynValue)>, Diagnostic> {
    let mut found = Vec::with_capacity(graph.inputs().len());
    for id in graph.inputs() {
        if let Some(value) = input(graph, *id, feeds)? {
            found.push((graph[*id].name.clone(), value));
        }
    }
    Ok(found)
}

fn input(graph: &Graph, id: ValueId, feeds: &Feeds) -> Result<Option<DynValue>, Diagnostic> {
    let name = &graph[id].name;
    let (mut ty, mut optional) = (graph[id].ty.as_ref(), false);
    while let Some(ValueType::Optional(element)) = ty {
        (ty, optional) = (Some(element.as_ref()), true);
    }
    match ty {
        Some(ValueType::Map(..)) => map(name, feeds).map(Some),
        Some(ValueType::Sequence(of)) if matches!(**of, ValueType::Map(..)) => {
            Err(unlike(name, "a sequence of maps"))
        }
        Some(ValueType::Sequence(_)) => {
            let elements = (0..).map_while(|i| feeds.get(&parts::element(name, i)));
            let elements: Vec<DynTensor> =
                elements.map(element).collect::<Result<_, Diagnostic>>()?;
            match elements.is_empty() {
                true if optional => Ok(None),
                // Its interface takes the type of a sequence from its first element.
                true => Err(unlike(name, "a sequence without elements")),
                false => {
                    let made = Sequence::<DynTensorValueType>::new(elements);
                    made.map(|made| Some(made.into_dyn())).map_err(|e| refused(&e))
                }
            }
        }
        _ => feeds.get(name).map(fed).transpose(),
    }
}

fn unlike(name: &str, what: &str) -> Diagnostic {
    let text = format!("input `{}` is {what}, which ONNX Runtime is not given", shown(name));
    Diagnostic::new(Code::EngineRefused, text).help("Use `--engine builtin`.")
}

fn element(tensor: &Tensor) -> Result<DynTensor, Diagnostic> {
    fed(tensor)?.downcast::<DynTensorValueType>().map_err(|e| refused(&e))
}

fn map(name: &str, feeds: &Feeds) -> Result<DynValue, Diagnostic> {
    let both = feeds.get(&parts::keys(name)).zip(feeds.get(&parts::values(name)));
    let (keys, values) = both.ok_or_else(|| unlike(name, "a map without keys or values"))?;
    let other = || unlike(name, &format!("a map from {} to {}", keys.dtype(), values.dtype()));
    macro_rules! to_values {
        ($keys:expr) => {
            match values.dtype() {
                DataType::Float => made($keys, numbers::<f32>(values)),
                DataType::Double => made($keys, numbers::<f64>(values)),
                DataType::Int64 => made($keys, numbers::<i64>(values)),
                DataType::String => made($keys, texts(values)),
                _ => return Err(other()),
            }
        };
    }
    let map = match keys.dtype() {
        DataType::Int64 => to_values!(numbers::<i64>(keys)),
        DataType::String => to_values!(texts(keys)),
        _ => return Err(other()),
    };
    map.map_err(|e| refused(&e))
}

fn numbers<T: PrimitiveTensorElementType + Element + Debug>(
    tensor: &Tensor,
) -> Result<OrtTensor<T>, ort::Error> {
    let values = tensor.as_slice::<T>().map(std::borrow::Cow::into_owned).unwrap_or_default();
    OrtTensor::from_array((tensor.dims().to_vec(), values))
}

fn texts(tensor: &Tensor) -> Result<OrtTensor<String>, ort::Error> {
    let strings = tensor.as_strings().unwrap_or_default().iter();
    let strings: Vec<String> = strings.map(|s| String::from_utf8_lossy(s).into_owned()).collect();
    OrtTensor::from_string_array((tensor.dims().to_vec(), strings.as_slice()))
}

fn made<K, V>(
    keys: Result<OrtTensor<K>, ort::Error>,
    values: Result<OrtTensor<V>, ort::Error>,
) -> Result<DynValue, ort::Error>
where
    K: ort::value::IntoTensorElementType + Debug + Clone + std::hash::Hash + Eq + 'static,
    V: ort::value::IntoTensorElementType + Debug + Clone + 'static,
{
    Ok(Map::new_kv(keys?, values?)?.into_dyn())
}
