//! EXAONE 4: norms behind the branches, norms of heads, and only layers with a window turn.

use super::base::{self, Base, LLAMA, set_windows, window};
use crate::config::Config;
use crate::decoder::{Decoder, HeadNorm, Order};
use crate::diag::Diagnostic;

pub(super) fn exaone4(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &Base { epsilon: ("rms_norm_eps", 1e-5), ..LLAMA })?;
    d.order = Order::After;
    d.attention.head_norm = HeadNorm::Shared;
    let window = window(c, Some(4096))?;
    // Made into `layer_types`, without which a word such as `LLLG` would have to be read.
    let pattern = match c.get("layer_types").is_some() {
        true => 4,
        false => c.optional_size("sliding_window_pattern")?.unwrap_or(4),
    };
    c.pass_over(&["sliding_window_pattern", "cache_implementation"]);
    let near = set_windows(c, &mut d, window, |i| (i + 1) % pattern != 0)?;
    for (layer, near) in d.layers.iter_mut().zip(near) {
        layer.rope = Some(0).filter(|_| near || window.is_none());
    }
    Ok(d)
}
