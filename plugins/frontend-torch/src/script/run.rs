//! Runs the printed code: statements, in their order.

use super::ast::{Class, ClassKind, Expr, Function, Statement, StatementKind, Target};
use super::library::Library;
use super::objects::Loaded;
use super::types::Type;
use crate::archive::objects::ScriptArchive;
use crate::diag::{Code, Layer, shown};
use crate::machine::{Elements, Instance, Item, Machine, Number, NumberKind, Result, Variables};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The program of an archive on its way through the machine.
pub(crate) struct Interpreter<'m, 's> {
    pub(crate) machine: &'m Machine<'s>,
    pub(super) library: &'m Library<'m>,
    pub(super) archive: &'m ScriptArchive,
    pub(super) loaded: Loaded,
    pub(super) constants: RefCell<Vec<Item>>,
    /// Whether modules that were saved in training mode stay in it.
    pub(super) training: bool,
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

    fn set(&self, name: Rc<str>, item: Item) {
        if let Some(scope) = self.all.borrow_mut().last_mut() {
            scope.insert(name, item);
        }
    }

    fn push(&self) {
        self.all.borrow_mut().push(HashMap::new());
    }

    /// Ends a scope; gives its variables in the order of their names.
    fn pop(&self) -> Variables {
        let scope = self.all.borrow_mut().pop().unwrap_or_default();
        let mut variables: Variables = scope.into_iter().collect();
        variables.sort_by(|a, b| a.0.cmp(&b.0));
        variables
    }
}

impl<'m, 's> Interpreter<'m, 's> {
    pub(crate) fn new(
        machine: &'m Machine<'s>,
        library: &'m Library<'m>,
        archive: &'m ScriptArchive,
        training: bool,
    ) -> Interpreter<'m, 's> {
        let (loaded, constants) = Default::default();
        Interpreter { machine, library, archive, loaded, constants, training }
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
        method: &Rc<Function>,
        arguments: Vec<Item>,
    ) -> Result<Item> {
        let kind = plain_class(&object.class);
        let layer = Layer { name: object.path.to_string(), kind, place: String::new() };
        let all = std::iter::once(Item::Object(object.clone())).chain(arguments).collect();
        let member = module_of(&object.class);
        self.machine.inside(layer, || self.run(method, member, all, vec![]))
    }

    /// Calls a function of the archive, in the layer of its caller.
    pub(super) fn called_function(
        &self,
        name: &str,
        function: &Rc<Function>,
        arguments: Vec<Item>,
        named: Vec<(Rc<str>, Item)>,
    ) -> Result<Item> {
        let layer = self.machine.layer();
        self.machine.inside(layer, || self.run(function, module_of(name), arguments, named))
    }

    /// The method of a class, if it has it.
    pub(super) fn method(&self, class: &str, name: &str) -> Result<Option<Rc<Function>>> {
        Ok(self.library.find_class(class)?.and_then(|class| class.method(name).cloned()))
    }

    fn run(
        &self,
        function: &Function,
        member: Rc<str>,
        arguments: Vec<Item>,
        named: Vec<(Rc<str>, Item)>,
    ) -> Result<Item> {
        let scopes = Scopes { all: RefCell::new(vec![HashMap::new()]), member };
        let mut arguments = arguments.into_iter();
        for parameter in &function.parameters {
            let by_name = || {
                let found = named.iter().find(|(name, _)| *name == parameter.name);
                found.map(|(_, item)| item.clone())
            };
            let item = match arguments.next().or_else(by_name) {
                Some(item) => item,
                None => match &parameter.default {
                    Some(default) => self.expression(default, &scopes)?,
                    None => {
                        let (function, name) = (shown(&function.name), shown(&parameter.name));
                        let message = format!("`{function}` lacks its argument `{name}`.");
                        return Err(self.machine.problem(Code::SourceSyntax, message));
                    }
                },
            };
            scopes.set(parameter.name.clone(), item);
        }
        Ok(self.block(&function.body, &scopes)?.unwrap_or(Item::None))
    }

