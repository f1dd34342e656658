//! What N2D2 does to a picture before the network sees it, as steps that anyone can follow.
//!
//! Pictures are BGR, as OpenCV reads them. The steps are those of the set that N2D2 calibrates on. What there is no
//! arithmetic for becomes a step that says so, because it may never be needed.

use onnxd_plugin_sdk::preprocess::{
    ArithmeticOperator, Border, ChannelOrder, Equalization, Norm, Sizing, Step, Steps,
    ThresholdOperation,
};

mod kernel;

use crate::diag::{Diagnostic, refuse, shown};
use crate::ini::{Ini, SectionRef, Settings, settings, words};
use crate::transformations::{ChannelScope, Transformation, transformations};

type StepsResult = Result<Vec<Step>, Diagnostic>;

/// A kind of transformation.
struct TransformationRow {
    /// Its name without `Transformation`.
    kind: &'static str,
    /// The settings that it reads, and those that do not matter.
    keys: [&'static [&'static str]; 2],
    make: fn(SectionRef) -> StepsResult,
}

const fn row<A: Settings>(
    kind: &'static str,
    make: fn(SectionRef) -> StepsResult,
) -> TransformationRow {
    TransformationRow { kind, keys: [A::KEYS, &[]], make }
}

impl TransformationRow {
    const fn beside(self, others: &'static [&'static str]) -> TransformationRow {
        TransformationRow { keys: [self.keys[0], others], ..self }
    }
}

const ROWS: &[TransformationRow] = &[
    row::<ChannelExtraction>("ChannelExtraction", |s| told(s, channel_extraction)),
    row::<ColorSpace>("ColorSpace", |s| told(s, color_space)),
    row::<Equalize>("Equalize", |s| told(s, equalize)),
    TransformationRow { kind: "Filter", keys: [&kernel::KEYS, &["Orientation"]], make: filter },
    row::<Flip>("Flip", |s| told(s, flip)),
    row::<Normalize>("Normalize", |s| told(s, normalize)),
    row::<PadCrop>("PadCrop", |s| told(s, pad_crop)),
    row::<RangeAffine>("RangeAffine", range_affine),
    row::<RangeClipping>("RangeClipping", |s| told(s, range_clipping)),
    row::<Rescale>("Rescale", |s| told(s, rescale)),
    row::<Reshape>("Reshape", |s| told(s, reshape)),
    row::<SliceExtraction>("SliceExtraction", |s| told(s, slice_extraction)).beside(&BORDERS),
    row::<Threshold>("Threshold", |s| told(s, threshold)),
    row::<Trim>("Trim", |s| told(s, trim)),
];

const BORDERS: [&str; 5] =
    ["AllowPadding", "BorderType", "BorderValue", "RandomRotationRange", "RandomScalingRange"];

/// A transformation by what its section says.
fn told<A: Settings>(section: SectionRef, make: fn(SectionRef, &A) -> StepsResult) -> StepsResult {
    make(section, &A::of(section)?)
}

words! {
    Channel { Blue, Green, Red, Gray }
    Space { BGR, RGB }
    BorderType { ConstantBorder, ReplicateBorder, ReflectBorder, WrapBorder, MinusOneReflectBorder }
    Operation { Plus, Minus, Multiplies, Divides }
    EqualizeMethod { Standard, CLAHE }
    NormType { L1, L2, Linf, MinMax }
    ThresholdType { Binary, BinaryInverted, Truncate, ToZero, ToZeroInverted }
    TrimMethod { Reduce, Discretize }
    ApplyTo { All, LearnOnly, ValidationOnly, TestOnly, NoLearn, NoValidation, NoTest }
}

settings! {
    struct ChannelExtraction { CSChannel: Channel }
    struct ColorSpace { ColorSpace: Space }
    struct Equalize {
        Method: EqualizeMethod = EqualizeMethod::Standard,
        CLAHE_ClipLimit: f64 = 40.0, CLAHE_GridSize: usize = 8,
    }
    struct Flip {
        RandomHorizontalFlip: bool = false, RandomVerticalFlip: bool = false,
        HorizontalFlip: bool = false, VerticalFlip: bool = false,
    }
    struct Normalize {
        Norm: NormType = NormType::MinMax, NormValue: f64 = 1.0,
        NormMin: f64 = 0.0, NormMax: f64 = 1.0, PerChannel: bool = false,
    }
    struct PadCrop {
        Width: i64, Height: i64, AdditiveWH: bool = false,
        BorderType: BorderType = BorderType::MinusOneReflectBorder, BorderValue: Vec<f64> = vec![],
    }
    struct RangeAffine {
        FirstOperator: Operation, FirstValue: Vec<f64>,
        SecondOperator: Operation = Operation::Plus, SecondValue: Option<Vec<f64>> = None,
        Truncate: bool = false,
    }
    struct RangeClipping { RangeMin: f64 = 0.0, RangeMax: f64 = 0.0 }
    struct Rescale {
        Width: usize, Height: usize, KeepAspectRatio: bool = false, ResizeToFit: bool = true,
    }
    struct Reshape { NbRows: usize, NbCols: usize = 0, NbChannels: usize = 0 }
    struct SliceExtraction {
        RandomOffsetX: bool = false, RandomOffsetY: bool = false,
        RandomRotation: bool = false, RandomScaling: bool = false,
        OffsetX: usize = 0, OffsetY: usize = 0, Width: usize, Height: usize,
    }
    struct Threshold {
        Threshold: f64, OtsuMethod: bool = false, MaxValue: f64 = 1.0,
        Operation: ThresholdType = ThresholdType::Binary,
    }
    struct Trim { NbLevels: usize, Method: TrimMethod = TrimMethod::Discretize }
}

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
    let transformations_found = transformations(ini, environment);
    let brings = |t: &Transformation| matches!(t.scope, Ok(ChannelScope::Brings(_)));
    // From there on each channel goes its own way.
    let split =
        transformations_found.iter().position(brings).unwrap_or(transformations_found.len());
    let (whole, apart) = transformations_found.split_at(split);
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
    let steps = Steps(steps);
    match steps.are_few() {
        true => steps,
        false => Steps(vec![unavailable(environment, "there are too many transformations")]),
    }
}

