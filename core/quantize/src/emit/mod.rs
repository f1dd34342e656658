//! The quantized graph. A float graph gets pairs of `QuantizeLinear` and `DequantizeLinear` where
//! values are to be integers (`QDQ`); operators between such pairs become operators on integers
//! (`QLinear`), and back.

pub(crate) mod dynamic;
mod fake_quant;
pub(crate) mod fold;
pub(crate) mod forms;
pub(crate) mod pairs;
mod placer;
pub mod recipes;
mod runtime_faults;
pub(crate) mod unfold;
mod weights;

pub use dynamic::{quantize_dynamic, quantize_dynamic_but};
pub use fake_quant::fold_fake_quantization;
pub use fold::{fold, fold_for, fold_weighted};
pub use forms::Folded;
pub use pairs::{Ranges, place};
pub use runtime_faults::keep_bias_unfused;
pub use unfold::{is_quantized, unfold};

use crate::graph::weighted::WEIGHTED_OPS;
use crate::report::{Report, name_of};
use onnxd_diagnostics::shown;
use onnxd_ir::{Model, Node};

impl Report {
    /// Adds the weighted operators in local functions, which stay as they are.
    pub fn leave_functions(&mut self, model: &Model) {
        for function in &model.functions {
            let weighted = function.graph.nodes().map(|(_, node)| node);
            let is = |node: &&Node| node.is_standard() && WEIGHTED_OPS.contains(&node.op.as_str());
            for node in weighted.filter(is) {
                let why = format!("it stands in the local function `{}`", shown(&function.name));
                self.leave(&name_of(&function.graph, node), why);
            }
        }
    }
}

impl Folded {
    /// Takes into the report what became of nodes that changed form; `what` tells which form those
    /// that did not were to get.
    pub fn report(self, report: &mut Report, what: &str) {
        for (name, _, rescaling) in self.folded {
            if let Some(layer) = report.layers.iter_mut().find(|layer| layer.name == name) {
                layer.rescaling = rescaling;
            }
        }
        for (name, why) in self.left {
            report.leave(&name, format!("{what}: {why}"));
        }
    }
}
