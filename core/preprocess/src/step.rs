//! The steps as data.

use serde::{Deserialize, Serialize};

/// One step. Colours come as red, green, blue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Bilinear, pixel centres at halves.
    Resize {
        /// Pixels in a row.
        width: usize,
        /// Rows.
        height: usize,
        /// What becomes of the proportions.
        sizing: Sizing,
    },
    /// Adds or cuts pixels on all sides, the odd one at the left and the top when it adds.
    PadCrop {
        /// Pixels in a row.
        width: i64,
        /// Rows.
        height: i64,
        /// Whether both are added to the sizes instead of being them.
        additive: bool,
        /// What is added.
        border: Border,
    },
    /// A window of the picture.
    Crop {
        /// Pixels to the left of it.
        x: usize,
        /// Rows above it.
        y: usize,
        /// Pixels in a row.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// Mirrors.
    Flip {
        /// Left and right change places.
        horizontal: bool,
        /// Top and bottom change places.
        vertical: bool,
    },
    /// The first and the last of three channels change places; a grey picture stays.
    ReverseChannels,
    /// A grey picture gets three equal channels; one in colour stays.
    Spread,
    /// The brightness of three channels; a grey picture stays.
    Grey {
        /// What the three channels are.
        order: ChannelOrder,
    },
    /// One of three channels.
    Channel {
        /// Which, from 0.
        index: usize,
    },
    /// One channel from each list of steps, which all start from this picture.
    Split {
        /// The steps of each channel.
        channels: Vec<Vec<Step>>,
    },
    /// The samples, from here on real numbers, with one number or one for each channel.
    Arithmetic {
        /// What is done.
        operator: ArithmeticOperator,
        /// The numbers.
        values: Vec<f64>,
    },
    /// Drops fractions.
    Truncate,
    /// If samples are integers still: to `[0, 1]`, or bytes to `[-1, 1)`.
    ScaleIntegers {
        /// To `[-1, 1)`.
        signed: bool,
    },
    /// `[min, max]` becomes the whole range of the samples, or `[0, 1]` of real ones.
    ClipRange {
        /// The smallest sample; if it is not above 0, the picture's.
        min: f64,
        /// The largest sample; if it is not above 0, the picture's.
        max: f64,
    },
    /// OpenCV's `threshold`, for each channel.
    Threshold {
        /// Samples above it are above.
        threshold: f64,
        /// Whether Otsu's method finds the threshold instead.
        otsu: bool,
        /// What becomes of the samples.
        operation: ThresholdOperation,
        /// The number that `Binary` writes.
        max: f64,
    },
    /// OpenCV's `normalize`. All but [`Norm::MinMax`] give real numbers.
    Normalize {
        /// What is made equal.
        norm: Norm,
        /// To what, unless it is [`Norm::MinMax`].
        value: f64,
        /// The range of [`Norm::MinMax`], in shares of the whole range.
        range: [f64; 2],
        /// Whether each channel has its own norm.
        per_channel: bool,
    },
    /// Correlation with a kernel, the picture mirrored beyond its edges.
    Filter {
        /// The numbers, rows first.
        kernel: Vec<f64>,
        /// Numbers in a row.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// The same samples with other sizes.
    Reshape {
        /// Rows; 0 is as many as before.
        rows: usize,
        /// Pixels in a row; 0 is what follows.
        columns: usize,
        /// Samples of a pixel; 0 is as many as before.
        channels: usize,
    },
    /// Cuts off rows and columns that are like the picture's edge.
    Trim {
        /// Levels of grey that are told apart; 0 is all.
        levels: usize,
        /// What the three channels are.
        order: ChannelOrder,
    },
    /// Equalizes the histogram of the lightness.
    Equalize {
        /// How.
        method: Equalization,
        /// What the three channels are.
        order: ChannelOrder,
    },
    /// A step that there is no arithmetic for.
    Unavailable {
        /// Which, where it stands, and why.
        why: String,
    },
}

/// Proportions of a resized picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizing {
    /// Not kept.
    Exact,
    /// Kept; the sizes are the largest that fit into the given ones.
    Fit,
    /// Kept; the sizes are the smallest that the given ones fit into.
    Fill,
}

/// What a sample becomes, by whether it is above a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdOperation {
    /// Above the largest number, else 0.
    Binary,
    /// Above 0, else the largest number.
    BinaryInverted,
    /// Above the threshold.
    Truncate,
    /// Above itself, else 0.
    ToZero,
    /// Above 0.
    ToZeroInverted,
}

/// What normalization makes equal in all pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// The range.
    MinMax,
    /// The sum of absolute values.
    L1,
    /// The root of the sum of squares.
    L2,
    /// The largest absolute value.
    Linf,
}

/// How a histogram is equalized.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Equalization {
    /// That of the whole picture.
    Standard,
    /// Those of tiles, their contrast limited (CLAHE).
    Clahe {
        /// The limit, in mean counts of a level.
        clip_limit: f64,
        /// Tiles of a row and of a column.
        grid: usize,
    },
}

/// What lies beyond a picture's edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Border {
    /// One number, or one for each channel; none is 0.
    Constant {
        /// The numbers.
        values: Vec<f64>,
    },
    /// `aaa|abcd|ddd`.
    Replicate,
    /// `cba|abcd|dcb`.
    Reflect,
    /// `dcb|abcd|cba`.
    ReflectInner,
    /// `bcd|abcd|abc`.
    Wrap,
}

/// What three channels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelOrder {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
}

/// `sample OPERATOR number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArithmeticOperator {
    /// Sum.
    Plus,
    /// Difference.
    Minus,
    /// Product.
    Multiplies,
    /// Product with the reciprocal in single precision.
    Divides,
}

impl ArithmeticOperator {
    /// `sample OPERATOR value`, as it is computed in pictures.
    #[must_use]
    pub fn apply(self, sample: f32, value: f64) -> f32 {
        self.with(sample, self.number(value))
    }

    /// What is added to, taken from or multiplied with samples.
    pub(crate) fn number(self, value: f64) -> f32 {
        if self == ArithmeticOperator::Divides { (1.0 / value) as f32 } else { value as f32 }
    }

    pub(crate) fn with(self, sample: f32, number: f32) -> f32 {
        match self {
            ArithmeticOperator::Plus => sample + number,
            ArithmeticOperator::Minus => sample - number,
            ArithmeticOperator::Multiplies | ArithmeticOperator::Divides => sample * number,
        }
    }
}

impl Step {
    /// Why there is no way through this step, if it says so.
    pub(crate) fn unavailable(&self) -> Option<&str> {
        match self {
            Step::Unavailable { why } => Some(why.as_str()),
            Step::Split { channels } => channels.iter().flatten().find_map(Step::unavailable),
            _ => None,
        }
    }

    /// How many steps it is, with those of its channels.
    pub(crate) fn count(&self) -> usize {
        match self {
            Step::Split { channels } => {
                1 + channels.iter().flatten().map(Step::count).sum::<usize>() + channels.len()
            }
            _ => 1,
        }
    }
}
