//! Statistics of a calibration as a file, so that another conversion of the same network can do without the samples.
//!
//! JSON, because people look into it. Numbers are written so that they read back to the last bit. Empty bins, of which
//! histograms have many, are counted: `-7` among the counts stands for seven of them.

use onnxd_diagnostics::{Code, Diagnostic, refuse, shown};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the layout.
const VERSION: u32 = 1;
/// Largest file.
const FILE_BYTES_MAX: usize = 256 << 20;
/// Most tensors.
const TENSORS_MAX: usize = 100_000;
/// Most bins of all histograms.
const BINS_MAX: u64 = 1 << 26;

/// The statistics of a calibration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// Whose statistics they are: the quantizer's id.
    pub quantizer: String,
    /// What they depend on, such as the network's digest; see [`Saved::differing`].
    pub facts: BTreeMap<String, String>,
    /// Samples that were seen.
    pub samples: u64,
    /// What was decided with the samples, by schemes that try several candidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<SavedChoice>,
    /// Per tensor.
    pub tensors: Vec<SavedTensor>,
}

/// What a scheme that tries several candidates took, so that the same is made without the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedChoice {
    /// What was done to the float network first; the statistics are those of the outcome.
    pub change: String,
    /// How ranges follow from the statistics.
    pub method: String,
    /// Whether weights are clipped.
    pub clip_weights: bool,
    /// Whether biases were corrected, which takes samples.
    pub correct_biases: bool,
    /// Whether the rounding of weights was learned, which takes samples.
    pub learned_rounding: bool,
    /// Names of the nodes that stay in floating point.
    pub left_in_float: Vec<String>,
}

/// What was seen of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedTensor {
    /// Name of the value.
    pub name: String,
    /// Smallest and largest value; `None` if it had none.
    #[serde(default)]
    pub range: Option<(f64, f64)>,
    /// Average of the smallest and of the largest value of parts of the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<(f64, f64)>,
    /// Elements that are zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub zeros: u64,
    /// Elements that are not finite.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_finite: u64,
    /// How often which values were seen, if it is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<SavedHistogram>,
    /// Largest magnitude of each channel, if it is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<f64>,
    /// What each channel is on average, as far as samples told, if it is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub means: Vec<f32>,
}

/// Counts in bins of equal width.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedHistogram {
    /// Where the first bin begins.
    pub low: f64,
    /// Where the last one ends.
    pub high: f64,
    /// Width of a bin.
    pub width: f64,
    /// Values in each.
    #[serde(serialize_with = "packed", deserialize_with = "still_packed")]
    pub counts: Vec<u64>,
}

/// What a file says first.
#[derive(Serialize)]
struct SavedCalibration<'a> {
    onnxd_calibration: u32,
    #[serde(flatten)]
    saved: &'a Saved,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Deserialize)]
struct Version {
    onnxd_calibration: u32,
}

/// That the statistics in a file cannot be used, with `why` and what to do.
#[must_use]
pub fn unusable((file, help): (&str, &'static str), why: &str) -> Diagnostic {
    let text = format!("the statistics in `{}` {why}", shown(file));
    Diagnostic::new(Code::StatisticsUnusable, text).help(help)
}

impl Saved {
    /// Refuses statistics that are not those of `quantizer`, or that depended on other facts.
    ///
    /// # Errors
    /// `N0603`, with what differs; `file` is their name, and `help` what to do.
    pub fn check(
        &self,
        (file, help): (&str, &'static str),
        quantizer: &str,
        wanted: &BTreeMap<String, String>,
    ) -> Result<(), Diagnostic> {
        let differing = self.differing(wanted);
        let why = match differing.as_slice() {
            _ if self.quantizer != quantizer => {
                format!("are those of the quantizer `{}`", shown(&self.quantizer))
            }
            [] => return Ok(()),
            all if all.iter().any(|(fact, ..)| *fact == "network") => {
                "belong to another network, or to an earlier form of it".to_owned()
            }
            all => {
                let each = all.iter().map(|(fact, own, wanted)| {
                    format!("{fact}: {}, now {}", shown(own), shown(wanted))
                });
                format!("were collected otherwise ({})", each.collect::<Vec<_>>().join("; "))
            }
        };
        Err(unusable((file, help), &why))
    }

    /// The file's bytes.
    ///
    /// # Panics
    /// Never: all of it has a form in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let file = SavedCalibration { onnxd_calibration: VERSION, saved: self };
        let mut json = serde_json::to_vec(&file).expect("texts, numbers and lists are JSON");
        json.push(b'\n');
        json
    }

    /// Reads the bytes of a file; `name` is what it is called in messages.
    ///
    /// # Errors
    /// `N0603` for what is wrong with it.
    pub fn from_json(name: &str, json: &[u8]) -> Result<Saved, Diagnostic> {
        read(json).map_err(|why| {
            let text = format!("`{}`: {why}", shown(name));
            Diagnostic::new(Code::StatisticsUnusable, text)
        })
    }

    /// The facts that are not `wanted`: name, what the file says, what is wanted.
    #[must_use]
    pub fn differing<'a>(
        &'a self,
        wanted: &'a BTreeMap<String, String>,
    ) -> Vec<(&'a str, &'a str, &'a str)> {
        let own = |name: &String| self.facts.get(name).map_or("unknown", String::as_str);
        let all = wanted.iter().map(|(name, text)| (name.as_str(), own(name), text.as_str()));
        all.filter(|(_, own, wanted)| own != wanted).collect()
    }
}

