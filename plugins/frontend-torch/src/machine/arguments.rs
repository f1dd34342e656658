//! Arguments of an operator, as its signature declares them and as a row of a table takes them.

use super::{Elements, Instance, Item, Machine, NumberKind, Result};
use crate::diag::{Code, shown};
use crate::schema::{ArgType, Default, Schema};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Value;
use std::rc::Rc;

/// Arguments that say where and how torch computes, but not what.
const WITHOUT_EFFECT: [&str; 20] = [
    "device", "layout", "pin_memory", "memory_format", "generator", "non_blocking",
    "requires_grad", "cudnn_enabled", "cudnn_enable", "benchmark", "deterministic", "allow_tf32",
    "sparse", "scale_grad_by_freq", "is_coalesced", "copy", "out", "dict", "antialias_mode",
    "use_fast_path",
];

/// Arguments by the names of the signature. `self` is called `input`, as Rust keeps that word.
pub(crate) type Bound = Vec<(&'static str, Item)>;

impl Machine<'_> {
    /// The arguments of a call, by the names of the signature; those left out have their defaults.
    pub(crate) fn bound(
        &self,
        schema: &'static Schema,
        positional: Vec<Item>,
        named: Vec<(Rc<str>, Item)>,
    ) -> Result<Bound> {
        let wrong = |what: String| {
            let message = format!("`{}` {what}.", shown(schema.name));
            self.problem(Code::LayerParameter, message)
        };
        let mut bound = Bound::with_capacity(schema.parameters.len());
        let is_tensor = |item: &Item| item.is_tensor() || item.items().is_some();
        let tensors =
            positional.iter().any(is_tensor) || named.iter().any(|(_, item)| is_tensor(item));
        let mut positional = positional.into_iter();
        let mut named = named;
        for parameter in &schema.parameters {
            let by_position = if parameter.named_only { None } else { positional.next() };
            let by_name = || {
                let at = named.iter().position(|(name, _)| &**name == parameter.name);
                at.map(|at| named.swap_remove(at).1)
            };
            let item = match by_position.or_else(by_name) {
                Some(item) => self.coerced(self.tensors(item, &parameter.ty)?, &parameter.ty),
                None => match &parameter.default {
                    Some(default) => self.coerced(default_item(default), &parameter.ty),
                    None if matches!(parameter.ty, ArgType::Optional(_)) => Item::None,
                    None => return Err(wrong(format!("lacks its argument `{}`", parameter.name))),
                },
            };
            // A number that a tracer followed is a tensor of rank 0.
            let traced = parameter.name == "self" || !tensors;
            let item = match (&parameter.ty, &item) {
                (ArgType::Tensor, Item::Int(_) | Item::Float(_) | Item::Bool(_)) if traced => {
                    self.tensor(self.var_of(&item)?)
                }
                _ => item,
            };
            let name = if parameter.name == "self" { "input" } else { parameter.name };
            bound.push((name, item));
        }
        // Old versions print arguments by position that were made keyword-only later.
        if positional.next().is_some() {
            return Err(wrong("has too many arguments".to_owned()));
        }
        if let Some((name, _)) = named.first() {
            return Err(wrong(format!("has no argument `{}`", shown(name))));
        }
        Ok(bound)
    }

    /// Numbers in a list of tensors, which a tracer followed, as tensors.
    fn tensors(&self, item: Item, kind: &ArgType) -> Result<Item> {
        let of_tensors = matches!(kind, ArgType::List(..)) && kind.holds_tensors();
        let number = |i: &Item| matches!(i, Item::Number(_)) || i.as_float().is_some();
        let Some(items) = item.items().filter(|all| of_tensors && all.iter().any(number)) else {
            return Ok(item);
        };
        let tensor = |i: Item| match number(&i) {
            true => Ok(self.tensor(self.var_of(&i)?)),
            false => Ok(i),
        };
        Ok(Item::list(items.into_iter().map(tensor).collect::<Result<_>>()?))
    }

    /// An argument as the parameter takes it.
    fn coerced(&self, item: Item, kind: &ArgType) -> Item {
        match (kind, item) {
            (ArgType::Optional(_), Item::None) => Item::None,
            (ArgType::Optional(kind), Item::Maybe(present, item)) => {
                Item::Maybe(present, Rc::new(self.coerced((*item).clone(), kind)))
            }
            (ArgType::Optional(kind), item) => self.coerced(item, kind),
            (ArgType::List(of, Some(n)), item)
                if item.items().is_none() && !matches!(item, Item::List(_)) =>
            {
                Item::list(vec![self.coerced(item, of); *n])
            }
            (ArgType::Float, Item::Int(x)) => Item::Float(x as f64),
            (ArgType::Float, Item::Bool(x)) => Item::Float(f64::from(u8::from(x))),
            (ArgType::Int, Item::Bool(x)) => Item::Int(i64::from(x)),
            (ArgType::Bool, Item::Int(x)) => Item::Bool(x != 0),
            // Numbers that are known stay numbers: they count less where types meet.
            (ArgType::Tensor, Item::Number(number)) => self.tensor(number.var),
            (_, Item::Maybe(_, item)) => (*item).clone(),
            (_, item) => item,
        }
    }

    /// Makes tensors of rank 0 of the numbers that a tracer wrote as such (`NumToTensor`).
    pub(crate) fn numbers_to_tensors(&self, schema: &Schema, bound: &mut Bound) -> Result<()> {
        for ((_, item), parameter) in bound.iter_mut().zip(&schema.parameters) {
            match &parameter.ty {
                ArgType::Tensor => *item = self.rank_0(item)?,
                ArgType::List(of, _) if **of == ArgType::Tensor => {
                    if let Some(items) = item.items() {
                        let all = items.iter().map(|item| self.rank_0(item));
                        *item = Item::list(all.collect::<Result<_>>()?);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The tensor of a number, in the type that torch keeps numbers in; another item as it is.
    fn rank_0(&self, item: &Item) -> Result<Item> {
        Ok(match item {
            Item::Float(x) => self.tensor(self.builder().constant(Tensor::scalar(*x))),
            Item::Int(_) | Item::Bool(_) | Item::Number(_) => self.tensor(self.var_of(item)?),
            other => other.clone(),
        })
    }

    /// The arguments as a row takes them.
    pub(crate) fn values(&self, bound: &[(&'static str, Item)]) -> Result<Vec<(String, Value)>> {
        let given = bound.iter().filter(|(name, _)| !WITHOUT_EFFECT.contains(name));
        given.map(|(name, item)| Ok(((*name).to_owned(), self.value(item)?))).collect()
    }

    pub(crate) fn value(&self, item: &Item) -> Result<Value> {
        let all = |items: &[Item]| items.iter().map(|i| self.value(i)).collect::<Result<Vec<_>>>();
        Ok(match item {
            Item::None => Value::None,
            Item::Bool(x) => Value::Bool(*x),
            Item::Int(x) => Value::Int(*x),
            Item::Float(x) => Value::Float(*x),
            Item::Complex(re, im) => Value::List(vec![Value::Float(*re), Value::Float(*im)]),
            Item::Text(x) | Item::Device(x) => Value::Text(x.to_string()),
            Item::Number(number) => Value::Var(number.var),
            Item::Tensor(_) => Value::Var(self.var_of(item)?),
            Item::List(cell) => {
                let elements = cell.borrow().clone();
                match elements {
                    Elements::Known(items) => Value::List(all(&items)?),
                    Elements::Sequence(var) | Elements::Numbers(var, _) => Value::Var(var),
                }
            }
            Item::Tuple(items) | Item::Record(_, items) => Value::List(all(items)?),
            Item::Member(_, _, value) | Item::Maybe(_, value) => self.value(value)?,
            Item::Hole => Value::Hole,
            Item::Object(object) => match &*object.state.borrow() {
                Some(state) => self.value(state)?,
                None => Value::Text(object.class.to_string()),
            },
            other => {
                let message = format!("{} cannot be the argument of an operator.", other.what());
                return Err(self.problem(Code::LayerUnsupported, message));
            }
        })
    }

    /// What a row gives, as the item that the signature declares.
    pub(crate) fn item(&self, value: Value, kind: &ArgType) -> Item {
        let number = |kind: &ArgType| match kind {
            ArgType::Int | ArgType::Scalar => Some(NumberKind::Int),
            ArgType::Float => Some(NumberKind::Float),
            ArgType::Bool => Some(NumberKind::Bool),
            _ => None,
        };
        match (value, kind) {
            (value, ArgType::Optional(kind)) => self.item(value, kind),
            (Value::None, _) => Item::None,
            (Value::Bool(x), _) => Item::Bool(x),
            (Value::Int(x), _) => Item::Int(x),
            (Value::Float(x), _) => Item::Float(x),
            (Value::Text(x), _) => Item::text(&x),
            (Value::Hole, _) => Item::Hole,
            (Value::Var(var), ArgType::List(..)) => Item::elements(Elements::Sequence(var)),
            (Value::Var(var), kind) => match number(kind) {
                Some(kind) => self.number(var, kind),
                None => self.tensor(var),
            },
            (Value::List(items), ArgType::List(of, _)) => {
                Item::list(items.into_iter().map(|v| self.item(v, of)).collect())
            }
            (Value::List(items), ArgType::Tuple(kinds)) => {
                let other = ArgType::Tensor;
                let kinds = kinds.iter().chain(std::iter::repeat(&other));
                Item::tuple(items.into_iter().zip(kinds).map(|(v, k)| self.item(v, k)).collect())
            }
            // An object of torch's own, such as packed weights: what it was made of.
            (Value::List(items), ArgType::Other(class)) if class.starts_with("__torch__.") => {
                let parts = items.into_iter().map(|v| self.item(v, &ArgType::Tensor)).collect();
                let object = Instance::new(class, "");
                object.state.replace(Some(Item::tuple(parts)));
                Item::Object(Rc::new(object))
            }
            (Value::List(items), _) => {
                Item::list(items.into_iter().map(|v| self.item(v, &ArgType::Tensor)).collect())
            }
        }
    }
}

pub(crate) fn default_item(default: &Default) -> Item {
    match default {
        Default::None => Item::None,
        Default::Bool(x) => Item::Bool(*x),
        Default::Int(x) => Item::Int(*x),
        Default::Float(x) => Item::Float(*x),
        Default::Text(x) => Item::text(x),
        Default::Ints(items) => Item::ints(items.iter().copied()),
        Default::Bools(items) => Item::list(items.iter().map(|x| Item::Bool(*x)).collect()),
        Default::Floats(items) => Item::list(items.iter().map(|x| Item::Float(*x)).collect()),
    }
}
