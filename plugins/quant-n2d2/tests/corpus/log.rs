//! What N2D2 wrote about a run.

use onnxd_quant_n2d2::options::{Branches, Clipping, Equalization, PlanOptions, Rescaling};
use std::collections::BTreeMap;
use std::path::Path;

/// A run of N2D2.
pub(crate) struct N2d2Run {
    pub(crate) options: PlanOptions,
    /// Samples that N2D2 calibrated with.
    pub(crate) samples: usize,
    /// Products of the largest weights on the way to each cell.
    pub(crate) ranges: BTreeMap<String, f64>,
    /// Thresholds by cell.
    pub(crate) thresholds: BTreeMap<String, f64>,
    /// Scaling by cell: its mode, and all numbers after it.
    pub(crate) scalings: BTreeMap<String, (String, Vec<f64>)>,
}

/// Reads the logs of a folder; `batch` is the network's.
pub(crate) fn read(folder: &Path, batch: usize) -> N2d2Run {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (log, export) = (text("calibration.txt"), text("net_export.txt"));
    let option = |name: &str| {
        let line = log.lines().find(|l| l.starts_with(&format!("Option -{name}:")))?;
        Some(line.rsplit_once('[').map_or("", |(_, v)| v.trim_end_matches(']')).to_owned())
    };
    let clipping = |name: &str, default| match option(name).as_deref() {
        None => default,
        Some("None") => Clipping::None,
        Some("MSE") => Clipping::Mse,
        Some("KL-Divergence") => Clipping::KlDivergence,
        Some("Quantile") => Clipping::Quantile,
        Some(other) => panic!("{other}"),
    };
    let number = |name: &str, default: f64| option(name).map_or(default, |v| v.parse().unwrap());
    let set = after(&log, "Validation ").and_then(|v| v.parse::<usize>().ok()).unwrap_or(0);
    let rescaling = match option("act-rescaling-mode").as_deref() {
        None | Some("Floating-point") => Rescaling::FloatingPoint,
        Some("Fixed-point16") => Rescaling::FixedPoint16,
        Some("Fixed-point32") => Rescaling::FixedPoint32,
        Some("Single-shift") => Rescaling::SingleShift,
        Some("Double-shift") => Rescaling::DoubleShift,
        Some(other) => panic!("{other}"),
    };
    let range = after(&log, "Stimuli range is: ").map_or(1.0, |v| v.parse().unwrap());
    let unsigned = export.starts_with("env unsigned=1");
    let options = PlanOptions {
        bits: number("nbbits", 8.0) as u32,
        unsigned: option("no-unsigned").is_none(),
        equalization: match option("no-cle") {
            None => Equalization::AsN2d2,
            Some(_) => Equalization::Off,
        },
        weights: clipping("wt-clipping-mode", Clipping::None),
        activations: clipping("act-clipping-mode", Clipping::Mse),
        quantile: number("act-quantile-value", 0.9999),
        rescaling,
        per_output: number("act-rescale-per-output", 0.0) == 1.0,
        branches: Branches::AsN2d2,
        batch,
        inputs: Some((if unsigned { 0.0 } else { -precise(range) }, precise(range))),
        ..PlanOptions::default()
    };
    let wanted = (number("calib", 0.0) as usize).div_ceil(batch) * batch;
    let samples = if set > 0 { wanted.min(set) } else { wanted };
    let ranges = ranges(&log);
    N2d2Run { options, samples, ranges, thresholds: thresholds(&log), scalings: scalings(&export) }
}

/// The word after `what`.
fn after<'t>(text: &'t str, what: &str) -> Option<&'t str> {
    let from = text.find(what)? + what.len();
    text[from..].split_whitespace().next()
}

/// The log has six digits; ranges of images are multiples of 1/255.
fn precise(range: f64) -> f64 {
    let steps = (range * 255.0).round();
    if (steps / 255.0 - range).abs() < 1e-6 { f64::from((steps / 255.0) as f32) } else { range }
}

fn ranges(log: &str) -> BTreeMap<String, f64> {
    let from = log.split("Quantizing free parameters").nth(1).unwrap_or_default();
    let lines = from.lines().skip(1).take_while(|l| l.starts_with("  - "));
    let pairs = lines.filter_map(|l| l.trim_start_matches("  - ").rsplit_once(": "));
    pairs.map(|(name, range)| (name.to_owned(), range.parse().unwrap())).collect()
}

fn thresholds(log: &str) -> BTreeMap<String, f64> {
    let lines = log.lines().filter(|l| l.contains(": prev=") && l.contains(", act="));
    let found = lines.map(|line| {
        let name = line.trim().trim_start_matches("- ").split(": prev=").next().unwrap();
        let act = line.split("act=").nth(1).unwrap().split(',').next().unwrap();
        (name.to_owned(), act.parse().unwrap())
    });
    found.collect()
}

fn scalings(export: &str) -> BTreeMap<String, (String, Vec<f64>)> {
    let lines = export.lines().filter(|l| l.contains(" scaling "));
    let found = lines.map(|line| {
        let name = line.split(" cell ").nth(1).unwrap().split(' ').next().unwrap();
        let scaling = line.split(" scaling ").nth(1).unwrap();
        let mode = scaling.split(' ').next().unwrap();
        let numbers = scaling.split(|c: char| " []".contains(c)).filter_map(|w| w.parse().ok());
        (name.to_owned(), (mode.to_owned(), numbers.collect()))
    });
    found.collect()
}
