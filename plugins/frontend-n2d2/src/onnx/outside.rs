//! Sections that tell N2D2 how to train the layers of an ONNX file (`[onnx:Conv_def]`, or one
//! called like a layer). A conversion takes the layers as the file has them.

use crate::ini::{Ini, SectionRef};
use crate::network::Network;
use crate::targets::SUFFIX;

/// Warns about settings that would change the layers.
pub(crate) fn warn_overrides(ini: &Ini, network: &Network) {
    for section in ini.sections().filter(|s| !s.has("Input") && !s.name().contains(SUFFIX)) {
        if !describes(section, network) {
            continue;
        }
        section.warn_ignored_settings(
            &["ConfigSection", "Solver", "WeightsFiller", "BiasFiller"],
            "is ignored: a layer of an ONNX file computes what the file says",
            "Remove the line, or change the file.",
        );
    }
}

fn describes(section: SectionRef, network: &Network) -> bool {
    let name = section.name();
    let defaults = name.match_indices(':').any(|(at, _)| network.names.is_file(&name[..at]));
    defaults || network.names.is_result(name)
}
