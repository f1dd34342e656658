//! Categories and labels: looked up, replaced, spread over columns.

use super::scores::strings;
use crate::call::{KernelCall, KernelRow, integers, one, raw};
use crate::cells::{CellWidth, celled};
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, stored};
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Tensor};
use std::collections::HashMap;

pub(crate) const ROWS: &[KernelRow] = &[
    raw("CategoryMapper", category_mapper).in_domain(super::DOMAIN),
    raw("LabelEncoder", label_encoder_of_classes).in_domain(super::DOMAIN).until(1),
    raw("LabelEncoder", label_encoder).in_domain(super::DOMAIN).since(2),
    raw("OneHotEncoder", one_hot_encoder).in_domain(super::DOMAIN),
];

/// A list among the attributes `keys_*`, `values_*` or `default_*`, as a tensor.
fn listed(call: &KernelCall, prefix: &str) -> Outcome<Option<Tensor>> {
    for kind in ["tensor", "strings", "int64s", "floats", "string", "int64", "float"] {
        let found = match call.attr(&format!("{prefix}_{kind}")) {
            None => continue,
            Some(Attr::Tensor(x)) => x.reshaped([x.len()])?,
            Some(Attr::Strs(list)) => strings(list.clone())?,
            Some(Attr::Ints(list)) => Tensor::vector(list.clone()),
            Some(Attr::Floats(list)) => Tensor::vector(list.clone()),
            Some(Attr::Str(text)) => strings(vec![text.clone()])?,
            Some(Attr::Int(x)) => Tensor::vector(vec![*x]),
            Some(Attr::Float(x)) => Tensor::vector(vec![*x]),
            Some(_) => return Err(Fault::invalid(format!("`{prefix}_{kind}` has a wrong type"))),
        };
        return Ok(Some(found));
    }
    Ok(None)
}

/// What the operator says where neither a value nor a default is given.
fn usual(dtype: DataType) -> Outcome<Tensor> {
    match dtype {
        DataType::String => strings(vec![Bytes::from_static(b"_Unused")]),
        DataType::Int64 => Ok(Tensor::vector(vec![-1i64])),
        dtype => stored(dtype, &[1], vec![if dtype.is_float() { -0.0 } else { -1.0 }]),
    }
}

/// The value of the first equal key. NaN equals itself, and zeros of both signs are one.
fn label_encoder(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let missing = || Fault::invalid("the keys or the values are missing");
    let keys = listed(call, "keys")?.ok_or_else(missing)?;
    let values = listed(call, "values")?.ok_or_else(missing)?;
    refuse!(keys.len() != values.len() || keys.dtype() != x.dtype() =>
        "{x:?}, keys {keys:?} and {values:?} do not fit");
    // A default of another type than the values belongs to another pairing.
    let own = |kind: &str| call.attr(&format!("default_{kind}")).is_some();
    let named = match values.dtype() {
        _ if own("tensor") => true,
        DataType::String => own("string"),
        DataType::Int64 => own("int64"),
        DataType::Float => own("float"),
        _ => false,
    };
    let default = if named { listed_as(call, values.dtype())? } else { None };
    let default = default.map_or_else(|| usual(values.dtype()), Ok)?;
    replaced(call, &keys, &values, &default)
}

/// The default of this type: as a tensor, or in the attribute of the type.
fn listed_as(call: &KernelCall, dtype: DataType) -> Outcome<Option<Tensor>> {
    let name = match (call.attr("default_tensor"), dtype) {
        (Some(Attr::Tensor(x)), _) if x.dtype() == dtype && x.len() == 1 => {
            return Ok(Some(x.reshaped([1])?));
        }
        (_, DataType::String) => "default_string",
        (_, DataType::Int64) => "default_int64",
        _ => "default_float",
    };
    Ok(match call.attr(name) {
        Some(Attr::Str(text)) => Some(strings(vec![text.clone()])?),
        Some(Attr::Int(x)) => Some(Tensor::vector(vec![*x])),
        Some(Attr::Float(x)) if dtype == DataType::Float => Some(Tensor::vector(vec![*x])),
        _ => None,
    })
}

