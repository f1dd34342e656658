//! Expressions: names, attributes, and what is called.

use super::run::{Interpreter, Scopes, plain_class};
use crate::diag::{Code, shown};
use crate::machine::{Instance, Item, NumberKind, Result, default_item};
use crate::schema::upgrade::{ArgumentChange, ArgumentForm, upgrade};
use crate::syntax::ast::{ClassKind, Expr};
use crate::syntax::types::Type;
use onnxd_plugin_sdk::ir::DataType;
use std::rc::Rc;

type CallArguments = (Vec<Item>, Vec<(Rc<str>, Item)>);

impl Interpreter<'_, '_> {
    pub(super) fn expression(&self, e: &Expr, scopes: &Scopes) -> Result<Item> {
        self.machine.nested(|| self.evaluated(e, 1, scopes))
    }

    /// An expression whose value is taken apart into `results` values.
    pub(super) fn several(&self, e: &Expr, results: usize, scopes: &Scopes) -> Result<Item> {
        self.machine.nested(|| self.evaluated(e, results, scopes))
    }

    fn evaluated(&self, e: &Expr, results: usize, scopes: &Scopes) -> Result<Item> {
        let all =
            |es: &[Expr]| es.iter().map(|e| self.expression(e, scopes)).collect::<Result<Vec<_>>>();
        Ok(match e {
            Expr::None => Item::None,
            Expr::Bool(x) => Item::Bool(*x),
            Expr::Int(x) => Item::Int(*x),
            Expr::Float(x) => Item::Float(*x),
            Expr::Complex(re, im) => Item::Complex(*re, *im),
            Expr::Text(x) => Item::Text(x.clone()),
            Expr::Name(name) => scopes.get(name).unwrap_or_else(|| match &**name {
                "inf" => Item::Float(f64::INFINITY),
                "nan" => Item::Float(f64::NAN),
                _ => Item::Path(name.clone()),
            }),
            Expr::Attribute(of, name) => {
                let of = self.expression(of, scopes)?;
                self.attribute(&of, name)?
            }
            Expr::Item(of, key) => {
                let (of, key) = (self.expression(of, scopes)?, self.expression(key, scopes)?);
                self.indexed(of, key)?
            }
            Expr::Slice(of, start, end) => {
                let of = self.expression(of, scopes)?;
                let bound = |e: &Option<Box<Expr>>| match e {
                    Some(e) => self.expression(e, scopes),
                    None => Ok(Item::None),
                };
                self.sliced(&of, &bound(start)?, &bound(end)?)?
            }
            Expr::List(items) => self.machine.bounded(Item::list(all(items)?))?,
            Expr::Tuple(items) => self.machine.bounded(Item::tuple(all(items)?))?,
            Expr::Dict(items) => {
                let pair = |(k, v): &(Expr, Expr)| {
                    Ok((self.expression(k, scopes)?, self.expression(v, scopes)?))
                };
                self.machine.bounded(Item::dict(items.iter().map(pair).collect::<Result<_>>()?))?
            }
            Expr::Call { function, arguments, named } => {
                let function = self.callee(function, scopes)?;
                let named = named.iter().map(|(n, e)| Ok((n.clone(), self.expression(e, scopes)?)));
                let arguments = (all(arguments)?, named.collect::<Result<_>>()?);
                self.machine.results.set(results);
                self.called(function, arguments)?
            }
            Expr::Annotate(ty, e) => {
                let item = self.expression(e, scopes)?;
                self.implied(ty, item)?
            }
            Expr::Uninitialized(ty) => Item::Uninitialized(ty.clone()),
            Expr::Cast(_, e) => match self.expression(e, scopes)? {
                Item::Maybe(_, item) => (*item).clone(),
                item => item,
            },
            Expr::IsInstance(e, types) => {
                let item = self.expression(e, scopes)?;
                Item::Bool(types.iter().any(|ty| self.is_instance(&item, ty)))
            }
        })
    }

