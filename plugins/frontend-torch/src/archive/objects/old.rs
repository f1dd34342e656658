//! Archives of torch 1.0 to 1.2: the tree of modules is JSON, and the same objects are made of it.

use super::super::pickle::{self, Context, Pickled};
use super::super::storage::{Quantizer, StorageSource, Storages, StoredTensor};
use super::super::zip::Archive;
use super::super::{damaged, over_limit, unsupported};
use crate::diag::{Diagnostic, refuse};
use onnxd_plugin_sdk::ir::DataType;
use serde_json::Value;
use std::rc::Rc;

/// Bytes of the JSON, of which some is kept for each.
const JSON_MAX: usize = 32 << 20;

/// The tensors of `model.json`, which is what `CONSTANTS.c0` counts.
pub(super) fn tensors(archive: &Archive) -> Result<Vec<Rc<StoredTensor>>, Diagnostic> {
    let storages = Storages::new(StorageSource::Archive(archive, ""), "");
    table(&model(archive)?, &storages)
}

fn table(model: &Value, storages: &Storages) -> Result<Vec<Rc<StoredTensor>>, Diagnostic> {
    list(model, "tensors").iter().map(|tensor| stored(tensor, storages)).collect()
}

fn model(archive: &Archive) -> Result<Value, Diagnostic> {
    let bytes = archive.read("model.json")?;
    refuse!(bytes.len() > JSON_MAX => over_limit(format!("`model.json` has more than {JSON_MAX} bytes")));
    serde_json::from_slice(&bytes).map_err(|e| damaged(format!("`model.json`: {e}")))
}

/// The module and the table of all tensors.
pub(super) fn read(archive: &Archive) -> Result<(Pickled, Vec<Rc<StoredTensor>>), Diagnostic> {
    let model = model(archive)?;
    let storages = Storages::new(StorageSource::Archive(archive, ""), "");
    let table = table(&model, &storages)?;
    let attributes = match archive.has("attributes.pkl") {
        true => {
            let context = Context {
                storages: Some(&storages),
                table: &table,
                signed: integer(&model["protoVersion"])? == 2,
                ..Context::default()
            };
            let all = pickle::read(&archive.read("attributes.pkl")?, &context)?.checked()?;
            all.items().ok_or_else(|| damaged("`attributes.pkl` is no tuple"))?
        }
        false => Vec::new(),
    };
    let root = module(&model["mainModule"], &table, &attributes)?;
    Ok((root, table))
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

/// An integer, which JSON of protobuf writes as text, and leaves out when it is 0.
fn integer(value: &Value) -> Result<i64, Diagnostic> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
    .ok_or_else(|| damaged(format!("`model.json` has `{value}` in place of an integer")))
}

fn size(value: &Value) -> Result<usize, Diagnostic> {
    let number = integer(value)?;
    usize::try_from(number).map_err(|_| damaged(format!("`model.json` has a size of {number}")))
}

fn stored(tensor: &Value, storages: &Storages) -> Result<Rc<StoredTensor>, Diagnostic> {
    let word = tensor["dataType"].as_str().unwrap_or("FLOAT");
    let dtype = match word {
        "FLOAT" => DataType::Float,
        "DOUBLE" => DataType::Double,
        "FLOAT16" => DataType::Float16,
        "INT64" => DataType::Int64,
        "INT32" => DataType::Int32,
        "INT16" => DataType::Int16,
        "INT8" => DataType::Int8,
        "UINT8" | "BYTE" => DataType::Uint8,
        "BOOL" => DataType::Bool,
        _ => return Err(unsupported(format!("the archive has tensors of type `{word}`"))),
    };
    let key = tensor["data"]["key"].as_str();
    let key = key.ok_or_else(|| damaged("`model.json` has a tensor without data"))?;
    let numbers = |key| list(tensor, key).iter().map(size).collect::<Result<Vec<_>, _>>();
    let (sizes, strides) = (numbers("dims")?, numbers("strides")?);
    let (offset, storage) = (size(&tensor["offset"])?, storages.storage(key, dtype, None)?);
    if tensor["isQuantized"] != true {
        return storages.view(&storage, offset, &sizes, &strides);
    }
    let scale = tensor["scale"].as_f64();
    let scale =
        scale.ok_or_else(|| damaged("`model.json` has a quantized tensor without scale"))?;
    let zero_points = vec![integer(&tensor["zeroPoint"])?];
    let quantizer = Quantizer { scales: vec![scale], zero_points, axis: None };
    storages.quantized(&storage, (offset, &sizes, &strides), quantizer)
}

/// A module with its parameters, attributes and sub-modules as attributes. JSON is never deep enough to overflow.
fn module(
    of: &Value,
    table: &[Rc<StoredTensor>],
    attributes: &[Pickled],
) -> Result<Pickled, Diagnostic> {
    let name = |item: &Value| {
        let name = item["name"].as_str().map(|name| Pickled::Text(name.into()));
        name.ok_or_else(|| damaged("`model.json` has an attribute without name"))
    };
    let missing = || damaged("`model.json` refers to a tensor or attribute that the file has not");
    if !of["getStateAttributeId"].is_null() {
        let what = "a module of torch before 1.3 has a `__getstate__` of its own";
        return Err(unsupported(what).help("Save the module again with a newer torch."));
    }
    let mut state = Vec::new();
    for parameter in list(of, "parameters") {
        let tensor = table.get(size(&parameter["tensorId"])?).ok_or_else(missing)?;
        state.push((name(parameter)?, Pickled::Tensor(tensor.clone())));
    }
    for attribute in list(of, "attributes") {
        let value = match integer(&attribute["id"])? {
            // Not set when it was saved.
            ..0 => Pickled::None,
            id => attributes.get(id as usize).cloned().ok_or_else(missing)?,
        };
        state.push((name(attribute)?, value));
    }
    for inner in list(of, "submodules") {
        state.push((name(inner)?, module(inner, table, attributes)?));
    }
    let object = Pickled::object(class(&of["torchscriptArena"]["key"]), Vec::new());
    if let Pickled::Object(object) = &object {
        object.state.replace(Some(Pickled::dict(state)));
    }
    Ok(object)
}

/// The class that stands for a file of code: `code/net_sub.py` has the methods of `__torch__.net_sub.Module`.
fn class(key: &Value) -> String {
    let file = key.as_str().and_then(|key| key.strip_prefix("code/")?.strip_suffix(".py"));
    match file {
        Some(file) => format!("__torch__.{}.Module", file.replace('/', ".")),
        None => "__torch__.Module".to_owned(),
    }
}
