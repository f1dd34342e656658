//! Regions with `torch.autocast`: some operators take their operands in 16 bits, and give such results.
//!
//! Runtimes on processors have no operators on `bfloat16`, and torch adds up in float32 anyway. So operands are rounded
//! to 16 bits, operators compute in float32, and what they give is rounded again where the program declares it.

use super::run::{Runner, Scope};
use super::{Argument, Node};
use crate::machine::{Item, Result};
use onnxd_plugin_sdk::ir::DataType;

/// A region with autocast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Region {
    /// The type of 16 bits.
    half: DataType,
    device: Device,
}

/// Devices that differ in their operators of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Device {
    Cpu,
    Mps,
    Other,
}

impl Region {
    /// A region of a device with a type, or with the one that torch has for the device.
    pub(super) fn new(device: &str, half: Option<DataType>) -> Option<Region> {
        let default = match device {
            "cpu" | "hpu" | "xla" => DataType::Bfloat16,
            "cuda" | "hip" | "xpu" | "mps" | "ipu" | "privateuseone" => DataType::Float16,
            _ => return None,
        };
        let device = match device {
            "cpu" => Device::Cpu,
            "mps" => Device::Mps,
            _ => Device::Other,
        };
        Some(Region { half: half.unwrap_or(default), device })
    }

    /// Whether an operator takes operands in 16 bits.
    fn narrows(self, plain: &str) -> bool {
        let own = if self.device == Device::Cpu { &CPU[..] } else { &OTHERS[..] };
        let is_any = NARROW.contains(&plain) || own.contains(&plain);
        is_any && !(self.device == Device::Mps && NOT_ON_MPS.contains(&plain))
    }
}

/// Operators that take operands in 16 bits on all devices, by their names without `aten::`. Cells of recurrent networks
/// and `einsum` do so by the products inside of them.
const NARROW: [&str; 25] = [
    "_convolution",
    "addbmm",
    "addmm",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "einsum",
    "gru_cell",
    "linalg_multi_dot",
    "linalg_vecdot",
    "linear",
    "lstm_cell",
    "matmul",
    "mm",
    "prelu",
    "rnn_relu_cell",
    "rnn_tanh_cell",
    "scaled_dot_product_attention",
];

/// Further ones on processors.
const CPU: [&str; 3] = ["_addmm_activation", "_native_multi_head_attention", "mkldnn_rnn_layer"];

/// Further ones on other devices.
const OTHERS: [&str; 4] = ["addmv", "addr", "convolution", "mv"];

/// Those that stay as they are on devices of Apple.
const NOT_ON_MPS: [&str; 3] = ["conv3d", "conv_transpose3d", "linalg_vecdot"];

/// Operators that move elements or change their type, and compute nothing.
const MOVES: [&str; 27] = [
    "_assert_tensor_metadata",
    "_to_copy",
    "alias",
    "cat",
    "chunk",
    "clone",
    "contiguous",
    "copy_",
    "detach",
    "expand",
    "flatten",
    "permute",
    "reshape",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "stack",
    "sym_size",
    "t",
    "to",
    "transpose",
    "unbind",
    "unsqueeze",
    "view",
    "view_as",
];

fn is_half(dtype: DataType) -> bool {
    matches!(dtype, DataType::Bfloat16 | DataType::Float16)
}

impl Runner<'_, '_> {
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
