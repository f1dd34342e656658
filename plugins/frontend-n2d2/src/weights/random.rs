//! Random parameters for a network without weights, the same on every machine.
//!
//! Scaled by the number of inputs (He et al., 2015), so that values neither vanish nor explode
//! over many layers.

use onnxd_plugin_sdk::Room;

use super::{Kernels, Normalization, Parameters, WeightLayout};
use crate::diag::{Diagnostic, Layer};

/// SplitMix64 (Steele, Lea, Flood, 2014).
struct Generator(u64);

impl Generator {
    /// A stream of its own for each layer.
    fn new(seed: u64, layer: &Layer) -> Generator {
        // FNV-1a of the name.
        let hash = layer.name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Generator(seed ^ hash)
    }

    /// Uniform between -1 and 1.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn around(&mut self, centre: f32, reach: f32, count: usize) -> Vec<f32> {
        (0..count).map(|_| centre + reach * self.next()).collect()
    }
}

/// Half width of the uniform distribution whose variance is 2 / inputs.
fn reach(inputs: usize) -> f32 {
    (6.0 / inputs.max(1) as f32).sqrt()
}

const BIAS_REACH: f32 = 0.05;

pub(super) fn conv(
    seed: u64,
    layer: &Layer,
    kernels: Kernels,
    layout: &WeightLayout,
    mut room: Room,
) -> Result<Parameters, Diagnostic> {
    let mut generator = Generator::new(seed, layer);
    let area = kernels.area();
    let weights = room.elements_mut::<f32>();
    for output in 0..kernels.map.outputs() {
        let reach = reach(kernels.map.fan_in(output) * area);
        for channel in kernels.map.channels_of(output) {
            let kernel = &mut weights[kernels.position(output, channel) * area..][..area];
            kernel.fill_with(|| reach * generator.next());
        }
    }
    let outputs = kernels.map.outputs();
    let bias = layout.bias.then(|| generator.around(0.0, BIAS_REACH, outputs));
    Ok(Parameters { weights: room.seal()?, bias })
}

pub(super) fn fc(
    seed: u64,
    layer: &Layer,
    [outputs, inputs]: [usize; 2],
    layout: &WeightLayout,
    mut room: Room,
) -> Result<Parameters, Diagnostic> {
    let mut generator = Generator::new(seed, layer);
    let reach = reach(inputs);
    room.elements_mut::<f32>().fill_with(|| reach * generator.next());
    let bias = layout.bias.then(|| generator.around(0.0, BIAS_REACH, outputs));
    Ok(Parameters { weights: room.seal()?, bias })
}

pub(super) fn bias(seed: u64, layer: &Layer, outputs: usize) -> Vec<f32> {
    Generator::new(seed, layer).around(0.0, BIAS_REACH, outputs)
}

pub(super) fn batch_norm(seed: u64, layer: &Layer, channels: usize) -> Normalization {
    let mut generator = Generator::new(seed, layer);
    Normalization {
        scale: generator.around(1.0, 0.1, channels),
        bias: generator.around(0.0, 0.1, channels),
        mean: generator.around(0.0, 0.1, channels),
        variance: generator.around(1.0, 0.2, channels),
    }
}