    /// A value where one of the type is wanted: torch takes a tensor there for the number that it holds.
    fn implied(&self, ty: &Type, item: Item) -> Result<Item> {
        let op = match ty {
            Type::Int => "aten::IntImplicit",
            Type::Float => "aten::FloatImplicit",
            Type::Number => "aten::ScalarImplicit",
            _ => return Ok(item),
        };
        match item.is_tensor() {
            true => self.machine.call(op, None, vec![item], vec![]),
            false => Ok(item),
        }
    }

    /// What is called: the attribute of an object is a method first.
    fn callee(&self, e: &Expr, scopes: &Scopes) -> Result<Item> {
        let Expr::Attribute(of, name) = e else { return self.expression(e, scopes) };
        let of = self.expression(of, scopes)?;
        if let Item::Object(object) = &of
            && let Some(method) = self.method(&object.class, name)?
        {
            return Ok(Item::Method(object.clone(), method));
        }
        self.attribute(&of, name)
    }

    fn attribute(&self, of: &Item, name: &Rc<str>) -> Result<Item> {
        let lacks = || self.damaged(format!("{} has no attribute `{}`.", of.what(), shown(name)));
        match of {
            Item::Path(path) if &**path == "CONSTANTS" => self.constant(name),
            Item::Path(path) => {
                if path.starts_with("__torch__.")
                    && let Some(class) = self.library.find_class(path)?
                    && class.kind == ClassKind::Enum
                    && let Some(class_attribute) = class.attributes.iter().find(|a| a.name == *name)
                    && let Some(value) = &class_attribute.value
                {
                    let value = self.expression(value, &Interpreter::fresh_scopes(path))?;
                    return Ok(Item::Member(path.clone(), name.clone(), Rc::new(value)));
                }
                Ok(Item::Path(format!("{path}.{name}").into()))
            }
            Item::Object(object) => {
                if let Some(item) = object.attributes.borrow().get(name) {
                    let of_training = &**name == "training" && matches!(item, Item::Bool(_));
                    let evaluates = of_training && !self.training;
                    return Ok(if evaluates { Item::Bool(false) } else { item.clone() });
                }
                if let Some(class) = self.library.find_class(&object.class)?
                    && let Some(class_attribute) = class.attributes.iter().find(|a| a.name == *name)
                    && let Some(value) = &class_attribute.value
                {
                    return self.expression(value, &Interpreter::fresh_scopes(&object.class));
                }
                match self.method(&object.class, name)? {
                    Some(method) => Ok(Item::Method(object.clone(), method)),
                    None => Err(lacks()),
                }
            }
            Item::Record(class, items) => {
                let at = class.attributes.iter().position(|a| a.name == *name);
                at.and_then(|at| items.get(at).cloned()).ok_or_else(lacks)
            }
            Item::Member(_, member, value) => match &**name {
                "value" => Ok((**value).clone()),
                "name" => Ok(Item::Text(member.clone())),
                _ => Err(lacks()),
            },
            Item::Maybe(_, item) => self.attribute(item, name),
            Item::Hole => Ok(Item::Hole),
            Item::Tensor(_) => {
                let op = match &**name {
                    "T" => "aten::numpy_T".to_owned(),
                    name => format!("prim::{name}"),
                };
                self.machine.call(&op, None, vec![of.clone()], vec![])
            }
            _ => Err(lacks()),
        }
    }

    /// `CONSTANTS.c3`
    fn constant(&self, name: &str) -> Result<Item> {
        let at = name.strip_prefix('c').and_then(|n| n.parse::<usize>().ok());
        at.and_then(|at| self.constants.borrow().get(at).cloned()).ok_or_else(|| {
            let message = format!("The archive has no constant `{}`.", shown(name));
            self.machine.problem(Code::SourceTruncated, message)
        })
    }

