//! Samples as the integer network takes them, as pictures in the form of N2D2's exports: for
//! programs that run the network elsewhere.

use crate::measure::quantized;
use crate::plan::IntegerPlan;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::ir::{Graph, Model, Reals, Tensor, ValueId};
use onnxd_plugin_sdk::{Calibration, QuantizeContext};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most samples of all inputs that are exported.
const STIMULI_MAX: u64 = 40_000;
/// The label of a sample without a known class.
const UNKNOWN: i64 = -1;

/// Writes `most` samples (all without) below `stimuli/`, and their list.
pub(crate) fn export(
    cx: &QuantizeContext,
    (data, name): (&Calibration, &str),
    integer: &Model,
    plan: &IntegerPlan,
    most: Option<u64>,
) -> Result<(), Diagnostics> {
    let graph = &integer.graph;
    let names = file_names(graph.inputs().iter().map(|v| graph[*v].name.as_str()));
    let asked = data.samples().min(most.unwrap_or(u64::MAX));
    if asked == 0 {
        let text = "`db_export` takes samples, and there are none";
        let help = "Drop a `test.npz` or `calib.npz`.";
        return Err(Diagnostic::new(Code::FileMissing, text).help(help).into());
    }
    let mut list = String::new();
    let (mut done, mut end, mut digits) = (0u64, most.unwrap_or(u64::MAX), 0);
    for batch in data.labelled(data.batch_size(), asked) {
        let batch = batch?;
        let integers = quantized(&batch.feeds, integer, plan)?;
        let rows = integers.values().filter_map(|t| t.dims().first()).min().copied().unwrap_or(0);
        if done == 0 {
            // A sample may hold a whole batch of the network.
            let each = (rows / batch.samples.max(1)).max(1) as u64;
            end = end.min(asked.saturating_mul(each));
            digits = digits_of(end);
            if end.saturating_mul(integers.len() as u64) > STIMULI_MAX {
                let text = format!("`db_export` asks for {end} stimuli, more than {STIMULI_MAX}");
                return Err(Diagnostic::new(Code::FeatureUnsupported, text).into());
            }
        }
        let labels = labels(batch.labels.as_ref().and_then(Tensor::to_reals), rows, graph);
        let reals = |input: &ValueId| {
            let input = &graph[*input].name;
            let values = integers.get(input).and_then(Tensor::to_reals).ok_or_else(|| {
                let text = format!("{} has no sample of input `{}`", shown(name), shown(input));
                Diagnostic::new(Code::EvalInputs, text)
            })?;
            Ok((names[input].as_str(), values))
        };
        let inputs = graph.inputs().iter().map(reals).collect::<Result<Vec<_>, Diagnostic>>()?;
        for (row, labels) in labels.iter().enumerate().take((end - done) as usize) {
            cx.count("stimulus", done, end)?;
            for ((input, values), output) in inputs.iter().zip(&plan.inputs) {
                let (bytes, kind) = picture(values, row, output.bits, labels);
                let path = format!("stimuli/{input}{done:0digits$}.{kind}");
                cx.file(&path, &bytes)?;
                let _ = writeln!(list, "{path}");
            }
            done += 1;
        }
    }
    cx.file("stimuli.list", list.as_bytes())?;
    Ok(())
}

/// How N2D2 pads the numbers of `count` files.
fn digits_of(count: u64) -> usize {
    count.saturating_sub(1).checked_ilog10().map_or(0, |n| n as usize + 1)
}

/// Names of inputs as they can stand in names of files, all different.
fn file_names<'n>(inputs: impl Iterator<Item = &'n str>) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (at, input) in inputs.enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let mut name: String = input.chars().take(64).map(plain).collect();
        if name.is_empty() || names.values().any(|other| *other == name) {
            let _ = write!(name, "_{at}_");
        }
        names.insert(input.to_owned(), name);
    }
    names
}

