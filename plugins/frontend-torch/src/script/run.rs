//! Runs the printed code: statements, in their order.

use super::library::CodeLibrary;
use super::loaded::Loaded;
use super::states::States;
use crate::archive::objects::ScriptArchive;
use crate::diag::{Code, Diagnostic, Layer, shown};
use crate::machine::{Elements, Instance, Item, Machine, NumberKind, Result, Variables};
use crate::syntax::ast::{
    AssignTarget, Class, ClassKind, CodeFunction, Expr, Statement, StatementKind,
};
use crate::syntax::types::Type;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What a statement that runs counts as work, beside the calls in it.
const STATEMENT_WORK: usize = 40;

/// The program of an archive on its way through the machine.
pub(crate) struct Interpreter<'m, 's> {
    pub(crate) machine: &'m Machine<'s>,
    pub(super) library: &'m CodeLibrary<'m>,
    pub(super) archive: &'m ScriptArchive,
    pub(super) loaded: Loaded,
    pub(super) constants: RefCell<Vec<Item>>,
    /// Whether modules that were saved in training mode stay in it.
    pub(super) training: bool,
    pub(super) states: States,
}

/// The variables of a function that runs. Arms of conditions and bodies of loops have scopes of their own.
pub(super) struct Scopes {
    all: RefCell<Vec<HashMap<Rc<str>, Item>>>,
    /// Name of the code file, for messages.
    member: Rc<str>,
}

impl Scopes {
    pub(super) fn get(&self, name: &str) -> Option<Item> {
        self.all.borrow().iter().rev().find_map(|scope| scope.get(name).cloned())
    }

    pub(super) fn set(&self, name: Rc<str>, item: Item) {
        if let Some(scope) = self.all.borrow_mut().last_mut() {
            scope.insert(name, item);
        }
    }

    /// All variables that can be seen, those of the inner scopes last.
    fn all(&self) -> Variables {
        let all = self.all.borrow();
        all.iter().flatten().map(|(name, item)| (name.clone(), item.clone())).collect()
    }

    pub(super) fn push(&self) {
        self.all.borrow_mut().push(HashMap::new());
    }

    /// Ends a scope; gives its variables in the order of their names.
    pub(super) fn pop(&self) -> Variables {
        let scope = self.all.borrow_mut().pop().unwrap_or_default();
        let mut variables: Variables = scope.into_iter().collect();
        variables.sort_by(|a, b| a.0.cmp(&b.0));
        variables
    }
}

impl<'m, 's> Interpreter<'m, 's> {
    pub(super) fn new(
        machine: &'m Machine<'s>,
        library: &'m CodeLibrary<'m>,
        archive: &'m ScriptArchive,
        training: bool,
        states: States,
    ) -> Interpreter<'m, 's> {
        let (loaded, constants) = Default::default();
        Interpreter { machine, library, archive, loaded, constants, training, states }
    }

    /// The finding for what the program does and ONNX cannot: `N0203`.
    pub(super) fn unsupported(&self, message: impl Into<String>) -> Diagnostic {
        self.machine.problem(Code::LayerUnsupported, message)
    }

    /// The finding for code that does not hold together: `N0201`.
    pub(super) fn damaged(&self, message: impl Into<String>) -> Diagnostic {
        self.machine.problem(Code::SourceSyntax, message)
    }

    /// The module that was saved.
    ///
    /// # Errors
    /// What keeps an object from being loaded.
    pub(crate) fn root(&self) -> Result<Item> {
        let constant = |(i, from)| self.loaded(from, &format!("c{i}"));
        let constants = self.archive.constants.iter().enumerate().map(constant);
        let constants = constants.collect::<Result<Vec<_>>>()?;
        self.constants.replace(constants);
        self.loaded(&self.archive.root, "")
    }

    /// Calls a method of an object with the arguments after `self`.
    pub(crate) fn called_method(
        &self,
        object: &Rc<Instance>,
        method: &Rc<CodeFunction>,
        arguments: Vec<Item>,
    ) -> Result<Item> {
        let kind = plain_class(&object.class);
        let layer = Layer { name: object.path.to_string(), kind, place: String::new() };
        let all = std::iter::once(Item::Object(object.clone())).chain(arguments).collect();
        let scopes = Interpreter::fresh_scopes(&module_of(&object.class));
        self.machine.inside(layer, || self.run(method, &scopes, all, &[]))
    }

    /// Calls a function of the archive, in the layer of its caller.
    pub(super) fn called_function(
        &self,
        name: &str,
        function: &Rc<CodeFunction>,
        arguments: Vec<Item>,
        named: &[(Rc<str>, Item)],
    ) -> Result<Item> {
        let layer = self.machine.layer();
        let scopes = Interpreter::fresh_scopes(&module_of(name));
        self.machine.inside(layer, || self.run(function, &scopes, arguments, named))
    }

