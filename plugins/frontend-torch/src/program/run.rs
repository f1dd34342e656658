//! Runs the graph of an exported program: nodes, in their order.

use super::autocast::Region;
use super::declared::{Symbols, missing_number};
use super::functions;
use super::{Argument, CallTarget, Graph, Node, NodeArgument, Passed};
use crate::diag::{Code, Diagnostic, Layer, refuse, shown};
use crate::machine::{GraphNumber, Item, Machine, NumberKind, Result};
use crate::schema::{self, Schema};
use onnxd_plugin_sdk::ir::ValueType;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What a node of the program counts for, and one of a graph inside: bodies of loops run at least twice, and those
/// inside them each time.
const NODE_WORK: [usize; 2] = [20, 2000];

/// Operators of which torch may declare wrong element types or sizes: those of counts and places are not the input's,
/// and quotients of integers with dynamic sizes are floats.
const MISDECLARED: [&str; 8] = [
    "aten::bincount", "aten::div", "aten::true_divide", "aten::_unique", "aten::_unique2",
    "aten::unique_consecutive", "aten::unique_dim", "aten::unique_dim_consecutive",
];

/// A graph that runs.
pub(super) struct Scope<'g> {
    pub(super) graph: &'g Graph,
    /// What its nodes read, or what it gives.
    used: HashSet<&'g Rc<str>>,
    names: HashMap<Rc<str>, Item>,
}

/// A program on its way through the machine.
pub(super) struct ProgramRunner<'m, 's> {
    pub(super) machine: &'m Machine<'s>,
    pub(super) symbols: &'m Symbols,
    /// Whether a graph runs already.
    inside: Cell<bool>,
    /// The region with autocast.
    pub(super) autocast: Cell<Option<Region>>,
}

impl<'m, 's> ProgramRunner<'m, 's> {
    pub(super) fn new(machine: &'m Machine<'s>, symbols: &'m Symbols) -> ProgramRunner<'m, 's> {
        let (inside, autocast) = Default::default();
        ProgramRunner { machine, symbols, inside, autocast }
    }

    /// What a graph gives for its inputs.
    ///
    /// # Errors
    /// What is wrong with the graph. What cannot be converted is reported at the end.
    pub(super) fn graph(&self, graph: &Graph, inputs: Vec<Item>) -> Result<Vec<Item>> {
        if inputs.len() != graph.inputs.len() {
            let (takes, gets) = (graph.inputs.len(), inputs.len());
            return Err(self.damaged(format!("a graph takes {takes} values and gets {gets}")));
        }
        let mut scope = Scope { graph, used: graph.used(), names: HashMap::new() };
        for (input, item) in graph.inputs.iter().zip(inputs) {
            if let Argument::Tensor(name) | Argument::Symbol(name) | Argument::Object(name) = input
            {
                scope.names.insert(name.clone(), item);
            }
        }
        let (inside, outer) = (self.inside.replace(true), self.machine.layer());
        let mut nodes = graph.nodes.iter();
        let done = nodes.try_for_each(|node| {
            self.machine.work(NODE_WORK[usize::from(inside)])?;
            let layer = layer(node, outer.clone());
            self.machine.inside(layer, || self.node(node, &mut scope))
        });
        self.inside.set(inside);
        done?;
        graph.outputs.iter().map(|output| self.item(output, &scope)).collect()
    }

    fn node(&self, node: &Node, scope: &mut Scope<'_>) -> Result<()> {
        let done = self.result(node, scope);
        let bound = done.and_then(|item| self.bind_all(node, item, scope));
        // What keeps one node from being converted keeps none of the others from being looked at, but a limit does.
        bound.or_else(|why| {
            refuse!(why.code == Code::SourceLimit.as_str() => why);
            self.machine.driver.report(why);
            self.bind_all(node, Item::Hole, scope)
        })
    }

    fn result(&self, node: &Node, scope: &Scope<'_>) -> Result<Item> {
        match &node.target {
            CallTarget::Operator { name, overload } => self.operator(node, name, overload, scope),
            CallTarget::HigherOrder(name) => self.higher_order(name, node, scope),
            CallTarget::Function(name) => {
                let arguments = node.arguments.iter().map(|a| self.item(&a.value, scope));
                self.function(name, arguments.collect::<Result<_>>()?)
            }
        }
    }