fn read(json: &[u8]) -> Result<Saved, String> {
    refuse!(json.len() > FILE_BYTES_MAX => "more than {FILE_BYTES_MAX} bytes");
    let version: Version = serde_json::from_slice(json)
        .map_err(|e| format!("these are no statistics of a calibration: {e}"))?;
    if version.onnxd_calibration != VERSION {
        let theirs = version.onnxd_calibration;
        return Err(format!("it has version {theirs}; this onnxd reads version {VERSION}"));
    }
    let mut saved: Saved = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    refuse!(saved.tensors.len() > TENSORS_MAX => "more than {TENSORS_MAX} tensors");
    let mut left = BINS_MAX;
    let mut names = BTreeSet::new();
    for tensor in &mut saved.tensors {
        let wrong = |why: &str| format!("tensor `{}`: {why}", shown(&tensor.name));
        refuse!(!names.insert(tensor.name.clone()) => wrong("is there twice"));
        let is_none = |(min, max): (f64, f64)| !(min <= max && (max - min).is_finite());
        refuse!([tensor.range, tensor.average].into_iter().flatten().any(is_none) =>
            wrong("its range is none"));
        if let Some(histogram) = &mut tensor.histogram {
            unpack(histogram, &mut left).map_err(|why| wrong(&why))?;
        }
    }
    Ok(saved)
}

/// Runs of empty bins become one negative number.
fn packed<S: Serializer>(counts: &[u64], to: S) -> Result<S::Ok, S::Error> {
    let mut packed: Vec<i64> = Vec::new();
    for count in counts {
        match (i64::try_from(*count).unwrap_or(i64::MAX), packed.last_mut()) {
            (0, Some(run)) if *run < 0 => *run -= 1,
            (0, _) => packed.push(-1),
            (count, _) => packed.push(count),
        }
    }
    packed.serialize(to)
}

/// The numbers of the file, bit by bit: [`unpack`] counts the bins of all tensors before it makes any.
fn still_packed<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let packed = Vec::<i64>::deserialize(from)?;
    Ok(packed.into_iter().map(i64::cast_unsigned).collect())
}

