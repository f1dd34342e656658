//! Cross-layer equalization (arXiv 1906.04721): scales go from the weights of a layer into those of
//! the next, so that the channels of both have even ranges.

use onnxd_diagnostics::Diagnostics;
use onnxd_ir::Model;
use onnxd_rewrite::{EqualizeWeights, Fuel, Pass, PassContext};

/// Sweeps of an equalization; chains of layers need some.
const SWEEPS: usize = 8;

/// The same function with weights whose channels have even ranges; `None` where little is to gain.
/// With a scale for each channel, weights of uneven ranges lose nothing, only what they compute
/// does.
///
/// # Errors
/// That the graph could not be rewritten.
pub fn equalized(model: &Model, per_channel: bool) -> Result<Option<Model>, Diagnostics> {
    let mut equalized = model.clone();
    let mut rewrites = 0;
    let pass = EqualizeWeights { ratio_min: if per_channel { 4.0 } else { 1.5 } };
    for _ in 0..SWEEPS {
        let mut cx = PassContext::new(pass.name(), Fuel::UNLIMITED);
        pass.run(&mut equalized, &mut cx)?;
        if cx.report.rewrites == 0 {
            break;
        }
        rewrites += cx.report.rewrites;
    }
    Ok((rewrites > 0).then_some(equalized))
}