    fn indexed(&self, of: Item, key: Item) -> Result<Item> {
        match &of {
            Item::Hole => Ok(Item::Hole),
            Item::Object(object) => {
                // A container of modules, by a key that is known.
                let name = crate::machine::shown_item(&key);
                self.attribute(&Item::Object(object.clone()), &name.into())
            }
            Item::Maybe(_, item) => self.indexed((**item).clone(), key),
            _ => self.machine.call("aten::__getitem__", None, vec![of, key], vec![]),
        }
    }

    fn sliced(&self, of: &Item, start: &Item, end: &Item) -> Result<Item> {
        if matches!(of, Item::Hole) {
            return Ok(Item::Hole);
        }
        let Some(items) = of.items() else {
            return Err(self.unsupported(format!("A slice of {}.", of.what())));
        };
        let part = self.machine.sliced(&items, &[start.clone(), end.clone()])?;
        Ok(if matches!(of, Item::List(_)) { Item::list(part) } else { Item::tuple(part) })
    }

    fn called(&self, function: Item, (arguments, named): CallArguments) -> Result<Item> {
        match function {
            Item::Method(object, method) => {
                let name = plain_class(&object.class);
                match named.is_empty() {
                    true => self.called_method(&object, &method, arguments),
                    false => {
                        let message =
                            format!("A method of `{}` is called with names.", shown(&name));
                        Err(self.unsupported(message))
                    }
                }
            }
            Item::Function(member, function, around) => {
                self.called_closure(member, &function, &around, arguments, &named)
            }
            Item::Path(path) => self.called_path(&path, arguments, named),
            Item::Hole => Ok(Item::Hole),
            other => Err(self.unsupported(format!("{} is called.", other.what()))),
        }
    }

    fn called_path(
        &self,
        path: &Rc<str>,
        arguments: Vec<Item>,
        named: Vec<(Rc<str>, Item)>,
    ) -> Result<Item> {
        if path.starts_with("__torch__.") {
            return self.called_own(path, arguments, &named);
        }
        if &**path == "torch.device" {
            let name = arguments.first().map_or_else(String::new, crate::machine::shown_item);
            return Ok(Item::Device(name.into()));
        }
        if let Some(name) = path.strip_prefix("torch.") {
            return self.operator(&format!("aten::{name}"), arguments, named);
        }
        if let Some((space, name)) = path.strip_prefix("ops.").and_then(|p| p.split_once('.')) {
            return self.operator(&format!("{space}::{name}"), arguments, named);
        }
        let op = match &**path {
            "int" => "aten::Int",
            "float" => "aten::Float",
            "bool" => "aten::Bool",
            "str" => "aten::str",
            "len" => "aten::len",
            "sorted" => "aten::sorted",
            "range" => "prim::rangelist",
            "print" => return Ok(Item::None),
            "fork" => {
                let mut arguments = arguments.into_iter();
                let Some(function) = arguments.next() else {
                    return Err(self.damaged("`fork` lacks its function."));
                };
                return self.called(function, (arguments.collect(), named));
            }
            "wait" | "awaitable_wait" => {
                return Ok(arguments.into_iter().next().unwrap_or(Item::None));
            }
            _ => {
                let message =
                    format!("The code calls `{}`, which it does not define.", shown(path));
                return Err(self.damaged(message));
            }
        };
        self.machine.call(op, None, arguments, named)
    }

    fn operator(
        &self,
        op: &str,
        mut arguments: Vec<Item>,
        mut named: Vec<(Rc<str>, Item)>,
    ) -> Result<Item> {
        let see = |item: &Item| self.given(item);
        if let Some(upgrade) = upgrade(op, self.archive.version, &arguments, &named, see) {
            upgrade.apply(&mut arguments, &mut named, |change, old| match (change, old) {
                (ArgumentChange::Value(value), _) => default_item(value),
                (ArgumentChange::ToFloat, Some(Item::Int(x))) => Item::Float(*x as f64),
                (ArgumentChange::ToFloat, Some(Item::Bool(x))) => {
                    Item::Float(f64::from(u8::from(*x)))
                }
                (ArgumentChange::ToFloat, old) => old.cloned().unwrap_or(Item::None),
            });
        }
        if let ("aten::wait", Some(item)) = (op, arguments.first()) {
            return Ok(item.clone());
        }
        if op == "prim::TupleConstruct" {
            return Ok(Item::tuple(arguments));
        }
        if let ("aten::add" | "aten::sub" | "aten::mul" | "aten::div", [Item::Tensor(_), other, ..]) =
            (op, &mut arguments[..])
            && !named.iter().any(|(name, _)| &**name == "rounding_mode")
            && let Some(number) = self.number_of_constant(other)
        {
            *other = number;
        }
        self.machine.call(op, None, arguments, named)
    }

