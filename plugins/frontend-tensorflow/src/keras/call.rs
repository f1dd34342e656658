//! One call of a layer: element types, weights, masks and activations around its row.

use super::layer::{EXPORT, KerasLayer};
use super::runner::{CallArgs, Called, KerasRunner};
use super::values::{KerasItem, value};
use super::{dtype, masks, rows};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::{DataType, Dim, Tensor, ValueType};
use onnxd_plugin_sdk::lower::{Lowering, Value};

/// Keys of configurations that matter only to training, or are read elsewhere.
const WITHOUT_EFFECT: [&str; 12] = [
    "name", "trainable", "dtype", "seed", "batch_input_shape", "batch_shape", "build_input_shape",
    "quantization_config", "lora_rank", "lora_alpha", "activity_regularizer", "autocast",
];

/// Endings of such keys.
const ENDINGS: [&str; 3] = ["_initializer", "_regularizer", "_constraint"];

/// Layers that take tensors of floats as they are.
const NOT_CAST: [&str; 4] =
    ["Embedding", "ReversibleEmbedding", "LayerNormalization", "GroupNormalization"];

/// Layers whose weights stay in their own types.
const OWN_TYPES: [&str; 4] =
    ["BatchNormalization", "LayerNormalization", "GroupNormalization", "Normalization"];

/// Layers whose activation comes last.
const ACTIVATED: [&str; 15] = [
    "Dense", "EinsumDense", "Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose",
    "Conv3DTranspose", "DepthwiseConv1D", "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D",
    "LocallyConnected1D", "LocallyConnected2D", "Activation",
];

/// Further layers that cannot do without weights.
const WEIGHTED: [&str; 6] = [
    "BatchNormalization", "Embedding", "PositionEmbedding", "PReLU", "ReversibleEmbedding",
    "RMSNormalization",
];

/// Layers that version 2 computes in another way.
const CHANGED: [&str; 5] = [
    "Softmax", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D",
    "LayerNormalization",
];

impl KerasRunner<'_, '_> {
    /// Whether a layer is one that cannot be converted; then it is reported.
    pub(super) fn is_refused(&self, called: &Called<'_, '_, '_>) -> bool {
        let layer = called.layer;
        let Some(reason) = &layer.foreign else { return false };
        if self.refused.borrow_mut().insert(called.path.to_owned()) {
            let found = called.problem(Code::LayerUnsupported, format!("{reason}."));
            self.driver.report(found.help(EXPORT));
        }
        true
    }

    /// Hands a call to the row of its class.
    ///
    /// # Errors
    /// As [`KerasRunner::call`].
    pub(super) fn row(
        &self,
        called: &Called<'_, '_, '_>,
        call_arguments: CallArgs,
    ) -> Result<Vec<KerasItem>> {
        let layer = called.layer;
        let call_arguments = self.cast(layer, call_arguments)?;
        let call_arguments = masks::passed(self, layer, call_arguments);
        let weights = called.weights()?;
        let inputs: Vec<Value> =
            call_arguments.items().flat_map(KerasItem::leaves).map(KerasItem::value).collect();
        let mut named: Vec<(String, Value)> =
            call_arguments.named.iter().map(|(name, item)| (name.clone(), item.value())).collect();
        named.extend(self.config(layer));
        if !weights.is_empty() || WEIGHTED.contains(&layer.class.as_str()) || is_activated(layer) {
            named.push(("weights".to_owned(), weights.into()));
        }
        if CHANGED.contains(&layer.class.as_str()) {
            named.push(("is_keras2".to_owned(), Value::Bool(self.is_keras2)));
        }
        let place = called.place();
        let results = crate::ops::complex::lower(
            self.driver,
            Lowering {
                op: layer.class.clone(),
                layer: place,
                arguments: call_arguments.positional.iter().map(KerasItem::value).collect(),
                named,
                facts: facts(layer),
                results: vec![String::new()],
                ..Lowering::default()
            },
        );
        let mut items: Vec<KerasItem> = results.into_iter().flat_map(flat).collect();
        if ACTIVATED.contains(&layer.class.as_str()) {
            items = self.activated(called, items)?;
        }
        items = self.rounded(layer, items)?;
        // What a layer hands on has its name already, and outputs get theirs at the end.
        if let Some(KerasItem::Tensor(var, _)) = items.first()
            && !inputs.contains(&Value::Var(*var))
            && !self.outputs.borrow().contains(called.path)
        {
            self.builder().rename(*var, called.path);
        }
        masks::attached(called, &call_arguments, items)
    }

