//! Operators that take graphs: conditions, loops, and regions of a program.

use super::autocast::Region;
use super::run::{ProgramRunner, Scope};
use super::{Argument, Graph, Node, json};
use crate::aten::dtype::dtype_of_number;
use crate::diag::{refuse, shown};
use crate::machine::{GraphNumber, Item, NumberKind, Result, Turn, Turns, Variables};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType;
use std::rc::Rc;

impl ProgramRunner<'_, '_> {
    /// What a higher-order operator gives: all of its results.
    pub(super) fn higher_order(&self, name: &str, node: &Node, scope: &Scope<'_>) -> Result<Item> {
        use Argument::{Bool, Graph as Sub, Int, List, Operator, Text};
        let arguments: Vec<&Argument> = node.arguments.iter().map(|a| &a.value).collect();
        let all = |items: &[Argument]| self.items(items, scope);
        let each = |items: &[&Argument]| self.items(items.iter().copied(), scope);
        let given = match (name, arguments.as_slice()) {
            ("cond", [condition, Sub(_, then), Sub(_, otherwise), List(operands)]) => {
                self.condition(&self.item(condition, scope)?, [then, otherwise], &all(operands)?)?
            }
            ("while_loop", [Sub(_, holds), Sub(_, body), List(carried), List(more)]) => {
                self.while_loop(holds, body, all(carried)?, &all(more)?)?
            }
            ("scan", [Sub(_, body), List(carried), List(scanned), List(more)])
            | (
                "scan",
                [Sub(_, body), List(carried), List(scanned), Int(0), Bool(false), List(more)],
            ) => self.scan(body, all(carried)?, &all(scanned)?, &all(more)?)?,
            ("map_impl" | "map", [Sub(_, body), List(scanned), List(more)]) => {
                self.scan(body, vec![], &all(scanned)?, &all(more)?)?
            }
            // Regions that change nothing of what is computed.
            ("wrap_with_set_grad_enabled", [Bool(_), Sub(_, body), operands @ ..])
            | ("invoke_subgraph", [Sub(_, body), Text(_), operands @ ..]) => {
                self.graph(body, each(operands)?)?
            }
            ("wrap_with_autocast", [device, dtype, Bool(on), _, Sub(_, body), operands @ ..]) => {
                let region = if *on { Some(self.region(device, dtype)?) } else { None };
                let operands = each(operands)?;
                self.within_autocast(region, || self.graph(body, operands))?
            }
            ("associative_scan", [Sub(_, body), List(scanned), List(more)]) => {
                self.associative(body, &all(scanned)?, &all(more)?)?
            }
            ("hints_wrapper", [Sub(_, body), List(operands), ..])
            | ("run_const_graph", [Sub(_, body), List(operands)]) => {
                self.graph(body, all(operands)?)?
            }
            (
                "wrap" | "strict_mode" | "tag_activation_checkpoint",
                [Sub(_, body), operands @ ..],
            ) => match operands {
                [List(operands)] => self.graph(body, all(operands)?)?,
                operands => self.graph(body, each(operands)?)?,
            },
            ("auto_functionalized" | "auto_functionalized_v2", [Operator(op), ..]) => {
                return self.functionalized(op, node, scope);
            }
            _ => {
                let message =
                    format!("The higher-order operator `{}` cannot be converted.", shown(name));
                return Err(self.unsupported(message));
            }
        };
        Ok(Item::tuple(given))
    }

    /// The region that a device and a type of elements say.
    fn region(&self, device: &Argument, dtype: &Argument) -> Result<Region> {
        let half = match dtype {
            Argument::Int(number) => match dtype_of_number(*number) {
                Some(half @ (DataType::Bfloat16 | DataType::Float16)) => Some(half),
                _ => {
                    let message =
                        format!("A region with autocast has elements of number {number}.");
                    return Err(self.unsupported(message));
                }
            },
            _ => None,
        };
        let device = match device {
            Argument::Text(device) => device,
            _ => "",
        };
        Region::new(device.split(':').next().unwrap_or_default(), half).ok_or_else(|| {
            let message =
                format!("What autocast does on the device `{}` is not known.", shown(device));
            self.unsupported(message)
        })
    }