    fn operator(&self, node: &Node, name: &str, overload: &str, scope: &Scope<'_>) -> Result<Item> {
        let schema = schema::find(name, overload);
        let (mut positional, mut named) = (vec![], vec![]);
        for (at, argument) in node.arguments.iter().enumerate() {
            let item = self.item(&argument.value, scope)?;
            match positional.len() == at && by_position(schema, at, argument) {
                true => positional.push(item),
                false => named.push((argument.name.clone(), item)),
            }
        }
        if name == "export::access_subclass_inner_tensor" {
            return self.part_of(&positional);
        }
        let results =
            node.outputs.iter().filter(|output| !matches!(output, Argument::None)).count();
        if let Some(result) = self.onnx((name, overload), &positional, &named, results)? {
            return Ok(result);
        }
        if schema.is_some() || name.starts_with("aten::") || name.starts_with("prim::") {
            let arguments = positional.clone();
            self.operands(name, &mut positional)?;
            for (_, item) in &mut named {
                self.operands(name, std::slice::from_mut(item))?;
            }
            let result = self.machine.call(name, Some(overload), positional, named)?;
            let result = self.rounded(node, result, scope)?;
            self.move_statistics(name, &arguments)?;
            return Ok(result);
        }
        self.custom(scope, node, (name, overload), &positional, &named)
    }

    /// An operator of the user's own: nothing declares what it takes and gives but the node.
    pub(super) fn custom(
        &self,
        scope: &Scope<'_>,
        node: &Node,
        (name, overload): (&str, &str),
        positional: &[Item],
        named: &Vec<(Rc<str>, Item)>,
    ) -> Result<Item> {
        let types = node.outputs.iter().filter(|output| !matches!(output, Argument::None));
        let types =
            types.map(|output| self.declared(scope.graph, output)).collect::<Result<Vec<_>>>()?;
        if types.is_empty() {
            let op = shown(name);
            let message =
                format!("`{op}` gives nothing, and the file does not say what it writes.");
            let help = "Save what `run_decompositions` of the exported program gives.";
            return Err(self.unsupported(message).help(help));
        }
        let full = format!("{name}.{overload}");
        let key = match !overload.is_empty() && self.machine.driver.takes(&full) {
            true => &full,
            false => name,
        };
        let count = types.len();
        let foreign_item = self.machine.foreign(key, positional, named, types)?;
        // Results that are None are no results of a row.
        let items =
            if count == 1 { vec![foreign_item] } else { foreign_item.items().unwrap_or_default() };
        refuse!(items.len() != count =>
            self.unsupported(format!("`{}` has {count} results, and {} as converted.", shown(name), items.len())));
        // The count was checked: each result that is not None has its item.
        let mut items = items.into_iter();
        let of = |output: &Argument| match output {
            Argument::None => Some(Item::None),
            _ => items.next(),
        };
        let mut all: Vec<Item> = node.outputs.iter().filter_map(of).collect();
        Ok(if all.len() == 1 { all.remove(0) } else { Item::tuple(all) })
    }

    /// An attribute of a tensor that stands for others.
    fn part_of(&self, arguments: &[Item]) -> Result<Item> {
        let (Some(item), Some(Item::Text(name))) = (arguments.first(), arguments.get(1)) else {
            return Err(self.damaged("a part of a tensor has no name"));
        };
        if let Item::Object(object) = item
            && let Some(part) = object.attributes.borrow().get(name)
        {
            return Ok(part.clone());
        }
        Err(self.unsupported(format!("{} has no part `{}`.", item.what(), shown(name))))
    }

    fn declared(&self, graph: &Graph, output: &Argument) -> Result<Option<ValueType>> {
        let Argument::Tensor(name) = output else { return Ok(None) };
        let meta = graph.tensors.get(name);
        meta.map(|meta| self.symbols.type_of(meta, Symbols::dim)).transpose()
    }

    /// A function of Python on numbers.
    fn function(&self, name: &str, arguments: Vec<Item>) -> Result<Item> {
        let machine = self.machine;
        match (name, arguments.as_slice()) {
            ("_operator.pos", [x]) => return Ok(x.clone()),
            ("_operator.getitem", [list, at]) => {
                return match (list, list.items()) {
                    (Item::Hole, _) => Ok(Item::Hole),
                    (_, Some(items)) => machine.at_index(&items, at),
                    _ => machine.call("aten::__getitem__", None, arguments, vec![]),
                };
            }
            ("torch.sym_ite", [condition, then, otherwise]) => {
                return self.either(condition, then, otherwise);
            }
            _ => {}
        }
        let Some((op, overload)) = functions::operator(name) else {
            let message = format!("The function `{}` is not known.", shown(name));
            return Err(machine.problem(Code::LayerUnsupported, message));
        };
        machine.call(op, overload, arguments, vec![])
    }