/// Every element of the input by its key.
fn replaced(
    call: &KernelCall,
    keys: &Tensor,
    values: &Tensor,
    default: &Tensor,
) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let places = found_in(x, keys)?;
    call.room(values.dtype(), x.dims())?;
    celled!(values.dtype(), T => {
        let (all, other) = (<T as CellWidth>::load(values), <T as CellWidth>::load(default));
        let pick = |place: Option<usize>| place.map_or(other[0].clone(), |at| all[at].clone());
        let cells = places.into_iter().map(pick).collect();
        one(<T as CellWidth>::store(values.dtype(), x.dims().to_vec(), cells)?)
    })
}

/// Where each element of `x` stands first among the keys.
pub(super) fn found_in(x: &Tensor, keys: &Tensor) -> Outcome<Vec<Option<usize>>> {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let texts = |x: &Tensor| -> Outcome<Vec<Vec<u8>>> {
        if let Some(list) = x.as_strings() {
            return Ok(list.iter().map(|s| s.to_vec()).collect());
        }
        if let Some(list) = x.to_i64s() {
            return Ok(list.iter().map(|v| v.to_le_bytes().to_vec()).collect());
        }
        let bits = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 }.to_bits();
        Ok(reals(x)?.into_iter().map(|v| bits(v).to_le_bytes().to_vec()).collect())
    };
    for (i, key) in texts(keys)?.into_iter().enumerate() {
        places.entry(key).or_insert(i);
    }
    Ok(texts(x)?.iter().map(|v| places.get(v).copied()).collect())
}

fn list<'a>(call: &KernelCall<'a>, name: &str) -> Outcome<&'a [Bytes]> {
    match call.attr(name) {
        Some(Attr::Strs(list)) => Ok(list),
        None => Err(Fault::invalid(format!("attribute `{name}` is missing"))),
        Some(_) => Err(Fault::invalid(format!("attribute `{name}` has the wrong type"))),
    }
}

/// Strings become integers, integers strings; `pairs` are both sides.
fn exchanged(call: &KernelCall, words: &[Bytes], numbers: Vec<i64>) -> Outcome<Vec<Tensor>> {
    refuse!(words.len() != numbers.len() => "there are not as many strings as integers");
    let (words, numbers) = (strings(words.to_vec())?, Tensor::vector(numbers));
    if call.x(0)?.dtype() == DataType::String {
        let default = Tensor::vector(vec![call.int("default_int64", -1)?]);
        return replaced(call, &words, &numbers, &default);
    }
    let default = call.string("default_string", "_Unused")?;
    let default = strings(vec![Bytes::copy_from_slice(default.as_bytes())])?;
    replaced(call, &numbers, &words, &default)
}

/// The first version: a class's number is its place.
fn label_encoder_of_classes(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let classes = list(call, "classes_strings")?;
    exchanged(call, classes, (0..classes.len() as i64).collect())
}

fn category_mapper(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let numbers = call.ints("cats_int64s")?;
    let numbers = numbers.ok_or_else(|| Fault::invalid("attribute `cats_int64s` is missing"))?;
    exchanged(call, list(call, "cats_strings")?, numbers.to_vec())
}

/// A column for each category, of numbers without their fractions.
fn one_hot_encoder(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let categories = match x.as_strings() {
        Some(_) => strings(list(call, "cats_strings")?.to_vec())?,
        None => {
            let missing = || Fault::invalid("attribute `cats_int64s` is missing");
            Tensor::vector(call.ints("cats_int64s")?.ok_or_else(missing)?.to_vec())
        }
    };
    let whole = match x.dtype().is_float() {
        true => Tensor::from_vec(x.dims(), reals(x)?.iter().map(|v| *v as i64).collect()),
        false if x.as_strings().is_some() => x.clone(),
        false => Tensor::from_vec(x.dims(), integers(x)?),
    };
    let places = found_in(&whole, &categories)?;
    let dims = [x.dims(), &[categories.len()]].concat();
    let mut y = vec![0f32; call.room(DataType::Float, &dims)?];
    let zeros = call.flag("zeros", true)?;
    for (place, columns) in places.iter().zip(y.chunks_mut(categories.len().max(1))) {
        match place {
            Some(place) => columns[*place] = 1.0,
            None if zeros => {}
            None => return Err(Fault::invalid("an element is none of the categories")),
        }
    }
    one(Tensor::from_vec(dims, y))
}
