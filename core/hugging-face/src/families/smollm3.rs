//! SmolLM 3: some layers do not turn.

use super::base::{self, Base, LLAMA, ROPE, set_windows};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::Decoder;
use crate::diag::Diagnostic;

pub(super) fn smollm3(c: &Config) -> Result<Decoder, Diagnostic> {
    let rope = Some(Defaults { theta: 2e6, ..ROPE });
    let mut d = base::decoder(c, &Base { rope, kv_heads: Some(4), is_tied: true, ..LLAMA })?;
    let interval = c.optional_size("no_rope_layer_interval")?.unwrap_or(4);
    let by_interval = || (0..d.layers.len()).map(|i| (i + 1) % interval != 0).collect();
    let turns: Vec<bool> = c.flags("no_rope_layers", d.layers.len())?.unwrap_or_else(by_interval);
    let is_used = c.flag("use_sliding_window", false)?;
    let window = c.optional_size("sliding_window")?.filter(|_| is_used);
    set_windows(c, &mut d, window, |i| !turns[i])?;
    c.pass_over(&["max_window_layers"]);
    for (layer, turns) in d.layers.iter_mut().zip(turns) {
        layer.rope = Some(0).filter(|_| turns);
    }
    Ok(d)
}
