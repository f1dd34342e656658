//! Conditions and loops: decided where they do not depend on tensors, else `If` and `Loop`.

use super::run::{Interpreter, Scopes};
use crate::machine::{GraphNumber, Item, NumberKind, Result, Variables};
use crate::syntax::ast::{AssignTarget, Expr, Statement, StatementKind};
use std::rc::Rc;

impl Interpreter<'_, '_> {
    /// What a condition is: decided, or a number of the graph.
    fn truth(&self, item: Item) -> Result<Item> {
        Ok(match item {
            Item::Bool(_) | Item::Number(_) | Item::Hole => item,
            Item::Int(x) => Item::Bool(x != 0),
            Item::None => Item::Bool(false),
            Item::Tensor(_) => self.machine.call("aten::Bool", None, vec![item], vec![])?,
            other => return Err(self.unsupported(format!("A condition is {}.", other.what()))),
        })
    }

    pub(super) fn condition(
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
                        Err(why) if !crate::machine::is_raised(&why) => return Err(why),
                        _ => {}
                    }
                    let mut names = vec![];
                    assigned(arm, &mut names);
                    names.into_iter().for_each(|name| scopes.set(name, Item::Hole));
                }
                return Ok(None);
            }
        };
        let number = GraphNumber { kind: NumberKind::Bool, ..number };
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
                Err(self.unsupported(message))
            }
        }
    }

    pub(super) fn for_loop(
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
                    return Err(self.unsupported(format!("A loop runs over {}.", items.what())));
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
            Some(1) => one(0),
            Some(n) => {
                let carried = self.carried(body, scopes);
                let pure = self.machine.decided(&mut || {
                    scopes.push();
                    let done = (0..n).take_while(|_| self.machine.is_pure()).try_for_each(&one);
                    let variables = scopes.pop();
                    done.map(|()| variables)
                })?;
                if let Some(variables) = pure {
                    variables.into_iter().for_each(|(name, item)| scopes.set(name, item));
                    return Ok(());
                }
                let looped = self.machine.unrollable(n, || {
                    self.looped(Some(turns.clone()), None, &carried, scopes, &|i| {
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
                self.looped(Some(turns), None, &carried, scopes, &|i| turn(i).map(|_| ()))
            }
        }
    }

    pub(super) fn while_loop(
        &self,
        condition: &Expr,
        body: &[Statement],
        scopes: &Scopes,
    ) -> Result<()> {
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
        self.looped(None, Some(&(first, condition)), &carried, scopes, &again)
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
        condition: Option<&(Item, &Expr)>,
        carried: &Variables,
        scopes: &Scopes,
        turn: &dyn Fn(Item) -> Result<()>,
    ) -> Result<()> {
        let names: Vec<Rc<str>> = carried.iter().map(|(name, _)| name.clone()).collect();
        let turns =
            crate::machine::Turns { most, condition: condition.map(|(item, _)| item.clone()) };
        let body = |i: Item, variables: Variables| {
            scopes.push();
            variables.into_iter().for_each(|(name, item)| scopes.set(name, item));
            let done = turn(i);
            let next = match (&done, condition) {
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
}

/// Names that statements set, also in arms and bodies inside.
fn assigned(statements: &[Statement], names: &mut Vec<Rc<str>>) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Assign { targets, .. } => {
                names.extend(targets.iter().filter_map(|target| match target {
                    AssignTarget::Name(name) => Some(name.clone()),
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
