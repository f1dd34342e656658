//! The objects of an archive as values of the machine: modules with their paths, parameters as initializers.

use super::loaded::join;
use super::run::Interpreter;
use crate::archive::pickle::{Object, Pickled};
use crate::archive::storage::{Quantizer, StoredTensor};
use crate::diag::{Code, refuse, shown};
use crate::machine::{Instance, Item, Result};
use crate::outputs::key_word;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::Tensor;
use std::rc::Rc;

/// Objects inside each other.
const DEPTH_MAX: usize = 256;

impl Interpreter<'_, '_> {
    /// An object of the archive. `path` is where it is in the tree of modules, and names its tensors.
    pub(super) fn loaded(&self, from: &Pickled, path: &str) -> Result<Item> {
        self.load(from, path, 0)
    }

    fn load(&self, from: &Pickled, path: &str, depth: usize) -> Result<Item> {
        refuse!(depth > DEPTH_MAX =>
            self.machine.problem(Code::SourceLimit, format!("More than {DEPTH_MAX} objects are inside each other.")));
        let at = |i: usize| join(path, &i.to_string());
        let all = |items: &[Pickled]| {
            let items = items.iter().enumerate();
            items.map(|(i, item)| self.load(item, &at(i), depth + 1)).collect::<Result<Vec<_>>>()
        };
        Ok(match from {
            Pickled::None => Item::None,
            Pickled::Bool(_) | Pickled::Int(_) | Pickled::Float(_)
                if self.states.types.contains_key(path) =>
            {
                self.states.number(self.machine, path, from)?.unwrap_or(Item::None)
            }
            Pickled::Bool(x) => Item::Bool(*x),
            Pickled::Int(x) => Item::Int(*x),
            Pickled::Float(x) => Item::Float(*x),
            Pickled::Complex(re, im) => Item::Complex(*re, *im),
            Pickled::Text(x) => Item::Text(x.clone()),
            Pickled::Device(x) => Item::Device(x.clone()),
            Pickled::Tuple(items) => Item::tuple(all(items)?),
            Pickled::List(cell) => {
                let key = Rc::as_ptr(cell).cast::<u8>();
                let item = self.shared(key, || Ok(Item::list(all(&cell.borrow())?)))?;
                self.states.name(&item, path, "list");
                item
            }
            Pickled::Dict(cell) => {
                let key = Rc::as_ptr(cell).cast::<u8>();
                let item = self.shared(key, || {
                    let pair = |(k, v): &(Pickled, Pickled)| {
                        let key = self.load(k, "", depth + 1)?;
                        let Some(word) = key_word(&key) else {
                            let (name, kind) = (shown(path), k.kind());
                            let message = format!("The dict `{name}` has a key that is {kind}.");
                            return Err(self.unsupported(message));
                        };
                        Ok((key, self.load(v, &join(path, &word), depth + 1)?))
                    };
                    Ok(Item::dict(cell.borrow().iter().map(pair).collect::<Result<_>>()?))
                })?;
                self.states.name(&item, path, "dict");
                item
            }
            Pickled::Tensor(stored) => self.tensor(stored, path, "tensor")?,
            Pickled::Object(object) => self.object(object, path, depth)?,
            other => {
                return Err(self.unsupported(format!("`{}` is {}.", shown(path), other.kind())));
            }
        })
    }

    fn shared(&self, key: *const u8, load: impl FnOnce() -> Result<Item>) -> Result<Item> {
        if let Some(known) = self.loaded.containers.borrow().get(&key) {
            return Ok(known.clone());
        }
        let item = load()?;
        self.loaded.containers.borrow_mut().insert(key, item.clone());
        Ok(item)
    }

