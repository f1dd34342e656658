//! What N2D2 does to a picture before the network sees it, as steps that anyone can follow.
//!
//! Pictures are BGR, as OpenCV reads them. The steps are those of the set that N2D2 calibrates on. What there is no
//! arithmetic for becomes a step that says so, because it may never be needed.

use onnxd_plugin_sdk::preprocess::{Border, Operator, Order, Sizing, Step, Steps};

use crate::diag::{Diagnostic, shown};
use crate::environment::{Scope, Transformation, transformations};
use crate::ini::{Ini, SectionRef};

type Made = Result<Vec<Step>, Diagnostic>;

/// A kind of transformation.
struct Row {
    /// Its name without `Transformation`.
    kind: &'static str,
    /// The settings that it reads.
    keys: &'static [&'static str],
    make: fn(SectionRef) -> Made,
}

const ROWS: &[Row] = &[
    Row { kind: "ChannelExtraction", keys: &["CSChannel"], make: channel_extraction },
    Row { kind: "ColorSpace", keys: &["ColorSpace"], make: color_space },
    Row {
        kind: "Flip",
        keys: &["HorizontalFlip", "RandomHorizontalFlip", "RandomVerticalFlip", "VerticalFlip"],
        make: flip,
    },
    Row {
        kind: "PadCrop",
        keys: &["AdditiveWH", "BorderType", "BorderValue", "Height", "Width"],
        make: pad_crop,
    },
    Row {
        kind: "RangeAffine",
        keys: &["FirstOperator", "FirstValue", "SecondOperator", "SecondValue", "Truncate"],
        make: range_affine,
    },
    Row {
        kind: "Rescale",
        keys: &["Height", "KeepAspectRatio", "ResizeToFit", "Width"],
        make: rescale,
    },
    Row {
        kind: "SliceExtraction",
        keys: &[
            "AllowPadding",
            "BorderType",
            "BorderValue",
            "Height",
            "OffsetX",
            "OffsetY",
            "RandomOffsetX",
            "RandomOffsetY",
            "RandomRotation",
            "RandomRotationRange",
            "RandomScaling",
            "RandomScalingRange",
            "Width",
        ],
        make: slice_extraction,
    },
];

/// The set of stimuli that N2D2 calibrates on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    Validation,
    Test,
}

/// Validation if it has anything.
fn calibration_set(ini: &Ini) -> Set {
    let Some(database) = ini.section("database") else { return Set::Test };
    let share = database.get::<f64>("Validation").ok().flatten();
    let test_too = database.get::<bool>("UseTestForValidation").ok().flatten();
    match share.is_some_and(|share| share > 0.0) || test_too == Some(true) {
        true => Set::Validation,
        false => Set::Test,
    }
}

/// Whether a section says something about the set that N2D2 calibrates on.
pub(crate) fn counts(ini: &Ini, section: SectionRef) -> bool {
    applies(section, calibration_set(ini)).unwrap_or(true)
}

/// All steps from a picture (red, green, blue) to the network's input of `channels` channels.
pub(crate) fn steps(ini: &Ini, environment: SectionRef, channels: usize) -> Steps {
    let set = calibration_set(ini);
    let mut steps = vec![Step::ReverseChannels];
    if let Some(slicing) = ini.section("database.slicing")
        && !matches!(applies(slicing, set), Ok(false))
    {
        steps.push(unavailable(slicing, "pictures that are cut into slices are not supported"));
    }
    let found = transformations(ini, environment);
    let brings = |t: &Transformation| matches!(t.scope, Ok(Scope::Brings(_)));
    // From there on each channel goes its own way.
    let split = found.iter().position(brings).unwrap_or(found.len());
    let (whole, apart) = found.split_at(split);
    steps.extend(whole.iter().flat_map(|t| of_section(t, set, None)));
    if !apart.is_empty() {
        let way = |channel| {
            let own = apart.iter().filter(|t| t.concerns(channel));
            own.flat_map(|t| of_section(t, set, Some(channels))).collect()
        };
        steps.push(Step::Split { channels: (0..channels).map(way).collect() });
    }
    match environment.parameter::<bool>("DataSignedMapping") {
        Ok(signed) => steps.push(Step::ScaleIntegers { signed: signed.unwrap_or(false) }),
        Err(problem) => steps.push(unavailable(environment, &problem.message)),
    }
    Steps(steps)
}

/// The steps of one section. `brought` is how many channels there are where sections bring them.
fn of_section(t: &Transformation, set: Set, brought: Option<usize>) -> Vec<Step> {
    let section = t.section;
    let made = match (applies(section, set), t.scope.clone()) {
        (Ok(false), _) => return vec![],
        (Err(problem), _) | (_, Err(problem)) => Err(problem),
        (_, Ok(Scope::Channel(at))) if brought.is_none_or(|channels| at >= channels) => {
            let what = format!("is {at}, and no section brings that channel");
            Err(section.problem("Channel", what))
        }
        _ => transformation(section),
    };
    made.unwrap_or_else(|problem| vec![unavailable(section, &problem.message)])
}

fn unavailable(section: SectionRef, why: &str) -> Step {
    let why = format!("[{}] ({}): {why}", shown(section.name()), section.place());
    Step::Unavailable { why }
}

