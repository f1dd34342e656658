//! The environment: the size of the network's input, and what happened to images before it.
//!
//! Transformations of images are not part of the model; the report has to tell about them.

use onnxd_plugin_sdk::preprocess;

use crate::build::Size;
use crate::diag::{Code, Diagnostic};
use crate::ini::{Ini, SectionRef};
use crate::preprocessing;

/// Settings of the section that do not concern the network.
const SILENT: &[&str] = &[
    "BatchSize",
    "CachePath",
    "CompositeStimuli",
    "ConfigSection",
    "StreamPath",
    "TargetSize",
    "TargetSizeX",
    "TargetSizeY",
    "TargetSizeD",
];
const KEYS: &[&str] = &["SizeX", "SizeY", "NbChannels", "Size"];

/// Transformations after which images still hold integers.
const INTEGER: &[&str] = &[
    "ChannelExtractionTransformation",
    "ColorSpaceTransformation",
    "FlipTransformation",
    "PadCropTransformation",
    "RandomResizeCropTransformation",
    "RescaleTransformation",
    "SliceExtractionTransformation",
    "TrimTransformation",
];

/// The size of the network's input.
pub(crate) fn size(section: SectionRef) -> Result<Size, Diagnostic> {
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
            if section.get::<usize>("SizeD")?.is_some_and(|depth| depth != 1) {
                return Err(no_depth(section, "SizeD"));
            }
            let width = section.required("SizeX")?;
            ([section.required("SizeY")?, width], channels.unwrap_or(1))
        }
    };
    section.warn_unread(KEYS, SILENT);
    Size::new(channels, plane).check(&section.layer())
}

fn no_depth(section: SectionRef, key: &str) -> Diagnostic {
    let message = format!("`{key}` asks for a third axis; only images are supported");
    Diagnostic::new(Code::FeatureUnsupported, message).at(section.layer())
}

/// The sections of transformations in N2D2's order, and whether each is about whole images rather than single channels.
/// Those that can be cached come first, wherever they stand.
pub(crate) fn transformations<'i>(
    ini: &'i Ini,
    environment: SectionRef<'i>,
) -> Vec<(SectionRef<'i>, bool)> {
    let mut found = Vec::new();
    for kind in ["Transformation", "OnTheFlyTransformation"] {
        let prefixes =
            ["", "Channel", "Channels"].map(|of| format!("{}.{of}{kind}", environment.name()));
        let named = |s: SectionRef<'i>| {
            let prefix = prefixes.iter().position(|prefix| s.name().starts_with(prefix));
            prefix.map(|of| (s, of == 0))
        };
        found.extend(ini.sections().filter_map(named));
    }
    found
}

/// What the report says about the input: the transformations, and the range of its values as far
/// as images of 8 bits and the transformations' numbers tell it. Quantizers read the steps that the
/// transformations are, and the size of a batch.
pub(crate) fn metadata(ini: &Ini, environment: SectionRef) -> Vec<(String, String)> {
    let sections = transformations(ini, environment);
    let steps: Vec<Step> = sections.iter().filter_map(|(s, _)| Step::read(*s)).collect();
    let mut metadata = Vec::new();
    if !steps.is_empty() {
        let texts: Vec<&str> = steps.iter().map(|step| step.text.as_str()).collect();
        metadata.push(("input.preprocessing".to_owned(), texts.join("; ")));
    }
    let counting = sections.iter().filter(|(s, _)| preprocessing::counts(ini, *s));
    let counting: Vec<Step> = counting.filter_map(|(s, _)| Step::read(*s)).collect();
    if let Some(range) = range(environment, &counting) {
        metadata.push(("input.range".to_owned(), range));
    }
    let steps = preprocessing::steps(ini, environment).to_json();
    metadata.push(("input.preprocessing.steps".to_owned(), steps));
    // A size that nobody gave a number is a matter of the command line that learned.
    if let Ok(Some(batch)) = environment.get::<usize>("BatchSize") {
        metadata.push(("input.batch_size".to_owned(), batch.to_string()));
    }
    metadata
}

/// The interval that images of 8 bits reach after the steps.
fn range(environment: SectionRef, steps: &[Step]) -> Option<String> {
    if steps.iter().all(|step| matches!(step.change, Change::Integer)) {
        let signed = environment.parameter::<bool>("DataSignedMapping").ok().flatten();
        return Some(match signed {
            Some(true) => "[-1, 1]: 8-bit images are taken as (x - 128) / 128".to_owned(),
            _ => "[0, 1]: 8-bit images are divided by 255, 16-bit images by 65535".to_owned(),
        });
    }
    let after = steps.iter().try_fold((0.0, 255.0), |at, step| match &step.change {
        Change::Integer => Some(at),
        Change::Affine(steps) => Some(interval(steps, at)),
        Change::Unknown => None,
    });
    let (lo, hi) = after.filter(|(lo, hi)| lo.is_finite() && hi.is_finite())?;
    Some(format!("[{lo}, {hi}]: of images of 8 bits after the transformations"))
}

/// A transformation of images.
struct Step {
    text: String,
    change: Change,
}

/// What a transformation does to the range of values.
enum Change {
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

impl Step {
    /// Nothing for one that only applies while the network learns.
    fn read(section: SectionRef) -> Option<Step> {
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
            kind if INTEGER.contains(&kind) && !floats => Change::Integer,
            // A value may be no number, such as the mean of a data set that is not there.
            "RangeAffineTransformation" => {
                preprocessing::range_affine(section).map_or(Change::Unknown, Change::Affine)
            }
            _ => Change::Unknown,
        };
        Some(Step { text: format!("{}({})", crate::diag::shown(&kind), pairs.join(", ")), change })
    }
}
