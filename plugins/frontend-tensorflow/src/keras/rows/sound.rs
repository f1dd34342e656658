//! Spectra of sound.

use super::{count, window};
use crate::ops::conv;
use crate::ops::create::number;
use crate::ops::layout::Channels;
use crate::ops::shape::{DimSize, reshaped, shape_of, size, sized, sizes, transposed};
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::formulas::elementary::atan2;
use onnxd_plugin_sdk::formulas::fourier::{spectra, waves};
use onnxd_plugin_sdk::formulas::window::WindowFunction;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};
use std::f64::consts::LN_10;

/// Points of a Fourier transform that is written as a matrix.
const POINTS_MAX: i64 = 1 << 13;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "STFTSpectrogram" => spectrogram;
        "MelSpectrogram" => mel_spectrogram;
        "ops.ExtractSequences" => |b, x: Var, sequence_length: i64, sequence_stride: i64| {
            sequences(b, x, [sequence_length, sequence_stride])
        };
        "ops.STFT" => short_time;
    }
}

arguments! {
    /// `STFTSpectrogram(mode="log", frame_length=256, frame_step=None, fft_length=None, window="hann", periodic=False,
    /// scaling="density", padding="valid", expand_dims=False, data_format=None)`
    struct Spectrogram {
        inputs: Var, mode: String = "log", frame_length: i64, frame_step: Option<i64>, fft_length: Option<i64>,
        window: Option<String>, periodic: Option<bool>, scaling: Option<String>, padding: String = "valid",
        expand_dims: bool = false, data_format: String = "channels_last", dtype: Option<String>, weights: Vec<Var>,
    }
    /// `MelSpectrogram(fft_length=2048, sequence_stride=512, sequence_length=None, window="hann", sampling_rate=16000,
    /// num_mel_bins=128, min_freq=20.0, max_freq=None, power_to_db=True, top_db=80.0, mag_exp=2.0, min_power=1e-10,
    /// ref_power=1.0)`
    struct Mel {
        inputs: Var, fft_length: i64 = 2048, sequence_stride: i64 = 512, sequence_length: Option<i64>,
        window: Option<String>, sampling_rate: f64 = 16000.0, num_mel_bins: i64 = 128, min_freq: f64 = 20.0,
        max_freq: Option<f64>, power_to_db: bool = true, top_db: f64 = 80.0, mag_exp: f64 = 2.0,
        min_power: f64 = 1e-10, ref_power: f64 = 1.0, dtype: Option<String>,
    }
    /// `STFT(x; sequence_length, sequence_stride, fft_length, window="hann", center=True)`
    struct ShortTime {
        x: Var, sequence_length: i64, sequence_stride: i64, fft_length: i64, window: Option<String>,
        center: bool = true,
    }
}

/// Frames of the last axis, as a new one before it.
fn sequences(b: &GraphBuilder, x: Var, [length, stride]: [i64; 2]) -> Lowered<Var> {
    let last = rank(b, x)?.checked_sub(1).and_then(|last| b.shape_of(x)?.get(last)?.known());
    let last = last.ok_or_else(|| b.unsupported("The length of the sound must be known."))?;
    let stride = count(b, "steps of a frame", stride)?.max(1);
    let length = count(b, "elements of a frame", length)?;
    let frames = ((last - length).div_euclid(stride) + 1).max(0);
    count(b, "elements of frames", frames.saturating_mul(length))?;
    let places = (0..frames).flat_map(|frame| (0..length).map(move |i| frame * stride + i));
    let dims = [frames as usize, length as usize];
    let places = b.constant(Tensor::from_vec(dims, places.collect::<Vec<i64>>()));
    b.gather(x, places).axis(-1).one()
}

/// Each channel by itself, `[batch, channels, frequencies, frames]`, by filters that the file has.
fn filtered(b: &GraphBuilder, a: &Spectrogram, kernel: Var) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let x = channels.first(b, a.inputs)?;
    let (batch, count) = (size(b, x, 0)?, size(b, x, 1)?);
    let x = sized(b, x, &[DimSize::Known(-1), DimSize::Known(1), size(b, x, 2)?])?;
    let step = a.frame_step.unwrap_or(a.frame_length / 2);
    let steps = window(b, &[a.frame_length], &[step], None, &a.padding, channels)?;
    let w = conv::filter(b, b.cast(kernel, dtype_of(b, x)?)?)?;
    let y = conv::conv(b, x, w, None, &steps, 1)?;
    sized(b, y, &[batch, count, size(b, y, 1)?, size(b, y, 2)?])
}

