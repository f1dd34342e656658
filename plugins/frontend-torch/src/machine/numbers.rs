//! Python's arithmetic where a number is known only when the model runs: the same on tensors of rank 0.

use super::{GraphNumber, Item, Machine, NumberKind, Result};
use crate::diag::Code;
use NumberKind::{Bool, Float, Int};
use onnxd_plugin_sdk::build::Var;

impl Machine<'_> {
    /// The result of an operator with numbers of the graph among its arguments; `None` if it is none on numbers.
    pub(crate) fn numbers(&self, name: &str, arguments: &[Item]) -> Result<Option<Item>> {
        let kinds: Option<Vec<NumberKind>> = arguments.iter().map(kind_of).collect();
        if let (Some(kinds), true) = (&kinds, (1..=3).contains(&arguments.len())) {
            return match (arguments, kinds.as_slice()) {
                ([a], [kind]) => self.one_number(name, a, *kind),
                ([a, b], [k, l]) => self.two_numbers(name, (a, *k), (b, *l)),
                ([a, b, c], _) => self.three_numbers(name, [a, b, c]),
                _ => Ok(None),
            };
        }
        match (name, arguments) {
            ("min" | "max" | "sum", [list]) => {
                let Some(items) = list.items().filter(|items| !items.is_empty()) else {
                    return Ok(None);
                };
                let name = if name == "sum" { "add" } else { name };
                let mut all = items.into_iter();
                let first = all.next().unwrap_or(Item::Int(0));
                all.try_fold(Some(first), |so_far, item| match so_far {
                    Some(so_far) => self.arithmetic(name, &[so_far, item]),
                    None => Ok(None),
                })
            }
            ("__is__", [a, b]) => Ok(Some(Item::Bool(a.same(b)))),
            ("__isnot__", [a, b]) => Ok(Some(Item::Bool(!a.same(b)))),
            ("eq" | "ne", [a, b]) => self.equal_lists(name, a, b),
            _ => Ok(None),
        }
    }

    /// Arithmetic with numbers of any kind: those of the graph, and those that are known.
    pub(super) fn arithmetic(&self, name: &str, arguments: &[Item]) -> Result<Option<Item>> {
        match arguments.iter().any(Item::is_computed) {
            true => self.numbers(name, arguments),
            false => super::python::evaluated(name, arguments)
                .map_err(|why| self.problem(Code::LayerParameter, format!("{name}: {why}."))),
        }
    }

    fn number_of(&self, var: Var, kind: NumberKind) -> Result<Option<Item>> {
        Ok(Some(self.number(var, kind)))
    }

    fn one_number(&self, name: &str, a: &Item, kind: NumberKind) -> Result<Option<Item>> {
        let b = self.builder();
        let x = self.number_var(a, kind)?;
        let float = || b.cast(x, Float.dtype());
        let to_integer = |x: Var| b.cast(x, Int.dtype());
        let (var, kind) = match name {
            "neg" => (b.neg(self.number_var(a, kind.max(Int))?)?, kind.max(Int)),
            "abs" => (b.abs(self.number_var(a, kind.max(Int))?)?, kind.max(Int)),
            "Int" | "IntImplicit" => (to_integer(x)?, Int),
            "Float" | "FloatImplicit" => (float()?, Float),
            "Bool" => (b.cast(x, Bool.dtype())?, Bool),
            "ScalarImplicit" | "Scalar" | "NumToTensor" => return Ok(Some(a.clone())),
            "__not__" => (b.not(b.cast(x, Bool.dtype())?)?, Bool),
            "ceil" | "floor" | "trunc" | "round" if kind != Float => (to_integer(x)?, Int),
            "ceil" => (to_integer(b.ceil(x)?)?, Int),
            "floor" => (to_integer(b.floor(x)?)?, Int),
            "trunc" => (to_integer(x)?, Int),
            "round" => (b.round(x)?, Float),
            "sqrt" => (b.sqrt(float()?)?, Float),
            "log" => (b.log(float()?)?, Float),
            "exp" => (b.exp(float()?)?, Float),
            "sin" => (b.sin(float()?)?, Float),
            "cos" => (b.cos(float()?)?, Float),
            "tanh" => (b.tanh(float()?)?, Float),
            _ => return Ok(None),
        };
        self.number_of(var, kind)
    }

    fn two_numbers(
        &self,
        name: &str,
        (a, k): (&Item, NumberKind),
        (c, l): (&Item, NumberKind),
    ) -> Result<Option<Item>> {
        let b = self.builder();
        let kind = k.max(l);
        let number = kind.max(Int);
        let of = |kind| {
            Ok::<_, crate::diag::Diagnostic>((self.number_var(a, kind)?, self.number_var(c, kind)?))
        };
        let boolean = || match kind {
            Bool => of(Bool),
            _ => of(Int),
        };
        if let Some(item) = neutral(name, a, c) {
            return Ok(Some(item));
        }
        let (var, kind) = match name {
            "add" => (of(number).and_then(|(x, y)| b.add(x, y))?, number),
            "sub" => (of(number).and_then(|(x, y)| b.sub(x, y))?, number),
            "mul" => (of(number).and_then(|(x, y)| b.mul(x, y))?, number),
            "div" => (of(Float).and_then(|(x, y)| b.div(x, y))?, Float),
            "floordiv" | "mod" | "remainder" => {
                let (x, y) = of(number)?;
                let var = match (number, name) {
                    (Float, "floordiv") => b.floor(b.div(x, y)?)?,
                    (Float, _) => b.sub(x, b.mul(b.floor(b.div(x, y)?)?, y)?)?,
                    // Division truncates, and Mod has the sign of the divisor.
                    (_, "floordiv") if self.is_size(a) && c.as_int().is_some_and(|y| y > 0) => {
                        b.div(x, y)?
                    }
                    (_, "floordiv") => b.div(b.sub(x, b.mod_(x, y).one()?)?, y)?,
                    _ => b.mod_(x, y).one()?,
                };
                (var, number)
            }
            "pow" => (of(Float).and_then(|(x, y)| b.pow(x, y))?, Float),
            "min" => (of(number).and_then(|(x, y)| b.min([x, y]))?, number),
            "max" => (of(number).and_then(|(x, y)| b.max([x, y]))?, number),
            "lt" => (of(number).and_then(|(x, y)| b.less(x, y))?, Bool),
            "le" => (of(number).and_then(|(x, y)| b.less_or_equal(x, y))?, Bool),
            "gt" => (of(number).and_then(|(x, y)| b.greater(x, y))?, Bool),
            "ge" => (of(number).and_then(|(x, y)| b.greater_or_equal(x, y))?, Bool),
            "eq" => (of(kind).and_then(|(x, y)| b.equal(x, y))?, Bool),
            "ne" => (of(kind).and_then(|(x, y)| b.not(b.equal(x, y)?))?, Bool),
            "__and__" if kind == Bool => (boolean().and_then(|(x, y)| b.and(x, y))?, Bool),
            "__or__" if kind == Bool => (boolean().and_then(|(x, y)| b.or(x, y))?, Bool),
            "__xor__" if kind == Bool => (boolean().and_then(|(x, y)| b.xor(x, y))?, Bool),
            "__is__" | "__isnot__" => return Ok(Some(Item::Bool(a.same(c) == (name == "__is__")))),
            _ => return Ok(None),
        };
        let sizes = self.is_size(a) && self.is_size(c);
        if sizes && matches!(name, "add" | "mul" | "floordiv" | "min" | "max") {
            self.sizes.borrow_mut().insert(var);
        }
        self.number_of(var, kind)
    }

    fn three_numbers(&self, name: &str, [x, y, z]: [&Item; 3]) -> Result<Option<Item>> {
        let two = |name, a: &Item, b: &Item| -> Result<Item> {
            let found = self.arithmetic(name, &[a.clone(), b.clone()])?;
            Ok(found.unwrap_or_else(|| self.hole()))
        };
        Ok(match name {
            // Rounded up: the negative of the negative number divided down.
            "__range_length" => {
                let span = two("sub", x, y)?;
                let turns = two("floordiv", &span, z)?;
                Some(two("max", &two("sub", &Item::Int(0), &turns)?, &Item::Int(0))?)
            }
            "__derive_index" => Some(two("add", y, &two("mul", x, z)?)?),
            _ => None,
        })
    }

    fn equal_lists(&self, name: &str, a: &Item, c: &Item) -> Result<Option<Item>> {
        let (Some(x), Some(y)) = (a.items(), c.items()) else { return Ok(None) };
        if x.len() != y.len() {
            return Ok(Some(Item::Bool(name == "ne")));
        }
        let mut all = Item::Bool(true);
        for (x, y) in x.iter().zip(&y) {
            let one = match x.is_computed() || y.is_computed() {
                true => self.numbers("eq", &[x.clone(), y.clone()])?,
                false => Some(Item::Bool(super::python::equal(x, y))),
            };
            let Some(one) = one else { return Ok(None) };
            let both = [all, one];
            let Some(found) = self.arithmetic("__and__", &both)? else { return Ok(None) };
            all = found;
        }
        match (name, &all) {
            ("eq", _) => Ok(Some(all)),
            (_, Item::Bool(x)) => Ok(Some(Item::Bool(!x))),
            _ => self.numbers("__not__", &[all]),
        }
    }

    /// Whether a number is a size: never negative.
    fn is_size(&self, item: &Item) -> bool {
        match item {
            Item::Int(x) => *x >= 0,
            Item::Number(GraphNumber { var, .. }) => self.sizes.borrow().contains(var),
            _ => false,
        }
    }
}

