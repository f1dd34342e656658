//! Spectra of sound, and what recognition of speech makes of them.

use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::fourier::{spectra, waves};
use onnxd_plugin_sdk::formulas::window::WindowFunction;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};
use std::f64::consts::PI;

/// Longest window of samples, and most numbers of mel channels and coefficients.
const SIZE_MAX: i64 = 1 << 13;

/// Channels below this are raised to it before the logarithm.
const FLOOR: f64 = 1e-12;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "AudioSpectrogram" => spectrogram;
        "Mfcc" => mfcc;
    }
}

arguments! {
    /// `AudioSpectrogram`
    pub(crate) struct Spectrogram { input: Var, window_size: i64, stride: i64, magnitude_squared: bool }
    /// `Mfcc`
    pub(crate) struct Mfcc {
        spectrogram: Var, sample_rate: i64, upper_frequency_limit: f64, lower_frequency_limit: f64,
        filterbank_channel_count: i64, dct_coefficient_count: i64,
    }
}

fn limited(b: &Lower, sizes: &[i64]) -> Lowered<()> {
    if sizes.iter().all(|n| (1..=SIZE_MAX).contains(n)) {
        return Ok(());
    }
    let message = format!("A size of {sizes:?} is not from 1 to {SIZE_MAX}.");
    Err(b.diagnostic(Code::LayerParameter, message))
}

/// Samples `[samples, channels]` as spectra `[channels, windows, bins]`: a convolution with windowed waves.
pub(crate) fn spectrogram(b: &Lower, a: Spectrogram) -> Lowered<Var> {
    limited(b, &[a.window_size, a.stride])?;
    let width = a.window_size;
    let length = (width as u64).next_power_of_two() as i64;
    let bins = length / 2 + 1;
    let window = WindowFunction::Hann.points(width, width);
    let samples = b.unsqueeze(b.transpose(a.input).perm([1, 0]).one()?, [1])?;
    let waves = waves(b, samples, [bins, width, length], |_, i| window[i as usize])?;
    let [re, im] = spectra(b, samples, waves, [bins, a.stride])?;
    let square = b.add(b.mul(re, re)?, b.mul(im, im)?)?;
    let size = if a.magnitude_squared { square } else { b.sqrt(square)? };
    b.transpose(size).perm([0, 2, 1]).one()
}

fn mel(frequency: f64) -> f64 {
    1127.0 * (frequency / 700.0).ln_1p()
}

/// Shares of the bins of a spectrum in each channel of the mel scale.
fn filters(bins: i64, a: &Mfcc) -> Vec<f32> {
    let channels = a.filterbank_channel_count;
    let (low, high) = (mel(a.lower_frequency_limit), mel(a.upper_frequency_limit));
    let spacing = (high - low) / (channels + 1) as f64;
    let centre = |channel: i64| low + spacing * (channel + 1) as f64;
    let width = 0.5 * a.sample_rate as f64 / (bins - 1) as f64;
    let first = (1.5 + a.lower_frequency_limit / width) as i64;
    let last = (a.upper_frequency_limit / width) as i64;
    let mut shares = vec![0.0; (bins * channels) as usize];
    let mut above = 0;
    for bin in first.max(0)..=last.min(bins - 1) {
        let at = mel(bin as f64 * width);
        while above < channels && centre(above) < at {
            above += 1;
        }
        // Between two channels, a bin belongs to both.
        let share = (centre(above) - at) / (centre(above) - centre(above - 1));
        let mut add = |channel: i64, share: f64| {
            if (0..channels).contains(&channel) {
                shares[(bin * channels + channel) as usize] += share as f32;
            }
        };
        add(above - 1, share);
        add(above, 1.0 - share);
    }
    shares
}

/// Cosines of the logarithms of mel channels.
pub(crate) fn mfcc(b: &Lower, a: Mfcc) -> Lowered<Var> {
    limited(b, &[a.filterbank_channel_count, a.dct_coefficient_count, a.sample_rate.min(1)])?;
    let last = rank(b, a.spectrogram)?.saturating_sub(1);
    let bins = b.shape_of(a.spectrogram).and_then(|dims| dims.get(last)?.known());
    let Some(bins) = bins.filter(|bins| (2..=SIZE_MAX).contains(bins)) else {
        let message = "The number of bins of a spectrum must be known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let channels = a.filterbank_channel_count;
    let count = a.dct_coefficient_count;
    let filters = Tensor::from_vec([bins as usize, channels as usize], filters(bins, &a));
    let energy = b.mat_mul(b.sqrt(a.spectrogram)?, b.constant(filters))?;
    let floor = super::create::number(FLOOR, dtype_of(b, energy)?);
    let logarithms = b.log(b.max([energy, b.constant(floor)])?)?;
    let cosine = |j: i64, i: i64| {
        let angle = i as f64 * PI / channels as f64 * (j as f64 + 0.5);
        ((2.0 / channels as f64).sqrt() * angle.cos()) as f32
    };
    let cosines = (0..channels).flat_map(|j| (0..count).map(move |i| cosine(j, i)));
    let dims = [channels as usize, count as usize];
    b.mat_mul(logarithms, b.constant(Tensor::from_vec(dims, cosines.collect::<Vec<_>>())))
}
