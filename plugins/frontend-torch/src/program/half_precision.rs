//! Regions with `torch.autocast`: some operators take their operands in 16 bits, and give such results.
//!
//! Runtimes on processors have no operators on `bfloat16`, and torch adds up in float32 anyway. So operands are rounded
//! to 16 bits, operators compute in float32, and what they give is rounded again where the program declares it.

use super::autocast::Region;
use super::run::{ProgramRunner, Scope};
use super::{Argument, Node};
use crate::machine::{Item, Result};
use onnxd_plugin_sdk::ir::DataType;

/// Operators that move elements or change their type, and compute nothing.
const MOVES: [&str; 27] = [
    "_assert_tensor_metadata", "_to_copy", "alias", "cat", "chunk", "clone", "contiguous", "copy_",
    "detach", "expand", "flatten", "permute", "reshape", "select", "slice", "split",
    "split_with_sizes", "squeeze", "stack", "sym_size", "t", "to", "transpose", "unbind",
    "unsqueeze", "view", "view_as",
];

fn is_half(dtype: DataType) -> bool {
    matches!(dtype, DataType::Bfloat16 | DataType::Float16)
}

impl ProgramRunner<'_, '_> {
    /// Runs a region; none where autocast is off.
    pub(super) fn within_autocast<T>(
        &self,
        region: Option<Region>,
        f: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let before = self.autocast.replace(region);
        let done = f();
        self.autocast.set(before);
        done
    }

    /// The operands of an operator as it computes with them in the present region.
    pub(super) fn operands(&self, name: &str, items: &mut [Item]) -> Result<()> {
        let plain = name.strip_prefix("aten::").unwrap_or(name);
        let Some(region) = self.autocast.get().filter(|_| !MOVES.contains(&plain)) else {
            return Ok(());
        };
        let (half, narrow) = (region.half, region.narrows(plain));
        items.iter_mut().try_for_each(|item| {
            *item = self.operand(item, half, narrow)?;
            Ok(())
        })
    }

    fn operand(&self, item: &Item, half: DataType, narrow: bool) -> Result<Item> {
        let machine = self.machine;
        let b = machine.builder();
        if let (Item::List(_) | Item::Tuple(_), Some(items)) = (item, item.items()) {
            let items = items.iter().map(|item| self.operand(item, half, narrow));
            let items = items.collect::<Result<Vec<_>>>()?;
            let is_list = matches!(item, Item::List(_));
            return Ok(if is_list { Item::list(items) } else { Item::tuple(items) });
        }
        if !item.is_tensor() {
            return Ok(item.clone());
        }
        let var = machine.var_of(item)?;
        let rounded = match b.dtype_of(var) {
            Some(DataType::Float) if narrow => b.cast(var, half)?,
            Some(dtype) if is_half(dtype) => var,
            _ => return Ok(item.clone()),
        };
        Ok(machine.tensor(b.cast(rounded, DataType::Float)?))
    }

    /// What a node gives in the present region, in the types that the program declares.
    pub(super) fn rounded(&self, node: &Node, given: Item, scope: &Scope<'_>) -> Result<Item> {
        if self.autocast.get().is_none() {
            return Ok(given);
        }
        let parts = |outputs: &[Argument], items: &[Item]| {
            let both = outputs.iter().zip(items);
            both.map(|(output, item)| self.as_declared(output, item, scope)).collect::<Result<_>>()
        };
        match (node.outputs.as_slice(), &given) {
            ([output], given) => self.as_declared(output, given, scope),
            (outputs, Item::Tuple(items)) if outputs.len() == items.len() => {
                Ok(Item::tuple(parts(outputs, items)?))
            }
            _ => Ok(given),
        }
    }

    fn as_declared(&self, output: &Argument, item: &Item, scope: &Scope<'_>) -> Result<Item> {
        match (output, item) {
            (Argument::List(outputs), Item::List(_)) => {
                let items = item.items().filter(|items| items.len() == outputs.len());
                let Some(items) = items else { return Ok(item.clone()) };
                let both = outputs.iter().zip(&items);
                let items = both.map(|(output, item)| self.as_declared(output, item, scope));
                Ok(Item::list(items.collect::<Result<_>>()?))
            }
            (Argument::Tensor(name), Item::Tensor(_)) => {
                let declared = scope.graph.tensors.get(name).and_then(|meta| meta.dtype);
                let b = self.machine.builder();
                let var = self.machine.var_of(item)?;
                let half = declared.filter(|dtype| is_half(*dtype));
                match half.filter(|_| b.dtype_of(var) == Some(DataType::Float)) {
                    Some(half) => Ok(self.machine.tensor(b.cast(var, half)?)),
                    None => Ok(item.clone()),
                }
            }
            _ => Ok(item.clone()),
        }
    }
}