/// What stands behind each sample: its labels, or as many unknown ones as the network has outputs.
fn labels(given: Option<Reals>, rows: usize, graph: &Graph) -> Vec<Vec<i64>> {
    let unknown = vec![UNKNOWN; graph.outputs().len()];
    let Some(given) = given.filter(|l| rows > 0 && l.values.len().is_multiple_of(rows)) else {
        return vec![unknown; rows];
    };
    let each = given.values.len() / rows;
    let of = |row: usize| given.values[row * each..][..each].iter().map(|x| *x as i64).collect();
    (0..rows).map(of).collect()
}

/// A row of samples as a portable grey map, pixel map or (of another number of channels) arbitrary
/// map, with its labels; the bytes and the name's extension. N2D2 writes 16 bits low byte first.
fn picture(samples: &Reals, row: usize, bits: u32, labels: &[i64]) -> (Vec<u8>, &'static str) {
    let dims = samples.dims.get(1..).unwrap_or_default();
    let (channels, height, width) = match dims {
        [] => (1, 1, 1),
        [width] => (1, 1, *width),
        [height, width] => (1, *height, *width),
        [channels, middle @ .., width] => (*channels, middle.iter().product(), *width),
    };
    let largest = if bits <= 8 { 255 } else { 65535 };
    let (head, kind) = match channels {
        1 => (format!("P5\n{width} {height}\n{largest}\n"), "pgm"),
        3 => (format!("P6\n{width} {height}\n{largest}\n"), "ppm"),
        _ => {
            let sizes = format!("WIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\n");
            (format!("P7\n{sizes}MAXVAL {largest}\nENDHDR\n"), "pam")
        }
    };
    let plane = height * width;
    let values = &samples.values[row * channels * plane..][..channels * plane];
    let mut bytes = head.into_bytes();
    for pixel in 0..plane {
        for channel in 0..channels {
            let value = values[channel * plane + pixel] as i64;
            match bits <= 8 {
                true => bytes.push(value as u8),
                false => bytes.extend((value as u16).to_le_bytes()),
            }
        }
    }
    bytes.extend(labels.iter().flat_map(|label| (*label as i32).to_le_bytes()));
    (bytes, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_like_those_of_n2d2() {
        let digits: Vec<usize> = [1, 2, 10, 11, 100, 101].map(digits_of).to_vec();
        assert_eq!(digits, [0, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn names_of_inputs_become_names_of_files() {
        let names = file_names(["env", "a/b", "a.b", ""].into_iter());
        assert_eq!(names["env"], "env");
        assert_eq!((names["a/b"].as_str(), names["a.b"].as_str()), ("a_b", "a_b_2_"));
        assert_eq!(names[""], "_3_");
    }

    #[test]
    fn pictures_hold_pixels_channel_by_channel() {
        let values = (0..12).map(f64::from).collect();
        let samples = Reals { dims: vec![2, 3, 1, 2], values };
        let (bytes, kind) = picture(&samples, 1, 8, &[7]);
        assert_eq!(kind, "ppm");
        let expected = [6, 8, 10, 7, 9, 11, 7, 0, 0, 0];
        assert_eq!(bytes, [b"P6\n2 1\n255\n".as_slice(), &expected].concat());
        let wide = Reals { dims: vec![1, 1, 1, 2], values: vec![-1.0, 258.0] };
        let (bytes, kind) = picture(&wide, 0, 16, &[-1]);
        assert_eq!(
            (kind, &bytes[bytes.len() - 8..]),
            ("pgm", &[255, 255, 2, 1, 255, 255, 255, 255][..])
        );
        let two = Reals { dims: vec![1, 2, 1, 1], values: vec![1.0, 2.0] };
        let (bytes, kind) = picture(&two, 0, 8, &[]);
        assert_eq!(kind, "pam");
        assert!(bytes.starts_with(b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 2\n") && bytes.ends_with(&[1, 2]));
    }
}