    /// One of two numbers.
    fn either(&self, condition: &Item, then: &Item, otherwise: &Item) -> Result<Item> {
        let machine = self.machine;
        let condition = match self.truth(condition)? {
            Item::Bool(true) => return Ok(then.clone()),
            Item::Bool(false) => return Ok(otherwise.clone()),
            other => machine.number_var(&other, NumberKind::Bool)?,
        };
        let kind = |item: &Item| match item {
            Item::Bool(_) => NumberKind::Bool,
            Item::Float(_) => NumberKind::Float,
            Item::Number(number) => number.kind,
            _ => NumberKind::Int,
        };
        let kind = kind(then).max(kind(otherwise));
        let [then, otherwise] = [then, otherwise].map(|item| machine.number_var(item, kind));
        let var = machine.builder().where_(condition, then?, otherwise?)?;
        Ok(Item::Number(GraphNumber { var, kind }))
    }

    /// What a condition is: decided, or a number of the graph.
    pub(super) fn truth(&self, item: &Item) -> Result<Item> {
        Ok(match item {
            Item::Bool(_) | Item::Number(_) => item.clone(),
            Item::Int(x) => Item::Bool(*x != 0),
            other => self.machine.call("aten::Bool", None, vec![other.clone()], vec![])?,
        })
    }

    // ---- arguments and results ----

    /// An argument as a value.
    pub(super) fn item(&self, argument: &Argument, scope: &Scope<'_>) -> Result<Item> {
        Ok(match argument {
            Argument::Tensor(name) | Argument::Symbol(name) | Argument::Object(name) => {
                let found = scope.names.get(name).cloned();
                found.ok_or_else(|| self.damaged(format!("nothing gives `{}`", shown(name))))?
            }
            Argument::List(items) => Item::list(self.items(items, scope)?),
            Argument::Dict(items) => {
                let pair = |(key, value): &(Rc<str>, Argument)| {
                    Ok((Item::Text(key.clone()), self.item(value, scope)?))
                };
                Item::dict(items.iter().map(pair).collect::<Result<_>>()?)
            }
            Argument::Graph(name, _) => {
                return Err(self.damaged(format!("the graph `{}` is no value", shown(name))));
            }
            other => constant(other),
        })
    }

    pub(super) fn items<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a Argument>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Item>> {
        arguments.into_iter().map(|argument| self.item(argument, scope)).collect()
    }

    fn bind_all(&self, node: &Node, item: Item, scope: &mut Scope<'_>) -> Result<()> {
        let misdeclared = matches!(&node.target, CallTarget::Operator { name, .. } if MISDECLARED.contains(&&**name));
        self.symbols.misdeclared.set(misdeclared);
        match node.outputs.as_slice() {
            [] => Ok(()),
            [output] => self.bind(output, item, scope),
            outputs => {
                let items = self.taken_apart(&item, outputs.len())?;
                let mut both = outputs.iter().zip(items);
                both.try_for_each(|(output, item)| self.bind(output, item, scope))
            }
        }
    }

