//! Calls of operators: which of them computes now, which reads what is known of a tensor, and which becomes nodes.

use super::alias::{View, ViewStep};
use super::arguments::Bound;
use super::kinds::as_traced;
use super::{CALL_WORK, GraphNumber, Item, Machine, NumberKind};
use super::{OPERATOR_WORK, Result, TEXT_BYTES};
use crate::aten::{nested, quantizer};
use crate::diag::{Code, shown};
use crate::schema::resolve::{ArgumentKind, resolve};
use crate::schema::{self, ArgType, Schema};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, ValueType};
use onnxd_plugin_sdk::lower::{Lowering, Value};
use std::rc::Rc;

/// Arguments by name.
pub(crate) type NamedArguments = Vec<(Rc<str>, Item)>;

impl Machine<'_> {
    /// Calls an operator (`aten::add`); `overload` says which one, where the source names it.
    ///
    /// # Errors
    /// What keeps the program from going on. What cannot be converted gives holes, and is reported at the end.
    pub(crate) fn call(
        &self,
        op: &str,
        overload: Option<&str>,
        positional: Vec<Item>,
        named: NamedArguments,
    ) -> Result<Item> {
        let arguments = || positional.iter().chain(named.iter().map(|(_, item)| item));
        if let Some(item) = self.computed_now(op, &positional, &named)? {
            return Ok(item);
        }
        if arguments().any(Item::has_hole) {
            self.reported(op, overload)?;
            return Ok(self.holes(op, overload));
        }
        let (schema, traced) = match overload {
            Some(overload) => (schema::find(op, overload), false),
            None if schema::overloads(op).is_empty() => (None, false),
            None => {
                let (schema, traced) = self.resolved(op, &positional, &named)?;
                (Some(schema), traced)
            }
        };
        match schema {
            Some(schema) if !schema.variadic => {
                let mut bound = self.bound(schema, positional, named)?;
                if traced {
                    self.numbers_to_tensors(schema, &mut bound)?;
                }
                self.operator(schema, &bound)
            }
            _ => self.foreign(op, &positional, &named, vec![None; self.results.replace(1)]),
        }
    }

    /// The overload that is meant, and whether numbers stand for tensors in it.
    fn resolved(
        &self,
        op: &str,
        positional: &[Item],
        named: &NamedArguments,
    ) -> Result<(&'static Schema, bool)> {
        let kinds: Vec<ArgumentKind> = positional.iter().map(|item| self.kind(item)).collect();
        let names: Vec<(&str, ArgumentKind)> =
            named.iter().map(|(name, item)| (&**name, self.kind(item))).collect();
        // A tracer writes sizes as tensors of rank 0, which are numbers here.
        let traced: Vec<ArgumentKind> = kinds.iter().map(as_traced).collect();
        // A tensor is no number, even if it has rank 0.
        let of_numbers = |schema: &Schema| !schema.parameters.iter().any(|p| p.ty.holds_tensors());
        let mixed = kinds.iter().any(|kind| matches!(kind, ArgumentKind::Tensor(_)));
        let found = match resolve(op, &kinds, &names) {
            Ok(schema) if !(mixed && of_numbers(schema)) => Ok((schema, false)),
            other => resolve(op, &traced, &names)
                .map(|schema| (schema, true))
                .or(other.map(|schema| (schema, false))),
        };
        found.map_err(|why| why.at(self.layer()))
    }

    /// Arithmetic of sizes that a tracer followed: numbers, and constants of rank 0 that were tensors.
    fn traced(
        &self,
        name: &str,
        positional: &[Item],
        named: &NamedArguments,
    ) -> Result<Option<Item>> {
        let name = match (name, positional.len(), named.as_slice()) {
            ("floor_divide", 2, []) => "floordiv",
            ("clamp" | "clamp_min", 2, []) => "max",
            ("clamp_max", 2, []) => "min",
            (
                "add" | "sub" | "mul" | "remainder" | "eq" | "ne" | "lt" | "le" | "gt" | "ge",
                2,
                [],
            ) => name,
            ("add" | "sub", 3, []) if positional[2].as_int() == Some(1) => name,
            ("add" | "sub", 2, [(_, alpha)]) if alpha.as_int() == Some(1) => name,
            ("div", 2, [(_, Item::Text(mode))]) if &**mode == "floor" => "floordiv",
            ("div", 2, []) if positional.iter().any(Item::is_tensor) => name,
            _ => return Ok(None),
        };
        let number = |item: &Item| match item {
            Item::Int(_) => Some(item.clone()),
            Item::Number(number) if number.kind == NumberKind::Int => Some(item.clone()),
            Item::Tensor(view) => {
                let constant = self.builder().constant_of(self.read(view).ok()?)?;
                let whole = constant.rank() == 0 && constant.dtype().is_integer();
                constant.to_i64s().filter(|_| whole).and_then(|x| Some(Item::Int(*x.first()?)))
            }
            _ => None,
        };
        let all: Option<Vec<Item>> = positional[..2].iter().map(number).collect();
        let Some(all) = all else { return Ok(None) };
        Ok(self.arithmetic(name, &all)?.map(rounded))
    }

    /// An operator of torch with its arguments: in place, as a view, or as a value of its own.
    fn operator(&self, schema: &'static Schema, bound: &Bound) -> Result<Item> {
        self.see_indices(schema, bound)?;
        let first = schema.parameters.first();
        let writes = first.and_then(|p| p.alias.as_ref()).is_some_and(|alias| alias.writes);
        match bound.first() {
            Some((_, Item::Tensor(view))) if writes => {
                let view = view.clone();
                self.in_place(schema, &view, bound)
            }
            Some((_, Item::Tensor(view))) if shares_memory(schema) => {
                let view = view.clone();
                self.shared(schema, &view, bound)
            }
            _ => self.lowered(schema, schema.name, bound),
        }
    }

    /// An operator that writes its first argument.
    fn in_place(&self, schema: &'static Schema, view: &Rc<View>, bound: &Bound) -> Result<Item> {
        let functional = functional_name(schema.name);
        let before = self.read(view)?;
        if is_about_axes(&functional) {
            return self.axes_in_place(schema, &functional, view, bound);
        }
        let given = self.lowered(schema, &functional, bound)?;
        if given.has_hole() {
            return Ok(given);
        }
        let b = self.builder();
        let mut new = self.var_of(&given)?;
        if let Some(dtype) = b.dtype_of(before) {
            new = b.cast(new, dtype)?;
        }
        if let (Some(old), Some(shape)) = (b.shape_of(before), b.shape_of(new))
            && old.len() > shape.len()
        {
            new = b.expand(new, b.shape(before).one()?)?;
        }
        self.write(view, new)?;
        Ok(Item::Tensor(view.clone()))
    }

    /// `unsqueeze_` and its like change the axes of a tensor, not its elements.
    fn axes_in_place(
        &self,
        schema: &'static Schema,
        functional: &str,
        view: &Rc<View>,
        bound: &Bound,
    ) -> Result<Item> {
        let given = self.lowered(schema, functional, bound)?;
        if given.has_hole() {
            return Ok(given);
        }
        let var = self.var_of(&given)?;
        let op = self.key(schema, functional).into();
        let step = ViewStep { op, arguments: bound[1..].to_vec().into(), pick: None };
        self.reshape_in_place(view, step, var)?;
        Ok(Item::Tensor(view.clone()))
    }

    /// An operator whose result shares the memory of its first argument.
    fn shared(&self, schema: &'static Schema, view: &Rc<View>, bound: &Bound) -> Result<Item> {
        let parent = self.read(view)?;
        let given = self.lowered(schema, schema.name, bound)?;
        let arguments: Rc<[_]> = bound[1..].to_vec().into();
        let key = self.key(schema, schema.name);
        let step = |pick| ViewStep { op: key.as_str().into(), arguments: arguments.clone(), pick };
        match &given {
            Item::Tensor(new) => {
                let var = self.read(new)?;
                if !self.aliases(schema.name, view, parent, var) {
                    return Ok(given);
                }
                self.view(view, step(None), var)
            }
            Item::List(_) => {
                let Some(items) = given.items() else { return Ok(given) };
                let part = |(i, item): (usize, &Item)| match item {
                    Item::Tensor(new) => self.view(view, step(Some(i)), self.read(new)?),
                    other => Ok(other.clone()),
                };
                Ok(Item::list(items.iter().enumerate().map(part).collect::<Result<_>>()?))
            }
            _ => Ok(given),
        }
    }

    /// Whether a result shares memory, of operators that do so only if they can.
    fn aliases(&self, op: &str, view: &Rc<View>, parent: Var, var: Var) -> bool {
        match op.trim_start_matches("aten::") {
            "reshape" | "reshape_as" | "flatten" | "ravel" | "contiguous" => view.is_contiguous(),
            "to" | "type_as" | "_to_copy" => parent == var,
            _ => true,
        }
    }

    /// The row for an operator: that of the overload, if there is one.
    fn key(&self, schema: &Schema, name: &str) -> String {
        let full = format!("{name}.{}", schema.overload);
        let kept = || !self.driver.has_row(name) && self.driver.takes(&full);
        let overload = !schema.overload.is_empty() && (self.driver.has_row(&full) || kept());
        if overload { full } else { name.to_owned() }
    }

    /// An operator with an argument that has to be known, and is known only when the model runs: one for each case.
    fn by_case(&self, schema: &'static Schema, name: &str, bound: &Bound) -> Result<Option<Item>> {
        let cases = schema.parameters.iter().zip(bound).map(|(p, (_, item))| match (&p.ty, item) {
            (ArgType::Bool, Item::Number(number)) => {
                Some((*number, [Item::Bool(true), Item::Bool(false)]))
            }
            (ArgType::Optional(_), Item::Maybe(number, item)) => {
                Some((*number, [(**item).clone(), Item::None]))
            }
            _ => None,
        });
        let Some((at, (number, cases))) = cases.enumerate().find_map(|(i, c)| Some((i, c?))) else {
            return Ok(None);
        };
        let arm = |case: &Item| {
            let mut bound = bound.clone();
            bound[at].1 = case.clone();
            Ok(vec![("result".into(), self.lowered(schema, name, &bound)?)])
        };
        let var = self.number_var(&Item::Number(number), NumberKind::Bool)?;
        let condition = GraphNumber { var, kind: NumberKind::Bool };
        let given = self.branch(condition, [&|| arm(&cases[0]), &|| arm(&cases[1])], &|_| None)?;
        Ok(given.into_iter().next().map(|(_, item)| item))
    }

    /// Lowers an operator by the row of `name`.
    fn lowered(&self, schema: &'static Schema, name: &str, bound: &Bound) -> Result<Item> {
        if let Some(item) = self.by_case(schema, name, bound)? {
            return Ok(item);
        }
        let key = self.key(schema, name);
        let given = self.rows(&key, self.values(bound)?, schema.returns.len())?;
        let mut items = given.into_iter().zip(&schema.returns).map(|(v, r)| self.item(v, &r.ty));
        Ok(match schema.returns.len() {
            0 => Item::None,
            1 => items.next().unwrap_or_else(|| self.hole()),
            _ => Item::tuple(items.collect()),
        })
    }

    fn rows(&self, key: &str, named: Vec<(String, Value)>, results: usize) -> Result<Vec<Value>> {
        nested::check(self.builder(), key, &named).map_err(|why| why.at(self.layer()))?;
        if let Some(given) = self.of_complex(key, &named, results)? {
            return Ok(given);
        }
        self.lowered_row(key, named, results)
    }

    /// Lowers an operator by the row `key`.
    pub(super) fn lowered_row(
        &self,
        key: &str,
        named: Vec<(String, Value)>,
        results: usize,
    ) -> Result<Vec<Value>> {
        self.work(OPERATOR_WORK)?;
        let layer = self.layer();
        let op = key.to_owned();
        let types = match self.driver.has_row(key) {
            true => vec![],
            false => self.supposed(key, named.iter().map(|(_, v)| v), vec![None; results]),
        };
        let results = vec![String::new(); results];
        let input = named.first().map(|(_, value)| value.clone());
        let item = Lowering { op, layer, named, results, types, ..Lowering::default() };
        let mut given = self.driver.lower(item);
        if let Some(Value::Var(result)) = given.first_mut() {
            *result = quantizer::kept(self.builder(), key, input.as_ref(), *result)?;
        }
        Ok(given)
    }

    /// The result of the row `key` for a tensor and other arguments.
    pub(crate) fn lower_row(
        &self,
        key: &str,
        input: Var,
        arguments: &[(&'static str, Item)],
    ) -> Result<Item> {
        let mut named = vec![("input".to_owned(), Value::Var(input))];
        named.extend(self.values(arguments)?);
        let given = self.rows(key, named, 1)?.into_iter().next();
        Ok(given.map_or_else(|| self.hole(), |given| self.item(given, &ArgType::Tensor)))
    }

    /// An operator that torch does not declare: its arguments by position and name, as they are. `types` has an entry
    /// for each result.
    pub(crate) fn foreign(
        &self,
        op: &str,
        positional: &[Item],
        named: &NamedArguments,
        types: Vec<Option<ValueType>>,
    ) -> Result<Item> {
        let arguments = positional.iter().map(|i| self.value(i)).collect::<Result<Vec<_>>>()?;
        let named = named.iter().map(|(n, i)| Ok((n.to_string(), self.value(i)?)));
        let named = named.collect::<Result<Vec<_>>>()?;
        let all = arguments.iter().chain(named.iter().map(|(_, v)| v));
        let types = self.supposed(op, all, types);
        let (op, layer, results) = (op.to_owned(), self.layer(), vec![String::new(); types.len()]);
        let item = Lowering { op, layer, arguments, named, results, types, ..Lowering::default() };
        let mut given = self.driver.lower(item);
        match given.len() {
            1 => Ok(self.item(given.remove(0), &ArgType::Tensor)),
            _ => {
                Ok(Item::tuple(given.into_iter().map(|v| self.item(v, &ArgType::Tensor)).collect()))
            }
        }
    }

    /// Types of results; where nothing declares them, the element type and rank of the first tensor.
    fn supposed<'v>(
        &self,
        op: &str,
        mut arguments: impl Iterator<Item = &'v Value>,
        types: Vec<Option<ValueType>>,
    ) -> Vec<Option<ValueType>> {
        if self.declares.get() || !self.driver.takes(op) || types.iter().all(Option::is_some) {
            return types;
        }
        let b = self.builder();
        let tensor = arguments.find_map(|value| match value {
            Value::Var(var) => b.type_of(*var),
            _ => None,
        });
        let Some(ValueType::Tensor { dtype, shape }) = tensor else { return types };
        let shape = shape.map(|dims| vec![Dim::Unknown; dims.len()]);
        let axes = shape.as_ref().map_or("any shape".to_owned(), |s| format!("{} axes", s.len()));
        let elements = dtype.map_or("unknown", DataType::word);
        let message = format!(
            "The file does not say what `{}` gives: taken as its first tensor, elements of {elements} in {axes}.",
            shown(op)
        );
        let like = ValueType::Tensor { dtype, shape };
        let help = "Save the model with `torch.export.save`, which keeps the types of all results.";
        let note = self.problem(Code::LayerParameterIgnored, message).help(help);
        b.note(note);
        types.into_iter().map(|ty| ty.or_else(|| Some(like.clone()))).collect()
    }

    /// Reports an operator that nothing takes, even if what it takes is missing.
    fn reported(&self, op: &str, overload: Option<&str>) -> Result<()> {
        let taken = |schema: &Schema| {
            let name = functional_name(schema.name);
            let full = format!("{name}.{}", schema.overload);
            // What takes no tensors is computed by the machine itself.
            let of_python = || !schema.parameters.iter().any(|p| p.ty.holds_tensors());
            let gives_nothing = schema.returns.is_empty();
            self.driver.takes(&name) || self.driver.takes(&full) || gives_nothing || of_python()
        };
        let all = schema::overloads(op).iter();
        let mut meant = all.filter(|s| overload.is_none_or(|o| s.overload == o)).peekable();
        let known = match meant.peek() {
            Some(_) => meant.any(taken),
            None => self.driver.takes(op),
        };
        if !known {
            self.rows(&functional_name(op), vec![], 0)?;
        }
        Ok(())
    }

    fn holes(&self, op: &str, overload: Option<&str>) -> Item {
        let schemas = schema::overloads(op);
        let schema = match overload {
            Some(overload) => schema::find(op, overload),
            None => schemas.first(),
        };
        match schema.map_or(1, |s| s.returns.len()) {
            0 => Item::None,
            1 => Item::Hole,
            n => Item::tuple(vec![Item::Hole; n]),
        }
    }

    /// What Python computes, and what is known of tensors.
    fn computed_now(
        &self,
        op: &str,
        positional: &[Item],
        named: &NamedArguments,
    ) -> Result<Option<Item>> {
        let Some((space, name)) = op.split_once("::") else { return Ok(None) };
        if !matches!(space, "aten" | "prim") {
            return Ok(None);
        }
        let name = name.split('.').next().unwrap_or(name);
        let text = |item: &Item| match item {
            Item::Text(text) => text.len() / TEXT_BYTES,
            _ => 0,
        };
        self.work(CALL_WORK + positional.iter().map(text).sum::<usize>())?;
        if let Some(item) = self.containers(name, positional, named)? {
            return Ok(Some(item));
        }
        if let Some(item) = self.queries(name, positional)? {
            return Ok(Some(item));
        }
        let tensor = positional.iter().any(|i| i.is_tensor() || matches!(i, Item::Maybe(..)));
        if tensor {
            let numbers = positional.iter().any(|i| matches!(i, Item::Int(_) | Item::Number(_)));
            return if numbers { self.traced(name, positional, named) } else { Ok(None) };
        }
        let number = |i: &Item| i.as_float().is_some() || matches!(i, Item::Number(_));
        let arithmetic = positional.iter().all(number);
        if arithmetic && !positional.is_empty() {
            // A tracer prints `b *= 2` of a size as `mul_`; later lines use what it gives.
            let name = name.strip_suffix('_').unwrap_or(name);
            if let Some(item) = self.traced(name, positional, named)? {
                return Ok(Some(item));
            }
            // Python's arithmetic has no arguments by name: this is an operator on tensors of rank 0.
            if !named.is_empty() {
                return Ok(None);
            }
        }
        let computed = positional.iter().any(Item::is_computed);
        if !computed {
            return super::python::evaluated(name, positional).map_err(|why| {
                self.problem(Code::LayerParameter, format!("{}: {why}.", shown(op)))
            });
        }
        self.numbers(name, positional)
    }
}

