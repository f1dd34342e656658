//! Maps from labels to numbers, and tensors made of them.

use super::encode::found_in;
use super::scores::{Labels, strings, table};
use crate::call::{KernelCall, KernelRow, RunBody, control, integers};
use crate::cells::{CellWidth, celled};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::item::{Map, RunValue};
use crate::reals::reals;
use crate::shape::cast;
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    control("CastMap", cast_map).in_domain(super::DOMAIN),
    control("DictVectorizer", dict_vectorizer).in_domain(super::DOMAIN),
    control("ZipMap", zip_map).in_domain(super::DOMAIN),
];

/// The map that input 0 must be.
fn map(items: &[Option<RunValue>]) -> Outcome<&Map> {
    match items.first().and_then(Option::as_ref) {
        Some(RunValue::Map(map)) if map.rows().is_none() => Ok(map),
        Some(other) => Err(Fault::invalid(format!("{} where a map is needed", other.kind()))),
        None => Err(Fault::invalid("input 0 is missing")),
    }
}

fn one(y: Tensor) -> Outcome<Vec<RunValue>> {
    Ok(vec![RunValue::Tensor(y)])
}

/// A map for each row, from the labels to the numbers in it.
fn zip_map(call: &KernelCall, _: &[Option<RunValue>], _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let x = call.x(0)?;
    let (rows, columns) = table(x)?;
    let labels = Labels::from_call(call, "classlabels_int64s")?.into_tensor();
    refuse!(labels.len() != columns => "{} labels for the {columns} columns of {x:?}", labels.len());
    call.room(x.dtype(), &[rows, columns])?;
    Ok(vec![RunValue::Map(Map::new(&labels, &x.reshaped([rows, columns])?)?.into())])
}

/// The values of the keys of a vocabulary, zero or empty where the map has none.
fn dict_vectorizer(
    call: &KernelCall,
    items: &[Option<RunValue>],
    _: &mut RunBody,
) -> Outcome<Vec<RunValue>> {
    let map = map(items)?;
    let words = match (call.attr("string_vocabulary"), call.ints("int64_vocabulary")?) {
        (Some(Attr::Strs(list)), _) if !list.is_empty() => strings(list.clone())?,
        (_, Some(list)) => Tensor::vector(list.to_vec()),
        _ => return Err(Fault::invalid("it has no vocabulary")),
    };
    refuse!(words.dtype() != map.keys().dtype() =>
        "the keys are {}, the vocabulary is {}", map.keys().dtype(), words.dtype());
    let places = found_in(&words, map.keys())?;
    let (values, dims) = (map.values(), vec![1, words.len()]);
    call.room(values.dtype(), &dims)?;
    celled!(values.dtype(), T => {
        let cells = <T as CellWidth>::load(values);
        let pick = |place: &Option<usize>| place.map_or_else(<T as CellWidth>::blank, |at| cells[at].clone());
        one(<T as CellWidth>::store(values.dtype(), dims, places.iter().map(pick).collect())?)
    })
}

/// The values in the order of their keys, or at the places that the keys name.
fn cast_map(
    call: &KernelCall,
    items: &[Option<RunValue>],
    _: &mut RunBody,
) -> Outcome<Vec<RunValue>> {
    let map = map(items)?;
    let (dtype, blank): (_, &'static [u8]) = match call.string("cast_to", "TO_FLOAT")? {
        "TO_FLOAT" => (DataType::Float, b""),
        "TO_INT64" => (DataType::Int64, b""),
        // What ONNX Runtime fills with.
        "TO_STRING" => (DataType::String, b"0.f"),
        other => return Err(Fault::invalid(format!("cast_to `{other}` is not defined"))),
    };
    let values = converted(map.values(), dtype)?;
    let places: Vec<Option<usize>> = match call.string("map_form", "DENSE")? {
        "DENSE" => (0..values.len()).map(Some).collect(),
        "SPARSE" => {
            let size = dims::size(call.int("max_map", 1)?)?;
            call.room(dtype, &[size])?;
            let keys = integers(map.keys())?;
            refuse!(let Some(key) = keys.iter().find(|k| **k < 0) => "{key} is no place of a sparse map");
            let mut places = vec![None; size];
            for (i, key) in keys.iter().enumerate() {
                if let Some(place) = usize::try_from(*key).ok().and_then(|k| places.get_mut(k)) {
                    *place = Some(i);
                }
            }
            places
        }
        other => return Err(Fault::invalid(format!("map_form `{other}` is not defined"))),
    };
    call.room(dtype, &[1, places.len()])?;
    if let Some(texts) = values.as_strings() {
        let pick =
            |place: &Option<usize>| place.map_or(Bytes::from_static(blank), |i| texts[i].clone());
        return one(Tensor::strings(vec![1, places.len()], places.iter().map(pick).collect())?);
    }
    celled!(dtype, T => {
        let cells = <T as CellWidth>::load(&values);
        let pick = |place: &Option<usize>| place.map_or_else(<T as CellWidth>::blank, |at| cells[at].clone());
        one(<T as CellWidth>::store(dtype, vec![1, places.len()], places.iter().map(pick).collect())?)
    })
}

/// Numbers become text with six decimals, text becomes the number it spells.
fn converted(x: &Tensor, dtype: DataType) -> Outcome<Tensor> {
    match (x.as_strings(), dtype) {
        (Some(_), DataType::String) => Ok(x.clone()),
        (None, DataType::String) => {
            let texts = reals(x)?.iter().map(|v| Bytes::from(format!("{v:.6}"))).collect();
            Ok(Tensor::strings(x.dims().to_vec(), texts)?)
        }
        _ => cast(x, dtype),
    }
}
