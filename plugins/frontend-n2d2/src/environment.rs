//! The environment: the size of the network's input, and what happened to images before it.
//!
//! Transformations of images are not part of the model; the report has to tell about them.

use onnxd_plugin_sdk::preprocess;

use crate::diag::{Code, Diagnostic, refuse};
use crate::geometry::MapSize;
use crate::ini::{Ini, SectionRef};
use crate::preprocessing;
use crate::transformations::{Transformation, transformations};

/// Settings of the section that do not concern the network.
const SILENT: &[&str] = &[
    "BatchSize", "CachePath", "CompositeStimuli", "ConfigSection", "StreamPath", "TargetSize",
    "TargetSizeX", "TargetSizeY", "TargetSizeD",
];

/// Transformations after which images still hold integers.
const INTEGER: &[&str] = &[
    "ChannelExtractionTransformation", "ColorSpaceTransformation", "EqualizeTransformation",
    "FlipTransformation", "PadCropTransformation", "RandomResizeCropTransformation",
    "RescaleTransformation", "ReshapeTransformation", "SliceExtractionTransformation",
    "TrimTransformation",
];

/// The size of the network's input. Sections that bring channels count instead of `NbChannels`.
pub(crate) fn size(ini: &Ini, section: SectionRef) -> Result<MapSize, Diagnostic> {
    let channels = section.get::<usize>("NbChannels")?;
    let (plane, channels) = match section.get::<Vec<usize>>("Size")? {
        Some(list) => match list[..] {
            [width, height] => ([height, width], channels.unwrap_or(1)),
            [width, height, depth] if channels.is_none() => ([height, width], depth),
            [width, height, 1] => ([height, width], channels.unwrap_or(1)),
            [_, _, _] => return Err(no_depth(section, "Size")),
            _ => return Err(section.problem("Size", "must be width and height")),
        },
        None => {
            refuse!(section.get::<usize>("SizeD")?.is_some_and(|depth| depth != 1) => no_depth(section, "SizeD"));
            let width = section.required("SizeX")?;
            ([section.required("SizeY")?, width], channels.unwrap_or(1))
        }
    };
    ["SizeX", "SizeY"].iter().for_each(|key| section.asked(key));
    section.warn_unread(SILENT);
    let added = transformations(ini, section).iter().filter(|t| t.brings_channel()).count();
    if added > 0 && added != channels && section.has("NbChannels") {
        let message = format!("has no effect beside {added} sections that each bring a channel");
        section.warn_ignored("NbChannels", &message, "Remove the line.");
    }
    MapSize::new(if added > 0 { added } else { channels }, plane).check(&section.layer())
}

fn no_depth(section: SectionRef, key: &str) -> Diagnostic {
    let message = format!("`{key}` asks for a third axis; only images are supported");
    Diagnostic::new(Code::FeatureUnsupported, message).at(section.layer())
}

/// What the report says about the input of `channels` channels: the transformations, and the range
/// of its values as far as images of 8 bits and the transformations' numbers tell it. Quantizers
/// read the steps that the transformations are, and the size of a batch.
pub(crate) fn metadata(
    ini: &Ini,
    environment: SectionRef,
    channels: usize,
) -> Vec<(String, String)> {
    let sections = transformations(ini, environment);
    let text = |t: &Transformation| {
        let text = ImageTransformation::read(t.section)?.text;
        Some(t.channel().map_or(text.clone(), |channel| format!("channel {channel}: {text}")))
    };
    let texts: Vec<String> = sections.iter().filter_map(text).collect();
    let mut metadata = Vec::new();
    if !texts.is_empty() {
        metadata.push(("input.preprocessing".to_owned(), texts.join("; ")));
    }
    if let Some(range) = range(ini, environment, &sections, channels) {
        metadata.push(("input.range".to_owned(), range));
    }
    let steps = preprocessing::steps(ini, environment, channels).to_json();
    metadata.push(("input.preprocessing.steps".to_owned(), steps));
    // A size without a number is a matter of the command line that learned.
    if let Ok(Some(batch)) = environment.get::<usize>("BatchSize") {
        metadata.push(("input.batch_size".to_owned(), batch.to_string()));
    }
    metadata
}