    /// Applies the activation that comes last.
    fn activated(
        &self,
        called: &Called<'_, '_, '_>,
        items: Vec<KerasItem>,
    ) -> Result<Vec<KerasItem>> {
        if let Some(part) = called.layer.part("activation") {
            return called.inner(part, CallArgs::one(KerasItem::of(items)));
        }
        let Some(Value::Text(name)) = self.activation(called.layer, "activation") else {
            return Ok(items);
        };
        let apply = |item: KerasItem| match item {
            KerasItem::Tensor(x, mask) => {
                let apply = |b: &_| rows::activation::named(b, &name, x);
                match self.builder().in_layer(called.place(), apply) {
                    Ok(y) => KerasItem::Tensor(y, mask),
                    Err(found) => {
                        self.driver.report(found);
                        KerasItem::Hole
                    }
                }
            }
            other => other,
        };
        Ok(items.into_iter().map(apply).collect())
    }

    /// The configuration of a layer as a row takes it.
    pub(crate) fn config(&self, layer: &KerasLayer) -> Vec<(String, Value)> {
        let is_function = is_function(layer);
        let matters = |key: &str, json: &serde_json::Value| {
            if is_function {
                // Functions have no type of their own; one that is given says what to cast to.
                return key != "name" && !(key == "dtype" && json.is_null());
            }
            let is_applied = key == "activation" && ACTIVATED.contains(&layer.class.as_str());
            let idle =
                WITHOUT_EFFECT.contains(&key) || ENDINGS.iter().any(|end| key.ends_with(end));
            !idle && !is_applied
        };
        let config = layer.config.iter().filter(|(key, json)| matters(key, json));
        let read = |(key, json): (&String, &serde_json::Value)| {
            let found =
                if key.ends_with("activation") { self.activation(layer, key) } else { None };
            (key.clone(), found.unwrap_or_else(|| value(json)))
        };
        config.map(read).collect()
    }

    /// The name of an activation, if there is one. What it means has changed since version 2 for one of them. Code that
    /// is not in the file has a name that no activation has.
    pub(crate) fn activation(&self, layer: &KerasLayer, key: &str) -> Option<Value> {
        let json = layer.config.get(key).filter(|json| !json.is_null())?;
        let name = match json.get("config") {
            Some(config) => config.as_str().or_else(|| json.get("class_name")?.as_str()),
            None => json.as_str(),
        };
        Some(match name {
            Some("hard_sigmoid") if self.is_keras2 => rows::activation::OLD_HARD_SIGMOID.into(),
            name => name.unwrap_or("lambda").into(),
        })
    }

    /// Tensors of floats become of the type in which the layer computes, and all tensors that meet a kernel.
    pub(crate) fn cast(&self, layer: &KerasLayer, mut given: CallArgs) -> Result<CallArgs> {
        let to = dtype::computed(&layer.config);
        if !is_cast(layer) || !to.is_float() {
            return Ok(given);
        }
        let b = self.builder();
        let all = is_activated(layer);
        let mut cast = |item: KerasItem| match item {
            KerasItem::Tensor(x, mask) if b.dtype_of(x).is_some_and(|d| all || d.is_float()) => {
                let x = b.cast(x, to)?;
                Ok(KerasItem::Tensor(b.cast(x, dtype::kernel(to))?, mask))
            }
            other => Ok(other),
        };
        for item in given.positional.iter_mut().chain(given.named.iter_mut().map(|(_, item)| item))
        {
            *item = std::mem::replace(item, KerasItem::Hole).map(&mut cast)?;
        }
        Ok(given)
    }

    /// What a row gives, in the type in which the layer computes.
    pub(super) fn rounded(
        &self,
        layer: &KerasLayer,
        items: Vec<KerasItem>,
    ) -> Result<Vec<KerasItem>> {
        let to = dtype::computed(&layer.config);
        if !is_cast(layer) || dtype::kernel(to) == to {
            return Ok(items);
        }
        let b = self.builder();
        let round = |item: KerasItem| match item {
            KerasItem::Tensor(x, mask) if b.dtype_of(x) == Some(dtype::kernel(to)) => {
                Ok(KerasItem::Tensor(b.cast(x, to)?, mask))
            }
            other => Ok(other),
        };
        items.into_iter().map(round).collect()
    }

    /// The weights of a layer, which several calls share.
    ///
    /// # Errors
    /// Those of [`super::hdf5::Hdf5::tensor`].
    pub(crate) fn weights_of(&self, layer: &KerasLayer, path: &str) -> Result<Vec<Var>> {
        let computed = dtype::computed(&layer.config);
        let is_own = OWN_TYPES.contains(&layer.class.as_str()) || !computed.is_float();
        let to = (!is_own).then_some(computed);
        let places = layer.weights.iter().enumerate();
        let named = places.map(|(i, place)| {
            let role = super::weights::names::role(layer, place, i, self.is_keras2);
            self.weight_of(place, &format!("{path}/{role}"), to)
        });
        named.collect()
    }