    /// Calls a function that was defined within another one, whose variables it sees.
    pub(super) fn called_closure(
        &self,
        member: Rc<str>,
        function: &CodeFunction,
        around: &Variables,
        arguments: Vec<Item>,
        named: &[(Rc<str>, Item)],
    ) -> Result<Item> {
        let layer = self.machine.layer();
        let scopes = Scopes { all: RefCell::new(vec![around.iter().cloned().collect()]), member };
        self.machine.inside(layer, || self.run(function, &scopes, arguments, named))
    }

    /// The method of a class, if it has it.
    pub(super) fn method(&self, class: &str, name: &str) -> Result<Option<Rc<CodeFunction>>> {
        Ok(self.library.find_class(class)?.and_then(|class| class.method(name).cloned()))
    }

    /// The default of a parameter.
    pub(super) fn default(&self, default: &Expr) -> Result<Item> {
        self.expression(default, &Interpreter::fresh_scopes(""))
    }

    fn run(
        &self,
        function: &CodeFunction,
        scopes: &Scopes,
        arguments: Vec<Item>,
        named: &[(Rc<str>, Item)],
    ) -> Result<Item> {
        let mut arguments = arguments.into_iter();
        for parameter in &function.parameters {
            let by_name = || {
                let found = named.iter().find(|(name, _)| *name == parameter.name);
                found.map(|(_, item)| item.clone())
            };
            let item = match arguments.next().or_else(by_name) {
                Some(item) => item,
                None => match &parameter.default {
                    Some(default) => self.expression(default, scopes)?,
                    None => {
                        let (function, name) = (shown(&function.name), shown(&parameter.name));
                        let message = format!("`{function}` lacks its argument `{name}`.");
                        return Err(self.damaged(message));
                    }
                },
            };
            scopes.set(parameter.name.clone(), item);
        }
        Ok(self.block(&function.body, scopes)?.unwrap_or(Item::None))
    }