/// The steps of one section. `brought` is how many channels there are where sections bring them.
fn of_section(t: &Transformation, set: Set, brought: Option<usize>) -> Vec<Step> {
    let section = t.section;
    let made = match (applies(section, set), t.scope.clone()) {
        (Ok(false), _) => return vec![],
        (Err(problem), _) | (_, Err(problem)) => Err(problem),
        (_, Ok(ChannelScope::Channel(at))) if brought.is_none_or(|channels| at >= channels) => {
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
    Ok(match section.or("ApplyTo", ApplyTo::All)? {
        ApplyTo::All | ApplyTo::NoLearn => true,
        ApplyTo::LearnOnly => false,
        ApplyTo::ValidationOnly | ApplyTo::NoTest => set == Set::Validation,
        ApplyTo::TestOnly | ApplyTo::NoValidation => set == Set::Test,
    })
}

fn transformation(section: SectionRef) -> StepsResult {
    let kind: String = section.required("Type")?;
    let name = kind.strip_suffix("Transformation").unwrap_or(&kind);
    let Some(row) = ROWS.iter().find(|row| row.kind == name) else {
        return Err(section.problem("Type", format!("`{}` is not supported", shown(&kind))));
    };
    let known = |key: &str| {
        row.keys.concat().contains(&key) || matches!(key, "Type" | "ApplyTo" | "Channel")
    };
    if let Some(key) = section.keys().find(|key| !known(key) && !key.starts_with('$')) {
        return Err(section.problem(key, "is not a setting of this transformation"));
    }
    // Statistics need the data that the network learned from.
    let learned = |key: &&str| section.raw(key).is_some_and(|text| text.contains("StimuliData"));
    if let Some(key) = row.keys.concat().into_iter().find(learned) {
        let what = "takes statistics of the data set, which is not there; write the number itself";
        return Err(section.problem(key, what));
    }
    (row.make)(section)
}

/// Refuses what is drawn anew for each picture.
fn not_random(section: SectionRef, drawn: &[(bool, &str)]) -> Result<(), Diagnostic> {
    let what = "draws at random; with `ApplyTo=LearnOnly` it is for training alone";
    let found = drawn.iter().find(|(drawn, _)| *drawn);
    found.map_or(Ok(()), |(_, key)| Err(section.problem(key, what)))
}

fn channel_extraction(_: SectionRef, a: &ChannelExtraction) -> StepsResult {
    Ok(vec![match a.CSChannel {
        Channel::Blue => Step::Channel { index: 0 },
        Channel::Green => Step::Channel { index: 1 },
        Channel::Red => Step::Channel { index: 2 },
        Channel::Gray => Step::Grey { order: ChannelOrder::Bgr },
    }])
}

fn color_space(_: SectionRef, a: &ColorSpace) -> StepsResult {
    let reverse = (a.ColorSpace == Space::RGB).then_some(Step::ReverseChannels);
    Ok([Step::Spread].into_iter().chain(reverse).collect())
}

fn equalize(_: SectionRef, a: &Equalize) -> StepsResult {
    let method = match a.Method {
        EqualizeMethod::Standard => Equalization::Standard,
        EqualizeMethod::CLAHE => {
            Equalization::Clahe { clip_limit: a.CLAHE_ClipLimit, grid: a.CLAHE_GridSize }
        }
    };
    Ok(vec![Step::Equalize { method, order: ChannelOrder::Bgr }])
}

fn filter(section: SectionRef) -> StepsResult {
    let kernel::FilterKernel { values: kernel, width, height } =
        kernel::FilterKernel::from_section(section)?;
    Ok(vec![Step::Filter { kernel, width, height }])
}

fn flip(section: SectionRef, a: &Flip) -> StepsResult {
    let horizontal = (a.RandomHorizontalFlip, "RandomHorizontalFlip");
    not_random(section, &[horizontal, (a.RandomVerticalFlip, "RandomVerticalFlip")])?;
    Ok(vec![Step::Flip { horizontal: a.HorizontalFlip, vertical: a.VerticalFlip }])
}

fn normalize(_: SectionRef, a: &Normalize) -> StepsResult {
    let norm = match a.Norm {
        NormType::L1 => Norm::L1,
        NormType::L2 => Norm::L2,
        NormType::Linf => Norm::Linf,
        NormType::MinMax => Norm::MinMax,
    };
    let (value, range) = (a.NormValue, [a.NormMin, a.NormMax]);
    Ok(vec![Step::Normalize { norm, value, range, per_channel: a.PerChannel }])
}

fn pad_crop(_: SectionRef, a: &PadCrop) -> StepsResult {
    let border = match a.BorderType {
        BorderType::ConstantBorder => Border::Constant { values: a.BorderValue.clone() },
        BorderType::ReplicateBorder => Border::Replicate,
        BorderType::ReflectBorder => Border::Reflect,
        BorderType::WrapBorder => Border::Wrap,
        BorderType::MinusOneReflectBorder => Border::ReflectInner,
    };
    let (width, height, additive) = (a.Width, a.Height, a.AdditiveWH);
    Ok(vec![Step::PadCrop { width, height, additive, border }])
}

/// Operations with numbers, at least one each.
pub(crate) fn range_affine(section: SectionRef) -> StepsResult {
    let a = RangeAffine::of(section)?;
    let step = |key: &str, operation: Operation, values: Vec<f64>| {
        let unusable = |v: &f64| operation == Operation::Divides && *v == 0.0;
        refuse!(values.is_empty() || values.iter().any(unusable) =>
            section.problem(key, "has no number to compute with"));
        let operator = match operation {
            Operation::Plus => ArithmeticOperator::Plus,
            Operation::Minus => ArithmeticOperator::Minus,
            Operation::Multiplies => ArithmeticOperator::Multiplies,
            Operation::Divides => ArithmeticOperator::Divides,
        };
        Ok(Step::Arithmetic { operator, values })
    };
    let mut steps = vec![step("FirstValue", a.FirstOperator, a.FirstValue)?];
    if let Some(values) = a.SecondValue {
        steps.push(step("SecondValue", a.SecondOperator, values)?);
    }
    steps.extend(a.Truncate.then_some(Step::Truncate));
    Ok(steps)
}

fn range_clipping(_: SectionRef, a: &RangeClipping) -> StepsResult {
    Ok(vec![Step::ClipRange { min: a.RangeMin, max: a.RangeMax }])
}

fn rescale(_: SectionRef, a: &Rescale) -> StepsResult {
    let sizing = match (a.KeepAspectRatio, a.ResizeToFit) {
        (false, _) => Sizing::Exact,
        (true, true) => Sizing::Fit,
        (true, false) => Sizing::Fill,
    };
    Ok(vec![Step::Resize { width: a.Width, height: a.Height, sizing }])
}

fn reshape(_: SectionRef, a: &Reshape) -> StepsResult {
    let (rows, columns, channels) = (a.NbRows, a.NbCols, a.NbChannels);
    Ok(vec![Step::Reshape { rows, columns, channels }])
}

fn slice_extraction(section: SectionRef, a: &SliceExtraction) -> StepsResult {
    let offsets = [(a.RandomOffsetX, "RandomOffsetX"), (a.RandomOffsetY, "RandomOffsetY")];
    let others = [(a.RandomRotation, "RandomRotation"), (a.RandomScaling, "RandomScaling")];
    not_random(section, &[offsets, others].concat())?;
    Ok(vec![Step::Crop { x: a.OffsetX, y: a.OffsetY, width: a.Width, height: a.Height }])
}

fn threshold(_: SectionRef, a: &Threshold) -> StepsResult {
    let operation = match a.Operation {
        ThresholdType::Binary => ThresholdOperation::Binary,
        ThresholdType::BinaryInverted => ThresholdOperation::BinaryInverted,
        ThresholdType::Truncate => ThresholdOperation::Truncate,
        ThresholdType::ToZero => ThresholdOperation::ToZero,
        ThresholdType::ToZeroInverted => ThresholdOperation::ToZeroInverted,
    };
    let (threshold, otsu, max) = (a.Threshold, a.OtsuMethod, a.MaxValue);
    Ok(vec![Step::Threshold { threshold, otsu, operation, max }])
}

fn trim(section: SectionRef, a: &Trim) -> StepsResult {
    if a.Method == TrimMethod::Reduce && a.NbLevels > 0 {
        let what = "`Reduce` finds levels by random clusters (k-means); use `Discretize`";
        return Err(section.problem("Method", what));
    }
    Ok(vec![Step::Trim { levels: a.NbLevels, order: ChannelOrder::Bgr }])
}
