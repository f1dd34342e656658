//! Operators that programs name in ONNX's words: `torch.onnx.ops`.

use super::run::ProgramRunner;
use crate::diag::{Code, refuse, shown};
use crate::machine::{Item, Result};
use onnxd_plugin_sdk::build::Operand;
use onnxd_plugin_sdk::ir::{Attr, schema};
use std::rc::Rc;

/// Arguments with names.
type NamedArguments = [(Rc<str>, Item)];

/// The namespace of operators of the standard, and of those of any domain.
const STANDARD: &str = "onnx::";
const SYMBOLIC: [&str; 2] = ["onnx_symbolic::_symbolic", "onnx_symbolic::_symbolic_multi_out"];

/// Results that an operator may have.
const RESULTS_MAX: usize = 1024;

/// A node as a program says it.
struct Said<'a> {
    domain: &'a str,
    op: &'a str,
    inputs: Vec<Operand>,
    attributes: Vec<(String, Attr)>,
}

impl ProgramRunner<'_, '_> {
    /// What an operator gives that ONNX has under this name.
    ///
    /// # Errors
    /// Those of the operator; `N0502` with the opset that has it.
    pub(super) fn onnx(
        &self,
        (name, overload): (&str, &str),
        positional: &[Item],
        named: &NamedArguments,
        results: usize,
    ) -> Result<Option<Item>> {
        if let Some(op) = name.strip_prefix(STANDARD) {
            let opset = overload.strip_prefix("opset").and_then(|n| n.parse().ok());
            return self.standard(op, opset, positional, named, results).map(Some);
        }
        if SYMBOLIC.contains(&name) {
            return self.symbolic(name == SYMBOLIC[1], positional, named).map(Some);
        }
        Ok(None)
    }

    /// `torch.ops.onnx.RotaryEmbedding.opset23(x, cos_cache, sin_cache, position_ids, interleaved=True)`
    fn standard(
        &self,
        op: &str,
        opset: Option<i64>,
        positional: &[Item],
        named: &NamedArguments,
        results: usize,
    ) -> Result<Item> {
        let mut inputs = self.tensors(positional)?;
        let mut attributes = vec![];
        let schema_found = schema::find("", op, opset.unwrap_or_else(schema::max_opset));
        for (name, item) in named {
            let at = schema_found.and_then(|schema_found| {
                schema_found.inputs.iter().position(|input| input.name == &**name)
            });
            match (at, item) {
                (_, Item::None) => {}
                (Some(at), item) => {
                    inputs.resize(inputs.len().max(at + 1), Operand::Absent);
                    inputs[at] = Operand::Var(self.machine.var_of(item)?);
                }
                (None, item) => attributes.push((name.to_string(), self.attribute(name, item)?)),
            }
        }
        let said = Said { domain: "", op, inputs, attributes };
        self.added(said, opset.unwrap_or(0), results)
    }