/// The interval that 8-bit images reach after the steps that count, every channel after its own.
fn range(
    ini: &Ini,
    environment: SectionRef,
    sections: &[Transformation],
    channels: usize,
) -> Option<String> {
    let counting: Vec<(&Transformation, ImageTransformation)> = sections
        .iter()
        .filter(|t| preprocessing::counts(ini, t.section))
        .filter_map(|t| ImageTransformation::read(t.section).map(|step| (t, step)))
        .collect();
    let misplaced =
        |t: &Transformation| t.scope.is_err() || t.channel().is_some_and(|own| own >= channels);
    if counting.iter().any(|(t, _)| misplaced(t)) {
        return None;
    }
    if counting.iter().all(|(_, step)| matches!(step.change, RangeChange::Integer)) {
        let signed = environment.parameter::<bool>("DataSignedMapping").ok().flatten();
        return Some(match signed {
            Some(true) => "[-1, 1]: 8-bit images are taken as (x - 128) / 128".to_owned(),
            _ => "[0, 1]: 8-bit images are divided by 255, 16-bit images by 65535".to_owned(),
        });
    }
    let of = |channel: usize| {
        let mut integers = true;
        let own = counting.iter().filter(|(t, _)| t.concerns(channel));
        let reached =
            own.map(|(_, step)| step).try_fold((0.0, 255.0), |at, step| match &step.change {
                RangeChange::Integer => Some(at),
                RangeChange::Affine(steps) => {
                    integers = false;
                    Some(interval(steps, at))
                }
                RangeChange::Unknown => None,
            });
        // What becomes of integers beside channels of real numbers is not known.
        reached.filter(|_| !integers)
    };
    // Channels that no section names are alike.
    let named = counting.iter().filter_map(|(t, _)| t.channel()).max().map_or(0, |last| last + 1);
    let all = (0..channels.min(named + 1)).map(of).collect::<Option<Vec<_>>>()?;
    let union = |(a, b): (f32, f32), (lo, hi): (f32, f32)| (a.min(lo), b.max(hi));
    let (lo, hi) = all.into_iter().reduce(union)?;
    let finite = lo.is_finite() && hi.is_finite();
    finite.then(|| format!("[{lo}, {hi}]: of images of 8 bits after the transformations"))
}

/// A transformation of images.
struct ImageTransformation {
    text: String,
    change: RangeChange,
}

/// What a transformation does to the range of values.
enum RangeChange {
    /// Integers stay integers of the same range.
    Integer,
    /// Operations with numbers.
    Affine(Vec<preprocess::Step>),
    Unknown,
}

/// The interval that holds every channel's values after operations with one number, or one for each
/// channel.
fn interval(steps: &[preprocess::Step], (lo, hi): (f32, f32)) -> (f32, f32) {
    let numbers = |step: &preprocess::Step| match step {
        preprocess::Step::Arithmetic { values, .. } => values.len(),
        _ => 1,
    };
    let at = |x: f32, channel: usize| {
        steps.iter().fold(x, |x, step| match step {
            preprocess::Step::Arithmetic { operator, values } => {
                operator.apply(x, values[channel.min(values.len() - 1)])
            }
            _ => x,
        })
    };
    let channels = steps.iter().map(numbers).max().unwrap_or(1);
    let ends = (0..channels).flat_map(|channel| [at(lo, channel), at(hi, channel)]);
    ends.fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)))
}

impl ImageTransformation {
    /// Nothing for one that only applies while the network learns.
    fn read(section: SectionRef) -> Option<ImageTransformation> {
        // Values may refer to statistics of a data set that is not there.
        let text = |key: &str| section.text(key).ok().flatten().or_else(|| section.raw(key));
        if text("ApplyTo").is_some_and(|apply| apply == "LearnOnly") {
            return None;
        }
        let kind = text("Type")?;
        let keys = section.keys().filter(|key| *key != "Type" && !key.starts_with('$'));
        let pairs: Vec<String> = keys
            .filter_map(|key| Some(format!("{key}={}", crate::diag::shown(&text(key)?))))
            .collect();
        let floats = text("ColorSpace").is_some_and(|space| space.ends_with("_Float"));
        let change = match kind.as_str() {
            kind if INTEGER.contains(&kind) && !floats => RangeChange::Integer,
            // A value may be no number, such as the mean of a data set that is not there.
            "RangeAffineTransformation" => preprocessing::range_affine(section)
                .map_or(RangeChange::Unknown, RangeChange::Affine),
            _ => RangeChange::Unknown,
        };
        Some(ImageTransformation {
            text: format!("{}({})", crate::diag::shown(&kind), pairs.join(", ")),
            change,
        })
    }
}
