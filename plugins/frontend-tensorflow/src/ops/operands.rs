//! Arguments that many operators have: one tensor, or two.

use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;

arguments! {
    /// `AddV2(x, y; T: type) -> z`
    pub(crate) struct Two { x: Var, y: Var }
    /// `Abs(x; T: type) -> y`
    pub(crate) struct One { x: Var }
    /// `Identity(input; T: type) -> output`
    pub(crate) struct Input { input: Var }
}