fn spectrogram(b: &Lower, a: Spectrogram) -> Lowered<Var> {
    let (real, imaginary) = match (&a.weights[..], a.mode.as_str()) {
        ([real], "real") => (Some(filtered(b, &a, *real)?), None),
        ([imaginary], "imag") => (None, Some(filtered(b, &a, *imaginary)?)),
        ([real, imaginary], _) => {
            (Some(filtered(b, &a, *real)?), Some(filtered(b, &a, *imaginary)?))
        }
        _ => return Err(b.diagnostic(Code::SourceSyntax, "The layer has other weights.")),
    };
    let y = match (real, imaginary, a.mode.as_str()) {
        (Some(x), None, _) | (None, Some(x), _) => x,
        (Some(x), Some(y), "angle") => atan2(b, y, x)?,
        (Some(x), Some(y), "stft") => b.concat([x, y]).axis(2).one()?,
        (Some(x), Some(y), mode) => {
            let power = b.add(b.mul(x, x)?, b.mul(y, y)?)?;
            match mode {
                "psd" => {
                    let inner = b.slice(power, [1], [-1]).axes([2]).one()?;
                    b.add(power, b.pad(inner, [0, 0, 1, 0, 0, 0, 1, 0]).one()?)?
                }
                _ => {
                    let dtype = dtype_of(b, power)?;
                    let least = || b.constant(number(1e-7, dtype));
                    let root = b.sqrt(b.max([power, least()])?)?;
                    if mode == "log" { b.log(b.max([root, least()])?)? } else { root }
                }
            }
        }
        _ => return Err(b.diagnostic(Code::SourceSyntax, "The layer has other weights.")),
    };
    let last = Channels::from_format(b, &a.data_format)? == Channels::Last;
    match (last, a.expand_dims) {
        (true, true) => transposed(b, y, &[0, 3, 2, 1]),
        (false, true) => transposed(b, y, &[0, 1, 3, 2]),
        (_, false) => {
            let (count, bins) = (size(b, y, 1)?, size(b, y, 2)?);
            let (DimSize::Known(count), DimSize::Known(bins)) = (count, bins) else {
                return Err(b.unsupported("The number of channels must be known."));
            };
            let y = sized(b, y, &[size(b, y, 0)?, DimSize::Known(count * bins), size(b, y, 3)?])?;
            if last { transposed(b, y, &[0, 2, 1]) } else { Ok(y) }
        }
    }
}

/// Shares of frequencies in the bands of the mel scale.
fn bands(a: &Mel, bins: i64) -> Tensor {
    let mel = |hertz: f64| 1127.0 * (1.0 + hertz / 700.0).ln();
    let (low, high) = (mel(a.min_freq), mel(a.max_freq.unwrap_or(a.sampling_rate / 2.0)));
    let edge = |i: i64| low + (high - low) * i as f64 / (a.num_mel_bins + 1) as f64;
    let share = |bin: i64, band: i64| {
        if bin == 0 {
            return 0.0;
        }
        let at = mel(a.sampling_rate / 2.0 * bin as f64 / (bins - 1) as f64);
        let (begin, middle, end) = (edge(band), edge(band + 1), edge(band + 2));
        ((at - begin) / (middle - begin)).min((end - at) / (end - middle)).max(0.0) as f32
    };
    let all = (0..bins).flat_map(|bin| (0..a.num_mel_bins).map(move |band| (bin, band)));
    let all = all.map(|(bin, band)| share(bin, band)).collect();
    Tensor::from_vec(vec![bins as usize, a.num_mel_bins as usize], all)
}

