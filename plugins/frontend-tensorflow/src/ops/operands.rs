//! Arguments that many operators have: one tensor, or two.

use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;

arguments! {
    /// `AddV2`
    pub(crate) struct Two { x: Var, y: Var }
    /// `Abs`
    pub(crate) struct One { x: Var }
    /// `Identity`
    pub(crate) struct Input { input: Var }
}