    /// Runs statements; gives what the function returns, if it does.
    fn block(&self, statements: &[Statement], scopes: &Scopes) -> Result<Option<Item>> {
        for statement in statements {
            self.machine.work(10)?;
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
                scopes.set(
                    function.name.clone(),
                    Item::Function(scopes.member.clone(), function.clone()),
                );
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
        targets: &[Target],
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
                    return Err(self.machine.problem(Code::LayerUnsupported, message));
                }
            },
            _ => items,
        };
        for (target, item) in targets.iter().zip(items) {
            match target {
                Target::Name(name, _) => scopes.set(name.clone(), item),
                Target::Attribute(object, name) => {
                    let Item::Object(object) = self.expression(object, scopes)? else {
                        let message = format!("`{}` is set of no object.", shown(name));
                        return Err(self.machine.problem(Code::SourceSyntax, message));
                    };
                    self.machine.set_attribute(&object, name, item);
                }
                Target::Item(container, key) => {
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

    // ---- conditions and loops ----

    /// What a condition is: decided, or a number of the graph.
    fn truth(&self, item: Item) -> Result<Item> {
        Ok(match item {
            Item::Bool(_) | Item::Number(_) | Item::Hole => item,
            Item::Int(x) => Item::Bool(x != 0),
            Item::None => Item::Bool(false),
            Item::Tensor(_) => self.machine.call("aten::Bool", None, vec![item], vec![])?,
            other => {
                let message = format!("A condition is {}.", other.what());
                return Err(self.machine.problem(Code::LayerUnsupported, message));
            }
        })
    }

    fn condition(
        &self,
        condition: &Expr,
        then: &[Statement],
        otherwise: &[Statement],
        scopes: &Scopes,
    ) -> Result<Option<Item>> {
        let condition = self.expression(condition, scopes)?;
        let number = match self.truth(condition)? {
            Item::Bool(true) => return self.block(then, scopes),
            Item::Bool(false) => return self.block(otherwise, scopes),
            Item::Number(number) => number,
            // What is missing is reported for both arms.
            _ => {
                for arm in [then, otherwise] {
                    match self.scoped(arm, scopes) {
                        Err(why) if !self.machine.was_raised() => return Err(why),
                        _ => {}
                    }
                    let mut names = vec![];
                    assigned(arm, &mut names);
                    names.into_iter().for_each(|name| scopes.set(name, Item::Hole));
                }
                return Ok(None);
            }
        };
        let number = Number { kind: NumberKind::Bool, ..number };
        let arms = [&|| self.scoped(then, scopes), &|| self.scoped(otherwise, scopes)]
            as [&dyn Fn() -> Result<Variables>; 2];
        let variables = self.machine.branch(number, arms, &|name| scopes.get(name))?;
        for (name, item) in variables {
            scopes.set(name, item);
        }
        Ok(None)
    }

    /// Runs statements in a scope of their own; gives its variables.
    fn scoped(&self, statements: &[Statement], scopes: &Scopes) -> Result<Variables> {
        scopes.push();
        let done = self.block(statements, scopes);
        let variables = scopes.pop();
        match done? {
            None => Ok(variables),
            Some(_) => {
                let message = "A function returns within a condition that depends on tensors.";
                Err(self.machine.problem(Code::LayerUnsupported, message))
            }
        }
    }

    fn for_loop(
        &self,
        target: &Rc<str>,
        iterable: &Expr,
        body: &[Statement],
        scopes: &Scopes,
    ) -> Result<()> {
        let turns = match iterable {
            Expr::Call { function, arguments, .. }
                if **function == Expr::Name("range".into()) && arguments.len() == 1 =>
            {
                self.expression(&arguments[0], scopes)?
            }
            other => {
                let items = self.expression(other, scopes)?;
                let Some(items) = items.items() else {
                    let message = format!("A loop runs over {}.", items.what());
                    return Err(self.machine.problem(Code::LayerUnsupported, message));
                };
                for item in items {
                    scopes.set(target.clone(), item);
                    self.block(body, scopes)?;
                }
                return Ok(());
            }
        };
        let one = |i: i64| {
            scopes.set(target.clone(), Item::Int(i));
            self.block(body, scopes).map(|_| ())
        };
        let turn = |item: Item| {
            scopes.set(target.clone(), item);
            self.block(body, scopes)
        };
        match turns.as_int() {
            Some(..=0) => Ok(()),
            Some(n) => {
                let carried = self.carried(body, scopes);
                let pure = self.machine.decided(&mut || {
                    scopes.push();
                    let done = (0..n).try_for_each(|i| {
                        match self.machine.is_pure() {
                            true => one(i).map(|()| true),
                            false => Ok(false),
                        }
                        .map(|_| ())
                    });
                    let variables = scopes.pop();
                    done.map(|()| variables)
                })?;
                if let Some(variables) = pure {
                    variables.into_iter().for_each(|(name, item)| scopes.set(name, item));
                    return Ok(());
                }
                let looped = self.machine.unrollable(n, || {
                    self.looped(Some(turns.clone()), None, body, carried, scopes, &|i| {
                        turn(i).map(|_| ())
                    })
                });
                match looped {
                    Some(done) => done,
                    None => (0..n).try_for_each(one),
                }
            }
            None => {
                let carried = self.carried(body, scopes);
                self.looped(Some(turns), None, body, carried, scopes, &|i| turn(i).map(|_| ()))
            }
        }
    }

    fn while_loop(&self, condition: &Expr, body: &[Statement], scopes: &Scopes) -> Result<()> {
        let holds = |scopes: &Scopes| self.truth(self.expression(condition, scopes)?);
        let first = holds(scopes)?;
        if matches!(first, Item::Bool(false)) {
            return Ok(());
        }
        if matches!(first, Item::Bool(true)) {
            let pure = self.machine.decided(&mut || {
                scopes.push();
                let mut done = Ok(());
                while done.is_ok() && self.machine.is_pure() {
                    match holds(scopes) {
                        Ok(Item::Bool(true)) => done = self.block(body, scopes).map(|_| ()),
                        Ok(Item::Bool(false)) => break,
                        Ok(_) => {
                            self.machine.not_pure();
                        }
                        Err(why) => done = Err(why),
                    }
                }
                let variables = scopes.pop();
                done.map(|()| variables)
            })?;
            if let Some(variables) = pure {
                variables.into_iter().for_each(|(name, item)| scopes.set(name, item));
                return Ok(());
            }
        }
        let carried = self.carried(body, scopes);
        let again = |_: Item| self.block(body, scopes).map(|_| ());
        self.looped(None, Some((first, condition)), body, carried, scopes, &again)
    }

    /// Variables that a loop carries: those it sets that were set before.
    fn carried(&self, body: &[Statement], scopes: &Scopes) -> Variables {
        let mut names = vec![];
        assigned(body, &mut names);
        names.sort();
        names.dedup();
        names.into_iter().filter_map(|name| Some((name.clone(), scopes.get(&name)?))).collect()
    }

    fn looped(
        &self,
        most: Option<Item>,
        condition: Option<(Item, &Expr)>,
        _body: &[Statement],
        carried: Variables,
        scopes: &Scopes,
        turn: &dyn Fn(Item) -> Result<()>,
    ) -> Result<()> {
        let names: Vec<Rc<str>> = carried.iter().map(|(name, _)| name.clone()).collect();
        let turns = crate::machine::Turns {
            most,
            condition: condition.as_ref().map(|(item, _)| item.clone()),
        };
        let body = |i: Item, variables: Variables| {
            scopes.push();
            variables.into_iter().for_each(|(name, item)| scopes.set(name, item));
            let done = turn(i);
            let next = match (&done, &condition) {
                (Ok(()), Some((_, e))) => {
                    Some(self.expression(e, scopes).and_then(|item| self.truth(item)))
                }
                _ => None,
            };
            let carried = names.iter().filter_map(|n| Some((n.clone(), scopes.get(n)?))).collect();
            scopes.pop();
            done?;
            Ok(crate::machine::Turn { condition: next.transpose()?, carried, scanned: vec![] })
        };
        let (variables, _) = self.machine.repeat(&turns, carried, &body)?;
        variables.into_iter().for_each(|(name, item)| scopes.set(name, item));
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
        let scopes = Scopes { all: RefCell::new(vec![HashMap::new()]), member: name.clone() };
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
            (ty, Item::Number(number)) => match number.kind {
                NumberKind::Bool => *ty == Type::Bool,
                NumberKind::Int => *ty == Type::Int,
                NumberKind::Float => *ty == Type::Float,
            },
            (Type::List(of), Item::List(cell)) => match &*cell.borrow() {
                Elements::Known(items) => items.iter().all(|item| self.is_instance(item, of)),
                Elements::Sequence(_) => **of == Type::Tensor,
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
            (Type::Class(name), Item::Object(object)) => *name == object.class,
            (Type::Class(name), Item::Record(class, _)) => plain_class(name) == *class.name,
            (Type::Class(name), Item::Member(class, ..)) => name == class,
            _ => false,
        }
    }
}

/// Names that statements set, also in arms and bodies inside.
fn assigned(statements: &[Statement], names: &mut Vec<Rc<str>>) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Assign { targets, .. } => {
                names.extend(targets.iter().filter_map(|target| match target {
                    Target::Name(name, _) => Some(name.clone()),
                    _ => None,
                }));
            }
            StatementKind::If { then, otherwise, .. } => {
                assigned(then, names);
                assigned(otherwise, names);
            }
            StatementKind::For { body, .. }
            | StatementKind::While { body, .. }
            | StatementKind::With { body, .. } => assigned(body, names),
            _ => {}
        }
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
