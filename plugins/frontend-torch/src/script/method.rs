//! The method of a module that is converted, and the hooks that torch runs around it.

use super::run::Interpreter;
use crate::diag::{Code, Diagnostic, shown};
use crate::machine::{Instance, Item, Result};
use crate::options::TorchOptions;
use crate::syntax::ast::{CodeFunction, Parameter};
use crate::syntax::types::Type;
use std::rc::Rc;

impl Interpreter<'_, '_> {
    /// The object and its method that `path` names: `forward`, `encoder.forward`.
    ///
    /// # Errors
    /// `N0103` if there is none, or if several could be meant.
    pub(super) fn method_at(
        &self,
        path: &str,
        options: &TorchOptions,
    ) -> Result<(Rc<Instance>, Rc<CodeFunction>)> {
        let none = |class: &str| {
            let (class, path) = (shown(class), shown(path));
            wanted(format!("`{class}` has no method `{path}`."))
        };
        let Item::Object(mut object) = self.root()? else {
            return Err(Diagnostic::new(Code::SourceSyntax, "The archive holds no module."));
        };
        let mut names = path.split('.').peekable();
        let mut name = names.next().unwrap_or_default();
        while names.peek().is_some() {
            let inner = object.attributes.borrow().get(name).cloned();
            let Some(Item::Object(inner)) = inner else { return Err(none(&object.class)) };
            (object, name) = (inner, names.next().unwrap_or_default());
        }
        if let Some(method) = self.method(&object.class, name)? {
            return Ok((object, method));
        }
        let fitting = self.fitting(&object, name, options)?;
        let [method] = fitting.as_slice() else {
            let names: Vec<String> =
                fitting.iter().map(|m| format!("`{}`", shown(&m.name))).collect();
            return Err(match names.len() {
                0 => none(&object.class),
                _ => wanted(format!(
                    "`{}` has no method `{}`, but others: {}.",
                    shown(&object.class),
                    shown(name),
                    names.join(", ")
                )),
            });
        };
        Ok((object, method.clone()))
    }

    /// The methods that may stand for `name`: its overloads, which are numbered (`forward__0`), or all others if it is
    /// `forward`; of these, the ones that take the inputs.
    fn fitting(
        &self,
        object: &Instance,
        name: &str,
        options: &TorchOptions,
    ) -> Result<Vec<Rc<CodeFunction>>> {
        let Some(class) = self.library.find_class(&object.class)? else { return Ok(vec![]) };
        let is_overload = |method: &CodeFunction| {
            let number = method.name.strip_prefix(name).and_then(|rest| rest.strip_prefix("__"));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        let is_hook = |method: &CodeFunction| {
            class.pre_hooks.iter().chain(&class.hooks).any(|hook| *hook == method.name)
        };
        let of = |wanted: &dyn Fn(&CodeFunction) -> bool| -> Vec<Rc<CodeFunction>> {
            let takes =
                |method: &&Rc<CodeFunction>| wanted(method) && takes_inputs(method, options);
            class.methods.iter().filter(takes).cloned().collect()
        };
        let overloads = of(&is_overload);
        Ok(match overloads.is_empty() && name == "forward" {
            true => of(&|method| !method.name.starts_with('_') && !is_hook(method)),
            false => overloads,
        })
    }

    /// Calls a method as torch does: a module's hooks run before and behind `forward`.
    ///
    /// # Errors
    /// Those of the program.
    pub(super) fn called_with_hooks(
        &self,
        object: &Rc<Instance>,
        method: &Rc<CodeFunction>,
        mut inputs: Vec<Item>,
    ) -> Result<Item> {
        let class = self.library.find_class(&object.class)?;
        let class = class.filter(|_| &*method.name == "forward");
        let hooks = |names: &[Rc<str>]| -> Result<Vec<Rc<CodeFunction>>> {
            names.iter().map(|name| self.hook(object, name)).collect()
        };
        for hook in hooks(class.as_ref().map_or(&[], |class| &class.pre_hooks))? {
            match self.called_method(object, &hook, vec![Item::tuple(inputs.clone())])? {
                Item::None => {}
                Item::Tuple(items) => inputs = items.to_vec(),
                item => inputs = vec![item],
            }
        }
        let mut result = self.called_method(object, method, inputs.clone())?;
        for hook in hooks(class.as_ref().map_or(&[], |class| &class.hooks))? {
            let given = vec![Item::tuple(inputs.clone()), result.clone()];
            match self.called_method(object, &hook, given)? {
                Item::None => {}
                item => result = item,
            }
        }
        Ok(result)
    }

    fn hook(&self, object: &Instance, name: &str) -> Result<Rc<CodeFunction>> {
        self.method(&object.class, name)?.ok_or_else(|| {
            let (class, name) = (shown(&object.class), shown(name));
            let message = format!("`{class}` has no hook `{name}`.");
            Diagnostic::new(Code::SourceTruncated, message)
        })
    }
}

fn wanted(message: String) -> Diagnostic {
    let help = "Name the method to convert with `source.method`.";
    Diagnostic::new(Code::ParamsBadValue, message).help(help)
}

/// Whether a method can be called with the inputs of a graph, as many as the params give shapes for.
fn takes_inputs(method: &CodeFunction, options: &TorchOptions) -> bool {
    let inputs = method.parameters.get(1..).unwrap_or_default();
    let open = |p: &&Parameter| !options.constants().has(&p.name);
    let inputs: Vec<&Parameter> = inputs.iter().filter(open).collect();
    let least: usize = inputs.iter().filter(|p| p.default.is_none()).map(|p| count(&p.ty)).sum();
    let most: usize = inputs.iter().map(|p| count(&p.ty)).fold(0, usize::saturating_add);
    let given = options.count();
    let fits = given == 0 || (least..=most).contains(&given);
    let keys = !options.named().is_empty();
    let typed = |ty: &Option<Type>| ty.as_ref().is_none_or(|ty| is_input(ty, keys));
    fits && inputs.iter().all(|p| p.default.is_some() || typed(&p.ty))
}

/// Whether inputs of a graph can be a value of this type.
fn is_input(ty: &Type, keys: bool) -> bool {
    match ty {
        Type::Tensor | Type::Any | Type::Int | Type::Float | Type::Number | Type::Bool => true,
        Type::Optional(of) | Type::List(of) => is_input(of, keys),
        // Their keys must be known.
        Type::Dict(key, of) => keys && **key == Type::Text && is_input(of, keys),
        Type::Tuple(types) => types.iter().all(|ty| is_input(ty, keys)),
        _ => false,
    }
}

/// How many inputs of a graph a value of this type is; a list may be any number.
fn count(ty: &Option<Type>) -> usize {
    match ty {
        Some(Type::Tuple(types)) => types.iter().map(|ty| count(&Some(ty.clone()))).sum(),
        Some(Type::Optional(of)) => count(&Some((**of).clone())),
        _ => 1,
    }
}
