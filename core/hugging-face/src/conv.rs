//! Convolutions of checkpoints, of pictures and of sound.

use crate::layers::Layers;
use onnxd_plugin_sdk::build::{Result, Var};

/// A convolution over one or two axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv<'a> {
    /// Channels of what it reads, and of what it gives.
    pub(crate) channels: [usize; 2],
    pub(crate) kernel: &'a [usize],
    /// Steps along each axis.
    pub(crate) stride: &'a [usize],
    pub(crate) pad: usize,
    pub(crate) groups: usize,
}

impl Conv<'_> {
    /// The convolution `name` of `x`; a bias may be absent.
    pub(crate) fn apply(&self, net: &Layers<'_>, x: Var, name: &str) -> Result<Var> {
        let [inputs, outputs] = self.channels;
        let ints = |sizes: &[usize]| sizes.iter().map(|n| *n as i64).collect::<Vec<i64>>();
        let dims = [&[outputs, inputs / self.groups], self.kernel].concat();
        let weight = format!("{name}.weight");
        let weight = net.constant(&weight, net.w.tensor(&weight, &dims)?);
        let call = net.b.conv(x, weight).strides(ints(self.stride));
        let call = match self.pad {
            0 => call,
            pad => call.pads(vec![pad as i64; 2 * self.kernel.len()]),
        };
        let call = if self.groups == 1 { call } else { call.group(self.groups as i64) };
        let bias = format!("{name}.bias");
        match net.w.optional(&bias, &[outputs])? {
            Some(tensor) => call.b(net.constant(&bias, tensor)).one(),
            None => call.one(),
        }
    }
}