/// What needs no arithmetic: one of the numbers is neutral.
fn neutral(name: &str, a: &Item, b: &Item) -> Option<Item> {
    match (name, a, b) {
        ("add" | "sub", a, Item::Int(0)) | ("mul", a, Item::Int(1)) => Some(a.clone()),
        ("floordiv", a @ Item::Number(GraphNumber { kind: Int, .. }), Item::Int(1)) => {
            Some(a.clone())
        }
        ("add", Item::Int(0), b) | ("mul", Item::Int(1), b) => Some(b.clone()),
        ("__and__", a, Item::Bool(true)) | ("__or__", a, Item::Bool(false)) => Some(a.clone()),
        ("__and__", Item::Bool(true), b) | ("__or__", Item::Bool(false), b) => Some(b.clone()),
        ("__and__", Item::Bool(false), _) | ("__and__", _, Item::Bool(false)) => {
            Some(Item::Bool(false))
        }
        ("__or__", Item::Bool(true), _) | ("__or__", _, Item::Bool(true)) => Some(Item::Bool(true)),
        _ => None,
    }
}

fn kind_of(item: &Item) -> Option<NumberKind> {
    match item {
        Item::Bool(_) => Some(Bool),
        Item::Int(_) => Some(Int),
        Item::Float(_) => Some(Float),
        Item::Number(number) => Some(number.kind),
        _ => None,
    }
}
