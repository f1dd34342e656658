//! Layers that a model calls with `training=True`.
//!
//! `predict` of Keras 3 calls all layers with `training=False`, whatever the model says. In Keras 2 the call of the
//! layer wins, and what it computes then has no form for inference.

use super::runner::{CallArgs, Called, KerasRunner};
use super::values::KerasItem;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower;
use serde_json::Value;

/// Settings that let a layer draw random numbers in training, unless they are 0.
const RATES: [&str; 5] = ["rate", "dropout", "recurrent_dropout", "stddev", "drop_path_rate"];

impl KerasRunner<'_, '_> {
    /// Takes `training` from what a layer is called with. Without it, the layer does as the model around it: what was
    /// true before is given back, for [`KerasRunner::set_training`] after the call.
    pub(super) fn take_training(&self, given: &mut CallArgs) -> bool {
        let before = self.training.get();
        given.named.retain(|(name, item)| match item {
            KerasItem::Plain(value) if name == "training" => {
                if *value != lower::Value::None {
                    self.training.set(item.is_true());
                }
                false
            }
            _ => true,
        });
        before
    }

    pub(super) fn set_training(&self, training: bool) {
        self.training.set(training);
    }

    /// Whether a layer is one that differs in training and is called so; then it is reported.
    pub(super) fn is_trained(&self, called: &Called<'_, '_, '_>) -> bool {
        if !(self.is_keras2 && self.training.get()) {
            return false;
        }
        let config = &called.layer.config;
        let is_set =
            |key: &&str| config.get(*key).and_then(Value::as_f64).is_some_and(|n| n != 0.0);
        let is_trainable = || config.get("trainable").and_then(Value::as_bool) != Some(false);
        let what = match called.layer.class.as_str() {
            "BatchNormalization" if is_trainable() => "normalizes by the statistics of its batch",
            "SpectralNormalization" => "changes its weights",
            class if class.starts_with("Random") => "draws random numbers",
            _ if RATES.iter().any(is_set) => "draws random numbers",
            _ => return false,
        };
        if self.refused.borrow_mut().insert(called.path.to_owned()) {
            let message = format!("The model calls the layer with `training=True`: it {what}.");
            let found = called.problem(Code::LayerUnsupported, message);
            self.driver
                .report(found.help("Build the model without `training=True`, and save it again."));
        }
        true
    }
}