    fn bind(&self, output: &Argument, item: Item, scope: &mut Scope<'_>) -> Result<()> {
        let machine = self.machine;
        match output {
            Argument::Tensor(name) => {
                let item = match &item {
                    Item::Tuple(items) if items.len() == 1 => items[0].clone(),
                    _ => item,
                };
                // What an operator gives besides, and nothing reads, need not be right.
                let item = match scope.used.contains(name) {
                    true => self.symbols.tensor(machine, scope.graph, name, item)?,
                    false => item,
                };
                scope.names.insert(name.clone(), item);
            }
            Argument::Symbol(name) => {
                let item = match item {
                    Item::Hole => missing_number(machine, scope.graph, name),
                    Item::Tensor(_) => machine.call("aten::item", None, vec![item], vec![])?,
                    other => other,
                };
                scope.names.insert(name.clone(), item);
            }
            Argument::Object(name) => drop(scope.names.insert(name.clone(), item)),
            Argument::List(outputs) => {
                for (output, item) in outputs.iter().zip(self.taken_apart(&item, outputs.len())?) {
                    self.bind(output, item, scope)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The items of a result, as many as the graph has names for.
    fn taken_apart(&self, item: &Item, count: usize) -> Result<Vec<Item>> {
        let index = |i: usize| {
            let arguments = vec![item.clone(), Item::Int(i as i64)];
            self.machine.call("aten::__getitem__", None, arguments, vec![])
        };
        match (item, item.items()) {
            (Item::Hole, _) => Ok(vec![Item::Hole; count]),
            (_, Some(items)) if items.len() == count => Ok(items),
            (Item::List(_), None) => (0..count).map(index).collect(),
            _ => {
                let message = format!("The program takes {count} results of {}.", item.what());
                Err(self.unsupported(message))
            }
        }
    }

    /// The finding for what the program does and ONNX cannot: `N0203`.
    pub(super) fn unsupported(&self, message: impl Into<String>) -> Diagnostic {
        self.machine.problem(Code::LayerUnsupported, message)
    }

    pub(super) fn damaged(&self, what: impl std::fmt::Display) -> Diagnostic {
        self.machine.problem(Code::SourceSyntax, format!("The exported program: {what}."))
    }
}

/// The value of an argument that names none.
pub(super) fn constant(argument: &Argument) -> Item {
    match argument {
        Argument::Int(x) => Item::Int(*x),
        Argument::Float(x) => Item::Float(*x),
        Argument::Bool(x) => Item::Bool(*x),
        Argument::Complex(re, im) => Item::Complex(*re, *im),
        Argument::Text(text) | Argument::Operator(text) => Item::Text(text.clone()),
        Argument::Device(kind, None) => Item::Device(kind.clone()),
        Argument::Device(kind, Some(index)) => Item::Device(format!("{kind}:{index}").into()),
        Argument::List(items) => Item::list(items.iter().map(constant).collect()),
        _ => Item::None,
    }
}

/// Whether an argument stands at its position. Torch before 2.7 says it of none: then it does if the signature
/// has it there.
fn by_position(schema: Option<&Schema>, at: usize, argument: &NodeArgument) -> bool {
    match (argument.passed, schema) {
        (Some(Passed::Positional), _) => true,
        (_, Some(schema)) => {
            let parameter = schema.parameters.get(at);
            parameter.is_some_and(|p| !p.named_only && p.name == &*argument.name)
        }
        (passed, None) => passed.is_none() && argument.name.is_empty(),
    }
}

/// Where the user's code computes an output of a graph; empty if nothing says it.
pub(super) fn place_of(graph: &Graph, output: &Argument) -> String {
    let Argument::Tensor(name) = output else { return String::new() };
    let gives = |node: &&Node| {
        node.outputs.iter().any(|given| matches!(given, Argument::Tensor(of) if of == name))
    };
    let node = graph.nodes.iter().find(gives);
    node.and_then(Node::stack_trace).and_then(place).unwrap_or_default()
}

/// The innermost module that a node is in, and where the user's code computes it; as far as the node does not say it,
/// those of the node `outer` around its graph.
fn layer(node: &Node, outer: Layer) -> Layer {
    let place = node.stack_trace().and_then(place).unwrap_or(outer.place);
    let Some((path, class)) = node.modules().last() else { return Layer { place, ..outer } };
    // A module that is called again has the number of the call behind its path.
    let path = path.split('@').next().unwrap_or(path);
    let kind = class.rsplit('.').next().unwrap_or(class).to_owned();
    Layer { name: path.to_owned(), kind, place }
}

/// File and line of the innermost call, without the folders of the user's machine. Files of torch itself count only
/// where there are no others.
fn place(trace: &str) -> Option<String> {
    let frame = |text: &str| {
        let (path, rest) = text.split_once("\", line ")?;
        let file = path.rsplit(['/', '\\']).next().filter(|file| !file.starts_with('<'))?;
        let line: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let own = path.split(['/', '\\']).any(|folder| folder == "torch");
        Some((own, format!("{file}:{line}")))
    };
    let frames: Vec<_> = trace.split("File \"").skip(1).filter_map(frame).collect();
    let users = frames.iter().rev().find(|(own, _)| !own);
    users.or(frames.last()).map(|(_, place)| place.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_of_the_user() {
        let user = "  File \"/home/me/net.py\", line 12, in forward\n    return self.l(x)\n";
        let torch =
            "  File \"/lib/torch/nn/linear.py\", line 134, in forward\n    return F.linear\n";
        let made = "  File \"<eval_with_key>.0\", line 7, in forward\n    relu = 1\n";
        let windows = "File \"C:\\me\\net.py\", line 3";
        let cases = [
            (format!("{user}{torch}"), Some("net.py:12")),
            (format!("{user}{made}"), Some("net.py:12")),
            (torch.to_owned(), Some("linear.py:134")),
            (windows.to_owned(), Some("net.py:3")),
            (made.to_owned(), None),
            ("File \"".to_owned(), None),
        ];
        for (trace, expected) in cases {
            assert_eq!(place(&trace).as_deref(), expected, "{trace}");
        }
    }
}