/// A number as a tensor of 32 bits holds it.
fn rounded(item: Item) -> Item {
    match item {
        Item::Float(x) => Item::Float(f64::from(x as f32)),
        other => other,
    }
}

/// Whether an operator changes the axes of a tensor alone.
fn is_about_axes(functional: &str) -> bool {
    matches!(
        functional.trim_start_matches("aten::"),
        "squeeze" | "unsqueeze" | "t" | "transpose" | "swapaxes" | "swapdims"
    )
}

/// Whether results share the memory of the first argument.
fn shares_memory(schema: &Schema) -> bool {
    let of = |alias: &Option<schema::Alias>| alias.as_ref().map(|alias| alias.set);
    let first = schema.parameters.first().and_then(|p| of(&p.alias));
    first.is_some() && schema.returns.iter().any(|r| of(&r.alias) == first)
}

/// The name of the operator that gives what `name` writes: `aten::add` for `aten::add_` and `aten::__iadd__`.
fn functional_name(name: &str) -> String {
    let (space, plain) = name.split_once("::").unwrap_or(("aten", name));
    let inner = plain.strip_prefix("__i").and_then(|rest| rest.strip_suffix("__"));
    match inner {
        Some(inner @ ("and" | "or" | "xor" | "lshift" | "rshift")) => {
            format!("{space}::__{inner}__")
        }
        Some(inner) => format!("{space}::{inner}"),
        None => format!("{space}::{}", plain.strip_suffix('_').unwrap_or(plain)),
    }
}