/// The Fourier transform of each frame of `[batch, 1, time]`, under a window in the middle.
fn transforms(
    b: &GraphBuilder,
    x: Var,
    [length, points, stride]: [i64; 3],
    window: Option<&str>,
    center: bool,
) -> Lowered<[Var; 2]> {
    let window = match window {
        None => WindowFunction::Rectangle,
        Some("hann") => WindowFunction::Hann,
        Some("hamming") => WindowFunction::HAMMING,
        Some(other) => {
            return Err(b.unsupported(format!("The window `{}` is not known.", shown(other))));
        }
    };
    // TensorFlow's windows of odd lengths end where they begin.
    let window = window.points(length, length - length % 2);
    let before = (points - length) / 2;
    let weight = |_, i: i64| {
        let place = usize::try_from(i - before).ok();
        place.and_then(|place| window.get(place)).copied().unwrap_or(0.0)
    };
    let (half, bins) = (points / 2, points / 2 + 1);
    let x = match center {
        true => b.pad(x, [0, 0, half, 0, 0, half]).mode("reflect").one()?,
        false => x,
    };
    spectra(b, x, waves(b, x, [bins, points, points], weight)?, [bins, stride])
}

/// `[..., time]` as `[batch, 1, time]`, and the sizes before the time.
fn single(b: &GraphBuilder, x: Var) -> Lowered<(Var, Vec<DimSize>)> {
    let last =
        rank(b, x)?.checked_sub(1).ok_or_else(|| b.wrong("The sound has no axis of time."))?;
    let lead = sizes(b, x, 0..last)?;
    Ok((sized(b, x, &[DimSize::Known(-1), DimSize::Known(1), size(b, x, last)?])?, lead))
}

fn short_time(b: &Lower, a: ShortTime) -> Lowered<[Var; 2]> {
    let points = a.fft_length;
    if !(2..=POINTS_MAX).contains(&points)
        || !(1..=points).contains(&a.sequence_length)
        || !(1..=POINTS_MAX).contains(&a.sequence_stride)
    {
        return Err(b.unsupported("The frames or their transform have too many points, or none."));
    }
    // Without a window, frames are as long as the transform.
    let length = if a.window.is_some() { a.sequence_length } else { points };
    let (x, lead) = single(b, a.x)?;
    let sizes = [length, points, a.sequence_stride];
    let parts = transforms(b, x, sizes, a.window.as_deref(), a.center)?;
    let ends = vec![size(b, parts[0], 2)?, DimSize::Known(points / 2 + 1)];
    let shape = shape_of(b, &[lead, ends].concat())?;
    let part = |x: Var| reshaped(b, transposed(b, x, &[0, 2, 1])?, &shape);
    Ok([part(parts[0])?, part(parts[1])?])
}

fn mel_spectrogram(b: &Lower, a: Mel) -> Lowered<Var> {
    let length = a.sequence_length.unwrap_or(a.fft_length);
    if !(2..=POINTS_MAX).contains(&a.fft_length)
        || !(1..=a.fft_length).contains(&length)
        || !(1..=POINTS_MAX).contains(&a.num_mel_bins)
    {
        return Err(b.unsupported("The transform has too many points, or none."));
    }
    let dtype = dtype_of(b, a.inputs)?;
    let x = super::ops::promote::not_half(b, a.inputs)?;
    let (x, lead) = single(b, x)?;
    let lengths = [length, a.fft_length, a.sequence_stride];
    let parts = transforms(b, x, lengths, a.window.as_deref(), true)?;
    let power = b.add(b.mul(parts[0], parts[0])?, b.mul(parts[1], parts[1])?)?;
    let power = match a.mag_exp {
        2.0 => power,
        exponent => b.pow(power, b.constant(number(exponent / 2.0, dtype_of(b, power)?)))?,
    };
    let shares = b.cast(b.constant(bands(&a, a.fft_length / 2 + 1)), dtype_of(b, power)?)?;
    let mut y = b.mat_mul(transposed(b, shares, &[1, 0])?, power)?;
    if a.power_to_db {
        let least = b.constant(number(a.min_power, dtype_of(b, y)?));
        let level = b.mul(b.log(b.max([y, least])?)?, 10.0 / LN_10)?;
        let level = b.sub(level, 10.0 * a.ref_power.abs().max(a.min_power).log10())?;
        let top = b.sub(b.reduce_max(level).keepdims(0).one()?, a.top_db)?;
        y = b.max([level, top])?;
    }
    b.cast(sized(b, y, &[lead, sizes(b, y, 1..3)?].concat())?, dtype)
}