/// Whether a section says something about this set.
fn applies(section: SectionRef, set: Set) -> Result<bool, Diagnostic> {
    let words = [
        ("All", true),
        ("LearnOnly", false),
        ("ValidationOnly", set == Set::Validation),
        ("TestOnly", set == Set::Test),
        ("NoLearn", true),
        ("NoValidation", set != Set::Validation),
        ("NoTest", set != Set::Test),
    ];
    Ok(section.choice("ApplyTo", &words)?.unwrap_or(true))
}

fn transformation(section: SectionRef) -> Made {
    let kind: String = section.required("Type")?;
    let name = kind.strip_suffix("Transformation").unwrap_or(&kind);
    let Some(row) = ROWS.iter().find(|row| row.kind == name) else {
        return Err(section.problem("Type", format!("`{}` is not supported", shown(&kind))));
    };
    let known =
        |key: &str| row.keys.contains(&key) || matches!(key, "Type" | "ApplyTo" | "Channel");
    if let Some(key) = section.keys().find(|key| !known(key) && !key.starts_with('$')) {
        return Err(section.problem(key, "is not a setting of this transformation"));
    }
    // Statistics need the data that the network learned from.
    let learned = |key: &&&str| section.raw(key).is_some_and(|text| text.contains("StimuliData"));
    if let Some(key) = row.keys.iter().find(learned) {
        let what = "takes statistics of the data set, which is not there; write the number itself";
        return Err(section.problem(key, what));
    }
    (row.make)(section)
}

/// Refuses what is drawn anew for each picture.
fn not_random(section: SectionRef, keys: &[&str]) -> Result<(), Diagnostic> {
    for key in keys {
        if section.or(key, false)? {
            let what = "draws at random; with `ApplyTo=LearnOnly` it is for training alone";
            return Err(section.problem(key, what));
        }
    }
    Ok(())
}

fn channel_extraction(section: SectionRef) -> Made {
    let words = [
        ("Blue", Step::Channel { index: 0 }),
        ("Green", Step::Channel { index: 1 }),
        ("Red", Step::Channel { index: 2 }),
        ("Gray", Step::Grey { order: Order::Bgr }),
    ];
    match section.choice("CSChannel", &words)? {
        Some(step) => Ok(vec![step]),
        None => Err(section.problem("CSChannel", "is missing")),
    }
}

fn color_space(section: SectionRef) -> Made {
    let words = [("BGR", vec![Step::Spread]), ("RGB", vec![Step::Spread, Step::ReverseChannels])];
    match section.choice("ColorSpace", &words)? {
        Some(steps) => Ok(steps),
        None => Err(section.problem("ColorSpace", "is missing")),
    }
}

fn flip(section: SectionRef) -> Made {
    not_random(section, &["RandomHorizontalFlip", "RandomVerticalFlip"])?;
    let horizontal = section.or("HorizontalFlip", false)?;
    let vertical = section.or("VerticalFlip", false)?;
    Ok(vec![Step::Flip { horizontal, vertical }])
}

fn pad_crop(section: SectionRef) -> Made {
    let values = section.get("BorderValue")?.unwrap_or_default();
    let words = [
        ("ConstantBorder", Border::Constant { values }),
        ("ReplicateBorder", Border::Replicate),
        ("ReflectBorder", Border::Reflect),
        ("WrapBorder", Border::Wrap),
        ("MinusOneReflectBorder", Border::ReflectInner),
    ];
    Ok(vec![Step::PadCrop {
        width: section.required("Width")?,
        height: section.required("Height")?,
        additive: section.or("AdditiveWH", false)?,
        border: section.choice("BorderType", &words)?.unwrap_or(Border::ReflectInner),
    }])
}

/// Operations with numbers, at least one each.
pub(crate) fn range_affine(section: SectionRef) -> Made {
    let words = [
        ("Plus", Operator::Plus),
        ("Minus", Operator::Minus),
        ("Multiplies", Operator::Multiplies),
        ("Divides", Operator::Divides),
    ];
    let step = |key: &str, operator: Operator, values: Vec<f64>| {
        let unusable = |v: &f64| !v.is_finite() || (operator == Operator::Divides && *v == 0.0);
        if values.is_empty() || values.iter().any(unusable) {
            return Err(section.problem(key, "has no number to compute with"));
        }
        Ok(Step::Arithmetic { operator, values })
    };
    let Some(first) = section.choice("FirstOperator", &words)? else {
        return Err(section.problem("FirstOperator", "is missing"));
    };
    let mut steps = vec![step("FirstValue", first, section.required("FirstValue")?)?];
    let second = section.choice("SecondOperator", &words)?.unwrap_or(Operator::Plus);
    if let Some(values) = section.get("SecondValue")? {
        steps.push(step("SecondValue", second, values)?);
    }
    if section.or("Truncate", false)? {
        steps.push(Step::Truncate);
    }
    Ok(steps)
}

fn rescale(section: SectionRef) -> Made {
    let sizing = match (section.or("KeepAspectRatio", false)?, section.or("ResizeToFit", true)?) {
        (false, _) => Sizing::Exact,
        (true, true) => Sizing::Fit,
        (true, false) => Sizing::Fill,
    };
    let (width, height) = (section.required("Width")?, section.required("Height")?);
    Ok(vec![Step::Resize { width, height, sizing }])
}

fn slice_extraction(section: SectionRef) -> Made {
    let random = ["RandomOffsetX", "RandomOffsetY", "RandomRotation", "RandomScaling"];
    not_random(section, &random)?;
    Ok(vec![Step::Crop {
        x: section.or("OffsetX", 0)?,
        y: section.or("OffsetY", 0)?,
        width: section.required("Width")?,
        height: section.required("Height")?,
    }])
}
