//! The params of the quantizer, in N2D2's words.

use crate::options::{Clipping, Rescaling};
use onnxd_plugin_sdk::serde::Deserialize;
use onnxd_plugin_sdk::serde_json::Value;

/// How learned numbers are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "onnxd_plugin_sdk::serde", rename_all = "UPPERCASE")]
pub(crate) enum Rounding {
    None,
    Rintf,
}

onnxd_plugin_sdk::params! {
    /// Params of the quantizer `n2d2`.
    pub(crate) struct Params in "quantization.n2d2" {
        /// Bits of weights and activations.
        nbbits: u32 = "1..16 | 32 | 64", 8;
        /// Calibration samples; -1 uses all, 0 none.
        calib: i64 = "-1..4294967295", -1, option "calib";
        /// N2D2's name of `calibration.reload`.
        calib_reload: bool = "bool", false, option "calib-reload";
        /// How the range of weights is clipped.
        wt_clipping_mode: Clipping = "None | MSE | KL-Divergence", "None", option "wt-clipping-mode";
        /// How the range of activations is clipped.
        act_clipping_mode: Clipping = "None | MSE | KL-Divergence | Quantile", "MSE", option "act-clipping-mode";
        /// How accumulators are brought back to the range of the next layer; `Fixed-point` is the
        /// same as `Fixed-point32`.
        act_rescaling_mode: Rescaling = "Floating-point | Fixed-point16 | Fixed-point32 | \
            Fixed-point | Single-shift | Double-shift", "Single-shift", option "act-rescaling-mode";
        /// One rescaling for each output channel.
        act_rescale_per_output: bool = "bool", false, option "act-rescale-per-output";
        /// Share of values kept by `Quantile`.
        act_quantile_value: f64 = "0.0..1.0", 0.9999, option "act-quantile-value";
        /// Range of the inputs: what the network declares, else the data's; the data's; or this number.
        stimuli_range: Value = "declared | data | positive", "declared", option "stimuli-range";
        /// All activations are signed.
        no_unsigned: bool = "bool", false, option "no-unsigned";
        /// No equalization of weights across layers.
        no_cle: bool = "bool", false, option "no-cle";
        /// Branches that meet share the scale of the widest, not N2D2's, which can be bits wider; unset
        /// does so in networks that N2D2 cannot export or spoils.
        tight_branches: Option<bool> = "bool", unset;
        /// Leave out the Cast nodes that strict ONNX needs.
        implicit_casting: bool = "bool", false, option "ImplicitCasting";
        /// The same arithmetic in floating-point operators; implies implicit_casting.
        fake_quantization: bool = "bool", false, option "FakeQuantization";
        /// Number of stimuli written beside the model; -1 is all, 0 none.
        db_export: i64 = "-1..4294967295", 0, option "db-export";
        /// Measure the accuracy of the float and of the integer network on labelled stimuli.
        test: bool = "bool", false, option "test";
        /// Labelled stimuli for `test` and `db_export`; unset takes `test.npz`, else the calibration data.
        test_data: Option<String> = "path", unset;
        /// The network was trained with SAT quantization; its learned ranges are used.
        qat_sat: bool = "bool", false, option "qat-sat";
        /// `RINTF` rounds learned weights of nine bits (SAT, default mode, 256 levels) to eight, as N2D2 does.
        wt_round_mode: Rounding = "NONE | RINTF", "NONE", option "wt-round-mode";
        /// Rounding of biases with `qat_sat`; they are always rounded.
        b_round_mode: Rounding = "NONE | RINTF", "NONE", option "b-round-mode";
        /// Rounding of clipping bounds with `qat_sat`; the bounds are the integers' own.
        c_round_mode: Rounding = "NONE | RINTF", "NONE", option "c-round-mode";
    }
}