    fn condition(
        &self,
        condition: &Item,
        arms: [&Graph; 2],
        operands: &[Item],
    ) -> Result<Vec<Item>> {
        let [then, otherwise] = arms;
        let number = match self.truth(condition)? {
            Item::Bool(true) => return self.graph(then, operands.to_vec()),
            Item::Bool(false) => return self.graph(otherwise, operands.to_vec()),
            other => GraphNumber {
                var: self.machine.number_var(&other, NumberKind::Bool)?,
                kind: NumberKind::Bool,
            },
        };
        let arm = |graph: &Graph| Ok(numbered(self.graph(graph, operands.to_vec())?));
        let given = self.machine.branch(number, [&|| arm(then), &|| arm(otherwise)], &|_| None)?;
        self.in_order(given, then.outputs.len())
    }

    fn while_loop(
        &self,
        holds: &Graph,
        body: &Graph,
        carried: Vec<Item>,
        more: &[Item],
    ) -> Result<Vec<Item>> {
        let count = carried.len();
        let holds = |state: &[Item]| {
            let condition_items = self.graph(holds, [state, more].concat())?;
            match condition_items.as_slice() {
                [holds] => self.truth(holds),
                _ => Err(self.damaged("the condition of a loop gives no single value")),
            }
        };
        let first = holds(&carried)?;
        if matches!(first, Item::Bool(false)) {
            return Ok(carried);
        }
        let turn = |_: Item, variables: Variables| {
            let state = self.in_order(variables, count)?;
            let next = self.graph(body, [&*state, more].concat())?;
            refuse!(next.len() != count => self.damaged("the body of a loop gives another number of values"));
            let condition = Some(holds(&next)?);
            Ok(Turn { condition, carried: numbered(next), scanned: vec![] })
        };
        let turns = Turns { most: None, condition: Some(first) };
        let (condition_items, _) = self.machine.repeat(&turns, &numbered(carried), &turn)?;
        self.in_order(condition_items, count)
    }

    /// One turn for each slice of `scanned` along the first axis. What the body gives beside the carried values is
    /// stacked.
    fn scan(
        &self,
        body: &Graph,
        carried: Vec<Item>,
        scanned: &[Item],
        more: &[Item],
    ) -> Result<Vec<Item>> {
        self.scanned(carried, scanned, |state, slices| {
            self.graph(body, [state, slices, more].concat())
        })
    }

    /// As [`ProgramRunner::scan`], where `body` gives the next values.
    fn scanned(
        &self,
        carried: Vec<Item>,
        scanned: &[Item],
        body: impl Fn(&[Item], &[Item]) -> Result<Vec<Item>>,
    ) -> Result<Vec<Item>> {
        let machine = self.machine;
        let count = carried.len();
        let first = scanned.first().ok_or_else(|| self.damaged("a scan over nothing"))?;
        let size = vec![first.clone(), Item::Int(0)];
        let most = machine.call("aten::sym_size", Some("int"), size, vec![])?;
        let sources =
            scanned.iter().map(|item| machine.var_of(item)).collect::<Result<Vec<_>>>()?;
        let turn = |i: Item, variables: Variables| {
            let state = self.in_order(variables, count)?;
            let i = machine.number_var(&i, NumberKind::Int)?;
            let slice =
                |source: &Var| Ok(machine.tensor(machine.builder().gather(*source, i).one()?));
            let slices = sources.iter().map(slice).collect::<Result<Vec<_>>>()?;
            let mut next = body(&state, &slices)?;
            refuse!(next.len() < count => self.damaged("the body of a scan gives too few values"));
            let scanned = next.split_off(count);
            Ok(Turn { condition: None, carried: numbered(next), scanned })
        };
        let turns = Turns { most: Some(most), condition: None };
        let (given, stacked) = machine.repeat(&turns, &numbered(carried), &turn)?;
        Ok(self.in_order(given, count)?.into_iter().chain(stacked).collect())
    }

