//! Params that are defined but not carried out yet are refused where they are set: silence would be a lie.

use super::quantizer;
use super::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_params::host::Check;

/// All that is asked for and not available.
pub(crate) fn check(session: &Session) -> Result<(), Diagnostics> {
    let check: Check = session.section();
    let asked = [("check.labels", check.labels().is_some())];
    let found = asked.iter().filter(|(_, asked)| *asked).map(|(key, _)| {
        let value = session.params.peek(key);
        let text = format!("the param {key} = {value} is not available in this version");
        Diagnostic::new(Code::FeatureUnsupported, text).help("Leave the param out.")
    });
    let mut found = Diagnostics(found.collect());
    // Said before any work is done.
    found.0.extend(quantizer::chosen(session).err());
    found.or_ok(())
}