    /// The number in a constant of rank 0, which torch's executor puts in its place for arithmetic. It decides the type
    /// of the result as a number does.
    fn number_of_constant(&self, item: &Item) -> Option<Item> {
        if !self.constants.borrow().iter().any(|constant| constant.same(item)) {
            return None;
        }
        let constant = self.machine.builder().constant_of(self.machine.var_of(item).ok()?)?;
        if constant.rank() != 0 {
            return None;
        }
        match constant.dtype() {
            DataType::Bool => None,
            dtype if dtype.is_integer() => constant.to_i64s()?.first().map(|x| Item::Int(*x)),
            _ => constant.to_reals()?.values.first().map(|x| Item::Float(*x)),
        }
    }

    /// What an argument is, for calls whose meaning has changed.
    fn given(&self, item: &Item) -> ArgumentForm {
        let whole = |dtype: DataType| dtype.is_integer() || dtype == DataType::Bool;
        match item {
            Item::None => ArgumentForm::None,
            Item::Int(_) | Item::Bool(_) => ArgumentForm::Integer,
            Item::Float(_) => ArgumentForm::Float,
            Item::Number(number) => match number.kind {
                NumberKind::Float => ArgumentForm::Float,
                _ => ArgumentForm::Integer,
            },
            Item::Tensor(_) => {
                let var = self.machine.var_of(item).ok();
                match var.and_then(|var| self.machine.builder().dtype_of(var)) {
                    Some(dtype) if whole(dtype) => ArgumentForm::Integers,
                    Some(dtype) if dtype.is_float() => ArgumentForm::Float,
                    _ => ArgumentForm::Other,
                }
            }
            _ => ArgumentForm::Other,
        }
    }

    /// A function or class of the archive.
    fn called_own(
        &self,
        path: &Rc<str>,
        arguments: Vec<Item>,
        named: &[(Rc<str>, Item)],
    ) -> Result<Item> {
        if let Some(class) = path.strip_suffix(".__new__") {
            return Ok(Item::Object(Rc::new(Instance::new(class, ""))));
        }
        if let Some(function) = self.library.find_function(path)? {
            return self.called_function(path, &function, arguments, named);
        }
        let Some(class) = self.library.find_class(path)? else {
            return Err(self.unsupported(format!("The archive has no code of `{}`.", shown(path))));
        };
        match class.kind {
            ClassKind::NamedTuple => {
                let given = |name: &Rc<str>| {
                    named.iter().find(|(n, _)| n == name).map(|(_, item)| item.clone())
                };
                let rest = class.attributes.iter().skip(arguments.len());
                let rest = rest.map(|a| match (given(&a.name), &a.value) {
                    (Some(item), _) => Ok(item),
                    (None, Some(e)) => self.expression(e, &Interpreter::fresh_scopes(path)),
                    (None, None) => {
                        let name = shown(&a.name);
                        Err(self.damaged(format!("`{}` lacks its field `{name}`.", shown(path))))
                    }
                });
                let items =
                    arguments.into_iter().map(Ok).chain(rest).collect::<Result<Vec<_>>>()?;
                Ok(Item::Record(class.clone(), items.into()))
            }
            _ => Err(self.unsupported(format!("The class `{}` is called.", shown(path)))),
        }
    }
}
