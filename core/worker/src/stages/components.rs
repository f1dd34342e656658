//! What the host thinks of the work of components.

use super::quantizer;
use super::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::{Model, VerifyLevel, by_gravity, infer, verify};
use onnxd_proto::onnxd::PluginInfo;

/// A graph that is wrong after a plugin worked on it, and was not before, is the plugin's fault. Gives the model with
/// inferred types.
pub(super) fn verified(
    session: &Session,
    plugin: &PluginInfo,
    components: &str,
) -> Result<Model, Diagnostics> {
    let mut typed = Model::default();
    let problems = match session.model() {
        Ok(model) => {
            let mut model = model.clone();
            // Outputs may lack types in the source. Wrong shapes are settled when the model is written.
            let inferred = infer(&mut model);
            let mut problems = verify(&model, level(session));
            if level(session) == VerifyLevel::Full {
                problems.0.extend(by_gravity(inferred).0.0);
            }
            typed = model;
            problems
        }
        Err(problems) => problems,
    };
    let by = format!("[{components} of plugin {} {}]", plugin.id, plugin.version);
    let blamed = problems.0.into_iter().map(|d| {
        let text = format!("{} {by}", d.message);
        Diagnostic::new(Code::PluginContract, text).at_same(&d)
    });
    Diagnostics(blamed.collect()).or_ok(typed)
}

/// How much of the standard the model has to keep to. A quantizer may declare that its types do not fit together where
/// params ask for that.
pub(super) fn level(session: &Session) -> VerifyLevel {
    let untyped = quantizer::described(session).and_then(|quantizer| quantizer.untyped.as_ref());
    match untyped.is_some_and(|when| when.holds_with(&session.params, &[])) {
        true => VerifyLevel::Structure,
        false => VerifyLevel::Full,
    }
}