    /// `torch.onnx.ops.symbolic`, whose attributes are lists of their keys, types and parts of lists.
    fn symbolic(&self, several: bool, positional: &[Item], named: &NamedArguments) -> Result<Item> {
        let damaged = |what: &str| self.damaged(format!("an operator of `torch.onnx.ops` {what}"));
        let get = |name: &str| named.iter().find(|(n, _)| &**n == name).map(|(_, item)| item);
        let list = |name: &str| get(name).and_then(Item::items).unwrap_or_default();
        let text = |name: &str| match get(name) {
            Some(Item::Text(text)) => text.clone(),
            _ => "".into(),
        };
        let [inputs, Item::Text(op), types, ..] = positional else {
            return Err(damaged("lacks its inputs or its name"));
        };
        let inputs = self.tensors(&inputs.items().unwrap_or_default())?;
        let (keys, kinds, places) = (list("attr_keys"), list("attr_types"), list("attr_pos"));
        let parts = [list("attr_ints"), list("attr_floats"), list("attr_strs")];
        let mut attributes = vec![];
        for ((key, kind), place) in keys.iter().zip(&kinds).zip(&places) {
            let place = place.items().unwrap_or_default();
            let place: Vec<usize> =
                place.iter().filter_map(|i| i.as_int()?.try_into().ok()).collect();
            let (Item::Text(key), Item::Text(kind), &[from, to]) = (key, kind, place.as_slice())
            else {
                return Err(damaged("has attributes that are not said as such"));
            };
            let of = match kind.trim_end_matches('s') {
                "i" => &parts[0],
                "f" => &parts[1],
                _ => &parts[2],
            };
            let part =
                of.get(from..to).ok_or_else(|| damaged("has attributes that are not there"))?;
            let item = match (part, &**kind) {
                ([one], "i" | "f" | "s") => one.clone(),
                (part, _) => Item::list(part.to_vec()),
            };
            attributes.push((key.to_string(), self.attribute(key, &item)?));
        }
        let domain = text("domain");
        let version = get("version").and_then(Item::as_int).unwrap_or(0);
        let results = if several { types.items().map_or(1, |types| types.len()) } else { 1 };
        let said = Said { domain: &domain, op, inputs, attributes };
        let given = self.added(said, version, results)?;
        Ok(match (several, given) {
            (true, Item::Tuple(items)) => Item::list(items.to_vec()),
            (true, item) => Item::list(vec![item]),
            (false, item) => item,
        })
    }

    fn tensors(&self, items: &[Item]) -> Result<Vec<Operand>> {
        let input = |item: &Item| match item {
            Item::None => Ok(Operand::Absent),
            item => self.machine.var_of(item).map(Operand::Var),
        };
        items.iter().map(input).collect()
    }

    fn attribute(&self, name: &str, item: &Item) -> Result<Attr> {
        let items = item.items().unwrap_or_default();
        let ints = || items.iter().map(Item::as_int).collect::<Option<Vec<i64>>>();
        let floats =
            || items.iter().map(|x| Some(x.as_float()? as f32)).collect::<Option<Vec<f32>>>();
        let text = |item: &Item| match item {
            Item::Text(text) => Some(text.to_string().into()),
            _ => None,
        };
        let found = match item {
            Item::Int(_) | Item::Bool(_) => item.as_int().map(Attr::Int),
            Item::Float(x) => Some(Attr::Float(*x as f32)),
            Item::Text(_) => text(item).map(Attr::Str),
            _ => ints().map(Attr::Ints).or_else(|| floats().map(Attr::Floats)).or_else(|| {
                let texts = items.iter().map(text).collect::<Option<Vec<_>>>();
                texts.map(Attr::Strs)
            }),
        };
        found.ok_or_else(|| {
            let message = format!("`{}`, {}, is no attribute of ONNX.", shown(name), item.what());
            self.unsupported(message)
        })
    }

    /// Adds the node, in the domain's version `version` at least if it is one of the standard.
    fn added(&self, said: Said<'_>, version: i64, results: usize) -> Result<Item> {
        let machine = self.machine;
        let b = machine.builder();
        let Said { domain, op, inputs, attributes } = said;
        if domain.is_empty() && version > b.opset() {
            let message = format!("The program asks for `{}` of opset {version}.", shown(op));
            let problem = machine.problem(Code::LayerUnsupported, message);
            // No other opset helps with one that does not exist.
            let exists = version <= schema::max_opset();
            return Err(if exists { problem.until_opset(version) } else { problem });
        }
        refuse!(results > RESULTS_MAX => machine.problem(Code::SourceLimit, "An operator has too many results."));
        if !domain.is_empty() {
            b.import_domain(domain);
        }
        let given = b.in_layer(machine.layer(), |b| {
            let mut call = b.op(domain, op, inputs);
            for (name, attribute) in &attributes {
                call = call.set(name, attribute.clone());
            }
            call.list(results.max(1))
        })?;
        let mut items: Vec<Item> = given.into_iter().map(|var| machine.tensor(var)).collect();
        Ok(if items.len() == 1 { items.remove(0) } else { Item::tuple(items) })
    }
}