    /// A weight; floats become of the type in which the layer computes.
    fn weight_of(&self, place: &str, name: &str, to: Option<DataType>) -> Result<Var> {
        let b = self.builder();
        let key = (place.to_owned(), to);
        // A weight that a closed sub-graph holds is not one of this graph.
        let held = |key| self.held.borrow().get(key).copied().filter(|v| b.type_of(*v).is_some());
        if let Some(var) = held(&key) {
            return Ok(var);
        }
        let damaged = |what: String| super::layer::damaged(what);
        let found = self.file.tensor(place)?;
        let tensor =
            found.ok_or_else(|| damaged(format!("The file has no tensor `{}`.", shown(place))))?;
        let steps: Vec<DataType> = match to.filter(|_| tensor.dtype().is_float()) {
            Some(to) => vec![to, dtype::kernel(to)],
            None => vec![],
        };
        let cast = |tensor: Tensor, to: &DataType| match tensor.dtype() == *to {
            true => Ok(tensor),
            false => tensor.cast(*to).map_err(|e| damaged(format!("`{}` {e}.", shown(place)))),
        };
        let is_constant = self.weights.borrow().is_none();
        let var = match is_constant {
            true => self.weight(name, steps.iter().try_fold(tensor, cast)?),
            // What is given later is given as the file has it.
            false => {
                let unsliced = (place.to_owned(), None);
                let var = held(&unsliced).unwrap_or_else(|| self.weight(name, tensor));
                self.held.borrow_mut().insert(unsliced, var);
                steps.iter().try_fold(var, |var, to| b.cast(var, *to))?
            }
        };
        self.held.borrow_mut().insert(key, var);
        Ok(var)
    }

    fn weight(&self, name: &str, tensor: Tensor) -> Var {
        let b = self.builder();
        let mut weights = self.weights.borrow_mut();
        let Some(weights) = weights.as_mut() else {
            return b.under("", |b| b.parameter(name, tensor));
        };
        let sizes: Vec<Dim> = tensor.dims().iter().map(|n| Dim::Known(*n as i64)).collect();
        let var = b.input(name, ValueType::tensor(tensor.dtype(), sizes));
        weights.push(var);
        var
    }

    /// An input of a model as it declares it: Keras casts what the model is called with, and adds or drops a last
    /// axis of size 1.
    pub(super) fn as_declared(&self, layer: &KerasLayer, item: KerasItem) -> Result<KerasItem> {
        let KerasItem::Tensor(mut x, mask) = item else { return Ok(item) };
        let b = self.builder();
        let Some((to, shape)) = super::inputs::declared(layer) else { return Ok(item) };
        if b.dtype_of(x).is_some_and(|found| found != to) && to != DataType::String {
            x = b.cast(x, to)?;
        }
        if let (Some(found), Some(shape)) = (b.shape_of(x), shape) {
            let is_one = |dim: Option<&Dim>| dim.is_some_and(|dim| dim.known() == Some(1));
            if found.len() == shape.len() + 1 && is_one(found.last()) {
                x = b.squeeze(x).axes([found.len() as i64 - 1]).one()?;
            } else if found.len() + 1 == shape.len() && is_one(shape.last()) {
                x = b.unsqueeze(x, [found.len() as i64])?;
            }
        }
        Ok(KerasItem::Tensor(x, mask))
    }
}

/// Whether a layer has a kernel, and an activation behind it.
fn is_activated(layer: &KerasLayer) -> bool {
    layer.class != "Activation" && ACTIVATED.contains(&layer.class.as_str())
}

/// Whether tensors that go into a layer become of its type.
fn is_cast(layer: &KerasLayer) -> bool {
    !layer.class.contains('.') && !NOT_CAST.contains(&layer.class.as_str())
}

fn is_function(layer: &KerasLayer) -> bool {
    layer.class.starts_with("ops.")
}

/// The type in which a layer computes; functions have none.
fn facts(layer: &KerasLayer) -> Vec<(String, Value)> {
    let computed = || ("dtype".to_owned(), dtype::word(dtype::computed(&layer.config)).into());
    (!is_function(layer)).then(computed).into_iter().collect()
}

/// Results one after the other.
fn flat(value: Value) -> Vec<KerasItem> {
    match value {
        Value::List(items) => items.into_iter().flat_map(flat).collect(),
        other => vec![other.into()],
    }
}
