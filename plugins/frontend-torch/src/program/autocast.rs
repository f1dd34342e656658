//! Regions with `torch.autocast`: the type of 16 bits, and the operators that take operands in it.

use onnxd_plugin_sdk::ir::DataType;

/// A region with autocast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Region {
    /// The type of 16 bits.
    pub(super) half: DataType,
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
    pub(super) fn narrows(self, plain: &str) -> bool {
        let own = if self.device == Device::Cpu { &CPU[..] } else { &OTHERS[..] };
        let is_any = NARROW.contains(&plain) || own.contains(&plain);
        is_any && !(self.device == Device::Mps && NOT_ON_MPS.contains(&plain))
    }
}

/// Operators that take operands in 16 bits on all devices, by their names without `aten::`. Cells of recurrent networks
/// and `einsum` do so by the products inside of them.
const NARROW: [&str; 25] = [
    "_convolution", "addbmm", "addmm", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "einsum",
    "gru_cell", "linalg_multi_dot", "linalg_vecdot", "linear", "lstm_cell", "matmul", "mm",
    "prelu", "rnn_relu_cell", "rnn_tanh_cell", "scaled_dot_product_attention",
];

/// Further ones on processors.
const CPU: [&str; 3] = ["_addmm_activation", "_native_multi_head_attention", "mkldnn_rnn_layer"];

/// Further ones on other devices.
const OTHERS: [&str; 4] = ["addmv", "addr", "convolution", "mv"];

/// Those that stay as they are on devices of Apple.
const NOT_ON_MPS: [&str; 3] = ["conv3d", "conv_transpose3d", "linalg_vecdot"];
