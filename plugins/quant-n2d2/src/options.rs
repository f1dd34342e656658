//! What a user can choose, with N2D2's defaults.

use onnxd_plugin_sdk::serde::Deserialize;

/// The choices of [`crate::plan()`].
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOptions {
    /// Bits of weights and activations, 2 to 16 (`-nbbits`).
    pub bits: u32,
    /// Whether tensors that are never negative get no sign (without `-no-unsigned`).
    pub unsigned: bool,
    /// Cross-layer equalization (`-no-cle`).
    pub equalization: Equalization,
    /// Clipping of weights (`-wt-clipping-mode`); `Quantile` is for activations only.
    pub weights: Clipping,
    /// Clipping of activations (`-act-clipping-mode`).
    pub activations: Clipping,
    /// Share of the values below the threshold of `Clipping::Quantile` (`-act-quantile-value`).
    pub quantile: f64,
    /// How accumulators are rescaled (`-act-rescaling-mode`).
    pub rescaling: Rescaling,
    /// Whether every output channel has its own factor (`-act-rescale-per-output`).
    pub per_output: bool,
    /// The common scale of branches that meet.
    pub branches: Branches,
    /// How many samples set the grid of the histograms: N2D2 takes the first batch (`BatchSize`).
    pub batch: usize,
    /// Smallest and largest value of the network's inputs, if they are known. N2D2 takes those of
    /// the whole data set, not of the calibration samples alone.
    pub inputs: Option<(f64, f64)>,
    /// Whether learned weights of nine bits (the default mode of SAT with 256 levels) are rounded to
    /// eight, as N2D2 does (`-wt-round-mode RINTF`).
    pub round_weights: bool,
    /// The range of the inputs instead of their largest magnitude; `inputs` or the samples then only tell whether they
    /// have a sign.
    pub range: Option<f64>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions {
            bits: 8,
            unsigned: true,
            equalization: Equalization::Exact,
            weights: Clipping::None,
            activations: Clipping::Mse,
            quantile: 0.9999,
            rescaling: Rescaling::FloatingPoint,
            per_output: false,
            branches: Branches::Auto,
            batch: 1,
            inputs: None,
            round_weights: false,
            range: None,
        }
    }
}

/// Where the range of the inputs comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeOrigin {
    Declared,
    Data,
    Given,
}

impl PlanOptions {
    pub(crate) fn range_origin(&self) -> RangeOrigin {
        match (self.range, self.inputs) {
            (Some(_), _) => RangeOrigin::Given,
            (None, Some(_)) => RangeOrigin::Declared,
            (None, None) => RangeOrigin::Data,
        }
    }
}

impl RangeOrigin {
    /// For people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            RangeOrigin::Declared => "declared by the network",
            RangeOrigin::Data => "the largest magnitude of the calibration data",
            RangeOrigin::Given => "given by the params",
        }
    }

    /// As the method of a tensor's row.
    pub(crate) fn word(self) -> &'static str {
        match self {
            RangeOrigin::Declared => "declared",
            RangeOrigin::Data => "max",
            RangeOrigin::Given => "given",
        }
    }
}

/// Cross-layer equalization of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equalization {
    /// Not at all.
    Off,
    /// Between a convolution and a fully connected layer by blocks of inputs, as it should be; for
    /// all others as N2D2 does.
    Exact,
    /// With N2D2's error where feature maps meet a fully connected layer, which changes the
    /// function of the network; to compare with it.
    AsN2d2,
}

/// How the largest value that is represented is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "onnxd_plugin_sdk::serde")]
pub enum Clipping {
    /// The largest magnitude seen.
    None,
    /// Least mean square error.
    #[serde(rename = "MSE")]
    Mse,
    /// Least divergence of the distribution.
    #[serde(rename = "KL-Divergence")]
    KlDivergence,
    /// A quantile of the distribution.
    Quantile,
}

/// The arithmetic of rescaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "onnxd_plugin_sdk::serde")]
pub enum Rescaling {
    /// One float factor.
    #[serde(rename = "Floating-point")]
    FloatingPoint,
    /// A multiplication by an integer of 16 bits, and a shift.
    #[serde(rename = "Fixed-point16")]
    FixedPoint16,
    /// A multiplication by an integer of 32 bits, and a shift.
    #[serde(rename = "Fixed-point32", alias = "Fixed-point")]
    FixedPoint32,
    /// A shift.
    #[serde(rename = "Single-shift")]
    SingleShift,
    /// Two shifts, added.
    #[serde(rename = "Double-shift")]
    DoubleShift,
}

/// The common scale of branches that meet in a sum or concatenation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branches {
    /// N2D2's where N2D2 itself can export the network and loses little, so that integers are the
    /// same; else that of the widest branch.
    Auto,
    /// N2D2's: the product of the largest weight scale and the largest activation scale of the
    /// branches, up to some bits too wide where their weights differ.
    AsN2d2,
    /// The largest threshold of the branches.
    Tight,
}
