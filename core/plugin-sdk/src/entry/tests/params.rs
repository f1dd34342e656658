//! Params of a pass.

use super::*;

crate::params! {
    pub(super) struct Naming in "passes.rename" {
        /// The new name,
        /// in two lines.
        to: Value = "same | 1..9", "same", option "rename";
        /// Not looked at.
        also: Option<String> = "text", unset;
    }
}

pub(super) struct Rename(pub(super) Naming);

impl crate::rewrite::Pass for Rename {
    fn name(&self) -> &'static str {
        "rename"
    }

    fn run(
        &self,
        model: &mut Model,
        _: &mut crate::rewrite::PassContext,
    ) -> Result<(), Diagnostics> {
        model.graph.name = self.0.to().to_string();
        Ok(())
    }
}

#[test]
fn a_pass_has_params_and_tells_which_it_read() {
    give_graph(0);
    let rename = serde_json::json!({"to": 3, "also": null});
    let params =
        serde_json::json!({"passes": [{"id": "rename"}], "params": {"passes": {"rename": rename}}});
    assert_eq!(drive("pass", &params.to_string(), run), (abi::OK, String::new()));
    let log: message::PassLog = artifact_of(abi::ARTIFACT_PASS_LOG).unwrap();
    assert_eq!(log.params_read.unwrap().keys, ["passes.rename.to"]);
    let wrong = serde_json::json!({"passes": [{"id": "rename"}], "params": {"passes": {"rename": {"also": 1}}}});
    let (status, text) = drive("pass", &wrong.to_string(), run);
    assert_eq!(status, abi::INTERNAL);
    assert!(text.contains("the param `passes.rename.also`"), "{text}");
}