    /// What a function gives of all slices up to each one along the first axis: the first as it is, then the one before
    /// with the next.
    fn associative(&self, body: &Graph, scanned: &[Item], more: &[Item]) -> Result<Vec<Item>> {
        let machine = self.machine;
        let call = |op: &str, item: &Item, arguments: Vec<Item>| {
            machine.call(op, None, [vec![item.clone()], arguments].concat(), vec![])
        };
        let [zero, one] = [Item::Int(0), Item::Int(1)];
        let first = |item: &Item| call("aten::select", item, vec![zero.clone(), zero.clone()]);
        let rest = |item: &Item| {
            call("aten::slice", item, vec![zero.clone(), one.clone(), Item::None, one.clone()])
        };
        let firsts = scanned.iter().map(first).collect::<Result<Vec<_>>>()?;
        let rests = scanned.iter().map(rest).collect::<Result<Vec<_>>>()?;
        let count = scanned.len();
        let given = self.scanned(firsts.clone(), &rests, |state, slices| {
            let next = self.graph(body, [state, slices, more].concat())?;
            refuse!(next.len() != count => self.damaged("the body of a scan gives another number of values"));
            Ok([&*next, &*next].concat())
        })?;
        let joined = firsts.iter().zip(&given[count..]).map(|(first, rest)| {
            let first = call("aten::unsqueeze", first, vec![zero.clone()])?;
            let both = Item::list(vec![first, rest.clone()]);
            machine.call("aten::cat", None, vec![both, zero.clone()], vec![])
        });
        joined.collect()
    }

    /// The values that [`numbered`] named.
    fn in_order(&self, variables: Variables, count: usize) -> Result<Vec<Item>> {
        let mut items = vec![None; count];
        for (name, item) in variables {
            if let Some(place) = name.parse::<usize>().ok().and_then(|at| items.get_mut(at)) {
                *place = Some(item);
            }
        }
        items.into_iter().collect::<Option<_>>().ok_or_else(|| {
            self.damaged("the graphs of a condition or loop do not give the same number of values")
        })
    }

    /// A custom operator that writes some of its arguments: their new values follow its results.
    fn functionalized(&self, op: &str, node: &Node, scope: &Scope<'_>) -> Result<Item> {
        let Some((name, overload)) = json::operator(op) else {
            return Err(self.damaged(format!("`{}` names no operator", shown(op))));
        };
        let given = node.arguments.iter().skip(1);
        let find = |key: &str| {
            let found = node.arguments.iter().find(|a| &*a.name == key);
            found.map(|a| &a.value)
        };
        let bases = match find("_all_bases") {
            Some(bases) => self.item(bases, scope)?.items().unwrap_or_default(),
            None => vec![],
        };
        let mut named = vec![];
        for argument in given.filter(|argument| &*argument.name != "_all_bases") {
            // `_y_base_index` says which of the tensors that are written `y` is; `_y_alias` that it is all of it.
            let key = &*argument.name;
            let base = key.strip_prefix('_').and_then(|key| key.strip_suffix("_base_index"));
            match (base, &argument.value) {
                (Some(name), Argument::Int(at)) => {
                    named.push((name.into(), self.machine.at_index(&bases, &Item::Int(*at))?));
                }
                (Some(name), Argument::None) => named.push((name.into(), Item::None)),
                _ if key.ends_with("_alias") && matches!(argument.value, Argument::Bool(true)) => {}
                _ if !bases.is_empty() && key.starts_with('_') => {
                    let message = format!("`{}` writes into a view of a tensor.", shown(&name));
                    return Err(self.unsupported(message));
                }
                _ => named.push((argument.name.clone(), self.item(&argument.value, scope)?)),
            }
        }
        self.custom(scope, node, (&name, &overload), &[], &named)
    }
}

/// Values under the numbers of their positions.
fn numbered(items: Vec<Item>) -> Variables {
    let name = |(i, item): (usize, Item)| (Rc::from(i.to_string()), item);
    items.into_iter().enumerate().map(name).collect()
}