    /// Runs statements; gives what the function returns, if it does.
    pub(super) fn block(&self, statements: &[Statement], scopes: &Scopes) -> Result<Option<Item>> {
        for statement in statements {
            self.machine.work(STATEMENT_WORK)?;
            self.machine
                .at(|| format!("{}.py:{}", scopes.member.replace('.', "/"), statement.line));
            if let Some(item) = self.machine.nested(|| self.statement(statement, scopes))? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn statement(&self, statement: &Statement, scopes: &Scopes) -> Result<Option<Item>> {
        match &statement.kind {
            StatementKind::Assign { targets, unpack, values } => {
                self.assign(targets, *unpack, values, scopes)?;
            }
            StatementKind::Expression(e) => drop(self.expression(e, scopes)?),
            StatementKind::If { condition, then, otherwise } => {
                return self.condition(condition, then, otherwise, scopes);
            }
            StatementKind::For { target, iterable, body } => {
                self.for_loop(target, iterable, body, scopes)?;
            }
            StatementKind::While { condition, body } => self.while_loop(condition, body, scopes)?,
            StatementKind::With { context, target, body } => {
                let context = self.expression(context, scopes)?;
                if let Some(target) = target {
                    scopes.set(target.clone(), context);
                }
                return self.block(body, scopes);
            }
            StatementKind::Define(function) => {
                let around = scopes.all();
                self.machine.work(around.len())?;
                let item = Item::Function(scopes.member.clone(), function.clone(), Rc::new(around));
                scopes.set(function.name.clone(), item);
            }
            StatementKind::Return(e) => {
                let item = e.as_ref().map(|e| self.expression(e, scopes)).transpose()?;
                return Ok(Some(item.unwrap_or(Item::None)));
            }
            StatementKind::Pass => {}
        }
        Ok(None)
    }

    fn assign(
        &self,
        targets: &[AssignTarget],
        unpack: bool,
        values: &[Expr],
        scopes: &Scopes,
    ) -> Result<()> {
        let results = if unpack { targets.len() } else { 1 };
        let items = values.iter().map(|e| self.several(e, results, scopes));
        let items = items.collect::<Result<Vec<_>>>()?;
        let items = match (unpack, items.as_slice()) {
            (true, [Item::Hole]) => vec![Item::Hole; targets.len()],
            (true, [item]) => match item.items() {
                Some(items) if items.len() == targets.len() => items,
                _ => {
                    let message =
                        format!("{} is taken apart into {} values.", item.what(), targets.len());
                    return Err(self.unsupported(message));
                }
            },
            _ => items,
        };
        for (target, item) in targets.iter().zip(items) {
            match target {
                AssignTarget::Name(name) => scopes.set(name.clone(), item),
                AssignTarget::Attribute(object, name) => {
                    let Item::Object(object) = self.expression(object, scopes)? else {
                        return Err(self.damaged(format!("`{}` is set of no object.", shown(name))));
                    };
                    self.machine.set_attribute(&object, name, item);
                }
                AssignTarget::Item(container, key) => {
                    let container = self.expression(container, scopes)?;
                    let key = self.expression(key, scopes)?;
                    self.machine.call(
                        "aten::_set_item",
                        None,
                        vec![container, key, item],
                        vec![],
                    )?;
                }
            }
        }
        Ok(())
    }

    /// The enum member of a class that has this value.
    pub(super) fn member_of_value(
        &self,
        name: &Rc<str>,
        class: &Class,
        value: &crate::archive::pickle::Pickled,
    ) -> Result<Option<Item>> {
        if class.kind != ClassKind::Enum {
            return Ok(None);
        }
        let value = self.loaded(value, "")?;
        let scopes = Interpreter::fresh_scopes(name);
        for attribute in &class.attributes {
            let Some(e) = &attribute.value else { continue };
            let item = self.expression(e, &scopes)?;
            if crate::machine::equal(&item, &value) {
                return Ok(Some(Item::Member(name.clone(), attribute.name.clone(), Rc::new(item))));
            }
        }
        Ok(None)
    }

    pub(super) fn fresh_scopes(member: &str) -> Scopes {
        Scopes { all: RefCell::new(vec![HashMap::new()]), member: member.into() }
    }

    /// Whether a value is of a type, as far as Python's `isinstance` asks.
    pub(super) fn is_instance(&self, item: &Item, ty: &Type) -> bool {
        match (ty, item) {
            (Type::Any, _) => true,
            (Type::Tensor, Item::Tensor(_) | Item::Hole) => true,
            (Type::Int, Item::Int(_)) | (Type::Float, Item::Float(_)) => true,
            (Type::Bool, Item::Bool(_)) | (Type::Text, Item::Text(_)) => true,
            (Type::None, Item::None) | (Type::Complex, Item::Complex(..)) => true,
            (Type::Device, Item::Device(_)) => true,
            (Type::Number, Item::Int(_) | Item::Float(_) | Item::Complex(..) | Item::Number(_)) => {
                true
            }
            (ty, Item::Number(number)) => *ty == type_of_number(number.kind),
            (Type::List(of), Item::List(cell)) => match &*cell.borrow() {
                Elements::Known(items) => items.iter().all(|item| self.is_instance(item, of)),
                Elements::Sequence(_) => **of == Type::Tensor,
                Elements::Numbers(_, kind) => **of == type_of_number(*kind),
            },
            (Type::Dict(key, value), Item::Dict(cell)) => {
                let pairs = cell.borrow();
                pairs.iter().all(|(k, v)| self.is_instance(k, key) && self.is_instance(v, value))
            }
            (Type::Optional(of), item) => matches!(item, Item::None) || self.is_instance(item, of),
            (Type::Union(all), item) => all.iter().any(|ty| self.is_instance(item, ty)),
            (Type::Tuple(types), Item::Tuple(items)) => {
                types.len() == items.len()
                    && types.iter().zip(&**items).all(|(ty, item)| self.is_instance(item, ty))
            }
            (Type::Class(name), Item::List(_)) => &**name == "list",
            (Type::Class(name), Item::Tuple(_)) => &**name == "tuple",
            (Type::Class(name), Item::Dict(_)) => &**name == "dict",
            (Type::Class(name), Item::Object(object)) => *name == object.class,
            (Type::Class(name), Item::Record(class, _)) => {
                &**name == "tuple" || plain_class(name) == *class.name
            }
            (Type::Class(name), Item::Member(class, ..)) => name == class,
            _ => false,
        }
    }
}

fn type_of_number(kind: NumberKind) -> Type {
    match kind {
        NumberKind::Bool => Type::Bool,
        NumberKind::Int => Type::Int,
        NumberKind::Float => Type::Float,
    }
}

/// `C` of `__torch__.a.b.C`.
pub(super) fn plain_class(class: &str) -> String {
    class.rsplit('.').next().unwrap_or(class).to_owned()
}

/// `__torch__.a.b` of `__torch__.a.b.C`.
fn module_of(name: &str) -> Rc<str> {
    name.rsplit_once('.').map_or(name, |(module, _)| module).into()
}