fn unpack(histogram: &mut SavedHistogram, left: &mut u64) -> Result<(), String> {
    let SavedHistogram { low, high, width, ref counts } = *histogram;
    let counts = || counts.iter().map(|count| count.cast_signed());
    let mut used = 0u64;
    let mut sum = 0u64;
    for count in counts() {
        used = used.saturating_add(if count < 0 { count.unsigned_abs() } else { 1 });
        sum = sum.saturating_add(u64::try_from(count).unwrap_or(0));
    }
    *left = left.checked_sub(used).ok_or_else(|| format!("more than {BINS_MAX} bins in all"))?;
    refuse!(sum > i64::MAX as u64 => "its counts are beyond all samples");
    // How far the borders are from what the width says, in bins.
    let off = (high - low) / width - used as f64;
    refuse!(!(low.is_finite() && high.is_finite() && width > 0.0 && off.abs() < 0.5) =>
        "{used} bins of {width} do not lie between {low} and {high}");
    let mut all = Vec::with_capacity(used as usize);
    for count in counts() {
        match u64::try_from(count) {
            Ok(count) => all.push(count),
            Err(_) => all.resize(all.len() + count.unsigned_abs() as usize, 0),
        }
    }
    histogram.counts = all;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Saved {
        let histogram =
            SavedHistogram { low: -0.3, high: 0.3, width: 0.1, counts: vec![0, 0, 7, 1, 0, 0] };
        let range = Some((-0.1, 1.0 / 3.0));
        Saved {
            quantizer: "n2d2".into(),
            facts: BTreeMap::from([("network".into(), "abc".into())]),
            samples: 4,
            tensors: vec![
                SavedTensor {
                    name: "conv1".into(),
                    range,
                    histogram: Some(histogram),
                    average: Some((-0.05, 0.1)),
                    zeros: 3,
                    not_finite: 1,
                    channels: vec![0.1, 1.0 / 3.0],
                    means: vec![0.1, 1.0 / 3.0],
                },
                SavedTensor { name: "unseen".into(), ..SavedTensor::default() },
            ],
            choice: Some(SavedChoice { method: "MSE".into(), ..SavedChoice::default() }),
        }
    }

    #[test]
    fn what_is_written_is_short_and_reads_back() {
        let json = sample().to_json();
        let text = std::str::from_utf8(&json).unwrap();
        assert!(text.starts_with(r#"{"onnxd_calibration":1,"quantizer":"n2d2""#), "{text}");
        assert!(text.contains(r#""counts":[-2,7,1,-2]"#), "{text}");
        assert_eq!(Saved::from_json("a.json", &json).unwrap(), sample());
        let wanted = BTreeMap::from([
            ("network".to_owned(), "abc".to_owned()),
            ("bins".to_owned(), "64".to_owned()),
        ]);
        assert_eq!(sample().differing(&wanted), [("bins", "unknown", "64")]);
    }

    #[test]
    fn foreign_files_are_refused_with_the_reason() {
        let good = String::from_utf8(sample().to_json()).unwrap();
        let why = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            let error = Saved::from_json("a.json", good.replace(from, to).as_bytes()).unwrap_err();
            assert_eq!(error.code, "N0603");
            error.into_finding().message
        };
        for (from, to, expected) in [
            ("onnxd_calibration\":1", "onnxd_calibration\":2", "version 2"),
            ("onnxd_calibration", "other", "no statistics"),
            ("[-2,", "[-3,", "7 bins of 0.1"),
            ("[-2,", "[-9223372036854775808,", "more than"),
            ("7,1", "9223372036854775807,1", "beyond all samples"),
            ("\"width\":0.1", "\"width\":0", "do not lie"),
            ("[-0.1,", "[5,", "its range"),
            ("[-0.05,", "[5,", "its range"),
            ("\"zeros\":3", "\"zeros\":-3", "integer"),
            ("unseen", "conv1", "there twice"),
            ("\"high\":0.3", "\"high\":1e999", "number"),
            ("\"means\":[0.1", "\"means\":[1e39", "number"),
        ] {
            let message = why(from, to);
            assert!(message.contains(expected) && message.starts_with("`a.json`"), "{message}");
        }
        for bytes in [&b""[..], b"[", b"\xff", b"{}", b"PK\x03\x04"] {
            assert!(Saved::from_json("a", bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn counts_and_numbers_read_back(
            counts in prop::collection::vec(prop_oneof![Just(0u64), 0u64..1 << 40], 1..50),
            low: f32, width in 1e-6..1e6f64, min in -1e300..0.0f64, max in 0.0..1e300f64,
        ) {
            let low = f64::from(low) % 1e6;
            let high = low + width * counts.len() as f64;
            let histogram = Some(SavedHistogram { low, high, width, counts });
            let tensor = SavedTensor {
                name: "x".into(), range: Some((min, max)), histogram, ..SavedTensor::default()
            };
            let saved = Saved { tensors: vec![tensor], ..Saved::default() };
            prop_assert_eq!(Saved::from_json("x", &saved.to_json()).unwrap(), saved);
        }
    }
}