    fn object(&self, object: &Rc<Object>, path: &str, depth: usize) -> Result<Item> {
        if let Some(known) = self.loaded.objects.borrow().get(&Rc::as_ptr(object)) {
            return Ok(Item::Object(known.clone()));
        }
        let class = object.class.clone();
        if let (Some(value), Some(found)) =
            (object.arguments.first(), self.library.find_class(&class)?)
            && let Some(item) = self.member_of_value(&class, &found, value)?
        {
            return Ok(item);
        }
        let instance = Rc::new(Instance::new(&class, path));
        self.loaded.objects.borrow_mut().insert(Rc::as_ptr(object), instance.clone());
        let state = object.state.borrow().clone();
        match state {
            None => {}
            Some(Pickled::Dict(cell)) if !self.has_setstate(&class)? => {
                let items = cell.borrow();
                // The order of a state dict: a module's own tensors come before those of modules inside.
                let (own, rest): (Vec<_>, Vec<_>) =
                    items.iter().partition(|(_, value)| matches!(value, Pickled::Tensor(_)));
                for (key, value) in own.into_iter().chain(rest) {
                    let Some(name) = key.text() else { continue };
                    let path = join(path, name);
                    let item = match value {
                        Pickled::Tensor(stored) => {
                            self.tensor(stored, &path, self.what(&class, name)?)?
                        }
                        value => self.load(value, &path, depth + 1)?,
                    };
                    instance.attributes.borrow_mut().insert(name.into(), item);
                }
            }
            Some(state) => {
                let state = self.load(&state, path, depth + 1)?;
                match self.method(&class, "__setstate__")? {
                    Some(method) => drop(self.called_method(&instance, &method, vec![state])?),
                    None => drop(instance.state.replace(Some(state))),
                }
            }
        }
        Ok(Item::Object(instance))
    }

    /// Whether an attribute of a module is a parameter or buffer.
    fn what(&self, class: &str, name: &str) -> Result<&'static str> {
        let Some(class) = self.library.find_class(class)? else { return Ok("attribute") };
        let is = |of: &[Rc<str>]| of.iter().any(|known| &**known == name);
        Ok(match (is(&class.parameters), is(&class.buffers)) {
            (true, _) => "parameter",
            (_, true) => "buffer",
            _ => "attribute",
        })
    }

    fn has_setstate(&self, class: &str) -> Result<bool> {
        Ok(self.method(class, "__setstate__")?.is_some())
    }

    /// A tensor as an initializer under its path; one that was loaded under another path is that one. A state is an
    /// input. Where the program sets it to another tensor, it is a tensor of its own.
    fn tensor(&self, stored: &Rc<StoredTensor>, path: &str, what: &'static str) -> Result<Item> {
        let is_own = self.states.types.get(path).is_some_and(|state| state.is_set);
        let loaded_tensor = self.loaded.tensors.borrow().get(&stored.place).cloned();
        if let Some(loaded_tensor) = loaded_tensor.filter(|_| !is_own) {
            self.states.name(&loaded_tensor, path, what);
            return Ok(loaded_tensor);
        }
        let b = self.machine.builder();
        let name = if path.is_empty() { "constant" } else { path };
        let tensor = stored.tensor.clone();
        let var = match self.states.input(self.machine, path, &tensor)? {
            Some(input) => input,
            None if matches!(what, "parameter" | "buffer") => self.machine.weight(name, tensor),
            None => b.parameter(name, tensor),
        };
        let var = match &stored.quantizer {
            Some(quantizer) => self.dequantized(var, quantizer)?,
            None => var,
        };
        let item = self.machine.tensor(var);
        self.states.name(&item, path, what);
        if !is_own {
            self.loaded.tensors.borrow_mut().insert(stored.place.clone(), item.clone());
        }
        Ok(item)
    }

    /// The numbers that quantized integers stand for.
    fn dequantized(&self, var: Var, quantizer: &Quantizer) -> Result<Var> {
        let b = self.machine.builder();
        let scales: Vec<f32> = quantizer.scales.iter().map(|s| *s as f32).collect();
        let dims = quantizer.axis.map_or_else(Vec::new, |_| vec![scales.len()]);
        let scale = b.constant(Tensor::from_vec(dims, scales));
        let points = match quantizer.axis {
            Some(_) => b.constant(Tensor::vector(quantizer.zero_points.clone())),
            None => b.constant(Tensor::scalar(quantizer.zero_points.first().copied().unwrap_or(0))),
        };
        let dtype = b.dtype_of(var).unwrap_or(onnxd_plugin_sdk::ir::DataType::Int8);
        let point = b.cast(points, dtype)?;
        let axis = quantizer.axis.map(|axis| axis as i64);
        b.dequantize_linear(var, scale).x_zero_point(point).axis(axis).one()
    }
}
