//! Tensors that kernels change in place, for the next call: which state of the model each is, and where there can be
//! none.

use super::model::{self, LiteOperator};
use super::quantized::quantization_of;
use super::scope::{LiteRunner, Scope, declared};
use onnxd_plugin_sdk::lower::Value;
use onnxd_plugin_sdk::states::Written;

impl<'a> LiteRunner<'a, '_> {
    /// Says that a kernel has states, of which each has a name; reports such that cannot go on where they ended.
    pub(super) fn begin_states(&self, scope: &Scope<'a>, called: &LiteOperator) -> bool {
        let mut all_go_on = true;
        for index in model::states(scope.graph, called) {
            let name = self.state_name(scope, index, is_real(scope, index));
            let layer = scope.layer(called);
            let written = Written { what: "state", name, layer: layer.clone() };
            let impossible = match (self.loops.get() > 0, self.choices.get() > 0) {
                (true, _) => Some("goes on from turn to turn of a loop"),
                (_, true) if self.states.is_asked() => Some("changes inside of a condition"),
                _ => None,
            };
            all_go_on &= impossible.is_none();
            match impossible {
                Some(why) => {
                    let help = "Put the layer outside, or have its state as a value that goes in and comes out.";
                    self.driver.report(written.impossible(why).help(help));
                }
                // A second kernel goes on from where the first one ended.
                None if self.states.has_begun(&written.name) => self.states.wrote(written),
                None => self.states.begin(&written.name, layer),
            }
        }
        all_go_on
    }

    /// Takes what a kernel leaves in its states for the next call.
    pub(super) fn keep(&self, scope: &Scope<'a>, called: &LiteOperator, states: Vec<Value>) {
        for (index, state) in model::states(scope.graph, called).zip(states) {
            if let Value::Var(var) = state {
                let name = self.state_name(scope, index, is_real(scope, index));
                self.states.write("state", &name, scope.layer(called), var);
            }
        }
    }

    /// The name of a state, which no other one has: tensors of one graph may have one name, and those of others, too. A
    /// quantized state goes on as real numbers.
    pub(super) fn state_name(&self, scope: &Scope<'a>, index: usize, real: bool) -> String {
        let name = scope.name(index);
        let name = if real { format!("{name}_real") } else { name };
        self.states.named((scope.graph.number, index, real), &name)
    }
}

/// Whether a state is quantized, so that it goes on as real numbers.
fn is_real(scope: &Scope<'_>, index: usize) -> bool {
    quantization_of(declared(scope, index)).is_some()
}

#[cfg(test)]
mod tests;
